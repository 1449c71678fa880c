/* rt/amd/ladder.h
 * The rungs that every AMD tier has above its own first ones (rt/ladder.h). A winsys's ladder opens the card, gets
 * memory by amd_rung_memory and a way to submit, and ends its table with AMD_RUNGS:
 *
 *     struct rungs { struct amd_rungs amd; ... what opening takes };   amd first: the shared rungs take it for theirs
 *     static const struct ladder_rung rungs[] = { { "device opened", ... }, ..., AMD_RUNGS }; */
#ifndef ZINC_RT_AMD_LADDER_H
#define ZINC_RT_AMD_LADDER_H

#include "rt/amd/amd.h"
#include "rt/amd/ring.h"
#include "rt/amd/tier.h"
#include "rt/ladder.h"

struct amd_rungs {
    int device;                   /* -1: the best                                       */
    struct amd_winsys *w;         /* set when it is opened; amd_rungs_end destroys it   */
    struct amd_ring *ring;        /* not owned; NULL where the kernel has it            */
    struct amd_mem host, ib, vram; /* a page for results, one for packets; some of the card's */
    struct amd_copier copier;
    struct amd_module module;
};
/* ladder.begin, end and failed: a state of `bytes` bytes, all 0 but amd.device. */
int amd_rungs_begin(size_t bytes, int device, void **state, struct err *e);
void amd_rungs_end(void *state);
void amd_rungs_failed(void *state, FILE *detail);

/* Which of n cards the ladder climbs: the device asked for, or the best (-1); it must be one of ours. */
int amd_rung_pick(const struct amd_choice *c, int n, int device, struct err *e);

/* Parts of the first rungs, which a winsys's own functions end with. Memory for both of an opened winsys: a page of the host's,
 * 1 MiB of the card's. */
int amd_rung_memory(struct amd_rungs *r, struct amd_winsys *w, struct ladder_out *o, struct err *e);

/* ladder_rung.run; state: struct amd_rungs. The first two are for a ring of our own. */
int amd_rung_visible(void *state, struct ladder_out *o, struct err *e);
int amd_rung_bell(void *state, struct ladder_out *o, struct err *e);
int amd_rung_fence(void *state, struct ladder_out *o, struct err *e);
int amd_rung_no_ops(void *state, struct ladder_out *o, struct err *e);
int amd_rung_many(void *state, struct ladder_out *o, struct err *e);
int amd_rung_write_data(void *state, struct ladder_out *o, struct err *e);
int amd_rung_copy(void *state, struct ladder_out *o, struct err *e);
int amd_rung_dispatch(void *state, struct ladder_out *o, struct err *e);
int amd_rung_shared(void *state, struct ladder_out *o, struct err *e);
int amd_rung_busy(void *state, struct ladder_out *o, struct err *e);
int amd_rung_rest(void *state, struct ladder_out *o, struct err *e);
int amd_rung_in_flight(void *state, struct ladder_out *o, struct err *e);
int amd_rung_wake(void *state, struct ladder_out *o, struct err *e);
int amd_rung_given_back(void *state, struct ladder_out *o, struct err *e);
int amd_rung_pressed(void *state, struct ladder_out *o, struct err *e);

/* clang-format off */
#define AMD_RING_RUNGS \
    { "packet visible", "what we write into the ring is there, and nothing moves without a bell", \
      "the ring's memory type: it must be uncached host memory", amd_rung_visible }, \
    { "doorbell advances", "the bell reaches the command processor, which fetches", \
      "dmesg for MES errors; the doorbell mapping; a GPU that is asleep or being reset; firmware versions in " \
      "/sys/kernel/debug/dri/*/amdgpu_firmware_info", amd_rung_bell }
#define AMD_RUNGS \
    { "fence retires", "a packet runs to its end and its write reaches the host", \
      "dmesg for page faults: client CP, address 0 means a missing EOP buffer", amd_rung_fence }, \
    { "no-op", "packets of every length are understood, again and again", \
      "the firmware's age; the decoded packets in the report folder", amd_rung_no_ops }, \
    { "ring wraps", "more is submitted without a wait than a ring holds", \
      "the read pointer and the fence in the report folder", amd_rung_many }, \
    { "WRITE_DATA", "the command processor writes what and where it is told", \
      "dmesg for page faults (the address says which buffer)", amd_rung_write_data }, \
    { "copy", "host and card memory in both directions", \
      "page faults on the card's memory; IOMMU settings", amd_rung_copy }, \
    { "trivial dispatch", "our code runs on the shader cores: code object, registers, arguments, ids", \
      "the report folder's registers; page faults of client SQC are code or arguments, of TCP data", \
      amd_rung_dispatch }, \
    { "LDS and barrier", "work-items of a work-group share memory, wait for each other, and exchange registers", \
      "LDS_SIZE in COMPUTE_PGM_RSRC2 (0: reads give 0)", amd_rung_shared }, \
    { "kept busy", "kernel after kernel, also while another program uses the card", \
      "MES and reset in dmesg: preemption; ZINC_AMD_PRIV, ZINC_AMD_TRAP_PRESENT, amdgpu.cwsr_enable=0", amd_rung_busy }, \
    { "rest", "a queue that was idle for seconds takes work again", \
      "dmesg for SMU and GFXOFF; amdgpu.runpm=0 and amdgpu.ppfeaturemask without GFXOFF as a test", amd_rung_rest }, \
    { "in flight", "several submissions are under way, and are done in their order", \
      "the fence in the report folder; RELEASE_MEM without the write-back", amd_rung_in_flight }, \
    { "sleep and wake", "a host that sleeps until a submission is done is woken by it", \
      "interrupts of the card: grep amdgpu /proc/interrupts before and after; kfd: the event's slot and RELEASE_MEM's context id; " \
      "umq: USERQ_SIGNAL; a long wait ends by itself after 0.1 s, so only power and latency suffer", amd_rung_wake }, \
    { "given back", "a queue that was given back is made again on the same memory, and works", \
      "dmesg for MES (REMOVE_QUEUE, ADD_QUEUE); the raw pointers; ZINC_REST=0 as a way out", amd_rung_given_back }, \
    { "memory filled", "long kernels survive a second process that fills the card's memory: eviction in mid-kernel", \
      "MES and reset in dmesg; ZINC_AMD_PRIV, ZINC_AMD_TRAP_PRESENT, amdgpu.cwsr_enable=0; host memory for what moves out", \
      amd_rung_pressed }
/* clang-format on */

#endif
