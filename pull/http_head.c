/* Header lines, without libcurl: what a hostile server writes is read here. */
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "pull/http.h"

/* A whole number; false: it is none, or too large. Moves *s behind it. */
static bool number(const char **s, const char *end, uint64_t *out)
{
    uint64_t v = 0;
    const char *p = *s;
    for (; p < end && *p >= '0' && *p <= '9'; p++)
        if (__builtin_mul_overflow(v, (uint64_t)10, &v) || __builtin_add_overflow(v, (uint64_t)(*p - '0'), &v))
            return false;
    if (p == *s)
        return false;
    *s = p;
    *out = v;
    return true;
}

/* "bytes 0-99/1000"; an unknown total, "*", is as good as none. */
static void content_range(struct http_head *h, const char *s, const char *end)
{
    uint64_t first, last, total;
    if (end - s < 6 || strncasecmp(s, "bytes ", 6) != 0)
        return;
    s += 6;
    if (!number(&s, end, &first) || s == end || *s++ != '-' || !number(&s, end, &last) || s == end || *s++ != '/' ||
        !number(&s, end, &total) || s != end || last < first || last >= total)
        return;
    h->has_range = true;
    h->first = first;
    h->last = last;
    h->total = total;
}

/* A weak validator, W/"...", says nothing about bytes (RFC 9110, section 8.8.1): it counts as none. */
static void copy_etag(char out[HTTP_ETAG], const char *s, const char *end)
{
    size_t n = (size_t)(end - s);
    out[0] = 0;
    if (n < 2 || n >= HTTP_ETAG || *s != '"' || end[-1] != '"')
        return;
    for (const char *p = s; p < end; p++)
        if (!isprint((unsigned char)*p))
            return;
    memcpy(out, s, n);
    out[n] = 0;
}

static bool named(const char *line, size_t n_name, const char *name)
{
    return strlen(name) == n_name && strncasecmp(line, name, n_name) == 0;
}

void http_head_line(struct http_head *h, const char *line, size_t n)
{
    size_t before = h->n_bytes;
    if (n >= 5 && memcmp(line, "HTTP/", 5) == 0)
        *h = (struct http_head){ .n_bytes = before }; /* also after an interim answer */
    h->n_bytes += n;
    const char *colon = memchr(line, ':', n), *end = line + n, *s;
    if (!colon)
        return;
    for (s = colon + 1; s < end && (*s == ' ' || *s == '\t'); s++)
        ;
    while (end > s && isspace((unsigned char)end[-1]))
        end--;
    size_t n_name = (size_t)(colon - line);
    if (named(line, n_name, "etag"))
        copy_etag(h->etag, s, end);
    else if (named(line, n_name, "x-linked-etag"))
        copy_etag(h->linked_etag, s, end);
    else if (named(line, n_name, "x-linked-size")) {
        if (!number(&s, end, &h->linked_size) || s != end)
            h->linked_size = 0;
    } else if (named(line, n_name, "content-range"))
        content_range(h, s, end);
}
