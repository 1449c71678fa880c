/* The decoder against llvm-objdump: every instruction has the length that the disassembler says, its name, and
 * somebody who executes it. First on our own kernels' code objects (ISA_DECODE_ALL=1: all of them instead of
 * some), then on every opcode of every format. */
#include <check.h>
#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/amdsim/isa/inst.h"

static const char *const chip_names[] = { "gfx1100", "gfx1151", "gfx1200", "gfx1201" };

/* One line of llvm-objdump: "\tv_mov_b32_e32 v0, 1    // 000000001234: 7E000281". */
struct line {
    char name[64];
    uint64_t va;
    uint32_t dw[8], n;
};
static bool parse(char *text, struct line *l)
{
    char *c = strstr(text, "// ");
    memset(l, 0, sizeof *l);
    if (text[0] != '\t' || !c || sscanf(text, "\t%63s", l->name) != 1)
        return false;
    char *p;
    l->va = strtoull(c + 3, &p, 16);
    if (*p++ != ':')
        return false;
    for (; l->n < 8; l->n++) {
        char *end;
        l->dw[l->n] = (uint32_t)strtoul(p, &end, 16);
        if (end == p)
            break;
        p = end;
    }
    return l->n > 0;
}

/* v_add_f32_e64_dpp and v_add_f32 are the same; v_dual_mov_b32 names the first half. */
static bool same_name(const char *objdump, const char *ours)
{
    char a[64];
    snprintf(a, sizeof a, "%s", objdump);
    static const char *const suffixes[] = { "_dpp", "_e32", "_e64" };
    for (int i = 0; i < 3; i++) {
        size_t n = strlen(a), k = strlen(suffixes[i]);
        if (n > k && !strcmp(a + n - k, suffixes[i]))
            a[n - k] = 0;
    }
    return !strcmp(a, ours);
}

struct tally {
    unsigned insts, bad;
};
static void complain(struct tally *t, const char *file, const struct line *l, const char *what)
{
    if (t->bad++ < 40)
        fprintf(stderr, "%s: %llx %s %08x %08x: %s\n", file, (unsigned long long)l->va, l->name, l->dw[0], l->dw[1],
                what);
}

static void check_file(const struct chip *c, const char *file, struct tally *t)
{
    char cmd[512], text[1024];
    snprintf(cmd, sizeof cmd, "llvm-objdump-19 -d %s", file);
    FILE *f = popen(cmd, "r");
    ck_assert(f != NULL);
    while (fgets(text, sizeof text, f)) {
        struct line l;
        struct inst in;
        if (!parse(text, &l))
            continue;
        uint32_t dw[10];
        memcpy(dw, l.dw, sizeof l.dw);
        dw[l.n] = dw[l.n + 1] = 0xbf800000;
        int rc = inst_decode(c, dw, l.n + 2, &in);
        t->insts++;
        if (in.dwords != l.n)
            complain(t, file, &l, "another length");
        else if (rc)
            complain(t, file, &l, "nobody executes it");
        else if (!same_name(l.name, in.name))
            complain(t, file, &l, in.name);
    }
    pclose(f);
}

START_TEST(kernels_decode_as_the_disassembler_says)
{
    const struct chip *c = chip_find(chip_names[_i]);
    const char *build = getenv("ZINC_KERNELS");
    char pattern[256];
    glob_t g;
    struct tally t = { 0 };
    snprintf(pattern, sizeof pattern, "%s/%s/*.co", build ? build : "build/kernels", c->gfx12 ? "gfx12-generic" : "gfx11-generic");
    if (glob(pattern, 0, NULL, &g))
        return;
    bool all = getenv("ISA_DECODE_ALL") != NULL;
    for (size_t i = all ? 0 : (size_t)_i; i < g.gl_pathc; i += all ? 1 : 8)
        check_file(c, g.gl_pathv[i], &t);
    globfree(&g);
    ck_assert_uint_gt(t.insts, 1000);
    ck_assert_msg(t.bad == 0, "%s: %u of %u instructions", c->name, t.bad, t.insts);
}
END_TEST

/* ---- every opcode ---- */

/* An encoding to fill in: the first dword without opcode, where the opcode goes, how many there are, the other
 * dwords. */
struct encoding {
    const char *name;
    int gen; /* 11, 12, or 0: both */
    uint32_t first, shift, n_ops, rest[2];
};
#define VSRC3 (256u | 257u << 9 | 258u << 18)
static const struct encoding encodings[] = {
    { "SOP1", 0, 0xbe800000, 8, 256, { 0 } },
    { "SOP2", 0, 0x80000000, 23, 96, { 0 } }, /* above: SOPK */
    { "SOPC", 0, 0xbf000000, 16, 128, { 0 } },
    { "SOPK", 0, 0xb0000000, 23, 28, { 0 } },
    { "SOPP", 0, 0xbf800000, 16, 128, { 0 } },
    { "SMEM", 11, 0xf4000000, 18, 256, { 124u << 25 } },
    { "SMEM", 12, 0xf4000000, 13, 64, { 124u << 25 } },
    { "VOP1", 0, 0x7e000100, 9, 128, { 0 } },
    { "VOP2", 0, 0x00000100, 25, 62, { 0 } },
    { "VOPC", 0, 0x7c000100, 17, 256, { 0 } },
    { "VOP3", 0, 0xd4000000, 16, 1024, { VSRC3 } },
    { "VOP3P", 0, 0xcc004000, 16, 128, { VSRC3 | 3u << 27 } },
    { "DS", 0, 0xd8000000, 18, 256, { 0x04040200 } },
    { "FLAT", 11, 0xdc000000, 18, 128, { 0x047c0400 } },
    { "GLOBAL", 11, 0xdc020000, 18, 128, { 0x047c0400 } },
    { "SCRATCH", 11, 0xdc010000, 18, 128, { 0x04fc0400 } },
    { "FLAT", 12, 0xec00007c, 14, 256, { 0x02000004, 0 } },
    { "GLOBAL", 12, 0xee00007c, 14, 256, { 0x02000004, 0 } },
    { "SCRATCH", 12, 0xed00007c, 14, 256, { 0x02020004, 0 } },
    { "MUBUF", 11, 0xe0000000, 18, 256, { 0x7c010400 } },
    { "VBUFFER", 12, 0xc400007c, 14, 256, { 0x00800804, 0 } },
};
enum { N_ENCODINGS = sizeof encodings / sizeof *encodings, SLOT_DWORDS = 8, S_NOP = 0xbf800000 };

static bool of_chip(const struct encoding *e, const struct chip *c)
{
    return e->gen == 0 || (e->gen == 12) == c->gfx12;
}

static void fill_slot(const struct encoding *e, uint32_t op, uint32_t dw[SLOT_DWORDS])
{
    for (int i = 0; i < SLOT_DWORDS; i++)
        dw[i] = S_NOP;
    dw[0] = e->first | op << e->shift;
    for (int i = 0; i < 2 && e->rest[0]; i++)
        if (i == 0 || e->gen == 12)
            dw[1 + i] = e->rest[i];
    if (e->rest[0] && e->gen == 12 && !strcmp(e->name, "SMEM"))
        dw[2] = S_NOP;
}

/* What nobody runs on a compute wave, or what this model leaves out: each a decision, reported when met in a
 * kernel. */
static bool left_out(const char *name)
{
    static const char *const prefixes[] = {
        "buffer_load_format",
        "buffer_store_format",
        "buffer_load_d16_format",
        "buffer_load_d16_hi_format",
        "buffer_store_d16_format",
        "buffer_store_d16_hi_format",
        "tbuffer_", /* typed */
        "buffer_load_lds",
        "global_load_lds",
        "buffer_load_u8_lds",
        "ds_gws_",
        "ds_ordered_count",
        "ds_bvh_stack",
        "ds_add_gs_reg",
        "ds_sub_gs_reg",
        "s_atc_probe",
        "global_load_tr",
        "global_load_block",
        "global_store_block",
        "global_atomic_ordered_add",
        "scratch_load_block",
        "scratch_store_block",
        "s_rfe",
        "s_barrier_init",
        "s_barrier_join",
        "s_alloc_vgpr",
        "s_subvector_loop",
        "s_sendmsghalt",
        "s_wakeup_barrier",
        "s_endpgm_ordered_ps_done",
    };
    for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++)
        if (!strncmp(name, prefixes[i], strlen(prefixes[i])))
            return true;
    return false;
}

static void write_slots(const struct chip *c, FILE *f)
{
    for (int k = 0; k < N_ENCODINGS; k++)
        for (uint32_t op = 0; op < encodings[k].n_ops && of_chip(&encodings[k], c); op++) {
            uint32_t dw[SLOT_DWORDS];
            fill_slot(&encodings[k], op, dw);
            for (int i = 0; i < SLOT_DWORDS; i++)
                fprintf(f, ".long 0x%x\n", dw[i]);
        }
}

/* objdump's line of each slot's first address. */
static struct line *disassemble(const struct chip *c, size_t n_slots)
{
    char dir[] = "/tmp/isa_decode.XXXXXX", cmd[512], text[1024];
    struct line *lines = calloc(n_slots, sizeof *lines);
    ck_assert(lines && mkdtemp(dir));
    snprintf(cmd, sizeof cmd, "%s/t.s", dir);
    FILE *f = fopen(cmd, "w");
    ck_assert(f != NULL);
    write_slots(c, f);
    fclose(f);
    snprintf(
        cmd, sizeof cmd,
        "llvm-mc-19 --arch=amdgcn --mcpu=%s --filetype=obj -o %s/t.o %s/t.s && llvm-objdump-19 -d --mcpu=%s %s/t.o; "
        "rm -r %s",
        c->name, dir, dir, c->name, dir, dir);
    f = popen(cmd, "r");
    ck_assert(f != NULL);
    while (fgets(text, sizeof text, f)) {
        struct line l;
        if (parse(text, &l) && l.va % (4 * SLOT_DWORDS) == 0 && l.va / (4 * SLOT_DWORDS) < n_slots)
            lines[l.va / (4 * SLOT_DWORDS)] = l;
    }
    pclose(f);
    return lines;
}

START_TEST(every_opcode_of_the_disassembler_is_known)
{
    const struct chip *c = chip_find(chip_names[_i]);
    struct tally t = { 0 };
    size_t n_slots = 0, slot = 0;
    for (int k = 0; k < N_ENCODINGS; k++)
        n_slots += of_chip(&encodings[k], c) ? encodings[k].n_ops : 0;
    struct line *lines = disassemble(c, n_slots);
    for (int k = 0; k < N_ENCODINGS; k++)
        for (uint32_t op = 0; op < encodings[k].n_ops && of_chip(&encodings[k], c); op++, slot++) {
            const struct line *l = &lines[slot];
            uint32_t dw[SLOT_DWORDS];
            struct inst in;
            fill_slot(&encodings[k], op, dw);
            int rc = inst_decode(c, dw, SLOT_DWORDS, &in);
            bool known = l->n > 0 && l->name[0] != '.';
            t.insts += known;
            if (known && in.dwords != l->n)
                complain(&t, encodings[k].name, l, "another length");
            else if (known && rc && !left_out(l->name))
                complain(&t, encodings[k].name, l, "nobody executes it");
            else if (known && !rc && !same_name(l->name, in.name))
                complain(&t, encodings[k].name, l, in.name);
        }
    free(lines);
    ck_assert_uint_gt(t.insts, 800);
    ck_assert_msg(t.bad == 0, "%s: %u of %u opcodes", c->name, t.bad, t.insts);
}
END_TEST

int main(void)
{
    if (system("llvm-objdump-19 --version >/dev/null 2>&1") != 0) {
        puts("no llvm-objdump-19");
        return 77;
    }
    Suite *s = suite_create("isa decode");
    TCase *t = tcase_create("isa decode");
    tcase_set_timeout(t, 600);
    tcase_add_loop_test(t, every_opcode_of_the_disassembler_is_known, 0, 4);
    tcase_add_loop_test(t, kernels_decode_as_the_disassembler_says, 0, 4);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
