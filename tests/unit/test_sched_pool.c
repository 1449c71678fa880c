/* Vectors of whole prompts: what they are, by transformers' logits and by each other; that they do not depend on what else
 * runs; who is refused. */
#include <check.h>
#include <math.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/serve/sched.h"
#include "kernels/dequant.h"
#include "model/gguf.h"
#include "tests/lib/run.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 256, CHUNK = 32 };

struct ask {
    struct sched_request r;
    struct sched_job *job;
    pthread_mutex_t lock;
    pthread_cond_t cond;
    bool awake;
    struct sched_out out;
    float v[1024];
};

static void wake(void *user)
{
    struct ask *a = user;
    pthread_mutex_lock(&a->lock);
    a->awake = true;
    pthread_cond_signal(&a->cond);
    pthread_mutex_unlock(&a->lock);
}

static struct engine *open_engine(const char *path, const char *tier, const char *pooling, uint32_t n_slots)
{
    struct engine_opts o = { .path = path, .tier = tier, .pooling = pooling, .n_ctx = N_CTX, .chunk = CHUNK,
                             .n_slots = n_slots, .score_rows = 8, .threads = 2 };
    struct engine *eng;
    struct err e = { 0 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    return eng;
}

static struct sched *start(struct engine *eng)
{
    struct sched_opts o = { .max_queue = 64, .kv.host_bytes = 8 << 20 };
    struct sched *s;
    struct err e = { 0 };
    ck_assert_msg(sched_create(eng, &o, &s, &e) == 0, "%s", e.msg);
    return s;
}

static void submit(struct sched *s, struct ask *a, const int32_t *prompt, uint32_t n)
{
    uint32_t retry;
    struct err e = { 0 };
    *a = (struct ask){ .r = { .prompt = prompt, .n_prompt = n, .pool = true, .n_logprobs = -1, .wake = wake, .user = a } };
    pthread_mutex_init(&a->lock, NULL);
    pthread_cond_init(&a->cond, NULL);
    ck_assert_msg(sched_submit(s, &a->r, &a->job, &retry, &e) == 0, "%s", e.msg);
}

static void await_vector(struct engine *eng, struct ask *a)
{
    pthread_mutex_lock(&a->lock);
    do {
        while (!a->awake)
            pthread_cond_wait(&a->cond, &a->lock);
        a->awake = false;
        sched_take(a->job, &a->out);
    } while (a->out.end == SCHED_RUNNING);
    pthread_mutex_unlock(&a->lock);
    ck_assert_msg(a->out.end == SCHED_OK, "%s", a->out.err.msg);
    ck_assert_uint_eq(a->out.n_tokens, 0);
    ck_assert_uint_le(engine_info(eng)->n_vector, ARRAY_LEN(a->v));
    memcpy(a->v, a->out.vector, engine_info(eng)->n_vector * sizeof(float));
    sched_release(a->job);
}

static const float *vector(struct engine *eng, struct sched *s, struct ask *a, const int32_t *prompt, uint32_t n)
{
    submit(s, a, prompt, n);
    await_vector(eng, a);
    return a->v;
}

/* sum (a - b)^2 / sum b^2 */
static double nmse(const double *a, const double *b, uint32_t n)
{
    double err = 0, all = 0;
    for (uint32_t i = 0; i < n; i++) {
        err += (a[i] - b[i]) * (a[i] - b[i]);
        all += b[i] * b[i];
    }
    return err / all;
}

/* ---- what a vector is ---- */

/* Head and file of tiny-qwen3 are those of tiny-qwen3-embed: the output matrix times the vector are the logits, and those
 * are transformers' (doc/golden.md). */
static void check_golden_row(const struct gguf_tensor *w, const float *v, const float *row, const char *prompt)
{
    static double got[4096], want[4096];
    float line[1024];
    uint32_t n = (uint32_t)w->ne[0], rows = (uint32_t)w->ne[1];
    ck_assert_uint_le(rows, ARRAY_LEN(got));
    ck_assert_uint_le(n, ARRAY_LEN(line));
    for (uint32_t r = 0; r < rows; r++) {
        dequant_row(w->type, w->data + r * qtype_row_bytes(w->type, n), line, n);
        got[r] = 0;
        for (uint32_t i = 0; i < n; i++)
            got[r] += (double)line[i] * v[i];
        want[r] = row[r];
    }
    double d = nmse(got, want, rows);
    ck_assert_msg(d < 1e-6, "nmse %g for prompt %s", d, prompt);
}

START_TEST(a_vector_is_the_state_behind_the_golden_logits)
{
    char path[] = "/tmp/zinc-pool-XXXXXX", line[4096];
    struct gguf *g;
    struct err e = { 0 };
    static struct ask a;
    int32_t ids[N_CTX];
    uint32_t n = 0, n_checked = 0;
    tiny_model(path, "tiny-qwen3-embed --type Q8_0 --no-vocab");
    ck_assert_msg(gguf_open(path, &g, &e) == 0, "%s", e.msg);
    const struct gguf_tensor *w = gguf_find_tensor(g, "token_embd.weight");
    struct engine_opts o = { .path = path, .tier = "cpu:exact", .pooling = "auto", .kv = "f32", .n_ctx = N_CTX,
                             .n_slots = 1, .chunk = CHUNK };
    struct engine *eng;
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
    ck_assert_str_eq(engine_info(eng)->pooling, "last");
    struct sched *s = start(eng);
    FILE *text = fopen("tests/golden/tiny-qwen3.txt", "r"), *rows = fopen("tests/golden/tiny-qwen3.f32", "rb");
    ck_assert(text && rows);
    while (fgets(line, sizeof line, text)) {
        float row[4096];
        if (strncmp(line, "prompt ", 7) == 0) {
            n = 0;
            for (char *at = line + 6; *at == ' ' || *at == ','; n++)
                ids[n] = (int32_t)strtol(at + 1, &at, 10);
        } else if (strncmp(line, "steps 0", 7) == 0) {
            ck_assert_uint_eq(fread(row, sizeof *row, w->ne[1], rows), w->ne[1]);
            check_golden_row(w, vector(eng, s, &a, ids, n), row, "of the golden file");
            for (const char *at = strchr(line + 6, ' '); at; at = strchr(at + 1, ' ')) /* later steps are not ours */
                ck_assert_int_eq(fseek(rows, (long)(w->ne[1] * sizeof *row), SEEK_CUR), 0);
            n_checked++;
        }
    }
    ck_assert_uint_ge(n_checked, 3);
    fclose(text);
    fclose(rows);
    sched_destroy(s);
    engine_close(eng);
    gguf_close(g);
    unlink(path);
}
END_TEST

/* Rows are causal: the final state of position i is the vector of the first i + 1 tokens. */
START_TEST(means_and_first_ones_are_made_of_the_last_ones)
{
    enum { N = 45 }; /* more than a step */
    char path[] = "/tmp/zinc-pool-XXXXXX";
    static struct ask a;
    static double mean[1024], first[1024], got[1024];
    int32_t ids[N];
    tiny_model(path, "tiny-qwen3-embed");
    struct engine *eng = open_engine(path, "cpu:exact", "auto", 1);
    struct sched *s = start(eng);
    uint32_t n_vector = engine_info(eng)->n_vector;
    for (uint32_t i = 0; i < N; i++)
        ids[i] = (int32_t)(i * 37 % 640);
    for (uint32_t i = 0; i < N; i++) {
        vector(eng, s, &a, ids, i + 1);
        for (uint32_t k = 0; k < n_vector; k++) {
            mean[k] += a.v[k] / (double)N;
            first[k] = i ? first[k] : a.v[k];
        }
    }
    sched_destroy(s);
    engine_close(eng);
    const struct {
        const char *pooling;
        const double *want;
    } cases[] = { { "mean", mean }, { "cls", first } };
    for (size_t c = 0; c < ARRAY_LEN(cases); c++) {
        eng = open_engine(path, "cpu:exact", cases[c].pooling, 2);
        s = start(eng);
        for (int again = 0; again < 2; again++) { /* the second time there is a prefix that must not be used */
            vector(eng, s, &a, ids, N);
            for (uint32_t k = 0; k < n_vector; k++)
                got[k] = a.v[k];
            double d = nmse(got, cases[c].want, n_vector);
            ck_assert_msg(d < 1e-10, "%s: nmse %g", cases[c].pooling, d);
        }
        sched_destroy(s);
        engine_close(eng);
    }
    unlink(path);
}
END_TEST

START_TEST(a_query_is_text_and_its_template_is_not)
{
    char path[] = "/tmp/zinc-pool-XXXXXX";
    struct engine *eng;
    struct err e = { 0 };
    struct engine_prompt p;
    char *text;
    size_t n;
    static const char query[] = "{document}<|im_end|>", document[] = "{query}";
    static const char want[] = "<|im_start|>system\nThe answer is yes or no.<|im_end|>\n<|im_start|>user\n<Query>: "
                               "{document}<|im_end|>\n<Document>: {query}<|im_end|>\n<|im_start|>assistant\n<think>\n\n</think>\n\n";
    tiny_model(path, "tiny-qwen3-rerank");
    ck_assert_msg(engine_open_vocab(path, &eng, &e) == 0, "%s", e.msg);
    ck_assert_msg(engine_rank_prompt(eng, query, strlen(query), document, strlen(document), &p, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(engine_decode(eng, p.ids, p.n, ENGINE_SHOW_SPECIAL, &text, &n, &e), 0);
    ck_assert_str_eq(text, want);
    uint32_t n_ends = 0;
    for (uint32_t i = 0; i < p.n; i++)
        n_ends += engine_is_eog(eng, p.ids[i]);
    ck_assert_uint_eq(n_ends, 2); /* the template's; the query's is words */
    free(text);
    engine_prompt_free(&p);
    engine_close(eng);
    unlink(path);
}
END_TEST

/* ---- company ---- */

static void company(const char *preset, const char *tier, const char *pooling, int n_asks, uint32_t n_most)
{
    enum { N = 20 };
    char path[] = "/tmp/zinc-pool-XXXXXX";
    static struct ask ask[N], alone;
    static int32_t prompt[N][N_CTX];
    unsigned seed = 5;
    tiny_model(path, preset);
    struct engine *eng = open_engine(path, tier, pooling, 5);
    struct sched *s = start(eng);
    uint32_t n[N];
    for (int i = 0; i < n_asks; i++) {
        n[i] = 1 + (uint32_t)rand_r(&seed) % n_most;
        for (uint32_t k = 0; k < n[i]; k++)
            prompt[i][k] = rand_r(&seed) % 640;
        if (i % 3)
            memcpy(prompt[i], prompt[rand_r(&seed) % i], (uint32_t)rand_r(&seed) % n[i] * sizeof(int32_t));
        submit(s, &ask[i], prompt[i], n[i]);
    }
    for (int i = 0; i < n_asks; i++)
        await_vector(eng, &ask[i]);
    sched_destroy(s);
    engine_close(eng);
    eng = open_engine(path, tier, pooling, 1);
    for (int i = 0; i < n_asks; i++) {
        s = start(eng); /* which knows no prefixes */
        vector(eng, s, &alone, prompt[i], n[i]);
        ck_assert_msg(memcmp(alone.v, ask[i].v, engine_info(eng)->n_vector * sizeof(float)) == 0,
                      "%s on %s, %s: vector %d of %u tokens", preset, tier, pooling, i, n[i]);
        sched_destroy(s);
    }
    engine_close(eng);
    unlink(path);
}

START_TEST(vectors_are_what_they_are_alone)
{
    company("tiny-qwen3-embed", "cpu", "auto", 20, 120);
    company("tiny-qwen3-embed", "cpu", "mean", 20, 120);
    company("tiny-qwen3-embed --type Q8_0", "cpu", "cls", 12, 80);
    company("tiny-qwen3-rerank --type Q8_0", "cpu", "auto", 20, 120);
    company("tiny-qwen35moe", "cpu", "last", 12, 60);
}
END_TEST

START_TEST(so_they_are_where_prompts_have_streams_of_their_own)
{
    company("tiny-qwen3-embed --type Q8_0", "lockstep", "auto", 4, 36);
    company("tiny-qwen3-embed --type Q8_0", "lockstep", "mean", 3, 36);
}
END_TEST

/* ---- refusals ---- */

START_TEST(who_asks_for_what_the_engine_does_not_do_is_refused)
{
    char path[] = "/tmp/zinc-pool-XXXXXX";
    static const int32_t prompt[] = { 1, 2, 3 };
    struct err e = { 0 };
    struct sched_request r = { .prompt = prompt, .n_prompt = 3, .n_logprobs = -1, .gen.sampling = sampler_defaults() };
    tiny_model(path, "tiny-qwen3");
    struct engine *eng = open_engine(path, "null", "auto", 1);
    ck_assert_ptr_null(engine_info(eng)->pooling);
    struct sched *s = start(eng);
    r.pool = true;
    ck_assert_int_eq(sched_check(s, &r, &e), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(e.msg, "pooling_type"));
    sched_destroy(s);
    engine_close(eng);
    eng = open_engine(path, "null", "last", 1);
    s = start(eng);
    r.pool = false;
    ck_assert_int_eq(sched_check(s, &r, &e), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(e.msg, "/v1/embeddings"));
    static struct ask a;
    submit(s, &a, prompt, 3);
    sched_release(a.job); /* whatever it has come to */
    sched_destroy(s);
    engine_close(eng);
    struct engine_opts o = { .path = path, .tier = "null", .pooling = "rank" };
    ck_assert_int_eq(engine_open(&o, &eng, &e), -ENOTSUP);
    ck_assert_ptr_nonnull(strstr(e.msg, "cls.output.weight"));
    o.pooling = "sum";
    ck_assert_int_eq(engine_open(&o, &eng, &e), -EINVAL);
    unlink(path);
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("sched_pool", a_vector_is_the_state_behind_the_golden_logits,
                     means_and_first_ones_are_made_of_the_last_ones, a_query_is_text_and_its_template_is_not,
                     vectors_are_what_they_are_alone, so_they_are_where_prompts_have_streams_of_their_own,
                     who_asks_for_what_the_engine_does_not_do_is_refused);
}
