/* zinc perplexity: how well a model predicts a text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "engine/proof/perplexity.h"

static struct {
    uint32_t n_window, max_windows;
    const char *save, *against;
    bool json, print_tokens, special;
} args = { .n_window = 512 };

static const struct opt opts[] = {
    OPT("ctx", 'c', OPT_U32, &args.n_window, "N", "tokens per window, each evaluated from an empty cache (default: 512)"),
    OPT("chunks", 0, OPT_U32, &args.max_windows, "N", "the first N windows only (default: all of the text)"),
    OPT("save-logits", 0, OPT_STR, &args.save, "FILE",
        "write every distribution to FILE, two bytes a token of the vocabulary: this model is the reference"),
    OPT("against", 0, OPT_STR, &args.against, "FILE", "compare with the reference that --save-logits wrote, over the same text"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "one JSON object"),
    OPT("parse-special", 0, OPT_FLAG, &args.special, NULL,
        "control tokens written in the text are tokens, for texts of conversations (default: they are text)"),
    OPT("print-tokens", 0, OPT_FLAG, &args.print_tokens, NULL,
        "evaluate nothing: print the ids of each window on one line, for other programs"),
    { 0 },
};

static const struct opt model_opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the model, a GGUF file; of a split model the first part"),
    OPT_CHECKED(cli_check_tier, "tier", 0, OPT_STR, &cli_model.o.tier, "T", "the tier, also with options: auto, cpu, cpu:exact, vulkan, ..."),
    OPT("exact", 0, OPT_FLAG, &cli_model.o.exact, NULL, "cpu: dequantise and accumulate in double: slow, the reference for everything else"),
    CLI_KV,
    CLI_ROPE,
    OPT("chunk", 0, OPT_U32, &cli_model.o.chunk, "N", "tokens per step (default: 512, on a GPU 1024 or 2048)"),
    OPT_RANGE(0, CLI_MAX_THREADS, "threads", 't', OPT_I32, &cli_model.o.threads, "N", "cpu: worker threads (default: one per core)"),
    OPT_RANGE(0, 255, "device", 0, OPT_I32, &cli_model.device, "N", "which of the tier's devices (default: the best)"),
    OPT("device-name", 0, OPT_STR, &cli_model.o.device_name, "S", "the device whose name contains this"),
    OPT("no-fuse", 0, OPT_FLAG, &cli_model.o.no_fuse, NULL, "one command per operation"),
    OPT("ignore-memory", 0, OPT_FLAG, &cli_model.o.ignore_memory, NULL, "start even if memory seems too small"),
    OPT("quiet", 'q', OPT_FLAG, &cli_model.quiet, NULL, "print only errors on stderr"),
    { 0 },
};

static void print_against(const struct perplexity_result *r)
{
    const struct divergence_result *d = &r->against;
    printf("reference   %s, perplexity %.4f\n", r->reference, d->ref_ppl);
    printf("ratio       %.5f ± %.5f, this perplexity by the reference's\n", d->ratio, d->ratio_error);
    printf("divergence  %.6f ± %.6f nats a token; median %.6f, 99 %% below %.6f\n", d->kl, d->kl_error, d->kl_median, d->kl_99);
    printf("top token   %.3f %% ± %.3f %% the reference's\n", 100 * d->same, 100 * d->same_error);
}

static void print_text(const struct perplexity_result *r, const struct perplexity_text *t)
{
    printf("perplexity  %.4f ± %.4f\n", r->ppl, r->ppl_error);
    printf("likelihood  %.5f ± %.5f nats a token (negative logarithm, mean and standard error)\n", r->nll,
           r->nll_error);
    printf("text        %.4f bits a byte\n", r->bits_per_byte);
    printf("counted     %llu of the text's %u tokens: the second halves of %u windows of %u\n",
           (unsigned long long)r->n_counted, t->n, r->n_windows, args.n_window);
    if (r->against.n)
        print_against(r);
    printf("speed       %.1f tok/s\n", r->tps);
}

static void print_json_against(const struct perplexity_result *r)
{
    const struct divergence_result *d = &r->against;
    printf("\"reference\": ");
    cli_json_string(stdout, r->reference, strlen(r->reference));
    printf(", \"reference_perplexity\": %.9g, \"ratio\": %.9g, \"ratio_stderr\": %.6g, \"kl\": %.9g, \"kl_stderr\": %.6g, "
           "\"kl_median\": %.9g, \"kl_99\": %.9g, \"top1\": %.9g, \"top1_stderr\": %.6g, ", d->ref_ppl, d->ratio, d->ratio_error,
           d->kl, d->kl_error, d->kl_median, d->kl_99, d->same, d->same_error);
}

static void print_json(const struct engine *eng, const struct perplexity_result *r, const struct perplexity_text *t)
{
    const struct engine_info *in = engine_info(eng);
    printf("{\"model\": ");
    cli_json_string(stdout, in->label, strlen(in->label));
    printf(", \"weights\": \"%s\", \"tier\": \"%s\", \"exact\": %s, \"kv\": ", in->weights, in->tier,
           in->exact ? "true" : "false");
    cli_json_string(stdout, in->kv, strlen(in->kv));
    printf(", \"perplexity\": %.9g, \"perplexity_stderr\": %.6g, \"nll\": %.9g, \"nll_stderr\": %.6g, "
           "\"bits_per_byte\": %.9g, \"window\": %u, \"windows\": %u, \"tokens_counted\": %llu, \"tokens\": %u, "
           "\"bytes_counted\": %llu, ", r->ppl, r->ppl_error, r->nll, r->nll_error, r->bits_per_byte,
           args.n_window, r->n_windows, (unsigned long long)r->n_counted, t->n, (unsigned long long)r->n_bytes);
    if (r->against.n)
        print_json_against(r);
    printf("\"tps\": %.3f}\n", r->tps);
}

static int print_tokens(const struct perplexity_text *t, uint32_t n_windows)
{
    int32_t *tok = calloc(args.n_window, sizeof *tok);
    if (!tok)
        return usage_error("out of memory");
    for (uint32_t w = 0; w < n_windows; w++) {
        perplexity_window(t, w, args.n_window, tok);
        for (uint32_t i = 0; i < args.n_window; i++)
            printf(i ? " %d" : "%d", tok[i]);
        putchar('\n');
    }
    free(tok);
    return 0;
}

/* fflush, so that a full disk is told. 0 or an exit status. */
static int end_output(void)
{
    struct err e = { 0 };
    if (!fflush(stdout))
        return EXIT_OK;
    err_set(&e, -errno, "standard output: %s", strerror(errno));
    return cli_fail(&e);
}

static int evaluate(struct engine *eng, const struct perplexity_text *t)
{
    struct err e = { 0 };
    struct session *s = NULL;
    struct perplexity_result r = { 0 };
    struct progress bar = progress_terminal();
    struct perplexity_opts o = { .n_window = args.n_window,
                                 .max_windows = args.max_windows,
                                 .save = args.save,
                                 .against = args.against,
                                 .cancel = cli_catch_interrupt(),
                                 .progress = cli_model.quiet ? NULL : &bar };
    int rc = session_create(eng, &s, &e);
    if (!rc) {
        cli_print_header(eng);
        rc = perplexity(s, t, &o, &r, &e);
    }
    session_destroy(s);
    if (rc && rc != -ECANCELED)
        return cli_fail(&e);
    if (r.n_windows && args.json)
        print_json(eng, &r, t);
    else if (r.n_windows)
        print_text(&r, t);
    if (rc)
        return cli_fail(&e), EXIT_INTERRUPTED;
    return end_output();
}

static int perplexity_of(struct engine *eng, const char *path, struct perplexity_text *t)
{
    struct err e = { 0 };
    char *text = NULL;
    size_t n;
    uint32_t n_windows;
    int rc = cli_read_file(path, &text, &n, &e);
    if (!rc)
        rc = perplexity_encode(eng, text, n, args.special, t, &e);
    free(text);
    t->beyond = cli_model.o.rope_scaling != NULL;
    if (rc || perplexity_windows(eng, t, args.n_window, args.max_windows, &n_windows, &e))
        return cli_fail(&e);
    if (args.print_tokens)
        return (rc = print_tokens(t, n_windows)) ? rc : end_output();
    cli_model.o.n_ctx = args.n_window;
    cli_model.o.score_rows = perplexity_score_rows(eng, args.n_window);
    return (rc = cli_start(eng)) ? rc : evaluate(eng, t);
}

static int perplexity_main(int argc, char **argv)
{
    struct engine *eng = NULL;
    struct perplexity_text t = { .bos = -1 };
    if (argc < 2)
        return usage_error("no text: zinc perplexity -m MODEL FILE, - is standard input");
    int rc = cli_open_vocab(&eng);
    if (rc)
        return rc;
    rc = perplexity_of(eng, argv[1], &t);
    perplexity_text_free(&t);
    engine_close(eng);
    return rc;
}

static const struct opt_group groups[] = { { "text and output", opts }, { "model and hardware", model_opts }, { 0 } };

const struct command cmd_perplexity = {
    .name = "perplexity",
    .summary = "how well a model predicts a text",
    .usage = "-m MODEL.gguf [--ctx 512] [--chunks N] [--kv TYPE] [--save-logits FILE | --against FILE] [--json] FILE|-",
    .about =
        "Perplexity is the exponential of the mean negative log-likelihood of a text's tokens: at a perplexity\n"
        "of 12 the model was as uncertain as in a fair choice among 12 tokens; lower is better. It shows what a\n"
        "weight type, a cache type or a tier costs, when text, window and vocabulary are the same. To compare\n"
        "models of different vocabularies, use the bits per byte.\n"
        "\n"
        "The text's tokens are cut into windows of N that do not overlap, each evaluated from an empty cache.\n"
        "The first half of a window is context only; its tokens N/2+1 to N-1 are counted. Where the model\n"
        "begins texts with a token of its own, that replaces the first token of each window. Tokens that do not\n"
        "fill a window are left out. This is the definition of llama.cpp's perplexity tool. The standard error\n"
        "treats tokens as independent; the difference between two models over the same windows is known much\n"
        "more precisely.\n"
        "\n"
        "That difference is what --against measures. Run the model that is taken for right with --save-logits, then\n"
        "the others with --against over the same text: the ratio of the perplexities; the Kullback-Leibler\n"
        "divergence, sum p ln(p / q) with p the reference's distribution, which is 0 where nothing changed; and how often both\n"
        "give the same token the best chance. Each with its standard error. The divergence sees every change, also those\n"
        "that happen to make the text likelier, and needs far less text than a perplexity to tell two files apart.\n"
        "\n"
        "  zinc perplexity -m model.gguf text.txt\n"
        "  zinc perplexity -m model.gguf --ctx 2048 --kv q8_0 --json text.txt\n"
        "  zinc perplexity -m model-f16.gguf --save-logits f16.ref text.txt\n"
        "  zinc perplexity -m model-q4_k_m.gguf --against f16.ref text.txt\n"
        "  zcat manual.txt.gz | zinc perplexity -m model.gguf --chunks 20 -",
    .groups = groups,
    .operands = (const char *const[]){ "FILE", NULL },
    .main = perplexity_main,
};
