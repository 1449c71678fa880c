/* Heads of requests and chunks. What is read must not depend on how it is cut into pieces; what is accepted, written out
 * again in the plainest form, must be read as the same; and nothing of what is refused by the rules may be in it. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/ckd.h"
#include "server/http_head.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

/* Reads s[0..n) as it would arrive in pieces of `piece` bytes. */
static ssize_t read_head(const uint8_t *data, size_t n, size_t piece, char *s, struct http_head *h, struct http_wrong *w)
{
    size_t seen = 0, have = 0;
    ssize_t rc = 0;
    while (have < n && !rc) {
        size_t k = MIN(piece, n - have);
        memcpy(s + have, data + have, k);
        have += k;
        rc = http_head_read(s, have, &seen, h, w);
        must(seen <= have && rc <= (ssize_t)have);
    }
    return rc;
}

static void same(const struct http_head *a, const char *s, const struct http_head *b, const char *t)
{
    must(strcmp(a->method, b->method) == 0 && a->minor == b->minor && strcmp(s + a->target, t + b->target) == 0);
    must(!a->host == !b->host && (!a->host || strcmp(s + a->host, t + b->host) == 0));
    must(a->keep_alive == b->keep_alive && a->expects == b->expects && a->chunked == b->chunked);
    must(a->has_length == b->has_length && a->length == b->length && a->n_fields == b->n_fields);
    for (uint32_t i = 0; i < a->n_fields; i++)
        must(strcmp(s + a->field[i].name, t + b->field[i].name) == 0 &&
             strcmp(s + a->field[i].value, t + b->field[i].value) == 0);
}

/* By other means than the parser's: what an accepted head is made of. */
static void check_rules(const struct http_head *h, const char *s, const uint8_t *raw, size_t n)
{
    uint32_t hosts = 0, lengths = 0, codings = 0;
    for (size_t i = 0; i < n; i++) {
        must(raw[i] >= 32 || raw[i] == '\t' || raw[i] == '\r' || raw[i] == '\n');
        must(raw[i] != '\n' || (i && raw[i - 1] == '\r'));
        must(raw[i] != '\r' || (i + 1 < n && raw[i + 1] == '\n'));
        must(!(raw[i] == '\n' && i + 1 < n && i > 1 && (raw[i + 1] == ' ' || raw[i + 1] == '\t')));
        must(!(raw[i] == ':' && i && (raw[i - 1] == '\n')));
    }
    for (uint32_t i = 0; i < h->n_fields; i++) {
        const char *name = s + h->field[i].name, *value = s + h->field[i].value;
        must(*name && !strpbrk(name, " \t:\r\n\"(),/;<=>?@[\\]{}") && !strpbrk(value, "\r\n"));
        must(value[0] != ' ' && value[0] != '\t');
        hosts += strcasecmp(name, "Host") == 0;
        lengths += strcasecmp(name, "Content-Length") == 0;
        codings += strcasecmp(name, "Transfer-Encoding") == 0;
    }
    must(hosts <= 1 && (hosts == 1 || h->minor == 0) && lengths + codings <= 1);
    must((lengths == 1) == h->has_length && (codings == 1) == h->chunked && (h->has_length || !h->length));
}

static void check_head(const uint8_t *data, size_t n)
{
    static struct http_head h, again;
    static char text[3 * HTTP_HEAD_MAX];
    struct http_wrong w = { 0 };
    char *s = malloc(n + 1), *t = malloc(n + 1);
    ssize_t whole = read_head(data, n, SIZE_MAX, s, &h, &w), cut = read_head(data, n, n % 7 + 1, t, &again, &w);
    must((whole < 0) == (cut < 0)); /* what is wrong later in the bytes may be seen first when they come together */
    if (whole < 0)
        must(w.status >= 400 && w.status < 500 && w.message[0]);
    if (whole > 0 && cut > 0) {
        must(whole == cut);
        same(&h, s, &again, t);
        check_rules(&h, s, data, (size_t)whole);
        int k = sprintf(text, "%s %s HTTP/1.%u\r\n", h.method, s + h.target, h.minor);
        for (uint32_t i = 0; i < h.n_fields; i++)
            k += sprintf(text + k, "%s: %s\r\n", s + h.field[i].name, s + h.field[i].value);
        k += sprintf(text + k, "\r\n");
        bool url = h.host && strcmp(s + h.host, http_head_get(&h, s, "Host") ? http_head_get(&h, s, "Host") : "") != 0;
        size_t seen = 0;
        ssize_t rc = http_head_read(text, (size_t)k, &seen, &again, &w);
        must(rc == k || k > HTTP_HEAD_MAX);
        if (rc > 0 && !url)
            same(&h, s, &again, text);
    }
    free(s);
    free(t);
}

/* The bytes of the body, and what became of it: where it ended, or -1. */
static ssize_t read_chunks(const uint8_t *data, size_t n, size_t piece, char *out, size_t *n_out)
{
    struct http_chunks c = { 0 };
    struct http_wrong w;
    const char *part;
    size_t at = 0, n_part;
    bool end = false;
    *n_out = 0;
    while (at < n && !end) {
        char *copy = malloc(MIN(piece, n - at)); /* of exactly this size, so that reading beyond it shows */
        size_t k = MIN(piece, n - at);
        memcpy(copy, data + at, k);
        ssize_t took = http_chunks_read(&c, copy, k, &part, &n_part, &end, &w);
        if (took > 0 && n_part) {
            must(part >= copy && part + n_part <= copy + took);
            memcpy(out + *n_out, part, n_part);
            *n_out += n_part;
        }
        free(copy);
        must(took != 0 || end);
        if (took < 0)
            return -1;
        at += (size_t)took;
    }
    return end ? (ssize_t)at : 0;
}

static void check_chunks(const uint8_t *data, size_t n)
{
    char *a = malloc(n + 1), *b = malloc(n + 1);
    size_t n_a, n_b;
    ssize_t whole = read_chunks(data, n, SIZE_MAX, a, &n_a), cut = read_chunks(data, n, n % 5 + 1, b, &n_b);
    must(whole == cut && n_a == n_b && memcmp(a, b, n_a) == 0);
    if (whole > 0) { /* as one chunk it is the same */
        char *text = malloc(n_a + 40), *got = malloc(n_a + 40);
        int k = n_a ? sprintf(text, "%zx\r\n", n_a) : 0;
        memcpy(text + k, a, n_a);
        k += (int)n_a + sprintf(text + k + n_a, n_a ? "\r\n0\r\n\r\n" : "0\r\n\r\n");
        must(read_chunks((uint8_t *)text, (size_t)k, SIZE_MAX, got, &n_b) == k && n_b == n_a && memcmp(a, got, n_a) == 0);
        free(text);
        free(got);
    }
    free(a);
    free(b);
}

/* The first byte says what follows it is. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    if (n < 2 || n > HTTP_HEAD_MAX + 100)
        return 0;
    if (data[0] == 'C')
        check_chunks(data + 1, n - 1);
    else
        check_head(data + 1, n - 1);
    return 0;
}
