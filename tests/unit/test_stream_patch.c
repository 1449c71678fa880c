/* The words that a submission writes: all of them, no others. */
#include "graph/ir.h"
#include "tests/stream/compile.h"

enum { ROWS = 3, OUTS = 2 };

static const ka_row rows[ROWS] = {{42, 7, 1, 0}, {-1, 8, 1, 0}, {5, 0, 0, 0}};
static const uint32_t out_row[OUTS] = {1, 2};
static const struct step step = {.n_rows = ROWS, .n_out = OUTS, .kv_len = 9, .rows = rows, .out_row = out_row};

START_TEST(a_patch_writes_the_steps_words_and_leaves_the_rest)
{
    struct stream *s = fake_compile(0, FAKE_DECODE);
    uint64_t words = s->h.arena_bytes[ARENA_IO] / 4;
    uint32_t *io = malloc(words * 4), *want = malloc(words * 4);
    for (uint64_t i = 0; i < words; i++)
        io[i] = want[i] = PATCH_UNSET;
    want[0] = ROWS;
    want[1] = OUTS;
    want[2] = 9;
    for (uint32_t r = 0; r < ROWS; r++) {
        want[16 + 4 * r] = (uint32_t)rows[r].token;
        want[17 + 4 * r] = rows[r].pos;
        want[18 + 4 * r] = rows[r].slot;
    }
    uint32_t *sample = want + 16 + 4 * 8 + 8; /* 8 rows, 8 outputs */
    for (uint32_t i = 0; i < OUTS; i++) {
        want[16 + 4 * 8 + i] = out_row[i];
        sample[8 * i] = sample[8 * i + 6] = 0; /* greedy, and the logits are read */
    }
    ck_assert_uint_eq(stream_patch((uint8_t *)io, s, &step), 3 + 3 * ROWS + 3 * OUTS);
    ck_assert_mem_eq(io, want, words * 4);
    static const ka_sample draws[OUTS] = {{0.5f, 40, 0.25f, 0.125f, 7, 1, 1, 0}, {2.0f, 1, 1.0f, 0.0f, 8, 9, 0, 0}};
    struct step drawn = step;
    drawn.sample = draws;
    for (uint32_t i = 0; i < OUTS; i++)
        memcpy(sample + 8 * i, &draws[i], 28);
    ck_assert_uint_eq(stream_patch((uint8_t *)io, s, &drawn), 3 + 3 * ROWS + 8 * OUTS);
    ck_assert_mem_eq(io, want, words * 4);
    ck_assert_uint_eq(stream_patch((uint8_t *)io, s, &step), 3 + 3 * ROWS + 3 * OUTS); /* greedy again */
    sample[0] = sample[8] = sample[6] = sample[14] = 0;
    ck_assert_mem_eq(io, want, words * 4);
    free(io);
    free(want);
    stream_free(s);
}
END_TEST

START_TEST(the_table_covers_the_block_for_any_capacity)
{
    static const uint32_t caps[][2] = {{1, 1}, {8, 8}, {512, 8}, {33, 7}};
    for (size_t c = 0; c < 4; c++) {
        struct graph_opts o = FAKE_DECODE;
        o.row_cap = caps[c][0];
        o.out_cap = caps[c][1];
        struct stream *s = fake_compile(0, o);
        uint32_t sample_off = (64 + 16 * o.row_cap + 4 * o.out_cap + 15) / 16 * 16;
        ck_assert_uint_eq(s->h.next_off, sample_off + 32 * o.out_cap);
        ka_row *full = calloc(o.row_cap, sizeof *full);
        uint32_t *outs = calloc(o.out_cap, sizeof *outs);
        ka_sample *sample = calloc(o.out_cap, sizeof *sample);
        struct step all = {.n_rows = o.row_cap, .n_out = o.out_cap, .kv_len = 1, .rows = full, .out_row = outs,
                           .sample = sample};
        uint8_t *io = malloc(s->h.arena_bytes[ARENA_IO]);
        memset(io, 0xaa, s->h.arena_bytes[ARENA_IO]);
        ck_assert_uint_eq(stream_patch(io, s, &all), 3 + 3 * o.row_cap + 8 * o.out_cap);
        for (uint64_t i = s->h.next_off; i < s->h.arena_bytes[ARENA_IO]; i++)
            ck_assert_uint_eq(io[i], 0xaa);
        free(io);
        free(full);
        free(outs);
        free(sample);
        stream_free(s);
    }
}
END_TEST

START_TEST(prefill_without_outputs_patches_no_output_row)
{
    struct stream *s = fake_compile(0, FAKE_PREFILL);
    struct step quiet = step;
    quiet.n_out = 0;
    uint8_t *io = calloc(1, s->h.arena_bytes[ARENA_IO]);
    ck_assert_uint_eq(stream_patch(io, s, &quiet), 3 + 3 * ROWS);
    free(io);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("stream patches", a_patch_writes_the_steps_words_and_leaves_the_rest,
                     the_table_covers_the_block_for_any_capacity, prefill_without_outputs_patches_no_output_row);
}
