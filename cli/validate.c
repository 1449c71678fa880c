/* zinc validate: does one tier say what another says? */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "cli/cli.h"
#include "engine/proof/validate.h"

static struct {
    const char *tier_a, *tier_b, *prompt, *prompt_tokens;
    uint32_t n;
    float tol;
    bool exact_b, keep_going, verbose;
} args = { .tier_a = "cpu", .tier_b = "cpu:exact", .n = 64 };

static const struct opt opts[] = {
    OPT_CHECKED(cli_check_tier, "tier", 0, OPT_STR, &args.tier_a, "A", "the tier to test, also with options: cpu, cpu:nofuse, ... (default: cpu)"),
    OPT_CHECKED(cli_check_tier, "against", 0, OPT_STR, &args.tier_b, "B", "the reference (default: cpu:exact)"),
    OPT("exact-b", 0, OPT_FLAG, &args.exact_b, NULL, "the reference is exact, as in B:exact"),
    OPT("n", 'n', OPT_U32, &args.n, "N", "tokens after the prompt (default: 64)"),
    OPT("prompt", 'p', OPT_STR, &args.prompt, "TEXT", "start from this text"),
    OPT("prompt-tokens", 0, OPT_STR, &args.prompt_tokens, "IDS", "start from these ids (default: 32 fixed ones)"),
    OPT("tol", 0, OPT_F32, &args.tol, "NMSE",
        "error of the logits that 19 of 20 steps must stay below (default: 1e-2 against an exact tier, otherwise 1e-5)"),
    OPT("keep-going", 0, OPT_FLAG, &args.keep_going, NULL, "do not stop at the first difference"),
    OPT("verbose", 'v', OPT_FLAG, &args.verbose, NULL, "a line for every token"),
    { 0 },
};
static const struct opt model_opts[] = {
    OPT("model", 'm', OPT_STR, &cli_model.o.path, "FILE", "the model, a GGUF file"),
    OPT_WORDS("auto|replay|persistent", "plan", 0, OPT_STR, &cli_model.o.plan, "P", "the kind of plan of the tier to test: auto, replay, persistent; an error where it has none (the reference: B:persistent)"),
    OPT("ctx", 'c', OPT_U32, &cli_model.o.n_ctx, "N", "context in tokens (default: what is needed)"),
    OPT("chunk", 0, OPT_U32, &cli_model.o.chunk, "N", "prompt tokens per step (default: 512, on a GPU 2048)"),
    CLI_KV,
    CLI_ROPE,
    OPT_RANGE(0, CLI_MAX_THREADS, "threads", 't', OPT_I32, &cli_model.o.threads, "N", "cpu: worker threads (default: one per core)"),
    OPT("quiet", 'q', OPT_FLAG, &cli_model.quiet, NULL, "only the verdict"),
    { 0 },
};

static void print_step(void *user, const struct validate_step *s)
{
    static const char *const verdict[] = { "same", "tie", "wide", "FLIP", "ERROR" };
    (void)user;
    if (cli_model.quiet || (!args.verbose && s->verdict == VALIDATE_SAME))
        return;
    printf("token %-6u %-5s a=%d b=%d nmse=%.3g max=%.3g gap=%.4g", s->pos, verdict[s->verdict], s->top_a, s->top_b,
           s->nmse, s->max_err, s->gap);
    if (s->top_a != s->top_b)
        printf(" between=%.4g stated=%.3g", s->gap_flip, s->stated);
    putchar('\n');
}

static void print_result(const struct validate_result *r)
{
    bool bad = r->differ;
    if (r->has_diff) {
        printf("first difference: command %u %s", r->diff.cmd_a, r->diff.op);
        if (r->diff.layer != UINT32_MAX)
            printf(" of layer %u", r->diff.layer);
        printf(", output %s: nmse %.3g, largest error %.3g at row %u column %u (%.6g, reference %.6g)\n", r->diff.name,
               r->diff.nmse, r->diff.max_err, r->diff.max_row, r->diff.max_col, (double)r->diff.max_a,
               (double)r->diff.max_b);
    } else if (bad) {
        printf("first difference: none within the step: what it inherits from earlier steps differs\n");
    }
    printf("%s: %s against %s: %u steps, %u same, %u ties, %u wide, %u flips, %u errors; nmse: median %.3g, worst %.3g at token "
           "%u; largest error %.3g, tolerance %.3g\n", bad ? "DIFFERENT" : "equal", r->name_a, r->name_b, r->n_steps, r->n_same,
           r->n_ties, r->n_wide, r->n_flips, r->n_errors, r->median_nmse, r->worst_nmse < 0 ? 0 : r->worst_nmse, r->worst_pos,
           r->worst_err, r->tol);
    if (!cli_model.quiet && bad && !r->n_flips && !r->n_errors)
        printf("more than one step in %d has an error beyond the tolerance\n", VALIDATE_WIDE_ONE_IN);
}

/* 0 or an exit status. */
static int read_prompt(int32_t **ids, uint32_t *n)
{
    struct engine *eng;
    struct err e = { 0 };
    if (args.prompt_tokens)
        return cli_parse_ids(args.prompt_tokens, ids, n);
    int rc = cli_open_vocab(&eng);
    if (rc)
        return rc;
    if (args.prompt) {
        rc = engine_encode(eng, args.prompt, strlen(args.prompt), ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL, ids, n, &e);
        rc = rc ? cli_fail(&e) : 0;
    } else { /* small ids: every vocabulary has them */
        uint32_t x = 1;
        *n = 32;
        *ids = calloc(*n, sizeof **ids);
        for (uint32_t i = 0; *ids && i < *n; i++)
            (*ids)[i] = (int32_t)(((x = x * 1664525u + 1013904223u) >> 16) % 256);
        rc = *ids ? 0 : usage_error("out of memory");
    }
    engine_close(eng);
    return rc;
}

static int validate_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    struct err e = { 0 };
    struct validate_result r;
    int32_t *ids = NULL;
    uint32_t n = 0;
    char spec_b[64];
    int rc = cli_need_model();
    rc = rc ? rc : read_prompt(&ids, &n);
    if (rc)
        return rc;
    struct progress bar = progress_terminal();
    cli_model.o.progress = cli_model.quiet ? NULL : &bar;
    struct engine_opts a = cli_model.o, b = cli_model.o;
    a.tier = args.tier_a;
    snprintf(spec_b, sizeof spec_b, "%s%s", args.tier_b, args.exact_b ? ":exact" : "");
    b.tier = spec_b;
    b.plan = NULL; /* its own words say */
    a.plan_or_nothing = b.plan_or_nothing = true;
    struct validate_opts o = { .a = &a,
                               .b = &b,
                               .prompt = ids,
                               .n_prompt = n,
                               .n = args.n,
                               .tol = (double)args.tol,
                               .keep_going = args.keep_going,
                               .cancel = cli_catch_interrupt(),
                               .step = print_step };
    rc = validate(&o, &r, &e);
    free(ids);
    if (rc == -ECANCELED && r.n_steps)
        print_result(&r);
    if (rc)
        return rc == -ECANCELED ? (cli_fail(&e), EXIT_INTERRUPTED) : cli_fail(&e);
    print_result(&r);
    return r.differ ? EXIT_FAILED : EXIT_OK;
}

static const struct opt_group groups[] = { { "comparison", opts }, { "model and hardware", model_opts }, { 0 } };

const struct command cmd_validate = {
    .name = "validate",
    .summary = "whether one tier gives the same tokens as another",
    .usage = "MODEL.gguf --tier A --against B [-n 64] [--prompt TEXT | --prompt-tokens IDS]",
    .about =
        "Evaluates the same tokens on two tiers and compares the logits of every step: the error (NMSE and\n"
        "largest), the chosen tokens, and the gap between the reference's two best. Where the tiers choose\n"
        "differently but the gap is within the error that the tolerance allows, the step is reported as a tie.\n"
        "A step whose error is up to ten times the tolerance is called wide; one step in twenty may be wide,\n"
        "because the same rounding is a larger part of logits that lie close together. With more of them, a\n"
        "different choice, or a larger error, the tiers differ: the command of the stream whose output differs\n"
        "first is named, and the exit status is 1. The default tolerance of 1e-2 allows for what int8\n"
        "activations cost in a deep model; logits that are all zero have an error of 1.\n"
        "\n"
        "  zinc validate model.gguf --tier cpu --against cpu:exact -n 64",
    .groups = groups,
    .operands = cli_model_operand,
    .main = validate_main,
};
