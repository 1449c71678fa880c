/* Opcodes of the vector ALU: every number of every format means to us what it means to LLVM's disassembler. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/lib/run.h"
#include "tools/amdsim/isa/inst.h"

enum { MAX_CODES = 4096 };

/* An opcode and two dwords that encode it, with operands that every instruction of the format accepts if it
 * exists. */
struct code {
    enum inst_format format;
    uint32_t op, dw[3];
};

static size_t all_codes(struct code *out)
{
    size_t n = 0;
    for (uint32_t op = 0; op < 0x80; op++)
        out[n++] = (struct code){ F_VOP1, op, { 0x7e000000 | 2u << 17 | op << 9 | 0x104, 0xbf800000, 0xbf800000 } };
    for (uint32_t op = 0; op < 0x3e; op++)
        out[n++] = (struct code){ F_VOP2, op, { op << 25 | 2u << 17 | 4u << 9 | 0x106, 0xbf800000, 0xbf800000 } };
    for (uint32_t op = 0; op < 0x100; op++)
        out[n++] = (struct code){ F_VOPC, op, { 0x7c000000 | op << 17 | 4u << 9 | 0x106, 0xbf800000, 0xbf800000 } };
    for (uint32_t op = 0x200; op < 0x400; op++) {
        bool carries = op >= 0x2fc && op <= 0x302;
        out[n++] = (struct code){
            carries ? F_VOP3SD : F_VOP3,
            op,
            {0xd4000000 | op << 16 | (carries ? 6u << 8 : 0) | 2,
             0x104u | 0x106u << 9 | (op == 0x300 || op == 0x301 || op == 0x302 ? 0 : 0x108u << 18), 0xbf800000}};
    }
    for (uint32_t op = 0; op < 0x40; op++)
        out[n++] = (struct code){
            F_VOP3P,
            op,
            {0xcc000000 | op << 16 | 0x4000 | 2, 0x104u | 0x106u << 9 | 0x108u << 18 | 3u << 27, 0xbf800000}};
    return n;
}

/* The instruction's name without what tells the encodings apart; "" when LLVM knows none. */
static void mnemonic(const char *line, char *out)
{
    while (isspace((unsigned char)*line))
        line++;
    size_t n = strcspn(line, " \t\n");
    memcpy(out, line, n);
    out[n] = 0;
    for (const char *const *s = (const char *const[]){ "_e32", "_e64", "_dpp", NULL }; *s; s++)
        if (n > 4 && strcmp(out + n - 4, *s) == 0)
            out[n - 4] = 0;
}

/* Some need operands that others refuse: no third source, scalars. */
static void other_operands(struct code *c, int variant)
{
    if (variant == 1 && c->format >= F_VOP3)
        c->dw[1] &= ~(0x1ffu << 18);
    if (variant < 2)
        return;
    if (c->format == F_VOP1)
        c->dw[0] = (c->dw[0] & ~0x1ffu) | 4;
    else if (c->format == F_VOP3)
        c->dw[1] = c->op == 0x360                    ? 0x104u | 4u << 9
                   : c->op >= 0x280 && c->op < 0x290 ? 4
                                                     : 0x104u | 6u << 9 | 8u << 18;
}

/* Names of those codes that have none yet. Every code is a line of bytes and a line with a mark that says where it
 * ends; LLVM complains by line about what it does not know and goes on in the middle of it. */
static void ask_llvm(const char *chip, struct code *codes, size_t n, char (*names)[64], int variant)
{
    char dir[] = "/tmp/valu_codes.XXXXXX", cmd[512], in[64], out[64], err[64], line[512], first[512] = "";
    static bool invalid[2 * MAX_CODES];
    static size_t line_of[MAX_CODES];
    size_t lines = 0;
    unsigned at, mark;
    ck_assert(mkdtemp(dir) != NULL);
    snprintf(in, sizeof in, "%s/in", dir);
    snprintf(out, sizeof out, "%s/out", dir);
    snprintf(err, sizeof err, "%s/err", dir);
    memset(invalid, 0, sizeof invalid);
    FILE *f = fopen(in, "w");
    for (size_t i = 0; i < n; i++) {
        struct code c = codes[i];
        if (names[i][0])
            continue;
        other_operands(&c, variant);
        for (int k = 0; k < 12; k++)
            fprintf(f, "0x%02x ", c.dw[k / 4] >> 8 * (k % 4) & 255);
        fprintf(f, "\n0x%02x 0x%02x 0x80 0xbf\n", (unsigned)(i & 255), (unsigned)(i >> 8));
        line_of[i] = lines + 1;
        lines += 2;
    }
    fclose(f);
    snprintf(cmd, sizeof cmd, "llvm-mc-19 --arch=amdgcn --mcpu=%s --disassemble %s > %s 2> %s", chip, in, out, err);
    int rc = system(cmd);
    (void)rc; /* not 0 when anything was unknown */
    f = fopen(err, "r");
    while (fgets(line, sizeof line, f))
        if (strncmp(line, in, strlen(in)) == 0 && sscanf(line + strlen(in), ":%u:1: warning", &at) == 1 &&
            at <= lines && strstr(line, ":1: warning"))
            invalid[at] = true;
    fclose(f);
    f = fopen(out, "r");
    while (fgets(line, sizeof line, f)) {
        if (sscanf(line, " s_nop %i", (int *)&mark) == 1 && mark && mark < n) {
            if (first[0] && !invalid[line_of[mark]] && !names[mark][0])
                mnemonic(first, names[mark]);
            first[0] = 0;
        } else if (strstr(line, "v_") && !first[0]) {
            strcpy(first, line);
        }
    }
    fclose(f);
    unlink(in);
    unlink(out);
    unlink(err);
    rmdir(dir);
}

/* LLVM 19 does not know these two: the pipeline flush has no assembler form, the swap of halves needs true16. */
static bool llvm_lacks(const char *ours)
{
    return strcmp(ours, "v_pipeflush") == 0 || strcmp(ours, "v_swap_b16") == 0;
}

static void compare(const char *chip)
{
    static struct code codes[MAX_CODES];
    static char names[MAX_CODES][64];
    const struct chip *c = chip_find(chip);
    memset(names, 0, sizeof names);
    size_t n = all_codes(codes);
    for (int variant = 0; variant < 3; variant++)
        ask_llvm(chip, codes, n, names, variant);
    size_t bad = 0, seen = 0;
    for (size_t i = 1; i < n; i++) { /* the mark of number 0 is an s_nop 0; it is v_nop */
        const char *ours = "";
        if (!valu_find(c, codes[i].format, codes[i].op, &ours))
            ours = "";
        seen += ours[0] != 0;
        if (strcmp(ours, names[i]) != 0 && !(names[i][0] == 0 && llvm_lacks(ours))) {
            fprintf(stderr, "%s: format %d op 0x%03x: LLVM says '%s', we '%s'\n", chip, codes[i].format, codes[i].op,
                    names[i], ours);
            bad++;
        }
    }
    ck_assert_msg(seen > 400, "%s: only %zu instructions", chip, seen);
    ck_assert_msg(bad == 0, "%s: %zu opcodes differ", chip, bad);
}

START_TEST(gfx1100)
{
    compare("gfx1100");
}
END_TEST
START_TEST(gfx1151)
{
    compare("gfx1151");
}
END_TEST
START_TEST(gfx1200)
{
    compare("gfx1200");
}
END_TEST
START_TEST(gfx1201)
{
    compare("gfx1201");
}
END_TEST

int main(void)
{
    if (system("llvm-mc-19 --version > /dev/null 2>&1")) {
        puts("no llvm-mc-19");
        return 77;
    }
    return RUN_TESTS("valu_codes", gfx1100, gfx1151, gfx1200, gfx1201);
}
