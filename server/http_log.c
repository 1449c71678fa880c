#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "server/http_priv.h"

/* An id is copied into headers, logs and answers, so it is printable ASCII without what these would have to quote. */
bool id_is_sane(const char *id)
{
    size_t n = 0;
    for (; id[n] && n <= ID_MAX_LEN; n++)
        if (id[n] <= ' ' || id[n] > '~' || strchr("\"\\", id[n]))
            return false;
    return n > 0 && n <= ID_MAX_LEN;
}

/* 16 hexadecimal digits that differ from those of other processes: a counter from some start, mixed (splitmix64). */
void id_make(struct http *h, char *id)
{
    uint64_t x = atomic_fetch_add(&h->next_id, 0x9e3779b97f4a7c15u);
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    snprintf(id, ID_MAX_LEN + 1, "%016llx", (unsigned long long)(x ^ (x >> 31)));
}

/* Bytes that would break the line or its fields are written as %XX. */
static void escape(const char *s, char *out, size_t cap)
{
    size_t n = 0;
    for (; *s && n + 4 < cap; s++) {
        unsigned char c = (unsigned char)*s;
        if (c > ' ' && c < 0x7f && c != '"' && c != '=')
            out[n++] = (char)c;
        else
            n += (size_t)snprintf(out + n, 4, "%%%02X", c);
    }
    out[n] = 0;
}

static void put_time(char *out, size_t cap)
{
    struct timespec t;
    struct tm tm;
    clock_gettime(CLOCK_REALTIME, &t);
    gmtime_r(&t.tv_sec, &tm);
    size_t n = strftime(out, cap, "%Y-%m-%dT%H:%M:%S", &tm);
    snprintf(out + n, cap - n, ".%03ldZ", t.tv_nsec / 1000000);
}

/* One line, written at once, so that lines of several threads do not mix. */
void log_request(const struct request *r, const struct api_usage *u, const char *reason, uint64_t end_ns)
{
    char when[40], method[24], path[160], tokens[200] = "";
    bool timed = u->decode_ns && u->generated_tokens > 1;
    put_time(when, sizeof when);
    escape(r->method, method, sizeof method);
    escape(r->path, path, sizeof path);
    if (u->prompt_tokens)
        snprintf(tokens, sizeof tokens, " queued_ms=%.1f prompt_ms=%.1f prompt=%u reused=%u generated=%u tps=%.1f",
                 (double)u->queued_ns * 1e-6, (double)u->prompt_ns * 1e-6, u->prompt_tokens, u->reused_tokens,
                 u->generated_tokens,
                 timed ? (u->generated_tokens - 1) / ((double)u->decode_ns * 1e-9) : 0);
    fprintf(stderr, "%s id=%s client=%s method=%s path=%s status=%u ms=%.1f%s reason=%s\n", when, r->id, r->conn->peer,
            method, path, r->status, (double)(end_ns - r->start_ns) * 1e-6, tokens, reason);
}
