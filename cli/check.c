/* zinc check: what can run here, and whether a model fits. */
#include <errno.h>
#include <stdarg.h>
#include <string.h>
#include <unistd.h>

#include "cli/cli.h"
#include "engine/look.h"

static const struct opt opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "also check that this model fits and runs"),
    OPT_CHECKED(cli_check_tier, "tier", 0, OPT_STR, &cli_model.o.tier, "T", "on this tier (default: auto)"),
    OPT_WORDS("auto|replay|persistent", "plan", 0, OPT_STR, &cli_model.o.plan, "P", "with this kind of plan: replay, persistent; auto measures both once"),
    OPT("ctx", 'c', OPT_U32, &cli_model.o.n_ctx, "N", "with this context"),
    CLI_KV,
    CLI_ROPE,
    { 0 },
};

struct found {
    uint32_t n; /* tiers that compute something */
};

/* The rest of a line that has reached this column: wrapped for people; programs get a line each. */
static void print_text(const char *text, size_t column)
{
    if (isatty(STDOUT_FILENO))
        args_print_wrapped(stdout, text, column, column);
    else
        puts(text);
}

/* A line with a name in front. */
__attribute__((format(printf, 2, 3))) static void print_line(const char *name, const char *fmt, ...)
{
    char text[800];
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    printf("%-10s", name);
    print_text(text, 10);
}

static void print_tier(void *user, const struct tier_look *t)
{
    struct found *f = user;
    char mem[32];
    bool computes = t->works && !t->dry_run;
    f->n += computes;
    char text[600];
    int n = snprintf(text, sizeof text, "%s%s%s", t->device, t->device[0] && t->note[0] ? ": " : "", t->note);
    if (t->mem_free_bytes && n > 0 && (size_t)n < sizeof text)
        snprintf(text + n, sizeof text - (size_t)n, " (%s free)", cli_bytes(t->mem_free_bytes, mem));
    printf("tier      %-9s %-4s ", t->name, t->works ? "yes" : "no");
    print_text(text, 25);
}

static void print_host(void)
{
    struct host_look h;
    char total[32], free_mem[32];
    engine_host(&h);
    print_line("host", "%s, %u core%s, %s", h.cpu[0] ? h.cpu : "unknown processor", h.n_cores, h.n_cores == 1 ? "" : "s",
           h.isa[0] ? h.isa : "no vector instructions that zinc knows");
    print_line("memory", "%s, %s free; huge pages: %s%s", cli_bytes(h.mem_bytes, total), cli_bytes(h.mem_free_bytes, free_mem),
           h.huge_pages, strcmp(h.huge_pages, "never") == 0 ? " (madvise or always makes decoding faster)" : "");
}

/* Opens the model and evaluates one token: everything that can go wrong at the start has then been tried. *opened: the file
 * could be read; *too_long: the context is longer than those in training. */
static int try_model(bool *opened, bool *too_long, struct err *e)
{
    struct engine *eng;
    struct session *s = NULL;
    const int32_t first = 0;
    const float *logits;
    struct progress bar = progress_terminal();
    cli_model.o.progress = &bar;
    int rc = engine_open_vocab(cli_model.o.path, &eng, e);
    *opened = rc == 0;
    if (rc)
        return rc;
    if ((rc = engine_start(eng, &cli_model.o, e))) {
        engine_close(eng);
        return rc;
    }
    const struct engine_info *in = engine_info(eng);
    char w[32], kv[32], other[32], need[32];
    uint64_t rest = in->const_bytes + in->scratch_bytes + in->io_bytes;
    print_line("model", "%s: %s, %s parameters, %s, trained for a context of %u", in->label, in->family,
           cli_count(in->n_params, need), in->weights, in->n_ctx_train);
    print_line("plan", "%s: weights %s, kv and state %s for a context of %u, other %s",
           cli_bytes(in->weight_bytes + in->kv_bytes + in->state_bytes + rest, need), cli_bytes(in->weight_bytes, w),
           cli_bytes(in->kv_bytes + in->state_bytes, kv), in->n_ctx, cli_bytes(rest, other));
    print_line("runs on", "%s, %s, plan %s%s%s%s, %u commands per token%s", in->tier, in->device, in->plan, in->plan_why[0] ? " (" : "",
           in->plan_why, in->plan_why[0] ? ")" : "", in->n_cmds, in->has_vocab ? "" : "; no vocabulary: token ids only");
    if (!(rc = session_create(eng, &s, e)) && !(rc = session_eval(s, &first, 1, &logits, e)) &&
        !in->dry_run)
        for (uint32_t i = 0; i < in->n_vocab && !rc; i++)
            if (logits[i] != logits[i])
                rc = err_set(e, -EDOM, "logit %u of the first token is not a number: the file may be damaged", i);
    *too_long = in->n_ctx_train && in->n_ctx > in->n_ctx_train;
    session_destroy(s);
    engine_close(eng);
    return rc;
}

static int check_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    int status = cli_model.o.path ? cli_find_model(&cli_model.o.path) : 0;
    if (status)
        return status;
    struct err e = { 0 };
    struct found f = { 0 };
    char order[600];
    print_host();
    engine_tiers(print_tier, &f);
    engine_auto(order, sizeof order);
    if (order[0])
        print_line("auto", "%s", order);
    bool opened = false, too_long = false;
    int rc = cli_model.o.path ? try_model(&opened, &too_long, &e) : 0;
    if (rc) {
        print_line("verdict", "%s", !opened                              ? "not a model that can be read"
                                    : rc == -ENOMEM && cli_model.o.n_ctx ? "it does not fit with this --ctx"
                                    : rc == -ENOMEM                      ? "it does not fit"
                                                                         : "this model does not run here");
        return cli_fail(&e);
    }
    if (!f.n && !cli_model.o.path) {
        print_line("verdict", "no tier can run here");
        err_set(&e, -ENODEV, "no tier can run here (see above)");
        return cli_fail(&e);
    }
    print_line("verdict", "ready%s",
               !cli_model.o.path ? "; zinc check MODEL.gguf also checks a model"
               : too_long        ? "; but the context is longer than the model was trained for: results beyond that length are unreliable"
                                 : "");
    return EXIT_OK;
}

static const struct opt_group groups[] = { { "options", opts }, { 0 } };

const struct command cmd_check = {
    .name = "check",
    .summary = "what can run here, and whether a model fits",
    .usage = "[MODEL.gguf] [--tier T] [--ctx N]",
    .about =
        "Shows the machine, every tier and, given a model, how much memory it needs; then runs one token. The\n"
        "exit status is 0 when everything works.\n"
        "\n"
        "  zinc check\n"
        "  zinc check model.gguf --ctx 32768",
    .groups = groups,
    .operands = cli_model_operand,
    .main = check_main,
};
