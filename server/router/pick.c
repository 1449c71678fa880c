#include "server/router/pick.h"

#include <string.h>

#include "base/json.h"

struct text {
    const char *s, *end;
};

static void skip_blanks(struct text *t)
{
    while (t->s < t->end && memchr(" \t\r\n", *t->s, 4))
        t->s++;
}

/* Past the string that begins here. */
static void skip_string(struct text *t)
{
    for (t->s++; t->s < t->end && *t->s != '"'; t->s++)
        t->s += *t->s == '\\' && t->s + 1 < t->end;
    t->s += t->s < t->end;
}

/* Past a value: up to the comma or bracket that ends it. */
static void skip_value(struct text *t)
{
    size_t depth = 0;
    while (t->s < t->end) {
        char c = *t->s;
        if (c == '"') {
            skip_string(t);
            continue;
        }
        if (c == '{' || c == '[')
            depth++;
        else if ((c == '}' || c == ']' || c == ',') && !depth)
            return;
        else if (c == '}' || c == ']')
            depth--;
        t->s++;
    }
}

static bool is(const char *s, size_t n, const char *word)
{
    return n == strlen(word) && memcmp(s, word, n) == 0;
}

static void take_model(const char *s, size_t n, struct pick *out)
{
    json_t *v = n && *s == '"' && n < 4 * (size_t)PICK_NAME ? json_read(s, n, JSON_DECODE_ANY, NULL, NULL) : NULL;
    out->model[0] = 0;
    if (json_is_string(v) && json_string_length(v) < sizeof out->model)
        memcpy(out->model, json_string_value(v), json_string_length(v) + 1);
    json_decref(v);
}

void pick_read(const char *s, size_t n, struct pick *out)
{
    struct text t = { s, s + n };
    *out = (struct pick){ .stream = -1 };
    skip_blanks(&t);
    if (t.s == t.end || *t.s != '{')
        return;
    for (t.s++; t.s < t.end; t.s++) { /* past { or , */
        skip_blanks(&t);
        if (t.s == t.end || *t.s != '"')
            return;
        const char *key = t.s + 1;
        skip_string(&t);
        size_t n_key = (size_t)(t.s - key) - 1;
        skip_blanks(&t);
        if (t.s == t.end || *t.s++ != ':')
            return;
        skip_blanks(&t);
        const char *value = t.s;
        skip_value(&t);
        size_t n_value = (size_t)(t.s - value);
        while (n_value && memchr(" \t\r\n", value[n_value - 1], 4))
            n_value--;
        if (is(key, n_key, "model"))
            take_model(value, n_value, out);
        else if (is(key, n_key, "stream"))
            out->stream = is(value, n_value, "true") ? 1 : is(value, n_value, "false") ? 0 : -1;
        if (t.s == t.end || *t.s != ',')
            return;
    }
}

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : (c | 0x20) >= 'a' && (c | 0x20) <= 'f' ? (c | 0x20) - 'a' + 10 : -1;
}

bool pick_query(const char *query, char model[PICK_NAME])
{
    while (query && *query && strncmp(query, "model=", 6) != 0) {
        query = strchr(query, '&');
        query = query ? query + 1 : NULL;
    }
    if (!query || !*query)
        return false;
    size_t n = 0;
    for (query += 6; *query && *query != '&' && n < PICK_NAME - 1; query++) {
        int hi = query[0] == '%' ? hex(query[1]) : -1, lo = hi < 0 ? -1 : hex(query[2]);
        model[n++] = *query == '+' ? ' ' : lo < 0 ? *query : (char)(hi << 4 | lo);
        query += lo < 0 ? 0 : 2;
    }
    model[n] = 0;
    return model[0] != 0; /* %00 ends it */
}
