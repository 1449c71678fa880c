#include "tools/amdsim/vm.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

static const uint64_t n_leaf = 1ull << VM_LEAF_SHIFT;

struct vm *vm_create(void)
{
    return calloc(1, sizeof(struct vm));
}

void vm_destroy(struct vm *vm)
{
    if (!vm)
        return;
    for (uint64_t *leaf = vm->newest, *before; leaf; leaf = before) {
        before = (uint64_t *)(uintptr_t)leaf[n_leaf];
        free(leaf);
    }
    free(vm);
}

/* The entry of a page, its leaf made when missing; NULL: no memory. */
static uint64_t *entry_of(struct vm *vm, uint64_t page)
{
    uint64_t **slot = &vm->top[page >> VM_LEAF_SHIFT];
    uint64_t *leaf = __atomic_load_n(slot, __ATOMIC_ACQUIRE);
    if (!leaf) {
        leaf = calloc(n_leaf + 1, sizeof *leaf);
        if (!leaf)
            return NULL;
        leaf[n_leaf] = (uintptr_t)vm->newest;
        vm->newest = leaf;
        __atomic_store_n(slot, leaf, __ATOMIC_RELEASE);
    }
    return &leaf[page & (n_leaf - 1)];
}

/* Whether a range lies in one half of the address space; *first and *n: its pages, as the table counts them. */
static bool pages_of(gva va, uint64_t bytes, uint64_t *first, uint64_t *n)
{
    gva last = va + bytes - 1;
    *first = va << 16 >> (16 + VM_PAGE_SHIFT);
    *n = (bytes + VM_PAGE - 1) >> VM_PAGE_SHIFT;
    return bytes && last >= va && va + (1ull << 47) < 1ull << 48 && last + (1ull << 47) < 1ull << 48 &&
           va >> 63 == last >> 63;
}

int vm_map(struct vm *vm, gva va, uint64_t bytes, void *host, uint32_t flags)
{
    uint64_t first, n;
    if ((va | bytes | (uintptr_t)host) % VM_PAGE || !pages_of(va, bytes, &first, &n))
        return -EINVAL;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *e = entry_of(vm, first + i);
        if (!e)
            return -ENOMEM;
        if (__atomic_load_n(e, __ATOMIC_RELAXED))
            return -EEXIST;
    }
    for (uint64_t i = 0; i < n; i++) {
        uint64_t e = ((uint64_t)(uintptr_t)host + i * VM_PAGE) | (flags & VM_FLAG_MASK) | VM_VALID;
        __atomic_store_n(entry_of(vm, first + i), e, __ATOMIC_RELEASE);
    }
    vm->mapped_bytes += bytes;
    return 0;
}

void vm_move(struct vm *vm, gva va, uint64_t bytes, void *host)
{
    uint64_t first, n;
    if (!pages_of(va, bytes, &first, &n))
        return;
    for (uint64_t i = 0; i < n; i++) {
        uint64_t *e = entry_of(vm, first + i), was = e ? __atomic_load_n(e, __ATOMIC_RELAXED) : 0;
        if (was & VM_VALID)
            __atomic_store_n(e, ((uint64_t)(uintptr_t)host + i * VM_PAGE) | (was & VM_FLAG_MASK), __ATOMIC_RELEASE);
    }
    __atomic_add_fetch(&vm->generation, 1, __ATOMIC_ACQ_REL);
}

void vm_unmap(struct vm *vm, gva va, uint64_t bytes)
{
    uint64_t page, n;
    if (!pages_of(va, bytes, &page, &n))
        return;
    for (uint64_t end = page + n; page < end;) {
        uint64_t *leaf = __atomic_load_n(&vm->top[page >> VM_LEAF_SHIFT], __ATOMIC_ACQUIRE);
        if (!leaf) {
            page = ((page >> VM_LEAF_SHIFT) + 1) << VM_LEAF_SHIFT;
            continue;
        }
        if (__atomic_exchange_n(&leaf[page & (n_leaf - 1)], 0, __ATOMIC_ACQ_REL))
            vm->mapped_bytes -= VM_PAGE;
        page++;
    }
    __atomic_add_fetch(&vm->generation, 1, __ATOMIC_ACQ_REL);
}

/* Copies between a buffer and the pages at va, page by page. */
static bool each_page(const struct vm *vm, gva va, uint8_t *buf, uint64_t bytes, bool to_vm, gva *bad)
{
    while (bytes) {
        uint64_t n = VM_PAGE - (va & (VM_PAGE - 1));
        if (n > bytes)
            n = bytes;
        uint8_t *host = vm_at(vm, va, to_vm ? VM_WRITE : 0);
        if (!host) {
            if (bad)
                *bad = va;
            return false;
        }
        memcpy(to_vm ? host : buf, to_vm ? buf : host, n);
        va += n;
        buf += n;
        bytes -= n;
    }
    return true;
}

bool vm_read(const struct vm *vm, gva va, void *dst, uint64_t bytes, gva *bad)
{
    return each_page(vm, va, dst, bytes, false, bad);
}

bool vm_write(const struct vm *vm, gva va, const void *src, uint64_t bytes, gva *bad)
{
    return each_page(vm, va, (uint8_t *)(uintptr_t)src, bytes, true, bad);
}
