/* rt/amd/ladder.c: from a fence to a work-group that uses its shared memory. */
#include "rt/amd/ladder.h"

#include "rt/amd/filler.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "kernels/kernel_id.h"
#include "kernels/klaunch.h"
#include "rt/blob.h"

enum { RUN_MS = 60000, BELL_MS = 2000, VRAM_BYTES = 1 << 20 };
#define MS(n) ((uint64_t)(n) * 1000000u)

int amd_rung_pick(const struct amd_choice *c, int n, int device, struct err *e)
{
    struct err none = { 0 };
    const struct tier_opts o = { .device = device };
    int at = amd_pick("ladder", c, n, &o, &none);
    if (at < 0)
        return err_set(e, -ENODEV, "no GPU %d: there %s %d, the first is %s", device, n == 1 ? "is" : "are", n, c[0].name);
    if (!c[at].chip)
        return err_set(e, -ENODEV, "%d GPU%s, none that zinc has kernels for (%s); the first is %s", n, n == 1 ? "" : "s",
                       amd_chip_names(), c[0].name);
    return at;
}

int amd_rungs_begin(size_t bytes, int device, void **state, struct err *e)
{
    struct amd_rungs *r = calloc(1, bytes);
    if (!r)
        return err_set(e, -ENOMEM, "ladder: out of memory");
    r->device = device;
    *state = r;
    return 0;
}

void amd_rungs_end(void *state)
{
    struct amd_rungs *r = state;
    if (r->w) {
        r->w->ops->stop(r->w);
        amd_module_free(&r->module);
        amd_copier_free(&r->copier);
        amd_mem_free(&r->vram);
        amd_mem_free(&r->ib);
        amd_mem_free(&r->host);
        r->w->ops->destroy(r->w);
    }
    free(r);
}

void amd_rungs_failed(void *state, FILE *detail)
{
    struct amd_rungs *r = state;
    if (!r->w)
        return;
    fprintf(detail, "\nas it stands:\n");
    r->w->ops->describe(r->w, detail);
    if (r->w->ops->describe_queue)
        r->w->ops->describe_queue(r->w, detail);
}

static int alloc(struct amd_rungs *r, struct amd_winsys *w, struct err *e)
{
    int rc;
    if ((rc = amd_mem_alloc(w, AMD_HOST, AMD_PAGE, "ladder, host", &r->host, e)) ||
        (rc = amd_mem_alloc(w, AMD_HOST, AMD_PAGE, "ladder, packets", &r->ib, e)))
        return rc;
    return amd_mem_alloc(w, AMD_VRAM, VRAM_BYTES, "ladder, card", &r->vram, e);
}

int amd_rung_memory(struct amd_rungs *r, struct amd_winsys *w, struct ladder_out *o, struct err *e)
{
    uint64_t free_bytes = 0;
    int rc;
    r->w = w;
    if ((rc = w->ops->mem_available(w, &free_bytes, e)) || (rc = alloc(r, w, e)))
        return rc;
    uint64_t *p = r->host.cpu;
    for (uint64_t i = 0; i < AMD_PAGE / 8; i++)
        p[i] = 0x9e3779b97f4a7c15u * (i + 1);
    for (uint64_t i = 0; i < AMD_PAGE / 8; i++)
        if (p[i] != 0x9e3779b97f4a7c15u * (i + 1))
            return err_set(e, -EIO, "host memory for the card: word %llu came back as %#llx", (unsigned long long)i,
                           (unsigned long long)p[i]);
    snprintf(o->found, sizeof o->found, "host page at %#llx, 1 MiB of the card's at %#llx (%s); %.1f GiB free",
             (unsigned long long)r->host.va, (unsigned long long)r->vram.va,
             w->host_sees_vram ? "the host sees all of its memory" : "no large BAR: copies go through the card",
             (double)free_bytes / 0x1p30);
    return 0;
}

/* ---- the ring ---- */

/* A packet lies where the card will look, and without a bell nobody has looked yet. */
int amd_rung_visible(void *state, struct ladder_out *o, struct err *e)
{
    struct amd_rungs *r = state;
    struct amd_ring *q = r->ring;
    uint32_t dw[4];
    struct pm4_buf b;
    pm4_init(&b, r->w->card.chip->gen, dw, ARRAY_LEN(dw));
    pm4_nop(&b, ARRAY_LEN(dw));
    uint64_t from = q->wptr;
    uint32_t before = amd_ring_fetched(q), at = amd_ring_written(q);
    amd_ring_put(q, dw, b.n);
    amd_store_fence();
    for (uint32_t i = 0; i < b.n; i++)
        if (((volatile uint32_t *)q->dw)[(from + i) & q->mask] != dw[i])
            return err_set(e, -EIO, "dword %u of the ring is not what was written", i);
    nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
    uint32_t after = amd_ring_fetched(q);
    if (b.rc || before != at || after != before)
        return err_set(e, -EIO, "the read pointer stands at %u, then %u; expected %u until the bell is rung", before, after,
                       at);
    snprintf(o->found, sizeof o->found, "%u dwords in the ring, the read pointer waits at %u", b.n, before);
    return 0;
}

int amd_rung_bell(void *state, struct ladder_out *o, struct err *e)
{
    struct amd_ring *q = ((struct amd_rungs *)state)->ring;
    uint64_t t0 = clock_ns();
    uint32_t at, end = amd_ring_written(q);
    amd_ring_bell(q);
    while ((at = amd_ring_fetched(q)) != end)
        if (clock_ns() - t0 > MS(BELL_MS))
            return err_set(e, -ETIME, "the read pointer is at %u %d ms after the bell, expected %u", at, BELL_MS, end);
    fprintf(o->detail, "raw pointers after the bell: read 0x%llx, write 0x%llx\n", (unsigned long long)*q->rptr,
            (unsigned long long)*q->wptr_cell);
    snprintf(o->found, sizeof o->found, "fetched %.1f us after the bell, the read pointer is at %u",
             (double)(clock_ns() - t0) * 1e-3, at);
    return 0;
}

/* ---- packets ---- */

/* Runs the packets, which lie in r->ib, and waits. */
static int run(struct amd_rungs *r, struct pm4_buf *b, double *us, struct err *e)
{
    struct amd_winsys *w = r->w;
    uint64_t point, t0 = clock_ns();
    amd_ib_pad(w, b);
    if (b->rc)
        return err_set(e, b->rc, "packets: %s", b->why);
    int rc = amd_submit(w, r->ib.va, b->n, &point, e);
    if (!rc)
        rc = amd_wait(w, point, MS(RUN_MS), e);
    if (rc == -ETIME)
        err_set(e, rc, "the fence is at %llu after %d s, expected %llu", (unsigned long long)w->cells->fence,
                RUN_MS / 1000, (unsigned long long)point);
    if (us)
        *us = (double)(clock_ns() - t0) * 1e-3;
    return rc;
}

/* An empty IB in the page for packets. */
static void begin(struct amd_rungs *r, struct pm4_buf *b)
{
    pm4_init(b, r->w->card.chip->gen, r->ib.cpu, AMD_PAGE / 4);
}

int amd_rung_fence(void *state, struct ladder_out *o, struct err *e)
{
    struct amd_rungs *r = state;
    struct pm4_buf b;
    double us = 0;
    begin(r, &b);
    pm4_nop(&b, 1);
    int rc = run(r, &b, &us, e);
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "the fence reads %llu, %.1f us after the bell",
                 (unsigned long long)r->w->cells->fence, us);
    return rc;
}

int amd_rung_no_ops(void *state, struct ladder_out *o, struct err *e)
{
    enum { ROUNDS = 32 };
    struct amd_rungs *r = state;
    struct pm4_buf b;
    double us = 0, best = 1e9;
    for (uint32_t i = 0; i < ROUNDS; i++) { /* lengths from the one-dword form upwards */
        begin(r, &b);
        pm4_nop(&b, 1 + i);
        int rc = run(r, &b, &us, e);
        if (rc)
            return rc;
        best = MIN(best, us);
    }
    snprintf(o->found, sizeof o->found, "%d submissions, the quickest came back after %.1f us", ROUNDS, best);
    return 0;
}

/* Three times what a ring of 64 KiB holds, without a wait between: who takes a read pointer that wraps for a count, or
 * writes over packets that were not fetched, stands still here. */
int amd_rung_many(void *state, struct ladder_out *o, struct err *e)
{
    enum { SUBMISSIONS = 3 * (64 << 10) / 4 / (PM4_DW_INDIRECT_BUFFER + PM4_DW_RELEASE_MEM) };
    struct amd_rungs *r = state;
    struct amd_winsys *w = r->w;
    struct pm4_buf b;
    begin(r, &b);
    pm4_nop(&b, 1);
    amd_ib_pad(w, &b);
    if (b.rc)
        return err_set(e, b.rc, "packets: %s", b.why);
    uint64_t point = 0, t0 = clock_ns();
    int rc = 0;
    for (int i = 0; i < SUBMISSIONS && !rc; i++)
        rc = amd_submit(w, r->ib.va, b.n, &point, e);
    if (!rc && (rc = amd_wait(w, point, MS(RUN_MS), e)) == -ETIME)
        err_set(e, rc, "the fence is at %llu after %d s, expected %llu", (unsigned long long)w->cells->fence, RUN_MS / 1000,
                (unsigned long long)point);
    if (rc)
        return rc;
    snprintf(o->found, sizeof o->found, "%d submissions, %.1f us each; the fence reads %llu", SUBMISSIONS,
             (double)(clock_ns() - t0) * 1e-3 / SUBMISSIONS, (unsigned long long)w->cells->fence);
    return 0;
}

static int expect_words(const volatile uint32_t *got, const uint32_t *want, uint32_t n, const char *where,
                        struct err *e)
{
    for (uint32_t i = 0; i < n; i++)
        if (got[i] != want[i])
            return err_set(e, -EIO, "%s: word %u is %#x, expected %#x", where, i, got[i], want[i]);
    return 0;
}

int amd_rung_write_data(void *state, struct ladder_out *o, struct err *e)
{
    struct amd_rungs *r = state;
    static const uint32_t words[] = { 0x2f6e697a, 0, 0xffffffff, 0x12345678, 0x80000001 };
    struct pm4_buf b;
    memset(r->host.cpu, 0x5a, AMD_PAGE);
    begin(r, &b);
    pm4_write_data(&b, r->host.va + 64, words, ARRAY_LEN(words), PM4_WRITE_CONFIRM);
    pm4_write_data(&b, r->host.va + 256, words, ARRAY_LEN(words), PM4_WRITE_CONFIRM | PM4_WRITE_SAME);
    int rc = run(r, &b, NULL, e);
    const uint32_t *p = r->host.cpu, after = 0x5a5a5a5a;
    if (rc || (rc = expect_words(p + 16, words, ARRAY_LEN(words), "host memory", e)) ||
        (rc = expect_words(p + 64, &words[ARRAY_LEN(words) - 1], 1, "five words to one place", e)) ||
        (rc = expect_words(p + 65, &after, 1, "behind it", e)))
        return rc;
    snprintf(o->found, sizeof o->found, "%zu words where they belong, their neighbours untouched", ARRAY_LEN(words));
    return 0;
}

/* Host to card to another place on the card to host, eight bytes a packet. */
int amd_rung_copy(void *state, struct ladder_out *o, struct err *e)
{
    enum { WORDS = 16 };
    struct amd_rungs *r = state;
    uint32_t *p = r->host.cpu, want[2 * WORDS];
    struct pm4_buf b;
    memset(p, 0, AMD_PAGE);
    for (uint32_t i = 0; i < 2 * WORDS; i++)
        p[i] = want[i] = 0x01010101u * i ^ 0xa5c30000u;
    begin(r, &b);
    for (uint32_t leg = 0; leg < 3; leg++) {
        uint64_t from = leg == 0 ? r->host.va : leg == 1 ? r->vram.va + 4096 : r->vram.va + 512 * 1024;
        uint64_t to = leg == 0 ? r->vram.va + 4096 : leg == 1 ? r->vram.va + 512 * 1024 : r->host.va + 2048;
        for (uint32_t i = 0; i < WORDS; i++)
            pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_MEM, .to = PM4_COPY_MEM, .src = from + 8 * i,
                                                  .dst = to + 8 * i, .wide = true, .confirm = true });
    }
    int rc = run(r, &b, NULL, e);
    if (rc || (rc = expect_words(p + 512, want, 2 * WORDS, "after a trip through the card's memory", e)))
        return rc;
    snprintf(o->found, sizeof o->found, "%u bytes from the host to the card, across it, and back", WORDS * 8);
    return 0;
}

/* ---- dispatches ---- */

static int load_module(struct amd_rungs *r, struct err *e)
{
    const struct kernel_blob *blob = kernel_blob_find("ladder", r->w->card.chip->target);
    if (r->module.mem.va)
        return 0;
    if (!blob)
        return err_set(e, -ENOENT, "this binary has no code for %s: built without clang-19 and lld-19, or with NO_AMD=1",
                       r->w->card.chip->name);
    int rc = r->copier.stage.va ? 0 : amd_copier_init(&r->copier, r->w, e);
    if (rc)
        return rc;
    uint64_t n;
    const void *code = kernel_blob_bytes(blob, &n);
    if (!code)
        return err_set(e, -ENOMEM, "ladder: its code");
    return amd_module_load(&r->copier, "ladder", code, n, &r->module, e);
}

static int launch(struct amd_rungs *r, enum kernel_id id, const uint32_t groups[3], uint32_t lds, uint32_t n,
                  uint64_t *ns, struct err *e)
{
    struct amd_kernel k;
    kl_ladder args = { .out = r->host.va, .n = n };
    struct amd_launch l = { .kernel = &k, .args = &args, .args_bytes = sizeof args,
                            .groups = { groups[0], groups[1], groups[2] }, .threads = 0, .lds_bytes = lds };
    int rc = load_module(r, e);
    if (!rc)
        rc = amd_module_kernel(&r->module, id == K_ladder_ids ? "k_ladder_ids" : "k_ladder_shared", &k, e);
    l.threads = id == K_ladder_ids ? LADDER_IDS_THREADS : LADDER_SHARED_THREADS;
    memset(r->host.cpu, 0xee, AMD_PAGE);
    return rc ? rc : amd_run_kernel(r->w, &l, MS(RUN_MS), ns, e);
}

int amd_rung_dispatch(void *state, struct ladder_out *o, struct err *e)
{
    enum { X = 3, Y = 2, Z = 2, SIZE = LADDER_IDS_THREADS, N = X * Y * Z * SIZE };
    struct amd_rungs *r = state;
    uint64_t ns = 0;
    const uint32_t *got = r->host.cpu;
    _Static_assert(N * 4 <= AMD_PAGE, "one page of results");
    int rc = launch(r, K_ladder_ids, (const uint32_t[]){ X, Y, Z }, 0, N, &ns, e);
    for (uint32_t i = 0; i < N && !rc; i++) {
        uint32_t g = i / SIZE, want = i % SIZE + 1000 * (g % X) + 100000 * (g / X % Y) + 10000000 * (g / X / Y);
        if (got[i] != want)
            rc = err_set(e, -EIO, "word %u is %u, expected %u: work-item %u of work-group %u, %u, %u", i, got[i], want,
                         i % SIZE, g % X, g / X % Y, g / X / Y);
    }
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "%d work-groups of %d in three dimensions, each where it should be, %.1f us",
                 X * Y * Z, SIZE, (double)ns * 1e-3);
    return rc;
}

/* What k_ladder_shared puts out for work-item t of work-group x. */
static uint32_t shared_word(uint32_t x, uint32_t t)
{
    enum { SIZE = LADDER_SHARED_THREADS };
    uint32_t sum = 0;
    for (uint32_t lane = 0; lane < 32; lane++)
        sum += LADDER_VALUE(x, t / 32 * 32 + lane);
    return LADDER_VALUE(x, SIZE - 1 - t) ^ (sum << 3) ^ LADDER_VALUE(x, t / 32 * 32 + 31 - t % 32);
}

int amd_rung_shared(void *state, struct ladder_out *o, struct err *e)
{
    enum { GROUPS = 4, SIZE = LADDER_SHARED_THREADS };
    struct amd_rungs *r = state;
    uint64_t ns = 0;
    const uint32_t *got = r->host.cpu;
    _Static_assert(GROUPS * SIZE * 4 <= AMD_PAGE, "one page of results");
    int rc = launch(r, K_ladder_shared, (const uint32_t[]){ GROUPS, 1, 1 }, SIZE * 4, GROUPS * SIZE, &ns, e);
    for (uint32_t i = 0; i < GROUPS * SIZE && !rc; i++) {
        uint32_t x = i / SIZE, t = i % SIZE, want = shared_word(x, t);
        if (got[i] != want)
            rc = err_set(e, -EIO, "work-group %u, work-item %u: %#x, expected %#x", x, t, got[i], want);
    }
    if (rc == 0)
        snprintf(o->found, sizeof o->found, "%d work-groups of %d exchange words through LDS and between lanes, %.1f us",
                 GROUPS, SIZE, (double)ns * 1e-3);
    return rc;
}

/* Kernels without a pause, for as long as another process may want the card; each result is looked at. */
int amd_rung_busy(void *state, struct ladder_out *o, struct err *e)
{
    enum { ROUNDS = 64 };
    struct ladder_out one = { .detail = o->detail };
    uint64_t t0 = clock_ns();
    for (int i = 0; i < ROUNDS; i++) {
        int rc = i % 2 ? amd_rung_shared(state, &one, e) : amd_rung_dispatch(state, &one, e);
        if (rc) {
            err_context(e, "round %d of %d", i + 1, ROUNDS);
            return rc;
        }
    }
    snprintf(o->found, sizeof o->found, "%d kernels, each right, in %.1f ms", ROUNDS, (double)(clock_ns() - t0) * 1e-6);
    return 0;
}

/* Nothing is submitted for so long that the card lowers its clocks or sleeps; the queue is still there then. */
int amd_rung_rest(void *state, struct ladder_out *o, struct err *e)
{
    enum { REST_MS = 2000 };
    struct ladder_out one = { .detail = o->detail };
    struct timespec rest = { .tv_sec = REST_MS / 1000 };
    nanosleep(&rest, NULL);
    uint64_t t0 = clock_ns();
    int rc = amd_rung_fence(state, &one, e);
    double us = (double)(clock_ns() - t0) * 1e-3;
    if (!rc)
        rc = amd_rung_dispatch(state, &one, e);
    if (rc) {
        err_context(e, "after %d ms of rest", REST_MS);
        return rc;
    }
    snprintf(o->found, sizeof o->found, "after %d ms of rest a fence took %.1f us, and a kernel is right", REST_MS, us);
    return 0;
}

/* The first submission waits for a gate that opens when all are there. Each of the others adds its word to what the one
 * before it wrote, so an order that is not theirs shows. */
int amd_rung_in_flight(void *state, struct ladder_out *o, struct err *e)
{
    enum { N = KL_RING, ROOM_DW = 64 };
    struct amd_rungs *r = state;
    struct amd_winsys *w = r->w;
    volatile uint32_t *words = r->host.cpu; /* [0] the gate, [1 + i] written by i                    */
    uint64_t point[N], early = 0;
    memset(r->host.cpu, 0, AMD_PAGE);
    for (uint32_t i = 0; i < N; i++) {
        struct pm4_buf b;
        uint32_t word = 0x1000 + i;
        pm4_init(&b, w->card.chip->gen, (uint32_t *)r->ib.cpu + i * ROOM_DW, ROOM_DW);
        if (i == 0)
            pm4_wait_mem(&b, PM4_EQ, r->host.va, 1, ~0u);
        else /* what the one before wrote, and it has to be there */
            pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_MEM, .to = PM4_COPY_MEM, .src = r->host.va + 4 * i,
                                                  .dst = r->host.va + 256 + 4 * i, .confirm = true });
        pm4_write_data(&b, r->host.va + 4 * (1 + i), &word, 1, PM4_WRITE_CONFIRM);
        amd_ib_pad(w, &b);
        int rc = b.rc ? err_set(e, b.rc, "packets: %s", b.why)
                      : amd_submit(w, r->ib.va + 4ull * i * ROOM_DW, b.n, &point[i], e);
        if (rc)
            return rc;
    }
    early = w->cells->fence;
    __atomic_store_n(&words[0], 1, __ATOMIC_RELEASE);
    for (uint32_t i = 0; i < N; i++) {
        int rc = amd_wait(w, point[i], MS(RUN_MS), e);
        if (rc == -ETIME)
            err_set(e, rc, "submission %u of %d: the fence is at %llu after %d s, expected %llu", i + 1, N,
                    (unsigned long long)w->cells->fence, RUN_MS / 1000, (unsigned long long)point[i]);
        if (rc)
            return rc;
        if (words[1 + i] != 0x1000 + i || (i && words[64 + i] != 0x1000 + i - 1))
            return err_set(e, -EIO, "submission %u wrote %#x and saw %#x of the one before it, expected %#x and %#x", i + 1,
                           words[1 + i], words[64 + i], 0x1000 + i, 0x1000 + i - 1);
    }
    if (early >= point[0])
        return err_set(e, -EIO, "the fence read %llu before the gate was open, expected less than %llu",
                       (unsigned long long)early, (unsigned long long)point[0]);
    snprintf(o->found, sizeof o->found, "%d submissions under way, done one after the other", N);
    return 0;
}

/* What a submission waits for. */
struct gate {
    uint32_t *word;
    uint64_t opened; /* ns */
};

static void *open_gate(void *gate)
{
    struct gate *g = gate;
    nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
    g->opened = clock_ns();
    __atomic_store_n(g->word, 1, __ATOMIC_RELEASE);
    return NULL;
}

/* Waits for a submission that the card is done with in 50 ms: after 20 the host sleeps. *late: from the gate to the host. */
static int sleep_once(struct amd_rungs *r, uint64_t *late, struct err *e)
{
    struct gate g = { .word = r->host.cpu };
    struct pm4_buf b;
    uint64_t point;
    pthread_t other;
    *g.word = 0;
    begin(r, &b);
    pm4_wait_mem(&b, PM4_EQ, r->host.va, 1, ~0u);
    amd_ib_pad(r->w, &b);
    int rc = b.rc ? err_set(e, b.rc, "packets: %s", b.why) : amd_submit(r->w, r->ib.va, b.n, &point, e);
    if (rc)
        return rc;
    bool here = pthread_create(&other, NULL, open_gate, &g) != 0;
    if (here)
        open_gate(&g);
    rc = amd_wait(r->w, point, MS(RUN_MS), e);
    uint64_t now = clock_ns();
    if (!here)
        pthread_join(other, NULL);
    *late = now - g.opened;
    return rc == -ETIME ? err_set(e, rc, "the fence is at %llu after %d s, expected %llu", (unsigned long long)r->w->cells->fence,
                                  RUN_MS / 1000, (unsigned long long)point) : rc;
}

/* Who is not woken looks by itself, here after a second: that is later than any machine is busy. */
int amd_rung_wake(void *state, struct ladder_out *o, struct err *e)
{
    enum { ROUNDS = 5, SLEEP_MS = 1000, LATE_MS = 500 };
    struct amd_rungs *r = state;
    uint32_t before = r->w->watch->sleep_ms;
    uint64_t best = UINT64_MAX, late = 0;
    int rc = 0, n = 0;
    r->w->watch->sleep_ms = SLEEP_MS;
    while (n < ROUNDS && !(n == 2 && best >= MS(LATE_MS)) && !(rc = sleep_once(r, &late, e))) {
        fprintf(o->detail, "sleep %d: the host went on %.1f us after the card could\n", ++n, (double)late * 1e-3);
        best = MIN(best, late);
    }
    r->w->watch->sleep_ms = before;
    if (rc)
        return rc;
    snprintf(o->found, sizeof o->found, "the host went on %.1f us after the card could, the best of %d", (double)best * 1e-3, n);
    return best < MS(LATE_MS) ? 0 : err_set(e, -ETIME, "%s: nothing woke it, it looked by itself; expected less than %d ms",
                                            o->found, LATE_MS);
}

/* As the server does it when nobody asks anything. */
int amd_rung_given_back(void *state, struct ladder_out *o, struct err *e)
{
    enum { ROUNDS = 3 };
    struct amd_rungs *r = state;
    struct ladder_out one = { .detail = o->detail };
    double us = 0;
    if (!r->w->ops->rest) {
        snprintf(o->found, sizeof o->found, "nothing to give back: the queue is the kernel's");
        return 0;
    }
    for (int i = 0; i < ROUNDS; i++) {
        r->w->ops->rest(r->w);
        uint64_t t0 = clock_ns();
        int rc = amd_rung_fence(state, &one, e);
        us = (double)(clock_ns() - t0) * 1e-3;
        if (!rc)
            rc = amd_rung_many(state, &one, e);
        if (!rc)
            rc = amd_rung_dispatch(state, &one, e);
        if (rc) {
            err_context(e, "given back %d times", i + 1);
            return rc;
        }
    }
    snprintf(o->found, sizeof o->found, "%d times; the first fence of the new queue took %.1f us", ROUNDS, us);
    return 0;
}

/* Kernels of a tenth of a second and more, each looked at. *longest: of one, by the GPU's clock. */
static int long_kernels(struct amd_rungs *r, uint64_t ms, uint32_t *n, uint64_t *longest, struct err *e)
{
    enum { SIZE = LADDER_SHARED_THREADS, SEEN = 4, LEAST = 1 << 10, MOST = 1 << 24 };
    const uint32_t *got = r->host.cpu;
    uint64_t ns = 0, end = clock_ns() + MS(ms);
    uint32_t groups = LEAST;
    for (*n = 0; *n < 3 || clock_ns() < end; ++*n) {
        int rc = launch(r, K_ladder_shared, (const uint32_t[]){ groups, 1, 1 }, SIZE * 4, SEEN * SIZE, &ns, e);
        for (uint32_t i = 0; i < SEEN * SIZE && !rc; i++)
            if (got[i] != shared_word(i / SIZE, i % SIZE))
                rc = err_set(e, -EIO, "kernel %u, work-group %u, work-item %u: %#x, expected %#x", *n + 1, i / SIZE, i % SIZE,
                             got[i], shared_word(i / SIZE, i % SIZE));
        if (rc)
            return rc;
        *longest = MAX(*longest, ns);
        for (; ns < MS(100) && groups < MOST; ns *= 2)
            groups *= 2;
    }
    return 0;
}

int amd_rung_pressed(void *state, struct ladder_out *o, struct err *e)
{
    enum { PRESSED_MS = 2000 };
    struct amd_rungs *r = state;
    struct amd_filler f;
    struct amd_filler_report said;
    uint64_t longest = 0;
    uint32_t n = 0;
    int rc = amd_filler_start(r->w->card.render_minor, &f, e);
    if (rc)
        return rc;
    rc = long_kernels(r, PRESSED_MS, &n, &longest, e);
    amd_filler_stop(&f, &said);
    if (said.rc && !rc)
        rc = err_set(e, said.rc, "the second process: filling the memory of renderD%u: %s", r->w->card.render_minor,
                     strerror(-said.rc));
    if (rc)
        return rc;
    snprintf(o->found, sizeof o->found, "%u kernels of up to %.0f ms, each right; the other filled %.1f GiB %u times, the driver "
             "counted %llu evictions", n, (double)longest * 1e-6, (double)said.bytes / 0x1p30, said.rounds,
             (unsigned long long)said.evictions);
    return 0;
}
