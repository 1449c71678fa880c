/* rt/pm4/tables.h
 * regs.def and packets.def as tables: what the decoder prints by and the encoder checks against. */
#ifndef ZINC_RT_PM4_TABLES_H
#define ZINC_RT_PM4_TABLES_H

#include "rt/pm4/pm4.h"

struct pm4_field_row {
    const char *name;
    uint32_t reg; /* address of its register */
    uint8_t hi, lo, gens;
};
struct pm4_reg_row {
    const char *name;
    uint32_t address;
    uint16_t first; /* of its fields */
    uint8_t gens;
};
/* NULL: no register of the tables, or none of that generation. */
const struct pm4_reg_row *pm4_reg_find(enum pm4_gen gen, uint32_t address);
/* Field i in the table's order, of any generation; NULL after the last. */
const struct pm4_field_row *pm4_reg_field(const struct pm4_reg_row *r, uint32_t i);
/* Bits that no field of the generation covers; 0 for a register that is one number. */
uint32_t pm4_reg_reserved(const struct pm4_reg_row *r, enum pm4_gen gen);

enum pm4_kind {
    PM4_KIND_NUM,
    PM4_KIND_HEX,
    PM4_KIND_REG,       /* a register's number               */
    PM4_KIND_OFFSET,    /* one, counted from a window's begin */
    PM4_KIND_VA,        /* an address                        */
    PM4_KIND_INITIATOR, /* COMPUTE_DISPATCH_INITIATOR        */
    PM4_KIND_EVENT,     /* has words, but not for all        */
};
enum pm4_tail {
    PM4_TAIL_NONE,
    PM4_TAIL_DATA,
    PM4_TAIL_SH,
    PM4_TAIL_UCONFIG,
    PM4_TAIL_PAIRS,
    PM4_TAIL_ANY,
    PM4_TAIL_RAW,
};
struct pm4_when {
    uint8_t dw, hi, lo; /* dw 0: always */
    uint16_t values;
};
struct pm4_arg_row {
    const char *name;
    uint8_t op, dw, hi, lo, kind, gens;
    struct pm4_when when;
};
struct pm4_packet_row {
    const char *name;
    uint16_t first; /* of its arguments */
    uint8_t op, body, tail, gens;
};
/* NULL: no packet of the tables. One of another generation is found: see `gens`. */
const struct pm4_packet_row *pm4_packet_find(uint32_t op);
/* Argument i in the table's order; NULL after the last. */
const struct pm4_arg_row *pm4_packet_arg(const struct pm4_packet_row *p, uint32_t i);
/* Whether it is there in this packet: generation and condition; dw is the header, n_dw the dwords with it. */
bool pm4_arg_present(const struct pm4_arg_row *a, enum pm4_gen gen, const uint32_t *dw, uint32_t n_dw);
/* The word for a value. NULL, and *listed says whether the argument has words at all. */
const char *pm4_arg_word(const struct pm4_arg_row *a, enum pm4_gen gen, uint64_t value, bool *listed);

/* Bits hi..lo of a pair of dwords. */
static inline uint64_t pm4_bits(uint64_t v, uint32_t hi, uint32_t lo)
{
    return v >> lo & (hi - lo == 63 ? ~0ull : (1ull << (hi - lo + 1)) - 1);
}

#endif
