/* graph/fields.h: private to graph/: the argument structs as data, out of the field lists of kernels/kargs.h */
#ifndef ZINC_GRAPH_FIELDS_H
#define ZINC_GRAPH_FIELDS_H

#include <stdint.h>

#include "graph/stream.h"

enum field_type { FT_gpu_va, FT_uint64_t, FT_uint32_t, FT_float };
enum field_kind { FK_R, FK_W, FK_M, FK_T, FK_N, FK_E };

struct field {
    const char *name;
    uint16_t off;
    uint8_t count; /* elements: 1 or 4 */
    uint8_t type;  /* enum field_type  */
    uint8_t kind;  /* enum field_kind  */
};

/* The fields of a command's arguments, NULL and 0 for CMD_NOP and unknown ops. */
const struct field *cmd_fields(uint32_t op, uint32_t *n_fields);
uint32_t cmd_args_bytes(uint32_t op);

static inline uint32_t field_bytes(const struct field *f)
{
    return f->type == FT_gpu_va || f->type == FT_uint64_t ? 8 : 4;
}

/* The address field whose element lies at byte `off` of the arguments; NULL: there is none. */
const struct field *cmd_find_address(uint32_t op, uint32_t off);

/* enum use_dir of an address field. */
static inline uint8_t field_dir(const struct field *f)
{
    return f->kind == FK_W ? USE_WRITE : f->kind == FK_M ? USE_RDWR : USE_READ;
}

#endif
