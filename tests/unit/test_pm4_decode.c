/* PM4 read back: what the encoder wrote comes back by name, the tables hold together, and whatever is wrong with a
 * packet is said. */
#include <stdlib.h>
#include <string.h>

#include "rt/pm4/decode.h"
#include "rt/pm4/tables.h"
#include "tests/lib/run.h"

enum { MAX_VALUES = 256, MAX_TEXT = 4096 };

/* What pm4_explain said about a packet. */
struct heard {
    unsigned n, problems;
    struct {
        char name[48];
        enum pm4_value_kind kind;
        uint64_t value, bytes;
        bool write;
        char word[48];
    } v[MAX_VALUES];
    char text[MAX_TEXT];
};
static struct heard heard;

static void hear_value(void *user, const struct pm4_value *v)
{
    struct heard *h = user;
    ck_assert_uint_lt(h->n, MAX_VALUES);
    snprintf(h->v[h->n].name, sizeof h->v[0].name, "%s", v->name);
    snprintf(h->v[h->n].word, sizeof h->v[0].word, "%s", v->word ? v->word : "");
    h->v[h->n].kind = v->kind;
    h->v[h->n].value = v->value;
    h->v[h->n].bytes = v->bytes;
    h->v[h->n].write = v->write;
    h->n++;
}

static void hear_problem(void *user, const char *text)
{
    struct heard *h = user;
    size_t n = strlen(h->text);
    ck_assert_ptr_null(strchr(text, '\n'));
    snprintf(h->text + n, sizeof h->text - n, "%s\n", text);
}

static void explain(const struct pm4_packet *p, const struct pm4_view *v)
{
    heard = (struct heard){ 0 };
    heard.problems = pm4_explain(p, v, &(struct pm4_sink){ &heard, hear_value, hear_problem });
}

/* The first packet of n dwords. */
static struct pm4_packet hear(enum pm4_gen gen, const uint32_t *dw, uint32_t n)
{
    struct pm4_cursor c = { .gen = gen, .dw = dw, .n = n };
    struct pm4_packet p;
    ck_assert(pm4_next(&c, &p));
    explain(&p, &(struct pm4_view){ .gen = gen });
    return p;
}

static unsigned find(const char *name)
{
    for (unsigned i = 0; i < heard.n; i++)
        if (strcmp(heard.v[i].name, name) == 0)
            return i;
    ck_abort_msg("no field %s", name);
    return 0;
}

static void is(const char *name, uint64_t want)
{
    uint64_t got = heard.v[find(name)].value;
    ck_assert_msg(got == want, "%s is 0x%llx, expected 0x%llx", name, (unsigned long long)got,
                  (unsigned long long)want);
}

static void is_word(const char *name, const char *want)
{
    ck_assert_str_eq(heard.v[find(name)].word, want);
}

static void is_va(const char *name, uint64_t va, uint64_t bytes, bool write)
{
    unsigned i = find(name);
    ck_assert_int_eq(heard.v[i].kind, PM4_VALUE_VA);
    is(name, va);
    ck_assert_uint_eq(heard.v[i].bytes, bytes);
    ck_assert_int_eq(heard.v[i].write, write);
}

static uint64_t state = 88172645463325252ull;

static uint64_t draw64(void)
{
    state ^= state << 13;
    state ^= state >> 7;
    return state ^= state << 17;
}

static uint32_t draw(uint32_t n)
{
    return (uint32_t)((draw64() >> 20) % n);
}

static uint64_t draw_va(uint32_t align)
{
    return (draw64() >> 16) & ~(uint64_t)(align - 1);
}

/* One encoded packet, nothing wrong with it, the expected name. */
static uint32_t words[600];
static struct pm4_buf fresh(enum pm4_gen gen)
{
    struct pm4_buf b;
    pm4_init(&b, gen, words, 600);
    return b;
}

static void heard_as(const struct pm4_buf *b, const char *name)
{
    ck_assert_msg(b->rc == 0, "%s: %s", name, b->why);
    struct pm4_packet p = hear(b->gen, words, b->n);
    ck_assert_str_eq(p.name, name);
    ck_assert_uint_eq(p.n, b->n);
    ck_assert_msg(heard.problems == 0, "%s: %s", name, heard.text);
}

static void round_trip_memory(enum pm4_gen gen)
{
    struct pm4_buf b = fresh(gen);
    uint32_t n = 1 + draw(20), flags = draw(4);
    uint64_t va = draw_va(4), data = draw64();
    uint32_t src[20];
    for (uint32_t i = 0; i < n; i++)
        src[i] = (uint32_t)draw64();
    pm4_write_data(&b, va, src, n, flags);
    heard_as(&b, "WRITE_DATA");
    is_va("dst_addr", va, flags & PM4_WRITE_SAME ? 4 : 4 * n, true);
    is("wr_confirm", flags & 1);
    is("addr_incr", flags >> 1);
    is("data", n);
    ck_assert(memcmp(words + PM4_AT_WRITE_DATA_VALUE, src, n * 4ull) == 0);

    bool wide = draw(2);
    uint64_t from = draw_va(8), to = draw_va(8);
    b = fresh(gen);
    pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_MEM, .to = PM4_COPY_MEM, .src = from, .dst = to,
                                          .wide = wide, .confirm = !wide });
    heard_as(&b, "COPY_DATA");
    is_va("src_addr", from, wide ? 8 : 4, false);
    is_va("dst_addr", to, wide ? 8 : 4, true);
    is("wr_confirm", !wide);

    b = fresh(gen);
    pm4_copy_data(&b, &(struct pm4_copy){ .from = PM4_COPY_IMM, .to = PM4_COPY_REG, .src = data, .dst = 0x2e15,
                                          .wide = true });
    heard_as(&b, "COPY_DATA");
    is("imm_data", data);
    is_word("src_sel", "immediate");
    is_word("dst_reg", "COMPUTE_RESOURCE_LIMITS");

    static const uint32_t ops[] = { 7, 8, 15, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25 };
    uint32_t op = ops[draw(13)] | draw(4) << 5;
    uint64_t mask = op & PM4_ATOMIC_64 ? ~0ull : 0xffffffff, cmp = draw64();
    b = fresh(gen);
    pm4_atomic_mem(&b, op, to, data & mask, cmp & mask, false, 17);
    heard_as(&b, "ATOMIC_MEM");
    is("atomic", op);
    ck_assert_str_ne(heard.v[find("atomic")].word, "");
    is_va("addr", to, op & PM4_ATOMIC_64 ? 8 : 4, true);
    is("src_data", data & mask);
    is("cmp_data", cmp & mask);
    is("loop_interval", 17);
}

static void round_trip_order(enum pm4_gen gen)
{
    struct pm4_buf b = fresh(gen);
    uint32_t gcr = draw(1 << 16), ctx = draw(1 << 28), ref = (uint32_t)draw64(), mask = (uint32_t)draw64();
    enum pm4_data_sel sel = (enum pm4_data_sel)draw(5);
    enum pm4_int_sel interrupt = (enum pm4_int_sel)draw(4);
    uint64_t va = draw_va(8), data = sel == PM4_DATA_32 ? (uint32_t)draw64() : draw64();
    pm4_acquire_mem(&b, gcr);
    heard_as(&b, "ACQUIRE_MEM");
    is("coher_size", 0x1ffffffffffffff);
    is("gli_inv", gcr & 3);
    is("glk_inv", gcr >> 7 & 1);
    is("glv_inv", gcr >> 8 & 1);
    is("gl2_inv", gcr >> 14 & 1);
    is("gl2_wb", gcr >> 15 & 1);

    uint32_t rel = draw(1 << 10) | draw(3) << 10 | draw(2) << 12;
    bool shader = draw(2);
    b = fresh(gen);
    pm4_release_mem(&b, &(struct pm4_release){ .event = shader ? PM4_EVENT_CS_DONE : 0, .gcr = rel, .policy = 3,
                                               .data_sel = sel, .int_sel = interrupt, .va = va, .data = data,
                                               .ctxid = ctx });
    heard_as(&b, "RELEASE_MEM");
    is_word("event_type", shader ? "cs_done" : "cache_flush_and_inv_ts");
    is_word("event_index", shader ? "shader_done" : "end_of_pipe");
    is("glv_inv", rel >> 2 & 1);
    is("gl2_inv", rel >> 8 & 1);
    is("gl2_wb", rel >> 9 & 1);
    is("seq", rel >> 10 & 3);
    is("glk_wb", rel >> 12);
    is("cache_policy", 3);
    is("data_sel", sel);
    is("int_sel", interrupt);
    is_va("addr", va, sel == 0 ? 0 : sel == 1 ? 4 : 8, true);
    is("data", data);
    is("int_ctxid", ctx);

    enum pm4_compare f = (enum pm4_compare)draw(7);
    b = fresh(gen);
    pm4_wait_mem(&b, f, va, ref, mask);
    heard_as(&b, "WAIT_REG_MEM");
    is("function", f);
    is_va("poll_addr", va, 4, false);
    is("reference", ref);
    is("mask", mask);
    uint32_t reg = draw(0x40000), other = draw(0x40000);
    b = fresh(gen);
    pm4_wait_reg(&b, f, reg, ref, mask);
    heard_as(&b, "WAIT_REG_MEM");
    is("reg", reg);
    b = fresh(gen);
    pm4_write_wait_reg(&b, f, reg, other, ref, mask);
    heard_as(&b, "WAIT_REG_MEM");
    is("write_reg", reg);
    is("wait_reg", other);

    b = fresh(gen);
    pm4_event_write(&b, PM4_EVENT_CS_PARTIAL_FLUSH, 4);
    heard_as(&b, "EVENT_WRITE");
    is_word("event_type", "cs_partial_flush");
    is("event_index", 4);
}

static void round_trip_flow(enum pm4_gen gen)
{
    struct pm4_buf b = fresh(gen);
    uint64_t va = draw_va(4);
    uint32_t x = (uint32_t)draw64(), y = draw(99), z = draw(99), n = 1 + draw((1 << 20) - 1);
    uint32_t initiator = PM4_INITIATOR(draw(2));
    pm4_dispatch_direct(&b, x, y, z, initiator);
    heard_as(&b, "DISPATCH_DIRECT");
    is("dim_x", x);
    is("dim_y", y);
    is("dim_z", z);
    is("COMPUTE_DISPATCH_INITIATOR", initiator);
    is("CS_W32_EN", initiator >> 15);
    b = fresh(gen);
    pm4_dispatch_indirect(&b, va, initiator);
    heard_as(&b, "DISPATCH_INDIRECT");
    is_va("addr", va, 12, false);
    b = fresh(gen);
    pm4_indirect_buffer(&b, va, n, n & (PM4_IB_CHAIN | PM4_IB_INHERIT_VMID));
    heard_as(&b, "INDIRECT_BUFFER");
    is_va("ib_base", va, 4ull * n, false);
    is("ib_size", n);
    is("chain", n & 1);
    is("inherit_vmid", n >> 1 & 1);
    is("valid", 1);

    uint32_t count = draw(100), mask = draw(256);
    b = fresh(gen);
    pm4_cond_exec(&b, va, count);
    pm4_nop(&b, 100);
    hear(gen, words, b.n);
    ck_assert_uint_eq(heard.problems, 0);
    is_va("addr", va, 4, false);
    is("exec_count", count);
    b = fresh(gen);
    pm4_pred_exec(&b, mask, count);
    pm4_nop(&b, 100);
    hear(gen, words, b.n);
    ck_assert_uint_eq(heard.problems, 0);
    is("device_select", mask);
    is("exec_count", count);
    b = fresh(gen);
    pm4_cond_exec(&b, va, 0x3fff);
    hear(gen, words, b.n);
    is("exec_count", 0x3fff);
    ck_assert_uint_eq(heard.problems, 1); /* that many do not follow */

    uint32_t values[16], n_regs = 1 + draw(16);
    for (uint32_t i = 0; i < 16; i++)
        values[i] = (uint32_t)draw64();
    b = fresh(gen);
    pm4_set_sh_reg(&b, PM4_REG_COMPUTE_USER_DATA_0, n_regs, values);
    heard_as(&b, "SET_SH_REG");
    for (uint32_t i = 0; i < n_regs; i++) {
        char name[32];
        snprintf(name, sizeof name, "COMPUTE_USER_DATA_%u", i);
        is(name, values[i]);
    }
    b = fresh(gen);
    pm4_set_uconfig_reg(&b, 0xc123, n_regs, values);
    heard_as(&b, "SET_UCONFIG_REG");
    is("reg_0c123", values[0]);
}

START_TEST(round_trips)
{
    for (int i = 0; i < 500; i++)
        for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++) {
            round_trip_memory(gen);
            round_trip_order(gen);
            round_trip_flow(gen);
        }
}
END_TEST

/* ---- tables ---- */

/* No two fields of a register share a bit, in either generation. */
START_TEST(register_fields_are_disjoint)
{
    unsigned n_regs = 0, n_fields = 0;
    for (uint32_t at = 0; at < 0x40000; at++)
        for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++) {
            const struct pm4_reg_row *r = pm4_reg_find(gen, at);
            const struct pm4_field_row *f;
            uint64_t used = 0;
            if (!r)
                continue;
            n_regs++;
            ck_assert_uint_eq(r->address, at);
            for (uint32_t i = 0; (f = pm4_reg_field(r, i)); i++) {
                if (!(f->gens >> gen & 1))
                    continue;
                n_fields++;
                ck_assert(f->lo <= f->hi && f->hi < 32 && f->reg == at);
                uint64_t bits = pm4_bits(~0ull, f->hi, f->lo) << f->lo;
                ck_assert_msg((used & bits) == 0, "%s.%s overlaps", r->name, f->name);
                used |= bits;
            }
            ck_assert_uint_eq(pm4_reg_reserved(r, gen), used ? (uint32_t)~used : 0);
        }
    ck_assert_uint_gt(n_regs, 120);
    ck_assert_uint_gt(n_fields, 120);
}
END_TEST

/* Where two arguments of a packet share bits, their conditions exclude each other; all lie inside the body. */
START_TEST(packet_arguments_are_disjoint)
{
    for (uint32_t op = 0; op < 256; op++) {
        const struct pm4_packet_row *p = pm4_packet_find(op);
        const struct pm4_arg_row *a, *b;
        for (uint32_t i = 0; p && (a = pm4_packet_arg(p, i)); i++) {
            ck_assert_msg(a->dw >= 1 && a->dw + (a->hi > 31) <= p->body && a->lo <= a->hi && a->hi < 64 && a->lo < 32,
                          "%s.%s", p->name, a->name);
            for (uint32_t k = 0; k < i; k++) {
                b = pm4_packet_arg(p, k);
                int a0 = a->dw * 32 + a->lo, a1 = a->dw * 32 + a->hi;
                int b0 = b->dw * 32 + b->lo, b1 = b->dw * 32 + b->hi;
                bool apart = a1 < b0 || b1 < a0, together = false;
                for (uint32_t v = 0; v < 65536 && !apart && !together; v++) {
                    uint32_t dw[16] = { 0, v };
                    together = pm4_arg_present(a, PM4_GFX12, dw, 16) && pm4_arg_present(b, PM4_GFX12, dw, 16);
                }
                ck_assert_msg(!together, "%s: %s and %s share bits", p->name, a->name, b->name);
            }
        }
    }
}
END_TEST

/* Addresses and opcodes of AMD's headers, written down a second time. */
START_TEST(known_numbers)
{
    static const struct {
        uint32_t reg;
        const char *name;
    } regs[] = {
        { 0x2e00, "COMPUTE_DISPATCH_INITIATOR" }, { 0x2e01, "COMPUTE_DIM_X" }, { 0x2e04, "COMPUTE_START_X" },
        { 0x2e07, "COMPUTE_NUM_THREAD_X" }, { 0x2e0a, "COMPUTE_PIPELINESTAT_ENABLE" },
        { 0x2e0b, "COMPUTE_PERFCOUNT_ENABLE" }, { 0x2e0c, "COMPUTE_PGM_LO" }, { 0x2e0d, "COMPUTE_PGM_HI" },
        { 0x2e0e, "COMPUTE_DISPATCH_PKT_ADDR_LO" }, { 0x2e10, "COMPUTE_DISPATCH_SCRATCH_BASE_LO" },
        { 0x2e12, "COMPUTE_PGM_RSRC1" }, { 0x2e13, "COMPUTE_PGM_RSRC2" }, { 0x2e14, "COMPUTE_VMID" },
        { 0x2e15, "COMPUTE_RESOURCE_LIMITS" }, { 0x2e16, "COMPUTE_STATIC_THREAD_MGMT_SE0" },
        { 0x2e18, "COMPUTE_TMPRING_SIZE" }, { 0x2e19, "COMPUTE_STATIC_THREAD_MGMT_SE2" },
        { 0x2e1b, "COMPUTE_RESTART_X" }, { 0x2e1e, "COMPUTE_THREAD_TRACE_ENABLE" }, { 0x2e20, "COMPUTE_DISPATCH_ID" },
        { 0x2e22, "COMPUTE_REQ_CTRL" }, { 0x2e24, "COMPUTE_USER_ACCUM_0" }, { 0x2e28, "COMPUTE_PGM_RSRC3" },
        { 0x2e2b, "COMPUTE_STATIC_THREAD_MGMT_SE4" }, { 0x2e2f, "COMPUTE_DISPATCH_INTERLEAVE" },
        { 0x2e40, "COMPUTE_USER_DATA_0" }, { 0x2e4f, "COMPUTE_USER_DATA_15" }, { 0x2e7d, "COMPUTE_DISPATCH_TUNNEL" },
    };
    static const struct {
        uint32_t op;
        const char *name;
    } ops[] = {
        { 0x10, "NOP" }, { 0x11, "SET_BASE" }, { 0x15, "DISPATCH_DIRECT" }, { 0x16, "DISPATCH_INDIRECT" },
        { 0x1e, "ATOMIC_MEM" }, { 0x22, "COND_EXEC" }, { 0x23, "PRED_EXEC" }, { 0x37, "WRITE_DATA" },
        { 0x3c, "WAIT_REG_MEM" }, { 0x3f, "INDIRECT_BUFFER" }, { 0x40, "COPY_DATA" }, { 0x46, "EVENT_WRITE" },
        { 0x49, "RELEASE_MEM" }, { 0x50, "DMA_DATA" }, { 0x58, "ACQUIRE_MEM" }, { 0x59, "REWIND" },
        { 0x5d, "PRIME_UTCL2" }, { 0x63, "LOAD_SH_REG_INDEX" }, { 0x76, "SET_SH_REG" }, { 0x79, "SET_UCONFIG_REG" },
        { 0x93, "WAIT_REG_MEM64" }, { 0x95, "HDP_FLUSH" }, { 0x98, "INVALIDATE_TLBS" }, { 0x9b, "SET_SH_REG_INDEX" },
        { 0xa7, "DISPATCH_DIRECT_INTERLEAVED" }, { 0xba, "SET_SH_REG_PAIRS" }, { 0xd0, "PROTECTED_FENCE_SIGNAL" },
        { 0xd1, "FENCE_WAIT_MULTI" },
    };
    for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++)
        for (size_t i = 0; i < sizeof regs / sizeof regs[0]; i++)
            ck_assert_str_eq(pm4_reg_name(gen, regs[i].reg), regs[i].name);
    for (size_t i = 0; i < sizeof ops / sizeof ops[0]; i++)
        ck_assert_str_eq(pm4_packet_name(ops[i].op), ops[i].name);
    ck_assert_ptr_null(pm4_reg_name(PM4_GFX12, 0x2e21));
    ck_assert_ptr_null(pm4_reg_name(PM4_GFX11, 0x2e23)); /* gfx12 only */
    ck_assert_str_eq(pm4_reg_name(PM4_GFX12, 0x2e23), "COMPUTE_STATIC_THREAD_MGMT_SE8");
    ck_assert_ptr_null(pm4_packet_name(0x99));
}
END_TEST

/* The kernel descriptor's words of a real kernel, field by field. */
START_TEST(register_fields_by_generation)
{
    const uint32_t rsrc[] = { 0xc0037600, 0x212, 0x60af0081, 0x1009e, 0x20200 };
    hear(PM4_GFX11, rsrc, 4);
    is("VGPRS", 1);
    is("SGPRS", 2);
    is("FLOAT_MODE", 0xf0);
    is("DX10_CLAMP", 1);
    is("IEEE_MODE", 1);
    is("WGP_MODE", 1);
    is("MEM_ORDERED", 1);
    is("USER_SGPR", 15);
    is("LDS_SIZE", 2);
    hear(PM4_GFX12, rsrc, 4);
    is("WG_RR_EN", 1);
    is("DISABLE_PERF", 1);
    const uint32_t ring[] = { 0xc0017600, 0x218, 0x3ffff200 };
    hear(PM4_GFX12, ring, 3);
    is("WAVESIZE", 0x3ffff);
    ck_assert_uint_eq(heard.problems, 0);
    hear(PM4_GFX11, ring, 3);
    is("WAVESIZE", 0x7fff);
    ck_assert_uint_eq(heard.problems, 1);
    ck_assert_ptr_nonnull(strstr(heard.text, "COMPUTE_TMPRING_SIZE: reserved bits are set: 0x38000000"));
}
END_TEST

/* ---- what is wrong ---- */

static void says(const char *words_in_problem, enum pm4_gen gen, const uint32_t *dw, uint32_t n)
{
    hear(gen, dw, n);
    ck_assert_msg(strstr(heard.text, words_in_problem), "expected '%s', heard: %s", words_in_problem, heard.text);
    ck_assert_uint_gt(heard.problems, 0);
}
#define SAYS(problem, ...)                                                                                             \
    says(problem, PM4_GFX12, (const uint32_t[]){ __VA_ARGS__ }, sizeof((const uint32_t[]){ __VA_ARGS__ }) / 4)

START_TEST(faults_are_named)
{
    SAYS("unknown opcode 0x99", 0xc0009900, 0);
    SAYS("reserved bits of the header", 0xc0004680, 0x407);
    SAYS("the header counts 8 dwords, but the buffer ends after 3", 0xc0064900, 0x514, 0);
    SAYS("6 body dwords, but it has 7", 0xc0054900, 0x514, 0, 0, 0, 0, 0);
    SAYS("8 body dwords, but it has 7", 0xc0074900, 0x514, 0, 0, 0, 0, 0, 0, 0);
    SAYS("3 body dwords, but it has 4 or more", 0xc0023700, 0x500, 0x1000, 0);
    SAYS("1 body dwords, but it has 2 or more", 0xc0007600, 0x20c);
    SAYS("reserved bits of dword 1 are set: 0x80000000", 0xc0064900, 0x80000514, 0, 0, 0, 0, 0, 0);
    SAYS("reserved bits of dword 7 are set: 0xf0000000", 0xc0064900, 0x514, 0, 0, 0, 0, 0, 0xf0000000);
    SAYS("reserved bits of dword 3 are set: 0x00010000", 0xc0033700, 0x500, 0x1000, 0x10000, 0);
    SAYS("not a multiple of 4", 0xc0033700, 0x500, 0x1002, 0, 0);
    SAYS("not a multiple of 8", 0xc0064900, 0x514, 0x40000000, 0x1004, 0, 0, 0, 0);
    SAYS("not a multiple of 8", 0xc0044000, 0x00010205, 0, 0, 0x1004, 0);
    SAYS("dst_sel: 7 is none of its values", 0xc0033700, 0x700, 0, 0, 0);
    SAYS("data_sel: 7 is none of its values", 0xc0064900, 0x514, 0xe0000000, 0, 0, 0, 0, 0);
    SAYS("atomic: 9 is none of its values", 0xc0071e00, 9, 0, 0, 0, 0, 0, 0, 0);
    SAYS("do not belong together", 0xc0064900, 0x614, 0, 0, 0, 0, 0, 0);
    SAYS("2 registers from 0x2fff on are not all inside 0x2c00..0x2fff", 0xc0027600, 0x3ff, 0, 0);
    SAYS("register 0x2e21 is none of a compute queue's", 0xc0017600, 0x221, 0);
    SAYS("COMPUTE_PGM_RSRC1: reserved bits are set: 0x10000000", 0xc0017600, 0x212, 0x10000000);
    SAYS("valid is not set", 0xc0023f00, 0x1000, 0, 0x10);
    SAYS("ib_size is 0", 0xc0023f00, 0x1000, 0, 0x800000);
    SAYS("exec_count is 5, but 1 dwords follow", 0xc0032200, 0, 0, 0, 5, 0xffff1000);
    SAYS("COMPUTE_SHADER_EN is not set", 0xc0031500, 1, 1, 1, 0x8004);
    SAYS("no packet begins here: 0x00000007 is of type 0", 7, 8);
    SAYS("3 body dwords do not make pairs", 0xc002ba00, 0x20c, 0, 0x20d);
    says("SET_SH_REG_PAIRS is not a packet of gfx11", PM4_GFX11, (const uint32_t[]){ 0xc001ba00, 0x215, 0 }, 3);
}
END_TEST

/* Dispatches are judged by the registers set before them. */
START_TEST(dispatches_without_what_they_need)
{
    static const struct {
        uint32_t reg, value;
        const char *says;
    } cases[] = {
        { PM4_REG_COMPUTE_NUM_THREAD_Y, 0, "COMPUTE_NUM_THREAD_Y is 0" },
        { PM4_REG_COMPUTE_PGM_RSRC2, 0x85, "COMPUTE_TMPRING_SIZE is 0" },
        { PM4_REG_COMPUTE_PGM_RSRC2, 129 << 15, "LDS_SIZE is more than 64 KiB" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct pm4_buf b = fresh(PM4_GFX12);
        struct pm4_state s;
        struct pm4_cursor c = { .gen = PM4_GFX12, .dw = words };
        struct pm4_packet p;
        pm4_state_forget(&s);
        pm4_set_sh_reg(&b, PM4_REG_COMPUTE_TMPRING_SIZE, 1, &(uint32_t){ 0 });
        pm4_set_sh_reg(&b, cases[i].reg, 1, &cases[i].value);
        pm4_dispatch_direct(&b, 1, 1, 1, 0x8005);
        c.n = b.n;
        while (pm4_next(&c, &p))
            explain(&p, &(struct pm4_view){ .gen = PM4_GFX12, .state = &s });
        ck_assert_msg(strstr(heard.text, cases[i].says), "expected '%s', heard: %s", cases[i].says, heard.text);
    }
}
END_TEST

/* ---- addresses ---- */

static unsigned n_judged;

static const char *judge(void *user, uint64_t va, uint64_t bytes, bool write)
{
    n_judged++;
    ck_assert_ptr_eq(user, &n_judged);
    ck_assert_uint_gt(bytes, 0);
    if (va == 0x7f0000300000)
        return write ? "freed: ring of queue 3" : NULL;
    return va >= 0x7f0000000000 ? NULL : "unmapped";
}

START_TEST(every_address_is_judged)
{
    struct pm4_launch l = { .entry = 0x7f0000100000, .rsrc1 = 0x600f0041, .rsrc2 = 0x85, .n_user = 2,
                            .user = { 0x200000, 0x7f00 }, .scratch = 0x1000000, .tmpring = 0x1001,
                            .groups = { 1, 1, 1 }, .threads = { 32, 1, 1 }, .wave32 = true };
    struct pm4_buf b = fresh(PM4_GFX12);
    struct pm4_view v = { .gen = PM4_GFX12, .check = judge, .user = &n_judged };
    char *text = NULL;
    size_t n;
    pm4_launch(&b, NULL, &l, NULL);
    pm4_release_mem(&b, &(struct pm4_release){ .data_sel = PM4_DATA_32, .va = 0x7f0000300000 });
    pm4_wait_mem(&b, PM4_EQ, 0x7f0000300000, 1, 1);
    pm4_release_mem(&b, &(struct pm4_release){ .va = 0x1234 }); /* no data, so no access */
    FILE *f = open_memstream(&text, &n);
    unsigned problems = pm4_print(f, &v, words, b.n);
    fclose(f);
    ck_assert_uint_eq(n_judged, 5); /* code, scratch, kernel arguments, release, wait */
    ck_assert_uint_eq(problems, 2);
    ck_assert_ptr_nonnull(strstr(text, "COMPUTE_DISPATCH_SCRATCH_BASE=0x000001000000 (unmapped)"));
    ck_assert_ptr_nonnull(strstr(text, "! addr: write of 4 bytes at 0x7f0000300000: freed: ring of queue 3"));
    ck_assert_ptr_nonnull(strstr(text, "user_data=0x7f0000200000"));
    free(text);
}
END_TEST

static const uint32_t inner[] = { 0xc0004600, 0x407, 0xc0023f00, 0x2000, 0, 0x00800002 };

static const uint32_t *fetch(void *user, uint64_t va, uint32_t dwords)
{
    return va == 0x1000 && dwords == 6 ? inner : va == 0x2000 && dwords == 2 ? inner : NULL;
}

/* Indirect buffers are printed where they are called, also inside each other, and never without end. */
START_TEST(indirect_buffers_are_followed)
{
    struct pm4_buf b = fresh(PM4_GFX12);
    struct pm4_view v = { .gen = PM4_GFX12, .fetch = fetch };
    char *text = NULL;
    size_t n;
    pm4_indirect_buffer(&b, 0x1000, 6, 0);
    pm4_indirect_buffer(&b, 0x5000, 6, 0);
    FILE *f = open_memstream(&text, &n);
    ck_assert_uint_eq(pm4_print(f, &v, words, b.n), 0);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "\n         0  EVENT_WRITE"));     /* one level in  */
    ck_assert_ptr_nonnull(strstr(text, "\n             0  EVENT_WRITE")); /* two levels in */
    ck_assert_ptr_nonnull(strstr(text, "(its contents are not at hand)"));
    free(text);
}
END_TEST

static const uint32_t *fetch_same(void *user, uint64_t va, uint32_t dwords)
{
    return words;
}

START_TEST(endless_nesting_ends)
{
    struct pm4_buf b = fresh(PM4_GFX12);
    struct pm4_view v = { .gen = PM4_GFX12, .fetch = fetch_same };
    char *text = NULL;
    size_t n;
    pm4_indirect_buffer(&b, 0x1000, 4, 0);
    FILE *f = open_memstream(&text, &n);
    pm4_print(f, &v, words, b.n);
    fclose(f);
    ck_assert_ptr_nonnull(strstr(text, "nested too deep"));
    free(text);
}
END_TEST

/* Random words, and streams with random damage: every dword is accounted for, and nothing is read beyond. */
START_TEST(hostile_words)
{
    enum { MAX = 300 };
    FILE *f = fopen("/dev/null", "w");
    struct pm4_view v = { .gen = PM4_GFX12 };
    for (int round = 0; round < 3000; round++) {
        uint32_t n = 1 + draw(MAX), *dw = malloc(n * 4ull), sum = 0; /* exactly: what is read beyond is found */
        for (uint32_t i = 0; i < n; i++) {
            dw[i] = (uint32_t)draw64();
            if (draw(3) == 0)
                dw[i] = 3u << 30 | draw(12) << 16 | (draw(2) ? 0x10 + draw(0x90) : draw(256)) << 8;
        }
        v.gen = round & 1 ? PM4_GFX11 : PM4_GFX12;
        v.verbose = round & 2;
        struct pm4_cursor c = { .gen = v.gen, .dw = dw, .n = n };
        struct pm4_packet p;
        while (pm4_next(&c, &p)) {
            ck_assert(p.n > 0 && p.at == sum && p.n + p.left == n - sum && p.dw == dw + sum);
            sum += p.n;
        }
        ck_assert_uint_eq(sum, n);
        pm4_print(f, &v, dw, n);
        free(dw);
    }
    fclose(f);
}
END_TEST

int main(void)
{
    return RUN_TESTS("pm4_decode", round_trips, register_fields_are_disjoint, packet_arguments_are_disjoint,
                     known_numbers, register_fields_by_generation, faults_are_named,
                     dispatches_without_what_they_need, every_address_is_judged, indirect_buffers_are_followed,
                     endless_nesting_ends, hostile_words);
}
