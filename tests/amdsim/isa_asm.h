/* tests/amdsim/isa_asm.h
 * Tests of instructions: assembles snippets with clang-19, runs each as one wave, and shows its registers.
 *
 *     if (!asm_available()) return 77;                                  in main, before the suite
 *     static const char *const text[] = { "v_add_f32 v0, v1, v2", "s_mov_b32 s0, 7\n s_add_co_u32 s1, s0, s0" };
 *     struct asm_unit *u = asm_build("gfx1201", text, 2);               one call of clang for all of them
 *     struct asm_wave *w = asm_wave_new(u);                             EXEC full, MODE as clang's kernels have it
 *     w->v[1][0] = 0x3f800000, w->s[4] = 1;
 *     asm_run(u, 0, w);                                                 registers as s_endpgm (added) found them
 *     uint8_t *p = asm_buffer(u, 0x200000, 4096);                       memory for the snippets at that address
 *
 * asm_launch gives the launch behind asm_run, to be changed and run with asm_group for work-groups of several waves.
 * What cannot go on ends the test with a line on stderr. */
#ifndef AMDSIM_TESTS_ISA_ASM_H
#define AMDSIM_TESTS_ISA_ASM_H

#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/amdsim/isa/group.h"

#define ASM_CODE_VA 0x7f0000000000ull
#define ASM_SCRATCH_VA 0x7e0000000000ull
enum { ASM_SCRATCH_PER_WAVE = 64 * 1024, ASM_SCRATCH_WAVES = 32 };

struct asm_unit {
    const struct chip *chip;
    struct vm *vm;
    struct isa_code *code;
    uint8_t *text;
    uint64_t text_bytes, *at; /* of each snippet */
    size_t n;
};

struct asm_wave {
    uint32_t v[256][WAVE_LANES];
    uint32_t s[128]; /* VCC, M0, EXEC at their codes */
    uint32_t scc, mode;
    enum isa_status status;
    struct isa_fault fault;
};

static inline __attribute__((noreturn)) void asm_die(const char *what)
{
    fprintf(stderr, "isa_asm: %s\n", what);
    exit(1);
}

static inline bool asm_available(void)
{
    if (system("clang-19 --target=amdgcn-amd-amdhsa -mcpu=gfx1201 -x assembler -c /dev/null -o /dev/null "
               ">/dev/null 2>&1") == 0)
        return true;
    puts("no clang-19 that assembles for amdgcn");
    return false;
}

static inline uint8_t *asm_pages(uint64_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p == MAP_FAILED)
        asm_die("out of memory");
    return p;
}

static inline uint8_t *asm_buffer_flags(struct asm_unit *u, gva va, uint64_t bytes, uint32_t flags)
{
    bytes = (bytes + VM_PAGE - 1) & ~(uint64_t)(VM_PAGE - 1);
    uint8_t *p = asm_pages(bytes);
    if (vm_map(u->vm, va, bytes, p, flags))
        asm_die("vm_map");
    return p;
}
static inline uint8_t *asm_buffer(struct asm_unit *u, gva va, uint64_t bytes)
{
    return asm_buffer_flags(u, va, bytes, VM_VALID | VM_WRITE | VM_HOST);
}

static inline uint8_t *asm_read_file(const char *path, uint64_t *bytes)
{
    FILE *f = fopen(path, "rb");
    if (!f)
        asm_die("no object file");
    fseek(f, 0, SEEK_END);
    *bytes = (uint64_t)ftell(f);
    rewind(f);
    uint8_t *p = malloc(*bytes + 1);
    if (!p || fread(p, 1, *bytes, f) != *bytes)
        asm_die("object file cannot be read");
    fclose(f);
    return p;
}

/* Takes .text and the addresses of the labels snip0.. out of the object. */
static inline void asm_take(struct asm_unit *u, const uint8_t *elf)
{
    const Elf64_Ehdr *h = (const void *)elf;
    const Elf64_Shdr *sh = (const void *)(elf + h->e_shoff);
    const char *names = (const char *)elf + sh[h->e_shstrndx].sh_offset;
    for (int i = 0; i < h->e_shnum; i++)
        if (!strcmp(names + sh[i].sh_name, ".text")) {
            u->text_bytes = (sh[i].sh_size + 2 * VM_PAGE - 1) & ~(uint64_t)(VM_PAGE - 1);
            u->text = asm_pages(u->text_bytes);
            memcpy(u->text, elf + sh[i].sh_offset, sh[i].sh_size);
        }
    for (int i = 0; i < h->e_shnum; i++) {
        if (sh[i].sh_type != SHT_SYMTAB)
            continue;
        const Elf64_Sym *sym = (const void *)(elf + sh[i].sh_offset);
        const char *str = (const char *)elf + sh[sh[i].sh_link].sh_offset;
        for (uint64_t k = 0; k < sh[i].sh_size / sizeof *sym; k++) {
            unsigned idx;
            if (sscanf(str + sym[k].st_name, "snip%u", &idx) == 1 && idx < u->n)
                u->at[idx] = sym[k].st_value;
        }
    }
}

static inline struct asm_unit *asm_build(const char *chip, const char *const *snippets, size_t n)
{
    struct asm_unit *u = calloc(1, sizeof *u);
    char dir[] = "/tmp/isa_asm.XXXXXX", path[64], cmd[512];
    if (!u || !(u->at = calloc(n + 1, sizeof *u->at)) || !mkdtemp(dir))
        asm_die("out of memory, or /tmp cannot be written");
    u->chip = chip_find(chip);
    u->n = n;
    snprintf(path, sizeof path, "%s/t.s", dir);
    FILE *f = fopen(path, "w");
    if (!f || !u->chip)
        asm_die("no file in /tmp, or no such chip");
    fprintf(f, ".text\n");
    for (size_t i = 0; i < n; i++)
        fprintf(f, ".p2align 8\nsnip%zu:\n%s\ns_endpgm\n", i, snippets[i]);
    fprintf(f, ".fill 64, 4, 0xbf9f0000\n"); /* s_code_end */
    fclose(f);
    snprintf(cmd, sizeof cmd, "clang-19 -x assembler --target=amdgcn-amd-amdhsa -mcpu=%s -c -o %s/t.o %s/t.s", chip,
             dir, dir);
    if (system(cmd))
        asm_die("clang-19 does not assemble it");
    snprintf(path, sizeof path, "%s/t.o", dir);
    uint64_t bytes;
    uint8_t *elf = asm_read_file(path, &bytes);
    asm_take(u, elf);
    free(elf);
    unlink(path);
    snprintf(path, sizeof path, "%s/t.s", dir);
    unlink(path);
    rmdir(dir);
    u->vm = vm_create();
    u->code = isa_code_create(u->chip);
    if (!u->vm || !u->code || !u->text)
        asm_die("out of memory");
    if (vm_map(u->vm, ASM_CODE_VA, u->text_bytes, u->text, VM_VALID | VM_EXEC | VM_HOST))
        asm_die("vm_map");
    asm_buffer(u, ASM_SCRATCH_VA, ASM_SCRATCH_PER_WAVE * ASM_SCRATCH_WAVES);
    return u;
}

static inline uint32_t asm_mode(const struct chip *c) { return c->gfx12 ? 0xf0 : 0x3f0; }

static inline struct asm_wave *asm_wave_new(const struct asm_unit *u)
{
    struct asm_wave *w = calloc(1, sizeof *w);
    if (!w)
        asm_die("out of memory");
    w->s[OPND_EXEC] = ~0u;
    w->mode = asm_mode(u->chip);
    return w;
}

static inline uint64_t asm_clock(void)
{
    static uint64_t now;
    return now += 100;
}

/* One wave of 32 threads with 256 VGPRs, 64 KiB of LDS and scratch; two user SGPRs, the x of its id in the next. */
static inline struct isa_launch asm_launch(const struct asm_unit *u, size_t snippet)
{
    struct isa_launch l = {
        .chip = u->chip,
        .vm = u->vm,
        .code = u->code,
        .entry = ASM_CODE_VA + u->at[snippet],
        .rsrc1 = 31u | (u->chip->gfx12 ? 0xf0u << 12 : 0xf0u << 12 | 1u << 21 | 1u << 23),
        .rsrc2 = 1u | 2u << 1 | 1u << 7 | 128u << 15,
        .tmpring = ASM_SCRATCH_WAVES | (ASM_SCRATCH_PER_WAVE / 256u) << 12,
        .scratch_base = ASM_SCRATCH_VA,
        .scratch_waves = ASM_SCRATCH_WAVES,
        .threads = { 32, 1, 1 },
        .groups = { 1, 1, 1 },
        .wave32 = true,
        .clock = asm_clock,
    };
    return l;
}

static inline void asm_put(struct wave *to, const struct asm_wave *w)
{
    memcpy(to->v, w->v, sizeof w->v[0] * (to->n_vgpr < 256 ? to->n_vgpr : 256));
    for (int i = 0; i < 128; i++)
        if ((i < OPND_TTMP || i > OPND_NULL) && i != OPND_NULL)
            to->s[i] = w->s[i];
    to->scc = w->scc;
    to->mode = w->mode;
}

static inline void asm_get(struct asm_wave *w, const struct wave *from)
{
    memcpy(w->v, from->v, sizeof w->v[0] * (from->n_vgpr < 256 ? from->n_vgpr : 256));
    memcpy(w->s, from->s, sizeof w->s);
    w->scc = from->scc;
    w->mode = from->mode;
}

/* Runs a work-group whose waves start with the registers of w[0..n-1] (NULL: as the hardware sets them) and end
 * there. */
static inline enum isa_status asm_group(const struct isa_launch *l, struct asm_wave *const *w, uint32_t n)
{
    struct isa_group *g = isa_group_create(l, l->start, 0);
    if (!g)
        asm_die("no memory for a work-group");
    for (uint32_t i = 0; w && i < n; i++)
        asm_put(&g->w[i], w[i]);
    enum isa_status rc = isa_group_run(g, 10000000);
    for (uint32_t i = 0; w && i < n; i++) {
        asm_get(w[i], &g->w[i]);
        w[i]->status = rc;
        w[i]->fault = *isa_group_fault(g);
    }
    isa_group_destroy(g);
    return rc;
}

/* What the wave may end with besides s_endpgm: w->status and w->fault say. */
static inline enum isa_status asm_try(const struct asm_unit *u, size_t snippet, struct asm_wave *w)
{
    struct isa_launch l = asm_launch(u, snippet);
    return asm_group(&l, &w, 1);
}
static inline void asm_run(const struct asm_unit *u, size_t snippet, struct asm_wave *w)
{
    if (asm_try(u, snippet, w) == ISA_DONE)
        return;
    fprintf(stderr, "snippet %zu: %s\n", snippet, w->status == ISA_MORE ? "does not end" : w->fault.text);
    exit(1);
}

static inline void asm_free(struct asm_unit *u)
{
    isa_code_destroy(u->code);
    vm_destroy(u->vm);
    munmap(u->text, u->text_bytes);
    free(u->at);
    free(u);
}

#endif
