/* The words of rt/pm4 against public tables: pm4_published.def says where each field lies by sources that are not ours.
 * Random arguments are encoded, every field is read back at its published place, and every other bit is 0. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/pm4/tables.h"
#include "tests/lib/run.h"

enum { G11 = PM4_ON_11, G12 = PM4_ON_12, BOTH = PM4_ON_ALL };
enum { CAP = 128, ROUNDS = 500 };

struct reg_row {
    const char *name;
    uint32_t address, gens;
};
struct field_row {
    const char *reg, *name;
    uint32_t hi, lo, gens;
};
struct packet_row {
    const char *name;
    uint32_t op, n_dw, gens;
};
struct at_row {
    const char *packet, *name;
    uint32_t dw, hi, lo, gens;
    const char *sources;
};
static const struct reg_row regs[] = {
#define REGISTER(name, address, gens) { #name, address, gens },
#include "tests/unit/pm4_published.def"
};
static const struct field_row fields[] = {
#define FIELD_AT(reg, name, hi, lo, gens, sources) { #reg, #name, hi, lo, gens },
#include "tests/unit/pm4_published.def"
};
static const struct packet_row packets[] = {
#define PACKET_OP(name, opcode, n_dw, gens, sources) { #name, opcode, n_dw, gens },
#include "tests/unit/pm4_published.def"
};
static const struct at_row places[] = {
#define PACKET_AT(packet, name, dw, hi, lo, gens, sources) { #packet, #name, dw, hi, lo, gens, #sources },
#include "tests/unit/pm4_published.def"
};

static uint64_t random_state;
static uint64_t rnd(void)
{
    uint64_t z = random_state += 0x9e3779b97f4a7c15;
    z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
    z = (z ^ z >> 27) * 0x94d049bb133111eb;
    return z ^ z >> 31;
}
static uint32_t bits(uint32_t n)
{
    return (uint32_t)(rnd() >> (64 - n));
}
static uint64_t address(uint32_t align)
{
    return rnd() >> 16 & ~(uint64_t)(align - 1);
}

/* ---- registers ---- */

static uint32_t mask_of(uint32_t hi, uint32_t lo)
{
    return (uint32_t)pm4_bits(~0ull, hi, lo) << lo;
}

static const struct reg_row *published(uint32_t at, enum pm4_gen gen)
{
    for (size_t i = 0; i < ARRAY_LEN(regs); i++)
        if (regs[i].address == at && regs[i].gens >> gen & 1)
            return &regs[i];
    return NULL;
}

/* 0: no such field. */
static uint32_t published_field(const char *reg, const char *field, enum pm4_gen gen)
{
    for (size_t i = 0; i < ARRAY_LEN(fields); i++)
        if (fields[i].gens >> gen & 1 && strcmp(fields[i].reg, reg) == 0 && strcmp(fields[i].name, field) == 0)
            return mask_of(fields[i].hi, fields[i].lo);
    return 0;
}

static bool has_field(const struct pm4_reg_row *r, enum pm4_gen gen, const struct field_row *want)
{
    const struct pm4_field_row *f;
    for (uint32_t i = 0; (f = pm4_reg_field(r, i)); i++)
        if (f->gens >> gen & 1 && f->hi == want->hi && f->lo == want->lo && strcmp(f->name, want->name) == 0)
            return true;
    return false;
}

/* Every register of the compute block that is ours is public, at that address, with those fields; and back. */
START_TEST(registers_and_their_fields)
{
    const struct pm4_reg_row *r;
    const struct pm4_field_row *f;
    for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++) {
        for (uint32_t at = PM4_SH_FIRST; at <= PM4_SH_LAST; at++) {
            const struct reg_row *p = published(at, gen);
            r = pm4_reg_find(gen, at);
            ck_assert_msg(!r == !p, "gfx%u: 0x%x is %s here, %s in public tables", 11 + gen, at, r ? r->name : "nothing",
                          p ? p->name : "nothing");
            if (!r || !p)
                continue;
            ck_assert_str_eq(r->name, p->name);
            for (uint32_t i = 0; (f = pm4_reg_field(r, i)); i++) {
                uint32_t want = f->gens >> gen & 1 ? published_field(r->name, f->name, gen) : mask_of(f->hi, f->lo);
                ck_assert_msg(want == mask_of(f->hi, f->lo), "gfx%u: %s.%s is 0x%08x, public tables say 0x%08x", 11 + gen,
                              r->name, f->name, mask_of(f->hi, f->lo), want);
            }
        }
        for (size_t i = 0; i < ARRAY_LEN(fields); i++)
            for (size_t k = 0; k < ARRAY_LEN(regs); k++)
                if (fields[i].gens >> gen & 1 && regs[k].gens >> gen & 1 && strcmp(regs[k].name, fields[i].reg) == 0)
                    ck_assert_msg(has_field(pm4_reg_find(gen, regs[k].address), gen, &fields[i]),
                                  "gfx%u: %s.%s is public and missing here", 11 + gen, fields[i].reg, fields[i].name);
    }
}
END_TEST

/* ---- packets ---- */

/* What a packet has to hold: every field that is not 0. */
struct want {
    const char *field;
    uint32_t value;
};
enum { MAX_WANT = 24 };
struct expected {
    const char *packet;
    enum pm4_gen gen;
    uint32_t n_want, n_tail;
    struct want want[MAX_WANT];
    const uint32_t *tail;
};

static const struct at_row *place(const struct expected *x, const char *field)
{
    for (size_t i = 0; i < ARRAY_LEN(places); i++)
        if (strcmp(places[i].packet, x->packet) == 0 && strcmp(places[i].name, field) == 0 &&
            places[i].gens >> x->gen & 1)
            return &places[i];
    ck_abort_msg("%s has no field %s in public tables", x->packet, field);
    return NULL;
}

/* Whether dw is that packet and nothing else; `why` says where it is not. */
static bool agrees(const struct expected *x, const uint32_t *dw, uint32_t n, char why[160])
{
    const struct packet_row *p = NULL;
    uint32_t rest[CAP];
    for (size_t i = 0; i < ARRAY_LEN(packets); i++)
        if (strcmp(packets[i].name, x->packet) == 0 && packets[i].gens >> x->gen & 1)
            p = &packets[i];
    ck_assert_msg(p && n <= CAP, "%s: no such packet", x->packet);
    /* PACKET3 of nvd.h: type 3 in 31:30, the body's dwords less one in 29:16, the opcode in 15:8 */
    uint32_t header = 3u << 30 | (p->n_dw + x->n_tail - 2) << 16 | p->op << 8;
    if (n != p->n_dw + x->n_tail || dw[0] != header) {
        snprintf(why, 160, "%s: %u dwords, header %08x; expected %u and %08x", x->packet, n, dw[0], p->n_dw + x->n_tail,
                 header);
        return false;
    }
    memcpy(rest, dw, n * 4ull);
    for (uint32_t i = 0; i < x->n_want; i++) {
        const struct at_row *a = place(x, x->want[i].field);
        uint32_t got = (uint32_t)pm4_bits(dw[a->dw], a->hi, a->lo);
        if (got != x->want[i].value) {
            snprintf(why, 160, "%s.%s (%s) is 0x%x, expected 0x%x", x->packet, a->name, a->sources, got,
                     x->want[i].value);
            return false;
        }
        rest[a->dw] &= ~mask_of(a->hi, a->lo);
    }
    for (uint32_t i = 1; i < p->n_dw; i++)
        if (rest[i]) {
            snprintf(why, 160, "%s: dword %u has bits 0x%08x that are no field of it", x->packet, i, rest[i]);
            return false;
        }
    if (x->n_tail && memcmp(dw + p->n_dw, x->tail, x->n_tail * 4ull) != 0) {
        snprintf(why, 160, "%s: other words follow than those given", x->packet);
        return false;
    }
    return true;
}

static uint32_t mem[CAP];
static struct pm4_buf b;
static struct expected x;

static void begin(const char *packet, enum pm4_gen gen)
{
    memset(mem, 0xa5, sizeof mem);
    pm4_init(&b, gen, mem, CAP);
    x = (struct expected){ .packet = packet, .gen = gen };
}
static void want(const char *field, uint64_t value)
{
    ck_assert_uint_lt(x.n_want, MAX_WANT);
    x.want[x.n_want++] = (struct want){ field, (uint32_t)value };
}
/* lo of a field that begins at bit `shift` of the address. */
static void want_va(const char *lo, const char *hi, uint64_t va, uint32_t shift)
{
    want(lo, (uint32_t)va >> shift);
    want(hi, va >> 32);
}

/* The packet is as expected, and no single bit of it can be another without that being seen. */
static void check_packet(void)
{
    char why[160] = "";
    ck_assert_msg(b.rc == 0, "%s: %s", x.packet, b.why);
    ck_assert_msg(agrees(&x, mem, b.n, why), "gfx%u: %s", 11 + x.gen, why);
    uint32_t bit = bits(5), dw = bits(16) % b.n;
    mem[dw] ^= 1u << bit;
    ck_assert_msg(!agrees(&x, mem, b.n, why), "%s: bit %u of dword %u may be anything", x.packet, bit, dw);
    mem[dw] ^= 1u << bit;
}

#define EACH(packet)                                                                                                   \
    random_state = 1;                                                                                                  \
    for (int round = 0; round < ROUNDS; round++)                                                                       \
        for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++)                                                            \
            if (begin(packet, gen), true)

START_TEST(writes)
{
    uint32_t data[8];
    EACH ("WRITE_DATA") {
        uint32_t n = 1 + bits(3), flags = bits(3);
        uint64_t va = address(4);
        for (uint32_t i = 0; i < n; i++)
            data[i] = bits(32);
        x.n_tail = n;
        x.tail = data;
        want("one_addr", !!(flags & PM4_WRITE_SAME));
        want("wr_confirm", !!(flags & PM4_WRITE_CONFIRM));
        if (bits(1)) {
            want("dst_sel", flags & PM4_WRITE_L2 ? 2 : 5);
            want_va("dst_lo", "dst_hi", va, 2);
            pm4_write_data(&b, va, data, n, flags);
        } else {
            uint32_t reg = bits(18);
            want("dst_sel", 0);
            want("dst_reg", reg);
            pm4_write_reg(&b, reg, data, n, flags & ~(uint32_t)PM4_WRITE_L2);
        }
        check_packet();
    }
}
END_TEST

START_TEST(copies)
{
    static const enum pm4_place from[] = { PM4_COPY_REG, PM4_COPY_MEM, PM4_COPY_IMM, PM4_COPY_ATOMIC, PM4_COPY_GPU_CLOCK,
                                           PM4_COPY_SYS_CLOCK };
    static const uint32_t src_sel[] = { 0, 2, 5, 6, 9, 10 };
    EACH ("COPY_DATA") {
        uint32_t k = bits(16) % ARRAY_LEN(from);
        struct pm4_copy c = { .from = from[k], .to = bits(1) ? PM4_COPY_MEM : PM4_COPY_REG, .wide = k >= 4 || bits(1),
                              .confirm = bits(1) };
        want("src_sel", src_sel[k]);
        want("dst_sel", c.to == PM4_COPY_MEM ? 2 : 0);
        want("count_sel", c.wide);
        want("wr_confirm", c.confirm);
        if (c.from == PM4_COPY_REG)
            want("src_reg", c.src = bits(18));
        if (c.from == PM4_COPY_MEM)
            want_va("src_lo", "src_hi", c.src = address(c.wide ? 8 : 4), 0);
        if (c.from == PM4_COPY_IMM)
            want_va("src_lo", "src_hi", c.src = c.wide ? rnd() : bits(32), 0);
        if (c.to == PM4_COPY_REG)
            want("dst_reg", c.dst = bits(18));
        else
            want_va("dst_lo", "dst_hi", c.dst = address(c.wide ? 8 : 4), 2);
        pm4_copy_data(&b, &c);
        check_packet();
    }
}
END_TEST

START_TEST(atomics)
{
    static const uint32_t ops[] = { 7, 8, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25 };
    EACH ("ATOMIC_MEM") {
        uint32_t op = ops[bits(16) % ARRAY_LEN(ops)], wide = bits(1), quiet = bits(1);
        bool loop = op == 8 && bits(1);
        uint64_t src = wide ? rnd() : bits(32), cmp = wide ? rnd() : bits(32), va = address(wide ? 8 : 4);
        uint32_t interval = bits(13);
        want("atomic", op + 32 * wide + 64 * quiet);
        want("command", loop);
        want_va("addr_lo", "addr_hi", va, 0);
        want_va("src_lo", "src_hi", src, 0);
        want_va("cmp_lo", "cmp_hi", cmp, 0);
        want("loop_interval", interval);
        pm4_atomic_mem(&b, op | (wide ? PM4_ATOMIC_64 : 0u) | (quiet ? PM4_ATOMIC_NO_RETURN : 0u), va, src, cmp, loop,
                       interval);
        check_packet();
    }
}
END_TEST

START_TEST(dispatches)
{
    EACH ("DISPATCH_DIRECT") {
        uint32_t g[3] = { bits(32), bits(32), bits(32) };
        bool wave32 = bits(1);
        uint32_t initiator = PM4_INITIATOR(wave32);
        ck_assert_uint_eq(initiator, published_field("COMPUTE_DISPATCH_INITIATOR", "COMPUTE_SHADER_EN", gen) |
                                         published_field("COMPUTE_DISPATCH_INITIATOR", "FORCE_START_AT_000", gen) |
                                         (wave32 ? published_field("COMPUTE_DISPATCH_INITIATOR", "CS_W32_EN", gen) : 0));
        want("dim_x", g[0]);
        want("dim_y", g[1]);
        want("dim_z", g[2]);
        want("initiator", initiator);
        pm4_dispatch_direct(&b, g[0], g[1], g[2], initiator);
        check_packet();
    }
    EACH ("DISPATCH_INDIRECT") {
        uint64_t va = address(4);
        uint32_t initiator = PM4_INITIATOR(bits(1));
        want_va("addr_lo", "addr_hi", va, 0);
        want("initiator", initiator);
        pm4_dispatch_indirect(&b, va, initiator);
        check_packet();
    }
}
END_TEST

static void want_bits(const char *const *names, const uint32_t *flags, size_t n, uint32_t value)
{
    for (size_t i = 0; i < n; i++)
        want(names[i], !!(value & flags[i]));
}

START_TEST(acquires)
{
    static const char *const names[] = { "gli_inv", "glm_wb",  "glm_inv", "glk_wb", "glk_inv",
                                         "glv_inv", "gl1_inv", "gl2_inv", "gl2_wb", "seq" };
    static const uint32_t flags[] = { PM4_GCR_GLI_INV, PM4_GCR_GLM_WB,  PM4_GCR_GLM_INV, PM4_GCR_GLK_WB, PM4_GCR_GLK_INV,
                                      PM4_GCR_GLV_INV, PM4_GCR_GL1_INV, PM4_GCR_GL2_INV, PM4_GCR_GL2_WB,
                                      PM4_GCR_SEQ_FORWARD };
    EACH ("ACQUIRE_MEM") {
        uint32_t gcr = 0, some = bits(16);
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
            gcr |= some >> i & 1 ? flags[i] : 0;
        want("coher_size", UINT32_MAX);
        want("coher_size_hi", 0x01ffffff);
        want("poll_interval", 10);
        want_bits(names, flags, ARRAY_LEN(flags), gcr);
        pm4_acquire_mem(&b, gcr);
        check_packet();
    }
}
END_TEST

START_TEST(releases)
{
    static const char *const names[] = { "glm_wb", "glm_inv", "glv_inv", "gl1_inv", "gl2_inv", "gl2_wb", "seq", "glk_wb" };
    static const uint32_t flags[] = { PM4_REL_GLM_WB,  PM4_REL_GLM_INV, PM4_REL_GLV_INV,     PM4_REL_GL1_INV,
                                      PM4_REL_GL2_INV, PM4_REL_GL2_WB,  PM4_REL_SEQ_FORWARD, PM4_REL_GLK_WB };
    static const uint32_t events[] = { PM4_EVENT_CACHE_FLUSH_AND_INV_TS, PM4_EVENT_BOTTOM_OF_PIPE_TS, PM4_EVENT_CS_DONE };
    static const uint32_t event_types[] = { 0x14, 0x28, 0x2f }, event_index[] = { 5, 5, 6 }; /* soc21_enum.h, PAL */
    EACH ("RELEASE_MEM") {
        uint32_t k = bits(16) % 3, some = bits(16);
        struct pm4_release r = { .event = events[k], .policy = bits(2), .data_sel = bits(16) % 5, .int_sel = bits(2),
                                 .va = address(8), .ctxid = bits(28) };
        r.data = r.data_sel == PM4_DATA_32 ? bits(32) : rnd();
        for (size_t i = 0; i < ARRAY_LEN(flags); i++)
            r.gcr |= some >> i & 1 ? flags[i] : 0;
        want("event_type", event_types[k]);
        want("event_index", event_index[k]);
        want_bits(names, flags, ARRAY_LEN(flags), r.gcr);
        want("cache_policy", r.policy);
        want("int_sel", r.int_sel);
        want("data_sel", r.data_sel);
        want_va("addr_lo", "addr_hi", r.va, 2);
        want_va("data_lo", "data_hi", r.data, 0);
        want("int_ctxid", r.ctxid);
        pm4_release_mem(&b, &r);
        check_packet();
    }
}
END_TEST

START_TEST(waits)
{
    EACH ("WAIT_REG_MEM") {
        uint32_t f = bits(16) % 7, ref = bits(32), mask = bits(32), kind = bits(16) % 3, r1 = bits(18), r2 = bits(18);
        uint64_t va = address(4);
        want("function", f);
        want("mem_space", kind == 0);
        want("operation", kind == 2);
        want("reference", ref);
        want("mask", mask);
        want("poll_interval", 4);
        if (kind == 0) {
            want_va("poll_lo", "poll_hi", va, 2);
            pm4_wait_mem(&b, f, va, ref, mask);
        } else if (kind == 1) {
            want("reg", r1);
            pm4_wait_reg(&b, f, r1, ref, mask);
        } else {
            want("reg", r1);
            want("reg2", r2);
            pm4_write_wait_reg(&b, f, r1, r2, ref, mask);
        }
        check_packet();
    }
    EACH ("EVENT_WRITE") {
        uint32_t type = bits(6), index = bits(4);
        want("event_type", type);
        want("event_index", index);
        pm4_event_write(&b, type, index);
        check_packet();
        begin("EVENT_WRITE", gen);
        want("event_type", 7);
        want("event_index", 4);
        pm4_cs_partial_flush(&b);
        check_packet();
    }
}
END_TEST

START_TEST(flow)
{
    EACH ("INDIRECT_BUFFER") {
        uint64_t va = address(4);
        uint32_t n = 1 + bits(19), chain = bits(1);
        want_va("base_lo", "base_hi", va, 2);
        want("size", n);
        want("chain", chain);
        want("valid", 1);
        pm4_indirect_buffer(&b, va, n, chain);
        check_packet();
    }
    EACH ("COND_EXEC") {
        uint64_t va = address(4);
        uint32_t n = bits(14);
        want_va("addr_lo", "addr_hi", va, 2);
        want("exec_count", n);
        pm4_cond_exec(&b, va, n);
        check_packet();
    }
    EACH ("PRED_EXEC") {
        uint32_t dies = bits(8), n = bits(14);
        want("exec_count", n);
        want("device_select", dies);
        pm4_pred_exec(&b, dies, n);
        check_packet();
    }
    EACH ("NOP") {
        uint32_t words[4] = { bits(32), bits(32), bits(32), bits(32) };
        x.n_tail = 1 + bits(2);
        x.tail = words;
        pm4_mark(&b, words, x.n_tail);
        check_packet();
    }
}
END_TEST

START_TEST(registers_set)
{
    uint32_t v[8];
    EACH ("SET_SH_REG") {
        bool uconfig = bits(1);
        uint32_t n = 1 + bits(3), at = bits(9);
        for (uint32_t i = 0; i < n; i++)
            v[i] = bits(32);
        /* PACKET3_SET_SH_REG_START and _UCONFIG_REG_START of nvd.h */
        x.packet = uconfig ? "SET_UCONFIG_REG" : "SET_SH_REG";
        x.n_tail = n;
        x.tail = v;
        want("reg_offset", at);
        if (uconfig)
            pm4_set_uconfig_reg(&b, 0xc000 + at, n, v);
        else
            pm4_set_sh_reg(&b, 0x2c00 + at, n, v);
        check_packet();
    }
}
END_TEST

/* ---- launches ---- */

/* What a launch leaves in the registers, by SET_SH_REG's published form; the dwords before the dispatch. */
static uint32_t replay(uint32_t value[0x100], bool set[0x100])
{
    uint32_t i = 0;
    while (i < b.n && (mem[i] >> 8 & 0xff) == 0x76) {
        uint32_t n = (mem[i] >> 16 & 0x3fff);
        ck_assert_uint_eq(mem[i] & 0xc00000ff, 0xc0000000);
        for (uint32_t k = 0; k < n; k++) {
            uint32_t at = 0x2c00 + mem[i + 1] + k - 0x2e00;
            ck_assert_uint_lt(at, 0x100);
            value[at] = mem[i + 2 + k];
            set[at] = true;
        }
        i += 2 + n;
    }
    return i;
}

static uint32_t in_field(const char *reg, const char *field, enum pm4_gen gen, uint32_t value)
{
    uint32_t m = published_field(reg, field, gen), at = m & -m;
    ck_assert_msg(m && value <= m / at, "%s.%s cannot hold %u", reg, field, value);
    return value * at;
}

START_TEST(launches)
{
    random_state = 3;
    for (int round = 0; round < ROUNDS; round++)
        for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++) {
            static const uint32_t shapes[][3] = { { 256, 1, 1 }, { 32, 1, 1 }, { 8, 4, 2 }, { 1, 64, 16 } };
            const uint32_t *threads = shapes[bits(2)];
            uint32_t value[0x100] = { 0 }, lds = bits(16), waves = 1 + bits(11);
            uint64_t wave_bytes = 1 + bits(22);
            bool set[0x100] = { false };
            struct pm4_launch l = { .entry = address(256), .scratch = address(256), .lds_bytes = lds, .wave32 = bits(1),
                                    .groups = { 1 + bits(30), 1 + bits(30), 1 + bits(30) },
                                    .threads = { threads[0], threads[1], threads[2] } };
            l.n_user = bits(4);
            for (uint32_t i = 0; i < l.n_user; i++)
                l.user[i] = bits(32);
            l.rsrc1 = in_field("COMPUTE_PGM_RSRC1", "VGPRS", gen, bits(6)) |
                      in_field("COMPUTE_PGM_RSRC1", "FLOAT_MODE", gen, bits(8)) |
                      in_field("COMPUTE_PGM_RSRC1", "WGP_MODE", gen, bits(1));
            l.rsrc2 = in_field("COMPUTE_PGM_RSRC2", "USER_SGPR", gen, l.n_user) |
                      in_field("COMPUTE_PGM_RSRC2", "SCRATCH_EN", gen, 1) |
                      in_field("COMPUTE_PGM_RSRC2", "TGID_X_EN", gen, 1);
            l.rsrc3 = in_field("COMPUTE_PGM_RSRC3", "INST_PREF_SIZE", gen, bits(gen == PM4_GFX11 ? 6 : 8));
            l.tmpring = pm4_tmpring(gen, waves, wave_bytes);
            begin("DISPATCH_DIRECT", gen);
            pm4_launch(&b, NULL, &l, NULL);
            ck_assert_msg(b.rc == 0, "%s", b.why);
            uint32_t at = replay(value, set);

            uint32_t expect[0x100] = { 0 };
            expect[0x07] = threads[0]; /* COMPUTE_NUM_THREAD_X, _Y, _Z: NUM_THREAD_FULL */
            expect[0x08] = threads[1];
            expect[0x09] = threads[2];
            expect[0x0c] = (uint32_t)(l.entry >> 8); /* COMPUTE_PGM_LO, _HI */
            expect[0x0d] = (uint32_t)(l.entry >> 40);
            expect[0x10] = (uint32_t)(l.scratch >> 8); /* COMPUTE_DISPATCH_SCRATCH_BASE_LO, _HI */
            expect[0x11] = (uint32_t)(l.scratch >> 40);
            expect[0x12] = l.rsrc1;
            /* LDS in units of 128 dwords: LLVM's AMDGPU usage guide (GRANULATED_LDS_SIZE), tinygrad's runtime/ops_amd.py */
            expect[0x13] = l.rsrc2 | in_field("COMPUTE_PGM_RSRC2", "LDS_SIZE", gen, (lds + 511) / 512);
            expect[0x18] = in_field("COMPUTE_TMPRING_SIZE", "WAVES", gen, waves) |
                           in_field("COMPUTE_TMPRING_SIZE", "WAVESIZE", gen, (uint32_t)((wave_bytes + 255) / 256));
            expect[0x28] = l.rsrc3;
            memcpy(expect + 0x40, l.user, l.n_user * 4);
            for (uint32_t i = 0; i < 0x100; i++)
                ck_assert_msg(value[i] == expect[i], "gfx%u: register 0x%x is %08x, expected %08x", 11 + gen, 0x2e00 + i,
                              value[i], expect[i]);
            static const uint32_t must[] = { 4, 5, 6, 7, 8, 9, 0xc, 0xd, 0x10, 0x11, 0x12, 0x13, 0x15, 0x18, 0x1b, 0x1c,
                                             0x1d, 0x28 };
            for (size_t i = 0; i < ARRAY_LEN(must); i++)
                ck_assert_msg(set[must[i]], "register 0x%x keeps what it had", 0x2e00 + must[i]);
            for (uint32_t i = 0; i < 0x100; i++)
                ck_assert_msg(!set[i] || published(0x2e00 + i, gen), "0x%x is no register of it", 0x2e00 + i);

            want("dim_x", l.groups[0]);
            want("dim_y", l.groups[1]);
            want("dim_z", l.groups[2]);
            want("initiator", PM4_INITIATOR(l.wave32));
            memmove(mem, mem + at, (b.n - at) * 4ull);
            b.n -= at;
            check_packet();
        }
}
END_TEST

int main(void)
{
    return RUN_TESTS("pm4_published", registers_and_their_fields, writes, copies, atomics, dispatches, acquires, releases,
                     waits, flow, registers_set, launches);
}
