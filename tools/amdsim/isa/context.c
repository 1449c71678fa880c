/* The waves of a work-group between registers and memory, as a context save and restore moves them. What is saved is
 * what the driver counts in kfd_queue_ctx_save_restore_size (Linux, amdkfd/kfd_queue.c): vector registers, 512 bytes
 * of scalar and 128 of hardware registers a wave (16 KiB and 4 KiB for the 32 waves of a CU), and LDS. The order within
 * a group is this model's. */
#include <stdio.h>
#include <string.h>

#include "tools/amdsim/isa/group.h"

enum { SCALAR_BYTES = 128 * 4, HARDWARE_BYTES = 128, LOST = 0x5c };

/* Hardware registers of a wave; those of the group travel with the first one. */
struct hardware {
    gva pc;
    uint32_t scc, mode, status, ended, next;
    struct barrier barrier[N_BARRIERS];
};
_Static_assert(sizeof(struct hardware) <= HARDWARE_BYTES, "4 KiB of hardware registers serve the waves of a CU");

uint64_t isa_context_bytes(uint32_t waves, uint32_t vgprs, uint32_t lds_bytes)
{
    return (uint64_t)waves * ((uint64_t)vgprs * sizeof(uint32_t[WAVE_LANES]) + SCALAR_BYTES + HARDWARE_BYTES) + lds_bytes;
}

static bool lost(struct isa_group *g, gva bad, bool write)
{
    g->fault.kind = ISA_FAULT_PAGE;
    g->fault.va = bad;
    g->fault.write = write;
    g->fault.pc = g->w[0].pc;
    snprintf(g->fault.text, sizeof g->fault.text, "context %s of a preempted wave: page at 0x%llx is not mapped %s",
             write ? "save" : "restore", (unsigned long long)bad, write ? "for writing" : "to the GPU");
    return false;
}

static bool damaged(struct isa_group *g, uint32_t wave)
{
    g->fault.kind = ISA_FAULT_TRAP;
    g->fault.wave = wave;
    snprintf(g->fault.text, sizeof g->fault.text, "context restore of a preempted wave: what lies in the save area is not "
             "what was saved there");
    return false;
}

bool isa_group_save(struct isa_group *g, gva at)
{
    const struct vm *vm = g->l->vm;
    gva bad;
    for (uint32_t i = 0; i < g->n_waves; i++) {
        struct wave *w = &g->w[i];
        uint8_t hw[HARDWARE_BYTES] = { 0 };
        uint64_t v_bytes = w->n_vgpr * sizeof w->v[0];
        struct hardware h = { .pc = w->pc, .scc = w->scc, .mode = w->mode, .status = w->status, .ended = g->ended,
                              .next = g->next };
        memcpy(h.barrier, g->barrier, sizeof h.barrier);
        memcpy(hw, &h, sizeof h);
        if (!vm_write(vm, at, w->v, v_bytes, &bad) || !vm_write(vm, at + v_bytes, w->s, SCALAR_BYTES, &bad) ||
            !vm_write(vm, at + v_bytes + SCALAR_BYTES, hw, sizeof hw, &bad))
            return lost(g, bad, true);
        at += v_bytes + SCALAR_BYTES + HARDWARE_BYTES;
    }
    if (!vm_write(vm, at, g->lds, g->lds_bytes, &bad))
        return lost(g, bad, true);
    for (uint32_t i = 0; i < g->n_waves; i++) { /* other waves had the registers since */
        struct wave *w = &g->w[i];
        memset(w->v, LOST, w->n_vgpr * sizeof w->v[0]);
        memset(w->s, LOST, SCALAR_BYTES);
        w->scc = w->mode = w->status = 0;
        w->pc = 0;
    }
    memset(g->lds, LOST, g->lds_bytes);
    memset(g->barrier, 0, sizeof g->barrier);
    g->ended = g->next = 0;
    return true;
}

bool isa_group_restore(struct isa_group *g, gva at)
{
    const struct vm *vm = g->l->vm;
    gva bad;
    for (uint32_t i = 0; i < g->n_waves; i++) {
        struct wave *w = &g->w[i];
        struct hardware h;
        uint64_t v_bytes = w->n_vgpr * sizeof w->v[0];
        if (!vm_read(vm, at, w->v, v_bytes, &bad) || !vm_read(vm, at + v_bytes, w->s, SCALAR_BYTES, &bad) ||
            !vm_read(vm, at + v_bytes + SCALAR_BYTES, &h, sizeof h, &bad))
            return lost(g, bad, false);
        w->pc = h.pc;
        w->scc = h.scc & 1;
        w->mode = h.mode;
        w->status = h.status;
        w->page_va = ~(gva)0 << VM_PAGE_SHIFT;
        if (i == 0) {
            g->ended = h.ended;
            g->next = h.next % g->n_waves;
            memcpy(g->barrier, h.barrier, sizeof h.barrier);
        }
        if (w->status > WAVE_ENDED || (w->status == WAVE_ENDED) != (g->ended >> i & 1)) /* overwritten in between */
            return damaged(g, i);
        at += v_bytes + SCALAR_BYTES + HARDWARE_BYTES;
    }
    return vm_read(vm, at, g->lds, g->lds_bytes, &bad) || lost(g, bad, false);
}
