/* cli/cli.h: what the commands share. */
#ifndef ZINC_CLI_CLI_H
#define ZINC_CLI_CLI_H

#include "cli/args.h"
#include "engine/engine.h"
#include "engine/generate.h"

/* Exit statuses. */
enum { EXIT_OK = 0, EXIT_FAILED = 1, EXIT_USAGE = 2, EXIT_INTERRUPTED = 130 };

/* The commands, in the order of `zinc help`; cmd_NAME lies in NAME.c (detokenize beside tokenize). */
#define CLI_COMMANDS(X)                                                                                                \
    X(run) X(chat) X(serve) X(pull) X(model) X(embed) X(tokenize) X(detokenize) X(inspect) X(graph) X(bench) X(perplexity) X(imatrix) X(eval) X(validate)   \
    X(check) X(ladder) X(completion)
#define X(name) extern const struct command cmd_##name;
CLI_COMMANDS(X)
#undef X

/* Options that several commands take. */
struct cli_model {
    struct engine_opts o;
    int32_t device;
    bool quiet;
};
extern struct cli_model cli_model;
extern const struct opt cli_model_opts[];
#define CLI_DRAFT(at)                                                                                                  \
    OPT_RANGE(0, DRAFT_MOST, "draft", 0, OPT_U32, at, "N",                                                             \
              "guess N tokens ahead at most, from what stood before, where that pays: quicker where text repeats itself "  \
              "or its prompt, and the same answer; 0: no (default)")
#define CLI_BATCH_VARIANT                                                                                              \
    OPT("batch-variant", 0, OPT_FLAG, &cli_model.o.batch_variant, NULL,                                                \
        "cuda, more than 8 slots (models with experts: 32, on Hopper): steps of up to 8 rows take the kernels for few, so that a "    \
        "single answer is twice as fast, but the low bits of logits then depend on how many run at the same time")
#define CLI_KV                                                                                                         \
    OPT_WORDS("f16|f32|q8_0|fp8|q4_0|rot4", "kv", 0, OPT_STR, &cli_model.o.kv, "TYPE",                                 \
              "type of the KV cache: f16 (default), f32, q8_0, fp8, q4_0, rot4"),                                        \
        OPT("kv-edge", 0, OPT_U32, &cli_model.o.kv_edge, "N",                                                          \
            "the first and the last N layers with a KV cache keep f16 in it (default: 0)")
#define CLI_ROPE                                                                                                       \
    OPT_WORDS("linear|yarn", "rope-scaling", 0, OPT_STR, &cli_model.o.rope_scaling, "S",                               \
              "reach a --ctx beyond what the model was trained for by linear scaling of positions, or by YaRN; a "    \
              "shorter context is left alone"),                                                                        \
        OPT("rope-factor", 0, OPT_F32, &cli_model.o.rope_factor, "F",                                                  \
            "scale so many times as far (default: as far as --ctx asks for)")

struct cli_sampling {
    struct sampler_params p;
    const char *rng;
    struct str_list bias, dry_breakers;
};
extern struct cli_sampling cli_sampling;
extern const struct opt cli_sampling_opts[];

/* What --logit-bias and the like said, with the file's defaults. ARGS_RUN or an exit status. */
int cli_sampling_params(const struct engine *eng, struct sampler_params *p);

/* For --tier and the like: its help, which cli_list_tiers makes at the start; and the check. */
extern char cli_tier_help[256];
void cli_list_tiers(void);
int cli_check_tier(const char *shown, const char *value);

enum { CLI_MAX_THREADS = 256 }; /* of the cpu tier */

/* One line on stderr, "zinc: message"; returns EXIT_FAILED. */
int cli_fail(const struct err *e);

/* The operand MODEL, for commands that have it: what -m would have said. */
extern const char *const cli_model_operand[];
int cli_take_model(int argc, char **argv);

/* Makes of a model that is named, not given by its path, the path of its file, and pulls it where it is not here (pull/pull.h).
 * cli_open_vocab does so by itself. 0 or an exit status, after a message. */
int cli_find_model(const char **path);

/* What -m or the operand named, else the default (zinc model use, else what fits), as cli_find_model makes it a path. 0 or an exit
 * status, after a message. */
int cli_need_model(void);

/* The path of the default alone; `told`: a line on stderr where nobody chose it. */
int cli_default_model(const char **path, bool told);

/* Opens the file, and starts the engine, with a bar for long loads. 0 or an exit status, after a message. */
int cli_open_vocab(struct engine **out);
int cli_start(struct engine *eng);

/* A line on stderr; on a terminal in lines of 80 columns, broken between words. */
__attribute__((format(printf, 1, 2))) void cli_say(const char *fmt, ...);

/* The line about model, tier and plan, on stderr, unless quiet. */
void cli_print_header(const struct engine *eng);

/* "1,2 3" to ids, a comma behind the last one is fine; malloc'ed. 0 or EXIT_USAGE after a message. */
int cli_parse_ids(const char *text, int32_t **ids, uint32_t *n);

/* All of a file or, for "-", of standard input; malloc'ed and NUL-terminated. */
int cli_read_file(const char *path, char **text, size_t *n, struct err *e);

/* The first SIGINT sets the flag, the second one ends the process. */
const struct flag *cli_catch_interrupt(void);
void cli_clear_interrupt(void);

/* Colours: stderr or stdout is a terminal and NO_COLOR is not set. */
bool cli_colour(FILE *f);

/* fwrite and fflush; 0 or -errno. */
int cli_put(FILE *f, const char *s, size_t n);

/* Writes s[0..n) as a JSON string, with quotes. Bytes that are not UTF-8 must not be in it. */
void cli_json_string(FILE *f, const char *s, size_t n);

const char *cli_bytes(uint64_t n, char buf[32]); /* "4.68 GiB" */
const char *cli_count(uint64_t n, char buf[32]); /* "8.2 G"    */

#endif
