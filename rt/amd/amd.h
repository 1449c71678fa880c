/* rt/amd/amd.h
 * What an AMD card runs, whoever submits: code objects, single launches, and copies between it and the host.
 *
 *     amd_copier_init(&copier, w, &e);
 *     amd_module_load(&copier, "basic", blob, n, &module, &e);             its code into the card's memory
 *     amd_module_kernel(&module, "k_add", &kernel, &e);
 *     amd_run_kernel(w, &(struct amd_launch){ .kernel = &kernel, ... }, timeout_ns, NULL, &e);
 *
 * Errors: 0 or a negative errno and one line in `e`. It begins with the winsys's name, but for functions that are
 * given none (amd_code_*, amd_launch_fill): their callers put one before it. */
#ifndef ZINC_RT_AMD_AMD_H
#define ZINC_RT_AMD_AMD_H

#include "rt/amd/winsys.h"

/* ---- code.c, module.c: code objects ---- */

enum { AMD_MAX_SEGMENTS = 8 };

/* A code object that was checked; points into the caller's bytes. */
struct amd_code {
    const uint8_t *elf;
    uint64_t n;
    struct { uint64_t off, file_bytes, va, mem_bytes; bool code; } segment[AMD_MAX_SEGMENTS];
    uint32_t n_segments;
    uint64_t image_bytes; /* memory that it takes, with room for the fetcher to read ahead */
    uint64_t symbols, n_symbols, strings, strings_bytes; /* places in the file; the last string ends with a 0 */
};
struct amd_kernel {
    char name[64];
    uint64_t entry;          /* code.c: offset in the image; module.c: address */
    uint32_t lds_bytes;      /* static                                         */
    uint32_t scratch_bytes;  /* of a lane                                      */
    uint32_t kernarg_bytes;
    uint32_t rsrc1, rsrc2, rsrc3;
    bool dispatch_ptr;       /* user words: dispatch packet, then kernarg      */
    bool dynamic_stack;
    uint32_t vgprs;
};
/* Every byte is mistrusted. `what` names the object in errors. */
int amd_code_parse(const void *elf, uint64_t n, const struct amd_chip *chip, const char *what, struct amd_code *out,
                   struct err *e);
int amd_code_kernel(const struct amd_code *c, const char *name, struct amd_kernel *out, struct err *e);
void amd_code_image(const struct amd_code *c, uint8_t *out); /* [image_bytes] */

struct amd_module {
    const char *name;
    struct amd_code code;
    struct amd_mem mem;
};
struct amd_copier;
/* Into memory of the GPU; elf outlives the module. c: how to get there without a large PCIe window. */
int amd_module_load(struct amd_copier *c, const char *name, const void *elf, uint64_t n, struct amd_module *out,
                    struct err *e);
void amd_module_free(struct amd_module *m);
int amd_module_kernel(const struct amd_module *m, const char *name, struct amd_kernel *out, struct err *e);

/* ---- launch.c ---- */

/* Scratch memory of a device for kernels of so many bytes a lane. */
struct amd_scratch {
    struct amd_mem mem;
    uint32_t lane_bytes, tmpring;
};
int amd_scratch_alloc(struct amd_winsys *w, uint32_t lane_bytes, struct amd_scratch *out, struct err *e);
uint32_t amd_kernel_lane_bytes(const struct amd_kernel *k); /* of scratch, a reserve for dynamic stacks included */

/* The kernarg block of a launch: the kernel's own arguments, the implicit ones behind them, and a dispatch packet. */
enum { AMD_IMPLICIT_BYTES = 256, AMD_PACKET_BYTES = 64 };
uint32_t amd_kernarg_bytes(uint32_t args_bytes);
struct amd_launch {
    const struct amd_kernel *kernel;
    const void *args;
    uint32_t args_bytes;
    uint32_t groups[3], threads, lds_bytes; /* lds: dynamic                    */
    uint64_t kernarg;                       /* where the block will lie        */
};
/* Fills the block at `out` (host memory, zeroed) and the registers' part. -EINVAL: sizes that the kernel cannot have.
 * */
int amd_launch_fill(const struct amd_launch *l, const struct amd_scratch *scratch, uint8_t *out,
                    struct pm4_launch *regs, struct err *e);
/* Runs one kernel and waits: for tests, ladders and self-checks. l->kernarg is not looked at. gpu_ns: what it took by
 * the GPU's clock; may be NULL. -ETIME: it has not ended. */
int amd_run_kernel(struct amd_winsys *w, const struct amd_launch *l, uint64_t timeout_ns, uint64_t *gpu_ns,
                   struct err *e);

/* ---- copy.c: between host and GPU memory ---- */

/* How large copies travel: `gather` is k_gather, which the GPU runs; without it small pieces go as packets. */
struct amd_copier {
    struct amd_winsys *w;
    struct amd_kernel gather;
    bool has_gather;
    struct amd_mem stage;    /* host memory: [step block and rows][data] */
};
int amd_copier_init(struct amd_copier *c, struct amd_winsys *w, struct err *e);
void amd_copier_free(struct amd_copier *c);
/* off and n: multiples of 4. Waits until the bytes are there. */
int amd_upload(struct amd_copier *c, struct amd_mem *to, uint64_t off, const void *from, uint64_t n, struct err *e);
int amd_download(struct amd_copier *c, const struct amd_mem *from, uint64_t off, void *to, uint64_t n, struct err *e);
int amd_zero(struct amd_copier *c, struct amd_mem *to, uint64_t off, uint64_t n, struct err *e);
int amd_copy(struct amd_copier *c, struct amd_mem *m, uint64_t dst, uint64_t src, uint64_t n, struct err *e);

#endif
