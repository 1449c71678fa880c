/* rt/walk_fields.h: private to rt/walk_*.c: the arguments of kernels as data, out of the field lists of kernels/klaunch.h. */
#ifndef ZINC_RT_WALK_FIELDS_H
#define ZINC_RT_WALK_FIELDS_H

#include <stdint.h>

enum walk_field_type { WF_gpu_va, WF_uint64_t, WF_uint32_t, WF_float };

struct walk_field {
    const char *name;
    uint16_t off;
    uint8_t count; /* elements: 1 or 4                       */
    uint8_t type;  /* enum walk_field_type                   */
    uint8_t dir;   /* enum use_dir of an address, 0: it is none */
};

static inline uint32_t walk_field_bytes(const struct walk_field *f)
{
    return f->type == WF_gpu_va || f->type == WF_uint64_t ? 8 : 4;
}

/* The fields of a kernel's arguments, *n of them. kernel: enum kernel_id */
const struct walk_field *walk_fields(uint32_t kernel, uint32_t *n);

#endif
