/* The interpreter against the host's own C: the functions of isa_fold.def are compiled by clang-19 for each chip and
 * run on the interpreter, and compiled into this program and run here. Each expression runs twice: on inputs that
 * differ by lane, and on inputs uniform in a wave, which clang keeps in the scalar unit as far as it can. */
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tests/lib/run.h"
#include "tools/amdsim/isa/isa.h"
#include "tools/amdsim/isa/trans.h"

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wsign-compare"
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#include "tests/amdsim/isa_fold_prelude.h"

/* ---- what the builtins do, in plain C ---- */

static u32 dot4_model(int sa, u32 a, int sb, u32 b, u32 c, int clamp)
{
    s64 sum = (s32)c;
    for (int i = 0; i < 32; i += 8)
        sum += (s64)(sa ? (s8)(a >> i) : (int)(a >> i & 255)) * (sb ? (s8)(b >> i) : (int)(b >> i & 255));
    if (clamp)
        sum = sum > 0x7fffffff ? 0x7fffffff : sum < -(s64)0x80000000 ? -(s64)0x80000000 : sum;
    return (u32)sum;
}
static u32 udot4_model(u32 a, u32 b, u32 c)
{
    u64 sum = c;
    for (int i = 0; i < 32; i += 8)
        sum += (u64)(a >> i & 255) * (b >> i & 255);
    return sum >> 32 ? ~0u : (u32)sum;
}
static u32 dot8_model(int sa, u32 a, int sb, u32 b, u32 c)
{
    for (int i = 0; i < 32; i += 4) {
        int x = (int)(a >> i & 15), y = (int)(b >> i & 15);
        c += (u32)((sa && x > 7 ? x - 16 : x) * (sb && y > 7 ? y - 16 : y));
    }
    return c;
}
static u32 perm_model(u32 a, u32 b, u32 sel)
{
    u64 bytes = (u64)a << 32 | b;
    u32 r = 0;
    for (int i = 0; i < 32; i += 8) {
        u32 s = sel >> i & 255, v;
        if (s < 8)
            v = (u32)(bytes >> s * 8) & 255;
        else if (s < 12) /* the sign of byte 1, 3, 5 or 7 */
            v = bytes >> ((s - 8) * 16 + 15) & 1 ? 255 : 0;
        else
            v = s == 12 ? 0 : 255;
        r |= v << i;
    }
    return r;
}
static u32 sad_model(u32 a, u32 b, u32 c)
{
    for (int i = 0; i < 32; i += 8)
        c += umax(a >> i & 255, b >> i & 255) - umin(a >> i & 255, b >> i & 255);
    return c;
}
static u32 lerp_model(u32 a, u32 b, u32 c)
{
    u32 r = 0;
    for (int i = 0; i < 32; i += 8)
        r |= (((a >> i & 255) + (b >> i & 255) + (c >> i & 1)) >> 1) << i;
    return r;
}
static float frexp_model(float x, int mantissa)
{
    int e = 0;
    if (x != x || x - x != 0)
        return mantissa ? x : 0;
    float m = __builtin_frexpf(x, &e);
    return mantissa ? m : (float)e;
}
static u32 class_model(float x, u32 mask)
{
    union fu v = { x };
    u32 e = v.u >> 23 & 255, m = v.u & 0x7fffff, neg = v.u >> 31;
    u32 size = e == 255 ? 0 : e ? 1 : m ? 2 : 3; /* infinite, normal, subnormal, zero */
    u32 bit = e == 255 && m ? m >> 22 : neg ? 2 + size : 9 - size;
    return mask >> bit & 1;
}
static float med3_model(float a, float b, float c)
{
    if (a != a || b != b)
        return __builtin_fminf(__builtin_fminf(a, b), c);
    return a > b ? b > c ? b : a > c ? c : a : a > c ? a : b > c ? c : b;
}

/* ---- the cases: text for the device, function for the host ---- */

#define PURE(name, ...)                                                                                              \
    static void host_##name(const struct in *in, u64 *out, u32 *mem)                                                 \
    {                                                                                                                \
        (void)mem;                                                                                                   \
        for (u32 t = 0; t < 64; t++) {                                                                               \
            ARGS(in[t]);                                                                                             \
            out[t] = (u64)(__VA_ARGS__);                                                                             \
        }                                                                                                            \
    }
#define DEVICE(name, device, ...) PURE(dev_##name, __VA_ARGS__)
#define GROUP(name, device, ...)                                                                                     \
    static void host_group_##name(const struct in *in, u64 *out, u32 *mem)                                           \
    {                                                                                                                \
        (void)mem;                                                                                                   \
        __VA_ARGS__                                                                                                  \
    }
#define DPP(name, ctrl, ...)                                                                                         \
    static void host_dpp_##name(const struct in *in, u64 *out, u32 *mem)                                             \
    {                                                                                                                \
        (void)mem;                                                                                                   \
        for (u32 t = 0; t < 64; t++) {                                                                               \
            int l = (int)t & 15, s = (__VA_ARGS__);                                                                  \
            (void)l;                                                                                                 \
            out[t] = s < 0 ? in[t].b : in[(t & ~15u) + (u32)s].a;                                                    \
        }                                                                                                            \
    }
#include "tests/amdsim/isa_fold.def"
#undef PURE
#undef DEVICE
#undef GROUP
#undef DPP
#pragma GCC diagnostic pop

struct fold_case {
    const char *name;
    void (*host)(const struct in *in, u64 *out, u32 *mem);
    bool uniform_too;
};
static const struct fold_case fold_cases[] = {
#define PURE(name, ...) { #name, host_##name, true },
#define DEVICE(name, ...) { "dev_" #name, host_dev_##name, true },
#define GROUP(name, ...) { "group_" #name, host_group_##name, false },
#define DPP(name, ...) { "dpp_" #name, host_dpp_##name, false },
#include "tests/amdsim/isa_fold.def"
};
enum { N_CASES = sizeof fold_cases / sizeof *fold_cases };

/* The same files as text, and what their macros are on the device. */
#define EMBED(name, path)                                                                                            \
    __asm__(".pushsection .rodata\n" #name ": .incbin \"" path "\"\n.byte 0\n.popsection");                          \
    extern const char name[]
EMBED(prelude_text, "tests/amdsim/isa_fold_prelude.h");
EMBED(cases_text, "tests/amdsim/isa_fold.def");

static const char device_macros[] =
    "#define LDS(type, name, n) static __attribute__((address_space(3), loader_uninitialized)) type name[n]\n"
    "#define FENCE(order) __builtin_amdgcn_fence(order, \"workgroup\")\n"
    "#define BARRIER FENCE(__ATOMIC_RELEASE); __builtin_amdgcn_s_barrier(); FENCE(__ATOMIC_ACQUIRE)\n"
    "#define KERNEL(name) __attribute__((amdgpu_kernel)) void \\\n"
    "    name(const struct in *in, u64 *__restrict out, u32 *mem)\n"
    "#define GROUP_ID __builtin_amdgcn_workgroup_id_x()\n"
    "#define LANE u32 t = __builtin_amdgcn_workitem_id_x(), i = t + 64 * GROUP_ID; ARGS(in[i]);\n"
    "#define PURE(name, ...) KERNEL(l_##name) { LANE out[i] = (u64)(__VA_ARGS__); } \\\n"
    "    KERNEL(u_##name) { u32 i = GROUP_ID; ARGS(in[i]); out[i] = (u64)(__VA_ARGS__); }\n"
    "#define DEVICE(name, device, ...) PURE(dev_##name, device)\n"
    "#define GROUP(name, device, ...) KERNEL(l_group_##name) { LANE device }\n"
    "#define DPP(name, ctrl, ...) KERNEL(l_dpp_##name) \\\n"
    "    { LANE out[i] = (u32)__builtin_amdgcn_update_dpp((s32)b, (s32)a, ctrl, 15, 15, 0); }\n";

/* ---- inputs ---- */

enum { N_GROUPS = 8, N_INPUTS = 64 * N_GROUPS, N_UNIFORM = 64 };

static u64 rnd(void)
{
    static u64 x = 88172645463325252ull;
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    return x * 0x2545f4914f6cdd1d;
}
static u64 some_int(u32 width)
{
    static const u64 corners[] = { 0, 1, 2, 7, 31, 32, 33, 63, 127, 128, 255, 256, 0x7fff, 0x8000, 0xffff, 0x7fffffff,
                                   0x80000000, 0xffffffff, 0x7fffffffffffffff, 0x8000000000000000, ~0ull, ~1ull };
    u64 r = rnd(), k = rnd() % 8;
    if (k < 2)
        return corners[r % (sizeof corners / sizeof *corners)];
    return k < 5 ? r : k < 7 ? r >> (rnd() % width) : ~(r >> (rnd() % width));
}
static float some_float(void)
{
    static const u32 corners[] = { 0, 0x80000000, 1, 0x80000001, 0x007fffff, 0x00800000, 0x3f800000, 0xbf800000,
                                   0x3f000000, 0x3fc00000, 0x40200000, 0x4b000000, 0x4affffff, 0x4f000000, 0xcf000000,
                                   0x4f800000, 0x5f000000, 0x7f7fffff, 0x7f800000, 0xff800000, 0x7fc00000, 0x3f7fffff,
                                   0x80800000 };
    u64 r = rnd(), k = rnd() % 8;
    u32 u = k < 2 ? corners[r % (sizeof corners / sizeof *corners)] : (u32)r;
    if (k >= 4) /* near 1, where sums cancel and conversions matter */
        u = (u & 0x807fffff) | (u32)(115 + (r >> 40) % 30) << 23;
    return flt((u & 0x7fffffff) > 0x7f800000 ? u | 0x00400000 : u);
}
static double some_double(void)
{
    static const u64 corners[] = { 0, 1ull << 63, 1, 0x000fffffffffffff, 0x0010000000000000, 0x3ff0000000000000,
                                   0xbff8000000000000, 0x3fe0000000000000, 0x41dfffffffc00000, 0x43e0000000000000,
                                   0x7fefffffffffffff, 0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000 };
    union du v;
    u64 r = rnd(), k = rnd() % 8;
    v.u = k < 2 ? corners[r % (sizeof corners / sizeof *corners)] : r;
    if (k >= 4)
        v.u = (v.u & 0x800fffffffffffff) | (1000 + rnd() % 70) << 52;
    if ((v.u & ~(1ull << 63)) > 0x7ff0000000000000)
        v.u |= 0x0008000000000000;
    return v.d;
}
static void make_inputs(struct in *in)
{
    for (u32 i = 0; i < N_INPUTS; i++) {
        in[i] = (struct in){ (u32)some_int(32), (u32)some_int(32), (u32)some_int(32), some_float(), some_float(),
                             some_float(),      some_int(64),      some_int(64),      some_double(), some_double() };
        if (i % 11 == 3) /* equal operands */
            in[i].b = in[i].a, in[i].g = in[i].f, in[i].B = in[i].A, in[i].e = in[i].d;
    }
}

/* ---- the device's program ---- */

struct program {
    const struct chip *chip;
    struct vm *vm;
    struct isa_code *code;
    uint8_t *image;
    u64 bytes;
    struct in *in;
    u64 *out;
    u32 *mem;
    u64 *args;
};
#define CODE_VA 0x7f0000000000ull
#define DATA_VA 0x7d0000000000ull
#define SCRATCH_VA 0x7e0000000000ull
enum { SCRATCH_WAVE = 64 * 1024, SCRATCH_WAVES = 4, OUT_OFF = 64 * 1024, MEM_OFF = 128 * 1024, ARGS_OFF = 192 * 1024,
       DATA_BYTES = 256 * 1024 };

static uint8_t *pages(u64 bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    ck_assert(p != MAP_FAILED);
    return p;
}

static void write_source(const char *path)
{
    FILE *o = fopen(path, "w");
    ck_assert_ptr_nonnull(o);
    fprintf(o, "%s%s%s", prelude_text, device_macros, cases_text);
    fclose(o);
}

static uint8_t *read_all(const char *path, u64 *bytes)
{
    FILE *f = fopen(path, "rb");
    ck_assert_ptr_nonnull(f);
    fseek(f, 0, SEEK_END);
    *bytes = (u64)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*bytes);
    ck_assert(p && fread(p, 1, *bytes, f) == *bytes);
    fclose(f);
    return p;
}

/* Compiles, and lays the segments out at CODE_VA. */
static uint8_t *compile(struct program *p, u64 *elf_bytes)
{
    char dir[] = "/tmp/isa_fold.XXXXXX", src[64], obj[64], cmd[600];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(src, sizeof src, "%s/k.c", dir);
    snprintf(obj, sizeof obj, "%s/k.co", dir);
    write_source(src);
    snprintf(cmd, sizeof cmd,
             "clang-19 -x c --target=amdgcn-amd-amdhsa -mcpu=%s -O2 -nogpulib -ffreestanding -fvisibility=protected "
             "-ffp-contract=off -fno-strict-aliasing -fuse-ld=lld -w -mllvm -disable-promote-alloca-to-lds -o %s %s",
             p->chip->name, obj, src);
    ck_assert_msg(system(cmd) == 0, "%s", cmd);
    uint8_t *elf = read_all(obj, elf_bytes);
    unlink(src);
    unlink(obj);
    rmdir(dir);
    const Elf64_Ehdr *h = (const void *)elf;
    const Elf64_Phdr *ph = (const void *)(elf + h->e_phoff);
    for (int i = 0; i < h->e_phnum; i++)
        if (ph[i].p_type == PT_LOAD && ph[i].p_vaddr + ph[i].p_memsz > p->bytes)
            p->bytes = ph[i].p_vaddr + ph[i].p_memsz;
    p->bytes = (p->bytes + 2 * VM_PAGE - 1) & ~(u64)(VM_PAGE - 1);
    p->image = pages(p->bytes);
    for (int i = 0; i < h->e_phnum; i++)
        if (ph[i].p_type == PT_LOAD)
            memcpy(p->image + ph[i].p_vaddr, elf + ph[i].p_offset, ph[i].p_filesz);
    return elf;
}

/* Where a kernel's descriptor is in the image; 0: no such kernel. */
static u64 descriptor_of(const uint8_t *elf, const char *prefix, const char *name)
{
    const Elf64_Ehdr *h = (const void *)elf;
    const Elf64_Shdr *sh = (const void *)(elf + h->e_shoff);
    char want[96];
    snprintf(want, sizeof want, "%s%s.kd", prefix, name);
    for (int i = 0; i < h->e_shnum; i++) {
        if (sh[i].sh_type != SHT_DYNSYM)
            continue;
        const Elf64_Sym *sym = (const void *)(elf + sh[i].sh_offset);
        const char *str = (const char *)elf + sh[sh[i].sh_link].sh_offset;
        for (u64 k = 0; k < sh[i].sh_size / sizeof *sym; k++)
            if (!strcmp(str + sym[k].st_name, want))
                return sym[k].st_value;
    }
    return 0;
}

/* Runs the kernel over all inputs. False with a line on stdout: it faulted. */
static bool run_kernel(struct program *p, u64 kd, const char *prefix, const char *name, u32 threads, u32 n_groups)
{
    struct {
        u32 lds, scratch, kernargs, r0;
        int64_t entry;
        u32 r1[5], rsrc3, rsrc1, rsrc2;
        u16 properties, r2[3];
    } d;
    memcpy(&d, p->image + kd, sizeof d);
    ck_assert_msg((d.properties & 0x7f) == 8, "%s: wants more than its arguments: %x", name, d.properties);
    struct isa_launch l = {
        .chip = p->chip, .vm = p->vm, .code = p->code, .entry = CODE_VA + kd + (u64)d.entry,
        .rsrc1 = d.rsrc1, .rsrc2 = d.rsrc2 | (d.lds + 511) / 512 << 15, .rsrc3 = d.rsrc3,
        .tmpring = SCRATCH_WAVES | SCRATCH_WAVE / 256 << 12,
        .scratch_base = SCRATCH_VA, .scratch_waves = SCRATCH_WAVES,
        .user_data = { (u32)(DATA_VA + ARGS_OFF), (u32)((DATA_VA + ARGS_OFF) >> 32) },
        .threads = { threads, 1, 1 }, .groups = { n_groups, 1, 1 }, .wave32 = true,
    };
    for (u32 g = 0; g < n_groups; g++) {
        memset(p->mem, 0, 4096);
        struct isa_group *grp = isa_group_create(&l, (const u32[3]){ g, 0, 0 }, 0);
        ck_assert_ptr_nonnull(grp);
        enum isa_status rc = isa_group_run(grp, 20000000);
        if (rc != ISA_DONE)
            printf("%s %s%s: %s\n", p->chip->name, prefix, name,
                   rc == ISA_MORE ? "does not end" : isa_group_fault(grp)->text);
        isa_group_destroy(grp);
        if (rc != ISA_DONE)
            return false;
    }
    return true;
}

static bool differ(const struct program *p, const char *prefix, const struct fold_case *c, const struct in *x, u32 i,
                   u64 got, u64 want)
{
    if (got == want)
        return false;
    printf("%s %s%s, input %u: %016llx, not %016llx; a %08x b %08x c %08x f %a g %a h %a A %016llx B %016llx d %a "
           "e %a\n", p->chip->name, prefix, c->name, i, want, got, x->a, x->b, x->c, (double)x->f, (double)x->g,
           (double)x->h, x->A, x->B, x->d, x->e);
    return true;
}

static u32 run_case(struct program *p, const uint8_t *elf, const struct fold_case *c)
{
    static u64 want[N_INPUTS];
    u32 bad = 0;
    for (u32 g = 0; g < N_GROUPS; g++) {
        static u32 mem[1024];
        memset(mem, 0, sizeof mem);
        c->host(p->in + 64 * g, want + 64 * g, mem);
    }
    u64 kd = descriptor_of(elf, "l_", c->name);
    ck_assert_msg(kd != 0, "no kernel %s", c->name);
    memset(p->out, 0xee, N_INPUTS * 8);
    if (!run_kernel(p, kd, "l_", c->name, 64, N_GROUPS))
        bad = 1;
    for (u32 i = 0; i < N_INPUTS && !bad; i++)
        bad = differ(p, "l_", c, &p->in[i], i, p->out[i], want[i]);
    if (!c->uniform_too)
        return bad;
    kd = descriptor_of(elf, "u_", c->name);
    memset(p->out, 0xee, N_INPUTS * 8);
    if (!run_kernel(p, kd, "u_", c->name, 1, N_UNIFORM))
        return bad + 1;
    for (u32 i = 0; i < N_UNIFORM; i++)
        if (differ(p, "u_", c, &p->in[i], i, p->out[i], want[i]))
            return bad + 1;
    return bad;
}

static void fold_on(const char *chip)
{
    struct program p = { .chip = chip_find(chip), .vm = vm_create() };
    p.code = isa_code_create(p.chip);
    u64 elf_bytes;
    uint8_t *elf = compile(&p, &elf_bytes), *data = pages(DATA_BYTES);
    uint8_t *scratch_mem = pages(SCRATCH_WAVE * SCRATCH_WAVES);
    p.in = (void *)data, p.out = (void *)(data + OUT_OFF);
    p.mem = (void *)(data + MEM_OFF), p.args = (void *)(data + ARGS_OFF);
    ck_assert_uint_le(sizeof(struct in) * N_INPUTS, OUT_OFF);
    ck_assert_int_eq(vm_map(p.vm, CODE_VA, p.bytes, p.image, VM_VALID | VM_EXEC), 0);
    ck_assert_int_eq(vm_map(p.vm, DATA_VA, DATA_BYTES, data, VM_VALID | VM_WRITE), 0);
    ck_assert_int_eq(vm_map(p.vm, SCRATCH_VA, SCRATCH_WAVE * SCRATCH_WAVES, scratch_mem, VM_VALID | VM_WRITE), 0);
    make_inputs(p.in);
    p.args[0] = DATA_VA, p.args[1] = DATA_VA + OUT_OFF, p.args[2] = DATA_VA + MEM_OFF;
    u32 bad = 0;
    for (u32 i = 0; i < N_CASES; i++)
        bad += run_case(&p, elf, &fold_cases[i]);
    free(elf);
    isa_code_destroy(p.code);
    vm_destroy(p.vm);
    ck_assert_msg(bad == 0, "%s: %u kernels differ from the host", chip, bad);
}

START_TEST(on_gfx1100)
{
    fold_on("gfx1100");
}
END_TEST
START_TEST(on_gfx1151)
{
    fold_on("gfx1151");
}
END_TEST
START_TEST(on_gfx1201)
{
    fold_on("gfx1201");
}
END_TEST

int main(void)
{
    if (system("echo 'void f(void) {}' | clang-19 --target=amdgcn-amd-amdhsa -mcpu=gfx1201 -nogpulib -fuse-ld=lld "
               "-x c - -o /dev/null >/dev/null 2>&1")) {
        puts("no clang-19 with lld that compiles for amdgcn");
        return 77;
    }
    return RUN_TESTS("amdsim: C on the device and on the host", on_gfx1100, on_gfx1151, on_gfx1201);
}
