/* /metrics, read back by a parser of Prometheus' text format that knows its rules. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "server/metrics.h"
#include "tests/lib/run.h"

enum { MAX_FAMILIES = 100, MAX_SAMPLES = 800, NAME = 96 };

struct sample {
    char name[NAME], labels[200];
    double value;
};
struct text {
    struct family {
        char name[NAME], type[16];
    } family[MAX_FAMILIES];
    uint32_t n_families, n_samples;
    struct sample sample[MAX_SAMPLES];
};

static const struct family *find_family(const struct text *t, const char *name)
{
    static const char *const ends[] = { "", "_bucket", "_sum", "_count" };
    for (uint32_t i = 0; i < t->n_families; i++)
        for (int k = 0; k < (strcmp(t->family[i].type, "histogram") == 0 ? 4 : 1); k++) {
            size_t n = strlen(t->family[i].name);
            if (strncmp(name, t->family[i].name, n) == 0 && strcmp(name + n, ends[k]) == 0)
                return &t->family[i];
        }
    return NULL;
}

static void parse_head(struct text *t, const char *line, char *last_help)
{
    char name[NAME], type[16];
    if (sscanf(line, "# HELP %95s", name) == 1) {
        ck_assert_msg(strlen(line) > strlen("# HELP  ") + strlen(name), "no help: %s", line);
        ck_assert_ptr_null(find_family(t, name));
        strcpy(last_help, name);
    } else {
        ck_assert_msg(sscanf(line, "# TYPE %95s %15s", name, type) == 2, "%s", line);
        ck_assert_str_eq(name, last_help);
        ck_assert_msg(strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0 || strcmp(type, "histogram") == 0, "%s", type);
        bool total = strlen(name) > 6 && strcmp(name + strlen(name) - 6, "_total") == 0;
        ck_assert_msg(total == (strcmp(type, "counter") == 0), "%s is a %s", name, type);
        struct family *f = &t->family[t->n_families++];
        strcpy(f->name, name);
        strcpy(f->type, type);
    }
}

static void parse_sample(struct text *t, const char *line)
{
    struct sample *s = &t->sample[t->n_samples++];
    size_t n = strspn(line, "abcdefghijklmnopqrstuvwxyz_");
    const char *p = line + n;
    ck_assert_msg(n > 5 && n < NAME && strncmp(line, "zinc_", 5) == 0, "name: %s", line);
    snprintf(s->name, sizeof s->name, "%.*s", (int)n, line);
    if (*p == '{') {
        const char *end = ++p;
        for (bool quoted = false; *end && (quoted || *end != '}'); end++) {
            if (*end == '\\' && quoted)
                end++;
            else if (*end == '"')
                quoted = !quoted;
        }
        ck_assert_int_eq(*end, '}');
        snprintf(s->labels, sizeof s->labels, "%.*s", (int)(end - p), p);
        p = end + 1;
    }
    ck_assert_int_eq(*p, ' ');
    char *end;
    s->value = strtod(p + 1, &end);
    ck_assert_msg(end > p + 1 && !*end && isfinite(s->value), "value: %s", line);
    ck_assert_msg(find_family(t, s->name), "no TYPE: %s", line);
    for (uint32_t i = 0; i + 1 < t->n_samples; i++)
        ck_assert_msg(strcmp(t->sample[i].name, s->name) || strcmp(t->sample[i].labels, s->labels), "twice: %s", line);
}

static struct text *parse(char *text)
{
    struct text *t = calloc(1, sizeof *t);
    char help[NAME] = "";
    for (char *line = strtok(text, "\n"); line; line = strtok(NULL, "\n"))
        if (*line == '#')
            parse_head(t, line, help);
        else
            parse_sample(t, line);
    free(text);
    return t;
}

static double value(const struct text *t, const char *name, const char *labels)
{
    for (uint32_t i = 0; i < t->n_samples; i++)
        if (strcmp(t->sample[i].name, name) == 0 && strcmp(t->sample[i].labels, labels) == 0)
            return t->sample[i].value;
    ck_abort_msg("no %s{%s}", name, labels);
    return 0;
}

static struct text *ask(struct metrics *m, const struct metrics_now *now)
{
    size_t n;
    char *text = metrics_text(m, now, &n);
    ck_assert_ptr_nonnull(text);
    ck_assert_uint_eq(n, strlen(text));
    ck_assert_int_eq(text[n - 1], '\n');
    return parse(text);
}

START_TEST(figures_come_back)
{
    struct metrics *m = metrics_create();
    struct metrics_request a = { .path = "/v1/chat/completions", .status = 200, .total_ns = 2000000000,
                                 .first_byte_ns = 30000000, .generated = 11, .queued_ns = 20000000,
                                 .prompt_ns = 60000000, .decode_ns = 1000000000 };
    struct metrics_request b = { .path = "other", .status = 404, .total_ns = 900000, .cut = true };
    metrics_request(m, &a);
    metrics_request(m, &a);
    metrics_request(m, &b);
    metrics_rejected(m);
    struct metrics_now now = { .model = "a \"b\\", .tier = "cpu", .n_ctx = 4096, .connections = 7, .ready = true,
                               .sched = { .slots = 4, .prompt_tokens = 123, .step_ns = 1500000000,
                                          .kv = { .lookups = 5, .hits = 3 } } };
    struct text *t = ask(m, &now);
    ck_assert_double_eq(value(t, "zinc_http_requests_total", "path=\"/v1/chat/completions\",status=\"200\""), 2);
    ck_assert_double_eq(value(t, "zinc_http_requests_total", "path=\"other\",status=\"404\""), 1);
    ck_assert_double_eq(value(t, "zinc_http_cut_total", ""), 1);
    ck_assert_double_eq(value(t, "zinc_http_rejected_total", ""), 1);
    ck_assert_double_eq(value(t, "zinc_http_connections", ""), 7);
    ck_assert_double_eq(value(t, "zinc_prompt_tokens_total", ""), 123);
    ck_assert_double_eq(value(t, "zinc_step_seconds_total", ""), 1.5);
    ck_assert_double_eq(value(t, "zinc_prefix_hits_total", ""), 3);
    ck_assert_double_eq(value(t, "zinc_context_tokens", ""), 4096);
    value(t, "zinc_info", "version=\"" ZINC_VERSION "\",model=\"a \\\"b\\\\\",tier=\"cpu\"");
    ck_assert_double_gt(value(t, "zinc_resident_bytes", ""), 100000);
    ck_assert_double_eq(value(t, "zinc_first_token_seconds_bucket", "le=\"0.05\""), 0);
    ck_assert_double_eq(value(t, "zinc_first_token_seconds_bucket", "le=\"0.1\""), 2);
    ck_assert_double_eq(value(t, "zinc_token_seconds_bucket", "le=\"0.1\""), 2);
    ck_assert_double_eq(value(t, "zinc_token_seconds_bucket", "le=\"0.075\""), 0);
    ck_assert_double_eq(value(t, "zinc_request_seconds_count", ""), 3);
    ck_assert_double_eq_tol(value(t, "zinc_request_seconds_sum", ""), 4.0009, 1e-9);
    free(t);
    metrics_destroy(m);
}
END_TEST

START_TEST(buckets_only_rise_and_end_in_the_count)
{
    struct metrics *m = metrics_create();
    for (uint64_t ns = 1000; ns < 1000000000000000; ns *= 3) {
        struct metrics_request r = { .path = "/", .status = 200, .total_ns = ns, .first_byte_ns = ns, .generated = 2,
                                     .queued_ns = ns, .prompt_ns = ns, .decode_ns = ns };
        metrics_request(m, &r);
    }
    struct text *t = ask(m, &(struct metrics_now){ 0 });
    double last = 0;
    for (uint32_t i = 0; i < t->n_samples; i++) {
        const struct sample *s = &t->sample[i];
        size_t n = strlen(s->name);
        if (n < 7 || strcmp(s->name + n - 7, "_bucket") != 0)
            continue;
        ck_assert_double_ge(s->value, last);
        last = s->value;
        if (strcmp(s->labels, "le=\"+Inf\"") == 0) {
            char count[NAME];
            snprintf(count, sizeof count, "%.*s_count", (int)(n - 7), s->name);
            ck_assert_double_eq(value(t, count, ""), s->value);
            ck_assert_double_eq(s->value, 26);
            last = 0;
        }
    }
    free(t);
    metrics_destroy(m);
}
END_TEST

START_TEST(labels_do_not_grow_without_end)
{
    struct metrics *m = metrics_create();
    for (unsigned i = 0; i < 1000; i++)
        metrics_request(m, &(struct metrics_request){ .path = "/", .status = 200 + i });
    struct text *t = ask(m, &(struct metrics_now){ 0 });
    double sum = 0;
    uint32_t n = 0;
    for (uint32_t i = 0; i < t->n_samples; i++)
        if (strcmp(t->sample[i].name, "zinc_http_requests_total") == 0) {
            sum += t->sample[i].value;
            n++;
        }
    ck_assert_double_eq(sum, 1000);
    ck_assert_uint_lt(n, 100);
    free(t);
    metrics_destroy(m);
}
END_TEST

int main(void)
{
    return RUN_TESTS("http_metrics", figures_come_back, buckets_only_rise_and_end_in_the_count,
                     labels_do_not_grow_without_end);
}
