/* The stream as a picture: what each command moves and computes in one step, and which roof it hits. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "graph/fields.h"
#include "graph/graph.h"

/* Roofs of a desktop CPU, for a view that names none. */
static const double typical_gbs = 40, typical_gflops = 400;

/* A command shorter than this is over before it has begun: starting it costs more than running it. */
static const double latency_us = 2;

struct roofs {
    double gbs, gflops;
    bool typical;
};

static struct roofs roofs_of(const struct graph_view *v)
{
    struct roofs r = {v->gbs, v->gflops, v->gbs <= 0 || v->gflops <= 0};
    if (r.gbs <= 0)
        r.gbs = typical_gbs;
    if (r.gflops <= 0)
        r.gflops = typical_gflops;
    return r;
}

struct line {
    uint64_t bytes, flops;
    double us;        /* at the roof that holds it back */
    double intensity; /* flops per byte; 0: moves nothing */
    const char *bottleneck;
};

static struct line line_of(const struct stream *s, uint32_t i, const struct graph_view *v, const struct roofs *r)
{
    struct line l;
    stream_cmd_cost(s, i, v->n_rows, v->kv_len, &l.bytes, &l.flops);
    double mem = (double)l.bytes / (r->gbs * 1e3), alu = (double)l.flops / (r->gflops * 1e3);
    l.us = MAX(mem, alu);
    l.intensity = l.bytes ? (double)l.flops / (double)l.bytes : 0;
    l.bottleneck = l.us < latency_us ? "latency" : mem >= alu ? "memory" : "compute";
    return l;
}

/* ---- JSON ---- */

static json_t *json_command(const struct stream *s, uint32_t i, const struct line *l)
{
    const struct cmd *c = &s->cmds[i];
    json_t *weights = json_array(), *writes = json_array();
    for (uint32_t u = c->first_use; u < c->first_use + c->n_uses; u++) {
        const struct stream_buf *b = &s->bufs[s->uses[u].buf];
        json_t *name = json_string(stream_str(s, b->name)); /* NULL where a name is no UTF-8 */
        if (!name)
            name = json_string("?");
        if (b->arena == ARENA_WEIGHTS)
            json_array_append(weights, name);
        else if (s->uses[u].dir & USE_WRITE)
            json_array_append(writes, name);
        json_decref(name);
    }
    return json_pack("{s:I, s:s, s:o, s:o, s:I, s:I, s:f, s:f, s:s, s:o, s:o}", "index", (json_int_t)i, "op",
                     cmd_name(c->op), "layer", c->layer == CMD_NO_LAYER ? json_null() : json_integer(c->layer),
                     "wait", c->wait == CMD_NO_WAIT ? json_null() : json_integer(c->wait), "bytes",
                     (json_int_t)l->bytes, "flops", (json_int_t)l->flops, "intensity", l->intensity, "us", l->us,
                     "bottleneck", l->bottleneck, "writes", writes, "weights", weights);
}

int graph_print_json(FILE *f, const struct stream *s, const struct graph_view *v)
{
    static const char *const arenas[ARENA_COUNT] = {"weights", "const", "kv", "state", "scratch", "io"};
    struct roofs r = roofs_of(v);
    json_t *cmds = json_array(), *plan = json_object();
    uint64_t bytes = 0, flops = 0;
    double us = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        struct line l = line_of(s, i, v, &r);
        bytes += l.bytes;
        flops += l.flops;
        us += l.us;
        json_array_append_new(cmds, json_command(s, i, &l));
    }
    for (int a = 0; a < ARENA_COUNT; a++)
        json_object_set_new(plan, arenas[a], json_integer((json_int_t)s->h.arena_bytes[a]));
    json_t *root = json_pack(
        "{s:{s:I, s:I}, s:{s:f, s:f, s:b}, s:{s:I, s:I, s:I, s:f, s:f}, s:o, s:o}", "step", "rows",
        (json_int_t)v->n_rows, "kv_len", (json_int_t)v->kv_len, "roofs", "gbs", r.gbs, "gflops", r.gflops,
        "typical_cpu", r.typical, "total", "commands", (json_int_t)s->h.n_cmds, "bytes", (json_int_t)bytes, "flops",
        (json_int_t)flops, "us", us, "intensity", bytes ? (double)flops / (double)bytes : 0.0, "arena_bytes", plan,
        "commands", cmds);
    if (root && !stream_is_whole(s))
        json_object_set_new(root, "layers",
                            json_pack("{s:I, s:I, s:I}", "first", (json_int_t)s->h.layers_before, "end",
                                      (json_int_t)(s->h.n_layer - s->h.layers_behind), "of", (json_int_t)s->h.n_layer));
    return json_print(f, root, JSON_INDENT(1) | JSON_REAL_PRECISION(6));
}

/* ---- DOT ---- */

static void print_amount(FILE *f, uint64_t n, const char *unit)
{
    static const char *const prefixes[] = {"", "k", "M", "G", "T"};
    double x = (double)n;
    size_t p = 0;
    while (x >= 1000 && p + 1 < ARRAY_LEN(prefixes)) {
        x /= 1000;
        p++;
    }
    fprintf(f, p ? "%.1f %s%s" : "%.0f %s%s", x, prefixes[p], unit);
}

/* A name inside quotes, as DOT reads it. */
static void print_quoted(FILE *f, const char *s)
{
    for (; *s; s++) {
        if (*s == '"' || *s == '\\')
            fputc('\\', f);
        fputc((unsigned char)*s < 0x20 ? '?' : *s, f);
    }
}

/* What a command leaves: the first buffer that it writes. */
static const char *output_name(const struct stream *s, const struct cmd *c)
{
    for (uint32_t u = c->first_use; u < c->first_use + c->n_uses; u++)
        if (s->uses[u].dir == USE_WRITE)
            return stream_str(s, s->bufs[s->uses[u].buf].name);
    return "";
}

static void dot_node(FILE *f, const struct stream *s, uint32_t i, const struct line *l)
{
    const char *color = l->bottleneck[0] == 'm' ? "#cfe3f7" : l->bottleneck[0] == 'c' ? "#f9d9c6" : "#eeeeee";
    fprintf(f, "    c%u [label=\"%u %s  ", i, i, cmd_name(s->cmds[i].op));
    print_quoted(f, output_name(s, &s->cmds[i]));
    fprintf(f, "\\n");
    print_amount(f, l->bytes, "B");
    fprintf(f, "  ");
    print_amount(f, l->flops, "flop");
    if (l->intensity > 0)
        fprintf(f, "  %.1f flop/B", l->intensity);
    fprintf(f, "\\n%s\", fillcolor=\"%s\"];\n", l->bottleneck, color);
}

/* Commands of a layer come in runs: a cluster each. */
static void dot_run(FILE *f, const struct stream *s, uint32_t *i, const struct graph_view *v, const struct roofs *r,
                    struct line *total)
{
    uint32_t layer = s->cmds[*i].layer, first = *i;
    if (layer != CMD_NO_LAYER)
        fprintf(f, "  subgraph cluster_%u {\n    label=\"layer %u\"; color=\"#bbbbbb\";\n", first, layer);
    for (; *i < s->h.n_cmds && s->cmds[*i].layer == layer; ++*i) {
        struct line l = line_of(s, *i, v, r);
        total->bytes += l.bytes;
        total->flops += l.flops;
        total->us += l.us;
        dot_node(f, s, *i, &l);
    }
    if (layer != CMD_NO_LAYER)
        fprintf(f, "  }\n");
}

int graph_print_dot(FILE *f, const struct stream *s, const struct graph_view *v)
{
    struct roofs r = roofs_of(v);
    struct line total = {0};
    fprintf(f, "digraph stream {\n  rankdir=TB;\n"
               "  node [shape=box, style=\"filled,rounded\", fontname=\"Helvetica\", fontsize=10];\n"
               "  edge [color=\"#555555\"];\n");
    for (uint32_t i = 0; i < s->h.n_cmds;)
        dot_run(f, s, &i, v, &r, &total);
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        if (s->cmds[i].wait != CMD_NO_WAIT)
            fprintf(f, "  c%u -> c%u;\n", s->cmds[i].wait, i);
    fprintf(f, "  labelloc=t;\n  label=\"%u commands, a step of %u rows at %u positions: ", s->h.n_cmds, v->n_rows,
            v->kv_len);
    print_amount(f, total.bytes, "B");
    fprintf(f, ", ");
    print_amount(f, total.flops, "flop");
    fprintf(f, ", %.3g ms at %.4g GB/s and %.4g Gflop/s%s\";\n}\n", total.us / 1000, r.gbs, r.gflops,
            r.typical ? " (typical of a desktop CPU)" : "");
    return ferror(f) ? -EIO : 0;
}
