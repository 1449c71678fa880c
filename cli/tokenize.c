/* zinc tokenize, zinc detokenize: text to token ids and back. */
#include <stdlib.h>
#include <string.h>

#include "cli/cli.h"

static struct {
    bool no_special, pieces, show_special, null;
} args;

static const struct opt model_opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the model or vocabulary, a GGUF file"),
    { 0 },
};
static const struct opt tokenize_opts[] = {
    OPT("no-special", 0, OPT_FLAG, &args.no_special, NULL,
      "plain text: no begin-of-text token, and control tokens in it are text"),
    OPT("pieces", 0, OPT_FLAG, &args.pieces, NULL, "one token per line: its id and its text as JSON"),
    OPT("null", '0', OPT_FLAG, &args.null, NULL, "many texts, each ended by a NUL byte; one line of ids for each"),
    { 0 },
};
static const struct opt detokenize_opts[] = {
    OPT("special", 0, OPT_FLAG, &args.show_special, NULL, "print control tokens as text"),
    OPT("null", '0', OPT_FLAG, &args.null, NULL, "each line of ids is one text, printed with a NUL byte after it"),
    { 0 },
};

static int print_ids(const struct engine *eng, const int32_t *ids, uint32_t n, struct err *e)
{
    for (uint32_t i = 0; i < n; i++) {
        char *text;
        size_t len;
        if (!args.pieces) {
            printf(i ? " %d" : "%d", ids[i]);
            continue;
        }
        int rc = engine_decode(eng, &ids[i], 1, ENGINE_SHOW_SPECIAL, &text, &len, e);
        if (rc)
            return rc;
        printf("%d ", ids[i]);
        cli_json_string(stdout, text, len);
        putchar('\n');
        free(text);
    }
    if (!args.pieces)
        putchar('\n');
    return 0;
}

static int tokenize(struct engine *eng, const char *text, size_t n, struct err *e)
{
    int32_t *ids;
    uint32_t n_ids;
    unsigned flags = args.no_special ? 0 : ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL;
    int rc = engine_encode(eng, text, n, flags, &ids, &n_ids, e);
    if (rc)
        return rc;
    rc = print_ids(eng, ids, n_ids, e);
    free(ids);
    return rc;
}

/* text[0..n): one text or, with --null, several; the last one may lack its NUL. */
static int tokenize_all(struct engine *eng, const char *text, size_t n, struct err *e)
{
    if (!args.null)
        return tokenize(eng, text, n, e);
    for (size_t len; n; text += len, n -= len) {
        len = strnlen(text, n);
        int rc = tokenize(eng, text, len, e);
        if (rc)
            return rc;
        len += len < n;
    }
    return 0;
}

static int tokenize_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    struct engine *eng;
    struct err e = { 0 };
    int rc = cli_open_vocab(&eng);
    if (rc)
        return rc;
    char *text = NULL;
    size_t n;
    if (!engine_info(eng)->has_vocab)
        rc = engine_encode(eng, "", 0, 0, NULL, NULL, &e); /* says why */
    else if (!(rc = cli_read_file("-", &text, &n, &e)))
        rc = tokenize_all(eng, text, n, &e);
    free(text);
    engine_close(eng);
    return rc ? cli_fail(&e) : EXIT_OK;
}

/* The text of the ids in `in`, and a NUL behind it with --null. An exit status. */
static int detokenize(const struct engine *eng, const char *in)
{
    struct err e = { 0 };
    char *text = NULL;
    int32_t *ids = NULL;
    uint32_t n_ids;
    size_t n;
    int rc = cli_parse_ids(in, &ids, &n_ids);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < n_ids && !rc; i++)
        if ((uint32_t)ids[i] >= engine_info(eng)->n_vocab)
            rc = err_set(&e, -EINVAL, "token %d is not in the vocabulary, which has ids from 0 to %u", ids[i],
                         engine_info(eng)->n_vocab - 1);
    if (!rc)
        rc = engine_decode(eng, ids, n_ids, args.show_special ? ENGINE_SHOW_SPECIAL : 0, &text, &n, &e);
    if (!rc) /* engine_decode ends the text with a NUL */
        fwrite(text, 1, n + args.null, stdout);
    free(ids);
    free(text);
    return rc ? cli_fail(&e) : EXIT_OK;
}

static int detokenize_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    struct engine *eng;
    struct err e = { 0 };
    char *in = NULL;
    size_t n;
    int rc = cli_open_vocab(&eng);
    if (rc)
        return rc;
    if (cli_read_file("-", &in, &n, &e))
        rc = cli_fail(&e);
    else if (!args.null)
        rc = detokenize(eng, in);
    else
        for (char *line = in, *end; !rc && *line; line = end) {
            end = line + strcspn(line, "\n");
            if (*end)
                *end++ = 0;
            rc = detokenize(eng, line);
        }
    fflush(stdout);
    free(in);
    engine_close(eng);
    return rc;
}

static const struct opt_group tokenize_groups[] = { { "options", model_opts }, { "text", tokenize_opts }, { 0 } };
static const struct opt_group detokenize_groups[] = { { "options", model_opts }, { "text", detokenize_opts }, { 0 } };

const struct command cmd_tokenize = {
    .name = "tokenize",
    .summary = "text on standard input to token ids",
    .usage = "MODEL.gguf [--no-special] [--pieces] [--null] < TEXT",
    .about =
        "Prints the token ids of the text on standard input, on one line.\n"
        "\n"
        "  printf 'Hello world' | zinc tokenize model.gguf",
    .groups = tokenize_groups,
    .operands = cli_model_operand,
    .main = tokenize_main,
};

const struct command cmd_detokenize = {
    .name = "detokenize",
    .summary = "token ids on standard input to text",
    .usage = "MODEL.gguf [--special] [--null] < IDS",
    .about =
        "Prints the text of the token ids on standard input, byte for byte as the vocabulary has it.\n"
        "\n"
        "  echo 9906 1917 | zinc detokenize model.gguf",
    .groups = detokenize_groups,
    .operands = cli_model_operand,
    .main = detokenize_main,
};
