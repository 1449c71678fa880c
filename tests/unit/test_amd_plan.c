/* Plans of an AMD card on a winsys that keeps memory on the host, and looks at submissions instead of running them. */
#include <stdlib.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/env.h"
#include "rt/amd/walk.h"
#include "rt/blob.h"
#include "rt/pm4/decode.h"
#include "tests/stream/compile.h"

enum { MAX_BLOCKS = 4096 };

/* What an indirect buffer holds. */
struct seen {
    uint64_t va;
    uint32_t n_dw, dispatches, barriers, fences, problems;
    uint32_t rsrc1, priv; /* times that it was sent, and with PRIV */
};

struct fake {
    struct amd_winsys base;
    struct amd_cells cells;
    struct { uint8_t *p; uint64_t bytes; } block[MAX_BLOCKS];
    uint32_t n_blocks, live, fail_at; /* fail_at: the allocation that finds no memory, from 1 on */
    uint32_t n_submitted, n_others;
    struct seen last;
    bool broken, stopped, *destroyed;
};

static struct fake *of(struct amd_winsys *w)
{
    return (struct fake *)w;
}

static int fake_alloc(struct amd_winsys *w, enum amd_mem_kind kind, uint64_t bytes, const char *name,
                      struct amd_mem *out, struct err *e)
{
    struct fake *f = of(w);
    uint8_t *p;
    bytes = (bytes + AMD_PAGE - 1) / AMD_PAGE * AMD_PAGE;
    if (f->n_blocks + 1 == f->fail_at || f->n_blocks == MAX_BLOCKS || posix_memalign((void **)&p, AMD_PAGE, bytes))
        return err_set(e, -ENOMEM, "fake: no room for %s", name);
    memset(p, kind == AMD_HOST ? 0 : 0xa5, bytes);
    f->block[f->n_blocks].p = p;
    f->block[f->n_blocks++].bytes = bytes;
    f->live++;
    *out = (struct amd_mem){ .w = w, .kind = kind, .name = "fake", .va = (uintptr_t)p, .bytes = bytes,
                             .cpu = kind == AMD_PRIVATE ? NULL : p, .bo = p };
    return 0;
}

static void fake_free(struct amd_mem *m)
{
    struct fake *f = of(m->w);
    for (uint32_t i = 0; i < f->n_blocks; i++)
        if (f->block[i].p == m->bo) {
            free(f->block[i].p);
            f->block[i].p = NULL;
            f->live--;
            return;
        }
    ck_abort_msg("memory that there is not is freed");
}

static int fake_available(struct amd_winsys *w, uint64_t *bytes, struct err *e)
{
    *bytes = 1 << 30;
    return 0;
}

static const char *fake_check(void *w, uint64_t va, uint64_t bytes, bool write)
{
    const struct fake *f = w;
    if (va >= f->base.cells_va && va + bytes <= f->base.cells_va + sizeof f->cells)
        return NULL;
    for (uint32_t i = 0; i < f->n_blocks; i++) {
        uint64_t at = (uintptr_t)f->block[i].p;
        if (at && va >= at && va + bytes <= at + f->block[i].bytes)
            return NULL;
    }
    return "unmapped";
}

static struct seen look(struct fake *f, uint64_t va, uint32_t n_dw)
{
    const uint32_t *dw = (const uint32_t *)(uintptr_t)va;
    struct seen s = { .va = va, .n_dw = n_dw };
    struct pm4_view v = { .gen = f->base.card.chip->gen, .check = fake_check, .user = f };
    struct pm4_cursor c = { .gen = v.gen, .dw = dw, .n = n_dw };
    struct pm4_packet p;
    char *text;
    size_t n_text;
    FILE *out = open_memstream(&text, &n_text);
    s.problems = pm4_print(out, &v, dw, n_dw);
    fclose(out);
    ck_assert_msg(s.problems == 0, "%s", text);
    free(text);
    uint64_t fence = 0;
    while (pm4_next(&c, &p)) {
        if (p.op == PM4_OP_RELEASE_MEM)
            fence = (uint64_t)p.dw[4] << 32 | p.dw[3];
        s.fences += p.op == PM4_OP_WAIT_REG_MEM && fence && ((uint64_t)p.dw[3] << 32 | p.dw[2]) == fence;
        s.dispatches += p.op == PM4_OP_DISPATCH_DIRECT;
        uint32_t rsrc1_at = PM4_REG_COMPUTE_PGM_RSRC1 - 0x2c00 - (p.n > 2 ? p.dw[1] & 0xffff : 0);
        if (p.op == PM4_OP_SET_SH_REG && rsrc1_at < p.n - 2) {
            s.rsrc1++;
            s.priv += p.dw[2 + rsrc1_at] >> 20 & 1;
        }
        s.barriers += p.op == PM4_OP_EVENT_WRITE && (p.dw[1] & 0x3f) == PM4_EVENT_CS_PARTIAL_FLUSH;
    }
    return s;
}

static int fake_submit(struct amd_winsys *w, uint64_t va, uint32_t n_dw, uint64_t *point, struct err *e)
{
    struct fake *f = of(w);
    ck_assert(!f->stopped);
    ck_assert_uint_gt(n_dw, 0);
    ck_assert_uint_le(n_dw, AMD_IB_MAX_DW);
    ck_assert_uint_eq(n_dw % w->ib_align_dw, 0);
    ck_assert_ptr_null(fake_check(f, va, 4ull * n_dw, false));
    f->last = look(f, va, n_dw);
    f->n_submitted++;
    *point = ++w->point;
    if (!f->broken)
        f->cells.fence = w->point;
    return 0;
}

static int fake_wait(struct amd_winsys *w, uint64_t point, uint64_t timeout_ns, struct err *e)
{
    return of(w)->broken ? err_set(e, -EIO, "fake: the card fell off the bus") : -ETIME;
}

static void fake_stop(struct amd_winsys *w)
{
    of(w)->stopped = true;
}

static uint32_t fake_others(struct amd_winsys *w, const char **where)
{
    *where = "/fake/proc";
    return of(w)->n_others;
}

static void fake_destroy(struct amd_winsys *w)
{
    ck_assert_uint_eq(of(w)->live, 0);
    *of(w)->destroyed = true;
    free(w);
}

static void fake_describe(struct amd_winsys *w, FILE *f)
{
    fprintf(f, "nothing is known of a fake card\n");
}

static bool destroyed;

static struct fake *fake_open(uint32_t ib_align_dw, uint32_t fail_at)
{
    static const struct amd_winsys_ops ops = {
        .mem_alloc = fake_alloc, .mem_free = fake_free, .mem_available = fake_available, .mem_check = fake_check,
        .submit = fake_submit, .wait = fake_wait, .stop = fake_stop, .others = fake_others, .destroy = fake_destroy,
        .describe = fake_describe };
    struct fake *f = calloc(1, sizeof *f);
    f->base = (struct amd_winsys){ .ops = &ops, .name = "fake", .log = LOGM_RT, .host_sees_vram = true,
                                   .cells = &f->cells, .cells_va = (uintptr_t)&f->cells, .ib_align_dw = ib_align_dw,
                                   .submit_words = 5, .submit_bytes = 20 };
    f->base.card = (struct amd_card){ .chip = amd_chip_of(120001), .name = "fake card", .n_cu = 4, .n_se = 2,
                                      .scratch_slots_cu = 16 };
    f->fail_at = fail_at;
    f->destroyed = &destroyed;
    destroyed = false;
    ((struct env *)env_get())->kfd_unchecked = 1; /* nothing is added up here */
    return f;
}

/* ---- a tier on it ---- */

struct ctx {
    struct fake *f;
    struct tier *t;
    struct tier_plan *p;
    const uint8_t **data;
    uint8_t *zeros;
    enum plan_kind kind; /* 0: replay */
};

/* Opens, loads zeros, prepares. What failed is undone by finish. */
static int start(struct ctx *c, const struct stream *s, const struct tier_opts *o, struct err *e)
{
    uint64_t most = 1;
    const struct tier_info info = { .device = "fake card", .persistent = true };
    for (uint32_t i = 0; i < s->h.n_weights; i++)
        most = s->weights[i].bytes > most ? s->weights[i].bytes : most;
    c->zeros = calloc(1, most);
    c->data = calloc(s->h.n_weights + 1, sizeof *c->data);
    for (uint32_t i = 0; i < s->h.n_weights; i++)
        c->data[i] = c->zeros;
    int rc = amd_tier_open(&c->f->base, &info, o, &c->t, e);
    if (rc)
        return rc;
    if ((rc = tier_load(c->t, &(struct tier_weights){ s, c->data }, NULL, e)) ||
        (rc = tier_alloc(c->t, s->h.arena_bytes, e)))
        return rc;
    return tier_prepare(c->t, s, c->kind ? c->kind : PLAN_REPLAY, &c->p, e);
}

static void finish(struct ctx *c)
{
    tier_plan_destroy(c->p);
    tier_close(c->t);
    free(c->data);
    free(c->zeros);
    ck_assert(destroyed);
}

static int one_step(struct ctx *c, uint64_t *point)
{
    static const uint32_t out_row[1] = { 0 };
    const ka_row row = { .token = 5 };
    const struct step st = { .n_rows = 1, .n_out = 1, .kv_len = 1, .rows = &row, .out_row = out_row };
    return tier_submit(c->t, c->p, &st, point);
}

static const struct tier_opts plain = { .device = -1 }, checked = { .device = -1, .check = true };

START_TEST(a_step_is_one_indirect_buffer)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        struct ctx c = { .f = fake_open(1, 0) };
        struct err e = { 0 };
        uint64_t point;
        ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s: %s", fake_models[i].name, e.msg);
        const struct amd_plan *p = (const struct amd_plan *)c.p;
        const struct amd_pass *x = &p->pass[p->r.n_passes - 1]; /* for a single row */
        uint32_t before = c.f->n_submitted, waits = 3; /* both of the frame, and the first of the stream */
        for (uint32_t k = 1; k < x->d->n; k++)
            waits += x->d->d[k].wait;
        for (uint32_t k = 0; k < 2 * KL_RING; k++) {
            ck_assert_int_eq(one_step(&c, &point), 0);
            ck_assert_int_eq(tier_wait(c.t, point, 0), 0);
        }
        ck_assert_uint_eq(c.f->n_submitted - before, 2 * KL_RING);
        ck_assert_uint_eq(c.f->last.va, x->ib.va);
        ck_assert_uint_eq(c.f->last.n_dw, x->n_dw);
        ck_assert_uint_eq(c.f->last.dispatches, x->d->n + 2);
        ck_assert_uint_eq(c.f->last.barriers, waits);
        ck_assert_uint_eq(x->n_barriers, waits);
        finish(&c);
        stream_free(s);
    }
}
END_TEST

/* A row's step: a dispatch for each walk and for each launch that has no place in one, a barrier before and behind each walk. */
START_TEST(a_persistent_step_is_walks)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        struct ctx c = { .f = fake_open(1, 0), .kind = PLAN_PERSISTENT };
        struct err e = { 0 };
        uint64_t point;
        ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s: %s", fake_models[i].name, e.msg);
        const struct amd_plan *p = (const struct amd_plan *)c.p;
        const struct amd_pass *x = &p->pass[p->r.n_passes - 1];
        uint32_t walked = 0, before = c.f->n_submitted;
        for (uint32_t k = 0; k < x->n_walks; k++)
            walked += x->walks[k].n;
        ck_assert_uint_ge(x->n_walks, 1);
        ck_assert_msg(3 * walked >= 2 * x->d->n, "%s: %u of %u launches", fake_models[i].name, walked, x->d->n);
        ck_assert_int_eq(one_step(&c, &point), 0);
        ck_assert_int_eq(tier_wait(c.t, point, 0), 0);
        ck_assert_uint_eq(c.f->n_submitted - before, 1);
        ck_assert_uint_eq(c.f->last.va, x->walk_ib.va);
        ck_assert_uint_eq(c.f->last.dispatches, x->d->n + 2 - walked + x->n_walks);
        ck_assert_uint_ge(c.f->last.barriers, x->n_walks + 2);
        finish(&c);
        stream_free(s);
    }
}
END_TEST

START_TEST(a_card_that_others_have_replays)
{
    struct stream *s = fake_compile(0, FAKE_DECODE);
    struct ctx c = { .f = fake_open(1, 0), .kind = PLAN_PERSISTENT };
    struct err e = { 0 };
    c.f->n_others = 1;
    ck_assert_int_eq(start(&c, s, &plain, &e), -ENOTSUP);
    ck_assert_msg(strcmp(e.msg, "fake: 1 other process has the card (/fake/proc), so the persistent plan's work-groups may not all "
                                "find room; --plan=replay") == 0, "%s", e.msg);
    ck_assert_int_eq(tier_prepare(c.t, s, PLAN_REPLAY, &c.p, &e), 0);
    finish(&c);
    stream_free(s);
}
END_TEST

START_TEST(a_walk_that_gave_up_is_a_fault)
{
    char folder[] = "/tmp/zinc-amd-XXXXXX";
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    struct ctx c = { .f = fake_open(1, 0), .kind = PLAN_PERSISTENT };
    struct err e = { 0 };
    uint64_t point;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(one_step(&c, &point), 0);
    const struct amd_plan *p = (const struct amd_plan *)c.p;
    const struct amd_walk *w = p->pass[p->r.n_passes - 1].walks;
    const struct walk_item *it = w->mem.cpu;
    char words[80];
    uint32_t at = 2;
    while (it[at + 1].need == it[2].need) /* those that need not wait for it */
        at++;
    snprintf(words, sizeof words, "gave up: launch %u of the step did not end", w->first + 1 + at);
    c.f->cells.gave_up[0] = it[2].need;
    c.f->cells.gave_up[1] = w->first + 1;
    ck_assert_int_eq(tier_wait(c.t, point, 0), -EIO);
    ck_assert_int_eq(c.t->impl->fault(c.t, &e), 0);
    ck_assert_msg(strstr(e.msg, words) != NULL, "%s", e.msg);
    finish(&c);
    stream_free(s);
    ck_assert_int_eq(system("rm -r zinc-report-* && rmdir \"$PWD\""), 0);
}
END_TEST

/* By hand: SIMDs of 1,536 registers (gfx1201, 24 at a time) or 1,024 (gfx1102, 16), 16 waves each, four of them and 128 KiB of LDS
 * for two compute units. */
START_TEST(work_groups_that_a_card_holds)
{
    static const struct { uint32_t chip, n_cu, n_se, slots, vgprs, lds, lane, groups; } cases[] = {
        { 120001, 64, 4, 32, 128, 41488, 0, 96 },  /* LDS: 3 for two compute units        */
        { 120001, 64, 4, 32, 96, 1024, 0, 128 },   /* two a compute unit, and no more     */
        { 120001, 64, 4, 32, 256, 1024, 0, 64 },   /* 5 waves a SIMD, 20 of them: 2       */
        { 110002, 32, 2, 32, 256, 1024, 0, 32 },   /* 4 waves a SIMD: 2                   */
        { 110000, 96, 6, 32, 216, 65536, 0, 96 },  /* 65,536 bytes: 2                     */
        { 120001, 64, 4, 2, 96, 1024, 20, 16 },    /* 32 waves of an engine have scratch  */
        { 120001, 4, 2, 2, 96, 1024, 20, 0 },      /* 4 of them: not one work-group       */
        { 110003, 12, 1, 32, 128, 1024, 0, 24 },
    };
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct amd_card card = { .chip = amd_chip_of(cases[i].chip), .n_cu = cases[i].n_cu, .n_se = cases[i].n_se,
                                 .scratch_slots_cu = cases[i].slots };
        uint32_t n = amd_walk_capacity(&card, cases[i].vgprs, cases[i].lds, cases[i].lane);
        ck_assert_msg(n == cases[i].groups, "case %u: %u", i, n);
    }
}
END_TEST

/* RSRC1.PRIV is for waves that the driver saves, on the chips that need it. */
START_TEST(kernels_run_with_priv_where_waves_are_saved)
{
    static const struct { uint32_t chip; bool saves, priv; } cases[] = {
        { 110000, true, true }, { 110000, false, false }, { 110501, true, false }, { 120001, true, false } };
    for (uint32_t i = 0; i < ARRAY_LEN(cases); i++) {
        struct stream *s = fake_compile(0, FAKE_DECODE);
        struct ctx c = { .f = fake_open(1, 0) };
        struct err e = { 0 };
        uint64_t point;
        c.f->base.card.chip = amd_chip_of(cases[i].chip);
        c.f->base.saves_waves = cases[i].saves;
        ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s", e.msg);
        ck_assert_int_eq(one_step(&c, &point), 0);
        ck_assert_uint_gt(c.f->last.rsrc1, 2);
        ck_assert_uint_eq(c.f->last.priv, cases[i].priv ? c.f->last.rsrc1 : 0);
        finish(&c);
        stream_free(s);
    }
}
END_TEST

/* ZINC_AMD_BARRIER=1: as many waits, each for a fence of its own, and no flush. */
START_TEST(barriers_by_fences)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct err e = { 0 };
    uint64_t point;
    setenv("ZINC_AMD_BARRIER", "1", 1);
    struct ctx c = { .f = fake_open(1, 0) };
    ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s", e.msg);
    const struct amd_plan *p = (const struct amd_plan *)c.p;
    const struct amd_pass *x = &p->pass[p->r.n_passes - 1];
    ck_assert_int_eq(one_step(&c, &point), 0);
    ck_assert_uint_gt(x->n_barriers, 3);
    ck_assert_uint_eq(c.f->last.fences, x->n_barriers);
    ck_assert_uint_eq(c.f->last.barriers, 0);
    finish(&c);
    stream_free(s);
}
END_TEST

/* Checked, each launch is an indirect buffer, and waits. */
START_TEST(parts_are_as_long_as_the_winsys_wants_them)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct ctx c = { .f = fake_open(8, 0) };
    struct err e = { 0 };
    uint64_t point;
    ck_assert_msg(start(&c, s, &checked, &e) == 0, "%s", e.msg);
    const struct amd_plan *p = (const struct amd_plan *)c.p;
    const struct amd_pass *x = &p->pass[p->r.n_passes - 1];
    uint32_t before = c.f->n_submitted;
    ck_assert_int_eq(one_step(&c, &point), 0);
    ck_assert_uint_eq(c.f->n_submitted - before, x->d->n + 2);
    ck_assert_uint_eq(x->n_barriers, x->d->n + 2);
    ck_assert_uint_eq(c.f->last.dispatches, 1);
    finish(&c);
    stream_free(s);
}
END_TEST

/* A kernel that gives a submission a time limit: so many launches, or so much work, whichever is less. */
START_TEST(prompts_go_in_parts_of_so_much_work)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_PREFILL);
    static const struct { uint32_t launches, ms; } limits[] = { { 0, 0 }, { 8, 1000000 }, { 1000, 0 }, { 8, 1 } };
    uint32_t parts[ARRAY_LEN(limits)];
    for (uint32_t i = 0; i < ARRAY_LEN(limits); i++) {
        struct ctx c = { .f = fake_open(8, 0) };
        struct err e = { 0 };
        c.f->base.part_launches = limits[i].launches;
        c.f->base.part_ms = limits[i].ms;
        ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s", e.msg);
        const struct amd_plan *p = (const struct amd_plan *)c.p;
        const struct amd_pass *x = &p->pass[0];
        ck_assert_uint_gt(p->r.pass[0].max_rows, 1);
        uint32_t longest = 0, n = 0;
        for (uint32_t k = 0; k < x->n_launches; k++) {
            n = x->begins[k] ? 1 : n + 1;
            longest = MAX(longest, n);
        }
        parts[i] = x->n_parts;
        if (i == 0)
            ck_assert_uint_eq(x->n_parts, 1);
        if (i == 1) {
            ck_assert_uint_eq(longest, 8);
            ck_assert_uint_eq(x->n_parts, (x->n_launches + 7) / 8);
        }
        finish(&c);
    }
    ck_assert_uint_gt(parts[2], parts[1]); /* each launch that has work, by itself */
    ck_assert_uint_ge(parts[3], parts[1]);
    stream_free(s);
}
END_TEST

START_TEST(a_prefix_ends_the_step)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct ctx c = { .f = fake_open(8, 0) };
    struct err e = { 0 };
    ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s", e.msg);
    static const uint32_t out_row[1] = { 0 };
    const ka_row row = { .token = 5 };
    const struct step st = { .n_rows = 1, .n_out = 1, .kv_len = 1, .rows = &row, .out_row = out_row };
    uint32_t before = c.f->n_submitted;
    ck_assert_int_eq(tier_submit_prefix(c.t, c.p, &st, 3, &e), 0);
    ck_assert_uint_eq(c.f->n_submitted - before, 2);
    ck_assert_uint_eq(c.f->last.dispatches, 1); /* the end of the step */
    ck_assert_uint_eq(c.f->last.barriers, 1);
    finish(&c);
    stream_free(s);
}
END_TEST

START_TEST(memory_that_runs_out_is_given_back)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    uint32_t n = 1;
    int rc;
    do {
        struct ctx c = { .f = fake_open(1, n), .kind = PLAN_PERSISTENT };
        struct err e = { 0 };
        rc = start(&c, s, &plain, &e);
        ck_assert_msg(!rc || (rc == -ENOMEM && strncmp(e.msg, "fake: no room for ", 18) == 0), "%u: %d, %s", n, rc,
                      e.msg);
        finish(&c);
        n++;
    } while (rc);
    ck_assert_uint_gt(n, 15);
    stream_free(s);
}
END_TEST

START_TEST(a_fault_is_told_in_the_winsys_words)
{
    char folder[] = "/tmp/zinc-amd-XXXXXX";
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    struct ctx c = { .f = fake_open(1, 0) };
    struct err e = { 0 };
    uint64_t point;
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
    ck_assert_msg(start(&c, s, &plain, &e) == 0, "%s", e.msg);
    const struct amd_plan *p = (const struct amd_plan *)c.p;
    c.f->broken = true;
    ck_assert_int_eq(one_step(&c, &point), 0);
    c.f->cells.progress = p->pass[p->r.n_passes - 1].number << AMD_LAUNCH_SHIFT | 3; /* it got as far as launch 2 */
    ck_assert_int_eq(tier_wait(c.t, point, 1000), -EIO);
    ck_assert_int_eq(c.t->impl->fault(c.t, &e), 0);
    ck_assert_msg(strncmp(e.msg, "fake: the card fell off the bus", 31) == 0 && strstr(e.msg, "launch 2 of"), "%s",
                  e.msg);
    ck_assert_int_eq(system("grep -q '^nothing is known' zinc-report-*/report.txt && "
                            "grep -q '^running: launch 2,' zinc-report-*/packets.txt"), 0);
    tier_plan_destroy(c.p);
    c.p = NULL;
    ck_assert(c.f->stopped);
    finish(&c);
    stream_free(s);
    ck_assert_int_eq(system("rm -r zinc-report-* && rmdir \"$PWD\""), 0);
}
END_TEST

int main(void)
{
    if (!kernel_blob_find("basic", "gfx12-generic")) {
        puts("built without code objects for AMD");
        return 77;
    }
    return RUN_TESTS("amd_plan", a_persistent_step_is_walks, a_card_that_others_have_replays, a_walk_that_gave_up_is_a_fault,
                     work_groups_that_a_card_holds, a_step_is_one_indirect_buffer, kernels_run_with_priv_where_waves_are_saved,
                     barriers_by_fences, parts_are_as_long_as_the_winsys_wants_them,
                     prompts_go_in_parts_of_so_much_work,
                     a_prefix_ends_the_step, memory_that_runs_out_is_given_back, a_fault_is_told_in_the_winsys_words);
}
