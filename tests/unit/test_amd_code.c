/* Code objects: what is read from the real ones, what becomes of damaged ones, and the block of arguments. */
#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "kernels/klaunch.h"
#include "rt/blob.h"
#include "rt/dispatch.h"
#include "rt/amd/amd.h"
#include "tests/lib/run.h"

static struct err e;

/* NULL: there is none for this chip. */
static const uint8_t *object(const char *module, const char *chip, uint64_t *n)
{
    const struct kernel_blob *b = kernel_blob_find(module, chip);
    return b ? kernel_blob_bytes(b, n) : NULL;
}

START_TEST(every_kernel_is_found)
{
    for (const struct amd_chip *c = amd_chips; c->name; c++)
        for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
            struct amd_code code;
            struct amd_kernel kn;
            uint64_t n;
            const uint8_t *p = object(kernel_infos[k].module, c->target, &n);
            if (!p) /* sm_90a only */
                continue;
            ck_assert_msg(amd_code_parse(p, n, c, kernel_infos[k].module, &code, &e) == 0, "%s", e.msg);
            int rc = amd_code_kernel(&code, kernel_infos[k].name, &kn, &e);
            if (rc == -ENOENT) /* not for this target: test_kernels_launched knows which */
                continue;
            ck_assert_msg(rc == 0, "%s", e.msg);
            ck_assert_uint_eq(kn.entry % 256, 0);
            ck_assert_uint_lt(kn.entry, code.image_bytes);
            ck_assert_uint_ge(code.image_bytes - kn.entry, 256);
            ck_assert_msg(kn.kernarg_bytes <= (uint32_t)kernel_infos[k].args_bytes + AMD_IMPLICIT_BYTES, "%s: %u",
                          kn.name,
                          kn.kernarg_bytes);
            ck_assert_uint_ge(kn.vgprs, 8);
        }
}
END_TEST

START_TEST(the_image_is_the_segments)
{
    uint64_t n_elf;
    const uint8_t *elf = object("basic", "gfx12-generic", &n_elf);
    struct amd_code code;
    ck_assert_int_eq(amd_code_parse(elf, n_elf, amd_chip_of(120001), "basic", &code, &e), 0);
    uint8_t *image = malloc(code.image_bytes);
    amd_code_image(&code, image);
    for (uint32_t i = 0; i < code.n_segments; i++) {
        ck_assert_int_eq(memcmp(image + code.segment[i].va, elf + code.segment[i].off, code.segment[i].file_bytes), 0);
        for (uint64_t n = code.segment[i].file_bytes; n < code.segment[i].mem_bytes; n++)
            ck_assert_uint_eq(image[code.segment[i].va + n], 0);
    }
    free(image);
}
END_TEST

START_TEST(refusals)
{
    uint64_t n;
    const uint8_t *elf = object("basic", "gfx12-generic", &n);
    struct amd_code code;
    struct amd_kernel kn;
    ck_assert_int_eq(amd_code_parse(elf, n, amd_chip_of(110000), "basic", &code, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "machine 0x59, gfx1100 is 0x41"), "%s", e.msg);
    uint8_t *later = malloc(n); /* a generic target's next version has other instructions */
    memcpy(later, elf, n);
    ((Elf64_Ehdr *)(void *)later)->e_flags = 2u << 24 | 0x59;
    ck_assert_int_eq(amd_code_parse(later, n, amd_chip_of(120001), "basic", &code, &e), -EINVAL);
    free(later);
    ck_assert_int_eq(amd_code_parse("hello", 5, amd_chip_of(120001), "text", &code, &e), -EINVAL);
    ck_assert_int_eq(amd_code_parse("", 0, amd_chip_of(120001), "nothing", &code, &e), -EINVAL);
    ck_assert_int_eq(amd_code_parse(elf, n, amd_chip_of(120001), "basic", &code, &e), 0);
    ck_assert_int_eq(amd_code_kernel(&code, "k_nope", &kn, &e), -ENOENT);
    ck_assert_int_eq(amd_code_kernel(&code, "", &kn, &e), -ENOENT);
}
END_TEST

/* Everything that is accepted must lie inside the file: amd_code_image and the kernels' descriptors are read. */
static void use(const uint8_t *p, uint64_t n)
{
    struct amd_code code;
    struct amd_kernel kn;
    if (amd_code_parse(p, n, amd_chip_of(120001), "damaged", &code, &e))
        return;
    ck_assert_uint_le(code.image_bytes, 1ull << 30);
    if (code.image_bytes < 64 << 20) {
        uint8_t *image = malloc(code.image_bytes);
        amd_code_image(&code, image);
        free(image);
    }
    for (uint32_t k = 0; k < KERNEL_COUNT; k++)
        if (strcmp(kernel_infos[k].module, "basic") == 0 && amd_code_kernel(&code, kernel_infos[k].name, &kn,
                                                                            &e) == 0)
            ck_assert_uint_lt(kn.entry, code.image_bytes);
}

START_TEST(damaged_objects)
{
    uint64_t n;
    const uint8_t *elf = object("basic", "gfx12-generic", &n);
    uint32_t x = 1;
    for (uint64_t cut = 0; cut < n; cut += cut < 1024 ? 1 : 61) {
        uint8_t *p = malloc(cut + 1); /* just so long, so that AddressSanitizer sees what goes beyond */
        p = realloc(p, cut ? cut : 1);
        memcpy(p, elf, cut);
        use(p, cut);
        free(p);
    }
    uint8_t *p = malloc(n);
    for (int round = 0; round < 3000; round++) {
        memcpy(p, elf, n);
        for (int hit = 0; hit < 1 + round % 3; hit++) {
            x = x * 1664525u + 1013904223u;
            uint64_t header = round % 2 ? 0x200 : n, at = (uint64_t)(x >> 8) % header;
            if (round % 4 == 3) /* section headers and symbols lie at the end */
                at = n - 1 - at % 0x800;
            p[at] ^= (uint8_t)(1u << (x & 7));
            if (round % 5 == 0)
                p[at] = 0xff;
        }
        use(p, n);
    }
    free(p);
}
END_TEST

static uint32_t u32_at(const uint8_t *p, uint32_t off)
{
    uint32_t v;
    memcpy(&v, p + off, sizeof v);
    return v;
}

/* Implicit arguments of code object version 5, and the registers. */
START_TEST(arguments_of_a_launch)
{
    uint8_t args[44] = { 1, 2, 3 }, block[1024] = { 0 };
    struct amd_kernel kn = { .name = "k", .entry = 0x7f0000100000, .kernarg_bytes = 48 + 256, .lds_bytes = 100,
                             .rsrc1 = 0x600f0041, .rsrc2 = 0x84 };
    struct amd_launch l = { .kernel = &kn, .args = args, .args_bytes = 44, .groups = { 5, 6, 7 }, .threads = 256,
                            .lds_bytes = 924, .kernarg = 0x7f0000200000 };
    struct pm4_launch r;
    ck_assert_uint_ge(amd_kernarg_bytes(44), 48 + 256 + 64);
    ck_assert_msg(amd_launch_fill(&l, NULL, block, &r, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(memcmp(block, args, 44), 0);
    ck_assert_uint_eq(u32_at(block, 48), 5);
    ck_assert_uint_eq(u32_at(block, 48 + 4), 6);
    ck_assert_uint_eq(u32_at(block, 48 + 8), 7);
    ck_assert_uint_eq(u32_at(block, 48 + 12), 256 | 1u << 16); /* u16 each: x, y */
    ck_assert_uint_eq(u32_at(block, 48 + 16), 1);              /* z, and no remainder */
    ck_assert_uint_eq(u32_at(block, 48 + 120), 924);
    ck_assert_uint_eq(r.n_user, 2);
    ck_assert_uint_eq(r.user[0], 0x200000);
    ck_assert_uint_eq(r.user[1], 0x7f00);
    ck_assert_uint_eq(r.lds_bytes, 1024);
    ck_assert(r.wave32);
    kn.dispatch_ptr = true;
    ck_assert_int_eq(amd_launch_fill(&l, NULL, block, &r, &e), 0);
    ck_assert_uint_eq(r.n_user, 4);
    ck_assert_uint_eq(r.user[0], 0x200000 + 48 + 256);
    ck_assert_uint_eq(u32_at(block, 48 + 256 + 4), 256 | 1u << 16);
    ck_assert_uint_eq(u32_at(block, 48 + 256 + 12), 5 * 256);
    kn.rsrc2 |= 1; /* scratch, and there is none */
    kn.scratch_bytes = 16;
    ck_assert_int_eq(amd_launch_fill(&l, NULL, block, &r, &e), -EINVAL);
    kn.rsrc2 &= ~1u;
    l.lds_bytes = 65536;
    ck_assert_int_eq(amd_launch_fill(&l, NULL, block, &r, &e), -EINVAL);
    l.lds_bytes = 0;
    kn.kernarg_bytes = 512; /* reads more than it is given */
    ck_assert_int_eq(amd_launch_fill(&l, NULL, block, &r, &e), -EINVAL);
}
END_TEST

int main(void)
{
    if (!kernel_blob_find("basic", "gfx12-generic")) {
        puts("built without clang-19 and lld-19, or with NO_AMD=1: no code objects");
        return 77;
    }
    return RUN_TESTS("amd_code", every_kernel_is_found, the_image_is_the_segments, refusals, damaged_objects,
                     arguments_of_a_launch);
}
