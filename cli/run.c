/* zinc run: one prompt, one answer. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "cli/cli.h"
#include "engine/answer/answer.h"

enum { DEFAULT_N = 128, ANSWER_ROOM = 1024 };

static struct {
    const char *prompt, *prompt_file, *prompt_tokens, *system, *dump_logits, *force;
    int32_t n;
    uint32_t force_rows, n_draft;
    int think;
    bool chat, print_tokens, json, ignore_eos, special;
    struct str_list stop;
} args = { .n = -1, .think = -1, .force_rows = 1 };

static const struct opt run_opts[] = {
    OPT("prompt", 'p', OPT_STR, &args.prompt, "TEXT", "the text to continue"),
    OPT("prompt-file", 'f', OPT_STR, &args.prompt_file, "FILE", "read the text from a file; - is standard input"),
    OPT("prompt-tokens", 0, OPT_STR, &args.prompt_tokens, "IDS", "token ids, 1,2,3: nothing is added to them"),
    OPT_RANGE(0, INT32_MAX, "n", 'n', OPT_I32, &args.n, "N",
      "at most N tokens; 0: no limit (default: 128, with --chat 0)"),
    OPT("chat", 0, OPT_FLAG, &args.chat, NULL, "the prompt is a message: put it into the model's chat format"),
    OPT("system", 0, OPT_STR, &args.system, "TEXT", "system message (means --chat)"),
    OPT("think", 0, OPT_TRI, &args.think, NULL, "with --chat: reasoning on or off (default: the model's own)"),
    OPT("stop", 0, OPT_LIST, &args.stop, "S", "stop before this text; may be given more than once"),
    OPT("ignore-eos", 0, OPT_FLAG, &args.ignore_eos, NULL, "never choose a token that ends the answer"),
    OPT("special", 0, OPT_FLAG, &args.special, NULL, "print control tokens as text"),
    CLI_DRAFT(&args.n_draft),
    { 0 },
};

static const struct opt output_opts[] = {
    OPT("print-tokens", 0, OPT_FLAG, &args.print_tokens, NULL,
      "print the ids of the generated tokens on one line instead of text"),
    OPT("dump-logits", 0, OPT_STR, &args.dump_logits, "FILE",
      "write the logits that each token was chosen from: f32 [generated, vocabulary]"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "print one JSON object at the end instead of text"),
    { 0 },
};

static const struct opt replay_opts[] = {
    OPT("stream", 0, OPT_STR, &cli_model.o.stream_path, "FILE",
      "run a stream saved by zinc graph --save instead of compiling the model; the stream sets the context"),
    OPT("force", 0, OPT_STR, &args.force, "IDS",
      "continue with these ids whatever the model prefers, and print the id that it would have chosen at each step"),
    OPT("force-rows", 0, OPT_U32, &args.force_rows, "N",
      "ids of --force per step: 1 as in generation, more as in prompt processing (default: 1)"),
    { 0 },
};

struct run {
    struct engine *eng;
    struct session *s;
    int32_t *prompt, *force; /* force [n_force]: --force */
    uint32_t n_prompt, n_force;
    FILE *dump;
    bool text_out;
    int32_t *ids;      /* generated */
    uint32_t n_ids, cap;
    struct text {
        char *s;
        size_t n, cap;
    } text[2];         /* by enum answer_part, for JSON */
    struct answer *answer; /* NULL without --chat: all is text */
    bool dim;          /* the terminal is in the middle of dimmed text */
};

static int collect_text(struct text *t, const char *s, size_t n)
{
    if (t->n + n > t->cap) {
        size_t cap = 2 * (t->n + n) + 4096;
        char *more = realloc(t->s, cap);
        if (!more)
            return -ENOMEM;
        t->s = more;
        t->cap = cap;
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    return 0;
}

/* Dimmed on stderr, where a person may be watching; standard output is for the answer. */
static void show_reasoning(struct run *r, const char *s, size_t n)
{
    if (cli_model.quiet || !r->text_out || !isatty(STDERR_FILENO))
        return;
    if (!r->dim && cli_colour(stderr))
        fputs("\033[2m", stderr);
    r->dim = true;
    cli_put(stderr, s, n);
}

static void end_reasoning(struct run *r)
{
    if (r->dim)
        fputs(cli_colour(stderr) ? "\033[0m\n" : "\n", stderr);
    r->dim = false;
}

static int put_reasoning(void *user, const char *s, size_t n)
{
    struct run *r = user;
    if (args.json)
        return collect_text(&r->text[ANSWER_PART_REASONING], s, n);
    show_reasoning(r, s, n);
    return 0;
}

static int put_text(void *user, const char *s, size_t n)
{
    struct run *r = user;
    if (args.json)
        return collect_text(&r->text[ANSWER_PART_TEXT], s, n);
    end_reasoning(r);
    return r->text_out ? cli_put(stdout, s, n) : 0;
}

static int on_text(void *user, const char *s, size_t n)
{
    struct run *r = user;
    return r->answer ? answer_put(r->answer, s, n) : put_text(r, s, n);
}

static int on_token(void *user, int32_t id, const float *logits)
{
    struct run *r = user;
    uint32_t n_vocab = engine_info(r->eng)->n_vocab;
    if (r->dump && fwrite(logits, sizeof *logits, n_vocab, r->dump) != n_vocab)
        return errno ? -errno : -EIO;
    if (r->n_ids < r->cap)
        r->ids[r->n_ids++] = id;
    if (r->text_out || args.json)
        return 0;
    char s[16];
    return cli_put(stdout, s, (size_t)snprintf(s, sizeof s, r->n_ids > 1 ? " %d" : "%d", id));
}

static int finish_output(struct run *r, struct err *e)
{
    if (fflush(stdout) && errno != EPIPE)
        return err_set(e, -errno, "standard output: %s", strerror(errno));
    if (r->dump && (fflush(r->dump) || ferror(r->dump)))
        return err_set(e, -EIO, "%s: cannot be written: %s", args.dump_logits, strerror(errno));
    return 0;
}

/* ---- --force ---- */

static int on_forced(void *user, uint32_t i, const float *logits)
{
    struct run *r = user;
    uint32_t n_vocab = engine_info(r->eng)->n_vocab;
    int32_t best = 0;
    (void)i;
    for (uint32_t v = 1; v < n_vocab; v++)
        if (logits[v] > logits[best])
            best = (int32_t)v;
    return on_token(r, best, logits);
}

/* One at a time, as generate() does it; the tier makes the choices. */
static int force_singly(struct run *r, const struct flag *cancel, struct err *e)
{
    const int32_t *tok = r->prompt;
    uint32_t n = r->n_prompt;
    for (uint32_t i = 0; i < r->n_force; i++) {
        const float *logits;
        int32_t best;
        session_set_prompt(r->s, i == 0); /* however short it is */
        int rc = flag_is_set(cancel) ? -ECANCELED : session_eval_next(r->s, tok, n, NULL, &logits, &best, e);
        if (rc)
            return rc;
        if (best < 0)
            return err_set(e, -EDOM, "engine: token %u: no logit is a finite number", session_pos(r->s));
        if ((rc = on_token(r, best, logits)))
            return err_set(e, rc, "output: %s", strerror(-rc));
        tok = &r->force[i];
        n = 1;
    }
    return 0;
}

/* The same by steps of --force-rows: the prompt's last id and all but the last of the others have logits. */
static int force_together(struct run *r, struct err *e)
{
    uint32_t n = r->n_force;
    int32_t *tok = calloc(n, sizeof *tok);
    if (!tok)
        return err_set(e, -ENOMEM, "out of memory");
    tok[0] = r->prompt[r->n_prompt - 1];
    memcpy(tok + 1, r->force, (n - 1) * sizeof *tok);
    session_set_prompt(r->s, true);
    int rc = r->n_prompt > 1 ? session_eval(r->s, r->prompt, r->n_prompt - 1, NULL, e) : 0;
    rc = rc ? rc : session_score(r->s, tok, n, on_forced, r, e);
    free(tok);
    return rc;
}

static int follow(struct run *r, struct err *e)
{
    const struct flag *cancel = cli_catch_interrupt();
    int rc = session_create(r->eng, &r->s, e);
    r->cap = r->n_force;
    r->ids = calloc(r->cap, sizeof *r->ids);
    if (!rc && !r->ids)
        rc = err_set(e, -ENOMEM, "out of memory");
    if (rc || (rc = session_check(r->s, r->prompt, r->n_prompt, e)) ||
        (rc = session_check(r->s, r->force, r->n_force, e)))
        return cli_fail(e);
    cli_print_header(r->eng);
    session_set_cancel(r->s, cancel);
    rc = args.force_rows > 1 ? force_together(r, e) : force_singly(r, cancel, e);
    if (r->n_ids)
        putchar('\n');
    if (rc == -ECANCELED)
        return EXIT_INTERRUPTED;
    return rc ? cli_fail(e) : finish_output(r, e) ? cli_fail(e) : EXIT_OK;
}

/* The prompt as ids. 0 or an exit status. */
static int read_prompt(struct run *r)
{
    struct err e = { 0 };
    char *text = NULL;
    size_t n = 0;
    if (args.prompt_tokens)
        return cli_parse_ids(args.prompt_tokens, &r->prompt, &r->n_prompt);
    int rc = args.prompt ? (text = strdup(args.prompt)) ? n = strlen(text), 0 : err_set(&e, -ENOMEM, "out of memory")
                         : cli_read_file(args.prompt_file, &text, &n, &e);
    if (!rc && args.chat) {
        struct engine_message m[2] = { { .role = "system", .text = args.system }, { .role = "user", .text = text } };
        uint32_t skip = args.system ? 0 : 1;
        rc = engine_chat(r->eng, m + skip, 2 - skip, args.think, &r->prompt, &r->n_prompt, &e);
    } else if (!rc) {
        rc = engine_encode(r->eng, text, n, ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL, &r->prompt, &r->n_prompt, &e);
    }
    free(text);
    if (!rc && !r->n_prompt)
        rc = err_set(&e, -EINVAL, "the prompt is empty");
    return rc ? cli_fail(&e) : 0;
}

static void print_stats(const struct run *r, const struct gen_result *g, uint32_t seed)
{
    const struct engine_info *in = engine_info(r->eng);
    double prompt_s = (double)g->prompt_ns * 1e-9, s = (double)g->decode_ns * 1e-9;
    uint32_t n = g->n_decoded, np = g->n_prompt - g->n_reused;
    fprintf(stderr, "prompt tok=%u tps=%.1f ms=%.1f\n", np, prompt_s > 0 ? np / prompt_s : 0, prompt_s * 1e3);
    if (args.n_draft)
        fprintf(stderr, "draft tok=%u right=%u\n", g->n_guessed, g->n_right);
    cli_say("decode tok=%u tps=%.2f ms=%.3f gbs=%.2f logits=%08x end=%s seed=%u tier=%s%s plan=%s model=%s", g->n_tokens,
            s > 0 ? n / s : 0, n ? s * 1e3 / n : 0, s > 0 ? (double)g->decode_bytes / s * 1e-9 : 0, g->fingerprint,
            gen_reason_json(g->reason), seed, in->tier, in->exact ? ":exact" : "", in->plan, in->label);
}

static void print_json(const struct run *r, const struct gen_result *g, uint32_t seed)
{
    const struct engine_info *in = engine_info(r->eng);
    double prompt_s = (double)g->prompt_ns * 1e-9, s = (double)g->decode_ns * 1e-9;
    printf("{\"model\": ");
    cli_json_string(stdout, in->label, strlen(in->label));
    printf(", \"tier\": \"%s\", \"plan\": \"%s\", \"exact\": %s, \"prompt_tokens\": %u, \"tokens\": [", in->tier,
           in->plan, in->exact ? "true" : "false", g->n_prompt);
    for (uint32_t i = 0; i < r->n_ids; i++)
        printf(i ? ", %d" : "%d", r->ids[i]);
    printf("], \"text\": ");
    cli_json_string(stdout, r->text[ANSWER_PART_TEXT].s, r->text[ANSWER_PART_TEXT].n);
    if (r->text[ANSWER_PART_REASONING].n) {
        printf(", \"reasoning\": ");
        cli_json_string(stdout, r->text[ANSWER_PART_REASONING].s, r->text[ANSWER_PART_REASONING].n);
    }
    printf(", \"end\": \"%s\", \"seed\": %u, \"logits\": \"%08x\", \"prompt_tps\": %.3f, \"decode_tps\": %.3f, "
           "\"decode_gbs\": %.3f}\n", gen_reason_json(g->reason), seed, g->fingerprint,
           prompt_s > 0 ? (g->n_prompt - g->n_reused) / prompt_s : 0, s > 0 ? g->n_decoded / s : 0,
           s > 0 ? (double)g->decode_bytes / s * 1e-9 : 0);
}

static int answer(struct run *r)
{
    struct err e = { 0 };
    struct gen_opts o = { .n_max = args.n >= 0 ? (uint32_t)args.n : args.chat ? 0 : DEFAULT_N,
                          .ignore_eos = args.ignore_eos,
                          .show_special = args.special || args.chat, /* its marks may be control tokens */
                          .stop = args.stop.s,
                          .n_stop = args.stop.n,
                          .n_draft = args.n_draft,
                          .fingerprint = true,
                          .want_logits = args.dump_logits != NULL,
                          .on_text = on_text,
                          .on_token = on_token,
                          .user = r };
    int rc = cli_sampling_params(r->eng, &o.sampling);
    if (rc != ARGS_RUN)
        return rc;
    if (o.sampling.seed == SAMPLER_SEED_RANDOM) /* drawn here, so that it can be told */
        o.sampling.seed = sampler_draw_seed();
    const struct engine_info *in = engine_info(r->eng);
    r->cap = o.n_max ? MIN(o.n_max, in->n_ctx + 1) : in->n_ctx + 1;
    r->ids = calloc(r->cap, sizeof *r->ids);
    r->text_out = in->has_vocab && !args.print_tokens && !args.json;
    if (!r->ids)
        return usage_error("out of memory");
    const struct answer_sink sink = { .reasoning = put_reasoning, .text = put_text };
    const struct answer_opts as = { .think = args.think };
    if (args.chat && answer_create(engine_chat_template(r->eng), &as, &sink, r, &r->answer, &e))
        return cli_fail(&e);
    struct progress bar = progress_terminal();
    struct gen_result g = { 0 };
    if ((rc = session_create(r->eng, &r->s, &e)) || (rc = session_check(r->s, r->prompt, r->n_prompt, &e)))
        return cli_fail(&e);
    cli_print_header(r->eng);
    session_set_cancel(r->s, cli_catch_interrupt());
    session_set_progress(r->s, cli_model.quiet ? NULL : &bar);
    rc = generate(r->s, &o, r->prompt, r->n_prompt, &g, &e);
    if (r->answer && !rc && (rc = answer_end(r->answer)))
        err_set(&e, rc, "output: %s", strerror(-rc));
    end_reasoning(r);
    if (rc == -EPIPE) /* nobody reads any more: not our failure */
        return EXIT_OK;
    if (rc && g.reason != GEN_CANCELLED) {
        if (g.n_tokens)
            putchar('\n');
        return cli_fail(&e);
    }
    if (args.json)
        print_json(r, &g, o.sampling.seed);
    else if (g.n_tokens)
        putchar('\n');
    if (finish_output(r, &e))
        return cli_fail(&e);
    if (!cli_model.quiet)
        print_stats(r, &g, o.sampling.seed);
    return g.reason == GEN_CANCELLED ? EXIT_INTERRUPTED : EXIT_OK;
}

/* Whether somebody put a text there: a pipe or a file, not a terminal or /dev/null. */
static bool stdin_has_text(void)
{
    struct stat st;
    return fstat(STDIN_FILENO, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISREG(st.st_mode) || S_ISSOCK(st.st_mode));
}

static int check_args(void)
{
    if (!args.prompt && !args.prompt_file && !args.prompt_tokens && stdin_has_text())
        args.prompt_file = "-";
    int prompts = !!args.prompt + !!args.prompt_file + !!args.prompt_tokens;
    if (prompts != 1)
        return usage_error(prompts ? "more than one prompt: choose one of --prompt, --prompt-file, --prompt-tokens"
                                   : "no prompt: a text behind the model, --prompt TEXT, --prompt-file FILE or --prompt-tokens IDS, or "
                                     "a text on standard input");
    for (uint32_t i = 0; i < args.stop.n; i++)
        if (!args.stop.s[i][0])
            return usage_error("--stop '': an empty text would end every answer before it begins");
    args.chat |= args.system != NULL;
    if (args.chat && args.prompt_tokens)
        return usage_error("--chat needs a text, not --prompt-tokens");
    if (args.force && (args.json || args.n >= 0 || args.stop.n))
        return usage_error("--force prints one id for each of its ids: without -n, --stop and --json");
    if (!args.force_rows || (args.force_rows > 1 && !args.force))
        return usage_error(args.force_rows ? "--force-rows needs --force" : "--force-rows 0: at least 1 is needed");
    if (args.think >= 0 && !args.chat)
        return usage_error("--%sthink needs --chat", args.think ? "" : "no-");
    return 0;
}

/* A text rather than a model: names hold no blanks, and paths that do are there. */
static bool is_text(const char *s)
{
    return strpbrk(s, " \t\n") && access(s, F_OK) != 0;
}

/* zinc run [MODEL] [PROMPT]: the model, where -m does not name it, then the prompt; a text alone is for the default model. */
static int take_operands(int argc, char **argv)
{
    int i = 1;
    if (i < argc && !cli_model.o.path && !(argc == 2 && is_text(argv[i])))
        cli_model.o.path = argv[i++];
    if (i < argc && !args.prompt && !args.prompt_file && !args.prompt_tokens)
        args.prompt = argv[i++];
    return i < argc ? usage_error("unexpected argument '%s' (zinc run --help)", argv[i]) : 0;
}

static int run_all(struct run *r)
{
    int rc = check_args();
    if (rc)
        return rc;
    if (args.dump_logits && !(r->dump = fopen(args.dump_logits, "wb"))) {
        struct err e = { 0 };
        err_set(&e, -errno, "%s: cannot be written: %s", args.dump_logits, strerror(errno));
        return cli_fail(&e);
    }
    if ((rc = cli_open_vocab(&r->eng)) || (rc = read_prompt(r)))
        return rc;
    if (args.force && (rc = cli_parse_ids(args.force, &r->force, &r->n_force)))
        return rc;
    if (args.force && !r->n_force)
        return usage_error("--force holds no ids");
    cli_model.o.ctx_wanted = r->n_prompt + (args.force ? r->n_force : args.n > 0 ? (uint32_t)args.n : ANSWER_ROOM);
    cli_model.o.score_rows = args.force ? args.force_rows : 0;
    cli_model.o.go_back = args.n_draft > 0;
    if ((rc = cli_start(r->eng)))
        return rc;
    struct err e = { 0 };
    return args.force ? follow(r, &e) : answer(r);
}

static int run_main(int argc, char **argv)
{
    struct run r = { 0 };
    int rc = take_operands(argc, argv);
    rc = rc ? rc : run_all(&r);
    session_destroy(r.s);
    engine_close(r.eng);
    if (r.dump)
        fclose(r.dump);
    free(r.prompt);
    free(r.force);
    free(r.ids);
    free(r.text[0].s);
    free(r.text[1].s);
    answer_destroy(r.answer);
    return rc;
}

static const struct opt_group groups[] = {
    { "prompt and answer", run_opts }, { "output", output_opts },     { "model and hardware", cli_model_opts },
    { "sampling", cli_sampling_opts }, { "for engineers", replay_opts }, { 0 },
};

static const char *const operands[] = { "MODEL", "PROMPT", NULL };

const struct command cmd_run = {
    .name = "run",
    .summary = "continue a text or answer one message",
    .usage = "[MODEL.gguf] [PROMPT] [options]",
    .about =
        "Prints the model's continuation of a prompt as it is generated. The prompt is the argument after the\n"
        "model, --prompt, a file or standard input; without a model the default is taken (zinc model use). It\n"
        "is used as it is, after the model's begin-of-text token; --chat puts it into the model's chat format\n"
        "first. Tokens are sampled at a temperature of 0.8 unless the model's file says otherwise; --temp 0\n"
        "always takes the most likely one. Standard output holds only the text; the speed and a fingerprint of\n"
        "the last logits go to stderr.\n"
        "\n"
        "  zinc run qwen3-8b-q4_k_m.gguf --chat \"What is a noble gas?\"\n"
        "  git diff | zinc run model.gguf --system \"Summarise this change.\"\n"
        "  zinc run base.gguf --prompt \"Once upon a time\" -n 200 --seed 1\n"
        "  zinc run any.gguf --prompt-tokens 1,2,3 -n 8 --temp 0 --print-tokens",
    .groups = groups,
    .operands = operands,
    .main = run_main,
};
