/* tools/amdsim/isa/isa.h
 * The shader core: executes real RDNA3 and RDNA4 wave32 machine code, a work-group at a time.
 *
 *     struct isa_launch l = { ... };                      registers and sizes, as the dispatch packet found them
 *     struct isa_group *g = isa_group_create(&l, id);     a work-group's waves, at their first instruction
 *     while ((rc = isa_group_run(g, budget)) == ISA_MORE) ...   other groups may run in between
 *     if (rc == ISA_FAULT) isa_group_fault(g)             what, where, why
 *     isa_group_destroy(g);
 *
 * Groups are independent: any number of threads may each run one. A launch is read only while groups of it live. */
#ifndef AMDSIM_ISA_H
#define AMDSIM_ISA_H

#include <stdbool.h>
#include <stdint.h>

#include "tools/amdsim/chip.h"
#include "tools/amdsim/vm.h"

enum isa_status { ISA_DONE, ISA_MORE, ISA_FAULT };

enum isa_fault_kind {
    ISA_FAULT_NONE,
    ISA_FAULT_PAGE,       /* va not mapped, or not allowed so   */
    ISA_FAULT_ILLEGAL,    /* unknown or malformed instruction   */
    ISA_FAULT_TRAP,       /* s_trap                             */
    ISA_FAULT_REGISTER,   /* beyond what the wave has           */
    ISA_FAULT_BARRIER,    /* waves wait for each other for ever */
    ISA_FAULT_DEADLOCK,   /* isa_group_deadlock                 */
    ISA_FAULT_STRICT,     /* a check of --strict                */
};

struct isa_fault {
    enum isa_fault_kind kind;
    gva pc, va;
    bool write, exec;     /* of the access to va                */
    uint32_t group[3], wave, lane;
    char text[240];       /* "global_load_b128 v[0:3], ...: page at 0x.. is not mapped", with the dwords */
};

/* What memory does beyond the plain access, for --strict: reads that would see stale or never written data. All
 * may be NULL. Called before the access, by the thread that runs the wave. Returning false raises ISA_FAULT_STRICT
 * with `why`. group: the work-group's number in the grid. Atomics are told as a write with scope. bypass: the access goes past the caches of the core (device
 * or system scope, glc). Code is asked about when it is decoded, which happens once until isa_code_invalidate. */
enum isa_path { ISA_VECTOR, ISA_SCALAR, ISA_CODE };
struct isa_watch {
    void *user;
    bool (*load)(void *user, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass, char why[160]);
    bool (*store)(void *user, enum isa_path path, uint32_t group, gva va, uint32_t bytes, bool bypass, char why[160]);
    void (*invalidate)(void *user, enum isa_path path); /* an instruction empties the cache */
    /* A scalar load's dwords that nothing has written, bit i: dword i of these n <= 16. No finding in itself, for
     * compilers load 16 bytes where they want 12. */
    uint32_t (*unwritten)(void *user, gva va, uint32_t n);
};

struct isa_counts { /* summed over finished work-groups, by isa_group_run's caller through isa_group_counts */
    uint64_t insts, valu, salu, vmem, smem, lds, branches, waves;
};

struct isa_code; /* decoded instructions, shared by all threads */

struct isa_launch {
    const struct chip *chip;
    struct vm *vm;
    struct isa_code *code;
    gva entry;
    uint32_t rsrc1, rsrc2, rsrc3, tmpring;
    gva scratch_base;          /* of this dispatch, where SCRATCH_EN; slots of tmpring's WAVESIZE           */
    uint32_t scratch_waves;    /* slots there are; a wave without one faults at its first scratch access    */
    uint32_t user_data[16];
    uint32_t threads[3], partial[3]; /* of a work-group; partial: of the last one of a dimension, 0: full   */
    uint32_t groups[3], start[3];
    bool wave32;
    uint64_t (*clock)(void);   /* 100 MHz                                                                   */
    const struct isa_watch *watch; /* NULL: none                                                            */
    bool strict;               /* registers: reads before the wait, uses of what nothing has written        */
};

struct isa_code *isa_code_create(const struct chip *c);
void isa_code_destroy(struct isa_code *c);
/* Forgets decoded instructions: the instruction cache was invalidated, or memory with code went away. Not while
 * groups run. */
void isa_code_invalidate(struct isa_code *c);

struct isa_group;
/* The group's waves take the slots scratch_slot and up. NULL: out of memory. A launch that cannot run (wave64,
 * more than 1024 work-items) gives a group whose run is an ISA_FAULT. */
struct isa_group *isa_group_create(const struct isa_launch *l, const uint32_t id[3], uint32_t scratch_slot);
enum isa_status isa_group_run(struct isa_group *g, uint64_t budget); /* at most about `budget` instructions */
/* Did the last run end early, since all waves that can go on sleep (s_sleep), and store nothing? Then they look for what others are
 * to do. */
bool isa_group_waits(const struct isa_group *g);
void isa_group_deadlock(struct isa_group *g, const char *why); /* a fault of the first of these waves, where it sleeps */
const struct isa_fault *isa_group_fault(const struct isa_group *g);
void isa_group_counts(const struct isa_group *g, struct isa_counts *add_to);
/* Moves the waves' registers and LDS to memory at `at`, where they take isa_context_bytes, and back: nothing of them stays
 * in between. Between two runs only. False: the group has a fault: a page, or what came back can be no state of waves. */
bool isa_group_save(struct isa_group *g, gva at);
bool isa_group_restore(struct isa_group *g, gva at);
uint64_t isa_context_bytes(uint32_t waves, uint32_t vgprs, uint32_t lds_bytes);
void isa_group_destroy(struct isa_group *g);

/* Disassembly as far as the tables know: "v_dot4_i32_iu8 (VOP3P 0x16) CC164003 04120501". */
void isa_describe(const struct chip *c, const uint32_t *dw, uint32_t n_dw, char *out, uint64_t size);

#endif
