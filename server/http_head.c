#include "server/http_head.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "server/site.h"

enum { EMPTY_LINES = 4 /* before a request line, as old clients leave behind a body */ };

__attribute__((format(printf, 3, 4))) static int wrong(struct http_wrong *w, unsigned status, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(w->message, sizeof w->message, fmt, ap);
    va_end(ap);
    w->status = status;
    return -1;
}

static bool is_token(unsigned char c)
{
    return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || (c && strchr("!#$%&'*+-.^_`|~", c));
}

/* ---- where it ends ---- */

static int check_byte(const char *s, size_t n, size_t i, struct http_wrong *w)
{
    unsigned char c = (unsigned char)s[i];
    if (c == '\n')
        return i && s[i - 1] == '\r' ? 0 : wrong(w, 400, "a line of the head ends without CR");
    if (c == '\r')
        return i + 1 == n || s[i + 1] == '\n' ? 0 : wrong(w, 400, "a CR inside of a line of the head");
    if (i <= 1 && s[0] == 0x16 && (c == 0x16 || c == 3))
        return wrong(w, 400, "this port speaks plain HTTP, not TLS: use http://, or start zinc serve with --tls-cert and "
                             "--tls-key");
    return (c < ' ' && c != '\t') || c == 0x7f ? wrong(w, 400, "byte 0x%02x in the head of the request", c) : 0;
}

/* Finds the empty line; *from: where the request line begins. 0: it has not come yet. */
static ssize_t find_end(const char *s, size_t n, size_t *seen, size_t *from, struct http_wrong *w)
{
    size_t begin = 0;
    while (begin + 1 < n && s[begin] == '\r' && s[begin + 1] == '\n')
        begin += 2;
    if (begin > 2 * EMPTY_LINES)
        return wrong(w, 400, "empty lines instead of a request");
    *from = begin;
    size_t i = *seen;
    for (; i < n; i++) {
        if (check_byte(s, n, i, w))
            return -1;
        if (s[i] == '\r' && i + 1 == n)
            break; /* its LF decides */
        if (s[i] == '\n' && i >= begin + 3 && s[i - 2] == '\n')
            break;
    }
    if (i < n && i < HTTP_HEAD_MAX && s[i] == '\n')
        return (ssize_t)(i + 1);
    *seen = i;
    return n >= HTTP_HEAD_MAX ? wrong(w, 431, "the head of the request has more than %d bytes", HTTP_HEAD_MAX) : 0;
}

/* ---- request line ---- */

/* http://authority/path: what a proxy would be asked. The authority stands for Host. */
static int whole_url(char *s, struct http_head *h, struct http_wrong *w)
{
    char *url = s + h->target;
    size_t scheme = strncasecmp(url, "http://", 7) == 0 ? 7 : strncasecmp(url, "https://", 8) == 0 ? 8 : 0;
    if (!scheme)
        return wrong(w, 400, "the target of the request is neither a path nor an URL");
    size_t n = strcspn(url + scheme, "/?#");
    char name[256];
    if (url[scheme + n] != '/' || !site_name(url + scheme, n, name, sizeof name))
        return wrong(w, 400, "the target of the request is an URL without host and path");
    /* One byte to the left there is room for its end: the path stays where it is. */
    memmove(url, url + scheme, n);
    url[n] = 0;
    h->host = h->target;
    h->target += (uint32_t)(scheme + n);
    return 0;
}

static int read_line(char *s, size_t from, size_t end, struct http_head *h, struct http_wrong *w)
{
    size_t i = from;
    while (i < end && is_token((unsigned char)s[i]))
        i++;
    if (i == from || i == end || s[i] != ' ')
        return wrong(w, 400, "the first line is not: METHOD TARGET HTTP/1.1");
    if (i - from > HTTP_METHOD_MAX)
        return wrong(w, 400, "the method has more than %d characters", HTTP_METHOD_MAX);
    memcpy(h->method, s + from, i - from);
    h->method[i - from] = 0;
    size_t target = ++i;
    while (i < end && (unsigned char)s[i] > ' ' && (unsigned char)s[i] < 0x7f)
        i++;
    if (i == target || end - i != 9 || memcmp(s + i, " HTTP/", 6) != 0 || s[i + 7] != '.')
        return i < end && (unsigned char)s[i] >= 0x7f
                   ? wrong(w, 400, "the target of the request is not ASCII: other characters are sent as %%XX")
                   : wrong(w, 400, "the first line is not: METHOD TARGET HTTP/1.1");
    if (s[i + 6] != '1' || (s[i + 8] != '0' && s[i + 8] != '1'))
        return wrong(w, 400, "only HTTP/1.0 and HTTP/1.1 are spoken here");
    h->minor = (uint32_t)(s[i + 8] - '0');
    if (i - target > HTTP_TARGET_MAX)
        return wrong(w, 414, "the target of the request has more than %d bytes", HTTP_TARGET_MAX);
    s[i] = 0;
    h->target = (uint32_t)target;
    h->keep_alive = h->minor == 1;
    bool star = strcmp(s + target, "*") == 0 && strcmp(h->method, "OPTIONS") == 0;
    return s[target] == '/' || star ? 0 : whole_url(s, h, w);
}

/* ---- fields ---- */

static int read_host(const char *value, uint32_t at, uint32_t *n_hosts, struct http_head *h, struct http_wrong *w)
{
    char name[256];
    if ((*n_hosts)++)
        return wrong(w, 400, "more than one Host");
    if (!site_name(value, strlen(value), name, sizeof name))
        return wrong(w, 400, "Host is not a name or address with or without a port");
    if (!h->host)
        h->host = at;
    return 0;
}

static int read_length(const char *value, struct http_head *h, struct http_wrong *w)
{
    uint64_t v = 0;
    if (h->has_length)
        return wrong(w, 400, "more than one Content-Length");
    if (!*value)
        return wrong(w, 400, "Content-Length is empty");
    for (; *value; value++) {
        if (*value < '0' || *value > '9')
            return wrong(w, 400, "Content-Length is no number");
        unsigned digit = (unsigned)(*value - '0');
        v = v > (UINT64_MAX - digit) / 10 ? UINT64_MAX : v * 10 + digit;
    }
    h->has_length = true;
    h->length = v;
    return 0;
}

/* close and keep-alive in a list of words; others are for proxies. */
static void read_connection(const char *value, struct http_head *h)
{
    while (*value) {
        value += strspn(value, " \t,");
        size_t n = strcspn(value, " \t,");
        if (n == 5 && strncasecmp(value, "close", n) == 0)
            h->keep_alive = false;
        else if (n == 10 && strncasecmp(value, "keep-alive", n) == 0 && h->minor == 0)
            h->keep_alive = true;
        value += n;
    }
}

static int read_coding(const char *value, struct http_head *h, struct http_wrong *w)
{
    if (h->chunked)
        return wrong(w, 400, "more than one Transfer-Encoding");
    if (h->minor == 0)
        return wrong(w, 400, "Transfer-Encoding in HTTP/1.0");
    if (strcasecmp(value, "chunked") != 0)
        return wrong(w, 400, "Transfer-Encoding: only chunked is understood");
    h->chunked = true;
    return 0;
}

/* What the field means for where the request ends and what follows. */
static int note_field(char *s, uint32_t i, uint32_t *n_hosts, struct http_head *h, struct http_wrong *w)
{
    const char *name = s + h->field[i].name, *value = s + h->field[i].value;
    if (strcasecmp(name, "Host") == 0)
        return read_host(value, h->field[i].value, n_hosts, h, w);
    if (strcasecmp(name, "Content-Length") == 0)
        return read_length(value, h, w);
    if (strcasecmp(name, "Transfer-Encoding") == 0)
        return read_coding(value, h, w);
    if (strcasecmp(name, "Connection") == 0)
        read_connection(value, h);
    else if (strcasecmp(name, "Expect") == 0 && strcasecmp(value, "100-continue") != 0)
        return wrong(w, 417, "Expect: only 100-continue is understood");
    else if (strcasecmp(name, "Expect") == 0)
        h->expects = h->minor == 1;
    return 0;
}

static int read_field(char *s, size_t from, size_t end, uint32_t *n_hosts, struct http_head *h, struct http_wrong *w)
{
    size_t i = from;
    if (s[i] == ' ' || s[i] == '\t')
        return wrong(w, 400, "a line of the head begins with a blank: folded headers are not taken");
    while (i < end && is_token((unsigned char)s[i]))
        i++;
    if (i == from || i == end || s[i] != ':')
        return wrong(w, 400, "a line of the head is not: Name: value");
    if (h->n_fields == HTTP_FIELDS_MAX)
        return wrong(w, 431, "more than %d headers", HTTP_FIELDS_MAX);
    s[i++] = 0;
    while (i < end && (s[i] == ' ' || s[i] == '\t'))
        i++;
    while (end > i && (s[end - 1] == ' ' || s[end - 1] == '\t'))
        end--;
    s[end] = 0; /* at the CR at the latest */
    h->field[h->n_fields].name = (uint32_t)from;
    h->field[h->n_fields].value = (uint32_t)i;
    return note_field(s, h->n_fields++, n_hosts, h, w);
}

ssize_t http_head_read(char *s, size_t n, size_t *seen, struct http_head *h, struct http_wrong *w)
{
    size_t at = 0;
    uint32_t n_hosts = 0;
    ssize_t end = find_end(s, n, seen, &at, w);
    if (end <= 0)
        return end;
    *h = (struct http_head){ 0 };
    for (bool first = true; at < (size_t)end - 2; first = false) {
        size_t cr = at;
        while (s[cr] != '\r') /* there is one, or find_end had not found the end */
            cr++;
        if (first ? read_line(s, at, cr, h, w) : read_field(s, at, cr, &n_hosts, h, w))
            return -1;
        at = cr + 2;
    }
    if (!n_hosts && h->minor == 1)
        return wrong(w, 400, "Host is missing");
    if (h->chunked && h->has_length)
        return wrong(w, 400, "Content-Length beside Transfer-Encoding");
    return end;
}

const char *http_head_get(const struct http_head *h, const char *s, const char *name)
{
    for (uint32_t i = 0; i < h->n_fields; i++)
        if (strcasecmp(s + h->field[i].name, name) == 0)
            return s + h->field[i].value;
    return NULL;
}

/* ---- chunks ---- */

enum { SIZE, EXTENSION, SIZE_LF, DATA, DATA_CR, DATA_LF, TRAILER, TRAILER_LINE, TRAILER_LF, LAST_LF, DONE };
enum { MAX_DIGITS = 15, MAX_EXTENSION = 256, MAX_TRAILERS = 4096 };

static int hex(char c)
{
    return c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : c >= 'A' && c <= 'F' ? c - 'A' + 10 : -1;
}

static bool is_text(char c)
{
    return ((unsigned char)c >= ' ' && c != 0x7f) || c == '\t';
}

static int size_byte(struct http_chunks *c, char b, struct http_wrong *w)
{
    int v = hex(b);
    if (v >= 0) {
        c->left = c->left << 4 | (unsigned)v;
        return c->n_digits++ < MAX_DIGITS ? 0 : wrong(w, 413, "a chunk of more bytes than there are");
    }
    if (!c->n_digits || (b != ';' && b != '\r'))
        return wrong(w, 400, "the size of a chunk is not hexadecimal");
    c->state = b == ';' ? EXTENSION : SIZE_LF;
    c->n_extra = 0;
    return 0;
}

static int trailer_byte(struct http_chunks *c, char b, struct http_wrong *w)
{
    if (++c->n_extra > MAX_TRAILERS)
        return wrong(w, 431, "the trailers have more than %d bytes", MAX_TRAILERS);
    if (c->state == TRAILER && b == '\r') {
        c->state = LAST_LF;
    } else if (c->state == TRAILER) {
        c->state = TRAILER_LINE;
        c->named = false;
        return is_token((unsigned char)b) ? 0 : wrong(w, 400, "a trailer is not: Name: value");
    } else if (b == '\r') {
        c->state = TRAILER_LF;
        return c->named ? 0 : wrong(w, 400, "a trailer is not: Name: value");
    } else if (!c->named && !(c->named = b == ':') && !is_token((unsigned char)b)) {
        return wrong(w, 400, "a trailer is not: Name: value");
    } else if (!is_text(b)) {
        return wrong(w, 400, "byte 0x%02x in a trailer", (unsigned char)b);
    }
    return 0;
}

/* One byte that is not of the body. */
static int mark_byte(struct http_chunks *c, char b, struct http_wrong *w)
{
    bool lf = b == '\n';
    switch (c->state) {
    case SIZE: return size_byte(c, b, w);
    case EXTENSION:
        if (b == '\r')
            c->state = SIZE_LF;
        else if (!is_text(b) || ++c->n_extra > MAX_EXTENSION)
            return wrong(w, 400, "a chunk's extension has control bytes, or more than %d", MAX_EXTENSION);
        return 0;
    case SIZE_LF:
        c->state = c->left ? DATA : TRAILER;
        c->n_extra = 0;
        break;
    case DATA_CR:
        c->state = DATA_LF;
        return b == '\r' ? 0 : wrong(w, 400, "a chunk does not end where its size says");
    case DATA_LF:
        c->state = SIZE;
        c->n_digits = 0;
        break;
    case TRAILER_LF: c->state = TRAILER; break;
    case LAST_LF: c->state = DONE; break;
    default: return trailer_byte(c, b, w);
    }
    return lf ? 0 : wrong(w, 400, "a line between chunks ends without CR LF");
}

ssize_t http_chunks_read(struct http_chunks *c, const char *s, size_t n, const char **data, size_t *n_data, bool *end,
                         struct http_wrong *w)
{
    size_t i = 0;
    *n_data = 0;
    while (i < n && c->state != DATA && c->state != DONE)
        if (mark_byte(c, s[i++], w))
            return -1;
    if (i < n && c->state == DATA) {
        *data = s + i;
        *n_data = n - i < c->left ? n - i : (size_t)c->left;
        c->left -= *n_data;
        i += *n_data;
        c->state = c->left ? DATA : DATA_CR;
    }
    *end = c->state == DONE;
    return (ssize_t)i;
}
