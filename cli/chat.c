/* zinc chat: a conversation on the terminal, or line by line from a pipe. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "cli/chat.h"

static struct {
    const char *system;
    int32_t n;
    int think;
    bool hide_thinking, no_history;
    uint32_t n_draft;
    struct str_list say;
} args = { .think = -1 };

static const struct opt opts[] = {
    OPT("system", 0, OPT_STR, &args.system, "TEXT", "system message"),
    OPT("think", 0, OPT_TRI, &args.think, NULL, "reasoning on or off (default: the model's own)"),
    OPT("hide-thinking", 0, OPT_FLAG, &args.hide_thinking, NULL, "do not show the reasoning"),
    OPT("no-history", 0, OPT_FLAG, &args.no_history, NULL,
      "keep no history of what is typed (default: kept in $XDG_STATE_HOME/zinc or ~/.local/state/zinc)"),
    OPT("say", 0, OPT_LIST, &args.say, "TEXT", "begin with this message; may be given more than once"),
    OPT_RANGE(0, INT32_MAX, "n", 'n', OPT_I32, &args.n, "N", "at most N tokens per answer; 0: no limit (default)"),
    CLI_DRAFT(&args.n_draft),
    { 0 },
};

/* ---- output ---- */

static int on_part(void *user, enum answer_part part, const char *text, size_t n)
{
    struct chat *c = user;
    bool thinks = part == ANSWER_PART_REASONING;
    if (thinks && (args.hide_thinking || !isatty(STDOUT_FILENO)))
        return 0; /* a pipe gets answers */
    if (thinks != c->dim) {
        if (c->colour)
            fputs(thinks ? CHAT_DIM : CHAT_PLAIN, stdout);
        if (!thinks)
            fputs("\n\n", stdout);
        c->dim = thinks;
    }
    c->said = true;
    return cli_put(stdout, text, n);
}

static void print_note(const struct chat *c, const struct gen_result *r)
{
    double s = (double)r->decode_ns * 1e-9, p = (double)r->prompt_ns * 1e-9;
    if (cli_model.quiet || !(c->tty_in || c->scripted))
        return;
    if (r->reason != GEN_EOG)
        fprintf(stderr, "(%s) ", gen_reason_text(r->reason));
    fprintf(stderr, "%s[%u tokens, %.1f tok/s; prompt %u + %u reused, %.1f s; context %u of %u]%s\n", c->colour ? CHAT_DIM : "",
            r->n_tokens, s > 0 ? r->n_decoded / s : 0, r->n_prompt - r->n_reused, r->n_reused, p, session_pos(c->s),
            engine_info(c->eng)->n_ctx, c->colour ? CHAT_PLAIN : "");
}

int chat_say(struct chat *c, const char *text)
{
    struct err e = { 0 };
    struct gen_result r;
    cli_clear_interrupt();
    c->dim = c->said = false;
    struct gen_opts o = c->o;
    if (o.sampling.seed == SAMPLER_SEED_RANDOM) /* drawn here, so that it can be told */
        o.sampling.seed = sampler_draw_seed();
    c->seed = o.sampling.seed;
    int rc = dialog_say(c->d, text, &o, on_part, c, &r, &e);
    if (c->dim && c->colour)
        fputs(CHAT_PLAIN, stdout);
    c->dim = false;
    if (rc == -EPIPE)
        return EXIT_FAILED;
    if (c->said || !rc)
        putchar('\n');
    fflush(stdout);
    if (rc == -ECANCELED) {
        fprintf(stderr, "(interrupted; the message was taken back)\n");
        return 0;
    }
    if (rc) {
        if (rc == -E2BIG && c->tty_in)
            fprintf(stderr, "zinc: %s; /reset starts a new conversation, /undo takes a turn back\n", e.msg);
        else
            cli_fail(&e);
        return c->tty_in && (rc == -E2BIG || rc == -EINVAL) ? 0 : EXIT_FAILED;
    }
    c->last = r;
    c->n_turns++;
    c->n_generated += r.n_tokens;
    print_note(c, &r);
    return 0;
}

/* ---- input ---- */

static int add_text(struct chat *c, const char *s, size_t n)
{
    if (c->n_text + n + 1 > c->cap_text) {
        size_t cap = 2 * (c->n_text + n) + 256;
        char *t = realloc(c->text, cap);
        if (!t)
            return usage_error("out of memory");
        c->text = t;
        c->cap_text = cap;
    }
    memcpy(c->text + c->n_text, s, n);
    c->n_text += n;
    c->text[c->n_text] = 0;
    return 0;
}

/* -1: no more; 0: read; 1: interrupted. Two interruptions at an empty line end the program. */
static int read_line(struct chat *c, const char *prompt, char **line, size_t *n)
{
    cli_clear_interrupt(); /* one that came when nothing was running */
    enum line_how how = line_read(c->in, prompt, line, n);
    if (how != LINE_INTERRUPTED) {
        c->interruptions = 0;
        return how == LINE_END ? -1 : 0;
    }
    cli_clear_interrupt();
    if (++c->interruptions == 2)
        return -1;
    fputs("(Ctrl-C again, Ctrl-D or /exit ends)\n", stderr);
    return 1;
}

/* One message into c->text: a line, lines that end in a backslash, or what stands between lines of """.
 * -1: no more; 0: a message. */
static int read_message(struct chat *c)
{
    static const char quote[] = "\"\"\"";
    bool quoted = false, more = true, first = true;
    c->n_text = 0;
    while (more) {
        size_t n;
        char *s;
        int rc = read_line(c, first ? "> " : ". ", &s, &n);
        if (rc < 0)
            return c->n_text && !c->interruptions ? 0 : -1;
        if (rc > 0) {
            c->n_text = 0;
            quoted = false;
            first = true;
            continue;
        }
        if (first && strncmp(s, quote, 3) == 0) {
            quoted = true;
            s += 3;
            n -= 3;
            first = false;
            if (!n)
                continue;
        }
        first = false;
        more = quoted;
        if (quoted && n >= 3 && strcmp(s + n - 3, quote) == 0) {
            n -= 3;
            more = false;
        } else if (!quoted && n && s[n - 1] == '\\') {
            n--;
            more = true;
        }
        if (add_text(c, s, n) || (more && add_text(c, "\n", 1)))
            return -1;
    }
    return 0;
}

/* The messages of --say, shown as if they had been typed. */
static int say_first(struct chat *c)
{
    int rc = 0;
    c->scripted = true;
    for (uint32_t i = 0; i < args.say.n && !rc; i++) {
        printf("%s> %s%s\n", c->colour ? "\033[1m" : "", args.say.s[i], c->colour ? CHAT_PLAIN : "");
        fflush(stdout);
        rc = chat_say(c, args.say.s[i]);
    }
    c->scripted = false;
    return rc;
}

static int converse(struct chat *c)
{
    int rc = say_first(c);
    while (!rc && read_message(c) == 0) {
        const char *s = c->text;
        size_t blank = strspn(s, " \t\r\n");
        if (!s[blank])
            continue;
        line_remember(c->in, s);
        if (s[0] != '/' || strchr(s, '\n'))
            rc = chat_say(c, s);
        else if (chat_command(c, s, &rc) == CHAT_END)
            return rc;
    }
    if (c->tty_in && !c->interruptions)
        fputc('\n', stderr);
    return c->interruptions ? EXIT_INTERRUPTED : rc;
}

static int chat_all(struct chat *c)
{
    struct err e = { 0 };
    int rc = cli_open_vocab(&c->eng);
    if (rc)
        return rc;
    if (!engine_info(c->eng)->has_vocab)
        return engine_chat(c->eng, NULL, 0, -1, NULL, NULL, &e), cli_fail(&e);
    cli_model.o.fit = true;
    cli_model.o.n_slots = 1;
    cli_model.o.go_back = args.n_draft > 0;
    if ((rc = cli_start(c->eng)) || (rc = cli_sampling_params(c->eng, &c->o.sampling)) != ARGS_RUN)
        return rc;
    c->o.n_max = args.n > 0 ? (uint32_t)args.n : 0;
    c->o.n_draft = args.n_draft;
    char *history = args.no_history ? NULL : line_state_file("chat_history");
    rc = line_open(&(struct line_opts){ .history = history, .commands = chat_command_names }, &c->in, &e);
    free(history);
    if (rc)
        return cli_fail(&e);
    c->tty_in = line_is_terminal(c->in);
    c->colour = cli_colour(stdout);
    if ((rc = session_create(c->eng, &c->s, &e)) || (rc = dialog_create(c->s, args.system, args.think, &c->d, &e)))
        return cli_fail(&e);
    session_set_cancel(c->s, cli_catch_interrupt());
    struct progress bar = progress_terminal();
    session_set_progress(c->s, cli_model.quiet ? NULL : &bar);
    bool guessed;
    const char *format = engine_chat_format(c->eng, &guessed);
    cli_print_header(c->eng);
    if (!cli_model.quiet && (c->tty_in || guessed))
        fprintf(stderr, "chat format %s%s%s\n", format,
                guessed ? ": a guess, the file has no template that zinc knows" : "", c->tty_in ? "; /help, /exit" : "");
    return converse(c);
}

static int chat_main(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    struct chat c = { 0 };
    int rc = chat_all(&c);
    dialog_destroy(c.d);
    session_destroy(c.s);
    engine_close(c.eng);
    line_close(c.in);
    free(c.text);
    return rc;
}

static const struct opt_group groups[] = {
    { "conversation", opts }, { "model and hardware", cli_model_opts }, { "sampling", cli_sampling_opts }, { 0 },
};

const struct command cmd_chat = {
    .name = "chat",
    .summary = "talk to a model",
    .usage = "MODEL.gguf [--system TEXT] [options]",
    .about =
        "A conversation in the model's own chat format. On a terminal, type a message and press Return. Lines\n"
        "can be edited and are remembered; Alt-Enter, or \\ at the end of a line, begins another line of the\n"
        "same message; a pasted text is one message. /help lists the commands. Ctrl-C stops an answer, pressed\n"
        "twice it ends the program; Ctrl-D ends the conversation. Reasoning is shown dimmed. From a pipe every\n"
        "line is a message, and the answers, without the reasoning, go to standard output.\n"
        "\n"
        "  zinc chat qwen3-8b-q4_k_m.gguf --system \"Answer in one sentence.\"\n"
        "  zinc chat models/zinc-demo.gguf --say 'What is 27 + 48?'\n"
        "  printf 'Hello\\nAnd in French?\\n' | zinc chat model.gguf",
    .groups = groups,
    .operands = cli_model_operand,
    .main = chat_main,
};
