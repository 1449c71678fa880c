/* Contexts and sessions by the memory that is there: with a tier that says how much that is. */
#include <check.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"
#include "tests/lib/run.h"
#include "tests/unit/tiny_model.h"

static struct engine eng;
static struct tier card;
static char path[] = "/tmp/zinc-fit-XXXXXX";
static uint64_t position, fixed; /* bytes: of a position of tiny-qwen3 in f16; of weights and one step */

enum { TRAINED = 4096 };

static void setup(void)
{
    struct err e = { 0 };
    struct stream *s;
    tiny_model(path, "tiny-qwen3 --type Q8_0");
    ck_assert_msg(gguf_open(path, &eng.gguf, &e) == 0 && model_read(eng.gguf, &eng.model, &e) == 0, "%s", e.msg);
    eng.tier = &card;
    eng.info.n_ctx_train = TRAINED;
    struct graph_opts go = { .n_ctx = 1024, .n_slots = 1, .row_cap = 64, .out_cap = 16, .kv_type = KA_KV_F16 };
    ck_assert_int_eq(graph_compile(eng.model, &go, &s, &e), 0);
    position = s->h.arena_bytes[ARENA_KV] / 1024;
    fixed = s->h.arena_bytes[ARENA_WEIGHTS] + s->h.arena_bytes[ARENA_CONST] + s->h.arena_bytes[ARENA_SCRATCH] +
            s->h.arena_bytes[ARENA_IO];
    stream_free(s);
}

static void teardown(void)
{
    model_free(eng.model);
    gguf_close(eng.gguf);
    unlink(path);
}

/* A card with room for so many positions beside weights and what is left to the tier. */
static struct graph_opts fit(uint64_t positions, const struct engine_opts *o)
{
    struct graph_opts go = { .row_cap = 64, .out_cap = 64, .kv_type = KA_KV_F16 };
    struct err e = { 0 };
    card.info.mem_bytes = (uint64_t)1 << 40;
    card.info.mem_free_bytes = (fixed + position * positions) * 4 / 3 + 4096; /* of less than 4 GiB a quarter is left alone */
    eng.fit[0] = 0;
    ck_assert_msg(engine_fit(&eng, o, &go, &e) == 0, "%s", e.msg);
    ck_assert_uint_le(go.n_slots * go.n_ctx * position + fixed, card.info.mem_free_bytes);
    return go;
}

START_TEST(the_trained_length_comes_first_then_sessions)
{
    static const struct {
        uint64_t room;
        uint32_t slots, ctx;
        const char *says;
    } cases[] = {
        { 100 * TRAINED, 8, TRAINED, "all that the model was trained for" },
        { 6 * TRAINED + 600, 6, TRAINED, "all that the model was trained for" },
        { 4 * TRAINED, 4, TRAINED, "all that the model was trained for" },
        { 4 * TRAINED - 600, 3, TRAINED, "all that the model was trained for" },
        { TRAINED + 600, 1, TRAINED, "all that the model was trained for" },
        { TRAINED - 600, 1, TRAINED - 768, "--slots 2 would leave 1536 tokens for each" },
        { 800, 1, 768, "the model was trained for 4096" },
    };
    struct engine_opts o = { .fit = true };
    setup();
    for (size_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct graph_opts go = fit(cases[i].room, &o);
        ck_assert_msg(go.n_slots == cases[i].slots && go.n_ctx == cases[i].ctx, "room for %llu: %u x %u",
                      (unsigned long long)cases[i].room, go.n_slots, go.n_ctx);
        ck_assert_msg(strstr(eng.fit, cases[i].says) != NULL, "room for %llu: %s", (unsigned long long)cases[i].room, eng.fit);
    }
    teardown();
}
END_TEST

START_TEST(what_is_asked_for_stays)
{
    setup();
    struct graph_opts go = fit(2 * TRAINED, &(struct engine_opts){ .fit = true, .n_slots = 4 });
    ck_assert_uint_eq(go.n_slots, 4);
    ck_assert_uint_eq(go.n_ctx, TRAINED / 2);
    ck_assert_ptr_nonnull(strstr(eng.fit, "--slots 1 would leave 4096"));
    go = fit(2 * TRAINED, &(struct engine_opts){ .fit = true, .n_ctx = 3000 });
    ck_assert_uint_eq(go.n_slots, 2);
    ck_assert_uint_eq(go.n_ctx, 3000);
    ck_assert_ptr_nonnull(strstr(eng.fit, "2 slots of the 3000 tokens of --ctx"));
    go = fit(2 * TRAINED, &(struct engine_opts){ .fit = true, .n_ctx = 100, .n_slots = 9 });
    ck_assert_uint_eq(go.n_slots, 9);
    ck_assert_uint_eq(go.n_ctx, 100);
    ck_assert_str_eq(eng.fit, ""); /* nothing was chosen */
    teardown();
}
END_TEST

START_TEST(vectors_get_more_sessions)
{
    setup();
    eng.pooling = POOLING_LAST;
    struct graph_opts go = fit(100 * TRAINED, &(struct engine_opts){ .fit = true });
    ck_assert_uint_eq(go.n_slots, 16);
    go = fit(5 * TRAINED + 100, &(struct engine_opts){ .fit = true });
    ck_assert_uint_eq(go.n_slots, 5);
    ck_assert_uint_eq(go.n_ctx, TRAINED);
    eng.pooling = POOLING_NONE;
    teardown();
}
END_TEST

/* Where steps of few rows take kernels of their own, more sessions cost a single one nothing. */
START_TEST(batch_variant_gets_as_many_as_a_step_takes)
{
    const struct engine_opts o = { .fit = true, .batch_variant = true };
    setup();
    ck_assert_uint_eq(fit(100 * TRAINED, &o).n_slots, 8);
    card.info.decode_rows = 64;
    ck_assert_uint_eq(fit(100 * TRAINED, &o).n_slots, 64);
    ck_assert_uint_eq(fit(20 * TRAINED + 600, &o).n_slots, 20);
    ck_assert_uint_eq(fit(20 * TRAINED + 600, &o).n_ctx, TRAINED);
    eng.model->n_expert = 4;
    card.info.expert_slots = 32;
    ck_assert_uint_eq(fit(20 * TRAINED + 600, &o).n_slots, 8);
    ck_assert_uint_eq(fit(40 * TRAINED + 600, &o).n_slots, 40);
    eng.pooling = POOLING_LAST; /* vectors have no such steps: as without it */
    ck_assert_uint_eq(fit(100 * TRAINED, &o).n_slots, 16);
    eng.pooling = POOLING_NONE;
    eng.model->n_expert = 0;
    card.info.decode_rows = card.info.expert_slots = 0;
    teardown();
}
END_TEST

START_TEST(where_nothing_fits_nothing_is_promised)
{
    setup();
    struct graph_opts go = { .row_cap = 64, .out_cap = 64, .kv_type = KA_KV_F16 };
    struct err e = { 0 };
    card.info.mem_bytes = (uint64_t)1 << 40;
    card.info.mem_free_bytes = fixed;
    eng.fit[0] = 0;
    ck_assert_int_eq(engine_fit(&eng, &(struct engine_opts){ .fit = true }, &go, &e), 0);
    ck_assert_uint_eq(go.n_slots, 1);
    ck_assert_uint_ge(go.n_ctx, 512); /* which the check of memory refuses with figures */
    ck_assert_str_eq(eng.fit, "");
    card.info.dry_run = true; /* a tier that holds no memory */
    ck_assert_int_eq(engine_fit(&eng, &(struct engine_opts){ .fit = true }, &go, &e), 0);
    ck_assert_uint_eq(go.n_slots, 8);
    ck_assert_uint_eq(go.n_ctx, TRAINED);
    card.info.dry_run = false;
    teardown();
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    return RUN_TESTS("engine_fit", the_trained_length_comes_first_then_sessions, what_is_asked_for_stays,
                       vectors_get_more_sessions, batch_variant_gets_as_many_as_a_step_takes,
                       where_nothing_fits_nothing_is_promised);
}
