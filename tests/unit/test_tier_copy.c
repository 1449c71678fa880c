/* tier_copy, and rows there and back, on every tier that opens here: what was copied is there, what lies around it is as it was. The vulkan tier's
 * cache is cut into buffers of its own for this, and copies cross the cuts. */
#include <stdlib.h>
#include <string.h>

#include "engine/proof/opstream.h"
#include "tests/lib/run.h"
#include "tests/lib/skip.h"
#ifdef ZINC_VULKAN
#include "vk/vk.h"
#endif

enum { N = 32, PARTS = 4, PART = 640 << 10, AT = 8, BYTES = 2 * PART - 4096, SRC = AT + BYTES + 16 };

struct ctx {
    struct ops *o;
    struct tier *t;
    struct tier_plan *p;
    uint32_t x, y;
    uint64_t end;
    uint8_t *want, *is;
    struct err e;
};

/* One addition, and caches that it does not touch. False: the tier does not run here. */
static bool start(struct ctx *c, const char *tier)
{
    static const char *const caches[PARTS] = { "k0", "v0", "k1", "v1" };
    memset(c, 0, sizeof *c);
    if (tier_open(tier, NULL, &c->t, &c->e)) {
        cases_skipped(1, "%s: not here: %s", tier, c->e.msg);
        return false;
    }
    struct ops *o = c->o = ops_new(1, 0, 16, 2, KA_KV_F16);
    c->y = ops_rows(o, "y", OPS_OUT, N);
    c->x = ops_rows(o, "x", OPS_IN, N);
    for (int i = 0; i < PARTS; i++)
        ops_cache(o, caches[i], PART);
    const ka_add add = { .step = ops_step(o), .y = ops_at(o, c->y), .a = ops_at(o, c->x), .b = ops_at(o, c->x), .n = N };
    ops_cmd(o, CMD_ADD, &add, sizeof add);
    ck_assert_msg(ops_finish(o, &c->e) == 0, "%s", c->e.msg);
    const struct stream *s = ops_stream(o);
    ck_assert_msg(tier_load(c->t, &(struct tier_weights){ s, ops_weights(o) }, NULL, &c->e) == 0, "%s", c->e.msg);
    ck_assert_msg(tier_alloc(c->t, s->h.arena_bytes, &c->e) == 0, "%s", c->e.msg);
    c->end = s->h.arena_bytes[ARENA_KV];
    ck_assert_uint_ge(c->end, SRC + BYTES);
    c->want = malloc(c->end);
    c->is = malloc(c->end);
    for (uint64_t i = 0; i < c->end; i++)
        c->want[i] = (uint8_t)(i * 2654435761u >> 13);
    return true;
}

static void finish(struct ctx *c)
{
    tier_close(c->t);
    ops_free(c->o);
    free(c->want);
    free(c->is);
}

static void copy(struct ctx *c, uint64_t dst, uint64_t src, uint64_t n)
{
    ck_assert_msg(tier_copy(c->t, ARENA_KV, dst, src, n, &c->e) == 0, "%s", c->e.msg);
    memcpy(c->want + dst, c->want + src, n);
}

static void look(struct ctx *c)
{
    ck_assert_msg(tier_read(c->t, ARENA_KV, 0, c->is, c->end, &c->e) == 0, "%s", c->e.msg);
    uint64_t i = 0;
    while (i < c->end && c->is[i] == c->want[i])
        i++;
    ck_assert_msg(i == c->end, "%s: byte %llu is %u, not %u", c->t->impl->name, (unsigned long long)i, c->is[i],
                  c->want[i]);
}

static void refused(struct ctx *c, enum arena a, uint64_t dst, uint64_t src, uint64_t n, const char *why)
{
    ck_assert_int_eq(tier_copy(c->t, a, dst, src, n, &c->e), -EINVAL);
    ck_assert_msg(strstr(c->e.msg, why), "%s", c->e.msg);
}

static void copies(struct ctx *c)
{
    bool kept = strcmp(c->t->impl->name, "null") != 0; /* the null tier keeps no cache */
    ck_assert_int_eq(tier_write(c->t, ARENA_KV, 0, c->want, c->end, &c->e), 0);
    if (!kept)
        memset(c->want, 0, c->end);
    copy(c, AT, SRC, BYTES);
    copy(c, SRC + 4, AT + 8, 16); /* what the copy before has written */
    look(c);
    copy(c, AT, AT + 4, 4); /* neighbours do not overlap */
    copy(c, SRC + 1, AT + 2, 3);
    copy(c, AT, AT, 0);
    look(c);
    refused(c, ARENA_KV, AT, AT + 4, 5, "overlap");
    refused(c, ARENA_KV, AT + 4, AT, 5, "overlap");
    refused(c, ARENA_KV, 0, c->end - 4, 5, "outside");
    refused(c, ARENA_KV, c->end - 4, 0, 5, "outside");
    refused(c, ARENA_KV, UINT64_MAX - 4, 0, 8, "outside");
    refused(c, ARENA_WEIGHTS, 0, 8, 4, "outside");
    look(c);
}

/* Rows that are apart in the arena and in memory, there and back. */
static void rows(struct ctx *c)
{
    enum { ROWS = 5, WIDTH = 96 << 10, PITCH = 200 << 10, HOST = WIDTH + 40 };
    struct tier_rows r = { .off = 12, .pitch = PITCH, .host_pitch = HOST, .width = WIDTH, .n = ROWS };
    uint8_t *host = malloc(ROWS * HOST);
    memset(host, 0xee, ROWS * HOST);
    ck_assert_msg(tier_read_rows(c->t, ARENA_KV, &r, host, &c->e) == 0, "%s", c->e.msg);
    for (int i = 0; i < ROWS; i++) {
        ck_assert(memcmp(host + i * HOST, c->want + r.off + (uint64_t)i * PITCH, WIDTH) == 0);
        for (int k = WIDTH; k < HOST; k++)
            ck_assert_uint_eq(host[i * HOST + k], 0xee);
    }
    for (int i = 0; i < ROWS * HOST; i++)
        host[i] ^= 0x5a;
    r.off += 4;
    ck_assert_msg(tier_write_rows(c->t, ARENA_KV, &r, host, &c->e) == 0, "%s", c->e.msg);
    for (int i = 0; i < ROWS; i++)
        memcpy(c->want + r.off + (uint64_t)i * PITCH, host + i * HOST, WIDTH);
    look(c);
    r.n = 100;
    ck_assert_int_eq(tier_read_rows(c->t, ARENA_KV, &r, host, &c->e), -EINVAL);
    r.n = 2, r.pitch = WIDTH - 1;
    ck_assert_int_eq(tier_write_rows(c->t, ARENA_KV, &r, host, &c->e), -EINVAL);
    look(c);
    free(host);
}

/* After the step before and ahead of the next, without waiting in between. */
static void between_steps(struct ctx *c)
{
    const struct stream *s = ops_stream(c->o);
    const ka_row row = { .token = 0 };
    const struct step st = { .n_rows = 1, .n_out = 0, .kv_len = 1, .rows = &row };
    const struct stream_buf *x = &s->bufs[c->x], *y = &s->bufs[c->y];
    float v[N], sum[N];
    uint64_t point;
    for (int i = 0; i < N; i++)
        v[i] = (float)i;
    ck_assert_msg(tier_prepare(c->t, s, PLAN_AUTO, &c->p, &c->e) == 0, "%s", c->e.msg);
    ck_assert_int_eq(tier_write(c->t, ARENA_SCRATCH, x->off, v, sizeof v, &c->e), 0);
    for (int i = 0; i < 3; i++) { /* y = 2 x; x = y */
        ck_assert_int_eq(tier_submit(c->t, c->p, &st, &point), 0);
        ck_assert_msg(tier_copy(c->t, ARENA_SCRATCH, x->off, y->off, sizeof v, &c->e) == 0, "%s", c->e.msg);
    }
    ck_assert_int_eq(tier_read(c->t, ARENA_SCRATCH, x->off, sum, sizeof sum, &c->e), 0);
    for (int i = 0; i < N; i++)
        ck_assert_msg(sum[i] == 8.0f * v[i], "%s: %g, not %g", c->t->impl->name, (double)sum[i], (double)(8.0f * v[i]));
    tier_plan_destroy(c->p);
}

static void on(const char *tier, bool planes)
{
    struct ctx c;
    if (!start(&c, tier))
        return;
    ck_assert_int_eq(c.t->info.kv_planes, planes);
#ifdef ZINC_VULKAN
    if (strcmp(tier, "vulkan") == 0)
        ck_assert_uint_ge(((const struct vk *)c.t)->arena[ARENA_KV].n, PARTS);
#endif
    copies(&c);
    if (strcmp(tier, "null") != 0) {
        rows(&c);
        between_steps(&c);
    }
    finish(&c);
}

START_TEST(cpu) { on("cpu", false); }
END_TEST
START_TEST(lockstep) { on("lockstep", true); }
END_TEST
START_TEST(null) { on("null", false); }
END_TEST
START_TEST(vulkan) { on("vulkan", true); }
END_TEST
START_TEST(cuda) { on("cuda", true); }
END_TEST
START_TEST(kfd) { on("kfd", true); }
END_TEST

int main(void)
{
    setenv("ZINC_VULKAN_BUFFER", "1", 1); /* MiB */
    setenv("ZINC_VULKAN_CACHE", "none", 1);
    return RUN_TESTS("tier copy", cpu, lockstep, null, vulkan, cuda, kfd);
}
