#include "engine/proof/opstream.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/check.h"
#include "base/ckd.h"
#include "graph/fields.h"
#include "graph/ir.h"
#include "model/quant.h"
#include "model/quant_book.h"

enum { MAX_BUFS = 32, MAX_CMDS = 8, MAX_USES = 128, GUARD = 256, ARGS = 512, STRS = 2048 };
#define GUARD_BYTE 0xa5

struct buf {
    enum ops_use use;
    uint32_t row_bytes; /* 0: not rows */
    bool outputs, ids;
    uint8_t *data;      /* [total rows] */
};

struct ops {
    struct stream s;
    struct stream_buf bufs[MAX_BUFS];
    struct buf own[MAX_BUFS];
    struct stream_weight weights[MAX_BUFS];
    uint8_t *weight_data[MAX_BUFS];
    struct cmd cmds[MAX_CMDS];
    struct stream_use uses[MAX_USES];
    struct patch patches[SYM_COUNT];
    _Alignas(8) uint8_t args[MAX_CMDS * ARGS];
    char strs[STRS];
    _Alignas(64) uint8_t consts[16384];
    uint32_t total, old, old_dim; /* rows; positions before them, heads' size */
    bool next_is_result;
    ka_row *rows;
    ka_sample *sample; /* [total], NULL: greedy */
};

static uint32_t seed;
static bool without_data;

void ops_set_without_data(bool on)
{
    without_data = on;
}

uint32_t ops_random(void)
{
    seed ^= seed << 13;
    seed ^= seed >> 17;
    return seed ^= seed << 5;
}

float ops_normal(void)
{
    float s = 0.0f;
    for (int i = 0; i < 6; i++)
        s += (float)(ops_random() >> 8) * 0x1p-24f - 0.5f;
    return s * 1.41421f;
}

static uint32_t add_str(struct ops *o, const char *name)
{
    uint32_t at = o->s.h.str_bytes;
    CHECK(at + strlen(name) + 1 <= STRS);
    strcpy(o->strs + at, name);
    o->s.h.str_bytes += (uint32_t)strlen(name) + 1;
    return at;
}

/* Guard bytes lie before the first buffer, between buffers and behind the last one. */
static uint32_t add_buf(struct ops *o, const char *name, enum arena a, uint64_t bytes)
{
    uint32_t i = o->s.h.n_bufs++;
    CHECK(i < MAX_BUFS);
    uint64_t *end = &o->s.h.arena_bytes[a];
    uint64_t off = align_up(*end + (a == ARENA_IO || a == ARENA_WEIGHTS || a == ARENA_CONST ? 0 : GUARD),
                            STREAM_ALIGN);
    o->bufs[i] = (struct stream_buf){ .name = add_str(o, name), .arena = a, .off = off, .bytes = bytes,
                                      .weight = UINT32_MAX };
    *end = off + bytes;
    return i;
}

struct ops *ops_new(uint32_t total, uint32_t cap, uint32_t n_ctx, uint32_t n_slots, enum ka_kv kv)
{
    struct ops *o = aligned_alloc(64, align_up(sizeof *o, 64));
    CHECK(o);
    memset(o, 0, sizeof *o);
    seed = 0x2545f491;
    o->s = (struct stream){ .cmds = o->cmds, .args = o->args, .uses = o->uses, .bufs = o->bufs, .weights = o->weights,
                            .patches = o->patches, .consts = o->consts, .strs = o->strs };
    memcpy(o->s.h.magic, STREAM_MAGIC, sizeof o->s.h.magic);
    o->total = total;
    o->s.h.row_cap = o->s.h.out_cap = cap = cap ? cap : total;
    o->s.h.n_ctx = n_ctx;
    o->s.h.n_slots = n_slots;
    o->s.h.n_vocab = 64;
    o->s.h.n_embd = 64;
    o->s.h.n_layer = 1;
    o->s.h.kv_type = kv;
    o->s.h.next_off = step_next_off(cap, cap);
    add_buf(o, "step", ARENA_IO, step_bytes(cap, cap));
    o->rows = calloc(total, sizeof *o->rows);
    for (uint32_t r = 0; r < total; r++)
        o->rows[r] = (ka_row){ .token = (int32_t)(ops_random() % 64), .pos = r };
    return o;
}

void ops_old_positions(struct ops *o, uint32_t n, uint32_t head_dim)
{
    CHECK(o->s.h.kv_type == KA_KV_F16);
    o->old = n;
    o->old_dim = head_dim;
    for (uint32_t r = 0; r < o->total; r++)
        o->rows[r].pos += n;
}

void ops_free(struct ops *o)
{
    if (!o)
        return;
    for (uint32_t i = 0; i < MAX_BUFS; i++) {
        free(o->own[i].data);
        free(o->weight_data[i]);
    }
    free(o->rows);
    free(o->sample);
    free(o);
}

gpu_va ops_step(const struct ops *o)
{
    return SADDR(ARENA_IO, 0);
}

gpu_va ops_off(const struct ops *o, uint32_t buf, uint64_t floats)
{
    return SADDR(o->bufs[buf].arena, o->bufs[buf].off + 4 * floats);
}

gpu_va ops_at(const struct ops *o, uint32_t buf)
{
    return ops_off(o, buf, 0);
}

gpu_va ops_next(const struct ops *o)
{
    return SADDR(ARENA_IO, o->s.h.next_off);
}

gpu_va ops_sample(const struct ops *o)
{
    return SADDR(ARENA_IO, step_sample_off(o->s.h.row_cap, o->s.h.out_cap));
}

ka_sample *ops_samples(struct ops *o)
{
    if (!o->sample)
        o->sample = calloc(o->total, sizeof *o->sample);
    CHECK(o->sample);
    return o->sample;
}

void ops_next_is_result(struct ops *o)
{
    o->next_is_result = true;
}

static uint32_t rows_in(struct ops *o, enum arena a, const char *name, enum ops_use use, uint32_t n)
{
    uint32_t i = add_buf(o, name, a, (uint64_t)o->s.h.row_cap * n * 4);
    o->bufs[i].ld = n;
    o->own[i] = (struct buf){ .use = use, .row_bytes = 4 * n, .data = calloc(o->total, 4ull * n) };
    CHECK(o->own[i].data);
    for (size_t k = 0; !without_data && k < (size_t)o->total * n; k++)
        ((float *)o->own[i].data)[k] = ops_normal();
    return i;
}

uint32_t ops_rows(struct ops *o, const char *name, enum ops_use use, uint32_t n)
{
    return rows_in(o, ARENA_SCRATCH, name, use, n);
}

uint32_t ops_ids(struct ops *o, const char *name, enum ops_use use, uint32_t n)
{
    uint32_t i = ops_rows(o, name, use, n);
    o->own[i].ids = true;
    return i;
}

uint32_t ops_logits(struct ops *o, uint32_t n_vocab)
{
    o->s.h.n_vocab = n_vocab;
    uint32_t i = rows_in(o, ARENA_IO, "logits", OPS_IN, n_vocab);
    o->s.h.logits_off = o->bufs[i].off;
    o->own[i].outputs = true;
    return i;
}

float *ops_data(struct ops *o, uint32_t buf)
{
    return (float *)o->own[buf].data;
}

void ops_set_outputs(struct ops *o, uint32_t buf)
{
    o->own[buf].outputs = true;
}

uint32_t ops_cache(struct ops *o, const char *name, uint64_t bytes)
{
    return add_buf(o, name, ARENA_KV, bytes);
}

uint32_t ops_state(struct ops *o, const char *name, uint64_t bytes)
{
    return add_buf(o, name, ARENA_STATE, bytes);
}

static uint32_t add_weight(struct ops *o, const char *name, enum qtype t, uint32_t n_in, uint32_t n_out, uint32_t n_mats)
{
    uint64_t bytes = qtype_row_bytes(t, n_in) * n_out * n_mats;
    uint32_t i = add_buf(o, name, ARENA_WEIGHTS, bytes), w = o->s.h.n_weights++;
    o->bufs[i].weight = w;
    o->weights[w] = (struct stream_weight){ .name = o->bufs[i].name, .type = t, .ne = { n_in, n_out, n_mats, 1 },
                                            .off = o->bufs[i].off, .bytes = bytes };
    o->weight_data[w] = aligned_alloc(64, align_up(bytes, 64));
    CHECK(o->weight_data[w]);
    return i;
}

uint32_t ops_vec(struct ops *o, const char *name, uint32_t n, float lo, float hi)
{
    uint32_t b = add_weight(o, name, QT_F32, n, 1, 1);
    float *v = (float *)(void *)o->weight_data[o->bufs[b].weight];
    for (uint32_t i = 0; !without_data && i < n; i++)
        v[i] = lo + (hi - lo) * (float)(ops_random() >> 8) * 0x1p-24f;
    return b;
}

/* Roughly N(0, 1), by one random number: a matrix has millions. */
static float quick_normal(void)
{
    uint32_t u = ops_random();
    int32_t sum = (int32_t)((u & 255) + (u >> 8 & 255) + (u >> 16 & 255) + (u >> 24)) - 510;
    return (float)sum * (1.0f / 147.8f); /* four bytes of variance (256^2 - 1) / 12 */
}

/* Blocks of a type, for rows of n_in: weights are drawn from them, as quantising takes far longer than what is done with them. */
enum { POOL_WEIGHTS = 32768, POOLS = 32 };
struct pool {
    enum qtype type;
    uint32_t n_in, n; /* n: blocks */
    uint8_t *blocks;
};

static void fill_pool(struct pool *p)
{
    uint32_t block = qtype_block(p->type), bytes = qtype_block_bytes(p->type), before = seed;
    float rms = 1.0f / sqrtf((float)p->n_in);
    struct err e = { 0 };
    seed = 0x9e3779b9u;
    if (qtype_is_book(p->type)) {
        for (uint32_t i = 0; i < p->n * bytes; i++)
            p->blocks[i] = (uint8_t)(ops_random() >> 24);
        for (uint32_t i = 0; i < p->n; i++)
            quant_book_tame(p->type, p->blocks + i * bytes, i % 2 ? -rms : rms);
    } else {
        float *v = malloc(p->n * block * sizeof *v);
        CHECK(v);
        for (uint32_t i = 0; i < p->n * block; i++)
            v[i] = quick_normal() * rms;
        if (quant_row(p->type, v, NULL, p->blocks, p->n * block, &e))
            check_fail(__FILE__, __LINE__, "%s", e.msg);
        free(v);
    }
    seed = before;
}

static const struct pool *pool_of(enum qtype t, uint32_t n_in)
{
    static struct pool pools[POOLS];
    static uint32_t next;
    for (uint32_t i = 0; i < POOLS; i++)
        if (pools[i].blocks && pools[i].type == t && pools[i].n_in == n_in)
            return &pools[i];
    struct pool *p = &pools[next++ % POOLS];
    free(p->blocks);
    *p = (struct pool){ .type = t, .n_in = n_in, .n = POOL_WEIGHTS / qtype_block(t) };
    p->blocks = malloc((size_t)p->n * qtype_block_bytes(t));
    CHECK(p->blocks);
    fill_pool(p);
    return p;
}

uint32_t ops_weight(struct ops *o, const char *name, enum qtype t, uint32_t n_in, uint32_t n_out, uint32_t n_mats)
{
    uint32_t b = add_weight(o, name, t, n_in, n_out, n_mats), size = qtype_block_bytes(t);
    uint64_t bytes = qtype_row_bytes(t, n_in) * n_out * n_mats;
    if (without_data)
        return b;
    const struct pool *p = pool_of(t, n_in);
    uint8_t *data = o->weight_data[o->bufs[b].weight];
    for (uint64_t at = 0; at < bytes; at += size)
        memcpy(data + at, p->blocks + (ops_random() >> 8) % p->n * size, size);
    return b;
}

uint32_t ops_const(struct ops *o, const char *name, const float *v, uint32_t n)
{
    uint32_t i = add_buf(o, name, ARENA_CONST, 4ull * n);
    CHECK(o->bufs[i].off + 4ull * n <= sizeof o->consts);
    memcpy(o->consts + o->bufs[i].off, v, 4ull * n);
    return i;
}

static uint32_t find_buf(const struct ops *o, gpu_va a)
{
    for (uint32_t i = 0; i < o->s.h.n_bufs; i++)
        if (o->bufs[i].arena == SADDR_ARENA(a) && SADDR_OFF(a) >= o->bufs[i].off &&
            SADDR_OFF(a) - o->bufs[i].off < o->bufs[i].bytes)
            return i;
    check_fail(__FILE__, __LINE__, "address %#llx is in no buffer", (unsigned long long)a);
}

void ops_cmd(struct ops *o, enum cmd_op op, const void *args, uint32_t bytes)
{
    uint32_t i = o->s.h.n_cmds++, n_fields;
    CHECK(i < MAX_CMDS && bytes <= ARGS);
    memcpy(o->args + o->s.h.args_bytes, args, bytes);
    struct cmd *c = &o->cmds[i];
    *c = (struct cmd){ .op = op, .args_off = o->s.h.args_bytes, .args_bytes = bytes, .wait = i ? i - 1 : CMD_NO_WAIT,
                       .layer = 0, .first_use = o->s.h.n_uses };
    o->s.h.args_bytes += bytes;
    const struct field *f = cmd_fields(op, &n_fields);
    for (uint32_t k = 0; k < n_fields; k++)
        for (uint32_t j = 0; f[k].type == FT_gpu_va && j < f[k].count; j++) {
            gpu_va a;
            uint16_t off = (uint16_t)(f[k].off + 8 * j);
            memcpy(&a, (const uint8_t *)args + off, sizeof a);
            if (!a)
                continue;
            uint32_t b = find_buf(o, a);
            CHECK(o->s.h.n_uses < MAX_USES);
            o->uses[o->s.h.n_uses++] = (struct stream_use){ .buf = b, .field_off = off, .dir = field_dir(&f[k]),
                                                            .off = SADDR_OFF(a) - o->bufs[b].off };
            c->n_uses++;
        }
}

ka_row *ops_row(struct ops *o, uint32_t r)
{
    return &o->rows[r];
}

void ops_set_vocab(struct ops *o, uint32_t n)
{
    o->s.h.n_vocab = n;
}

const struct stream *ops_stream(const struct ops *o)
{
    return &o->s;
}

const uint8_t *const *ops_weights(const struct ops *o)
{
    return (const uint8_t *const *)o->weight_data;
}

void ops_set_wait(struct ops *o, uint32_t wait)
{
    o->cmds[o->s.h.n_cmds - 1].wait = wait;
}

int ops_finish(struct ops *o, struct err *e)
{
    struct stream_head *h = &o->s.h;
    if (h->logits_off == 0) {
        uint32_t i = add_buf(o, "logits", ARENA_IO, 4ull * h->n_vocab * h->out_cap);
        h->logits_off = o->bufs[i].off;
    }
    for (int a = 0; a < ARENA_COUNT; a++)
        h->arena_bytes[a] = align_up(h->arena_bytes[a] + (a == ARENA_CONST ? 0 : GUARD), STREAM_ALIGN);
    h->const_bytes = (uint32_t)h->arena_bytes[ARENA_CONST];
    const uint32_t rows = h->row_cap, outs = h->out_cap, sample = (uint32_t)step_sample_off(rows, outs);
    const struct patch patches[] = {
        { 0, SYM_N_ROWS, 4, 4, 1 },    { 4, SYM_N_OUT, 4, 4, 1 },     { 8, SYM_KV_LEN, 4, 4, 1 },
        { 64, SYM_TOKEN, 4, 16, rows }, { 68, SYM_POS, 4, 16, rows }, { 72, SYM_SLOT, 4, 16, rows },
        { (uint32_t)step_out_row_off(rows), SYM_OUT_ROW, 4, 4, outs },
        { sample, SYM_TEMP, 4, 32, outs },       { sample + 4, SYM_TOP_K, 4, 32, outs },
        { sample + 8, SYM_TOP_P, 4, 32, outs },  { sample + 12, SYM_MIN_P, 4, 32, outs },
        { sample + 16, SYM_SEED, 4, 32, outs },  { sample + 20, SYM_COUNTER, 4, 32, outs },
        { sample + 24, SYM_QUIET, 4, 32, outs },
    };
    memcpy(o->patches, patches, sizeof patches);
    h->n_patches = ARRAY_LEN(patches);
    h->weights_hash = stream_weights_hash(o->weights, h->n_weights, o->strs);
    return stream_verify(&o->s, e);
}

/* ---- runs ---- */

/* What no row has stored must not matter: NaN. Old positions: f16 from 0.125 to 1, of both signs. groups: K of the cpu tier,
 * 16 positions beside each other (oracle/ops_impl.h). */
static void fill_cache(const struct ops *o, bool groups, uint8_t *mem, uint64_t bytes)
{
    uint64_t dim = o->old_dim, per_head = o->s.h.n_ctx * dim;
    for (uint64_t k = 0; k < bytes; k += 2)
        memcpy(mem + k, o->s.h.kv_type == KA_KV_FP8   ? "\xff\xff"
                        : o->s.h.kv_type != KA_KV_F32 ? "\xff\x7e"
                        : k % 4                       ? "\xf1\x7f"
                                                      : "\xff\xff", 2);
    for (uint64_t k = 0; k < bytes / 2 && o->old; k++) {
        uint32_t r = (uint32_t)k * 2654435761u;
        uint16_t x = (uint16_t)(0x3000 + (r >> 13) % 0xc00 + (r >> 31 << 15));
        uint64_t in = k % per_head, at = groups ? in / (16 * dim) * 16 * dim + in % dim * 16 + in / dim % 16 : in;
        if (in < o->old * dim)
            memcpy(mem + 2 * (k - in + at), &x, 2);
    }
}

static int fill_arena(struct tier *t, const struct ops *o, bool exact, enum arena a, struct err *e)
{
    uint64_t n = o->s.h.arena_bytes[a];
    uint8_t *mem = malloc(n ? n : 1);
    bool cpu = strcmp(tier_name(t), tier_reference()) == 0 && !exact;
    CHECK(mem);
    memset(mem, GUARD_BYTE, n);
    for (uint32_t i = 0; i < o->s.h.n_bufs; i++) {
        const struct stream_buf *b = &o->bufs[i];
        if (b->arena != a)
            continue;
        if (a == ARENA_KV)
            fill_cache(o, cpu && strcmp(stream_str(&o->s, b->name), "kc") == 0, mem + b->off, b->bytes);
        else
            memset(mem + b->off, a == ARENA_STATE ? 0x7f : 0, b->bytes);
    }
    int rc = tier_write(t, a, 0, mem, n, e);
    free(mem);
    return rc;
}

static int check_guards(struct tier *t, const struct ops *o, struct err *e)
{
    for (int a = ARENA_KV; a < ARENA_IO; a++) {
        uint64_t n = o->s.h.arena_bytes[a];
        uint8_t *mem = malloc(n ? n : 1);
        CHECK(mem);
        int rc = tier_read(t, a, 0, mem, n, e);
        for (uint64_t k = 0; k < n && rc == 0; k++) {
            bool inside = false;
            for (uint32_t i = 0; i < o->s.h.n_bufs; i++)
                if (o->bufs[i].arena == (uint32_t)a && k >= o->bufs[i].off && k < o->bufs[i].off + o->bufs[i].bytes) {
                    inside = true;
                    k = o->bufs[i].off + o->bufs[i].bytes - 1;
                    break;
                }
            if (inside || mem[k] == GUARD_BYTE)
                continue;
            const char *before = "?";
            uint64_t past = 0;
            for (uint32_t i = 0; i < o->s.h.n_bufs; i++)
                if (o->bufs[i].arena == (uint32_t)a && o->bufs[i].off + o->bufs[i].bytes <= k) {
                    before = o->strs + o->bufs[i].name;
                    past = k - o->bufs[i].off - o->bufs[i].bytes;
                }
            rc = err_set(e, -EIO, "guard byte %llu behind '%s' was overwritten with %#x", (unsigned long long)past,
                         before, mem[k]);
        }
        free(mem);
        if (rc)
            return rc;
    }
    return 0;
}

struct open_tier {
    struct tier *t;
    struct tier_plan *p;
};

static void close_tier(struct open_tier *x)
{
    tier_plan_destroy(x->p);
    tier_close(x->t);
    *x = (struct open_tier){ 0 };
}

static int open_tier(struct ops *o, const struct ops_how *how, bool check, struct open_tier *x, struct err *e)
{
    struct tier_opts to = { .device = -1, .threads = how->threads, .exact = how->exact, .check = check };
    struct tier_weights tw = { &o->s, ops_weights(o) };
    const char *target = strchr(how->tier, ':');
    char name[32];
    int rc;
    snprintf(name, sizeof name, "%.*s", (int)strcspn(how->tier, ":"), how->tier);
    to.target = target ? target + 1 : NULL;
    *x = (struct open_tier){ 0 };
    if ((rc = tier_open(name, &to, &x->t, e)) || (rc = tier_load(x->t, &tw, NULL, e)) ||
        (rc = tier_alloc(x->t, o->s.h.arena_bytes, e)) || (rc = tier_prepare(x->t, &o->s, PLAN_AUTO, &x->p, e)))
        return rc;
    for (int a = ARENA_KV; a < ARENA_COUNT; a++)
        if ((rc = fill_arena(x->t, o, how->exact, a, e)))
            return rc;
    return 0;
}

static int submit_rows(struct ops *o, struct open_tier *x, uint32_t r0, uint32_t n, struct err *e)
{
    struct step st = { .n_rows = n, .n_out = n, .rows = o->rows + r0,
                       .sample = o->sample ? o->sample + r0 : NULL };
    uint32_t *out = malloc(n * sizeof *out);
    uint64_t point;
    CHECK(out);
    for (uint32_t i = 0; i < n; i++) {
        out[i] = i;
        st.kv_len = MAX(st.kv_len, o->rows[r0 + i].pos + 1);
    }
    st.out_row = out;
    int rc = tier_submit(x->t, x->p, &st, &point);
    if (rc == 0)
        rc = tier_wait(x->t, point, 60000000000ull);
    if (rc && tier_fault(x->t, e))
        err_set(e, rc, "submit of rows %u..%u: %d", r0, r0 + n, rc);
    free(out);
    return rc;
}

/* Moves rows [r0, r0 + n) of the case between the buffers' beginnings and `data`. */
static int move_rows(struct ops *o, struct open_tier *x, bool in, uint32_t r0, uint32_t n, struct ops_result *res,
                     struct err *e)
{
    uint32_t at = 0;
    int rc = 0;
    for (uint32_t i = 0; i < o->s.h.n_bufs && rc == 0; i++) {
        const struct buf *b = &o->own[i];
        const struct stream_buf *sb = &o->bufs[i];
        uint64_t bytes = (uint64_t)n * b->row_bytes;
        bool goes_in = b->use == OPS_IN || b->use == OPS_INOUT, comes_out = b->use == OPS_OUT || b->use == OPS_INOUT;
        if (!b->row_bytes)
            continue;
        if (in && goes_in)
            rc = tier_write(x->t, sb->arena, sb->off, b->data + (uint64_t)r0 * b->row_bytes, bytes, e);
        if (!in && comes_out) {
            rc = tier_read(x->t, sb->arena, sb->off, (uint8_t *)res->v + at + (uint64_t)r0 * b->row_bytes, bytes, e);
            at += o->total * b->row_bytes;
        }
    }
    if (!in && o->next_is_result && rc == 0)
        rc = tier_read(x->t, ARENA_IO, o->s.h.next_off, (uint8_t *)res->v + at + 4ull * r0, 4ull * n, e);
    return rc;
}

static void result_alloc(struct ops *o, struct ops_result *r)
{
    *r = (struct ops_result){ 0 };
    for (int pass = 0; pass < 2; pass++) {
        uint32_t at = 0;
        for (uint32_t i = 0; i < o->s.h.n_bufs; i++) {
            if (!o->own[i].row_bytes || (o->own[i].use != OPS_OUT && o->own[i].use != OPS_INOUT))
                continue;
            uint32_t n = o->total * o->own[i].row_bytes / 4;
            if (pass)
                memset(r->is_id + at, o->own[i].ids, n);
            at += n;
        }
        if (o->next_is_result && pass)
            memset(r->is_id + at, true, o->total);
        if (o->next_is_result)
            at += o->total;
        if (pass)
            break;
        r->n = at;
        r->v = calloc(at + 1, sizeof *r->v);
        r->is_id = calloc(at + 1, 1);
        CHECK(r->v && r->is_id);
    }
}

void ops_result_free(struct ops_result *r)
{
    free(r->v);
    free(r->is_id);
    *r = (struct ops_result){ 0 };
}

int ops_run(struct ops *o, const struct ops_how *how, struct ops_result *out, struct err *e)
{
    struct open_tier x;
    int rc = open_tier(o, how, true, &x, e);
    result_alloc(o, out);
    for (uint32_t r = 0, n; r < o->total && rc == 0; r += n) {
        n = r == 0 && how->first ? how->first : how->step ? how->step : o->total;
        n = MIN(MIN(n, o->total - r), o->s.h.row_cap);
        if ((rc = move_rows(o, &x, true, r, n, out, e)) == 0 && (rc = submit_rows(o, &x, r, n, e)) == 0)
            rc = move_rows(o, &x, false, r, n, out, e);
    }
    if (rc == 0)
        rc = check_guards(x.t, o, e);
    close_tier(&x);
    if (rc)
        ops_result_free(out);
    return rc;
}

static double cpu_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

int ops_time(struct ops *o, const struct ops_how *how, uint32_t reps, double *us, struct err *e)
{
    enum { SWEEP = 8 << 20 };
    static volatile uint8_t sweep[SWEEP];
    struct open_tier x;
    int rc = open_tier(o, how, false, &x, e);
    *us = 1e30;
    if (rc == 0)
        rc = move_rows(o, &x, true, 0, o->total, NULL, e);
    for (uint32_t i = 0; i <= reps && rc == 0; i++) {
        for (uint32_t k = 0; k < SWEEP; k += 64)
            sweep[k]++;
        double start = cpu_us();
        rc = submit_rows(o, &x, how->first, o->total - how->first, e);
        double took = cpu_us() - start;
        if (i && took < *us)
            *us = took;
    }
    close_tier(&x);
    return rc;
}

uint64_t ops_bytes(const struct ops *o)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < o->s.h.n_bufs; i++)
        n += o->bufs[i].arena == ARENA_IO ? 0 : o->bufs[i].bytes;
    return n;
}
