/* The PTX of a walk: the kernel of kernels/walk.c with the bodies in the place where it calls one, each in a scope of its own.
 * Linking them as functions would cost the registers that a call saves and the limits of its convention; so the compiler sees
 * one kernel. The texts are what clang made of our own sources, and a form that it does not have is an error. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/walk_ptx.h"
#include "kernels/walk.h"

#define MARK "// WALK_CALL "

struct text {
    const char *p, *end;
};

static bool starts(struct text line, const char *with)
{
    size_t n = strlen(with);
    return (size_t)(line.end - line.p) >= n && memcmp(line.p, with, n) == 0;
}

static bool same(struct text a, struct text b)
{
    return a.end - a.p == b.end - b.p && memcmp(a.p, b.p, (size_t)(a.end - a.p)) == 0;
}

/* The next line of t, without its end; false: there is none. */
static bool next_line(struct text *t, struct text *line)
{
    if (t->p == t->end)
        return false;
    const char *nl = memchr(t->p, '\n', (size_t)(t->end - t->p));
    line->p = t->p;
    line->end = nl ? nl : t->end;
    t->p = nl ? nl + 1 : t->end;
    return true;
}

static struct text trimmed(struct text line)
{
    while (line.p < line.end && (*line.p == ' ' || *line.p == '\t'))
        line.p++;
    return line;
}

/* Tables of the module, which several modules may have: each once. */
static void copy_tables(FILE *f, const struct walk_body *b, uint32_t n)
{
    struct text line, other;
    struct text t = { b[n].ptx, b[n].ptx + strlen(b[n].ptx) };
    while (next_line(&t, &line)) {
        bool there = !starts(line, ".global ") && !starts(line, ".const ");
        for (uint32_t i = 0; i < n && !there; i++) {
            struct text u = { b[i].ptx, b[i].ptx + strlen(b[i].ptx) };
            while (!there && next_line(&u, &other))
                there = same(other, line);
        }
        if (!there)
            fprintf(f, "%.*s\n", (int)(line.end - line.p), line.p);
    }
}

/* The lines between the braces of .func `name`. */
static bool find_body(const char *ptx, const char *name, struct text *body)
{
    char head[160];
    int n = snprintf(head, sizeof head, "\n.visible .func %s(", name);
    const char *at = n < (int)sizeof head ? strstr(ptx, head) : NULL;
    const char *open = at ? strstr(at, "\n{\n") : NULL, *close = open ? strstr(open, "\n}") : NULL;
    if (!close)
        return false;
    *body = (struct text){ open + 3, close + 1 };
    return true;
}

/* ".reg .b32 %r<9>;": the registers with 0 in each. A value that a body leaves undefined on some way would else be kept
 * from the body's last time on, through all others. */
static bool copy_registers(FILE *f, struct text line)
{
    char type[16], name[16], decl[80];
    unsigned n;
    snprintf(decl, sizeof decl, "%.*s", (int)(line.end - line.p), line.p);
    if (sscanf(decl, ".reg .%15s %%%15[a-z]<%u>;", type, name, &n) != 3)
        return !strchr(decl, '<'); /* named ones, of the frame and of inline assembly, are written before they are read */
    const char *zero = strcmp(type, "f32") == 0 ? "0f00000000" : strcmp(type, "f64") == 0 ? "0d0000000000000000" : "0";
    for (unsigned i = 1; i < n; i++)
        if (strcmp(type, "pred") == 0)
            fprintf(f, "setp.ne.u32 %%%s%u, 0, 0;\n", name, i);
        else
            fprintf(f, "mov.%s %%%s%u, %s;\n", type, name, i, zero);
    return true;
}

static bool copy_body(FILE *f, const struct walk_body *b, uint32_t number)
{
    struct text body, line;
    bool begun = false, returns = false; /* begun: the argument is read, so %walk_item is there */
    char param[160];
    if (!find_body(b->ptx, b->name, &body))
        return false;
    snprintf(param, sizeof param, "[%s_param_0];", b->name);
    while (next_line(&body, &line)) {
        struct text word = trimmed(line);
        const char *comma = memchr(word.p, ',', (size_t)(word.end - word.p));
        if (starts(word, ".reg ")) {
            fprintf(f, "%.*s\n", (int)(word.end - word.p), word.p);
            if (!copy_registers(f, word))
                return false;
        } else if (starts(word, "ret;")) {
            fprintf(f, "bra $WALK_DONE;\n");
            returns = true;
        } else if (starts(word, "ld.param.u64")) {
            if (!comma || !starts((struct text){ comma + 2, word.end }, param))
                return false;
            fprintf(f, "ld.volatile.shared.u64%.*s, [kd_dynamic_shared+%d];\n"
                    "ld.volatile.shared.u32 %%walk_item, [kd_dynamic_shared+%d];\nmov.u32 %%walk_tid, %%tid.x;\n"
                    "add.u32 %%walk_item, %%walk_item, %%walk_tid;\n",
                    (int)(comma - word.p - 12), word.p + 12, (int)offsetof(struct walk_group, args),
                    (int)offsetof(struct walk_group, zero));
            begun = true;
        } else if (starts(word, "ld.param") || starts(word, "call")) {
            return false;
        } else { /* labels get the body's number */
            for (const char *at; (at = memmem(line.p, (size_t)(line.end - line.p), "$L__", 4)); line.p = at + 4)
                fprintf(f, "%.*s$W%u__", (int)(at - line.p), line.p, number);
            for (const char *at; (at = memmem(line.p, (size_t)(line.end - line.p), "%tid.x", 6)); line.p = at + 6) {
                if (!begun)
                    return false;
                fprintf(f, "%.*s%%walk_item", (int)(at - line.p), line.p);
            }
            fprintf(f, "%.*s\n", (int)(line.end - line.p), line.p);
        }
    }
    return returns;
}

/* In place of the mark, "// WALK_CALL %kernel". */
static bool copy_calls(FILE *f, struct text mark, const struct walk_body *b, uint32_t n)
{
    char kernel[16];
    if (sscanf(mark.p, MARK "%15s", kernel) != 1)
        return false;
    fprintf(f, "{\n.reg .b32 %%walk_kernel, %%walk_item, %%walk_tid;\n.reg .pred %%walk_other;\n"
               "mov.u32 %%walk_kernel, %s;\n", kernel);
    for (uint32_t i = 0; i < n; i++) {
        fprintf(f, "setp.ne.u32 %%walk_other, %%walk_kernel, %u;\n@%%walk_other bra $WALK_NOT_%u;\n{\n", i, i);
        if (!copy_body(f, &b[i], i))
            return false;
        fprintf(f, "}\n$WALK_NOT_%u:\n", i);
    }
    fprintf(f, "$WALK_DONE:\n}\n");
    return true;
}

char *walk_ptx(const char *walk, const struct walk_body *b, uint32_t n, struct err *e)
{
    char *out = NULL;
    size_t bytes = 0;
    struct text t = { walk, walk + strlen(walk) }, line;
    bool called = false, ok = true;
    FILE *f = open_memstream(&out, &bytes);
    if (!f) {
        err_set(e, -ENOMEM, "cuda: PTX of the persistent plan");
        return NULL;
    }
    while (ok && next_line(&t, &line)) {
        struct text word = trimmed(line);
        if (starts(word, MARK)) {
            ok = !called && copy_calls(f, word, b, n);
            called = true;
            continue;
        }
        for (uint32_t i = 0; starts(line, ".visible .entry") && i < n; i++)
            copy_tables(f, b, i);
        fprintf(f, "%.*s\n", (int)(line.end - line.p), line.p);
    }
    ok = ok && called && !ferror(f);
    if (fclose(f) || !ok) {
        err_set(e, -EINVAL, "cuda: the PTX of the persistent plan's kernels is not of the form that it is put together from; "
                "--plan=replay");
        free(out);
        return NULL;
    }
    return out;
}
