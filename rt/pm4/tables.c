/* regs.def and packets.def as tables. Each list is expanded into enumerators that number its rows, into the rows, and
 * into a switch that finds them: two registers of one address or two packets of one opcode do not compile. */
#include <stddef.h>

#include "base/ckd.h"
#include "rt/pm4/tables.h"

/* FIELDS_OF_r is the number of register r's first field; the second enumerator only takes the step back. */
enum {
#define REG(name, address, gens)            FIELDS_OF_##name, BEFORE_##name = FIELDS_OF_##name - 1,
#define FIELD(reg, name, hi, lo, gens)      FIELD_##reg##_##name##_##hi,
#define FIELD_ALSO(reg, name, hi, lo, gens) FIELD_##reg##_##name##_##hi,
#include "rt/pm4/regs.def"
};
enum {
#define REG(name, address, gens) ROW_##name,
#include "rt/pm4/regs.def"
};

static const struct pm4_field_row fields[] = {
#define FIELD(reg, name, hi, lo, gens)      { #name, PM4_REG_##reg, hi, lo, gens },
#define FIELD_ALSO(reg, name, hi, lo, gens) { #name, PM4_REG_##reg, hi, lo, gens },
#include "rt/pm4/regs.def"
};

static const struct pm4_reg_row regs[] = {
#define REG(name, address, gens) { #name, address, FIELDS_OF_##name, gens },
#include "rt/pm4/regs.def"
};

const struct pm4_reg_row *pm4_reg_find(enum pm4_gen gen, uint32_t address)
{
    const struct pm4_reg_row *r = NULL;
    switch (address) {
#define REG(name, at, gens)                                                                                            \
    case at: r = &regs[ROW_##name]; break;
#include "rt/pm4/regs.def"
    default: break;
    }
    return r && r->gens >> gen & 1 ? r : NULL;
}

const struct pm4_field_row *pm4_reg_field(const struct pm4_reg_row *r, uint32_t i)
{
    uint32_t at = r->first + i;
    return at < ARRAY_LEN(fields) && fields[at].reg == r->address ? &fields[at] : NULL;
}

uint32_t pm4_reg_reserved(const struct pm4_reg_row *r, enum pm4_gen gen)
{
    const struct pm4_field_row *f;
    uint64_t used = 0;
    for (uint32_t i = 0; (f = pm4_reg_field(r, i)); i++)
        if (f->gens >> gen & 1)
            used |= pm4_bits(~0ull, f->hi, f->lo) << f->lo;
    return used ? ~(uint32_t)used : 0;
}

enum {
#define PACKET(name, opcode, body, tail, gens)          ARGS_OF_##name, BEFORE_ARGS_OF_##name = ARGS_OF_##name - 1,
#define ARG(packet, name, dw, hi, lo, kind, gens, when) ARG_##packet##_##name,
#include "rt/pm4/packets.def"
};
enum {
#define PACKET(name, opcode, body, tail, gens) ROW_##name,
#include "rt/pm4/packets.def"
};

#define ALWAYS                   { 0, 0, 0, 0 }
#define WHEN(dw, hi, lo, values) { dw, hi, lo, values }
static const struct pm4_arg_row args[] = {
#define ARG(packet, name, dw, hi, lo, kind, gens, when)                                                                \
    { #name, PM4_OP_##packet, dw, hi, lo, PM4_KIND_##kind, gens, when },
#include "rt/pm4/packets.def"
};

static const struct pm4_packet_row packets[] = {
#define PACKET(name, opcode, body, tail, gens) { #name, ARGS_OF_##name, opcode, body, PM4_TAIL_##tail, gens },
#include "rt/pm4/packets.def"
};

static const struct {
    uint16_t arg;
    uint8_t gens;
    uint32_t value;
    const char *word;
} words[] = {
#define WORD(packet, arg, value, word, gens) { ARG_##packet##_##arg, gens, value, word },
#include "rt/pm4/packets.def"
};

const struct pm4_packet_row *pm4_packet_find(uint32_t op)
{
    switch (op) {
#define PACKET(name, opcode, body, tail, gens)                                                                         \
    case opcode: return &packets[ROW_##name];
#include "rt/pm4/packets.def"
    default: return NULL;
    }
}

const struct pm4_arg_row *pm4_packet_arg(const struct pm4_packet_row *p, uint32_t i)
{
    uint32_t at = p->first + i;
    return at < ARRAY_LEN(args) && args[at].op == p->op ? &args[at] : NULL;
}

bool pm4_arg_present(const struct pm4_arg_row *a, enum pm4_gen gen, const uint32_t *dw, uint32_t n_dw)
{
    if (!(a->gens >> gen & 1) || a->dw + (a->hi > 31 ? 1u : 0u) >= n_dw)
        return false;
    if (a->when.dw == 0)
        return true;
    return a->when.dw < n_dw && a->when.values >> pm4_bits(dw[a->when.dw], a->when.hi, a->when.lo) & 1;
}

const char *pm4_arg_word(const struct pm4_arg_row *a, enum pm4_gen gen, uint64_t value, bool *listed)
{
    uint32_t number = (uint32_t)(a - args);
    *listed = false;
    for (uint32_t i = 0; i < ARRAY_LEN(words); i++) {
        if (words[i].arg != number)
            continue;
        *listed = true;
        if (words[i].value == value && words[i].gens >> gen & 1)
            return words[i].word;
    }
    return NULL;
}
