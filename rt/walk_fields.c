#include "rt/walk_fields.h"

#include <stddef.h>

#include "base/ckd.h"
#include "graph/stream.h"
#include "kernels/kernel_id.h"
#include "kernels/klaunch.h"

#define DIR_R USE_READ
#define DIR_T USE_READ
#define DIR_W USE_WRITE
#define DIR_M USE_RDWR
#define DIR_N 0
#define DIR_E 0
#define FIELD(ftype, fname, fcount, fkind) { #fname, offsetof(cur, fname), fcount, WF_##ftype, DIR_##fkind },
#define X(sname, list)                                                                                                 \
    __attribute__((unused)) static const struct walk_field *fields_##sname(uint32_t *n)                                \
    {                                                                                                                  \
        typedef sname cur;                                                                                             \
        static const struct walk_field at[] = { list(FIELD) };                                                         \
        *n = ARRAY_LEN(at);                                                                                            \
        return at;                                                                                                     \
    }
KL_LIST(X)
#undef X

static const struct walk_field *(*const of_kernel[KERNEL_COUNT])(uint32_t *n) = {
#define KERNEL(name, module, args, threads) fields_##args,
#include "kernels/kernels.def"
#undef KERNEL
};

const struct walk_field *walk_fields(uint32_t kernel, uint32_t *n)
{
    return of_kernel[kernel](n);
}
