/* mkmodel: writes synthetic models. See usage(). */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/flag.h"
#include "base/nearest.h"
#include "base/progress.h"
#include "base/stdout.h"
#include "model/quant_out.h"
#include "model/quant_par.h"
#include "tools/mkmodel/mkmodel.h"

enum { PIECE_BYTES = 32 << 20, SLICE_BYTES = 256 << 10 };

struct options {
    const char *preset, *out, *type;
    uint64_t seed;
    uint32_t layers, threads;
    bool no_vocab, expert_scales;
};

static struct flag interrupted;

static void on_signal(int sig)
{
    (void)sig;
    flag_set(&interrupted, true);
}

static void usage(FILE *f)
{
    fputs("usage: mkmodel PRESET OUT.gguf [options]\n"
          "       mkmodel --list\n"
          "\n"
          "Writes a model with random weights: the shape, tensor types, vocabulary and chat format of a real\n"
          "family, small enough for a test (tiny-*) or as large as the real one, for measuring speed. The file\n"
          "depends on the preset, the options and the seed alone. tiny-* models draw floats and quantise them; the\n"
          "others draw the quantised blocks themselves, which is fast and measures the same.\n"
          "\n"
          "  --type T       tensor types: a recipe (Q4_K_M, UD_Q4_K_XL, ...), or a type (Q8_0, IQ4_NL, ...) for\n"
          "                 every matrix. tiny-* models hold the same weights in every type but IQ1 to IQ3,\n"
          "                 TQ1_0 and TQ2_0, whose codes are random, and NVFP4, whose matrices have numbers\n"
          "                 beside them. Default: see the list\n"
          "  --layers N     only N layers: 1 or 2 of a large model are enough to measure its kernels\n"
          "  --seed N       other weights (default 1)\n"
          "  --expert-scales  numbers beside NVFP4 experts too\n"
          "  --no-vocab     leave the vocabulary out (token ids only)\n"
          "  --threads N    default: one per core; does not change the file\n"
          "  --list         the presets\n"
          "\n"
          "  mkmodel tiny-qwen3 /tmp/t.gguf --type Q4_K_M\n"
          "  mkmodel qwen3-8b-q4_k_m /tmp/8b-2l.gguf --layers 2\n",
          f);
}

static int list(void)
{
    printf("%-27s %-10s %-11s %6s %6s %9s %6s %8s %7s %9s\n", "preset", "family", "type", "layers", "embd",
           "heads/kv", "ff", "experts", "vocab", "size");
    for (size_t i = 0; i < n_presets; i++) {
        const struct preset *p = &presets[i];
        struct mk_model m;
        struct err e;
        char heads[24], experts[24] = "-";
        if (mk_model_init(&m, p, 0, NULL, &e)) {
            fprintf(stderr, "mkmodel: %s: %s\n", p->name, e.msg);
            return 1;
        }
        snprintf(heads, sizeof heads, "%u/%u", p->n_head, p->n_head_kv);
        if (p->n_expert)
            snprintf(experts, sizeof experts, "%u/%u", p->n_used, p->n_expert);
        double mib = (double)mk_model_bytes(&m) / (1 << 20);
        printf("%-27s %-10s %-11s %6u %6u %9s %6u %8s %7u %5.1f %s\n", p->name, m.arch, p->recipe, p->n_layer,
               p->n_embd, heads, p->n_expert ? p->n_ff_exp : p->n_ff, experts, p->n_vocab,
               mib < 1024 ? mib : mib / 1024, mib < 1024 ? "MiB" : "GiB");
        mk_model_finish(&m);
    }
    return 0;
}

struct fill_job {
    const struct mk_model *m;
    const struct mk_tensor *t;
    uint64_t first, n, slice; /* elements */
    uint8_t *dst;
};

static int fill_slice(void *user, uint64_t i, struct err *e)
{
    struct fill_job *j = user;
    uint64_t at = i * j->slice, n = MIN(j->slice, j->n - at);
    return mk_fill(j->m, j->t, j->first + at, n, j->dst + qtype_row_bytes(j->t->type, at), e);
}

static int write_tensor(const struct mk_model *m, const struct mk_tensor *t, uint32_t threads, uint8_t *buf,
                        struct gguf_writer *w, uint64_t *done, uint64_t total, const struct progress *p,
                        struct err *e)
{
    uint32_t block = qtype_block(t->type), block_bytes = qtype_block_bytes(t->type);
    uint64_t n = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3], piece = (uint64_t)PIECE_BYTES / block_bytes * block;
    for (uint64_t at = 0; at < n; at += piece) {
        struct fill_job j = { m, t, at, MIN(piece, n - at), (uint64_t)SLICE_BYTES / block_bytes * block, buf };
        uint64_t bytes = qtype_row_bytes(t->type, j.n);
        int rc = quant_parallel(threads, (j.n + j.slice - 1) / j.slice, fill_slice, &j, e);
        if (!rc)
            rc = gguf_writer_data(w, buf, bytes, e);
        if (rc)
            return rc;
        *done += bytes;
        if (flag_is_set(&interrupted) || !progress_report(p, "writing", *done, total))
            return err_set(e, -ECANCELED, "interrupted; nothing was left behind");
    }
    return 0;
}

static int write_model(const struct mk_model *m, const struct options *o, struct err *e)
{
    struct gguf_writer *w = NULL;
    struct progress p = progress_terminal();
    uint64_t done = 0, total = mk_model_bytes(m);
    uint8_t *buf = malloc(PIECE_BYTES);
    int rc = buf ? quant_check_output(o->out, total, e) : err_set(e, -ENOMEM, "no memory");
    if (!rc)
        rc = gguf_writer_create(o->out, &w, e);
    if (!rc && !(rc = mk_write_keys(m, w, e)))
        rc = mk_write_vocab(m, !o->no_vocab, w, e);
    if (!rc) {
        for (size_t i = 0; i < m->n; i++)
            gguf_put_tensor(w, m->t[i].name, m->t[i].type, m->t[i].n_dims, m->t[i].ne);
        rc = gguf_writer_begin(w, e);
    }
    for (size_t i = 0; !rc && i < m->n; i++)
        rc = write_tensor(m, &m->t[i], o->threads, buf, w, &done, total, &p, e);
    if (!rc)
        rc = gguf_writer_finish(w, e);
    gguf_writer_destroy(w);
    free(buf);
    return rc;
}

static bool parse_number(const char *s, uint64_t limit, uint64_t *out)
{
    char *end;
    errno = 0;
    *out = strtoull(s, &end, 0);
    return *s >= '0' && *s <= '9' && !*end && !errno && *out <= limit;
}

/* 0: run; -1: done, exit 0; 2: usage error, told. */
static int parse_options(int argc, char **argv, struct options *o)
{
    enum { OPT_SEED = 1, OPT_TYPE, OPT_NO_VOCAB, OPT_LAYERS, OPT_LIST, OPT_THREADS, OPT_EXPERT_SCALES };
    static const struct option longs[] = {
        { "seed", 1, 0, OPT_SEED },     { "type", 1, 0, OPT_TYPE },       { "no-vocab", 0, 0, OPT_NO_VOCAB },
        { "layers", 1, 0, OPT_LAYERS }, { "threads", 1, 0, OPT_THREADS }, { "list", 0, 0, OPT_LIST },
        { "help", 0, 0, 'h' },          { "expert-scales", 0, 0, OPT_EXPERT_SCALES }, { 0, 0, 0, 0 },
    };
    for (int c; (c = getopt_long(argc, argv, "h", longs, NULL)) != -1;) {
        uint64_t n = 0;
        bool ok = true;
        switch (c) {
        case OPT_SEED: ok = parse_number(optarg, UINT64_MAX, &o->seed); break;
        case OPT_TYPE: o->type = optarg; break;
        case OPT_NO_VOCAB: o->no_vocab = true; break;
        case OPT_EXPERT_SCALES: o->expert_scales = true; break;
        case OPT_LAYERS:
            ok = parse_number(optarg, MODEL_MAX_LAYERS, &n) && n > 0;
            o->layers = (uint32_t)n;
            break;
        case OPT_THREADS:
            ok = parse_number(optarg, 256, &n);
            o->threads = (uint32_t)n;
            break;
        case OPT_LIST: exit(stdout_finish("mkmodel", list()));
        case 'h': usage(stdout); return -1;
        default: return 2; /* getopt_long said what */
        }
        if (!ok) {
            fprintf(stderr, "mkmodel: '%s' is no number that this option takes; see mkmodel --help\n", optarg);
            return 2;
        }
    }
    if (argc - optind != 2) {
        usage(stderr);
        return 2;
    }
    o->preset = argv[optind];
    o->out = argv[optind + 1];
    return 0;
}

static const char *preset_name_at(const void *user, size_t i)
{
    (void)user;
    return i < n_presets ? presets[i].name : NULL;
}

static int run_program(int argc, char **argv)
{
    struct options o = { .seed = 1 };
    struct mk_model m;
    struct err e;
    int rc = parse_options(argc, argv, &o);
    if (rc)
        return rc < 0 ? 0 : rc;
    const struct preset *p = preset_find(o.preset);
    if (!p) {
        const char *near = nearest_name(o.preset, preset_name_at, NULL);
        fprintf(stderr, "mkmodel: no preset '%s'%s%s%s; mkmodel --list shows them\n", o.preset, near ? ": did you mean " : "",
                near ? near : "", near ? "?" : "");
        return 2;
    }
    if (mk_model_init(&m, p, o.layers, o.type, &e)) {
        fprintf(stderr, "mkmodel: %s\n", e.msg);
        return 2;
    }
    m.seed = o.seed;
    if (o.expert_scales)
        mk_model_expert_scales(&m);
    signal(SIGINT, on_signal);
    signal(SIGTERM, on_signal);
    rc = write_model(&m, &o, &e);
    uint64_t bytes = mk_model_bytes(&m);
    mk_model_finish(&m);
    if (rc) {
        fprintf(stderr, "mkmodel: %s\n", e.msg);
        return 1;
    }
    fprintf(stderr, "mkmodel: %s: %s, seed %llu, %.1f MiB\n", o.out, o.preset, (unsigned long long)o.seed, (double)bytes / 0x1p20);
    return 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("mkmodel", run_program(argc, argv));
}
