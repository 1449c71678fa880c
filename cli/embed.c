/* zinc embed: vectors of texts, or how well documents fit a query. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "cli/cli.h"
#include "engine/serve/sched.h"

enum { MAX_SLOTS = 16 };

static struct {
    const char *pooling, *query;
    uint32_t dimensions;
    bool raw, null, tokens;
} args;

static const struct opt embed_opts[] = {
    OPT_WORDS("auto|mean|cls|last|rank", "pooling", 0, OPT_STR, &args.pooling, "P",
      "pooling of the outputs: mean, cls (first token), last, rank (scores); auto (default): as the file says"),
    OPT("dimensions", 0, OPT_U32, &args.dimensions, "N", "keep the first N dimensions, normalised again"),
    OPT("raw", 0, OPT_FLAG, &args.raw, NULL, "do not normalise"),
    OPT("query", 0, OPT_STR, &args.query, "TEXT", "the texts are documents: print how well each answers this query, 0 to 1"),
    OPT("tokens", 0, OPT_FLAG, &args.tokens, NULL, "each text is a list of token ids: 1,2,3"),
    OPT("null", '0', OPT_FLAG, &args.null, NULL, "standard input holds many texts, each ended by a NUL byte"),
    { 0 },
};

/* One text on its way through the scheduler. */
struct item {
    const char *text;
    size_t n;
    struct engine_prompt prompt;
    struct sched_job *job;
    struct sched_out out;
    struct work *work;
    bool done;
};

struct work {
    struct item *item;
    uint32_t n;
    pthread_mutex_t lock;
    pthread_cond_t ended;
};

/* The texts: operands or, without any, standard input. *in is malloc'ed and must live as long as they. */
static int take_texts(struct work *w, int argc, char **argv, char **in, struct err *e)
{
    size_t len = 0, n = argc > 1 ? (size_t)argc - 1 : 1;
    if (argc <= 1) {
        int rc = cli_read_file("-", in, &len, e);
        if (rc)
            return rc;
        for (size_t i = 0; args.null && i + 1 < len; i++)
            n += (*in)[i] == 0;
    }
    if (n > INT32_MAX || !(w->item = calloc(n, sizeof *w->item)))
        return err_set(e, -ENOMEM, "out of memory for %zu texts", n);
    w->n = (uint32_t)n;
    const char *at = *in;
    for (uint32_t i = 0; i < w->n; i++) {
        struct item *t = &w->item[i];
        t->work = w;
        t->text = argc > 1 ? argv[i + 1] : at;
        t->n = argc > 1 ? strlen(t->text) : args.null ? strnlen(at, len - (size_t)(at - *in)) : len;
        at += argc > 1 ? 0 : t->n + 1;
    }
    return 0;
}

/* Prompts of all texts; *longest: in tokens. */
static int encode(const struct engine *eng, struct work *w, uint32_t *longest, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < w->n && !rc; i++) {
        struct item *t = &w->item[i];
        rc = args.tokens ? (cli_parse_ids(t->text, &t->prompt.ids, &t->prompt.n) ? -EINVAL : 0)
             : args.query ? engine_rank_prompt(eng, args.query, strlen(args.query), t->text, t->n, &t->prompt, e)
                        : engine_encode(eng, t->text, t->n, ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL, &t->prompt.ids,
                                        &t->prompt.n, e);
        if (!rc && !t->prompt.n)
            rc = err_set(e, -EINVAL, "text %u is empty, expected at least one token", i + 1);
        *longest = MAX(*longest, t->prompt.n);
    }
    return rc;
}

static void on_wake(void *user)
{
    struct item *t = user;
    struct sched_out o;
    pthread_mutex_lock(&t->work->lock);
    if (t->job) {
        sched_take(t->job, &o);
        t->done = o.end != SCHED_RUNNING;
        t->out = o;
        pthread_cond_signal(&t->work->ended);
    }
    pthread_mutex_unlock(&t->work->lock);
}

/* Submits all, which the queue has room for, and waits. */
static int run(struct sched *s, struct work *w, struct err *e)
{
    int rc = 0;
    pthread_mutex_lock(&w->lock);
    for (uint32_t i = 0; i < w->n && !rc; i++) {
        struct item *t = &w->item[i];
        uint32_t retry;
        struct sched_request q = { .prompt = t->prompt.ids, .n_prompt = t->prompt.n, .pool = true, .n_logprobs = -1,
                                   .goes_on = true, .wake = on_wake, .user = t };
        rc = sched_submit(s, &q, &t->job, &retry, e);
    }
    for (uint32_t i = 0; i < w->n && !rc; i++) {
        while (!w->item[i].done)
            pthread_cond_wait(&w->ended, &w->lock);
        if (w->item[i].out.end != SCHED_OK) {
            rc = w->item[i].out.err.code ? w->item[i].out.err.code : -EIO;
            *e = w->item[i].out.err;
        }
    }
    pthread_mutex_unlock(&w->lock);
    return rc;
}

static void print_vector(const struct engine_info *in, const float *made)
{
    uint32_t n = args.dimensions ? args.dimensions : in->n_vector;
    float *v = malloc(n * sizeof *v);
    if (!v)
        return;
    memcpy(v, made, n * sizeof *v);
    if (!args.raw && strcmp(in->pooling, "rank") != 0)
        engine_normalise(v, n);
    for (uint32_t i = 0; i < n; i++)
        printf("%s%.9g", i ? ", " : "[", (double)v[i]);
    puts("]");
    free(v);
}

static int embed(struct engine *eng, struct work *w, struct err *e)
{
    const struct engine_info *in = engine_info(eng);
    struct sched *s = NULL;
    struct sched_opts o = { 0 };
    int rc = sched_create(eng, &o, &s, e);
    if (!rc)
        rc = run(s, w, e);
    for (uint32_t i = 0; i < w->n && !rc; i++)
        if (args.query)
            printf("%.9g\n", engine_rank_score(w->item[i].out.vector, in->n_vector));
        else
            print_vector(in, w->item[i].out.vector);
    for (uint32_t i = 0; i < w->n; i++)
        sched_release(w->item[i].job);
    sched_destroy(s);
    return rc;
}

/* 0 or an exit status. */
static int check_engine(const struct engine_info *in)
{
    struct err e = { 0 };
    if (!in->pooling)
        err_set(&e, -ENOTSUP, "%s is not an embedding model: its file has no '%s.pooling_type' (--pooling last makes embeddings all "
                "the same)", in->label, in->family);
    else if (args.query && strcmp(in->pooling, "rank") != 0)
        err_set(&e, -ENOTSUP, "--query: %s makes embeddings (pooling_type %s), expected a reranking model (pooling_type rank)", in->label,
                in->pooling);
    else if (args.dimensions > in->n_vector)
        err_set(&e, -EINVAL, "--dimensions %u: the vectors of %s have %u", args.dimensions, in->label, in->n_vector);
    return e.code ? cli_fail(&e) : 0;
}

static int embed_texts(struct engine *eng, struct work *w, int argc, char **argv, char **in)
{
    struct err e = { 0 };
    uint32_t longest = 0;
    if (args.tokens && args.query)
        return usage_error("--tokens and --query exclude each other: a query and its documents are texts");
    if (take_texts(w, argc, argv, in, &e))
        return cli_fail(&e);
    if (encode(eng, w, &longest, &e))
        return e.code ? cli_fail(&e) : EXIT_USAGE;
    cli_model.o.pooling = args.pooling ? args.pooling : "auto";
    cli_model.o.n_slots = cli_model.o.score_rows = MIN(w->n, (uint32_t)MAX_SLOTS);
    cli_model.o.n_ctx = cli_model.o.n_ctx ? cli_model.o.n_ctx : longest;
    int rc = cli_start(eng);
    if (rc || (rc = check_engine(engine_info(eng))))
        return rc;
    cli_print_header(eng);
    return embed(eng, w, &e) ? cli_fail(&e) : EXIT_OK;
}

static int embed_main(int argc, char **argv)
{
    struct engine *eng = NULL;
    struct work w = { .lock = PTHREAD_MUTEX_INITIALIZER, .ended = PTHREAD_COND_INITIALIZER };
    char *in = NULL;
    int rc = cli_open_vocab(&eng);
    if (rc)
        return rc;
    rc = embed_texts(eng, &w, argc, argv, &in);
    for (uint32_t i = 0; i < w.n; i++)
        engine_prompt_free(&w.item[i].prompt);
    free(w.item);
    free(in);
    engine_close(eng);
    return rc;
}

static const struct opt_group groups[] = {
    { "vectors", embed_opts }, { "model and hardware", cli_model_opts }, { 0 },
};

const struct command cmd_embed = {
    .name = "embed",
    .summary = "embeddings of texts, and ranking by a query",
    .usage = "-m MODEL.gguf [--dimensions N] [--query TEXT] [TEXT...]",
    .about =
        "Prints one line for each text: its embedding, a JSON array normalised to length 1; with --query\n"
        "instead a number, how well the text answers the query. Without texts, standard input is the only one.\n"
        "The file says what a model was made for (pooling_type): Qwen3-Embedding gives embeddings,\n"
        "Qwen3-Reranker ranks. Other models are refused unless --pooling says how to pool their outputs.\n"
        "\n"
        "  zinc embed -m qwen3-embedding-0.6b-q8_0.gguf \"a cat on a mat\" \"a dog on a log\"\n"
        "  zinc embed -m qwen3-embedding-0.6b-q8_0.gguf --dimensions 256 < page.txt\n"
        "  zinc embed -m qwen3-reranker-0.6b-q8_0.gguf --query \"where?\" \"on a mat\"",
    .groups = groups,
    .operands = (const char *const[]){ "TEXT...", NULL },
    .main = embed_main,
};
