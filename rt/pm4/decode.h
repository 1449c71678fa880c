/* rt/pm4/decode.h
 * The other direction: dwords as packets, with every field and every register by name, and with what is wrong.
 *
 * For people:     struct pm4_view v = { .gen = PM4_GFX12, .check = live_buffers, .user = device };
 *                 unsigned problems = pm4_print(stderr, &v, dwords, n);
 *
 * For programs:   struct pm4_cursor c = { .gen = PM4_GFX12, .dw = dwords, .n = n };
 *                 struct pm4_packet p;
 *                 while (pm4_next(&c, &p))
 *                     if (p.op == PM4_OP_RELEASE_MEM) ... p.dw[3] ...
 *
 * In between lies pm4_explain, which hands the named fields of one packet to callbacks. All of it takes any input:
 * what is no packet, or a cut or wrong one, is reported as such and passed over. Nothing is allocated. */
#ifndef ZINC_RT_PM4_DECODE_H
#define ZINC_RT_PM4_DECODE_H

#include <stdio.h>

#include "rt/pm4/pm4.h"

struct pm4_cursor {
    enum pm4_gen gen;
    const uint32_t *dw;
    uint32_t n, at;        /* dwords in all, and read so far                                              */
};

enum pm4_form {
    PM4_FORM_PACKET,       /* a type-3 header and its body                                                */
    PM4_FORM_FILLER,       /* type-2 words, which older rings were padded with                            */
    PM4_FORM_STRAY,        /* words that begin no packet, up to the next that may                         */
};

struct pm4_packet {
    enum pm4_gen gen;
    enum pm4_form form;
    const uint32_t *dw;    /* the header, and what follows it                                             */
    uint32_t at;           /* where that is in the cursor's dwords                                        */
    uint32_t n;            /* dwords, header included; fewer than the header says when it is truncated    */
    uint32_t left;         /* dwords that follow the packet                                               */
    bool truncated;
    uint8_t op;            /* enum pm4_op; valid for PM4_FORM_PACKET                                      */
    const char *name;      /* NULL: the tables have no such packet                                        */
};
/* The next packet, or false at the end. Every dword belongs to exactly one. */
bool pm4_next(struct pm4_cursor *c, struct pm4_packet *p);

enum pm4_value_kind {
    PM4_VALUE_NUM,
    PM4_VALUE_HEX,
    PM4_VALUE_OFFSET,      /* the first register's, from its window; the SETS that follow tell the same   */
    PM4_VALUE_REG,         /* `value` is a register's number, `word` its name if it has one               */
    PM4_VALUE_SETS,        /* `name` is a register that gets `value`; `reg` its number                    */
    PM4_VALUE_FIELD,       /* a bit field of the SETS before it                                           */
    PM4_VALUE_VA,          /* `value` is an address                                                       */
    PM4_VALUE_DATA,        /* the run of words dw..dw + value - 1 of the packet                           */
};
struct pm4_value {
    const char *name;      /* valid during the call                                                       */
    enum pm4_value_kind kind;
    uint64_t value;
    uint32_t reg;
    uint32_t dw;           /* its dword in the packet                                                     */
    uint32_t bits;         /* how wide NUM, HEX and FIELD are                                             */
    const char *word;      /* the value by name, or NULL; of an address: what place said                  */
    uint64_t bytes;        /* of an address: what the packet touches there, 0 when that is not known      */
    bool write;
    const char *verdict;   /* of an address: what judge said                                              */
};

struct pm4_view {
    enum pm4_gen gen;
    /* What is wrong with an access, in a few words ("unmapped", "freed: ring of queue 3"); NULL: nothing. */
    const char *(*check)(void *user, uint64_t va, uint64_t bytes, bool write);
    /* What an address is, to print beside it ("kernargs+0x40"), valid until the next call; NULL: nothing. */
    const char *(*place)(void *user, uint64_t va);
    /* Host memory of an indirect buffer, to print it too; NULL: not to be had. */
    const uint32_t *(*fetch)(void *user, uint64_t va, uint32_t dwords);
    void *user;
    bool verbose;          /* pm4_print: a line for each field instead of one for the packet              */
    struct pm4_state *state; /* registers so far, for the checks of dispatches; NULL: no such checks.
                              * pm4_print uses one of its own in that case. Start with pm4_state_forget.  */
};

struct pm4_sink {
    void *user;
    void (*value)(void *user, const struct pm4_value *v);   /* in the packet's order; NULL: not wanted    */
    void (*problem)(void *user, const char *text);          /* one line, valid during the call; or NULL   */
};
/* Everything there is to say about one packet. Returns the number of problems. */
unsigned pm4_explain(const struct pm4_packet *p, const struct pm4_view *v, const struct pm4_sink *s);

/* All packets as text, a line each ("dword  NAME  field=value ..."), problems below in lines that begin with "!".
 * Small fields that are 0 are left out unless the view is verbose. Returns the number of problems. */
unsigned pm4_print(FILE *f, const struct pm4_view *v, const uint32_t *dw, uint32_t n);

/* What an opcode is called; NULL: not in the tables. */
const char *pm4_packet_name(uint32_t op);
/* What a register is called; NULL: not in the tables of that generation. */
const char *pm4_reg_name(enum pm4_gen gen, uint32_t reg);

#endif
