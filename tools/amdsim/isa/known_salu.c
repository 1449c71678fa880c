/* What is known in scalar registers of a strict launch. Bitwise instructions keep it bit by bit: of a lane mask only
 * the lanes that were compared with something unknown are unknown. The rules are in strict.h. */
#include "tools/amdsim/isa/strict.h"

#include <string.h>

enum { CODE_VCCZ = 251, CODE_SCC = 253 };

/* Whether VCC is 0 is known as soon as one known bit is set. */
static struct unknown vccz(const struct wave *w)
{
    struct unknown u = w->strict->s[OPND_VCC];
    if (w->s[OPND_VCC] & ~u.bits)
        u.bits = 0;
    return unknown_all(u);
}

struct unknown known_scalar(const struct wave *w, uint32_t code, bool pair)
{
    const struct strict *s = w->strict;
    if (code == CODE_SCC)
        return unknown_all(s->scc);
    if (code == CODE_VCCZ)
        return vccz(w);
    if (code >= 128 || code == OPND_NULL)
        return (struct unknown){ 0 };
    return pair ? unknown_or(s->s[code], s->s[code + 1]) : s->s[code];
}

bool known_set(struct wave *w, uint32_t code, struct unknown u)
{
    if (code == OPND_EXEC && u.bits)
        return known_fault(w, "EXEC", u);
    if (code < 128 && code != OPND_NULL)
        unknown_put(w, &w->strict->s[code], ~0u, u);
    return true;
}

static bool known_set_pair(struct wave *w, uint32_t code, struct unknown lo, struct unknown hi, bool pair)
{
    return known_set(w, code, lo) && (!pair || code == OPND_NULL || known_set(w, code + 1, hi));
}

static bool starts(const char *name, const char *with)
{
    return !strncmp(name + 2, with, strlen(with)); /* after "s_" */
}

/* ---- bitwise ---- */

enum logic { L_NONE, L_AND, L_OR, L_XOR };
struct form {
    enum logic logic;
    bool not_a, not_b;
};
/* and, nand, and_not0, and_not1, ... also with _saveexec and _wrexec. */
static struct form form_of(const char *name)
{
    struct form f = { 0 };
    f.logic = starts(name, "and_") || starts(name, "nand_") ? L_AND
        : starts(name, "or_") || starts(name, "nor_")       ? L_OR
        : starts(name, "xor_") || starts(name, "xnor_")     ? L_XOR : L_NONE;
    f.not_a = strstr(name, "not0") != NULL;
    f.not_b = strstr(name, "not1") != NULL;
    return f;
}

/* A known 0 decides an AND, a known 1 an OR. */
static struct unknown logic(struct form f, uint32_t a, struct unknown ua, uint32_t b, struct unknown ub)
{
    a = f.not_a ? ~a : a;
    b = f.not_b ? ~b : b;
    struct unknown u = unknown_or(ua, ub);
    if (f.logic == L_AND)
        u.bits &= (ua.bits | a) & (ub.bits | b);
    else if (f.logic == L_OR)
        u.bits &= (ua.bits | ~a) & (ub.bits | ~b);
    return u;
}

/* ---- instructions ---- */

/* Types are at the end of the name, the result's first: "s_bcnt1_i32_b64". */
static bool result_is_pair(const char *name)
{
    const char *last = strrchr(name, '_'), *before = last;
    while (before > name && *--before != '_') {
    }
    if (before > name && before[1] && strchr("biuf", before[1]) && before[2] >= '1' && before[2] <= '9')
        return !strncmp(before + 2, "64", 2);
    return last && strstr(last, "64");
}
static bool source_is_pair(const char *name)
{
    const char *last = strrchr(name, '_');
    return last && strstr(last, "64") && !starts(name, "bfm") && !starts(name, "bitset");
}
static bool second_is_pair(const char *name)
{
    return source_is_pair(name) && !starts(name, "lsh") && !starts(name, "ashr") && !starts(name, "bfe") &&
           !starts(name, "bitcmp");
}

static bool writes_scc(const char *name)
{
    static const char *const families[] = { "add_", "addc", "addk", "sub_", "subb", "and", "or", "xor", "nand", "nor",
                                            "xnor", "not_", "lsh", "ashr", "bfe", "min_", "max_", "abs", "bcnt",
                                            "quadmask", "wqm" };
    if (strstr(name, "_nc_") || strstr(name, "_f32") || strstr(name, "_f16"))
        return false;
    for (uint32_t i = 0; i < sizeof families / sizeof *families; i++)
        if (starts(name, families[i]))
            return true;
    return false;
}

/* What the name tells, which takes longer to read than the instruction to run: read once for each thread. */
struct traits {
    const char *name;
    struct form form;
    bool moves, inverts, selects, carries, bitset, saves, writes; /* mov, not; cselect, cmov; takes SCC; _saveexec, _wrexec */
    bool source_pair, second_pair, result_pair, pair, scc;       /* pair: 64 is somewhere in it */
};
static const struct traits *traits_of(const char *name)
{
    enum { N = 512 };
    static _Thread_local struct traits read[N];
    struct traits *t = &read[((uintptr_t)name >> 2) % N];
    if (t->name != name)
        *t = (struct traits){
            .name = name,
            .form = form_of(name),
            .moves = starts(name, "mov_"),
            .inverts = starts(name, "not_"),
            .selects = starts(name, "cselect") || starts(name, "cmov_"),
            .carries = starts(name, "addc") || starts(name, "subb") || strstr(name, "_ci_"),
            .bitset = starts(name, "bitset"),
            .saves = strstr(name, "saveexec"),
            .writes = strstr(name, "wrexec"),
            .source_pair = source_is_pair(name),
            .second_pair = second_is_pair(name),
            .result_pair = result_is_pair(name),
            .pair = strstr(name, "64"),
            .scc = writes_scc(name),
        };
    return t;
}

static bool known_branch(struct wave *w, const struct inst *in)
{
    enum { SCC0 = 0x21, SCC1, VCCZ, VCCNZ };
    struct unknown u = { 0 };
    if (in->format == F_SOPP && (in->op == SCC0 || in->op == SCC1))
        u = w->strict->scc;
    else if (in->format == F_SOPP && (in->op == VCCZ || in->op == VCCNZ))
        u = vccz(w);
    return !u.bits || known_fault(w, in->op <= SCC1 ? "SCC, on which the branch depends," : "VCC, on which the "
                                                      "branch depends,", u);
}

static bool known_sopk(struct wave *w, const struct inst *in)
{
    enum { MOVK, VERSION, CMOVK, CMPK_FIRST, CMPK_LAST = 0x0e, ADDK, MULK, GETREG, SETREG, SETREG_IMM, CALL };
    struct strict *s = w->strict;
    struct unknown old = known_scalar(w, in->sdst, false), none = { 0 };
    if (in->op >= CMPK_FIRST && in->op <= CMPK_LAST)
        unknown_put(w, &s->scc, ~0u, unknown_all(old));
    else if (in->op == ADDK || in->op == MULK)
        unknown_put(w, &s->s[in->sdst], ~0u, unknown_all(old));
    else if (in->op == CMOVK)
        known_set(w, in->sdst, s->scc.bits ? unknown_all(s->scc) : w->scc ? none : old);
    else if (in->op == MOVK || in->op == GETREG)
        known_set(w, in->sdst, none);
    else if (in->op == CALL)
        known_set_pair(w, in->sdst, none, none, true);
    if (in->op == ADDK)
        unknown_put(w, &s->scc, ~0u, unknown_all(old));
    return true;
}

/* SOP1 and SOP2 whose result is made bit by bit, by half. */
static struct unknown bitwise(struct wave *w, const struct inst *in, const struct traits *t, uint32_t half)
{
    struct form f = t->form;
    bool two = in->format == F_SOP2, exec = !two && f.logic != L_NONE, pair = t->source_pair;
    uint64_t a = pair ? s_get64(w, in, in->src[0]) : s_get(w, in, in->src[0]), b = 0;
    uint32_t code = in->src[0], second = in->src[1];
    struct unknown ua = code < 128 || half == 0 ? known_scalar(w, code + (code < 128 ? half : 0), false)
                                                : (struct unknown){ 0 };
    struct unknown ub = { 0 };
    if (two) {
        b = pair ? s_get64(w, in, second) : s_get(w, in, second);
        ub = second < 128 || half == 0 ? known_scalar(w, second + (second < 128 ? half : 0), false)
                                       : (struct unknown){ 0 };
    } else if (exec) {
        b = w->s[OPND_EXEC] | (uint64_t)w->s[OPND_EXEC + 1] << 32;
    }
    return f.logic == L_NONE ? ua : logic(f, (uint32_t)(a >> 32 * half), ua, (uint32_t)(b >> 32 * half), ub);
}

static bool known_bitwise(struct wave *w, const struct inst *in, const struct traits *t)
{
    bool pair = t->source_pair;
    struct unknown none = { 0 }, lo = bitwise(w, in, t, 0), hi = pair ? bitwise(w, in, t, 1) : none;
    if (t->saves || t->writes) {
        if (!known_set(w, OPND_EXEC, lo))
            return false;
        unknown_put(w, &w->strict->scc, ~0u, none);
        return known_set_pair(w, in->sdst, none, none, pair);
    }
    if (t->form.logic != L_NONE || t->inverts)
        unknown_put(w, &w->strict->scc, ~0u, unknown_all(unknown_or(lo, hi)));
    return known_set_pair(w, in->sdst, lo, hi, pair);
}

static bool known_select(struct wave *w, const struct inst *in, const struct traits *t)
{
    struct strict *s = w->strict;
    bool pair = t->source_pair, move = in->format == F_SOP1; /* s_cmov */
    struct unknown u = unknown_all(s->scc);
    if (!u.bits && move && !w->scc)
        return true;
    if (!u.bits)
        u = known_scalar(w, in->src[move || w->scc ? 0 : 1], pair);
    return known_set_pair(w, in->sdst, u, u, pair);
}

bool known_salu(struct wave *w, const struct inst *in)
{
    struct strict *s = w->strict;
    if (in->format == F_SOPP)
        return known_branch(w, in);
    if (in->format == F_SOPK)
        return known_sopk(w, in);
    if (in->format == F_SOP1 && in->op >= 0x47 && in->op <= 0x58) { /* program control */
        struct unknown to = known_scalar(w, in->src[0], true), none = { 0 };
        if ((in->op == 0x48 || in->op == 0x49) && to.bits)
            return known_fault(w, "the address to jump to", to);
        bool result = in->op == 0x47 || in->op == 0x49 || in->op == 0x4c || in->op == 0x4d || in->op == 0x50;
        return !result || known_set_pair(w, in->sdst, none, none, in->op != 0x4c && in->op != 0x50);
    }
    const struct traits *t = traits_of(in->name);
    if (t->form.logic != L_NONE || t->moves || t->inverts)
        return known_bitwise(w, in, t);
    if (t->selects)
        return known_select(w, in, t);
    struct unknown u = known_scalar(w, in->src[0], t->source_pair);
    if (in->format != F_SOP1)
        u = unknown_or(u, known_scalar(w, in->src[1], t->second_pair));
    if (t->carries)
        u = unknown_or(u, s->scc);
    if (t->bitset)
        u = unknown_or(u, known_scalar(w, in->sdst, t->pair));
    u = unknown_all(u);
    if (in->format == F_SOPC || t->scc)
        unknown_put(w, &s->scc, ~0u, u);
    return in->format == F_SOPC || known_set_pair(w, in->sdst, u, u, t->result_pair);
}

bool known_smem(struct wave *w, const struct inst *in, uint32_t n)
{
    bool buffer = strstr(in->name, "buffer") != NULL;
    struct unknown u = unknown_or(known_scalar(w, in->srsrc, true), known_scalar(w, in->soffset, false));
    if (buffer)
        u = unknown_or(u, known_scalar(w, in->srsrc + 2u, true));
    if (u.bits)
        return known_fault(w, "the address", u);
    for (uint32_t i = 0; i < n; i++)
        known_set(w, in->sdst + i, (struct unknown){ 0 });
    return true;
}
