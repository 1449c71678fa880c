#include "rt/lockstep/hopper.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#ifdef __x86_64__
#include <immintrin.h>
#endif

#include "kernels/kdev.h"
#include "kernels/hw/wgmma_host.h"
#include "rt/lockstep/item.h"
#include "rt/lockstep/run.h"

enum {
    MAX_BARS = 32, MAX_COPIES = 256, MAX_PRODUCTS = 8,
    GROUP_WARPS = 4, WARPGROUPS = LOCKSTEP_MAX_THREADS / (GROUP_WARPS * KD_WARP),
    RECENT = 64,             /* products of a warpgroup that its warps may be apart     */
    COUNT_MAX = (1 << 20) - 1, /* of arrivals and of bytes, as mbarriers count            */
    REGISTERS = 65536        /* of a core                                               */
};

/* phase: how many were complete before this one. word: what lies in shared memory. */
struct bar {
    uint32_t at, expected, pending;
    int32_t tx;
    uint64_t phase, word;
};

struct copy {
    uint32_t to, n;
    const void *from;
    struct bar *bar;
};

enum { STEPS = 4, STEP_K = 16, A_WORDS = 16 };

/* A product of a lane: its part of the accumulators. With A in registers what the lane's words were, and its two rows of A. */
struct product {
    struct wg_product w;
    bool late, ends; /* ends: a commit stands behind it */
    uint32_t were[A_WORDS];
    float rows[2][STEPS * STEP_K];
};

struct item {
    struct product q[MAX_PRODUCTS];
    uint32_t n, made;
    uint32_t registers, changes;
};

struct asked {
    struct wg_product w;
    bool late;
};

struct hopper {
    struct hopper_group g;
    struct bar bars[MAX_BARS];
    struct copy copies[MAX_COPIES];
    uint32_t n_bars, n_copies, free_registers;
    bool late;
    char fault[200];
    struct asked asked[WARPGROUPS][RECENT];
    uint32_t n_asked[WARPGROUPS];
    struct item items[LOCKSTEP_MAX_THREADS];
};

struct hopper *hopper_create(void)
{
    return calloc(1, sizeof(struct hopper));
}

void hopper_destroy(struct hopper *h)
{
    free(h);
}

void hopper_begin(struct hopper *h, const struct hopper_group *g)
{
    h->g = *g;
    h->n_bars = h->n_copies = h->free_registers = 0;
    h->late = false;
    h->fault[0] = 0;
    memset(h->n_asked, 0, sizeof h->n_asked);
    uint32_t registers = REGISTERS / g->threads / 8 * 8;
    for (uint32_t i = 0; i < g->threads; i++) {
        h->items[i].n = h->items[i].made = h->items[i].changes = 0;
        h->items[i].registers = registers < 255 ? registers : 255;
    }
}

static bool drawn(struct hopper *h, uint32_t one_in)
{
    h->g.seed = h->g.seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(h->g.seed >> 33) % one_in == 0;
}

/* Where no item runs, or whoever runs has nothing to do with it; the first one counts. */
__attribute__((format(printf, 2, 3))) static void note(struct hopper *h, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    if (!h->fault[0])
        vsnprintf(h->fault, sizeof h->fault, fmt, ap);
    va_end(ap);
}

const char *hopper_fault(const struct hopper *h)
{
    return h->fault[0] ? h->fault : NULL;
}

/* What was noted on behalf of the running item. */
static void check(const struct hopper *h)
{
    if (h->fault[0])
        item_fault("%s", h->fault);
}

/* ---- barriers in shared memory ---- */

static void keep(struct hopper *h, struct bar *b)
{
    b->word = 0xbaull << 56 | (b->phase & 0xffff) << 40 | (uint64_t)b->pending << 20 | ((uint32_t)b->tx & COUNT_MAX);
    memcpy(h->g.shared + b->at, &b->word, sizeof b->word);
}

static bool is_intact(const struct hopper *h, const struct bar *b)
{
    return memcmp(h->g.shared + b->at, &b->word, sizeof b->word) == 0;
}

static struct bar *find(struct hopper *h, uint32_t at)
{
    for (uint32_t i = 0; i < h->n_bars; i++)
        if (h->bars[i].at == at) {
            if (!is_intact(h, &h->bars[i]))
                item_fault("barrier at %u: its 8 bytes were written over", at);
            return &h->bars[i];
        }
    item_fault("barrier at %u: it was not initialised", at);
}

void kd_host_bar_init(uint32_t at, uint32_t n)
{
    struct hopper *h = item_hopper();
    if (at % 8 || at + 8ull > h->g.bytes || !n || n > COUNT_MAX)
        item_fault("barrier at %u of %u bytes of shared memory for %u arrivals: 8-byte aligned and 1 to %d are expected", at,
                   h->g.bytes, n, COUNT_MAX);
    for (uint32_t i = 0; i < h->n_bars; i++)
        if (h->bars[i].at == at)
            item_fault("barrier at %u: it is initialised again while it is in use", at);
    if (h->n_bars == MAX_BARS)
        item_fault("barrier at %u: more than %d of them", at, MAX_BARS);
    struct bar *b = &h->bars[h->n_bars++];
    *b = (struct bar){ .at = at, .expected = n, .pending = n };
    keep(h, b);
}

/* The phase is complete when nobody and no byte is awaited. */
static void settle(struct hopper *h, struct bar *b)
{
    if (!b->pending && b->tx < 0)
        note(h, "barrier at %u: phase %llu: %d bytes more than were announced", b->at, (unsigned long long)b->phase, -b->tx);
    if (!b->pending && !b->tx) {
        b->phase++;
        b->pending = b->expected;
    }
    keep(h, b);
}

void kd_host_bar_arrive(uint32_t at, uint32_t bytes)
{
    struct hopper *h = item_hopper();
    struct bar *b = find(h, at);
    if (!b->pending)
        item_fault("barrier at %u: phase %llu: an arrival too many, beyond the %u that it expects", at, (unsigned long long)b->phase,
                   b->expected);
    if (bytes > COUNT_MAX || b->tx + (int64_t)bytes > COUNT_MAX)
        item_fault("barrier at %u: %u bytes more, beyond the %d that it counts", at, bytes, COUNT_MAX);
    uint64_t phase = b->phase;
    b->tx += (int32_t)bytes;
    b->pending--;
    settle(h, b);
    check(h);
    if (b->phase != phase && drawn(h, 2))
        item_let_waiters();
}

struct waiter {
    const struct bar *b;
    uint64_t phase;
};

static bool is_over(const void *arg)
{
    const struct waiter *w = arg;
    return w->b->phase != w->phase;
}

/* A parity is that of the present phase, which is waited for, or of the one before. */
void kd_host_bar_wait(uint32_t at, uint32_t parity)
{
    struct hopper *h = item_hopper();
    const struct bar *b = find(h, at);
    struct waiter w = { b, b->phase };
    if (parity > 1)
        item_fault("barrier at %u: parity %u, 0 or 1 are expected", at, parity);
    if ((b->phase & 1) != parity)
        return;
    item_wait(WAIT_BAR, is_over, &w);
    if (b->phase > w.phase + 1)
        item_fault("barrier at %u: it slept from phase %llu to %llu, and would wait on", at, (unsigned long long)w.phase,
                   (unsigned long long)b->phase);
}

/* ---- bulk copies ---- */

static void complete(struct hopper *h, const struct copy *c)
{
    memcpy(h->g.shared + c->to, c->from, c->n);
    if (!is_intact(h, c->bar)) {
        note(h, "barrier at %u: its 8 bytes were written over, by a copy to %u to %u at the latest", c->bar->at, c->to,
             c->to + c->n - 1);
        return;
    }
    c->bar->tx -= (int32_t)c->n;
    settle(h, c->bar);
}

void kd_host_bulk_copy(uint32_t to, const void *from, uint32_t n, uint32_t bar)
{
    struct hopper *h = item_hopper();
    struct copy c = { .to = to, .n = n, .from = from, .bar = find(h, bar) };
    if (to % 16 || (uintptr_t)from % 16 || n % 16 || !n || n > COUNT_MAX)
        item_fault("a bulk copy of %u bytes from ...%x to %u: multiples of 16 are expected", n, (unsigned)((uintptr_t)from & 0xfff), to);
    if ((uint64_t)to + n > h->g.bytes)
        item_fault("a bulk copy to %u to %llu, behind the %u bytes of shared memory", to, (unsigned long long)to + n - 1, h->g.bytes);
    if (h->n_copies == MAX_COPIES)
        item_fault("more than %d bulk copies under way", MAX_COPIES);
    if (drawn(h, 2))
        complete(h, &c);
    else
        h->copies[h->n_copies++] = c;
    check(h);
}

/* ---- registers ---- */

static bool are_free(const void *arg)
{
    const struct hopper *h = arg;
    return h->free_registers > 0;
}

/* A lane at a time; what the others have not given back yet is waited for. */
void kd_host_registers(uint32_t n, bool more)
{
    struct hopper *h = item_hopper();
    struct item *it = &h->items[kd_item.tid];
    if (n < 24 || n > 256 || n % 8)
        item_fault("%u registers: a multiple of 8 from 24 to 256 is expected", n);
    if (more ? n < it->registers : n > it->registers)
        item_fault("%s registers, %u: it has %u", more ? "more" : "fewer", n, it->registers);
    it->changes++;
    if (!more)
        h->free_registers += it->registers - n;
    while (more && it->registers < n) {
        if (!h->free_registers)
            item_wait(WAIT_REGISTERS, are_free, h);
        uint32_t got = n - it->registers < h->free_registers ? n - it->registers : h->free_registers;
        it->registers += got;
        h->free_registers -= got;
    }
    it->registers = n;
    kd_host_warp_sync();
}

/* ---- products ---- */

/* Byte of shared memory where 8 elements begin, of row r, from element 8 h of the 16 of a step; K-major, as the descriptor says. */
static uint32_t place(uint64_t desc, uint32_t r, uint32_t h)
{
    uint32_t start = (uint32_t)(desc & 0x3fff) << 4, leading = (uint32_t)(desc >> 16 & 0x3fff) << 4;
    uint32_t stride = (uint32_t)(desc >> 32 & 0x3fff) << 4, mode = (uint32_t)(desc >> 62);
    if (mode == 0) /* none: 8 rows of 16 bytes side by side */
        return start + r / 8 * stride + r % 8 * 16 + h * leading;
    uint32_t row = 256u >> mode; /* 128, 64 or 32 bytes */
    uint32_t at = start + r / 8 * stride + r % 8 * row + h * 16;
    return at ^ (at >> 7 & (row / 16 - 1)) << 4;
}

/* Byte of shared memory of column c of row k of a step, across: N-major, swizzled over 128 bytes, as the descriptor says. */
static uint32_t place_across(uint64_t desc, uint32_t k, uint32_t c)
{
    uint32_t start = (uint32_t)(desc & 0x3fff) << 4, leading = (uint32_t)(desc >> 16 & 0x3fff) << 4;
    uint32_t stride = (uint32_t)(desc >> 32 & 0x3fff) << 4;
    uint32_t at = start + c / 64 * leading + k / 8 * stride + k % 8 * 128 + c % 64 * 2;
    return at ^ (at >> 7 & 7) << 4;
}

static uint32_t step_units(const struct wg_product *w) { return w->across ? 128 : 2; }

/* As the kernels beside it are compiled (mk/kernels.mk), which the tier asks for. */
#ifdef __x86_64__
#define AS_KERNELS __attribute__((target("fma,f16c")))
#else
#define AS_KERNELS
#endif

/* 8 elements, bf16 or f16. */
AS_KERNELS static void values(bool half, const uint16_t v[8], float *x, uint32_t step)
{
    float f[8];
#ifdef __x86_64__
    if (half)
        _mm256_storeu_ps(f, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)v)));
#else
    for (uint32_t i = 0; half && i < 8; i++)
        f[i] = f16_to_f32(v[i]);
#endif
    for (uint32_t i = 0; i < 8; i++)
        x[i * step] = half ? f[i] : bf16_to_f32(v[i]);
}

/* 8 elements of row r of what the descriptor names, the step's first or second ones. */
AS_KERNELS static void load(const struct hopper *h, bool half, uint64_t desc, uint32_t r, uint32_t second, float *x, uint32_t step)
{
    uint16_t v[8];
    memcpy(v, h->g.shared + place(desc, r, second), sizeof v);
    values(half, v, x, step);
}

/* The same of column c of a B that lies across. */
AS_KERNELS static void load_across(const struct hopper *h, bool half, uint64_t desc, uint32_t c, uint32_t second, float *x,
                                   uint32_t step)
{
    uint16_t v[8];
    for (uint32_t i = 0; i < 8; i++)
        memcpy(&v[i], h->g.shared + place_across(desc, 8 * second + i, c), sizeof *v);
    values(half, v, x, step);
}

/* The lane's rows of A by 8 columns: those of 4 pieces of 8 columns from the j-th on. */
AS_KERNELS static void multiply_8(float *d, const float (*x)[STEP_K], const float (*y)[8])
{
    float c[2][8];
    for (uint32_t i = 0; i < 16; i++)
        c[i / 2 % 2][i / 4 * 2 + i % 2] = d[i];
    for (uint32_t k = 0; k < STEP_K; k++)
        for (uint32_t h = 0; h < 2; h++)
            for (uint32_t i = 0; i < 8; i++)
                c[h][i] = __builtin_fmaf(x[h][k], y[k][i], c[h][i]);
    for (uint32_t i = 0; i < 16; i++)
        d[i] = c[i / 2 % 2][i / 4 * 2 + i % 2];
}

AS_KERNELS static void multiply(const struct hopper *h, uint32_t tid, const struct product *p)
{
    const struct wg_product *w = &p->w;
    uint32_t lane = tid % KD_WARP, row = tid / KD_WARP % GROUP_WARPS * 16 + lane / 4;
    if (!w->add)
        memset(w->d, 0, w->n / 2 * sizeof *w->d);
    if (w->regs && memcmp(w->regs, p->were, sizeof p->were) != 0)
        item_fault("registers of A changed while their product was under way");
    for (uint32_t s = 0; s < STEPS; s++) {
        float x[2][STEP_K], y[STEP_K][8];
        uint64_t b = w->b + s * step_units(w);
        for (uint32_t i = 0; i < 4; i++)
            if (w->regs)
                memcpy(&x[i / 2][i % 2 * 8], &p->rows[i / 2][STEP_K * s + i % 2 * 8], 8 * sizeof **x);
            else
                load(h, w->half, w->a + 2 * s, row + i / 2 * 8, i % 2, &x[i / 2][i % 2 * 8], 1);
        for (uint32_t j = 0; j < w->n / 8; j += 4) {
            for (uint32_t i = 0; i < 16; i++) {
                uint32_t column = 8 * (j + i / 4) + lane % 4 * 2 + i / 2 % 2;
                (w->across ? load_across : load)(h, w->half, b, column, i % 2, &y[i % 2 * 8][i / 2], 8);
            }
            multiply_8(w->d + 4 * j, (const float (*)[STEP_K])x, (const float (*)[8])y);
        }
    }
}

static void check_descriptor(const struct hopper *h, const char *what, uint64_t desc, uint32_t rows, bool across)
{
    uint32_t last = 0;
    if (desc & ~0xc0003fff3fff3fffull)
        item_fault("descriptor of %s, %#llx: a base offset, which is not modelled, or bits that mean nothing", what,
                   (unsigned long long)desc);
    if (across && (desc >> 62 != 1 || (desc & 0x3f)))
        item_fault("descriptor of %s, %#llx: across, and not swizzled over 128 bytes, or not aligned to 1024", what,
                   (unsigned long long)desc);
    for (uint32_t i = 0; i < 2 * rows * STEPS; i++) {
        uint32_t s = i % STEPS, half = i / STEPS % 2, r = i / STEPS / 2;
        uint32_t at = across ? place_across(desc + 128 * s, 8 * half + 7, r) & ~15u : place(desc + 2 * s, r, half);
        last = at > last ? at : last;
    }
    if (last + 16 > h->g.bytes)
        item_fault("descriptor of %s, %#llx: %u %s reach to %u of %u bytes of shared memory", what, (unsigned long long)desc, rows,
                   across ? "columns" : "rows", last + 15, h->g.bytes);
}

/* The first lane of a warpgroup that makes this product says what it is, the others agree. */
static const struct asked *agree(struct hopper *h, const struct wg_product *w)
{
    uint32_t group = kd_item.tid / (GROUP_WARPS * KD_WARP), made = h->items[kd_item.tid].made++;
    struct asked *q = &h->asked[group][made % RECENT];
    if (made == h->n_asked[group]) {
        if (!w->regs)
            check_descriptor(h, "A", w->a, 64, false);
        check_descriptor(h, "B", w->b, w->n, w->across);
        *q = (struct asked){ *w, drawn(h, 2) };
        h->n_asked[group]++;
    }
    if (q->w.a != w->a || q->w.b != w->b || q->w.n != w->n || q->w.half != w->half || q->w.across != w->across)
        item_fault("product %u of its warpgroup: 64 x %u of %#llx and %#llx, of another warp 64 x %u of %#llx and %#llx", made, w->n,
                   (unsigned long long)w->a, (unsigned long long)w->b, q->w.n, (unsigned long long)q->w.a, (unsigned long long)q->w.b);
    return q;
}

static void begin_product(const struct product *p)
{
    struct hopper *h = item_hopper();
    uint32_t tid = kd_item.tid;
    struct item *it = &h->items[tid];
    if (h->g.threads % (GROUP_WARPS * KD_WARP) && tid / (GROUP_WARPS * KD_WARP) == h->g.threads / (GROUP_WARPS * KD_WARP))
        item_fault("a product of a warpgroup that has not four warps");
    it->q[it->n++] = *p;
    while (it->n && (!it->q[0].late || it->n == MAX_PRODUCTS)) {
        multiply(h, tid, &it->q[0]);
        memmove(it->q, it->q + 1, --it->n * sizeof *it->q);
    }
}

/* Word 4 s + i of lane t of a quad is of row lane / 4 + i % 2 * 8, elements 2 t and 2 t + 1 of the step's first or, i / 2,
 * second eight. */
static void take_rows(struct product *p)
{
    const uint32_t *all = kd_host_share_words(p->w.regs, A_WORDS);
    memcpy(p->were, p->w.regs, sizeof p->were);
    for (uint32_t i = 0; i < A_WORDS; i++)
        for (uint32_t t = 0; t < 4; t++) {
            uint32_t v = all[i * KD_WARP + kd_lane() / 4 * 4 + t];
            float *to = &p->rows[i % 2][i / 4 * STEP_K + i / 2 % 2 * 8 + 2 * t];
            to[0] = f16_to_f32((uint16_t)v), to[1] = f16_to_f32((uint16_t)(v >> 16));
        }
}

void kd_host_wg_multiply(const struct wg_product *w)
{
    struct product p = { .w = *w, .ends = !w->part };
    if (w->regs)
        take_rows(&p);
    else
        kd_host_warp_sync();
    p.late = agree(item_hopper(), w)->late;
    begin_product(&p);
}

static bool may_be_late(const void *arg)
{
    (void)arg;
    return false; /* hopper_step says when */
}

/* What was begun before is committed; complete already, there is nothing to mark. */
void kd_host_wg_end(void)
{
    struct item *it = &item_hopper()->items[kd_item.tid];
    if (it->n)
        it->q[it->n - 1].ends = true;
}

static uint32_t commits(const struct item *it)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < it->n; i++)
        n += it->q[i].ends;
    return n;
}

/* The warp's lanes read together, so nobody goes on before all have. */
void kd_host_wg_wait(uint32_t most)
{
    struct hopper *h = item_hopper();
    uint32_t tid = kd_item.tid;
    struct item *it = &h->items[tid];
    kd_host_warp_sync();
    if (commits(it) > most)
        item_wait(WAIT_LATE, may_be_late, NULL);
    for (; commits(it) > most; memmove(it->q, it->q + 1, --it->n * sizeof *it->q))
        multiply(h, tid, &it->q[0]);
    kd_host_warp_sync();
}

/* ---- what is under way ---- */

enum hopper_step hopper_step(struct hopper *h, bool late)
{
    if (late && (!h->n_copies || drawn(h, 2)))
        return HOPPER_LATE;
    if (!h->n_copies)
        return HOPPER_NOTHING;
    h->g.seed = h->g.seed * 6364136223846793005u + 1442695040888963407u;
    uint32_t i = (uint32_t)(h->g.seed >> 33) % h->n_copies;
    struct copy c = h->copies[i];
    h->copies[i] = h->copies[--h->n_copies];
    complete(h, &c);
    return HOPPER_HAPPENED;
}

const char *hopper_end(struct hopper *h)
{
    if (h->n_copies)
        note(h, "it ended with %u bulk copies under way", h->n_copies);
    for (uint32_t i = 0; i < h->g.threads; i++) {
        const struct item *it = &h->items[i], *first = &h->items[i / (GROUP_WARPS * KD_WARP) * GROUP_WARPS * KD_WARP];
        if (it->n)
            note(h, "it ended with products under way, of warp %u", i / KD_WARP);
        if (it->made != first->made)
            note(h, "warp %u made %u products, another warp of its warpgroup %u", i / KD_WARP, it->made, first->made);
        if (it->changes != first->changes)
            note(h, "warp %u changed its registers %u times, another warp of its warpgroup %u times", i / KD_WARP, it->changes,
                 first->changes);
    }
    return hopper_fault(h);
}
