/* rt/auto_file.c: the order of the ways to an AMD card, as text. */
#include "rt/auto_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char head[] = "zinc: ways to an AMD card, microseconds of a small step\n";

#define MOST_US 1e9 /* a quarter of an hour */

/* A way's line; the rest of the text, NULL where it makes no sense. */
static const char *read_line(const char *text, char name[AUTO_NAME_BYTES], double *us)
{
    char value[24];
    int used = 0;
    if (sscanf(text, "%15[a-z] %23[0-9a-z.]%n", name, value, &used) != 2 || text[used] != '\n')
        return NULL;
    if (strcmp(value, "failed") == 0) {
        *us = -1.0;
        return text + used + 1;
    }
    char *end = value;
    *us = strspn(value, "0123456789.") == strlen(value) ? strtod(value, &end) : 0.0;
    return *us > 0.0 && *us < MOST_US && !*end ? text + used + 1 : NULL;
}

static const char *read_times(const char *text, struct auto_time *t, uint32_t n)
{
    uint32_t seen = 0;
    for (; *text; seen++) {
        char name[AUTO_NAME_BYTES];
        double us = 0.0;
        uint32_t i = 0;
        if (!(text = read_line(text, name, &us)))
            return "a line of it makes no sense";
        while (i < n && strcmp(t[i].name, name) != 0)
            i++;
        if (i == n || t[i].us != 0.0)
            return "a line of it makes no sense";
        t[i].us = us;
    }
    return seen == n ? NULL : "a way is missing";
}

const char *auto_file_read(const char *text, const char *key, struct auto_time *t, uint32_t n)
{
    size_t n_head = strlen(head), n_key = strlen(key);
    for (uint32_t i = 0; i < n; i++)
        t[i].us = 0.0;
    if (strncmp(text, head, n_head) != 0)
        return "it is none of zinc's";
    text += n_head;
    if (strncmp(text, key, n_key) != 0 || text[n_key] != '\n')
        return "it is of another card, kernel, firmware, version or choice of ways";
    const char *wrong = read_times(text + n_key + 1, t, n);
    for (uint32_t i = 0; i < n && wrong; i++)
        t[i].us = 0.0;
    return wrong;
}

size_t auto_file_write(char *text, size_t cap, const char *key, const struct auto_time *t, uint32_t n)
{
    size_t len = (size_t)snprintf(text, cap, "%s%s\n", head, key);
    for (uint32_t i = 0; i < n && len < cap; i++)
        len += (size_t)(t[i].us < 0.0 ? snprintf(text + len, cap - len, "%s failed\n", t[i].name)
                                      : snprintf(text + len, cap - len, "%s %.2f\n", t[i].name, t[i].us < 0.01 ? 0.01 : t[i].us));
    return len < cap ? len : 0;
}

void auto_file_describe(const char *text, char *out, size_t n)
{
    size_t len = 0;
    out[0] = 0;
    if (strncmp(text, head, strlen(head)) != 0 || !(text = strchr(text + strlen(head), '\n')))
        return;
    for (text++; *text && len < n;) {
        char name[AUTO_NAME_BYTES];
        double us = 0.0;
        if (!(text = read_line(text, name, &us))) {
            out[0] = 0;
            return;
        }
        len += (size_t)(us < 0.0 ? snprintf(out + len, n - len, "%s%s failed", len ? ", " : "", name)
                                 : snprintf(out + len, n - len, "%s%s %.2f", len ? ", " : "", name, us));
    }
}
