/* Packets as text. */
#include <stdarg.h>
#include <string.h>

#include "rt/pm4/decode.h"

enum { MAX_NESTING = 4, MAX_PROBLEMS = 16, LINE = 4096 };

/* The line of a packet grows by values; what is wrong with it is kept for the lines below. */
struct printer {
    FILE *f;
    const struct pm4_view *v;
    const struct pm4_packet *p;
    unsigned depth;
    size_t n;
    char line[LINE];
    unsigned n_problems;
    char problems[MAX_PROBLEMS][256];
};

__attribute__((format(printf, 2, 3))) static void add(struct printer *t, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(t->line + t->n, LINE - t->n, fmt, ap);
    va_end(ap);
    t->n = n < 0 ? t->n : t->n + (size_t)n < LINE ? t->n + (size_t)n : LINE - 1;
}

static void indent(const struct printer *t)
{
    fprintf(t->f, "%*s", (int)(4 * t->depth), "");
}

static void end_line(struct printer *t)
{
    while (t->n > 0 && t->line[t->n - 1] == ' ')
        t->line[--t->n] = 0;
    fprintf(t->f, "%s\n", t->line);
    t->n = 0;
}

/* In verbose mode every value is a line; else one word of the packet's line. */
static void begin_value(struct printer *t, const struct pm4_value *v)
{
    if (!t->v->verbose) {
        add(t, " ");
        return;
    }
    end_line(t);
    add(t, "%*s    %s%3u  ", (int)(4 * t->depth), "", v->kind == PM4_VALUE_FIELD ? "    " : "", v->dw);
}

static void print_words(struct printer *t, const struct pm4_value *v)
{
    uint64_t shown = t->v->verbose ? v->value : v->value < 4 ? v->value : 4;
    add(t, "data[%llu]=", (unsigned long long)v->value);
    for (uint64_t i = 0; i < shown; i++) {
        if (t->v->verbose && i > 0 && i % 8 == 0) {
            end_line(t);
            add(t, "%*s         ", (int)(4 * t->depth), "");
        }
        add(t, "%s%08x", i ? " " : "", t->p->dw[v->dw + i]);
    }
    if (shown < v->value)
        add(t, " ...");
}

static void print_value(void *user, const struct pm4_value *v)
{
    struct printer *t = user;
    bool zero = v->kind == PM4_VALUE_NUM && v->value == 0 && v->bits < 32;
    if (!t->v->verbose && (zero || v->kind == PM4_VALUE_FIELD || v->kind == PM4_VALUE_OFFSET))
        return;
    begin_value(t, v);
    unsigned long long value = v->value;
    switch (v->kind) {
    case PM4_VALUE_NUM:
    case PM4_VALUE_FIELD:
        if (v->word)
            add(t, "%s=%s", v->name, v->word);
        else
            add(t, "%s=%llu", v->name, value);
        break;
    case PM4_VALUE_OFFSET:
    case PM4_VALUE_HEX: add(t, "%s=0x%llx", v->name, value); break;
    case PM4_VALUE_REG:
        if (v->word)
            add(t, "%s=%s", v->name, v->word);
        else
            add(t, "%s=reg_%05llx", v->name, value);
        break;
    case PM4_VALUE_SETS: add(t, "%s=0x%08llx", v->name, value); break;
    case PM4_VALUE_VA:
        add(t, "%s=0x%012llx", v->name, value);
        if (v->word)
            add(t, "[%s]", v->word);
        if (v->verdict)
            add(t, " (%s)", v->verdict);
        break;
    case PM4_VALUE_DATA: print_words(t, v); break;
    }
}

static void keep_problem(void *user, const char *text)
{
    struct printer *t = user;
    if (t->n_problems < MAX_PROBLEMS)
        snprintf(t->problems[t->n_problems], sizeof t->problems[0], "%s", text);
    t->n_problems++;
}

static unsigned print_all(FILE *f, const struct pm4_view *v, const uint32_t *dw, uint32_t n, unsigned depth);

/* An indirect buffer's packets below the packet that names it. */
static unsigned print_inner(struct printer *t)
{
    const struct pm4_packet *p = t->p;
    if (p->form != PM4_FORM_PACKET || p->op != PM4_OP_INDIRECT_BUFFER || p->n < 4 || !t->v->fetch)
        return 0;
    uint64_t va = (p->dw[1] & ~3u) | (uint64_t)(p->dw[2] & 0xffff) << 32;
    uint32_t dwords = p->dw[3] & 0xfffff;
    const uint32_t *inner = dwords ? t->v->fetch(t->v->user, va, dwords) : NULL;
    if (!inner || t->depth + 1 >= MAX_NESTING) {
        indent(t);
        fprintf(t->f, "        (%s)\n", inner ? "nested too deep: not followed" : "its contents are not at hand");
        return 0;
    }
    return print_all(t->f, t->v, inner, dwords, t->depth + 1);
}

static unsigned print_packet(struct printer *t, const struct pm4_packet *p)
{
    static const char *const forms[] = { "(unknown)", "(filler)", "(no packet)" };
    struct pm4_sink s = { .user = t, .value = print_value, .problem = keep_problem };
    t->p = p;
    t->n = 0;
    t->n_problems = 0;
    add(t, "%*s%6u  %-18s", (int)(4 * t->depth), "", p->at,
        p->form == PM4_FORM_PACKET && p->name ? p->name : forms[p->form]);
    unsigned problems = pm4_explain(p, t->v, &s);
    end_line(t);
    for (unsigned i = 0; i < t->n_problems && i < MAX_PROBLEMS; i++) {
        indent(t);
        fprintf(t->f, "      ! %s\n", t->problems[i]);
    }
    if (t->n_problems > MAX_PROBLEMS) {
        indent(t);
        fprintf(t->f, "      ! and %u more\n", t->n_problems - MAX_PROBLEMS);
    }
    return problems;
}

static unsigned print_all(FILE *f, const struct pm4_view *v, const uint32_t *dw, uint32_t n, unsigned depth)
{
    struct printer t = { .f = f, .v = v, .depth = depth };
    struct pm4_cursor c = { .gen = v->gen, .dw = dw, .n = n };
    struct pm4_packet p;
    unsigned problems = 0;
    while (pm4_next(&c, &p)) {
        problems += print_packet(&t, &p);
        problems += print_inner(&t);
    }
    return problems;
}

unsigned pm4_print(FILE *f, const struct pm4_view *v, const uint32_t *dw, uint32_t n)
{
    struct pm4_view mine = *v;
    struct pm4_state state;
    pm4_state_forget(&state);
    if (!mine.state)
        mine.state = &state;
    return print_all(f, &mine, dw, n, 0);
}
