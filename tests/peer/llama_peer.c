/* tests/peer/llama_peer.c
 * Drives llama.cpp's CPU build, loaded at run time from the npm package @node-llama-cpp/linux-x64 (its folder of
 * libraries is $LLAMA_PEER_LIBS or --libs DIR), so that zinc can be compared with it.
 *
 *     llama_peer tokens MODEL --prompt-tokens 1,2,3 [-n N] [--force 4,5,..] [--dump-logits FILE] [options]
 *     llama_peer tokenize MODEL [--no-special]        text on stdin
 *     llama_peer perplexity MODEL [options]           windows of ids on stdin, one a line
 *     llama_peer quantize MODEL --out FILE --file-type N [--pure] [--ones | --imatrix FILE] [--dry-run]
 *                [--tensor REGEX --tensor-type N]
 *     llama_peer vector MODEL --prompt-tokens 1,2,3 [options]
 *     llama_peer bench MODEL [-p N] [-n N] [-d N] [-r N] [options]
 *     llama_peer probe                                the libraries load and their layout is the known one
 *
 * tokens: greedy ids on one line, end-of-generation tokens included and not obeyed (with --no-eog: not chosen); with
 * --force those ids are fed instead of its own, so that a tie does not end a comparison. The file gets f32 [n, n_vocab], the logits that each
 * token was chosen from. With --rows N that many ids of --force are evaluated at once, by the kernels for prompts.
 * perplexity: as engine/proof/perplexity.h defines it, of the windows that `zinc perplexity
 * --print-tokens` prints; "perplexity P +- E nll X tokens N", the likelihood's mean and the number of tokens counted.
 * vector: what the model makes of the whole prompt, pooled as its file says, numbers on one line; of a ranker the softmax of its
 * labels. quantize: writes the model with llama.cpp's own quantiser, N being general.file_type;
 * --ones: with an importance matrix of ones; --dry-run: prints what
 * it would do. bench: "pp128 t/s t/s ..." and
 * "tg32 t/s ...", one number per repetition.
 * options: --threads T (2), --fa | --no-fa (default for bench: yes, else no), --chunk N (512), --ctx N (what is needed) of context,
 * --cpu-variant V (haswell, icelake, ...: that build of the kernels rather than the best one), --kv f16|f32|q8_0 (the last needs --fa), -v (its
 * log), --gpu (all layers on the GPU that the libraries find: the package linux-x64-vulkan).
 * Exit: 0, 1 failed, 2 usage, 77 the libraries are absent or of another release. */
#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "model/gguf.h"
#include "model/imatrix.h"
#include "tests/peer/llama_abi.h"

struct opts {
    const char *command, *model, *libs, *variant, *prompt, *force, *dump, *kv, *out, *imatrix, *tensor;
    int n, p, d, reps, threads, chunk, ctx, fa, file_type, tensor_type, rows;
    bool no_special, no_eog, gpu, pure, ones, dry_run;
};

static bool verbose;

static void on_log(int level, const char *text, void *data)
{
    enum { ERROR_LEVEL = 4 };
    if (verbose || level == ERROR_LEVEL)
        fputs(text, stderr);
}

static __attribute__((noreturn, format(printf, 2, 3))) void die(int code, const char *fmt, ...)
{
    va_list ap;
    va_start(ap, fmt);
    fputs("llama_peer: ", stderr);
    vfprintf(stderr, fmt, ap);
    fputc('\n', stderr);
    va_end(ap);
    exit(code);
}

/* ---- loading ---------------------------------------------------------------------------------------------------- */

/* The file in `dir` whose name starts with `prefix` and ends in .so; the result is the caller's. */
static char *find_lib(const char *dir, const char *prefix)
{
    DIR *d = opendir(dir);
    char *found = NULL;
    for (struct dirent *f; d && (f = readdir(d));) {
        size_t len = strlen(f->d_name);
        if (!found && strncmp(f->d_name, prefix, strlen(prefix)) == 0 && len > 3 &&
            strcmp(f->d_name + len - 3, ".so") == 0 && asprintf(&found, "%s/%s", dir, f->d_name) < 0)
            found = NULL;
    }
    if (d)
        closedir(d);
    if (!found)
        die(77, "no %s*.so in %s (set LLAMA_PEER_LIBS)", prefix, dir);
    return found;
}

static void *open_lib(const char *dir, const char *prefix)
{
    char *path = find_lib(dir, prefix);
    void *lib = dlopen(path, RTLD_NOW | RTLD_GLOBAL);
    if (!lib)
        die(77, "%s", dlerror());
    free(path);
    return lib;
}

static void *symbol(void *lib, const char *name)
{
    void *p = dlsym(lib, name);
    if (!p)
        die(77, "the library lacks %s: not the release that tests/peer/llama_abi.h describes", name);
    return p;
}

static void load_peer(struct lm *lm, const struct opts *o)
{
    if (!o->libs)
        die(77, "no libraries: set LLAMA_PEER_LIBS or give --libs DIR");
    open_lib(o->libs, "libggml-base.");
    void *ggml = open_lib(o->libs, "libggml.");
    void *llama = open_lib(o->libs, "libllama.");
#define X(ret, name, sym, params) lm->name = (ret(*) params)symbol(llama, sym);
    LM_FUNCS(X)
#undef X
    lm->backend_load = (void *(*)(const char *))symbol(ggml, "ggml_backend_load");
    lm->backend_load_all = (void (*)(const char *))symbol(ggml, "ggml_backend_load_all_from_path");
    lm->log_set(on_log, NULL);
    const char *bad = abi_check(lm);
    if (bad)
        die(77, "%s returns other values than release v0.5.0 does: its structs may have another layout", bad);
    lm->backend_init();
    if (o->variant) {
        char prefix[96];
        snprintf(prefix, sizeof prefix, "libggml-cpu-%s.", o->variant);
        char *path = find_lib(o->libs, prefix);
        if (!lm->backend_load(path))
            die(1, "%s does not load", path);
        free(path);
    } else {
        lm->backend_load_all(o->libs);
    }
}

static void *load_model(const struct lm *lm, const struct opts *o, bool vocab_only)
{
    struct lm_model_params p = lm->model_defaults();
    p.n_gpu_layers = o->gpu ? 999 : 0;
    p.vocab_only = vocab_only;
    void *m = lm->model_load(o->model, p);
    if (!m)
        die(1, "llama.cpp does not load %s (its reasons with -v)", o->model);
    return m;
}

static int32_t kv_type(const struct opts *o)
{
    static const struct { const char *name; int32_t type; } types[] = { { "f32", 0 }, { "f16", 1 }, { "q8_0", 8 } };
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(o->kv, types[i].name) == 0)
            return types[i].type;
    die(2, "--kv: '%s' is none of f32, f16, q8_0", o->kv);
}

static void *create_vector_context(const struct lm *lm, const struct opts *o, void *model, int n_ctx)
{
    struct lm_context_params p = lm->context_defaults();
    p.n_ctx = p.n_batch = p.n_ubatch = (uint32_t)n_ctx;
    p.n_threads = p.n_threads_batch = o->threads;
    p.flash_attn_type = o->fa;
    p.type_k = p.type_v = kv_type(o);
    p.embeddings = true;
    void *c = lm->context_create(model, p);
    if (!c)
        die(1, "llama.cpp makes no context for vectors of %s", o->model);
    return c;
}

static void *create_context(const struct lm *lm, const struct opts *o, void *model, int n_ctx)
{
    struct lm_context_params p = lm->context_defaults();
    p.n_ctx = (uint32_t)(n_ctx > o->ctx ? n_ctx : o->ctx);
    p.n_batch = p.n_ubatch = (uint32_t)o->chunk;
    p.n_threads = p.n_threads_batch = o->threads;
    p.flash_attn_type = o->fa;
    p.type_k = p.type_v = kv_type(o);
    void *c = lm->context_create(model, p);
    if (!c)
        die(1, "llama.cpp makes no context of %d tokens for %s", n_ctx, o->model);
    return c;
}

static void eval(const struct lm *lm, const struct opts *o, void *ctx, int32_t *tok, int n)
{
    for (int i = 0; i < n; i += o->chunk) {
        int m = n - i < o->chunk ? n - i : o->chunk;
        int rc = lm->decode(ctx, lm->batch_one(tok + i, m));
        if (rc)
            die(1, "llama_decode of %d tokens from %d: %d", m, i, rc);
    }
}

/* ---- commands --------------------------------------------------------------------------------------------------- */

/* "1,2,3" (or spaces) to ids; the array is the caller's. */
static int32_t *parse_ids(const char *s, int *n)
{
    int32_t *ids = malloc((strlen(s) + 1) * sizeof *ids);
    *n = 0;
    while (*s) {
        char *end;
        long v = strtol(s, &end, 10);
        if (end == s || v < 0 || v > INT32_MAX)
            die(2, "not a list of token ids: '%s'", s);
        ids[(*n)++] = (int32_t)v;
        for (s = end; *s == ',' || *s == ' ' || *s == '\n'; s++)
            ;
    }
    return ids;
}

static int32_t choose(const struct lm *lm, const void *vocab, const float *x, bool no_eog)
{
    int best = -1, n = lm->n_tokens(vocab);
    for (int i = 0; i < n; i++)
        if ((best < 0 || x[i] > x[best]) && !(no_eog && lm->is_eog(vocab, i)))
            best = i;
    return best;
}

/* Prints what row k of the newest evaluation prefers, and dumps the row. */
static int32_t choose_and_dump(const struct lm *lm, const struct opts *o, void *ctx, const void *vocab, int k, FILE *dump)
{
    const float *logits = lm->logits_ith(ctx, k);
    size_t n_vocab = (size_t)lm->n_tokens(vocab);
    if (!logits)
        die(1, "no logits of row %d", k);
    int32_t tok = choose(lm, vocab, logits, o->no_eog);
    if (dump && fwrite(logits, sizeof *logits, n_vocab, dump) != n_vocab)
        die(1, "%s: %s", o->dump, strerror(errno));
    printf("%d", tok);
    return tok;
}

static int cmd_tokens(const struct lm *lm, const struct opts *o)
{
    int n_prompt = 0, n_force = 0;
    if (!o->prompt)
        die(2, "tokens needs --prompt-tokens");
    int32_t *prompt = parse_ids(o->prompt, &n_prompt);
    int32_t *force = o->force ? parse_ids(o->force, &n_force) : NULL;
    if (n_prompt == 0)
        die(2, "--prompt-tokens is empty");
    void *model = load_model(lm, o, false);
    void *ctx = create_context(lm, o, model, n_prompt + o->n + 8);
    const void *vocab = lm->vocab(model);
    FILE *dump = o->dump ? fopen(o->dump, "wb") : NULL;
    if (o->dump && !dump)
        die(1, "%s: %s", o->dump, strerror(errno));
    int8_t *want = malloc((size_t)o->n + 1);
    memset(want, 1, (size_t)o->n + 1);
    eval(lm, o, ctx, prompt, n_prompt);
    int32_t tok = choose_and_dump(lm, o, ctx, vocab, -1, dump);
    for (int i = 0, m; i + 1 < o->n; i += m) {
        int forced = i < n_force ? n_force - i : 0, most = forced < o->rows ? forced : o->rows;
        m = most < 1 ? 1 : most < o->n - 1 - i ? most : o->n - 1 - i;
        struct lm_batch b = lm->batch_one(forced ? force + i : &tok, m);
        b.logits = want;
        int rc = lm->decode(ctx, b);
        if (rc)
            die(1, "llama_decode of %d tokens after %d: %d", m, n_prompt + i, rc);
        for (int k = 0; k < m; k++) {
            printf(" ");
            tok = choose_and_dump(lm, o, ctx, vocab, k, dump);
        }
    }
    printf("\n");
    if (dump && fclose(dump))
        die(1, "%s: %s", o->dump, strerror(errno));
    lm->context_free(ctx);
    lm->model_free(model);
    free(prompt);
    free(force);
    free(want);
    return 0;
}

/* All of stdin, NUL-terminated; the caller's. */
static char *read_stdin(size_t *n)
{
    size_t cap = 1 << 20;
    char *text = malloc(cap);
    *n = 0;
    for (size_t got; text && (got = fread(text + *n, 1, cap - 1 - *n, stdin)) > 0;) {
        *n += got;
        if (*n == cap - 1)
            text = realloc(text, cap *= 2);
    }
    if (!text)
        die(1, "out of memory");
    text[*n] = 0;
    return text;
}

struct tally {
    double sum, sum_sq;
    int n;
};

/* Adds what the tokens after the first half cost, given those before them. */
static void score_window(const struct lm *lm, const struct opts *o, void *ctx, int n_vocab, int32_t *tok, int n,
                         struct tally *t)
{
    int first = n / 2;
    int32_t *pos = malloc((size_t)n * sizeof *pos), *n_seq = malloc((size_t)n * sizeof *n_seq), seq = 0;
    int32_t **seqs = malloc((size_t)n * sizeof *seqs);
    int8_t *want = malloc((size_t)n);
    if (!pos || !n_seq || !seqs || !want)
        die(1, "out of memory");
    for (int i = 0; i < n; i++) {
        pos[i] = i;
        n_seq[i] = 1;
        seqs[i] = &seq;
        want[i] = i >= first && i < n - 1;
    }
    lm->memory_clear(lm->memory(ctx), true);
    for (int i = 0; i < n - 1; i += o->chunk) {
        int m = n - 1 - i < o->chunk ? n - 1 - i : o->chunk;
        int rc = lm->decode(ctx, (struct lm_batch){ m, tok + i, NULL, pos + i, n_seq + i, seqs + i, want + i });
        if (rc)
            die(1, "llama_decode of %d tokens from %d: %d", m, i, rc);
        for (int k = 0; k < m; k++) {
            const float *x = want[i + k] ? lm->logits_ith(ctx, k) : NULL;
            if (!x)
                continue;
            double max = -INFINITY, sum = 0;
            for (int v = 0; v < n_vocab; v++)
                max = (double)x[v] > max ? (double)x[v] : max;
            for (int v = 0; v < n_vocab; v++)
                sum += exp((double)x[v] - max);
            double nll = log(sum) - ((double)x[tok[i + k + 1]] - max);
            t->sum += nll;
            t->sum_sq += nll * nll;
            t->n++;
        }
    }
    free(pos);
    free(n_seq);
    free(seqs);
    free(want);
}

static int cmd_perplexity(const struct lm *lm, const struct opts *o)
{
    size_t n_text;
    char *text = read_stdin(&n_text), *save = NULL;
    void *model = load_model(lm, o, false), *ctx = NULL;
    const void *vocab = lm->vocab(model);
    int n_window = 0, n_vocab = lm->n_tokens(vocab);
    struct tally t = { 0 };
    for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        int n;
        int32_t *tok = parse_ids(line, &n);
        if (!n_window) {
            n_window = n;
            ctx = create_context(lm, o, model, n);
        }
        if (n != n_window || n < 4)
            die(2, "a window of %d ids, expected %d", n, n_window);
        if (lm->add_bos(vocab) && tok[0] != lm->bos(vocab))
            die(2, "a window begins with %d, not with the begin-of-text token %d", tok[0], lm->bos(vocab));
        score_window(lm, o, ctx, n_vocab, tok, n, &t);
        free(tok);
    }
    if (!t.n)
        die(2, "no windows on stdin");
    double mean = t.sum / t.n, var = t.n > 1 ? (t.sum_sq / t.n - mean * mean) / (t.n - 1) : 0;
    printf("perplexity %.9g +- %.6g nll %.9g tokens %d\n", exp(mean), exp(mean) * sqrt(var), mean, t.n);
    lm->context_free(ctx);
    lm->model_free(model);
    free(text);
    return 0;
}

/* An importance matrix that finds all columns of all tensors alike; for the life of the process. */
static const struct lm_imatrix *ones_for(const char *path)
{
    struct gguf *g;
    struct err e;
    if (gguf_open(path, &g, &e))
        die(1, "%s", e.msg);
    struct lm_imatrix *im = calloc(g->n_tensors + 1, sizeof *im);
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        size_t n = t->ne[0] * t->ne[2];
        float *one = malloc(n * sizeof *one);
        for (size_t k = 0; k < n; k++)
            one[k] = 1;
        im[i] = (struct lm_imatrix){ strndup(t->name.s, t->name.len), one, n };
    }
    gguf_close(g);
    return im;
}

/* What `zinc imatrix` wrote; for the life of the process. */
static const struct lm_imatrix *imatrix_of(const char *path)
{
    struct imatrix *z;
    struct err e;
    if (imatrix_read(path, &z, &e))
        die(1, "%s", e.msg);
    struct lm_imatrix *im = calloc(z->n + 1, sizeof *im);
    for (uint32_t i = 0; i < z->n; i++) {
        const struct imatrix_entry *en = &z->e[i];
        float *w = malloc((size_t)en->n_in * en->n_mats * sizeof *w);
        for (uint32_t m = 0; m < en->n_mats; m++)
            imatrix_weights(en, m, w + (size_t)m * en->n_in);
        im[i] = (struct lm_imatrix){ en->name, w, (size_t)en->n_in * en->n_mats };
    }
    return im;
}

static void log_all(int level, const char *text, void *user)
{
    (void)level, (void)user;
    fputs(text, stdout);
}

static int cmd_quantize(const struct lm *lm, const struct opts *o)
{
    struct lm_quantize_params p = lm->quantize_defaults();
    if (!o->out || o->file_type < 0)
        die(2, "quantize needs --out FILE and --file-type N");
    p.n_threads = o->threads;
    p.file_type = o->file_type;
    p.pure = o->pure;
    p.dry_run = o->dry_run;
    if (o->dry_run)
        lm->log_set(log_all, NULL);
    p.imatrix = o->ones ? ones_for(o->model) : o->imatrix ? imatrix_of(o->imatrix) : NULL;
    struct lm_tensor_type types[2] = { { o->tensor, o->tensor_type }, { 0 } };
    p.tensor_types = o->tensor ? types : NULL;
    uint32_t rc = lm->quantize(o->model, o->out, &p);
    if (rc)
        die(1, "llama_model_quantize of %s to file type %d: %u", o->model, o->file_type, rc);
    return 0;
}

static int cmd_tokenize(const struct lm *lm, const struct opts *o)
{
    size_t n;
    char *text = read_stdin(&n);
    int32_t *ids = malloc((n + 16) * sizeof *ids);
    if (!ids)
        die(1, "out of memory");
    void *model = load_model(lm, o, true);
    int count = lm->tokenize(lm->vocab(model), text, (int32_t)n, ids, (int32_t)n + 16, !o->no_special, !o->no_special);
    if (count < 0)
        die(1, "llama_tokenize: %d", count);
    for (int i = 0; i < count; i++)
        printf("%s%d", i ? " " : "", ids[i]);
    printf("\n");
    lm->model_free(model);
    free(ids);
    free(text);
    return 0;
}

static double now(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Seconds for the prompt of p tokens at depth 0, and for n single tokens after it or after d tokens. */
static void bench_once(const struct lm *lm, const struct opts *o, void *ctx, int32_t *tok, double *pp, double *tg)
{
    double t0;
    lm->memory_clear(lm->memory(ctx), true);
    if (o->p) {
        t0 = now();
        eval(lm, o, ctx, tok, o->p);
        lm->synchronize(ctx);
        *pp = now() - t0;
    }
    if (o->n) {
        lm->memory_clear(lm->memory(ctx), true);
        eval(lm, o, ctx, tok, o->d ? o->d : 1);
        lm->synchronize(ctx);
        t0 = now();
        for (int i = 0; i < o->n; i++) {
            eval(lm, o, ctx, &tok[i], 1);
            lm->synchronize(ctx);
        }
        *tg = now() - t0;
    }
}

static int cmd_bench(const struct lm *lm, const struct opts *o)
{
    int need = o->p > o->d + o->n ? o->p : o->d + o->n;
    void *model = load_model(lm, o, false);
    void *ctx = create_context(lm, o, model, need + 8);
    int n_vocab = lm->n_tokens(lm->vocab(model));
    int32_t *tok = malloc((size_t)(need + 1) * sizeof *tok);
    double *pp = calloc((size_t)o->reps + 1, sizeof *pp), *tg = calloc((size_t)o->reps + 1, sizeof *tg);
    if (!tok || !pp || !tg)
        die(1, "out of memory");
    uint32_t seed = 1;
    for (int i = 0; i <= need; i++) {
        seed = seed * 1664525u + 1013904223u;
        tok[i] = (int32_t)((seed >> 8) % (uint32_t)n_vocab);
    }
    for (int r = 0; r <= o->reps; r++) /* the first one warms up */
        bench_once(lm, o, ctx, tok, &pp[r], &tg[r]);
    if (o->p) {
        printf("pp%d", o->p);
        for (int r = 1; r <= o->reps; r++)
            printf(" %.3f", o->p / pp[r]);
        printf("\n");
    }
    if (o->n) {
        printf(o->d ? "tg%d@d%d" : "tg%d", o->n, o->d);
        for (int r = 1; r <= o->reps; r++)
            printf(" %.3f", o->n / tg[r]);
        printf("\n");
    }
    lm->context_free(ctx);
    lm->model_free(model);
    free(pp);
    free(tg);
    free(tok);
    return 0;
}

static int cmd_vector(const struct lm *lm, const struct opts *o)
{
    enum { RANK = 4 }; /* include/llama.h, enum llama_pooling_type */
    int n;
    int32_t *tok = parse_ids(o->prompt ? o->prompt : "", &n);
    if (!n)
        die(2, "vector: --prompt-tokens is missing");
    void *model = load_model(lm, o, false), *ctx = create_vector_context(lm, o, model, n < 32 ? 32 : n);
    int rc = lm->decode(ctx, lm->batch_one(tok, n));
    if (rc)
        die(1, "llama_decode of %d tokens: %d", n, rc);
    bool ranks = lm->pooling(ctx) == RANK;
    const float *v = lm->embeddings_seq(ctx, 0);
    if (!v)
        die(1, "no vector: the file's pooling type is %d", lm->pooling(ctx));
    int size = ranks ? (int)lm->n_cls_out(model) : lm->n_embd(model);
    for (int i = 0; i < size; i++)
        printf(i ? " %.9g" : "%.9g", (double)v[i]);
    printf("\n");
    lm->context_free(ctx);
    lm->model_free(model);
    free(tok);
    return 0;
}

/* ---- command line ----------------------------------------------------------------------------------------------- */

static int to_int(const char *flag, const char *s, int min)
{
    char *end;
    long v = strtol(s, &end, 10);
    if (end == s || *end || v < min || v > 1 << 24)
        die(2, "%s: '%s' is not a number from %d", flag, s, min);
    return (int)v;
}

static void parse(struct opts *o, int argc, char **argv)
{
    static const struct { const char *flag; size_t off; int min; } ints[] = {
        { "--rows", offsetof(struct opts, rows), 1 },        { "--tensor-type", offsetof(struct opts, tensor_type), 0 },
        { "-n", offsetof(struct opts, n), 0 },       { "-p", offsetof(struct opts, p), 0 },
        { "-d", offsetof(struct opts, d), 0 },       { "-r", offsetof(struct opts, reps), 1 },
        { "--threads", offsetof(struct opts, threads), 1 }, { "-t", offsetof(struct opts, threads), 1 },
        { "--chunk", offsetof(struct opts, chunk), 1 },     { "--ctx", offsetof(struct opts, ctx), 1 },
        { "--file-type", offsetof(struct opts, file_type), 0 },
    };
    static const struct { const char *flag; size_t off; } strs[] = {
        { "--prompt-tokens", offsetof(struct opts, prompt) }, { "--force", offsetof(struct opts, force) },
        { "--dump-logits", offsetof(struct opts, dump) },     { "--libs", offsetof(struct opts, libs) },
        { "--cpu-variant", offsetof(struct opts, variant) },  { "--kv", offsetof(struct opts, kv) },
        { "--out", offsetof(struct opts, out) },              { "--imatrix", offsetof(struct opts, imatrix) },
        { "--tensor", offsetof(struct opts, tensor) },
    };
    for (int i = 1; i < argc; i++) {
        const char *a = argv[i], *value = i + 1 < argc ? argv[i + 1] : NULL;
        bool known = false;
        for (size_t k = 0; k < sizeof ints / sizeof *ints && value; k++)
            if (strcmp(a, ints[k].flag) == 0) {
                *(int *)((char *)o + ints[k].off) = to_int(a, value, ints[k].min);
                known = ++i;
            }
        for (size_t k = 0; k < sizeof strs / sizeof *strs && value && !known; k++)
            if (strcmp(a, strs[k].flag) == 0) {
                *(const char **)((char *)o + strs[k].off) = value;
                known = ++i;
            }
        if (known)
            continue;
        if (strcmp(a, "--fa") == 0)
            o->fa = 1;
        else if (strcmp(a, "--no-fa") == 0)
            o->fa = 0;
        else if (strcmp(a, "--no-special") == 0)
            o->no_special = true;
        else if (strcmp(a, "--no-eog") == 0)
            o->no_eog = true;
        else if (strcmp(a, "--gpu") == 0)
            o->gpu = true;
        else if (strcmp(a, "--pure") == 0)
            o->pure = true;
        else if (strcmp(a, "--ones") == 0)
            o->ones = true;
        else if (strcmp(a, "--dry-run") == 0)
            o->dry_run = true;
        else if (strcmp(a, "-v") == 0)
            verbose = true;
        else if (a[0] == '-')
            die(2, "unknown option or no value: %s", a);
        else if (!o->command)
            o->command = a;
        else if (!o->model)
            o->model = a;
        else
            die(2, "one model at a time: %s", a);
    }
}

int main(int argc, char **argv)
{
    struct opts o = { .libs = getenv("LLAMA_PEER_LIBS"), .n = -1, .p = 128, .reps = 3, .threads = 2, .chunk = 512,
                      .fa = -2, .kv = "f16", .file_type = -1 };
    parse(&o, argc, argv);
    static const struct { const char *name; int (*run)(const struct lm *, const struct opts *); int n, fa; } cmds[] = {
        { "tokens", cmd_tokens, 64, 0 },         { "tokenize", cmd_tokenize, 0, 0 }, { "bench", cmd_bench, 32, 1 },
        { "perplexity", cmd_perplexity, 0, 0 }, { "quantize", cmd_quantize, 0, 0 },
        { "vector", cmd_vector, 0, 0 },
    };
    struct lm lm;
    if (o.command && strcmp(o.command, "probe") == 0) {
        load_peer(&lm, &o);
        return 0;
    }
    for (size_t i = 0; o.model && i < sizeof cmds / sizeof *cmds; i++)
        if (strcmp(o.command, cmds[i].name) == 0) {
            o.n = o.n < 0 ? cmds[i].n : o.n;
            o.fa = o.fa == -2 ? cmds[i].fa : o.fa;
            load_peer(&lm, &o);
            return cmds[i].run(&lm, &o);
        }
    die(2, "usage: llama_peer tokens|tokenize|perplexity|quantize|vector|bench MODEL [options], llama_peer probe; see "
           "tests/peer/llama_peer.c");
}
