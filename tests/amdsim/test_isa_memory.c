/* Vector memory and LDS instructions: each snippet runs on one wave; what it leaves in registers and memory is
 * compared with a few lines of C that say the same thing another way. v0 is the lane's number times 4 unless said
 * otherwise. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/amdsim/isa_asm.h"

#define BUF 0x200000ull
enum { BUF_BYTES = 3 * VM_PAGE };
static const char *chip_of(int i) { return i ? "gfx1100" : "gfx1201"; }

/* A unit with a buffer of bytes that differ from their neighbours; s[0:1] its address. */
struct bed {
    struct asm_unit *u;
    struct asm_wave *w;
    uint8_t *m;
};
static uint8_t pattern(uint64_t i) { return (uint8_t)(i * 7 + (i >> 8) * 13 + 5); }
static uint32_t word(uint64_t i) /* of the pattern */
{
    return pattern(i) | (uint32_t)pattern(i + 1) << 8 | (uint32_t)pattern(i + 2) << 16 |
           (uint32_t)pattern(i + 3) << 24;
}
static void reset(struct bed *b)
{
    for (uint64_t i = 0; i < BUF_BYTES; i++)
        b->m[i] = pattern(i);
    for (uint32_t r = 0; r < 256; r++)
        for (uint32_t l = 0; l < WAVE_LANES; l++)
            b->w->v[r][l] = r ? r << 24 | l << 8 | 0x80 : l * 4;
    b->w->s[0] = (uint32_t)BUF;
    b->w->s[1] = BUF >> 32;
    b->w->s[OPND_EXEC] = ~0u;
}
static struct bed bed(const char *chip, const char *const *text, size_t n)
{
    static struct asm_wave wave;
    struct bed b = { .u = asm_build(chip, text, n), .w = &wave };
    wave = (struct asm_wave){ .mode = asm_mode(b.u->chip) };
    b.m = asm_buffer(b.u, BUF, BUF_BYTES);
    return b;
}

/* ---- loads ---- */

static const struct load {
    const char *text; /* of what lies at the lane's address into v2 and on, which held their own number and lane */
    int n;
    uint32_t bytes;
    bool sign;
    int half; /* 1: low, 2: high half of the register */
} loads[] = {
    {"load_u8", 1, 1, false, 0},       {"load_i8", 1, 1, true, 0},          {"load_u16", 1, 2, false, 0},
    {"load_i16", 1, 2, true, 0},       {"load_b32", 1, 4, false, 0},        {"load_b64", 2, 8, false, 0},
    {"load_b96", 3, 12, false, 0},     {"load_b128", 4, 16, false, 0},      {"load_d16_u8", 1, 1, false, 1},
    {"load_d16_i8", 1, 1, true, 1},    {"load_d16_b16", 1, 2, false, 1},    {"load_d16_hi_u8", 1, 1, false, 2},
    {"load_d16_hi_i8", 1, 1, true, 2}, {"load_d16_hi_b16", 1, 2, false, 2},
};
enum { N_LOADS = sizeof loads / sizeof *loads, N_FORMS = 6 };

static uint32_t expected(const struct load *d, uint64_t at, uint32_t k, uint32_t old)
{
    uint32_t x = word(at + 4 * k);
    if (d->bytes == 1)
        x = d->sign ? (uint32_t)(int8_t)x : x & 255;
    if (d->bytes == 2)
        x = d->sign ? (uint32_t)(int16_t)x : x & 65535;
    return d->half == 1 ? (old & 0xffff0000) | (x & 0xffff) : d->half == 2 ? (old & 0xffff) | x << 16 : x;
}

/* Where lane l of form f loads, as an offset in the buffer. */
static uint64_t load_at(int f, uint32_t l)
{
    switch (f) {
    case 0: return l * 4 + 32;                  /* SGPR base, one page                  */
    case 1: return l * 100 + 3 + 1;             /* 64-bit addresses, unaligned          */
    case 2: return l * 250 + 6;                 /* over several pages, some across ends */
    case 3: return l * 250;                     /* the same through FLAT                */
    case 4: return l * 4 + 16;                  /* buffer, offset in a VGPR             */
    default: return l * 16 + 8;                 /* buffer, index and offset             */
    }
}
#define INDEXED "s_or_b32 s1, s1, 0x100000\n s_mov_b32 s2, 0x300\n s_mov_b32 s3, 0x10000000\n"
static const char *const load_forms[N_FORMS] = {
    "global_%s v[2:%d], v0, s[0:1] offset:32",
    "global_%s v[2:%d], v[0:1], off offset:1",
    "global_%s v[2:%d], v0, s[0:1] offset:6",
    "flat_%s v[2:%d], v[0:1]",
    "s_mov_b32 s2, 0x3000\n s_mov_b32 s3, 0x30000000\n buffer_%s v[2:%d], v0, s[0:3], null offen offset:16",
    INDEXED "buffer_%s v[2:%d], v[0:1], s[0:3], null idxen offen offset:4",
};

START_TEST(loads_of_every_width_and_form)
{
    static char text[N_LOADS * N_FORMS][256];
    const char *list[N_LOADS * N_FORMS];
    for (int i = 0; i < N_LOADS; i++)
        for (int f = 0; f < N_FORMS; f++) {
            snprintf(text[i * N_FORMS + f], sizeof *text, load_forms[f], loads[i].text, 1 + loads[i].n);
            list[i * N_FORMS + f] = text[i * N_FORMS + f];
        }
    struct bed b = bed(chip_of(_i), list, N_LOADS * N_FORMS);
    for (int i = 0; i < N_LOADS; i++)
        for (int f = 0; f < N_FORMS; f++) {
            uint32_t exec = i % 2 ? 0xffffffff : 0xa5a5fff1;
            reset(&b);
            for (uint32_t l = 0; l < WAVE_LANES; l++) {
                uint64_t va = BUF + load_at(f, l);
                b.w->v[0][l] = f == 0 ? l * 4 : f == 1 ? (uint32_t)va - 1 : f == 2 ? l * 250 : f == 3 ? (uint32_t)va
                    : f == 4 ? l * 4 : l;
                b.w->v[1][l] = f == 1 ? (uint32_t)((va - 1) >> 32) : f == 3 ? (uint32_t)(va >> 32) : 4;
            }
            b.w->s[OPND_EXEC] = exec;
            asm_run(b.u, (size_t)(i * N_FORMS + f), b.w);
            for (uint32_t l = 0; l < WAVE_LANES; l++)
                for (uint32_t k = 0; k < (uint32_t)loads[i].n; k++) {
                    uint32_t old = (2 + k) << 24 | l << 8 | 0x80;
                    uint32_t e = exec >> l & 1 ? expected(&loads[i], load_at(f, l), k, old) : old;
                    ck_assert_msg(b.w->v[2 + k][l] == e, "%s: v%u lane %u = %08x, expected %08x",
                                  list[i * N_FORMS + f], 2 + k, l, b.w->v[2 + k][l], e);
                }
        }
    asm_free(b.u);
}
END_TEST

/* ---- stores ---- */

static const struct {
    const char *text;
    uint32_t bytes;
    bool high;
} stores[] = {
    {"store_b8", 1, false},   {"store_b16", 2, false},   {"store_b32", 4, false},      {"store_b64", 8, false},
    {"store_b96", 12, false}, {"store_b128", 16, false}, {"store_d16_hi_b8", 1, true}, {"store_d16_hi_b16", 2, true},
};
enum { N_STORES = sizeof stores / sizeof *stores, N_STORE_FORMS = 4 };

#define RAW_BUFFER "s_mov_b32 s2, 0x1000\n s_mov_b32 s3, 0x30000000\n s_mov_b32 s4, 12\n"
START_TEST(stores_of_every_width_and_form)
{
    static const char *const forms[N_STORE_FORMS] = {
        "global_%s v0, v[4:%d], s[0:1] offset:8",
        "global_%s v[0:1], v[4:%d], off offset:-4",
        "flat_%s v[0:1], v[4:%d]",
        RAW_BUFFER "buffer_%s v[4:%d], v0, s[0:3], s4 offen",
    };
    static char text[N_STORES * N_STORE_FORMS][256];
    const char *list[N_STORES * N_STORE_FORMS];
    for (int i = 0; i < N_STORES; i++)
        for (int f = 0; f < N_STORE_FORMS; f++) {
            int last = 3 + (int)(stores[i].bytes + 3) / 4;
            snprintf(text[i * N_STORE_FORMS + f], sizeof *text, forms[f], stores[i].text, last);
            list[i * N_STORE_FORMS + f] = text[i * N_STORE_FORMS + f];
        }
    struct bed b = bed(chip_of(_i), list, N_STORES * N_STORE_FORMS);
    uint8_t *want = malloc(BUF_BYTES);
    for (int i = 0; i < N_STORES; i++)
        for (int f = 0; f < N_STORE_FORMS; f++) {
            uint32_t exec = f % 2 ? ~0u : 0x00ff0f0f;
            reset(&b);
            memcpy(want, b.m, BUF_BYTES);
            for (uint32_t l = 0; l < WAVE_LANES; l++) {
                uint64_t at = l * (f == 1 || f == 2 ? 252 : 20); /* the buffer ends after 4096 bytes; others do not */
                at += f == 3 && l >= 30 ? 4096 : 0;
                uint64_t va = BUF + at, off = f == 0 ? 8 : f == 1 ? 0 : f == 3 ? 12 : 0;
                b.w->v[0][l] = f == 0 || f == 3 ? (uint32_t)at : f == 1 ? (uint32_t)(va + 4) : (uint32_t)va;
                b.w->v[1][l] = (uint32_t)(va >> 32);
                bool dropped = f == 3 && at + off + stores[i].bytes > 4096;
                for (uint32_t k = 0; k < stores[i].bytes && exec >> l & 1 && !dropped; k++) {
                    uint32_t x = (4 + k / 4) << 24 | l << 8 | 0x80;
                    want[at + off + k] = (uint8_t)((stores[i].high ? x >> 16 : x) >> (k % 4 * 8));
                }
            }
            b.w->s[OPND_EXEC] = exec;
            asm_run(b.u, (size_t)(i * N_STORE_FORMS + f), b.w);
            for (uint32_t k = 0; k < BUF_BYTES; k++)
                ck_assert_msg(b.m[k] == want[k], "%s: byte %u = %02x, expected %02x", list[i * N_STORE_FORMS + f], k,
                              b.m[k], want[k]);
        }
    free(want);
    asm_free(b.u);
}
END_TEST

/* ---- atomics: global, flat into LDS, and DS do the same ---- */

static const struct atomic {
    int gen; /* 0: both, 11, 12 */
    const char *name, *ds; /* NULL: DS has none of that kind */
    int bytes;
    uint64_t old, data, data1, now;
} atomics[] = {
    { 0, "swap_b32", "ds_storexchg_rtn_b32", 4, 5, 7, 0, 7 },
    { 0, "add_u32", "ds_add_rtn_u32", 4, 0xffffffff, 2, 0, 1 },
    { 0, "sub_u32", "ds_sub_rtn_u32", 4, 1, 2, 0, 0xffffffff },
    { 0, "min_i32", "ds_min_rtn_i32", 4, 0xffffffff, 1, 0, 0xffffffff },
    { 0, "min_u32", "ds_min_rtn_u32", 4, 0xffffffff, 1, 0, 1 },
    { 0, "max_i32", "ds_max_rtn_i32", 4, 0xffffffff, 1, 0, 1 },
    { 0, "max_u32", "ds_max_rtn_u32", 4, 0xffffffff, 1, 0, 0xffffffff },
    { 0, "and_b32", "ds_and_rtn_b32", 4, 0xff, 0x0f3c, 0, 0x3c },
    { 0, "or_b32", "ds_or_rtn_b32", 4, 0xf0, 0x0f, 0, 0xff },
    { 0, "xor_b32", "ds_xor_rtn_b32", 4, 0xff, 0x0f, 0, 0xf0 },
    { 0, "inc_u32", "ds_inc_rtn_u32", 4, 7, 7, 0, 0 },
    { 0, "inc_u32", "ds_inc_rtn_u32", 4, 6, 7, 0, 7 },
    { 0, "dec_u32", "ds_dec_rtn_u32", 4, 0, 7, 0, 7 },
    { 0, "dec_u32", "ds_dec_rtn_u32", 4, 9, 7, 0, 7 },
    { 0, "dec_u32", "ds_dec_rtn_u32", 4, 5, 7, 0, 4 },
    { 0, "add_f32", "ds_add_rtn_f32", 4, 0x3f800000, 0x40000000, 0, 0x40400000 },
    { 0, "cmpswap_b32", "ds_cmpstore_rtn_b32", 4, 5, 9, 5, 9 },
    { 0, "cmpswap_b32", "ds_cmpstore_rtn_b32", 4, 6, 9, 5, 6 },
    { 0, NULL, "ds_rsub_rtn_u32", 4, 3, 10, 0, 7 },
    { 0, NULL, "ds_mskor_rtn_b32", 4, 0xff, 0x0f, 0x100, 0x1f0 },
    { 11, "csub_u32", NULL, 4, 5, 7, 0, 0 },
    { 12, "sub_clamp_u32", "ds_sub_clamp_rtn_u32", 4, 9, 7, 0, 2 },
    { 12, "cond_sub_u32", "ds_cond_sub_rtn_u32", 4, 5, 7, 0, 5 },
    { 11, "min_f32", "ds_min_rtn_f32", 4, 0x3f800000, 0xbf800000, 0, 0xbf800000 },
    { 12, "max_num_f32", "ds_max_num_rtn_f32", 4, 0x7fc00000, 0xbf800000, 0, 0xbf800000 },
    { 12, "pk_add_f16", "ds_pk_add_rtn_f16", 4, 0x3c004000, 0x3c003c00, 0, 0x40004200 },
    { 12, "pk_add_bf16", "ds_pk_add_rtn_bf16", 4, 0x3f804000, 0x3f803f80, 0, 0x40004040 },
    { 0, "swap_b64", "ds_storexchg_rtn_b64", 8, 5, 7ull << 40, 0, 7ull << 40 },
    { 0, "add_u64", "ds_add_rtn_u64", 8, 0xffffffff, 1, 0, 1ull << 32 },
    { 0, "sub_u64", "ds_sub_rtn_u64", 8, 0, 1, 0, ~0ull },
    { 0, "min_i64", "ds_min_rtn_i64", 8, ~0ull, 1, 0, ~0ull },
    { 0, "max_u64", "ds_max_rtn_u64", 8, ~0ull, 1, 0, ~0ull },
    { 0, "and_b64", "ds_and_rtn_b64", 8, 0xffull << 36, 0xffull << 32, 0, 0xf0ull << 32 },
    { 0, "inc_u64", "ds_inc_rtn_u64", 8, 7, 1ull << 33, 0, 8 },
    { 0, "dec_u64", "ds_dec_rtn_u64", 8, 1ull << 40, 7, 0, 7 },
    { 0, "cmpswap_b64", "ds_cmpstore_rtn_b64", 8, 5ull << 32, 9, 5ull << 32, 9 },
    { 11, NULL, "ds_min_rtn_f64", 8, 0x3ff0000000000000, 0xbff0000000000000, 0, 0xbff0000000000000 },
    { 11, NULL, "ds_wrap_rtn_b32", 4, 3, 10, 20, 23 },
};
enum { N_ATOMICS = sizeof atomics / sizeof *atomics, WAYS = 3 };

/* v[4:5] data, v[6:7] compared; memory's data registers follow each other. v[10:11] gets the value before. */
static void atomic_text(char *out, size_t size, const struct atomic *a, int way, bool gfx12)
{
    bool two = a->data1 || (a->name && !strncmp(a->name, "cmpswap", 7)) || strstr(a->ds ? a->ds : "", "cmpstore");
    int n = a->bytes / 4;
    const char *ret = gfx12 ? "th:TH_ATOMIC_RETURN" : "glc";
    if (way == 0 && a->name)
        snprintf(out, size, "global_atomic_%s v[10:%d], v0, v[4:%d], s[0:1] %s", a->name, 9 + n,
                 3 + n * (two ? 2 : 1), ret);
    else if (way == 1 && a->name)
        snprintf(out, size, "v_mov_b32 v1, 0x10000\n flat_atomic_%s v[10:%d], v[0:1], v[4:%d] %s", a->name, 9 + n,
                 3 + n * (two ? 2 : 1), ret);
    else if (way == 2 && a->ds)
        snprintf(out, size, two ? "%s v[10:%d], v0, v[4:%d], v[%d:%d]" : "%s v[10:%d], v0, v[4:%d]", a->ds, 9 + n,
                 3 + n, 4 + n, 3 + 2 * n);
    else
        snprintf(out, size, "s_nop 0");
}

START_TEST(atomics_return_the_old_and_store_the_new)
{
    static char text[N_ATOMICS * WAYS * 2][128];
    const char *list[N_ATOMICS * WAYS];
    struct asm_unit *u;
    bool gfx12 = _i == 0;
    for (int i = 0; i < N_ATOMICS * WAYS; i++) {
        const struct atomic *a = &atomics[i / WAYS];
        bool here = a->gen == 0 || (a->gen == 12) == gfx12;
        bool flat_csub = i % WAYS == 1 && (a->name && (!strcmp(a->name, "csub_u32")));
        if (here && !flat_csub)
            atomic_text(text[i], sizeof *text, a, i % WAYS, gfx12);
        else
            snprintf(text[i], sizeof *text, "s_nop 0");
        /* LDS is set up and read back by the wave itself: a dword or two per lane */
        list[i] = text[i];
    }
    u = asm_build(chip_of(_i), list, N_ATOMICS * WAYS);
    uint8_t *m = asm_buffer(u, BUF, VM_PAGE);
    for (int i = 0; i < N_ATOMICS * WAYS; i++) {
        const struct atomic *a = &atomics[i / WAYS];
        if (!strcmp(list[i], "s_nop 0"))
            continue;
        struct isa_launch l = asm_launch(u, (size_t)i);
        struct isa_group *g = isa_group_create(&l, l.start, 0);
        struct wave *w = &g->w[0];
        for (uint32_t k = 0; k < WAVE_LANES; k++) {
            memcpy(m + k * 8, &a->old, 8);
            memcpy(g->lds + k * 8, &a->old, 8);
            w->v[0][k] = k * 8;
            w->v[4][k] = (uint32_t)a->data;
            w->v[5][k] = (uint32_t)(a->bytes == 8 ? a->data >> 32 : a->data1);
            w->v[6][k] = (uint32_t)a->data1;
            w->v[7][k] = (uint32_t)(a->data1 >> 32);
            w->v[10][k] = w->v[11][k] = 0;
        }
        w->s[0] = (uint32_t)BUF, w->s[1] = 0;
        w->s[OPND_EXEC] = 0xfffffffe; /* lane 0 takes no part */
        ck_assert_msg(isa_group_run(g, 1000) == ISA_DONE, "%s: %s", list[i], isa_group_fault(g)->text);
        for (uint32_t k = 0; k < WAVE_LANES; k++) {
            uint64_t now = 0, before = w->v[10][k] | (a->bytes == 8 ? (uint64_t)w->v[11][k] << 32 : 0);
            memcpy(&now, (i % WAYS ? g->lds : m) + k * 8, (size_t)a->bytes);
            ck_assert_msg(now == (k ? a->now : a->old) && before == (k ? a->old : 0),
                          "%s, lane %u: %llx, before %llx; expected %llx, %llx", list[i], k, (unsigned long long)now,
                          (unsigned long long)before, (unsigned long long)a->now, (unsigned long long)a->old);
        }
        isa_group_destroy(g);
    }
    asm_free(u);
}
END_TEST

/* ---- LDS and exchanges: text, and what lane l then has in v2 (v3) ---- */

static uint32_t own(uint32_t r, uint32_t l) { return r << 24 | l << 8 | 0x80; }
static uint32_t same(uint32_t l) { return own(4, l); }
static uint32_t next4(uint32_t l) { return own(4, (l + 4) & 31); }
static uint32_t byte_i8(uint32_t l) { (void)l; return 0xffffff80; }
static uint32_t low16(uint32_t l) { return own(4, l) & 0xffff; }
static uint32_t high_half(uint32_t l) { return (own(2, l) & 0xffff) | own(4, l) << 16; }
static uint32_t low_half(uint32_t l) { return (own(2, l) & 0xffff0000) | (own(4, l) & 0xffff); }
static uint32_t upper_stored(uint32_t l) { return own(4, l) >> 16; }
static uint32_t second(uint32_t l) { return own(5, l); }
static uint32_t crossed(uint32_t l) { return own(4, l ^ 4); }
static uint32_t in_range(uint32_t l) { return l < 16 ? own(4, l) : 0; }
static uint32_t mirrored(uint32_t l) { return own(4, 31 - l); }
static uint32_t pairs(uint32_t l) { return own(4, l ^ 1); }
static uint32_t quad_first(uint32_t l) { return own(4, l & ~3u); }
static uint32_t rotated(uint32_t l) { return own(4, (l + 3) & 31); }
static uint32_t bits_reversed(uint32_t l)
{
    static const uint8_t order[] = { 0, 16, 8, 24, 4, 20, 12, 28, 2, 18, 10, 26, 6, 22, 14, 30,
                                     1, 17, 9, 25, 5, 21, 13, 29, 3, 19, 11, 27, 7, 23, 15, 31 };
    return own(4, order[l]);
}
static uint32_t two_ffts(uint32_t l) /* of 16 lanes each */
{
    static const uint8_t order[] = { 0, 8, 4, 12, 2, 10, 6, 14, 1, 9, 5, 13, 3, 11, 7, 15 };
    return own(4, order[l & 15] | (l & 16));
}
static uint32_t broadcast5(uint32_t l) { (void)l; return own(4, 5); }
static uint32_t counted(uint32_t l) { (void)l; return 100; }
static uint32_t last_wins(uint32_t l) { return l == 5 ? own(4, 31) : 0; }
static uint32_t without_5(uint32_t l) { return l == 5 ? own(2, 5) : 0; }

static const struct lds {
    const char *text;
    uint32_t (*v2)(uint32_t), (*v3)(uint32_t);
} lds[] = {
    {"ds_store_b32 v0, v4\n ds_load_b32 v2, v0", same, NULL},
    {"ds_store_b32 v0, v4 offset:65408\n ds_load_b32 v2, v0 offset:65408", same, NULL},
    {"ds_store_b32 v0, v4\n v_xor_b32 v0, 16, v0\n ds_load_b32 v2, v0", crossed, NULL},
    {"ds_store_b8 v0, v4 offset:1\n ds_load_i8 v2, v0 offset:1\n ds_load_u8 v3, v0 offset:1", byte_i8, NULL},
    {"ds_store_b16 v0, v4\n ds_load_u16 v2, v0", low16, NULL},
    {"ds_store_b16 v0, v4\n ds_load_u16_d16_hi v2, v0", high_half, NULL},
    {"ds_store_b16 v0, v4\n ds_load_u16_d16 v2, v0", low_half, NULL},
    {"ds_store_b16_d16_hi v0, v4\n ds_load_u16 v2, v0", upper_stored, NULL},
    {"v_lshlrev_b32 v0, 1, v0\n ds_store_b64 v0, v[4:5] offset:4\n ds_load_b64 v[2:3], v0 offset:4", same, second},
    {"v_lshlrev_b32 v0, 2, v0\n ds_store_b128 v0, v[4:7]\n ds_load_b96 v[6:8], v0\n v_mov_b32 v2, v6\n v_mov_b32 v3, "
     "v7",
     same, second},
    {"v_lshlrev_b32 v0, 2, v0\n v_add_nc_u32 v0, 1, v0\n ds_store_b96 v0, v[4:6]\n ds_load_b128 v[8:11], v0\n"
     "v_mov_b32 v2, v8\n v_mov_b32 v3, v9",
     same, second},
    {"v_lshlrev_b32 v0, 1, v0\n ds_store_2addr_b32 v0, v4, v5 offset1:1\n ds_load_b64 v[2:3], v0", same, second},
    {"ds_store_2addr_stride64_b32 v0, v4, v5 offset0:1 offset1:3\n ds_load_b32 v2, v0 offset:256\n"
     "ds_load_b32 v3, v0 offset:768",
     same, second},
    {"ds_store_b32 v0, v4\n ds_store_b32 v0, v5 offset:768\n ds_load_2addr_stride64_b32 v[2:3], v0 offset1:3", same,
     second},
    {"v_lshlrev_b32 v0, 1, v0\n ds_store_2addr_stride64_b64 v0, v[4:5], v[6:7] offset1:1\n ds_load_2addr_b64 v[6:9], "
     "v0 offset1:64\n"
     "v_mov_b32 v2, v6\n v_mov_b32 v3, v7",
     same, second},
    {"ds_store_b32 v0, v4\n ds_store_b32 v0, v5 offset:256\n ds_storexchg_2addr_stride64_rtn_b32 v[2:3], v0, v6, v7 "
     "offset1:1",
     same, second},
    /* beyond the allocation: nothing is stored, 0 is loaded */
    {"v_add_nc_u32 v0, 0xffc0, v0\n ds_store_b32 v0, v4\n ds_load_b32 v2, v0", in_range, NULL},
    {"v_sub_nc_u32 v6, 0x7c, v0\n ds_bpermute_b32 v2, v6, v4", mirrored, NULL},
    {"ds_bpermute_b32 v2, v0, v4 offset:16", next4, NULL},
    {"v_mov_b32 v6, 20\n ds_bpermute_b32 v2, v6, v4", broadcast5, NULL},
    {"v_mov_b32 v6, 20\n s_mov_b32 exec_lo, 0xffffffdf\n ds_bpermute_b32 v2, v6, v4", without_5, NULL},
    {"v_sub_nc_u32 v6, 0x7c, v0\n ds_permute_b32 v2, v6, v4", mirrored, NULL},
    {"v_mov_b32 v6, 20\n ds_permute_b32 v2, v6, v4", last_wins, NULL},
    {"ds_swizzle_b32 v2, v4 offset:swizzle(SWAP,1)", pairs, NULL},
    {"ds_swizzle_b32 v2, v4 offset:swizzle(REVERSE,32)", mirrored, NULL},
    {"ds_swizzle_b32 v2, v4 offset:swizzle(QUAD_PERM,0,0,0,0)", quad_first, NULL},
    {"ds_swizzle_b32 v2, v4 offset:swizzle(BROADCAST,32,5)", broadcast5, NULL},
    {"ds_swizzle_b32 v2, v4 offset:0xc060", rotated, NULL},
    {"ds_swizzle_b32 v2, v4 offset:0xe000", bits_reversed, NULL},
    {"ds_swizzle_b32 v2, v4 offset:0xe010", two_ffts, NULL},
    {"v_mov_b32 v6, 64\n v_mov_b32 v7, 100\n ds_store_b32 v6, v7\n s_mov_b32 m0, 60\n ds_append v2 offset:4\n"
     "ds_load_b32 v3, v6\n v_sub_nc_u32 v3, v3, 32",
     counted, counted},
    {"v_mov_b32 v6, 64\n v_mov_b32 v7, 100\n ds_store_b32 v6, v7\n s_mov_b32 m0, 64\n ds_consume v2\n"
     "ds_load_b32 v3, v6\n v_add_nc_u32 v3, 32, v3",
     counted, counted},
    {"s_mov_b32 m0, 128\n ds_store_addtid_b32 v4 offset:4\n ds_load_addtid_b32 v2 offset:4\n ds_load_b32 v3, v0 "
     "offset:132",
     same, same},
    {"v_lshlrev_b32 v0, 1, v0\n ds_store_b64 v0, v[4:5]\n v_mov_b32 v6, 0x80000007\n v_mov_b32 v7, 9\n"
     "ds_condxchg32_rtn_b64 v[2:3], v0, v[6:7]",
     same, second},
};
enum { N_LDS = sizeof lds / sizeof *lds };

START_TEST(lds_and_lane_exchanges)
{
    const char *text[N_LDS];
    for (int i = 0; i < N_LDS; i++)
        text[i] = lds[i].text;
    struct bed b = bed(chip_of(_i), text, N_LDS);
    for (size_t i = 0; i < N_LDS; i++) {
        reset(&b);
        asm_run(b.u, i, b.w);
        for (uint32_t l = 0; l < WAVE_LANES; l++) {
            ck_assert_msg(b.w->v[2][l] == lds[i].v2(l), "%s\n lane %u: v2 = %08x, expected %08x", lds[i].text, l,
                          b.w->v[2][l], lds[i].v2(l));
            ck_assert_msg(!lds[i].v3 || b.w->v[3][l] == lds[i].v3(l), "%s\n lane %u: v3 = %08x, expected %08x",
                          lds[i].text, l, b.w->v[3][l], lds[i].v3(l));
        }
    }
    asm_free(b.u);
}
END_TEST

/* ---- scratch ---- */

/* v4 and on are stored, then v2 (v3) loaded. Dwords of the 32 lanes lie side by side, which is looked at from
 * outside. */
static const struct {
    const char *text;
    uint32_t (*v2)(uint32_t), (*v3)(uint32_t);
    uint32_t off; /* where v4 of lane 0 then is, in bytes per lane */
} scratch[] = {
    {"scratch_store_b32 off, v4, off offset:8\n scratch_load_b32 v2, off, off offset:8", same, NULL, 8},
    {"s_mov_b32 s3, 16\n scratch_store_b32 off, v4, s3 offset:4\n scratch_load_b32 v2, off, s3 offset:4", same, NULL,
     20},
    {"v_mov_b32 v1, 24\n scratch_store_b64 v1, v[4:5], off\n scratch_load_b64 v[2:3], v1, off", same, second, 24},
    {"s_mov_b32 s3, 16\n v_mov_b32 v1, 24\n scratch_store_b128 v1, v[4:7], s3\n scratch_load_b96 v[6:8], v1, s3\n"
     "v_mov_b32 v2, v6\n v_mov_b32 v3, v7",
     same, second, 40},
    {"scratch_store_b32 v0, v4, off\n scratch_load_b32 v2, v0, off", same, NULL, 0},
    {"s_mov_b32 exec_lo, 0xff00\n scratch_store_b128 off, v[4:7], off\n s_mov_b32 exec_lo, -1\n"
     "scratch_store_b128 off, v[4:7], off\n scratch_load_b64 v[2:3], off, off",
     same, second, 0},
    {"scratch_store_b64 off, v[4:5], off offset:6\n scratch_load_b64 v[2:3], off, off offset:6", same, second, 6},
    {"scratch_store_b16 off, v4, off offset:2\n scratch_load_u16 v2, off, off offset:2", low16, NULL, 2},
    {"scratch_store_b32 off, v4, off offset:12\n v_mov_b32 v0, 12\n v_mov_b32 v1, 0x20000\n flat_load_b32 v2, v[0:1]",
     same, NULL, 12},
    {"v_mov_b32 v0, 16\n v_mov_b32 v1, 0x20000\n flat_store_b64 v[0:1], v[4:5]\n scratch_load_b64 v[2:3], off, off "
     "offset:16",
     same, second, 16},
};
enum { N_SCRATCH = sizeof scratch / sizeof *scratch };

START_TEST(scratch_is_private_and_interleaved)
{
    const char *text[N_SCRATCH];
    for (int i = 0; i < N_SCRATCH; i++)
        text[i] = scratch[i].text;
    struct bed b = bed(chip_of(_i), text, N_SCRATCH);
    for (size_t i = 0; i < N_SCRATCH; i++) {
        reset(&b);
        asm_run(b.u, i, b.w);
        for (uint32_t l = 0; l < WAVE_LANES; l++) {
            ck_assert_msg(b.w->v[2][l] == scratch[i].v2(l), "%s\n lane %u: v2 = %08x, expected %08x", text[i], l,
                          b.w->v[2][l], scratch[i].v2(l));
            ck_assert_msg(!scratch[i].v3 || b.w->v[3][l] == scratch[i].v3(l),
                          "%s\n lane %u: v3 = %08x, expected %08x", text[i], l, b.w->v[3][l], scratch[i].v3(l));
        }
        uint32_t off = scratch[i].off;
        const uint8_t *p = vm_at(b.u->vm, ASM_SCRATCH_VA + (off & ~3u) * 32 + (off & 3), VM_VALID);
        ck_assert_msg(p[0] == (own(4, 0) & 255) && p[1] == (own(4, 0) >> 8 & 255), "%s\n is not where it should be",
                      text[i]);
    }
    asm_free(b.u);
}
END_TEST

/* ---- faults ---- */

static const struct {
    const char *text;
    enum isa_fault_kind kind;
    uint32_t lane;
    gva va;
    const char *says;
} faults[] = {
    {"s_mov_b32 exec_lo, 0x80\n global_store_b32 v[0:1], v4, off", ISA_FAULT_PAGE, 7, 28, "lane 7 stores"},
    {"s_mov_b32 exec_lo, 2\n v_mov_b32 v0, 0x300000\n v_mov_b32 v1, 0\n global_store_b32 v[0:1], v4, off",
     ISA_FAULT_PAGE, 1, 0x300000, "not allowed"},
    {"s_mov_b32 exec_lo, 1\n v_mov_b32 v0, 2\n global_atomic_add_u32 v0, v4, s[0:1]", ISA_FAULT_PAGE, 0, BUF + 2,
     "not a multiple of 4"},
    {"v_mov_b32 v0, 0xffe\n v_mov_b32 v1, 0\n s_add_u32 s0, s0, 0x2000\n global_load_b32 v2, v0, s[0:1]",
     ISA_FAULT_PAGE, 0, BUF + 0x3000, "nothing is mapped"},
    {"v_mov_b32 v1, 0x10000\n scratch_load_b32 v2, v1, off", ISA_FAULT_REGISTER, 0, 0, "bytes per lane"},
    {"v_mov_b32 v0, 0\n v_mov_b32 v1, 0x8000\n flat_load_b32 v2, v[0:1]", ISA_FAULT_PAGE, 0, 0x8000ull << 32,
     "nothing is mapped"},
};
enum { N_FAULTS = sizeof faults / sizeof *faults };

START_TEST(faults_have_address_and_lane)
{
    const char *text[N_FAULTS];
    for (int i = 0; i < N_FAULTS; i++)
        text[i] = faults[i].text;
    struct bed b = bed(chip_of(_i), text, N_FAULTS);
    asm_buffer_flags(b.u, 0x300000, VM_PAGE, VM_VALID);
    for (size_t i = 0; i < N_FAULTS; i++) {
        reset(&b);
        memset(b.w->v[1], 0, sizeof b.w->v[1]);
        ck_assert_msg(asm_try(b.u, i, b.w) == ISA_FAULT, "%s", text[i]);
        struct isa_fault *f = &b.w->fault;
        ck_assert_msg(f->kind == faults[i].kind && f->lane == faults[i].lane && f->va == faults[i].va &&
                          strstr(f->text, faults[i].says),
                      "%s: kind %d lane %u va %llx: %s", text[i], f->kind, f->lane, (unsigned long long)f->va,
                      f->text);
    }
    asm_free(b.u);
}
END_TEST

int main(void)
{
    if (!asm_available())
        return 77;
    Suite *s = suite_create("isa memory");
    TCase *t = tcase_create("isa memory");
    tcase_set_timeout(t, 120);
    tcase_add_loop_test(t, loads_of_every_width_and_form, 0, 2);
    tcase_add_loop_test(t, stores_of_every_width_and_form, 0, 2);
    tcase_add_loop_test(t, atomics_return_the_old_and_store_the_new, 0, 2);
    tcase_add_loop_test(t, lds_and_lane_exchanges, 0, 2);
    tcase_add_loop_test(t, scratch_is_private_and_interleaved, 0, 2);
    tcase_add_loop_test(t, faults_have_address_and_lane, 0, 2);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
