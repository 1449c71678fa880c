/* rt/amd/launch.c: what a kernel needs beside its code: kernarg block, scratch memory, registers; and single
 * launches. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/amd/amd.h"

enum {
    LANES = 32,
    DYNAMIC_STACK = 512,  /* bytes of a lane for calls that the descriptor does not count */
    SCRATCH_EN = 1,       /* of RSRC2 */
    MAX_LDS = 64 << 10,
    MAX_WAVES_SE = 4095,  /* field of TMPRING_SIZE */
    IB_DW = 128,          /* room for a single launch */
};

uint32_t amd_kernel_lane_bytes(const struct amd_kernel *k)
{
    if (!(k->rsrc2 & SCRATCH_EN) && !k->dynamic_stack)
        return 0;
    return (uint32_t)align_up(k->scratch_bytes + (k->dynamic_stack ? DYNAMIC_STACK : 0), 4);
}

int amd_scratch_alloc(struct amd_winsys *w, uint32_t lane_bytes, struct amd_scratch *out, struct err *e)
{
    const struct amd_card *c = &w->card;
    uint64_t wave_bytes = align_up((uint64_t)lane_bytes * LANES, 256);
    uint32_t waves_se = c->n_cu / MAX(c->n_se, 1u) * c->scratch_slots_cu;
    *out = (struct amd_scratch){ .lane_bytes = lane_bytes };
    if (!lane_bytes)
        return 0;
    waves_se = MIN(MAX(waves_se, 1u), (uint32_t)MAX_WAVES_SE);
    out->tmpring = pm4_tmpring(c->chip->gen, waves_se, wave_bytes);
    if (!out->tmpring)
        return err_set(e, -ENOTSUP, "%s: %u bytes of scratch a lane are more than %s has", w->name, lane_bytes,
                       c->chip->name);
    return amd_mem_alloc(w, AMD_PRIVATE, wave_bytes * waves_se * c->n_se, "scratch", &out->mem, e);
}

uint32_t amd_kernarg_bytes(uint32_t args_bytes)
{
    return (uint32_t)align_up(align_up(args_bytes, 8) + AMD_IMPLICIT_BYTES + AMD_PACKET_BYTES, 64);
}

static void put16(uint8_t *p, uint32_t off, uint32_t v)
{
    uint16_t w = (uint16_t)v;
    memcpy(p + off, &w, sizeof w);
}

static void put32(uint8_t *p, uint32_t off, uint32_t v)
{
    memcpy(p + off, &v, sizeof v);
}

/* The implicit arguments of code object version 5: counts and sizes of work-groups. */
static void fill_implicit(uint8_t *p, const struct amd_launch *l)
{
    enum { BLOCK_COUNT = 0, GROUP_SIZE = 12, GRID_DIMS = 64, DYNAMIC_LDS = 120 };
    for (uint32_t i = 0; i < 3; i++) {
        put32(p, BLOCK_COUNT + 4 * i, l->groups[i]);
        put16(p, GROUP_SIZE + 2 * i, i ? 1 : l->threads);
    }
    put16(p, GRID_DIMS, 3);
    put32(p, DYNAMIC_LDS, l->lds_bytes);
}

/* hsa_kernel_dispatch_packet: some kernels look into it for the sizes of groups and grid. */
static void fill_packet(uint8_t *p, const struct amd_launch *l)
{
    enum { SETUP = 2, GROUP = 4, GRID = 12, PRIVATE = 24, LDS = 28 };
    put16(p, SETUP, 3);
    for (uint32_t i = 0; i < 3; i++) {
        put16(p, GROUP + 2 * i, i ? 1 : l->threads);
        put32(p, GRID + 4 * i, l->groups[i] * (i ? 1 : l->threads));
    }
    put32(p, PRIVATE, l->kernel->scratch_bytes);
    put32(p, LDS, l->kernel->lds_bytes + l->lds_bytes);
}

int amd_launch_fill(const struct amd_launch *l, const struct amd_scratch *scratch, uint8_t *out,
                    struct pm4_launch *regs, struct err *e)
{
    const struct amd_kernel *k = l->kernel;
    uint32_t implicit = (uint32_t)align_up(l->args_bytes, 8), lane = amd_kernel_lane_bytes(k), n = 0;
    if (k->kernarg_bytes > implicit + AMD_IMPLICIT_BYTES)
        return err_set(e, -EINVAL, "kernel %s reads %u bytes of arguments, it is given %u", k->name,
                       k->kernarg_bytes,
                       l->args_bytes);
    if (k->lds_bytes + l->lds_bytes > MAX_LDS)
        return err_set(e, -EINVAL, "kernel %s: %u bytes of LDS, a work-group has %d", k->name,
                       k->lds_bytes + l->lds_bytes, MAX_LDS);
    if (lane && (!scratch || !scratch->mem.va || scratch->lane_bytes < lane))
        return err_set(e, -EINVAL, "kernel %s wants %u bytes of scratch a lane, there are %u", k->name, lane,
                       scratch ? scratch->lane_bytes : 0);
    memcpy(out, l->args, l->args_bytes);
    fill_implicit(out + implicit, l);
    fill_packet(out + implicit + AMD_IMPLICIT_BYTES, l);
    *regs = (struct pm4_launch){ .entry = k->entry, .rsrc1 = k->rsrc1, .rsrc2 = k->rsrc2, .rsrc3 = k->rsrc3,
                                 .lds_bytes = k->lds_bytes + l->lds_bytes,
                                 .groups = { l->groups[0], l->groups[1], l->groups[2] },
                                 .threads = { l->threads, 1, 1 }, .wave32 = true };
    if (lane) { /* kernels without leave the registers alone: they are sent less often */
        regs->rsrc2 |= SCRATCH_EN;
        regs->scratch = scratch->mem.va;
        regs->tmpring = scratch->tmpring;
    } else if (scratch && scratch->mem.va) {
        regs->scratch = scratch->mem.va;
        regs->tmpring = scratch->tmpring;
    }
    uint64_t packet = l->kernarg + implicit + AMD_IMPLICIT_BYTES;
    if (k->dispatch_ptr) {
        regs->user[n++] = (uint32_t)packet;
        regs->user[n++] = (uint32_t)(packet >> 32);
    }
    regs->user[n++] = (uint32_t)l->kernarg;
    regs->user[n++] = (uint32_t)(l->kernarg >> 32);
    regs->n_user = n;
    return 0;
}

/* The block at args->cpu, the packets behind it. */
static int run_with(struct amd_winsys *w, const struct amd_launch *l, const struct amd_scratch *scratch,
                    const struct amd_mem *args, uint64_t timeout_ns, struct err *e)
{
    uint64_t point, stamps = w->cells_va + offsetof(struct amd_cells, stamp);
    uint32_t ib_off = amd_kernarg_bytes(l->args_bytes);
    struct pm4_launch regs;
    struct pm4_buf b;
    int rc = amd_launch_fill(l, scratch, args->cpu, &regs, e);
    if (rc) {
        err_context(e, "%s", w->name);
        return rc;
    }
    pm4_init(&b, w->card.chip->gen, (uint32_t *)((uint8_t *)args->cpu + ib_off), IB_DW);
    pm4_acquire_mem(&b, PM4_ACQUIRE_ALL);
    pm4_timestamp(&b, stamps);
    pm4_launch(&b, NULL, &regs, NULL);
    pm4_cs_partial_flush(&b);
    pm4_timestamp(&b, stamps + 8);
    amd_ib_pad(w, &b);
    if (b.rc)
        return err_set(e, b.rc, "%s: launch of %s: %s", w->name, l->kernel->name, b.why);
    if ((rc = amd_submit(w, args->va + ib_off, b.n, &point, e)))
        return rc;
    return amd_wait(w, point, timeout_ns, e);
}

int amd_run_kernel(struct amd_winsys *w, const struct amd_launch *l, uint64_t timeout_ns, uint64_t *gpu_ns,
                   struct err *e)
{
    struct amd_scratch scratch = { 0 };
    struct amd_mem mem = { 0 };
    int rc = amd_scratch_alloc(w, amd_kernel_lane_bytes(l->kernel), &scratch, e);
    if (!rc)
        rc = amd_mem_alloc(w, AMD_HOST, amd_kernarg_bytes(l->args_bytes) + 4 * IB_DW, "arguments", &mem, e);
    if (!rc) {
        struct amd_launch placed = *l;
        placed.kernarg = mem.va;
        rc = run_with(w, &placed, &scratch, &mem, timeout_ns, e);
        if (rc == -ETIME)
            err_set(e, -ETIME, "%s: kernel %s did not end within %.1f s", w->name, l->kernel->name,
                    (double)timeout_ns * 1e-9);
    }
    if (!rc && gpu_ns)
        *gpu_ns = (w->cells->stamp[1] - w->cells->stamp[0]) * AMD_CLOCK_NS;
    if (rc != -ETIME && rc != -EIO) { /* else the GPU may still use them: they go with the winsys */
        amd_mem_free(&mem);
        amd_mem_free(&scratch.mem);
    }
    return rc;
}
