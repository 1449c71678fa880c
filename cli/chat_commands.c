/* The /commands of zinc chat. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/nearest.h"
#include "cli/chat.h"

/* X(name, operand, help) */
#define COMMANDS(X)                                                                                                    \
    X(retry, "", "take the last answer back and answer again, with another seed")                                     \
    X(undo, "", "take the last message and its answer back")                                                          \
    X(reset, "", "start a new conversation")                                                                          \
    X(system, "[TEXT]", "show or replace the system message (starts anew)")                                           \
    X(set, "[NAME VALUE]", "show or set an option of sampling, n or think: /set temp 0.3")                            \
    X(stats, "", "speed, tokens and context so far")                                                                  \
    X(copy, "", "put the last answer on the clipboard of the terminal")                                               \
    X(save, "FILE", "write the conversation as JSON")                                                                 \
    X(load, "FILE", "go on with a conversation that was saved")                                                       \
    X(help, "", "this")                                                                                               \
    X(exit, "", "end (also Ctrl-D)")

const char *const chat_command_names[] = {
#define X(name, operand, help) "/" #name,
    COMMANDS(X)
#undef X
    NULL,
};

struct call {
    struct chat *c;
    const char *rest; /* of the line, behind the command */
    int *status;
};

static enum chat_next run_help(const struct call *k)
{
#define X(name, operand, help) fprintf(stderr, "%-22s%s\n", *operand ? "/" #name " " operand : "/" #name, help);
    COMMANDS(X)
#undef X
    fputs("A line that ends in \\ goes on in the next one, and so does Alt-Enter; a paste is one message, and \"\"\" before\n"
          "and after encloses several lines. Ctrl-C ends an answer, twice the program.\n", stderr);
    return CHAT_GO_ON;
}

static enum chat_next run_exit(const struct call *k)
{
    return CHAT_END;
}

static enum chat_next run_reset(const struct call *k)
{
    struct err e = { 0 };
    if (dialog_reset(k->c->d, dialog_system(k->c->d), &e))
        cli_fail(&e);
    return CHAT_GO_ON;
}

static enum chat_next run_system(const struct call *k)
{
    struct err e = { 0 };
    const char *now = dialog_system(k->c->d);
    if (!*k->rest)
        fprintf(stderr, "%s\n", now ? now : "(no system message)");
    else if (dialog_reset(k->c->d, k->rest, &e))
        cli_fail(&e);
    return CHAT_GO_ON;
}

static enum chat_next run_undo(const struct call *k)
{
    struct err e = { 0 };
    if (dialog_undo(k->c->d, &e))
        cli_fail(&e);
    else
        fprintf(stderr, "(the last message and its answer were taken back)\n");
    return CHAT_GO_ON;
}

static enum chat_next run_retry(const struct call *k)
{
    struct err e = { 0 };
    uint32_t n = dialog_n_messages(k->c->d);
    char *text = n >= 2 && strcmp(dialog_message(k->c->d, n - 1)->role, "assistant") == 0
                     ? strdup(dialog_message(k->c->d, n - 2)->text) : NULL;
    if (dialog_undo(k->c->d, &e) || !text)
        cli_fail(&e);
    else
        *k->status = chat_say(k->c, text);
    free(text);
    return CHAT_GO_ON;
}

static enum chat_next run_stats(const struct call *k)
{
    const struct chat *c = k->c;
    const struct engine_info *in = engine_info(c->eng);
    double s = (double)c->last.decode_ns * 1e-9, p = (double)c->last.prompt_ns * 1e-9;
    uint32_t n = c->last.n_prompt - c->last.n_reused;
    cli_say("%s on %s, %s: %u turns, %u tokens generated; context %u of %u", in->label, in->tier, in->device,
            c->n_turns, c->n_generated, session_pos(c->s), in->n_ctx);
    if (c->n_turns)
        cli_say("last answer: generation %.1f tok/s, prompt processing %.1f tok/s, seed %u",
                s > 0 ? c->last.n_decoded / s : 0, p > 0 ? n / p : 0, c->seed);
    return CHAT_GO_ON;
}

/* ---- /set ---- */

static void show_settings(const struct chat *c)
{
    for (const struct opt *o = cli_sampling_opts; o->name; o++)
        if (o->kind == OPT_F32)
            fprintf(stderr, "%s %g  ", o->name, (double)*(float *)((char *)&c->o.sampling + ((char *)o->dest - (char *)&cli_sampling.p)));
        else if (o->kind == OPT_I32)
            fprintf(stderr, "%s %d  ", o->name, *(int32_t *)((char *)&c->o.sampling + ((char *)o->dest - (char *)&cli_sampling.p)));
    fprintf(stderr, "n %u\n", c->o.n_max);
}

static bool set_own(struct chat *c, const char *name, const char *value, bool *known)
{
    char *end;
    unsigned long n = strtoul(value, &end, 10);
    *known = strcmp(name, "n") == 0 || strcmp(name, "think") == 0;
    if (strcmp(name, "n") == 0 && *value >= '0' && *value <= '9' && !*end && n <= INT32_MAX)
        c->o.n_max = (uint32_t)n;
    else if (strcmp(name, "think") == 0 && (strcmp(value, "on") == 0 || strcmp(value, "off") == 0))
        dialog_set_think(c->d, strcmp(value, "on") == 0);
    else
        return false;
    return true;
}

/* Options that are strings point to what was given for as long as the program runs. */
static const char *keep_text(const char *text)
{
    static struct kept {
        struct kept *before;
        char text[];
    } *last;
    struct kept *k = malloc(sizeof *k + strlen(text) + 1);
    if (!k)
        return NULL;
    k->before = last;
    last = k;
    return strcpy(k->text, text);
}

static enum chat_next run_set(const struct call *k)
{
    struct cli_sampling before = cli_sampling;
    char name[64];
    bool known;
    size_t n = strcspn(k->rest, " =");
    const char *value = k->rest + n + strspn(k->rest + n, " =");
    snprintf(name, sizeof name, "%.*s", (int)MIN(n, sizeof name - 1), k->rest);
    if (!*k->rest) {
        show_settings(k->c);
        return CHAT_GO_ON;
    }
    if (!*value) {
        usage_error("/set %s needs a value", name);
        return CHAT_GO_ON;
    }
    if (set_own(k->c, name, value, &known))
        return CHAT_GO_ON;
    if (known) {
        usage_error("/set %s: '%s' is not %s", name, value, strcmp(name, "n") == 0 ? "a number of tokens" : "on or off");
        return CHAT_GO_ON;
    }
    const char *text = keep_text(value);
    struct sampler_params p;
    if (!text || args_set(cli_sampling_opts, name, text) != ARGS_RUN || cli_sampling_params(k->c->eng, &p) != ARGS_RUN) {
        cli_sampling = before;
        cli_sampling_params(k->c->eng, &p);
    }
    k->c->o.sampling = p;
    return CHAT_GO_ON;
}

/* ---- /copy ---- */

/* OSC 52 asks the terminal to take text, in base64, for its clipboard (xterm's control sequences, "Manipulate Selection
 * Data"); it works over ssh too, where the terminal allows it. */
static enum chat_next run_copy(const struct call *k)
{
    static const char digit[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *s = (const unsigned char *)dialog_answer(k->c->d);
    size_t n = strlen((const char *)s);
    if (!n || !isatty(STDERR_FILENO)) {
        fprintf(stderr, n ? "/copy needs a terminal\n" : "there is no answer to copy\n");
        return CHAT_GO_ON;
    }
    fputs("\033]52;c;", stderr);
    for (size_t i = 0; i < n; i += 3) {
        uint32_t v = (uint32_t)s[i] << 16 | (i + 1 < n ? (uint32_t)s[i + 1] << 8 : 0) | (i + 2 < n ? s[i + 2] : 0);
        fputc(digit[v >> 18], stderr);
        fputc(digit[v >> 12 & 63], stderr);
        fputc(i + 1 < n ? digit[v >> 6 & 63] : '=', stderr);
        fputc(i + 2 < n ? digit[v & 63] : '=', stderr);
    }
    fprintf(stderr, "\a(%zu bytes, where the terminal takes them)\n", n);
    return CHAT_GO_ON;
}

/* ---- /save and /load ---- */

static enum chat_next run_save(const struct call *k)
{
    json_t *list = json_array();
    uint32_t n = dialog_n_messages(k->c->d);
    if (!*k->rest) {
        json_decref(list);
        usage_error("/save needs a file: /save FILE");
        return CHAT_GO_ON;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct engine_message *m = dialog_message(k->c->d, i);
        json_array_append_new(list, json_pack("{s:s, s:s, s:s*}", "role", m->role, "content", m->text, "reasoning_content",
                                              m->reasoning));
    }
    json_t *all = json_pack("{s:o}", "messages", list);
    if (json_array_size(list) != n || json_dump_file(all, k->rest, JSON_INDENT(2)))
        fprintf(stderr, "zinc: %s: the conversation could not be written: %s\n", k->rest,
                json_array_size(list) != n ? "it holds bytes that are not UTF-8" : strerror(errno));
    else
        fprintf(stderr, "(%u messages in %s)\n", n, k->rest);
    json_decref(all);
    return CHAT_GO_ON;
}

/* The messages of a file as /save writes it; *m [*n] is malloc'ed, its texts belong to `all`. */
static int read_messages(const json_t *all, struct engine_message **m, uint32_t *n, struct err *e)
{
    const json_t *list = json_is_array(all) ? all : json_object_get(all, "messages"), *one;
    size_t i;
    if (!json_is_array(list))
        return err_set(e, -EINVAL, "it has no list \"messages\"");
    *m = calloc(json_array_size(list) + 1, sizeof **m);
    if (!*m)
        return err_set(e, -ENOMEM, "out of memory");
    json_array_foreach(list, i, one) {
        (*m)[i] = (struct engine_message){ .role = json_string_value(json_object_get(one, "role")),
                                           .text = json_string_value(json_object_get(one, "content")),
                                           .reasoning = json_string_value(json_object_get(one, "reasoning_content")) };
        if (!(*m)[i].role || !(*m)[i].text)
            return err_set(e, -EINVAL, "message %zu has no text as \"role\" or as \"content\"", i + 1);
    }
    *n = (uint32_t)i;
    return 0;
}

static enum chat_next run_load(const struct call *k)
{
    json_error_t je;
    struct err e = { 0 };
    struct engine_message *m = NULL;
    uint32_t n = 0;
    char *text = NULL;
    size_t n_text;
    if (!*k->rest) {
        usage_error("/load needs a file: /load FILE");
        return CHAT_GO_ON;
    }
    if (cli_read_file(k->rest, &text, &n_text, &e)) {
        cli_fail(&e);
        return CHAT_GO_ON;
    }
    json_t *all = json_loadb(text, n_text, 0, &je);
    int rc = all ? read_messages(all, &m, &n, &e) : err_set(&e, -EINVAL, "line %d: %s", je.line, je.text);
    if (rc || (rc = dialog_load(k->c->d, m, n, &e))) {
        err_context(&e, "%s", k->rest);
        cli_fail(&e);
    } else {
        fprintf(stderr, "(%u messages from %s)\n", n, k->rest);
    }
    free(m);
    json_decref(all);
    free(text);
    return CHAT_GO_ON;
}

/* ---- which one ---- */

static const char *name_at(const void *user, size_t i)
{
    return chat_command_names[i];
}

static enum chat_next dispatch(const struct call *k, const char *word)
{
    if (strcmp(word, "/quit") == 0)
        return CHAT_END;
    if (strcmp(word, "/?") == 0)
        return run_help(k);
#define X(name, operand, help)                                                                                         \
    if (strcmp(word, "/" #name) == 0)                                                                                  \
        return run_##name(k);
    COMMANDS(X)
#undef X
    const char *near = nearest_name(word, name_at, NULL);
    fprintf(stderr, "unknown command %s%s%s%s; /help lists all\n", word, near ? ": did you mean " : "", near ? near : "",
            near ? "?" : "");
    return CHAT_GO_ON;
}

enum chat_next chat_command(struct chat *c, const char *line, int *status)
{
    size_t n = strcspn(line, " "), at = n + strspn(line + n, " "), end = strlen(line);
    while (end > at && line[end - 1] == ' ') /* completion puts one there */
        end--;
    char word[64], *rest = strndup(line + at, end - at);
    if (!rest) {
        usage_error("out of memory");
        return CHAT_GO_ON;
    }
    snprintf(word, sizeof word, "%.*s", (int)MIN(n, sizeof word - 1), line);
    enum chat_next next = dispatch(&(struct call){ c, rest, status }, word);
    free(rest);
    return next;
}
