/* tools/amdsim/isa/mem.h: private to tools/amdsim/isa/
 * How instructions reach memory: the addresses of the lanes, what is allowed, and faults. */
#ifndef AMDSIM_ISA_MEM_H
#define AMDSIM_ISA_MEM_H

#include "tools/amdsim/isa/group.h"

/* FLAT addresses of LDS and of scratch: the upper 16 bits, as the driver sets SH_MEM_BASES. */
enum { APERTURE_LDS = 1, APERTURE_SCRATCH = 2 };

/* Lanes to access and where; those of `zero` lie beyond a buffer's range: loads give 0, stores are dropped. va of
 * other lanes is that of an accessed one. Scratch: va is the lane's private offset. */
struct lanes {
    gva va[WAVE_LANES];
    uint32_t active, zero;
};
void mem_lanes(struct wave *w, const struct inst *in, uint32_t bytes, struct lanes *a);

/* The bytes of one lane, wherever its address leads; false: the wave has a fault. */
bool mem_read(struct wave *w, const struct inst *in, uint32_t lane, gva va, void *dst, uint32_t bytes);
bool mem_write(struct wave *w, const struct inst *in, uint32_t lane, gva va, const void *src, uint32_t bytes);
/* Where an aligned word of a lane is, to change it in one step; NULL: a fault, or LDS out of range (no fault). */
void *mem_word(struct wave *w, const struct inst *in, uint32_t lane, gva va, uint32_t bytes);

/* Goes the access past the core's caches? Device or system scope; RDNA3: glc. */
static inline bool mem_bypass(const struct wave *w, const struct inst *in)
{
    return w->chip->gfx12 ? in->scope >= 2 : in->th & 1;
}

void mem_invalidate(struct wave *w, enum isa_path path); /* tells it */
/* Asks the launch's watch; false: it objects, and the wave has a fault. */
bool mem_ask(struct wave *w, bool store, enum isa_path path, gva va, uint32_t bytes, bool bypass, uint32_t lane);
static inline bool mem_may_load(struct wave *w, const struct inst *in, enum isa_path path, gva va, uint32_t bytes,
                                uint32_t lane)
{
    return !w->g->l->watch || mem_ask(w, false, path, va, bytes, mem_bypass(w, in), lane);
}
static inline bool mem_may_store(struct wave *w, const struct inst *in, gva va, uint32_t bytes, uint32_t lane)
{
    return !w->g->l->watch || mem_ask(w, true, ISA_VECTOR, va, bytes, mem_bypass(w, in), lane);
}

/* LDS; out of range reads give 0 and writes are dropped, which a strict launch reports. */
bool lds_in_range(struct wave *w, uint32_t lane, uint64_t at, uint32_t bytes);

struct mem_op {
    uint16_t op;
    uint8_t chips; /* enum mem_chips */
    const char *name[4]; /* flat, global, scratch, buffer; NULL: there is none */
    inst_fn *run;
};
enum mem_chips { MEM_ALL, MEM_GFX11, MEM_GFX12 };
extern const struct mem_op atomic_ops[];            /* ends with run NULL */
inst_fn *lds_find(const struct chip *c, uint32_t op, const char **name);

#endif
