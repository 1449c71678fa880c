/* rt/auto_file.c: times that were measured once, as text, and its file. */
#include "rt/auto_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"

static const char head[] = "zinc: measured once, microseconds of a step\n";

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
    return seen == n ? NULL : "a line is missing";
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
        return "it is of another device, kernel, firmware, version or choice";
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

/* ---- the file ---- */

static bool read_file(const char *name, char text[AUTO_FILE_BYTES], char path[CACHE_PATH])
{
    path[0] = 0;
    FILE *f = cache_path(NULL, name, path) ? fopen(path, "rb") : NULL;
    if (!f)
        return false;
    size_t n = fread(text, 1, AUTO_FILE_BYTES, f);
    fclose(f);
    text[n < AUTO_FILE_BYTES ? n : 0] = 0; /* too long: none of ours */
    return true;
}

bool auto_file_load(const char *name, const char *key, struct auto_time *t, uint32_t n, char path[CACHE_PATH])
{
    char text[AUTO_FILE_BYTES];
    if (!read_file(name, text, path))
        return false;
    const char *wrong = auto_file_read(text, key, t, n);
    if (wrong)
        log_info(RT, "%s is ignored: %s", path, wrong);
    return !wrong;
}

void auto_file_keep(const char *name, const char *key, const struct auto_time *t, uint32_t n)
{
    char text[AUTO_FILE_BYTES], path[CACHE_PATH];
    size_t len = auto_file_write(text, sizeof text, key, t, n);
    if (!cache_path(NULL, name, path))
        log_info(RT, "what was measured is not kept: no HOME and no XDG_CACHE_HOME");
    else if (!len || !cache_write(path, NULL, 0, text, len))
        log_info(RT, "%s cannot be written: the next start measures again", path);
}

void auto_file_tell(const char *name, char *out, size_t n, char path[CACHE_PATH])
{
    char text[AUTO_FILE_BYTES];
    out[0] = 0;
    if (read_file(name, text, path))
        auto_file_describe(text, out, n);
}
