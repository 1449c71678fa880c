/* The GPU's address space: what is mapped is found, with its rights, at both ends of 48 bits; nothing else is. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tests/lib/run.h"
#include "tools/amdsim/chip.h"
#include "tools/amdsim/vm.h"

static uint8_t *pages(uint64_t n)
{
    uint8_t *p = aligned_alloc(VM_PAGE, n * VM_PAGE);
    ck_assert_ptr_nonnull(p);
    memset(p, 0, n * VM_PAGE);
    return p;
}

START_TEST(pages_are_found_with_their_rights)
{
    struct vm *vm = vm_create();
    uint8_t *host = pages(3);
    const gva bases[] = { 0x1000, 0x7fffffffd000, 0xffff800000000000, 0xffffffffffffd000, (1ull << 30) - VM_PAGE };
    for (size_t i = 0; i < sizeof bases / sizeof bases[0]; i++) {
        gva va = bases[i];
        ck_assert_int_eq(vm_map(vm, va, 3 * VM_PAGE, host, VM_WRITE | VM_CACHED), 0);
        ck_assert_ptr_eq(vm_at(vm, va, 0), host);
        ck_assert_ptr_eq(vm_at(vm, va + 2 * VM_PAGE + 7, VM_WRITE), host + 2 * VM_PAGE + 7);
        ck_assert_ptr_null(vm_at(vm, va, VM_EXEC));
        ck_assert_ptr_null(vm_at(vm, va - 1, 0));
        ck_assert_ptr_null(vm_at(vm, va + 3 * VM_PAGE, 0));
        ck_assert_uint_eq(vm_entry(vm, va) & VM_FLAG_MASK, VM_VALID | VM_WRITE | VM_CACHED);
        ck_assert_uint_eq(vm->mapped_bytes, 3 * VM_PAGE);
        vm_unmap(vm, va, 3 * VM_PAGE);
        ck_assert_ptr_null(vm_at(vm, va + VM_PAGE, 0));
        ck_assert_uint_eq(vm->mapped_bytes, 0);
    }
    free(host);
    vm_destroy(vm);
}
END_TEST

/* The hole in the middle of 64 bits is where LDS and scratch have their flat addresses. */
START_TEST(the_hole_is_never_mapped)
{
    struct vm *vm = vm_create();
    uint8_t *host = pages(2);
    ck_assert_int_eq(vm_map(vm, 1ull << 47, VM_PAGE, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 1ull << 48, VM_PAGE, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 0xffff7ffffffff000, VM_PAGE, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, (1ull << 47) - VM_PAGE, 2 * VM_PAGE, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 0xfffffffffffff000, 2 * VM_PAGE, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 0x1000, VM_PAGE, host, 0), 0);
    ck_assert_ptr_null(vm_at(vm, 0x1000 | 1ull << 48, 0));
    ck_assert_ptr_null(vm_at(vm, 0x1000 | 2ull << 48, 0));
    ck_assert_ptr_null(vm_at(vm, 0x1000 | 0xffffull << 48, 0));
    free(host);
    vm_destroy(vm);
}
END_TEST

START_TEST(bad_ranges_change_nothing)
{
    struct vm *vm = vm_create();
    uint8_t *host = pages(2);
    ck_assert_int_eq(vm_map(vm, 0x2000, VM_PAGE, host, 0), 0);
    ck_assert_int_eq(vm_map(vm, 0x1000, 2 * VM_PAGE, host, 0), -EEXIST);
    ck_assert_ptr_null(vm_at(vm, 0x1000, 0));
    ck_assert_int_eq(vm_map(vm, 0x4001, VM_PAGE, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 0x4000, 100, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 0x4000, 0, host, 0), -EINVAL);
    ck_assert_int_eq(vm_map(vm, 0x4000, VM_PAGE, host + 8, 0), -EINVAL);
    uint32_t generation = vm->generation;
    vm_unmap(vm, 0, 1ull << 40); /* over empty leaves and a full one */
    ck_assert_ptr_null(vm_at(vm, 0x2000, 0));
    ck_assert_uint_ne(vm->generation, generation);
    free(host);
    vm_destroy(vm);
}
END_TEST

START_TEST(copies_cross_pages_and_name_the_first_bad_address)
{
    struct vm *vm = vm_create();
    uint8_t *host = pages(3), in[6000], out[6000];
    for (size_t i = 0; i < sizeof in; i++)
        in[i] = (uint8_t)(i * 7 + i / 256);
    /* Two pages whose order in host memory is not that of their addresses. */
    ck_assert_int_eq(vm_map(vm, 0x10000, VM_PAGE, host + VM_PAGE, VM_WRITE), 0);
    ck_assert_int_eq(vm_map(vm, 0x11000, VM_PAGE, host, VM_WRITE), 0);
    ck_assert_int_eq(vm_map(vm, 0x12000, VM_PAGE, host + 2 * VM_PAGE, 0), 0);
    gva bad = 0;
    ck_assert(vm_write(vm, 0x10800, in, sizeof in, &bad));
    ck_assert(vm_read(vm, 0x10800, out, sizeof out, &bad));
    ck_assert_mem_eq(in, out, sizeof in);
    ck_assert_mem_eq(host, in + 0x800, sizeof in - 0x800);
    ck_assert(!vm_write(vm, 0x11800, in, sizeof in, &bad));
    ck_assert_uint_eq(bad, 0x12000);
    ck_assert(!vm_read(vm, 0x12800, out, sizeof out, &bad));
    ck_assert_uint_eq(bad, 0x13000);
    free(host);
    vm_destroy(vm);
}
END_TEST

/* Sums that the driver's topology and the public tables of the products both state. */
START_TEST(chips_add_up)
{
    int n = 0;
    for (const struct chip *c = chips; c->name; c++, n++) {
        ck_assert_ptr_eq(chip_find(c->name), c);
        unsigned major = c->gfx_target_version / 10000, minor = c->gfx_target_version / 100 % 100;
        unsigned step = c->gfx_target_version % 100;
        ck_assert_msg(major * 100 + minor * 10 + step == c->gfx, "%s: target version %u", c->name,
                      c->gfx_target_version);
        ck_assert_msg(c->n_cu % (c->n_se * c->arrays_per_se) == 0, "%s: CUs per array", c->name);
        ck_assert_msg(c->gfx12 == (major == 12), "%s", c->name);
        /* kfd_device.c: compilers know GC 11.0.3 as gfx1101, and 11.0.1 as gfx1103 */
        unsigned rev = c->gfx == 1101 ? 3 : c->gfx == 1103 ? 1 : step;
        ck_assert_msg(c->gc_major == major && c->gc_minor == minor && c->gc_rev == rev, "%s: GC version", c->name);
        /* kfd_get_vgpr_size_per_cu: two SIMDs of so many registers, 32 lanes of 4 bytes */
        ck_assert_msg(c->save_vgpr_bytes == c->vgprs_per_simd * 2 * 32 * 4, "%s: registers of the save area", c->name);
        ck_assert_msg(c->vram_bytes % VM_PAGE == 0, "%s: VRAM", c->name);
    }
    ck_assert_int_eq(n, 8);
    ck_assert_ptr_null(chip_find("gfx900"));
    ck_assert_ptr_null(chip_find(NULL));
}
END_TEST

int main(void)
{
    return RUN_TESTS("vm", pages_are_found_with_their_rights, the_hole_is_never_mapped, bad_ranges_change_nothing,
                     copies_cross_pages_and_name_the_first_bad_address, chips_add_up);
}
