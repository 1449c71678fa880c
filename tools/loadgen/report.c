/* tools/loadgen/report.c: counts, latencies, and what is printed at the end. */
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "tools/loadgen/load.h"

enum { MAX_COMPLAINTS = 20, SAMPLE_MS = 500, WARM_S = 15 };

/* ---- histograms ---- */

static uint32_t bucket_of(uint64_t v)
{
    if (v < 32)
        return (uint32_t)v;
    uint32_t octave = 63 - (uint32_t)__builtin_clzll(v);
    return (octave - 4) * 32 + (uint32_t)(v >> (octave - 5) & 31);
}

static uint64_t bucket_end(uint32_t b)
{
    return b < 32 ? b : ((uint64_t)(32 + b % 32) + 1) << (b / 32 - 1);
}

void histogram_add(struct histogram *h, uint64_t ns)
{
    h->n++;
    h->sum += ns;
    h->max = ns > h->max ? ns : h->max;
    h->count[bucket_of(ns)]++;
}

uint64_t histogram_at(const struct histogram *h, double fraction)
{
    uint64_t want = (uint64_t)((double)h->n * fraction), seen = 0;
    for (uint32_t b = 0; b < 64 * 32; b++) {
        seen += h->count[b];
        if (h->count[b] && seen > want)
            return bucket_end(b) < h->max ? bucket_end(b) : h->max;
    }
    return h->max;
}

/* ---- what went wrong ---- */

static const char *const outcome_name[OUT_COUNT] = {
#define X(name, text, wrong) text,
    OUTCOMES(X)
#undef X
};
static const bool outcome_wrong[OUT_COUNT] = {
#define X(name, text, wrong) wrong,
    OUTCOMES(X)
#undef X
};

void report_wrong(struct report *r, enum outcome why, const char *fmt, ...)
{
    r->outcome[why]++;
    if (r->complaints++ >= MAX_COMPLAINTS)
        return;
    va_list ap;
    va_start(ap, fmt);
    fprintf(stderr, "loadgen: %s: ", outcome_name[why]);
    vfprintf(stderr, fmt, ap);
    fprintf(stderr, "%s\n", r->complaints == MAX_COMPLAINTS ? " (no more of these lines)" : "");
    va_end(ap);
}

bool report_is_bad(const struct report *r)
{
    for (int i = 0; i < OUT_COUNT; i++)
        if (outcome_wrong[i] && r->outcome[i])
            return true;
    return false;
}

/* ---- memory of the server ---- */

static double rss_kib(int pid)
{
    char path[64], line[256];
    double kib = 0;
    snprintf(path, sizeof path, "/proc/%d/status", pid);
    FILE *f = fopen(path, "r");
    if (!f)
        return 0;
    while (fgets(line, sizeof line, f))
        if (sscanf(line, "VmRSS: %lf", &kib) == 1)
            break;
    fclose(f);
    return kib;
}

void rss_sample(struct rss_watch *w, struct report *r, uint64_t now)
{
    if (!w->pid || now < w->next_ns)
        return;
    w->next_ns = now + SAMPLE_MS * 1000000ull;
    double kib = rss_kib(w->pid);
    if (!kib)
        return;
    if (!w->start_ns) {
        w->start_ns = now;
        r->rss.start_kib = kib;
    }
    r->rss.n++;
    r->rss.end_kib = kib;
    r->rss.max_kib = kib > r->rss.max_kib ? kib : r->rss.max_kib;
    double minutes = (double)(now - w->start_ns) / 6e10;
    if (minutes * 60 < WARM_S) /* caches fill at first */
        return;
    w->n++;
    w->st += minutes;
    w->sy += kib;
    w->stt += minutes * minutes;
    w->sty += minutes * kib;
    double d = w->n * w->stt - w->st * w->st;
    r->rss.slope_kib_per_min = d > 0 ? (w->n * w->sty - w->st * w->sy) / d : 0;
}

/* ---- printing ---- */

static json_t *latency_json(const struct histogram *h)
{
    return json_pack("{s:I,s:f,s:f,s:f,s:f,s:f}", "n", (json_int_t)h->n, "mean_ms",
                     h->n ? (double)h->sum / (double)h->n / 1e6 : 0, "p50_ms", (double)histogram_at(h, 0.5) / 1e6,
                     "p95_ms", (double)histogram_at(h, 0.95) / 1e6, "p99_ms", (double)histogram_at(h, 0.99) / 1e6,
                     "max_ms", (double)h->max / 1e6);
}

static void print_json(const struct report *r)
{
    json_t *j = json_object(), *outcomes = json_object(), *statuses = json_object();
    for (int i = 0; i < OUT_COUNT; i++)
        json_object_set_new(outcomes, outcome_name[i], json_integer((json_int_t)r->outcome[i]));
    for (int i = 0; i < 600; i++) {
        char name[16];
        snprintf(name, sizeof name, "%d", i);
        if (r->status[i])
            json_object_set_new(statuses, name, json_integer((json_int_t)r->status[i]));
    }
    double s = (double)r->wall_ns / 1e9;
    json_object_set_new(j, "ok", json_boolean(!report_is_bad(r)));
    json_object_set_new(j, "sent", json_integer((json_int_t)r->sent));
    json_object_set_new(j, "retries", json_integer((json_int_t)r->retries));
    json_object_set_new(j, "seconds", json_real(s));
    json_object_set_new(j, "outcomes", outcomes);
    json_object_set_new(j, "statuses", statuses);
    json_object_set_new(j, "tokens", json_integer((json_int_t)r->tokens));
    json_object_set_new(j, "prompt_tokens", json_integer((json_int_t)r->prompt_tokens));
    json_object_set_new(j, "cached_tokens", json_integer((json_int_t)r->cached_tokens));
    json_object_set_new(j, "tokens_per_second", json_real(s > 0 ? (double)r->tokens / s : 0));
    json_object_set_new(j, "verified", json_integer(r->verified));
    json_object_set_new(j, "verified_parts", json_integer(r->verified_parts));
    json_object_set_new(j, "first_byte", latency_json(&r->first_byte));
    json_object_set_new(j, "first_text", latency_json(&r->first_text));
    json_object_set_new(j, "between_texts", latency_json(&r->between));
    json_object_set_new(j, "whole", latency_json(&r->whole));
    if (r->rss.n)
        json_object_set_new(j, "rss",
                            json_pack("{s:i,s:f,s:f,s:f,s:f}", "samples", (int)r->rss.n, "start_kib", r->rss.start_kib,
                                      "end_kib", r->rss.end_kib, "max_kib", r->rss.max_kib, "slope_kib_per_min",
                                      r->rss.slope_kib_per_min));
    json_dumpf(j, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
    printf("\n");
    json_decref(j);
}

static void print_latency(const char *name, const struct histogram *h)
{
    if (h->n)
        printf("%-14s %10.3f %10.3f %10.3f %10.3f   of %llu\n", name, (double)histogram_at(h, 0.5) / 1e6,
               (double)histogram_at(h, 0.95) / 1e6, (double)histogram_at(h, 0.99) / 1e6, (double)h->max / 1e6,
               (unsigned long long)h->n);
}

void report_print(const struct report *r, const struct load_opts *o)
{
    if (o->json) {
        print_json(r);
        return;
    }
    double s = (double)r->wall_ns / 1e9;
    printf("%llu requests in %.2f s, %u at once\n", (unsigned long long)r->sent, s, o->solo ? 1 : o->connections);
    for (int i = 0; i < OUT_COUNT; i++)
        if (r->outcome[i])
            printf("  %-13s %8llu%s\n", outcome_name[i], (unsigned long long)r->outcome[i],
                   outcome_wrong[i] ? "  !" : "");
    printf("status        ");
    for (int i = 0; i < 600; i++)
        if (r->status[i])
            printf(" %d: %llu", i, (unsigned long long)r->status[i]);
    printf("\n");
    if (r->retries)
        printf("sent again     %llu after 429\n", (unsigned long long)r->retries);
    if (r->tokens)
        printf("tokens         %llu generated, %.0f per second; prompts %llu, %llu of them cached\n",
               (unsigned long long)r->tokens, s > 0 ? (double)r->tokens / s : 0, (unsigned long long)r->prompt_tokens,
               (unsigned long long)r->cached_tokens);
    if (o->verify)
        printf("verified       %u whole answers, %u parts\n", r->verified, r->verified_parts);
    if (r->first_byte.n)
        printf("ms                    p50        p95        p99        max\n");
    print_latency("first byte", &r->first_byte);
    print_latency("first text", &r->first_text);
    print_latency("between texts", &r->between);
    print_latency("whole answer", &r->whole);
    if (r->rss.n)
        printf("server memory  %.0f KiB at the start, %.0f at the end, %.0f at most, %+.1f per minute after %d s\n",
               r->rss.start_kib, r->rss.end_kib, r->rss.max_kib, r->rss.slope_kib_per_min, WARM_S);
}
