/* Packets out of dwords, and what there is to say about each, from the tables. */
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include "rt/pm4/decode.h"
#include "rt/pm4/tables.h"

enum { STATE_FIRST = 0x2e00, STATE_LAST = 0x2eff };

static uint32_t type_of(uint32_t header)
{
    return header >> 30;
}

static uint32_t length_of(uint32_t header)
{
    uint32_t count = header >> 16 & 0x3fff;
    return (header >> 8 & 0xff) == PM4_OP_NOP && count == 0x3fff ? 1 : count + 2;
}

bool pm4_next(struct pm4_cursor *c, struct pm4_packet *p)
{
    if (c->at >= c->n)
        return false;
    uint32_t left = c->n - c->at, type = type_of(c->dw[c->at]), n = 1;
    *p = (struct pm4_packet){ .gen = c->gen, .dw = c->dw + c->at, .at = c->at };
    if (type == 3) {
        n = length_of(p->dw[0]);
        p->truncated = n > left;
        n = p->truncated ? left : n;
        p->op = (uint8_t)(p->dw[0] >> 8);
        p->name = pm4_packet_name(p->op);
    } else {
        p->form = type == 2 ? PM4_FORM_FILLER : PM4_FORM_STRAY;
        while (n < left && type_of(p->dw[n]) != 3 && (type == 2) == (type_of(p->dw[n]) == 2))
            n++;
    }
    p->n = n;
    p->left = left - n;
    c->at += n;
    return true;
}

const char *pm4_packet_name(uint32_t op)
{
    const struct pm4_packet_row *r = pm4_packet_find(op);
    return r ? r->name : NULL;
}

const char *pm4_reg_name(enum pm4_gen gen, uint32_t reg)
{
    const struct pm4_reg_row *r = pm4_reg_find(gen, reg);
    return r ? r->name : NULL;
}

/* One packet under explanation. */
struct telling {
    const struct pm4_packet *p;
    const struct pm4_view *v;
    const struct pm4_sink *s;
    unsigned problems;
};

__attribute__((format(printf, 2, 3))) static void problem(struct telling *t, const char *fmt, ...)
{
    char text[256];
    va_list ap;
    t->problems++;
    if (!t->s->problem)
        return;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    t->s->problem(t->s->user, text);
}

static void print(struct telling *t, const struct pm4_value *v)
{
    if (t->s->value)
        t->s->value(t->s->user, v);
}

static void print_va(struct telling *t, const char *name, uint32_t dw, uint64_t va, uint64_t bytes, bool write)
{
    struct pm4_value v = { .name = name, .kind = PM4_VALUE_VA, .value = va, .dw = dw, .bytes = bytes,
                           .write = write };
    if (bytes && t->v->check)
        v.verdict = t->v->check(t->v->user, va, bytes, write);
    if (t->v->place)
        v.word = t->v->place(t->v->user, va);
    print(t, &v);
    if (v.verdict)
        problem(t, "%s: %s of %llu bytes at 0x%llx: %s", name, write ? "write" : "read", (unsigned long long)bytes,
                (unsigned long long)va, v.verdict);
}

/* ---- registers ---- */

/* The number of a register as its name, or else in the buffer. */
static const char *reg_text(enum pm4_gen gen, uint32_t reg, char buf[16])
{
    const char *name = pm4_reg_name(gen, reg);
    if (!name)
        snprintf(buf, 16, "reg_%05x", reg);
    return name ? name : buf;
}

static void learn(struct telling *t, uint32_t reg, uint32_t value)
{
    struct pm4_state *s = t->v->state;
    if (!s || reg < STATE_FIRST || reg > STATE_LAST)
        return;
    s->value[reg - STATE_FIRST] = value;
    s->known[(reg - STATE_FIRST) / 64] |= 1ull << (reg - STATE_FIRST) % 64;
}

static bool recall(const struct telling *t, uint32_t reg, uint32_t *value)
{
    const struct pm4_state *s = t->v->state;
    *value = s ? s->value[reg - STATE_FIRST] : 0;
    return s && s->known[(reg - STATE_FIRST) / 64] >> (reg - STATE_FIRST) % 64 & 1;
}

static void print_register(struct telling *t, uint32_t reg, uint32_t dw, uint32_t value)
{
    char buf[16];
    const struct pm4_reg_row *r = pm4_reg_find(t->p->gen, reg);
    const struct pm4_field_row *f;
    print(t, &(struct pm4_value){ .name = reg_text(t->p->gen, reg, buf), .kind = PM4_VALUE_SETS, .value = value,
                                 .reg = reg, .dw = dw });
    if (!r)
        return;
    for (uint32_t i = 0; (f = pm4_reg_field(r, i)); i++)
        if (f->gens >> t->p->gen & 1)
            print(t, &(struct pm4_value){ .name = f->name, .kind = PM4_VALUE_FIELD, .reg = reg, .dw = dw,
                                         .value = pm4_bits(value, f->hi, f->lo), .bits = f->hi - f->lo + 1u });
    uint32_t reserved = value & pm4_reg_reserved(r, t->p->gen);
    if (reserved)
        problem(t, "%s: reserved bits are set: 0x%08x", r->name, reserved);
}

/* Addresses that two registers hold; `reg` is that in dword `dw`, and the one below it lies in the dword before. */
static void print_register_addresses(struct telling *t, uint32_t reg, uint32_t dw)
{
    static const struct {
        uint32_t lo;
        const char *name;
        uint32_t bytes;
        bool write, may_be_none;
        uint8_t shift;
    } pairs[] = {
        { PM4_REG_COMPUTE_PGM_LO, "COMPUTE_PGM", 4, false, false, 8 },
        { PM4_REG_COMPUTE_DISPATCH_SCRATCH_BASE_LO, "COMPUTE_DISPATCH_SCRATCH_BASE", 256, true, true, 8 },
        { PM4_REG_COMPUTE_DISPATCH_PKT_ADDR_LO, "COMPUTE_DISPATCH_PKT_ADDR", 64, false, true, 0 },
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        if (reg != pairs[i].lo + 1)
            continue;
        uint64_t va = (t->p->dw[dw - 1] | (uint64_t)(t->p->dw[dw] & 0xff) << 32) << pairs[i].shift;
        if (va || !pairs[i].may_be_none)
            print_va(t, pairs[i].name, dw - 1, va, pairs[i].bytes, pairs[i].write);
    }
}

static void print_sets(struct telling *t, uint32_t first, uint32_t last, uint32_t body)
{
    const struct pm4_packet *p = t->p;
    if (p->n <= body)
        return;
    uint32_t reg = first + (p->dw[body] & 0xffff), n = p->n - body - 1;
    if (reg > last || n > last - reg + 1) {
        problem(t, "%u registers from 0x%x on are not all inside 0x%x..0x%x", n, reg, first, last);
        return;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint32_t dw = body + 1 + i;
        print_register(t, reg + i, dw, p->dw[dw]);
        learn(t, reg + i, p->dw[dw]);
        if (first == PM4_SH_FIRST && !pm4_reg_find(p->gen, reg + i))
            problem(t, "register 0x%04x is none of a compute queue's", reg + i);
        if (i > 0)
            print_register_addresses(t, reg + i, dw);
    }
}

static void print_pairs(struct telling *t)
{
    const struct pm4_packet *p = t->p;
    if (p->n % 2 == 0)
        problem(t, "%u body dwords do not make pairs", p->n - 1);
    for (uint32_t i = 1; i + 1 < p->n; i += 2) {
        uint32_t reg = PM4_SH_FIRST + (p->dw[i] & 0xffff);
        if (reg > PM4_SH_LAST) {
            problem(t, "register 0x%x is outside 0x2c00..0x2fff", reg);
            continue;
        }
        print_register(t, reg, i + 1, p->dw[i + 1]);
        learn(t, reg, p->dw[i + 1]);
    }
}

/* ---- arguments ---- */

/* Bytes that the address in dword `dw` of the body stands for. */
static uint64_t touched(const struct pm4_packet *p, uint32_t dw, bool *write)
{
    *write = false;
    switch (p->op) {
    case PM4_OP_WRITE_DATA:
        *write = true;
        return p->n <= PM4_AT_WRITE_DATA_VALUE ? 0 : p->dw[1] >> 16 & 1 ? 4 : 4ull * (p->n - PM4_AT_WRITE_DATA_VALUE);
    case PM4_OP_COPY_DATA: *write = dw == 4; return p->dw[1] >> 16 & 1 ? 8 : 4;
    case PM4_OP_ATOMIC_MEM: *write = true; return p->dw[1] & PM4_ATOMIC_64 ? 8 : 4;
    case PM4_OP_DISPATCH_INDIRECT: return 12;
    case PM4_OP_COND_EXEC:
    case PM4_OP_WAIT_REG_MEM: return 4;
    case PM4_OP_WAIT_REG_MEM64: return 8;
    case PM4_OP_INDIRECT_BUFFER: return p->n > 3 ? 4ull * (p->dw[3] & 0xfffff) : 0;
    case PM4_OP_RELEASE_MEM: {
        uint32_t sel = p->dw[2] >> 29;
        *write = true;
        return sel == PM4_DATA_NONE ? 0 : sel == PM4_DATA_32 ? 4 : sel <= PM4_DATA_SYS_CLOCK ? 8 : 4;
    }
    default: return 0;
    }
}

static uint64_t arg_value(const struct pm4_packet *p, const struct pm4_arg_row *a)
{
    uint64_t v = p->dw[a->dw];
    if (a->hi > 31)
        v |= (uint64_t)p->dw[a->dw + 1] << 32;
    v = pm4_bits(v, a->hi, a->lo);
    return a->kind == PM4_KIND_VA ? v << a->lo : v;
}

static void print_arg(struct telling *t, const struct pm4_arg_row *a)
{
    const struct pm4_packet *p = t->p;
    struct pm4_value v = { .name = a->name, .kind = PM4_VALUE_NUM, .value = arg_value(p, a), .dw = a->dw,
                           .bits = a->hi - a->lo + 1u };
    bool listed = false;
    switch ((enum pm4_kind)a->kind) {
    case PM4_KIND_VA: {
        bool write;
        uint64_t bytes = touched(p, a->dw, &write);
        bool pair = bytes == 8 && p->op != PM4_OP_WRITE_DATA && p->op != PM4_OP_INDIRECT_BUFFER;
        print_va(t, a->name, a->dw, v.value, bytes, write);
        if (pair && v.value % 8)
            problem(t, "%s: 0x%llx is not a multiple of 8", a->name, (unsigned long long)v.value);
        if (p->dw[a->dw] & 3)
            problem(t, "%s: its low bits are %u: not a multiple of 4", a->name, p->dw[a->dw] & 3);
        return;
    }
    case PM4_KIND_REG:
        v.kind = PM4_VALUE_REG;
        v.word = pm4_reg_name(p->gen, (uint32_t)v.value);
        break;
    case PM4_KIND_INITIATOR:
        print_register(t, PM4_REG_COMPUTE_DISPATCH_INITIATOR, a->dw, (uint32_t)v.value);
        return;
    case PM4_KIND_OFFSET: v.kind = PM4_VALUE_OFFSET; break;
    case PM4_KIND_HEX: v.kind = PM4_VALUE_HEX; break;
    case PM4_KIND_NUM:
    case PM4_KIND_EVENT: v.word = pm4_arg_word(a, p->gen, v.value, &listed); break;
    }
    print(t, &v);
    if (listed && !v.word && a->kind != PM4_KIND_EVENT)
        problem(t, "%s: %llu is none of its values", a->name, (unsigned long long)v.value);
}

/* Bits of a dword of the body that are some argument's. */
static uint32_t used_bits(const struct pm4_packet *p, const struct pm4_packet_row *row, uint32_t dw)
{
    const struct pm4_arg_row *a;
    uint32_t used = 0;
    for (uint32_t i = 0; (a = pm4_packet_arg(row, i)); i++) {
        if (!pm4_arg_present(a, p->gen, p->dw, p->n))
            continue;
        uint64_t bits = pm4_bits(~0ull, a->hi, a->lo) << a->lo;
        if (a->kind == PM4_KIND_VA)
            bits |= 3; /* judged as an address that is misaligned */
        if (a->dw == dw)
            used |= (uint32_t)bits;
        else if (a->dw + 1u == dw)
            used |= (uint32_t)(bits >> 32);
    }
    return used;
}

static void print_args(struct telling *t, const struct pm4_packet_row *row)
{
    const struct pm4_packet *p = t->p;
    const struct pm4_arg_row *a;
    for (uint32_t i = 0; (a = pm4_packet_arg(row, i)); i++)
        if (pm4_arg_present(a, p->gen, p->dw, p->n))
            print_arg(t, a);
    for (uint32_t dw = 1; dw <= row->body && dw < p->n; dw++) {
        uint32_t reserved = p->dw[dw] & ~used_bits(p, row, dw);
        if (reserved)
            problem(t, "reserved bits of dword %u are set: 0x%08x", dw, reserved);
    }
}

static void print_words(struct telling *t, uint32_t from)
{
    if (t->p->n > from)
        print(t, &(struct pm4_value){ .name = "data", .kind = PM4_VALUE_DATA, .value = t->p->n - from, .dw = from });
}

static void print_tail(struct telling *t, const struct pm4_packet_row *row)
{
    uint32_t from = row->body + 1u;
    switch ((enum pm4_tail)row->tail) {
    case PM4_TAIL_NONE: break;
    case PM4_TAIL_SH: print_sets(t, PM4_SH_FIRST, PM4_SH_LAST, row->body); break;
    case PM4_TAIL_UCONFIG: print_sets(t, PM4_UCONFIG_FIRST, PM4_UCONFIG_LAST, row->body); break;
    case PM4_TAIL_PAIRS: print_pairs(t); break;
    case PM4_TAIL_DATA:
    case PM4_TAIL_ANY:
    case PM4_TAIL_RAW:
        print_words(t, from);
        break;
    }
}

/* ---- what the tables cannot say ---- */

static void check_dispatch(struct telling *t)
{
    uint32_t threads[3], v, w;
    if (!t->v->state)
        return;
    for (uint32_t i = 0; i < 3; i++)
        if (recall(t, PM4_REG_COMPUTE_NUM_THREAD_X + i, &threads[i]) && (threads[i] & 0x1fff) == 0)
            problem(t, "COMPUTE_NUM_THREAD_%c is 0: work-groups without threads", "XYZ"[i]);
    if (recall(t, PM4_REG_COMPUTE_PGM_RSRC2, &v)) {
        if (v & 1 && recall(t, PM4_REG_COMPUTE_TMPRING_SIZE, &w) && w == 0)
            problem(t, "the kernel uses scratch (COMPUTE_PGM_RSRC2.SCRATCH_EN), but COMPUTE_TMPRING_SIZE is 0");
        if (pm4_bits(v, 23, 15) > PM4_LDS_MAX_BYTES / 512)
            problem(t, "COMPUTE_PGM_RSRC2.LDS_SIZE is more than 64 KiB");
        /* With two user SGPRs or more the first two are, by the ABI, an address: kernel arguments or packet. */
        uint32_t lo, hi;
        if (pm4_bits(v, 5, 1) >= 2 && recall(t, PM4_REG_COMPUTE_USER_DATA_0, &lo) &&
            recall(t, PM4_REG_COMPUTE_USER_DATA_1, &hi) && (lo || hi))
            print_va(t, "user_data", 0, lo | (uint64_t)hi << 32, 4, false);
    }
}

static void check_packet(struct telling *t)
{
    const struct pm4_packet *p = t->p;
    uint32_t skipped = 0;
    switch (p->op) {
    case PM4_OP_DISPATCH_DIRECT:
    case PM4_OP_DISPATCH_INDIRECT:
        if (!(p->dw[p->op == PM4_OP_DISPATCH_DIRECT ? 4 : 3] & 1))
            problem(t, "COMPUTE_SHADER_EN is not set: nothing runs");
        check_dispatch(t);
        break;
    case PM4_OP_INDIRECT_BUFFER:
        if (!(p->dw[3] >> 23 & 1))
            problem(t, "valid is not set");
        if (!(p->dw[3] & 0xfffff))
            problem(t, "ib_size is 0");
        if (t->v->state)
            pm4_state_forget(t->v->state); /* it sets what it likes */
        break;
    case PM4_OP_RELEASE_MEM:
        if (((p->dw[1] & 0x3f) == PM4_EVENT_CS_DONE) != ((p->dw[1] >> 8 & 15) == 6))
            problem(t, "event_type and event_index do not belong together: cs_done has 6, all others 5");
        break;
    case PM4_OP_COND_EXEC: skipped = p->dw[4] & 0x3fff; break;
    case PM4_OP_PRED_EXEC: skipped = p->dw[1] & 0x3fff; break;
    default: break;
    }
    if (skipped > p->left)
        problem(t, "exec_count is %u, but %u dwords follow", skipped, p->left);
}

static void print_packet(struct telling *t)
{
    const struct pm4_packet *p = t->p;
    const struct pm4_packet_row *row = pm4_packet_find(p->op);
    uint32_t body = p->n - 1;
    if (p->dw[0] & 0xfc)
        problem(t, "reserved bits of the header are set: 0x%02x", p->dw[0] & 0xfc);
    if (p->truncated)
        problem(t, "the header counts %u dwords, but the buffer ends after %u", length_of(p->dw[0]), p->n);
    if (!row) {
        problem(t, "unknown opcode 0x%02x", p->op);
        print_words(t, 1);
        return;
    }
    if (!(row->gens >> p->gen & 1))
        problem(t, "%s is not a packet of %s", row->name, p->gen == PM4_GFX11 ? "gfx11" : "gfx12");
    bool more = row->tail != PM4_TAIL_NONE, needs = more && row->tail != PM4_TAIL_ANY && row->tail != PM4_TAIL_RAW;
    bool wrong = more ? body < row->body + (uint32_t)needs : body != row->body;
    if (wrong && !p->truncated)
        problem(t, "%u body dwords, but it has %u%s", body, row->body + (uint32_t)needs, more ? " or more" : "");
    print_args(t, row);
    print_tail(t, row);
    if (body >= row->body)
        check_packet(t);
}

unsigned pm4_explain(const struct pm4_packet *p, const struct pm4_view *v, const struct pm4_sink *s)
{
    struct telling t = { .p = p, .v = v, .s = s };
    if (p->form == PM4_FORM_PACKET)
        print_packet(&t);
    else
        print_words(&t, 0);
    if (p->form == PM4_FORM_STRAY)
        problem(&t, "no packet begins here: 0x%08x is of type %u (%u such dwords)", p->dw[0], type_of(p->dw[0]),
                p->n);
    return t.problems;
}
