#include "server/out.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FIRST_CAP = 256 };

void out_finish(struct out *o)
{
    free(o->s);
    budget_give(o->budget, o->cap);
    *o = (struct out){ .budget = o->budget };
}

void out_clear(struct out *o)
{
    o->n = 0;
}

static char *room(struct out *o, size_t n)
{
    if (o->failed)
        return NULL;
    if (o->cap - o->n < n) {
        size_t cap = o->cap ? o->cap : FIRST_CAP;
        while (cap - o->n < n && cap <= SIZE_MAX / 2)
            cap *= 2;
        bool paid = cap - o->n >= n && budget_take(o->budget, cap - o->cap) == 0;
        char *s = paid ? realloc(o->s, cap) : NULL;
        if (!s) {
            if (paid)
                budget_give(o->budget, cap - o->cap);
            o->failed = true;
            return NULL;
        }
        o->s = s;
        o->cap = cap;
    }
    return o->s + o->n;
}

void out_raw(struct out *o, const char *s, size_t n)
{
    char *at = n ? room(o, n) : NULL;
    if (!at)
        return;
    memcpy(at, s, n);
    o->n += n;
}

void out_text(struct out *o, const char *s)
{
    out_raw(o, s, strlen(s));
}

void out_join(struct out *o, const struct out *from)
{
    out_raw(o, from->s, from->n);
    o->failed |= from->failed;
}

size_t out_char(const char *s, size_t n)
{
    unsigned char a = (unsigned char)s[0], b = n > 1 ? (unsigned char)s[1] : 0;
    size_t len = a < 0x80 ? 1 : a < 0xc2 ? 0 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 0;
    if (len == 0 || len > n)
        return 0;
    if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) || (a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f))
        return 0;
    for (size_t i = 1; i < len; i++)
        if (((unsigned char)s[i] & 0xc0) != 0x80)
            return 0;
    return len;
}

/* One character that may not stand in a string as it is. */
static void escape(struct out *o, unsigned char c)
{
    static const char names[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
    const char *name = c ? strchr(names, c) : NULL;
    char buf[8];
    if (c >= 0x80)
        snprintf(buf, sizeof buf, "\xef\xbf\xbd");
    else if (name)
        snprintf(buf, sizeof buf, "\\%c", letters[name - names]);
    else
        snprintf(buf, sizeof buf, "\\u%04x", c);
    out_text(o, buf);
}

void out_escaped(struct out *o, const char *s, size_t n)
{
    size_t from = 0, i = 0;
    if (n == 0)
        return;
    while (i < n) {
        unsigned char c = (unsigned char)s[i];
        size_t len = c >= 0x80 ? out_char(s + i, n - i) : c >= 0x20 && c != '"' && c != '\\';
        if (len == 0) {
            out_raw(o, s + from, i - from);
            escape(o, c);
            from = i + 1;
        }
        i += len ? len : 1;
    }
    out_raw(o, s + from, n - from);
}

void out_string(struct out *o, const char *s, size_t n)
{
    out_text(o, "\"");
    out_escaped(o, s, n);
    out_text(o, "\"");
}

void out_int(struct out *o, int64_t v)
{
    char buf[24];
    out_raw(o, buf, (size_t)snprintf(buf, sizeof buf, "%lld", (long long)v));
}

void out_real(struct out *o, double v)
{
    char buf[40];
    if (!isfinite(v))
        out_text(o, "null");
    else
        out_raw(o, buf, (size_t)snprintf(buf, sizeof buf, "%.9g", v));
}
