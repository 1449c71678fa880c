/* zinc imatrix: which columns of a model's weights matter, by a text. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"
#include "engine/proof/imatrix.h"

enum { FEW_ROWS = 100, TOLD = 8 };

static struct {
    const char *text, *out;
    uint32_t n_window, max_windows;
    bool special;
} args = { .n_window = 512 };

static const struct opt opts[] = {
    OPT("file", 'f', OPT_STR, &args.text, "TEXT", "the text; - is standard input"),
    OPT("output", 'o', OPT_STR, &args.out, "FILE", "the file to write"),
    OPT("ctx", 'c', OPT_U32, &args.n_window, "N", "tokens per window, each evaluated from an empty cache (default: 512)"),
    OPT("chunks", 0, OPT_U32, &args.max_windows, "N", "the first N windows only (default: all of the text)"),
    OPT("parse-special", 0, OPT_FLAG, &args.special, NULL, 
        "control tokens written in the text are tokens, for texts of conversations (default: they are text)"),
    { 0 },
};

static const struct opt model_opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the model, a GGUF file; of a split model the first part"),
    CLI_KV,
    OPT("chunk", 0, OPT_U32, &cli_model.o.chunk, "N", "tokens per step (default: 512)"),
    OPT_RANGE(0, CLI_MAX_THREADS, "threads", 't', OPT_I32, &cli_model.o.threads, "N",
              "worker threads (default: one per core); they change nothing in the file"),
    OPT("ignore-memory", 0, OPT_FLAG, &cli_model.o.ignore_memory, NULL, "start even if memory seems too small"),
    OPT("quiet", 'q', OPT_FLAG, &cli_model.quiet, NULL, "print only errors and warnings on stderr"),
    { 0 },
};

/* Experts of which the text says little: a line a weight. */
static void tell_unseen(const struct imatrix *im)
{
    uint32_t told = 0, more = 0, n_few, n_none;
    for (uint32_t i = 0; i < im->n; i++) {
        const struct imatrix_entry *en = &im->e[i];
        imatrix_unseen(en, FEW_ROWS, &n_few, &n_none);
        if (en->n_mats < 2 || n_few == 0)
            continue;
        if (told++ < TOLD)
            cli_say("imatrix: %s: %u of %u experts saw fewer than %d rows, %u saw none", en->name, n_few, en->n_mats, FEW_ROWS, n_none);
        else
            more++;
    }
    if (more)
        cli_say("imatrix: so it is with %u more weights", more);
    if (told)
        cli_say("imatrix: a longer or more varied text reaches more experts; one without a row is weighed as all experts together");
}

static int save(const struct imatrix *im, struct err *e)
{
    int rc = imatrix_write(im, args.out, e);
    if (rc)
        return rc;
    uint32_t n = 0;
    for (uint32_t i = 0; i < im->n; i++) {
        uint32_t n_few, n_none;
        imatrix_unseen(&im->e[i], 1, &n_few, &n_none);
        n += n_none < im->e[i].n_mats;
    }
    tell_unseen(im);
    if (!cli_model.quiet)
        cli_say("imatrix: %s: %u weights, %u windows of %u tokens", args.out, n, im->chunk_count, im->chunk_size);
    return 0;
}

static int collect(struct engine *eng, const struct perplexity_text *t)
{
    struct err e = { 0 }, e2 = { 0 };
    struct session *s = NULL;
    struct imatrix *im = NULL;
    struct progress bar = progress_terminal();
    const char *name = strrchr(args.text, '/') ? strrchr(args.text, '/') + 1 : args.text;
    struct imatrix_opts o = { .n_window = args.n_window,
                              .max_windows = args.max_windows,
                              .dataset = name,
                              .cancel = cli_catch_interrupt(),
                              .progress = cli_model.quiet ? NULL : &bar };
    int rc = session_create(eng, &s, &e);
    if (!rc) {
        cli_print_header(eng);
        rc = imatrix_collect(s, t, &o, &im, &e);
    }
    session_destroy(s);
    int failed = im ? save(im, &e2) : 0;
    imatrix_destroy(im);
    if (failed)
        return cli_fail(&e2);
    if (rc)
        cli_fail(&e);
    return !rc ? EXIT_OK : rc == -ECANCELED ? EXIT_INTERRUPTED : EXIT_FAILED;
}

static int imatrix_of(struct engine *eng, struct perplexity_text *t)
{
    struct err e = { 0 };
    char *text = NULL;
    size_t n;
    uint32_t n_windows;
    int rc = cli_read_file(args.text, &text, &n, &e);
    if (!rc)
        rc = perplexity_encode(eng, text, n, args.special, t, &e);
    free(text);
    if (rc || perplexity_windows(eng, t, args.n_window, args.max_windows, &n_windows, &e) || imatrix_check_output(args.out, &e))
        return cli_fail(&e);
    cli_model.o.tier = "cpu";
    cli_model.o.n_ctx = args.n_window;
    cli_model.o.score_rows = perplexity_score_rows(eng, 2 * args.n_window);
    return (rc = cli_start(eng)) ? rc : collect(eng, t);
}

static int imatrix_main(int argc, char **argv)
{
    struct engine *eng = NULL;
    struct perplexity_text t = { .bos = -1 };
    if (!args.text)
        return usage_error("no text: zinc imatrix -m MODEL -f TEXT -o FILE, - is standard input");
    if (!args.out)
        return usage_error("no file to write: zinc imatrix -m MODEL -f TEXT -o FILE");
    int rc = cli_open_vocab(&eng);
    if (rc)
        return rc;
    rc = imatrix_of(eng, &t);
    perplexity_text_free(&t);
    engine_close(eng);
    return rc;
}

static const struct opt_group groups[] = { { "text and output", opts }, { "model and hardware", model_opts }, { 0 } };

const struct command cmd_imatrix = {
    .name = "imatrix",
    .summary = "measure which weights matter, for quantising",
    .usage = "-m MODEL.gguf -f TEXT -o FILE.gguf [--ctx 512] [--chunks N]",
    .about =
        "A quantiser has to choose which errors it makes. A column of a matrix that is always multiplied by small\n"
        "numbers may be off by much; one that meets large numbers may not. This command runs a text through the\n"
        "model, on the cpu tier, and writes for every matrix the mean square of what each column meets: the\n"
        "importance matrix, which build/quantize --imatrix FILE takes. It helps every type below 6 bits a weight, and\n"
        "types below 3 bits cannot do without.\n"
        "\n"
        "Take the model in the best type that you have, and a text like what the model will be used for: some\n"
        "100 kB are enough for a dense model. A model with experts needs more, because each expert sees only the\n"
        "tokens that are sent to it; experts that saw few are told.\n"
        "\n"
        "The file is GGUF in the form of llama.cpp's imatrix tool, and files from there do as well. After Ctrl-C the\n"
        "windows until then are written.\n"
        "\n"
        "  zinc imatrix -m model-f16.gguf -f text.txt -o model.imatrix.gguf\n"
        "  quantize --imatrix model.imatrix.gguf model-f16.gguf model-iq3_s.gguf IQ3_S",
    .groups = groups,
    .main = imatrix_main,
};
