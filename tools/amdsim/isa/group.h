/* tools/amdsim/isa/group.h: private to tools/amdsim/isa/ and to tests of instructions
 * A work-group while it runs, and the store of decoded instructions. */
#ifndef AMDSIM_ISA_GROUP_H
#define AMDSIM_ISA_GROUP_H

#include "tools/amdsim/isa/inst.h"

enum wave_status { WAVE_READY, WAVE_AT_BARRIER, WAVE_ENDED };
enum { GROUP_WAVES_MAX = 32, LDS_MAX = 65536, LDS_SLACK = 64 };

/* gfx12 splits a barrier into signal and wait: -1 is the work-group's, -2 the trap handler's. gfx11's s_barrier is
 * both at once on the first. A bit per wave: who signalled since it last was complete, who may pass its next wait,
 * who is suspended in one. */
enum { BARRIER_GROUP, BARRIER_TRAP, N_BARRIERS };
struct barrier {
    uint32_t signalled, done, waiting;
};

struct isa_group {
    const struct isa_launch *l;
    uint32_t id[3], n_threads, n_waves;
    uint32_t ended;                /* a bit per wave                       */
    uint32_t next;                 /* the wave whose turn it is            */
    bool stored, waits;            /* since the last isa_group_run began: a store or an atomic; isa_group_waits */
    struct barrier barrier[N_BARRIERS];
    struct wave *w;
    uint8_t *lds;                  /* lds_bytes, then LDS_SLACK            */
    uint32_t lds_bytes;
    uint8_t *lds_written;          /* a byte per byte; strict only         */
    struct isa_fault fault;
    uint64_t block_bytes;          /* this structure with all of the above */
};

/* Barriers (barrier.c). A wave that ended counts as arrived. */
void barrier_signal(struct wave *w, uint32_t b); /* faults when the wave signals twice before all have */
void barrier_wait(struct wave *w, uint32_t b);   /* goes on, or suspends the wave until it is complete */
void barrier_wave_ended(struct isa_group *g);

void wave_end(struct wave *w);
/* Runs at most `insts` instructions, less when the wave ends, waits, yields or faults. Returns how many. */
uint64_t wave_run(struct wave *w, uint64_t insts);

/* Decoded code of a page of 4 KiB. A slot with run == NULL is not decoded yet; run is stored last. */
struct code_page {
    struct code_page *next;
    const uint8_t *host;
    struct inst at[VM_PAGE / 4];
};
/* The page's decoded instructions, empty ones when it is new; NULL: out of memory. */
struct code_page *code_page_of(struct isa_code *c, const uint8_t *host);
/* Decodes the instruction at w->at into slot `in`; false: the wave has a fault. */
bool code_decode(struct wave *w, struct inst *in);
/* Memory of a group that ended serves the next one. */
struct isa_group *code_block_get(struct isa_code *c, uint64_t bytes);
void code_block_put(struct isa_code *c, struct isa_group *g);

/* Strict launches (strict.h): loads under way, and what nothing has written. NULL: out of memory. */
struct strict *strict_create(const struct isa_launch *l);
void strict_destroy(struct strict *s);
/* Before an instruction runs; false: the wave has a fault. */
bool strict_check(struct wave *w, const struct inst *in);
/* A lane's load of LDS to registers from reg on, its store from there (or from its upper half); lanes that got the
 * value of register `data` in lane from[] (-1: a zero) as register `addr` said. */
void strict_lds_load(struct wave *w, uint32_t lane, uint32_t at, uint32_t bytes, uint32_t reg);
void strict_lds_store(struct wave *w, uint32_t lane, uint32_t at, uint32_t bytes, uint32_t reg, bool high);
void strict_exchange(struct wave *w, uint32_t data, uint32_t addr, const int8_t from[WAVE_LANES], uint32_t dst);

#endif
