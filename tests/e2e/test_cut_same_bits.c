/* A model cut into streams of some layers, each on a tier object of its own, gives the bits of the whole: logits and
 * next tokens of every family, for prompts and for single rows, on the cpu tier in both arithmetics and on lockstep. */
#include <check.h>
#include <string.h>

#include "base/ckd.h"
#include "graph/graph.h"
#include "rt/tier.h"
#include "tests/lib/skip.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 64, N_SLOTS = 2, CHUNK = 16, OUTS = 4, DECODE = 8, MAX_PARTS = 8 };
enum plans { PROMPTS, ROWS, N_PLANS };

/* Some layers, on a tier. */
struct part {
    struct stream *s[N_PLANS];
    struct tier *t;
    struct tier_plan *p[N_PLANS];
    const uint8_t **data; /* [n_weights] */
};

struct pipeline {
    struct part part[MAX_PARTS];
    uint32_t n;
};

static struct err e;
#define OK(call) ck_assert_msg((call) == 0, "%s", e.msg)

static void open_part(struct part *x, const struct model *m, const char *tier, bool exact, uint32_t first,
                      uint32_t end)
{
    struct graph_opts o = { .n_ctx = N_CTX, .n_slots = N_SLOTS, .kv_type = KA_KV_F16, .first_layer = first,
                            .end_layer = end };
    const struct tier_opts to = { .device = -1, .threads = 1, .exact = exact, .check = true };
    uint64_t bytes[ARENA_COUNT];
    o.row_cap = CHUNK;
    o.out_cap = OUTS;
    OK(graph_compile(m, &o, &x->s[PROMPTS], &e));
    o.row_cap = o.out_cap = DECODE;
    OK(graph_compile(m, &o, &x->s[ROWS], &e));
    for (int a = 0; a < ARENA_COUNT; a++)
        bytes[a] = MAX(x->s[PROMPTS]->h.arena_bytes[a], x->s[ROWS]->h.arena_bytes[a]);
    x->data = calloc(x->s[ROWS]->h.n_weights, sizeof *x->data);
    const struct tier_weights w = { x->s[ROWS], x->data };
    OK(graph_bind_weights(x->s[ROWS], m->gguf, x->data, &e));
    OK(tier_open(tier, &to, &x->t, &e));
    OK(tier_load(x->t, &w, NULL, &e));
    OK(tier_alloc(x->t, bytes, &e));
    for (int k = 0; k < N_PLANS; k++)
        OK(tier_prepare(x->t, x->s[k], PLAN_AUTO, &x->p[k], &e));
}

/* The model cut in front of the layers of `cuts`, which 0 ends. */
static void open_pipeline(struct pipeline *l, const struct model *m, const char *tier, bool exact,
                          const uint32_t *cuts)
{
    uint32_t first = 0;
    l->n = 0;
    do {
        ck_assert_uint_lt(l->n, MAX_PARTS);
        open_part(&l->part[l->n++], m, tier, exact, first, *cuts);
        first = *cuts;
    } while (*cuts++);
}

static void close_pipeline(struct pipeline *l)
{
    for (uint32_t i = 0; i < l->n; i++) {
        struct part *x = &l->part[i];
        for (int k = 0; k < N_PLANS; k++)
            tier_plan_destroy(x->p[k]);
        tier_close(x->t);
        for (int k = 0; k < N_PLANS; k++)
            stream_free(x->s[k]);
        free(x->data);
    }
}

/* The same step through every part, with the residual copied on; logits: f32 [n_out, n_vocab], next: [n_out]. */
static void run_step(struct pipeline *l, enum plans k, const struct step *step, float *logits, int32_t *next)
{
    static float residual[CHUNK * 4096];
    const struct stream_head *h = &l->part[0].s[k]->h;
    const uint64_t bytes = 4ull * step->n_rows * h->n_embd;
    ck_assert_uint_le(bytes, sizeof residual);
    for (uint32_t i = 0; i < l->n; i++) {
        struct part *x = &l->part[i];
        uint64_t point, at = stream_residual(x->s[k]);
        if (i > 0)
            OK(tier_write(x->t, ARENA_IO, at, residual, bytes, &e));
        ck_assert_int_eq(tier_submit(x->t, x->p[k], step, &point), 0);
        ck_assert_int_eq(tier_wait(x->t, point, UINT64_MAX), 0);
        memset(residual, 0xff, sizeof residual);
        if (i + 1 < l->n)
            OK(tier_read(x->t, ARENA_IO, at, residual, bytes, &e));
    }
    struct part *last = &l->part[l->n - 1];
    h = &last->s[k]->h;
    OK(tier_read(last->t, ARENA_IO, h->logits_off, logits, 4ull * step->n_out * h->n_vocab, &e));
    OK(tier_read(last->t, ARENA_IO, h->next_off, next, 4ull * step->n_out, &e));
}

/* Rows [from, from + n) of a sequence in a slot; behind `at` rows of the step. */
static void add_rows(ka_row *rows, uint32_t at, const int32_t *tok, uint32_t from, uint32_t n, uint32_t slot)
{
    for (uint32_t i = 0; i < n; i++)
        rows[at + i] = (ka_row){ .token = tok[from + i], .pos = from + i, .slot = slot };
}

struct run {
    float *logits; /* f32 [n, n_vocab]: what every step gave, one behind the other */
    int32_t next[64];
    uint32_t n, n_vocab;
};

static void take_step(struct pipeline *l, struct run *r, enum plans k, const ka_row *rows, uint32_t n_rows,
                      const uint32_t *out_row, uint32_t n_out)
{
    struct step step = { .n_rows = n_rows, .n_out = n_out, .rows = rows, .out_row = out_row };
    for (uint32_t i = 0; i < n_rows; i++)
        step.kv_len = MAX(step.kv_len, rows[i].pos + 1);
    ck_assert_uint_le(r->n + n_out, 64);
    run_step(l, k, &step, r->logits + (size_t)r->n * r->n_vocab, r->next + r->n);
    r->n += n_out;
}

/* Prompts in both slots, one in two chunks; `slow`: two rows in slot 1 alone. Then single rows, each with the token that
 * the one before has chosen, and rows of both slots in one step. */
static void generate(struct pipeline *l, struct run *r, bool slow)
{
    static const uint32_t all[] = { 0, 1, 2 }, some[] = { 1, 4 }, fifth[] = { 4 }, seventh[] = { 6 };
    uint32_t n0 = slow ? 0 : 7, n1 = slow ? 2 : CHUNK + 5;
    int32_t tok[2][N_CTX];
    ka_row rows[CHUNK];
    for (uint32_t i = 0; i < N_CTX; i++) {
        tok[0][i] = (int32_t)((i * 37 + 11) % 600);
        tok[1][i] = (int32_t)((i * 101 + 7) % 600);
    }
    r->n = 0;
    if (slow) {
        add_rows(rows, 0, tok[1], 0, n1, 1);
        take_step(l, r, PROMPTS, rows, n1, some, 1);
    } else {
        add_rows(rows, 0, tok[1], 0, CHUNK, 1);
        take_step(l, r, PROMPTS, rows, CHUNK, some, 2);
        add_rows(rows, 0, tok[1], CHUNK, 5, 1);
        take_step(l, r, PROMPTS, rows, 5, fifth, 1);
        add_rows(rows, 0, tok[0], 0, n0, 0);
        take_step(l, r, PROMPTS, rows, n0, seventh, 1);
    }
    for (uint32_t i = 0; i < 3; i++) {
        tok[1][n1] = r->next[r->n - 1];
        add_rows(rows, 0, tok[1], n1++, 1, 1);
        take_step(l, r, ROWS, rows, 1, all, 1);
    }
    add_rows(rows, 0, tok[0], n0, 2, 0);
    add_rows(rows, 2, tok[1], n1, 1, 1);
    take_step(l, r, ROWS, rows, 3, all, 3);
}

/* `preset` with options of mkmodel. */
static void same_bits(const char *preset, const char *tier, bool exact)
{
    static const uint32_t cuts[][4] = { { 0 }, { 1, 2 }, { 1 }, { 2 } }; /* the first: the whole */
    const bool slow = strcmp(tier, "lockstep") == 0;
    char path[] = "/tmp/zinc-cut-XXXXXX";
    struct gguf *g;
    struct model *m;
    struct run want = { 0 }, got = { 0 };
    struct pipeline l;
    tiny_model(path, preset);
    OK(gguf_open(path, &g, &e));
    OK(model_read(g, &m, &e));
    want.n_vocab = got.n_vocab = m->n_vocab;
    want.logits = calloc(64 * (size_t)m->n_vocab, sizeof(float));
    got.logits = calloc(64 * (size_t)m->n_vocab, sizeof(float));
    for (size_t c = 0; c < (slow ? 2 : ARRAY_LEN(cuts)); c++) {
        struct run *r = c ? &got : &want;
        open_pipeline(&l, m, tier, exact, m->n_layer == 2 && c ? cuts[2] : cuts[c]);
        generate(&l, r, slow);
        close_pipeline(&l);
        ck_assert_uint_eq(r->n, want.n);
        for (uint32_t i = 0; i < r->n; i++)
            ck_assert_msg(memcmp(r->logits + (size_t)i * m->n_vocab, want.logits + (size_t)i * m->n_vocab,
                                 m->n_vocab * sizeof(float)) == 0 && r->next[i] == want.next[i],
                          "%s on %s%s, cut in front of %u and %u: output %u differs: token %d for %d", preset, tier,
                          exact ? " exactly" : "", cuts[c][0], cuts[c][1], i, r->next[i], want.next[i]);
    }
    ck_assert_msg(want.logits[0] != want.logits[1], "no logits");
    free(want.logits);
    free(got.logits);
    model_free(m);
    gguf_close(g);
    unlink(path);
}

static const char *const presets[] = {
    "tiny-llama --type Q4_K_M",     "tiny-llama-moe --type Q4_K_M", "tiny-qwen3 --type Q4_K_M",
    "tiny-qwen3moe --type Q4_K_M",  "tiny-qwen3next --type Q4_K_M", "tiny-qwen35 --type Q4_K_M",
    "tiny-qwen35moe --type Q8_0",   "tiny-gemma3 --type Q4_K_M",    "tiny-gemma4 --type Q4_K_M",
    "tiny-gemma4-moe --type Q8_0",  "tiny-gpt-oss --type MXFP4_MOE",
};
enum { N_PRESETS = ARRAY_LEN(presets) };

START_TEST(on_the_cpu)
{
    same_bits(presets[_i], "cpu", false);
}
END_TEST

#if defined(__SANITIZE_ADDRESS__)
enum { EVERY = 4 }; /* slow, so fewer */
#else
enum { EVERY = 1 };
#endif

static void some_same_bits(int i, const char *tier, bool exact)
{
    if (i % EVERY == 0)
        same_bits(presets[i], tier, exact);
    else if (i == 1) /* told once, for all */
        cases_skipped(N_PRESETS - (N_PRESETS + EVERY - 1) / EVERY, "%s%s: builds without sanitizers have all presets", tier,
                      exact ? ":exact" : "");
}

START_TEST(on_the_cpu_exactly)
{
    some_same_bits(_i, "cpu", true);
}
END_TEST

START_TEST(on_lockstep)
{
    some_same_bits(_i, "lockstep", false);
}
END_TEST

int main(void)
{
    const struct {
        const char *name;
        const TTest *test;
    } tiers[] = { { "cpu", on_the_cpu }, { "exact", on_the_cpu_exactly }, { "lockstep", on_lockstep } };
    tiny_model_or_skip();
    Suite *suite = suite_create("a cut model");
    for (size_t i = 0; i < ARRAY_LEN(tiers); i++) {
        TCase *t = tcase_create(tiers[i].name);
        tcase_set_timeout(t, 120);
        tcase_add_loop_test(t, tiers[i].test, 0, N_PRESETS);
        suite_add_tcase(suite, t);
    }
    SRunner *r = srunner_create(suite);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
