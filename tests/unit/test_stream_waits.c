/* Waits cover every hazard and are no newer than they must be. */
#include "graph/verify.h"
#include "tests/stream/compile.h"

static bool conflict(const struct extent *a, const struct extent *b)
{
    return ((a->dir | b->dir) & USE_WRITE) && a->at < b->end && b->at < a->end;
}

/* The newest earlier command that shares bytes with command i, by looking at all pairs. */
static uint32_t brute_force(const struct stream *s, const struct extent *ext, uint32_t i)
{
    const struct cmd *c = &s->cmds[i];
    for (uint32_t j = i; j-- > 0;)
        for (uint32_t u = c->first_use; u < c->first_use + c->n_uses; u++)
            for (uint32_t v = s->cmds[j].first_use; v < s->cmds[j].first_use + s->cmds[j].n_uses; v++)
                if (conflict(&ext[u], &ext[v]))
                    return j;
    return CMD_NO_WAIT;
}

static void check_stream(const struct stream *s)
{
    struct extent *ext = calloc(s->h.n_uses + 1, sizeof *ext);
    uint32_t *need = calloc(s->h.n_cmds + 1, sizeof *need);
    struct err e = {0};
    ck_assert_msg(verify_commands(s, ext, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(verify_needed_waits(s, ext, need, &e), 0);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        ck_assert_uint_eq(need[i], brute_force(s, ext, i));
        ck_assert_msg(s->cmds[i].wait == need[i], "command %u waits for %u, needs %u", i, s->cmds[i].wait, need[i]);
    }
    free(ext);
    free(need);
}

START_TEST(waits_are_minimal_and_covering)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++)
        for (int no_fuse = 0; no_fuse < 2; no_fuse++) {
            struct graph_opts o = no_fuse ? FAKE_PREFILL : FAKE_DECODE;
            o.no_fuse = no_fuse;
            struct stream *s = fake_compile(i, o);
            check_stream(s);
            stream_free(s);
        }
}
END_TEST

START_TEST(the_shared_expert_runs_beside_the_router)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    for (uint32_t i = 1; i < s->h.n_cmds; i++)
        if (s->cmds[i].op == CMD_GATE_UP) {
            ck_assert_int_eq(s->cmds[i - 1].op, CMD_ROUTER);
            ck_assert_uint_eq(s->cmds[i].wait, s->cmds[i - 1].wait);
        }
    stream_free(s);
}
END_TEST

START_TEST(hazards_of_random_extents_agree_with_all_pairs)
{
    enum { CMDS = 40, USES = 3 };
    static struct extent ext[CMDS * USES];
    static struct cmd cmds[CMDS];
    struct stream s = {.h = {.n_cmds = CMDS, .n_uses = CMDS * USES}, .cmds = cmds};
    uint32_t need[CMDS], x = 12345;
    for (int round = 0; round < 300; round++) {
        for (uint32_t i = 0; i < CMDS * USES; i++) {
            x = x * 1664525u + 1013904223u;
            uint64_t at = x >> 20 & 0xff, n = 1 + (x >> 8 & (round % 3 ? 0xf : 0x7f));
            enum arena a = x >> 29 == 0 ? ARENA_WEIGHTS : x >> 29 < 4 ? ARENA_SCRATCH : ARENA_IO;
            uint8_t dir = a == ARENA_WEIGHTS ? USE_READ : 1 + (x >> 16) % 3;
            ext[i] = (struct extent){.at = SADDR(a, at), .end = SADDR(a, at + n), .cmd = i / USES, .dir = dir};
            cmds[i / USES] = (struct cmd){.first_use = i / USES * USES, .n_uses = USES};
        }
        ck_assert_int_eq(verify_needed_waits(&s, ext, need, NULL), 0);
        for (uint32_t i = 0; i < CMDS; i++)
            ck_assert_uint_eq(need[i], brute_force(&s, ext, i));
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("stream waits", waits_are_minimal_and_covering, the_shared_expert_runs_beside_the_router,
                     hazards_of_random_extents_agree_with_all_pairs);
}
