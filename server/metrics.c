#include "server/metrics.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "server/sys.h"

/* X(field, name, help, upper bounds in seconds). What an operator asks: how long do people wait, and where. */
#define HISTOGRAMS(X)                                                                                                  \
    X(request, "zinc_request_seconds", "from a request's head to the last byte of its answer",                         \
      .001, .005, .025, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600)                                             \
    X(first_byte, "zinc_first_byte_seconds", "from a whole request to the first byte of its answer",                   \
      .0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)                                    \
    X(first_token, "zinc_first_token_seconds", "in the queue and evaluating the prompt, until the first token",        \
      .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)                                           \
    X(queue, "zinc_queue_seconds", "waiting for a slot", .0001, .001, .01, .05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60)    \
    X(token, "zinc_token_seconds", "between the tokens of an answer, its mean", .0001, .00025, .0005, .001, .0025,     \
      .005, .01, .015, .02, .025, .03, .04, .05, .075, .1, .25, .5, 1)

enum { MAX_BOUNDS = 20, MAX_SERIES = 96, PATH_LEN = 40 };

struct histogram {
    uint64_t count[MAX_BOUNDS + 1];
    double sum;
};

#define X(field, name, help, ...) static const double field##_bounds[] = { __VA_ARGS__ };
HISTOGRAMS(X)
#undef X
#define X(field, name, help, ...) _Static_assert(ARRAY_LEN(field##_bounds) <= MAX_BOUNDS, name);
HISTOGRAMS(X)
#undef X

struct metrics {
    pthread_mutex_t lock;
    struct series {
        char path[PATH_LEN];
        unsigned status;
        uint64_t n;
    } series[MAX_SERIES];
    uint32_t n_series;
    uint64_t cut, rejected;
#define X(field, name, help, ...) struct histogram field;
    HISTOGRAMS(X)
#undef X
};

struct metrics *metrics_create(void)
{
    struct metrics *m = calloc(1, sizeof *m);
    if (m)
        pthread_mutex_init(&m->lock, NULL);
    return m;
}

void metrics_destroy(struct metrics *m)
{
    if (!m)
        return;
    pthread_mutex_destroy(&m->lock);
    free(m);
}

static void observe(struct histogram *h, const double *bound, size_t n, uint64_t ns)
{
    double s = (double)ns * 1e-9;
    size_t i = 0;
    while (i < n && s > bound[i])
        i++;
    h->count[i]++;
    h->sum += s;
}
#define OBSERVE(m, field, ns) observe(&(m)->field, field##_bounds, ARRAY_LEN(field##_bounds), ns)

static void count_status(struct metrics *m, const char *path, unsigned status)
{
    uint32_t i = 0;
    while (i < m->n_series && (m->series[i].status != status || strncmp(m->series[i].path, path, PATH_LEN - 1) != 0))
        i++;
    if (i == MAX_SERIES)
        i--; /* more than there are: the last one takes the rest */
    if (i == m->n_series) {
        snprintf(m->series[i].path, PATH_LEN, "%s", path);
        m->series[i].status = status;
        m->n_series++;
    }
    m->series[i].n++;
}

void metrics_request(struct metrics *m, const struct metrics_request *r)
{
    pthread_mutex_lock(&m->lock);
    count_status(m, r->path, r->status);
    m->cut += r->cut;
    OBSERVE(m, request, r->total_ns);
    if (r->first_byte_ns)
        OBSERVE(m, first_byte, r->first_byte_ns);
    if (r->generated) {
        OBSERVE(m, queue, r->queued_ns);
        OBSERVE(m, first_token, r->queued_ns + r->prompt_ns);
    }
    if (r->generated > 1)
        OBSERVE(m, token, r->decode_ns / (r->generated - 1));
    pthread_mutex_unlock(&m->lock);
}

void metrics_rejected(struct metrics *m)
{
    pthread_mutex_lock(&m->lock);
    m->rejected++;
    pthread_mutex_unlock(&m->lock);
}

/* ---- text ---- */

static void put_head(FILE *f, const char *name, const char *type, const char *help)
{
    fprintf(f, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
}

static void put_value(FILE *f, const char *name, const char *type, const char *help, double v)
{
    put_head(f, name, type, help);
    fprintf(f, "%s %.17g\n", name, v);
}

/* A label's value: backslash, quote and newline are escaped. */
static void put_label(FILE *f, const char *s)
{
    for (; *s; s++)
        if (*s == '\n')
            fputs("\\n", f);
        else
            fprintf(f, *s == '"' || *s == '\\' ? "\\%c" : "%c", *s);
}

static void put_histogram(FILE *f, const char *name, const char *help, const struct histogram *h, const double *bound,
                          size_t n)
{
    uint64_t sum = 0;
    put_head(f, name, "histogram", help);
    for (size_t i = 0; i <= n; i++) {
        sum += h->count[i];
        if (i < n)
            fprintf(f, "%s_bucket{le=\"%g\"} %llu\n", name, bound[i], (unsigned long long)sum);
    }
    fprintf(f, "%s_bucket{le=\"+Inf\"} %llu\n%s_sum %.9g\n%s_count %llu\n", name, (unsigned long long)sum, name, h->sum,
            name, (unsigned long long)sum);
}

static uint64_t resident_bytes(void)
{
#ifdef __APPLE__
    return macos_resident();
#else
    unsigned long long resident;
    char text[256];
    if (sys_read_file("/proc/self/statm", text, sizeof text) <= 0 || sscanf(text, "%*u %llu", &resident) != 1)
        return 0;
    return resident * (uint64_t)sysconf(_SC_PAGESIZE);
#endif
}

static void put_http(FILE *f, struct metrics *m, const struct metrics_now *now)
{
    put_head(f, "zinc_http_requests_total", "counter", "requests answered; 499: the client left before");
    for (uint32_t i = 0; i < m->n_series; i++) {
        fputs("zinc_http_requests_total{path=\"", f);
        put_label(f, m->series[i].path);
        fprintf(f, "\",status=\"%u\"} %llu\n", m->series[i].status, (unsigned long long)m->series[i].n);
    }
    put_value(f, "zinc_http_cut_total", "counter", "answers that their client did not wait for, or that the end cut",
              (double)m->cut);
    put_value(f, "zinc_http_rejected_total", "counter", "connections closed for what they said, or to make room for others",
              (double)m->rejected);
    put_value(f, "zinc_http_connections", "gauge", "open connections", now->connections);
    put_value(f, "zinc_http_answering", "gauge", "requests that are read or answered now", now->answering);
    put_value(f, "zinc_http_body_bytes", "gauge", "bodies of requests held in memory", (double)now->body_bytes);
    put_value(f, "zinc_request_memory_bytes", "gauge", "held for requests, answers and kept grammars",
              (double)now->memory.used);
    put_value(f, "zinc_request_memory_bytes_grammars", "gauge", "of them, of compiled grammars, in use or kept",
              (double)now->memory.spare);
    put_value(f, "zinc_request_memory_bytes_limit", "gauge", "what they may hold together (--max-memory)",
              (double)now->memory.limit);
    put_value(f, "zinc_request_memory_bytes_peak", "gauge", "the most they held", (double)now->memory.peak);
    put_value(f, "zinc_request_memory_refused_total", "counter", "times that something did not fit",
              (double)now->memory.refused);
#define X(field, name, help, ...) put_histogram(f, name, help, &m->field, field##_bounds, ARRAY_LEN(field##_bounds));
    HISTOGRAMS(X)
#undef X
}

/* X(name, type, help, value of struct sched_stats s) */
#define SCHED_FIGURES(X)                                                                                               \
    X("zinc_requests_total", "counter", "requests given to the scheduler", s->requests)                                \
    X("zinc_requests_finished_total", "counter", "that ended by themselves", s->finished)                              \
    X("zinc_requests_cancelled_total", "counter", "whose client left", s->cancelled)                                   \
    X("zinc_requests_refused_total", "counter", "that found the queue full", s->refused)                               \
    X("zinc_requests_failed_total", "counter", "that an error ended", s->failed)                                       \
    X("zinc_requests_expired_total", "counter", "that their deadline ended", s->expired)                               \
    X("zinc_requests_running", "gauge", "in a slot now", s->running)                                                   \
    X("zinc_requests_waiting", "gauge", "in the queue now", s->waiting)                                                \
    X("zinc_slots", "gauge", "requests that can run at the same time", s->slots)                                       \
    X("zinc_slots_busy", "gauge", "slots of the cache in use", s->kv.slots_busy)                                       \
    X("zinc_prompt_tokens_total", "counter", "tokens of prompts", s->prompt_tokens)                                    \
    X("zinc_prompt_tokens_reused_total", "counter", "of them, not evaluated again", s->reused_tokens)                  \
    X("zinc_generated_tokens_total", "counter", "tokens generated", s->generated_tokens)                               \
    X("zinc_rounds_total", "counter", "rounds of the scheduler", s->rounds)                                            \
    X("zinc_steps_total", "counter", "submissions to the tier", s->steps)                                              \
    X("zinc_steps_ahead_total", "counter", "of these, made before the tokens of the one before were known", s->ahead)  \
    X("zinc_guessed_tokens_total", "counter", "guessed ahead, for requests that have ended", s->guessed)               \
    X("zinc_guessed_right_total", "counter", "of these, those that were right", s->right)                              \
    X("zinc_step_seconds_total", "counter", "inside the tier", (double)s->step_ns * 1e-9)                              \
    X("zinc_busy_seconds_total", "counter", "in rounds; minus steps: the scheduler's own", (double)s->busy_ns * 1e-9) \
    X("zinc_sample_seconds_total", "counter", "choosing tokens", (double)s->sample_ns * 1e-9)                          \
    X("zinc_prefix_lookups_total", "counter", "prompts looked up in the cache of prefixes", s->kv.lookups)             \
    X("zinc_prefix_hits_total", "counter", "of them, found at least in part", s->kv.hits)                              \
    X("zinc_prefix_tokens_total", "counter", "tokens looked up", s->kv.tokens)                                         \
    X("zinc_prefix_tokens_reused_total", "counter", "of them, found", s->kv.tokens_reused)                             \
    X("zinc_prefix_tokens_resident_total", "counter", "found in the slot itself", s->kv.tokens_resident)               \
    X("zinc_prefix_tokens_copied_total", "counter", "copied from another slot", s->kv.tokens_copied)                   \
    X("zinc_prefix_tokens_restored_total", "counter", "copied from host memory", s->kv.tokens_restored)                \
    X("zinc_prefix_tokens_fetched_total", "counter", "read from disk", s->kv.tokens_fetched)                           \
    X("zinc_prefix_snapshots_total", "counter", "snapshots of recurrent state taken", s->kv.snapshots)                 \
    X("zinc_prefix_restores_total", "counter", "snapshots of recurrent state put back", s->kv.restores)                \
    X("zinc_prefix_saves_total", "counter", "runs saved to host memory", s->kv.saves)                                  \
    X("zinc_prefix_evictions_total", "counter", "runs given up for want of memory", s->kv.evictions)                   \
    X("zinc_prefix_nodes", "gauge", "runs of tokens known", s->kv.nodes)                                               \
    X("zinc_prefix_host_bytes", "gauge", "host memory held by the cache of prefixes", s->kv.host_bytes)                \
    X("zinc_prefix_host_bytes_limit", "gauge", "what it may hold", s->kv.host_bytes_max)                               \
    X("zinc_prefix_disk_files", "gauge", "files of prefixes that this server can use", s->kv.disk.files)               \
    X("zinc_prefix_disk_bytes", "gauge", "of all files in the folder for prefixes", s->kv.disk.bytes)                  \
    X("zinc_prefix_disk_reads_total", "counter", "files of prefixes read", s->kv.disk.reads)                           \
    X("zinc_prefix_disk_bad_total", "counter", "files of prefixes that were not believed", s->kv.disk.bad)             \
    X("zinc_prefix_disk_writes_total", "counter", "files of prefixes written", s->kv.disk.writes)                      \
    X("zinc_prefix_disk_failed_total", "counter", "files of prefixes that could not be written", s->kv.disk.failed)    \
    X("zinc_prefix_disk_evictions_total", "counter", "files of prefixes given up for want of room", s->kv.disk.evictions)

static void put_sched(FILE *f, const struct sched_stats *s)
{
#define X(name, type, help, value) put_value(f, name, type, help, (double)(value));
    SCHED_FIGURES(X)
#undef X
}

char *metrics_text(struct metrics *m, const struct metrics_now *now, size_t *n)
{
    char *text = NULL;
    FILE *f = open_memstream(&text, n);
    if (!f)
        return NULL;
    put_head(f, "zinc_info", "gauge", "what runs here");
    fputs("zinc_info{version=\"" ZINC_VERSION "\",model=\"", f);
    put_label(f, now->model ? now->model : "");
    fputs("\",tier=\"", f);
    put_label(f, now->tier ? now->tier : "");
    fputs("\"} 1\n", f);
    put_value(f, "zinc_ready", "gauge", "1: requests are taken; 0: loading or draining", now->ready);
    put_value(f, "zinc_resident_bytes", "gauge", "memory of the process", (double)resident_bytes());
    pthread_mutex_lock(&m->lock);
    put_http(f, m, now);
    pthread_mutex_unlock(&m->lock);
    if (now->model) {
        put_value(f, "zinc_context_tokens", "gauge", "context of a slot", now->n_ctx);
        put_sched(f, &now->sched);
    }
    fputs(now->more ? now->more : "", f);
    if (fclose(f)) {
        free(text);
        return NULL;
    }
    return text;
}
