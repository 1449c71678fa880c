/* rt/amd/code.c: code objects: ELF files for amdhsa, their kernels' descriptors. What is in the file is believed only
 * after it was compared with the file's size. Layout of descriptors: LLVM's AMDGPU usage guide, the same in code object
 * versions 4 to 6. */
#include <errno.h>
#include <gelf.h>
#include <libelf.h>
#include <string.h>

#include "base/ckd.h"
#include "rt/amd/amd.h"

enum {
    MACHINE_AMDGPU = 224,
    OSABI_HSA = 64,
    ABI_V4 = 2,
    ABI_V6 = 4,
    FLAG_MACH = 0xff,
    FLAG_GENERIC_SHIFT = 24, /* version of a generic target; only one is defined */
    GENERIC_VERSION = 1,
    DESCRIPTOR_BYTES = 64,
    ENTRY_ALIGN = 256,
    READ_AHEAD = 256, /* the instruction fetcher goes beyond the last instruction */
    LDS_MAX = 64 << 10,
};
#define IMAGE_MAX ((uint64_t)256 << 20)

/* kernel_code_properties */
enum {
    PROP_SEGMENT_BUFFER = 1 << 0,
    PROP_DISPATCH_PTR = 1 << 1,
    PROP_QUEUE_PTR = 1 << 2,
    PROP_KERNARG_PTR = 1 << 3,
    PROP_DISPATCH_ID = 1 << 4,
    PROP_FLAT_SCRATCH = 1 << 5,
    PROP_SEGMENT_SIZE = 1 << 6,
    PROP_WAVE32 = 1 << 10,
    PROP_DYNAMIC_STACK = 1 << 11,
    PROP_UNKNOWN = PROP_SEGMENT_BUFFER | PROP_QUEUE_PTR | PROP_DISPATCH_ID | PROP_FLAT_SCRATCH | PROP_SEGMENT_SIZE,
};

static bool inside(uint64_t off, uint64_t n, uint64_t all)
{
    return off <= all && n <= all - off;
}

static int check_header(const GElf_Ehdr *h, const struct amd_chip *chip, const char *what, struct err *e)
{
    if (h->e_ident[EI_CLASS] != ELFCLASS64 || h->e_ident[EI_DATA] != ELFDATA2LSB || h->e_machine != MACHINE_AMDGPU ||
        h->e_ident[EI_OSABI] != OSABI_HSA || h->e_type != ET_DYN)
        return err_set(e, -EINVAL, "%s is not an AMD code object: machine %u, system %u, type %u; expected "
                       "224, 64, 3",
                       what, h->e_machine, h->e_ident[EI_OSABI], h->e_type);
    if (h->e_ident[EI_ABIVERSION] < ABI_V4 || h->e_ident[EI_ABIVERSION] > ABI_V6)
        return err_set(e, -ENOTSUP, "%s: code object version with ABI byte %u; 2 to 4 are known", what,
                       h->e_ident[EI_ABIVERSION]);
    bool generic = h->e_ident[EI_ABIVERSION] == ABI_V6 && (h->e_flags & FLAG_MACH) == chip->target_mach &&
                   h->e_flags >> FLAG_GENERIC_SHIFT == GENERIC_VERSION;
    if ((h->e_flags & FLAG_MACH) != chip->elf_mach && !generic)
        return err_set(e, -EINVAL, "%s is for machine 0x%x, %s is 0x%x", what, h->e_flags & FLAG_MACH,
                       chip->name,
                       chip->elf_mach);
    return 0;
}

static int add_segment(struct amd_code *c, const GElf_Phdr *p, const char *what, struct err *e)
{
    if (c->n_segments == AMD_MAX_SEGMENTS)
        return err_set(e, -EINVAL, "%s has more than %d segments", what, AMD_MAX_SEGMENTS);
    if (!inside(p->p_offset, p->p_filesz, c->n) || p->p_filesz > p->p_memsz || p->p_vaddr > IMAGE_MAX ||
        p->p_memsz > IMAGE_MAX)
        return err_set(e, -EINVAL, "%s: a segment of %llu bytes at %llu (%llu in memory at %llu) does not fit "
                       "the file's %llu bytes", what, (unsigned long long)p->p_filesz,
                       (unsigned long long)p->p_offset,
                       (unsigned long long)p->p_memsz, (unsigned long long)p->p_vaddr, (unsigned long long)c->n);
    uint32_t i = c->n_segments++;
    c->segment[i].off = p->p_offset;
    c->segment[i].file_bytes = p->p_filesz;
    c->segment[i].va = p->p_vaddr;
    c->segment[i].mem_bytes = p->p_memsz;
    c->segment[i].code = p->p_flags & PF_X;
    c->image_bytes = MAX(c->image_bytes, align_up(p->p_vaddr + p->p_memsz + READ_AHEAD, AMD_PAGE));
    return 0;
}

/* The symbol table, .symtab rather than .dynsym; no relocations: the code finds its data relative to itself. */
static int read_sections(Elf *elf, struct amd_code *c, const char *what, struct err *e)
{
    GElf_Shdr h, str;
    bool full = false;
    for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
        if (!gelf_getshdr(s, &h))
            return err_set(e, -EINVAL, "%s: %s", what, elf_errmsg(-1));
        if ((h.sh_type == SHT_RELA || h.sh_type == SHT_REL) && h.sh_size)
            return err_set(e, -ENOTSUP, "%s has relocations; link it with -shared and without external symbols",
                           what);
        if ((h.sh_type != SHT_SYMTAB && h.sh_type != SHT_DYNSYM) || full)
            continue;
        Elf_Scn *names = elf_getscn(elf, h.sh_link);
        if (!names || !gelf_getshdr(names, &str) || str.sh_type != SHT_STRTAB || !inside(h.sh_offset, h.sh_size,
                                                                                         c->n) ||
            !inside(str.sh_offset, str.sh_size, c->n) || !str.sh_size || c->elf[str.sh_offset + str.sh_size - 1])
            return err_set(e, -EINVAL, "%s: the symbol table lies outside the file or has no names", what);
        c->symbols = h.sh_offset;
        c->n_symbols = h.sh_size / sizeof(Elf64_Sym);
        c->strings = str.sh_offset;
        c->strings_bytes = str.sh_size;
        full = h.sh_type == SHT_SYMTAB;
    }
    return c->n_symbols ? 0 : err_set(e, -EINVAL, "%s has no symbols", what);
}

static int parse(Elf *elf, const struct amd_chip *chip, const char *what, struct amd_code *c, struct err *e)
{
    GElf_Ehdr h;
    size_t n_ph = 0;
    if (elf_kind(elf) != ELF_K_ELF || !gelf_getehdr(elf, &h) || elf_getphdrnum(elf, &n_ph))
        return err_set(e, -EINVAL, "%s is not an ELF file: %s", what, elf_errmsg(-1));
    int rc = check_header(&h, chip, what, e);
    for (size_t i = 0; i < n_ph && !rc; i++) {
        GElf_Phdr p;
        if (!gelf_getphdr(elf, (int)i, &p))
            return err_set(e, -EINVAL, "%s: program header %zu: %s", what, i, elf_errmsg(-1));
        if (p.p_type == PT_LOAD)
            rc = add_segment(c, &p, what, e);
    }
    if (!rc && !c->n_segments)
        rc = err_set(e, -EINVAL, "%s has nothing to load", what);
    return rc ? rc : read_sections(elf, c, what, e);
}

int amd_code_parse(const void *bytes, uint64_t n, const struct amd_chip *chip, const char *what, struct amd_code *out,
                   struct err *e)
{
    *out = (struct amd_code){ .elf = bytes, .n = n };
    elf_version(EV_CURRENT);
    Elf *elf = n ? elf_memory((char *)(uintptr_t)bytes, n) : NULL;
    if (!elf)
        return err_set(e, -EINVAL, "%s (%llu bytes) is not an ELF file", what, (unsigned long long)n);
    int rc = parse(elf, chip, what, out, e);
    elf_end(elf);
    return rc;
}

/* A symbol's value; false: there is none of that name. */
static bool find_symbol(const struct amd_code *c, const char *name, const char *suffix, uint64_t *va)
{
    size_t n = strlen(name), m = strlen(suffix);
    for (uint64_t i = 0; i < c->n_symbols; i++) {
        Elf64_Sym s;
        memcpy(&s, c->elf + c->symbols + i * sizeof s, sizeof s);
        if (s.st_name >= c->strings_bytes || s.st_shndx == SHN_UNDEF || n + m + 1 > c->strings_bytes - s.st_name)
            continue;
        const char *at = (const char *)c->elf + c->strings + s.st_name;
        if (memcmp(at, name, n) == 0 && memcmp(at + n, suffix, m + 1) == 0) {
            *va = s.st_value;
            return true;
        }
    }
    return false;
}

/* n bytes of the image at va, as they stand in the file. */
static const uint8_t *in_file(const struct amd_code *c, uint64_t va, uint64_t n)
{
    for (uint32_t i = 0; i < c->n_segments; i++)
        if (va >= c->segment[i].va && inside(va - c->segment[i].va, n, c->segment[i].file_bytes))
            return c->elf + c->segment[i].off + (va - c->segment[i].va);
    return NULL;
}

static bool is_code(const struct amd_code *c, uint64_t va)
{
    for (uint32_t i = 0; i < c->n_segments; i++)
        if (c->segment[i].code && va >= c->segment[i].va && inside(va - c->segment[i].va, 4,
                                                                   c->segment[i].file_bytes))
            return true;
    return false;
}

static uint32_t u32_at(const uint8_t *p, uint32_t off)
{
    uint32_t v;
    memcpy(&v, p + off, sizeof v);
    return v;
}

int amd_code_kernel(const struct amd_code *c, const char *name, struct amd_kernel *out, struct err *e)
{
    enum { LDS = 0, SCRATCH = 4, KERNARG = 8, ENTRY = 16, RSRC3 = 44, RSRC1 = 48, RSRC2 = 52, PROPERTIES = 56 };
    uint64_t kd;
    int64_t entry;
    *out = (struct amd_kernel){ 0 };
    if (!find_symbol(c, name, ".kd", &kd))
        return err_set(e, -ENOENT, "the code object has no kernel %s", name);
    const uint8_t *d = in_file(c, kd, DESCRIPTOR_BYTES);
    if (!d || kd % DESCRIPTOR_BYTES)
        return err_set(e, -EINVAL, "kernel %s: its descriptor at 0x%llx is outside the object or not aligned",
                       name,
                       (unsigned long long)kd);
    uint32_t props = u32_at(d, PROPERTIES) & 0xffff;
    memcpy(&entry, d + ENTRY, sizeof entry);
    snprintf(out->name, sizeof out->name, "%s", name);
    out->entry = kd + (uint64_t)entry;
    out->lds_bytes = u32_at(d, LDS);
    out->scratch_bytes = u32_at(d, SCRATCH);
    out->kernarg_bytes = u32_at(d, KERNARG);
    out->rsrc1 = u32_at(d, RSRC1);
    out->rsrc2 = u32_at(d, RSRC2);
    out->rsrc3 = u32_at(d, RSRC3);
    out->dispatch_ptr = props & PROP_DISPATCH_PTR;
    out->dynamic_stack = props & PROP_DYNAMIC_STACK;
    out->vgprs = ((out->rsrc1 & 0x3f) + 1) * 8;
    if (out->entry % ENTRY_ALIGN || !is_code(c, out->entry))
        return err_set(e, -EINVAL, "kernel %s: its entry 0x%llx is not code or not a multiple of %d", name,
                       (unsigned long long)out->entry, ENTRY_ALIGN);
    if (!(props & PROP_WAVE32))
        return err_set(e, -ENOTSUP, "kernel %s is for waves of 64; compile it with -mno-wavefrontsize64", name);
    if (!(props & PROP_KERNARG_PTR) || props & PROP_UNKNOWN)
        return err_set(e, -ENOTSUP, "kernel %s wants registers that zinc does not fill (properties 0x%04x)",
                       name, props);
    if (out->lds_bytes > LDS_MAX || out->kernarg_bytes > AMD_PAGE)
        return err_set(e, -EINVAL, "kernel %s wants %u bytes of LDS and %u of arguments; %d and %d are there",
                       name,
                       out->lds_bytes, out->kernarg_bytes, LDS_MAX, AMD_PAGE);
    return 0;
}

void amd_code_image(const struct amd_code *c, uint8_t *out)
{
    memset(out, 0, c->image_bytes);
    for (uint32_t i = 0; i < c->n_segments; i++)
        memcpy(out + c->segment[i].va, c->elf + c->segment[i].off, c->segment[i].file_bytes);
}
