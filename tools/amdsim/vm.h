/* tools/amdsim/vm.h
 * The GPU's address space of one process: what amdgpu's page tables would hold. Pages of 4 KiB; a page leads to host
 * memory and says what is allowed. Waves look pages up without locks while the driver maps and unmaps others. */
#ifndef AMDSIM_VM_H
#define AMDSIM_VM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint64_t gva;

/* 48 bits of address, sign-extended: the upper half begins at 0xffff800000000000. */
enum { VM_PAGE_SHIFT = 12, VM_PAGE = 1 << VM_PAGE_SHIFT, VM_LEAF_SHIFT = 18, VM_TOP_SHIFT = 18 };

/* The low bits of a page's entry; the rest is the host address of the page. 0: not mapped. */
enum vm_flags {
    VM_VALID = 1,
    VM_WRITE = 2,
    VM_EXEC = 4,
    VM_CACHED = 8,   /* goes through the GPU's level-2 cache; otherwise uncached, coherent with the host */
    VM_VRAM = 16,
    VM_HOST = 32,    /* the host can read it too (GTT, user pointers, VRAM over a large BAR)               */
    VM_FLAG_MASK = VM_PAGE - 1,
};

struct vm {
    uint64_t *top[1 << VM_TOP_SHIFT]; /* leaves of 1 << VM_LEAF_SHIFT entries, made when first needed */
    uint64_t *newest;                 /* leaf; behind its entries stands where the one before it is   */
    uint64_t mapped_bytes;
    uint32_t generation;              /* raised by every unmap and by what makes code stale */
};

/* Map and unmap calls on one address space are serialised by their callers. */
struct vm *vm_create(void);
void vm_destroy(struct vm *vm);
/* va, host and bytes are multiples of the page. -EEXIST: part of it is mapped; -ENOMEM; -EINVAL: not addresses. */
int vm_map(struct vm *vm, gva va, uint64_t bytes, void *host, uint32_t flags);
void vm_move(struct vm *vm, gva va, uint64_t bytes, void *host); /* what is mapped there lies elsewhere from now on */
void vm_unmap(struct vm *vm, gva va, uint64_t bytes); /* what is not mapped is skipped */

static inline uint64_t vm_entry(const struct vm *vm, gva va)
{
    if (va + (1ull << 47) >= 1ull << 48)
        return 0;
    uint64_t page = va << 16 >> (16 + VM_PAGE_SHIFT);
    const uint64_t *leaf = __atomic_load_n(&vm->top[page >> VM_LEAF_SHIFT], __ATOMIC_ACQUIRE);
    return leaf ? __atomic_load_n(&leaf[page & ((1u << VM_LEAF_SHIFT) - 1)], __ATOMIC_RELAXED) : 0;
}

/* Host address of `bytes` bytes at va, which must not cross a page; NULL when a flag of `need` is missing there. */
static inline void *vm_at(const struct vm *vm, gva va, uint32_t need)
{
    uint64_t e = vm_entry(vm, va);
    if ((e & (need | VM_VALID)) != (need | VM_VALID))
        return NULL;
    return (uint8_t *)(uintptr_t)(e & ~(uint64_t)VM_FLAG_MASK) + (va & (VM_PAGE - 1));
}

/* Copies across pages; false and *bad (the first address that is not allowed) when a page is missing. */
bool vm_read(const struct vm *vm, gva va, void *dst, uint64_t bytes, gva *bad);
bool vm_write(const struct vm *vm, gva va, const void *src, uint64_t bytes, gva *bad);

#endif
