/* quantize: rewrites a model with smaller tensor types. See usage(). */
#include <errno.h>
#include <fnmatch.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/mapped.h"
#include "base/progress.h"
#include "base/stdout.h"
#include "kernels/blocks.h"
#include "model/gguf.h"
#include "model/gguf_write.h"
#include "model/imatrix.h"
#include "model/model.h"
#include "model/quant.h"
#include "model/quant_mix.h"
#include "model/quant_out.h"
#include "model/recut.h"
#include "tools/quantize/pieces.h"

enum { NAME_BYTES = 64, MAX_RULES = 64 };

/* Tensors whose names match get the type. */
struct rule {
    char pattern[128];
    enum qtype type;
};

struct options {
    const char *in, *out, *type, *imatrix;
    uint32_t threads, n_rules;
    struct rule rules[MAX_RULES];
    bool pure, dry_run;
};

static struct flag interrupted;

static void on_signal(int sig)
{
    (void)sig;
    flag_set(&interrupted, true);
}

/* A type's entry in a list of the usage; false: it has none. */
typedef bool entry_fn(enum qtype t, char *buf, size_t n);

static bool no_recipe(enum qtype t, char *buf, size_t n)
{
    struct quant_recipe r;
    snprintf(buf, n, "%s", qtype_name(t));
    return quant_recipe_parse(buf, false, &r, NULL) == 0 && r.pure;
}

static bool stand_in(enum qtype t, char *buf, size_t n)
{
    snprintf(buf, n, "%s: %s", qtype_name(t), qtype_name(quant_fallback(t, QK)));
    return qtype_block(t) > QK;
}

static void list_types(FILE *f, entry_fn *entry)
{
    static const enum qtype types[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) QT_##NAME,
#include "kernels/qtypes.def"
    };
    char buf[64];
    bool first = true;
    for (size_t i = 0; i < ARRAY_LEN(types); i++)
        if (entry(types[i], buf, sizeof buf)) {
            fprintf(f, "%s%s", first ? "" : ", ", buf);
            first = false;
        }
}

static void usage(FILE *f)
{
    fputs("usage: quantize IN.gguf OUT.gguf TYPE [options]\n"
          "\n"
          "Writes the model IN again with its matrices in other types. IN may hold any type that zinc reads; for\n"
          "the best result start from F16, BF16 or F32, because quantising twice loses twice. Metadata is kept,\n"
          "vectors, norms and routers stay as they are, the parts of a split model become one file. OUT appears\n"
          "when it is complete; a run that was interrupted, killed or met a full disk leaves OUT.begun, and the same\n"
          "command goes on where it stopped.\n"
          "\n"
          "TYPE is a recipe:\n",
          f);
    static const char *const lines[][2] = {
#define X(name, file_type, base, help) { #name, help },
        QUANT_RECIPES(X)
#undef X
    };
    for (size_t i = 0; i < ARRAY_LEN(lines); i++)
        fprintf(f, "  %-12s %s\n", lines[i][0], lines[i][1]);
    fputs("or a tensor type that is no recipe (", f);
    list_types(f, no_recipe);
    fputs("): then every matrix gets it.\n"
          "Rows that are no multiple of 256 elements cannot take a type with such blocks; they get the nearest type with\n"
          "blocks of 32 instead (",
          f);
    list_types(f, stand_in);
    fputs(").\n"
          "\n"
          "  --imatrix FILE     an importance matrix (zinc imatrix): which columns' errors count most; below 4 bits a\n"
          "                     weight it decides, and it helps below 6\n"
          "  --tensor-type PATTERN=TYPE   the matrices whose names match the pattern of the shell get this type; may be\n"
          "                     given several times, the first that matches counts\n"
          "  --pure             TYPE for every matrix, embedding and head included\n"
          "  --dry-run          write nothing, print what each tensor would become\n"
          "  --threads N        default: one per core; does not change the file\n"
          "\n"
          "  quantize model-f16.gguf model-q4_k_m.gguf Q4_K_M\n"
          "  quantize model-f16.gguf model-iq3_m.gguf IQ3_M --imatrix model.imatrix.gguf\n"
          "  quantize model-f16.gguf mine.gguf IQ4_XS --tensor-type 'blk.[0-3].ffn_down*=Q6_K' --tensor-type '*attn_v*=Q8_0'\n",
          f);
}

/* ---- the plan ---- */

struct plan {
    const struct gguf *g;
    struct quant_recipe recipe;
    struct imatrix *im;       /* NULL: none */
    uint32_t n_weighed;       /* matrices that it has something about */
    char (*names)[NAME_BYTES];
    struct quant_item *items; /* [g->n_tensors], types as wanted */
    const struct gguf_tensor **scales; /* what each expert's weights are multiplied by, or NULL */
    bool *left_out;           /* such a tensor itself        */
};

static uint32_t key_u32(const struct gguf *g, const char *arch, const char *name)
{
    char key[160];
    snprintf(key, sizeof key, "%s.%s", arch, name);
    const struct gguf_kv *kv = gguf_find(g, key);
    uint64_t v = 0;
    for (uint64_t i = 0; kv && i < kv->n && v == 0; i++) /* an array by layers: its first entry that is not 0 */
        if (!gguf_kv_u64(kv, i, &v))
            return 0;
    return v > UINT32_MAX ? 0 : (uint32_t)v;
}

static void apply_rules(const struct options *o, struct quant_item *it)
{
    for (uint32_t i = 0; quant_is_matrix(it) && i < o->n_rules; i++)
        if (fnmatch(o->rules[i].pattern, it->name, 0) == 0) {
            it->type = quant_fallback(o->rules[i].type, it->ne[0]);
            return;
        }
}

/* The importance of a tensor's columns; NULL: none, or none that says anything about it. */
static const struct imatrix_entry *importance_of(const struct plan *p, uint64_t i)
{
    return quant_is_matrix(&p->items[i]) ? imatrix_find(p->im, p->names[i]) : NULL;
}

/* Every entry that has a tensor's name has its shape; and some entry does. */
static int check_imatrix(struct plan *p, const struct options *o, struct err *e)
{
    uint32_t n_matrices = 0;
    for (uint64_t i = 0; p->im && i < p->g->n_tensors; i++) {
        const struct gguf_tensor *t = &p->g->tensors[i];
        n_matrices += quant_is_matrix(&p->items[i]);
        if (!importance_of(p, i))
            continue;
        p->n_weighed++;
        int rc = imatrix_fit(p->im, p->names[i], (uint32_t)t->ne[0], (uint32_t)(t->ne[2] * t->ne[3]), e);
        if (rc) {
            err_context(e, "%s", o->imatrix);
            return rc;
        }
    }
    if (p->im && p->n_weighed == 0)
        return err_set(e, -EINVAL, "%s: says nothing about any of the model's %u matrices: it is of another model", o->imatrix, n_matrices);
    return 0;
}

/* Whether it is this name, which may be cut where struct model has no more room. */
static bool is_name(struct gguf_str s, const char *name)
{
    size_t n = strlen(name);
    return s.len >= n && memcmp(s.s, name, n) == 0 && (s.len == n || n == sizeof ((struct model *)NULL)->name - 1);
}

/* What an importance matrix says of where it comes from: shapes alone do not tell one model's from another's. */
static void tell_imatrix(const struct plan *p, const struct options *o)
{
    enum { SHOWN = 80 };
    struct gguf_str name = { "", 0 };
    const struct imatrix *im = p->im;
    const struct gguf_kv *kv = gguf_find(p->g, "general.name");
    if (kv && kv->type == GGUF_STR)
        gguf_kv_str(kv, 0, &name);
    fprintf(stderr, "quantize: importance of %u matrices from %s", p->n_weighed, im->dataset || im->model ? "" : "a model and a text that it does not tell");
    if (im->model)
        fprintf(stderr, "the model '%.*s'", SHOWN, im->model);
    if (im->dataset)
        fprintf(stderr, "%sthe text '%.*s'", im->model ? " on " : "", SHOWN, im->dataset);
    if (im->chunk_count)
        fprintf(stderr, ", %u pieces", im->chunk_count);
    fputc('\n', stderr);
    if (im->model && name.len && !is_name(name, im->model))
        fprintf(stderr, "quantize: warning: %s is of the model '%.*s', and %s is '%.*s'; where they are not one model in two forms, make its own "
                "(zinc imatrix)\n", o->imatrix, SHOWN, im->model, o->in, (int)MIN(name.len, SHOWN), name.s);
}

/* The numbers beside an NVFP4 file's experts, one each, that are to be in the weights of tensor i once it has another type: those
 * of gate and up. NULL: none. */
static const struct gguf_tensor *scale_of(const struct plan *p, uint64_t i)
{
    static const char *const roles[] = { ".ffn_gate_exps.weight", ".ffn_up_exps.weight", ".ffn_gate_up_exps.weight" };
    const struct gguf_tensor *t = &p->g->tensors[i], *s = NULL;
    size_t n = strlen(p->names[i]), base = n - MIN(n, strlen(".weight"));
    char name[NAME_BYTES];
    for (size_t k = 0; k < ARRAY_LEN(roles); k++)
        if (n > strlen(roles[k]) && strcmp(p->names[i] + n - strlen(roles[k]), roles[k]) == 0) {
            snprintf(name, sizeof name, "%.*s.scale", (int)base, p->names[i]);
            s = t->type == QT_NVFP4 && p->items[i].type != QT_NVFP4 ? gguf_find_tensor(p->g, name) : NULL;
        }
    return s && s->type == QT_F32 && s->ne[0] == t->ne[2] && s->ne[1] * s->ne[2] * s->ne[3] == 1 && t->ne[3] == 1 ? s : NULL;
}

/* Such numbers are left out: a weight's type is another one then. */
static void plan_scales(struct plan *p)
{
    for (uint64_t i = 0; i < p->g->n_tensors; i++) {
        p->scales[i] = scale_of(p, i);
        if (p->scales[i])
            p->left_out[p->scales[i] - p->g->tensors] = true;
    }
}

static int plan_init(struct plan *p, const struct gguf *g, const struct options *o, struct err *e)
{
    struct gguf_str arch = { "", 0 };
    char arch_name[64];
    *p = (struct plan){ .g = g };
    int rc = quant_recipe_parse(o->type, o->pure, &p->recipe, e);
    if (!rc && o->imatrix)
        rc = imatrix_read(o->imatrix, &p->im, e);
    if (rc || (rc = gguf_get_str(g, "general.architecture", &arch, e)))
        return rc;
    snprintf(arch_name, sizeof arch_name, "%.*s", (int)MIN(arch.len, 63), arch.s);
    p->names = calloc(g->n_tensors, sizeof *p->names);
    p->items = calloc(g->n_tensors, sizeof *p->items);
    p->scales = calloc(g->n_tensors, sizeof *p->scales);
    p->left_out = calloc(g->n_tensors, sizeof *p->left_out);
    if (!p->names || !p->items || !p->scales || !p->left_out)
        return err_set(e, -ENOMEM, "%s: no memory for %llu tensors", o->in, (unsigned long long)g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        if (t->name.len >= NAME_BYTES)
            return err_set(e, -EINVAL, "%s: a tensor's name has %llu bytes, at most %d are possible", o->in,
                           (unsigned long long)t->name.len, NAME_BYTES - 1);
        memcpy(p->names[i], t->name.s, t->name.len);
        p->items[i] = (struct quant_item){ p->names[i], t->n_dims, { 0 }, t->type };
        memcpy(p->items[i].ne, t->ne, sizeof t->ne);
    }
    struct quant_shape s = { arch_name, key_u32(g, arch_name, "block_count"), key_u32(g, arch_name, "expert_count"),
                             key_u32(g, arch_name, "attention.head_count"),
                             key_u32(g, arch_name, "attention.head_count_kv"), p->im != NULL };
    quant_recipe_types(&p->recipe, &s, p->items, g->n_tensors);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        apply_rules(o, &p->items[i]);
    plan_scales(p);
    return check_imatrix(p, o, e);
}

static void plan_finish(struct plan *p)
{
    imatrix_destroy(p->im);
    free(p->scales);
    free(p->left_out);
    free(p->names);
    free(p->items);
}

static uint64_t rows_of(const struct gguf_tensor *t)
{
    return t->ne[1] * t->ne[2] * t->ne[3];
}

static uint64_t new_bytes(const struct plan *p, uint64_t i)
{
    return p->left_out[i] ? 0 : qtype_row_bytes(p->items[i].type, p->g->tensors[i].ne[0]) * rows_of(&p->g->tensors[i]);
}

static void plan_print(const struct plan *p)
{
    uint64_t from = 0, to = 0;
    for (uint64_t i = 0; i < p->g->n_tensors; i++) {
        const struct gguf_tensor *t = &p->g->tensors[i];
        char shape[96];
        int n = 0;
        for (uint32_t d = 0; d < t->n_dims; d++)
            n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%llu", d ? " x " : "",
                          (unsigned long long)t->ne[d]);
        printf("%-44s %-24s %-7s %s\n", p->names[i], shape, qtype_name(t->type),
               p->left_out[i] ? "in its matrix" : t->type == p->items[i].type ? "=" : qtype_name(p->items[i].type));
        from += t->bytes;
        to += new_bytes(p, i);
    }
    printf("%llu tensors, %.1f MiB -> %.1f MiB\n", (unsigned long long)p->g->n_tensors, (double)from / 0x1p20,
           (double)to / 0x1p20);
}

/* ---- writing ---- */

/* The weights of all columns of all matrices, to be freed; NULL without memory. */
static float *column_weights(const struct imatrix_entry *en)
{
    float *w = malloc((size_t)en->n_in * en->n_mats * sizeof *w);
    for (uint32_t m = 0; w && m < en->n_mats; m++)
        imatrix_weights(en, m, w + (size_t)m * en->n_in);
    return w;
}

static bool key_is(const struct gguf_kv *kv, const char *name)
{
    return kv->key.len == strlen(name) && memcmp(kv->key.s, name, kv->key.len) == 0;
}

/* All metadata, but for the file type and what describes the parts of a split model. */
static void put_metadata(struct gguf_writer *w, const struct plan *p, const struct options *o)
{
    const struct gguf *g = p->g;
    for (uint64_t i = 0; i < g->n_kv; i++) {
        const struct gguf_kv *kv = &g->kv[i];
        bool split = kv->key.len > 6 && memcmp(kv->key.s, "split.", 6) == 0;
        bool older = kv->key.len > 17 && memcmp(kv->key.s, "quantize.imatrix.", 17) == 0;
        if (!split && !older && !key_is(kv, "general.file_type") && !key_is(kv, "general.quantization_version"))
            gguf_put_kv(w, kv);
    }
    gguf_put_u32(w, "general.file_type", p->recipe.file_type);
    gguf_put_u32(w, "general.quantization_version", 2);
    if (!p->im)
        return;
    const char *slash = strrchr(o->imatrix, '/');
    gguf_put_str(w, "quantize.imatrix.file", slash ? slash + 1 : o->imatrix);
    if (p->im->dataset)
        gguf_put_str(w, "quantize.imatrix.dataset", p->im->dataset);
    gguf_put_u32(w, "quantize.imatrix.entries_count", p->im->n);
    gguf_put_u32(w, "quantize.imatrix.chunks_count", p->im->chunk_count);
}

/* Writing over the file that is being read would destroy the only copy. */
static int check_not_input(const struct gguf *g, const char *out, struct err *e)
{
    struct stat a, b;
    if (stat(out, &b) != 0)
        return 0;
    for (uint32_t i = 0; i < g->n_parts; i++)
        if (stat(g->parts[i].path, &a) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino)
            return err_set(e, -EINVAL, "%s is the file that is read; name another one to write", out);
    return 0;
}

/* Bytes of the disk that what an earlier run left takes already. */
static uint64_t begun_bytes(const char *out)
{
    char *path;
    struct stat st;
    if (asprintf(&path, "%s.begun", out) < 0)
        return 0;
    uint64_t n = stat(path, &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
    free(path);
    return n;
}

static int begin_file(struct pieces *out, const struct plan *p, const struct options *o, struct err *e)
{
    const struct gguf *g = p->g;
    uint64_t taken = begun_bytes(o->out);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        out->total += new_bytes(p, i);
    int rc = quant_check_output(o->out, out->total - MIN(out->total, taken), e);
    if (rc || (rc = gguf_writer_create_kept(o->out, &out->w, e)))
        return rc;
    put_metadata(out->w, p, o);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        if (!p->left_out[i])
            gguf_put_tensor(out->w, p->names[i], p->items[i].type, g->tensors[i].n_dims, g->tensors[i].ne);
    rc = gguf_writer_begin(out->w, e);
    return rc ? rc : pieces_begin(out, e);
}

static int write_file(const struct plan *p, const struct options *o, struct err *e)
{
    struct pieces out = { .path = o->out, .threads = o->threads, .progress = progress_terminal(), .interrupted = &interrupted };
    int rc = begin_file(&out, p, o, e);
    for (uint64_t i = 0; !rc && i < p->g->n_tensors; i++) {
        const struct imatrix_entry *en = importance_of(p, i);
        if (p->left_out[i])
            continue;
        float *w = en ? column_weights(en) : NULL;
        rc = en && !w ? err_set(e, -ENOMEM, "no memory for the importance of %u columns", en->n_in)
                      : pieces_tensor(&out, &p->g->tensors[i], w, p->scales[i] ? p->scales[i]->data : NULL, p->items[i].type, e);
        free(w);
    }
    if (!rc && !(rc = gguf_check_unchanged(p->g, e)))
        rc = gguf_writer_finish(out.w, e);
    struct gguf_writer *w = out.w;
    pieces_end(&out, rc, e);
    gguf_writer_destroy(w);
    return rc;
}

static void report(const struct plan *p, uint64_t start_ns)
{
    uint64_t from = 0, to = 0, changed = 0, twice = 0, unweighed = 0, matrices = 0;
    for (uint64_t i = 0; i < p->g->n_tensors; i++) {
        enum qtype t = p->g->tensors[i].type, want = p->items[i].type;
        from += p->g->tensors[i].bytes;
        to += new_bytes(p, i);
        changed += t != want;
        twice += t != want && qtype_block(t) > 1 && qtype_block(want) > 1;
        matrices += quant_is_matrix(&p->items[i]);
        unweighed += p->im && t != want && quant_is_matrix(&p->items[i]) && !importance_of(p, i);
    }
    if (unweighed)
        fprintf(stderr, "quantize: note: the importance matrix says nothing about %llu of %llu matrices\n",
                (unsigned long long)unweighed, (unsigned long long)matrices);
    if (!p->im && quant_recipe_wants_importance(&p->recipe))
        fprintf(stderr, "quantize: note: %s without --imatrix loses much that it could keep (zinc imatrix makes one)\n", p->recipe.name);
    if (twice)
        fprintf(stderr, "quantize: note: %llu tensors were quantised already; the result from F16 or BF16 is "
                "better\n", (unsigned long long)twice);
    fprintf(stderr, "quantize: %.1f MiB -> %.1f MiB, %llu of %llu tensors converted, %.1f s\n", (double)from / 0x1p20,
            (double)to / 0x1p20, (unsigned long long)changed, (unsigned long long)p->g->n_tensors,
            (double)(clock_ns() - start_ns) * 1e-9);
}

static int run(const struct options *o, struct err *e)
{
    struct gguf *g = NULL;
    struct plan p = { 0 };
    uint64_t start = clock_ns();
    int rc = gguf_open(o->in, &g, e);
    if (!rc && !(rc = check_not_input(g, o->out, e)) && !(rc = recut_legacy(g, e)))
        rc = plan_init(&p, g, o, e);
    if (!rc && p.im)
        tell_imatrix(&p, o);
    if (!rc && o->dry_run)
        plan_print(&p);
    else if (!rc && !(rc = write_file(&p, o, e)))
        report(&p, start);
    plan_finish(&p);
    gguf_close(g);
    return rc;
}

/* PATTERN=TYPE; false: told. */
static bool parse_rule(const char *arg, struct options *o)
{
    const char *eq = strrchr(arg, '=');
    struct err e;
    if (!eq || eq == arg || (size_t)(eq - arg) >= sizeof o->rules[0].pattern)
        fprintf(stderr, "quantize: --tensor-type takes PATTERN=TYPE, as in '*attn_v*=Q6_K', not '%s'\n", arg);
    else if (o->n_rules == MAX_RULES)
        fprintf(stderr, "quantize: --tensor-type may be given %d times\n", MAX_RULES);
    else if (quant_type_parse(eq + 1, &o->rules[o->n_rules].type, &e))
        fprintf(stderr, "quantize: --tensor-type %s: %s\n", arg, e.msg);
    else {
        snprintf(o->rules[o->n_rules].pattern, sizeof o->rules[0].pattern, "%.*s", (int)(eq - arg), arg);
        o->n_rules++;
        return true;
    }
    return false;
}

/* 0: run; -1: done, exit 0; 2: usage error, told. */
static int parse_options(int argc, char **argv, struct options *o)
{
    enum { OPT_PURE = 1, OPT_DRY_RUN, OPT_THREADS, OPT_IMATRIX, OPT_TENSOR };
    static const struct option longs[] = { { "pure", 0, 0, OPT_PURE }, { "dry-run", 0, 0, OPT_DRY_RUN },
                                           { "threads", 1, 0, OPT_THREADS }, { "imatrix", 1, 0, OPT_IMATRIX },
                                           { "tensor-type", 1, 0, OPT_TENSOR }, { "help", 0, 0, 'h' }, { 0, 0, 0, 0 } };
    for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        char *end;
        switch (c) {
        case OPT_PURE: o->pure = true; break;
        case OPT_DRY_RUN: o->dry_run = true; break;
        case OPT_IMATRIX: o->imatrix = optarg; break;
        case OPT_TENSOR:
            if (!parse_rule(optarg, o))
                return 2;
            break;
        case OPT_THREADS:
            o->threads = (uint32_t)strtoul(optarg, &end, 10);
            if (*optarg < '0' || *optarg > '9' || *end || o->threads > 256) {
                fprintf(stderr, "quantize: --threads takes a number up to 256, not '%s'\n", optarg);
                return 2;
            }
            break;
        case 'h': usage(stdout); return -1;
        default: return 2; /* getopt_long said what */
        }
    }
    if (argc - optind != 3) {
        usage(stderr);
        return 2;
    }
    o->in = argv[optind];
    o->out = argv[optind + 1];
    o->type = argv[optind + 2];
    return 0;
}

static int run_program(int argc, char **argv)
{
    struct options o = { 0 };
    struct quant_recipe r;
    struct err e;
    int rc = parse_options(argc, argv, &o);
    if (rc)
        return rc < 0 ? 0 : rc;
    if (quant_recipe_parse(o.type, o.pure, &r, &e)) {
        fprintf(stderr, "quantize: %s\n", e.msg);
        return 2;
    }
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    signal(SIGXFSZ, SIG_IGN); /* a limit on files is a failed write */
    mapped_tell("quantize");
    if (run(&o, &e)) {
        fprintf(stderr, "quantize: %s\n", e.msg);
        return 1;
    }
    return 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("quantize", run_program(argc, argv));
}
