/* zinc eval: exact-match accuracy on a file of tasks. */
#include <errno.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "cli/cli.h"
#include "engine/answer/answer.h"

enum { MAX_TASKS = 64, MAX_MESSAGES = 256, MAX_ANSWER = 8192 };

static struct {
    const char *tasks, *only;
    uint32_t n, limit;
    float at_least;
    bool json, wrong;
} args = { .n = 256, .at_least = -1 };

static const struct opt opts[] = {
    OPT("tasks", 0, OPT_STR, &args.tasks, "FILE", "JSON lines (default: the model's path with .eval.jsonl for .gguf)"),
    OPT("only", 0, OPT_STR, &args.only, "TASK", "this task only"),
    OPT("limit", 0, OPT_U32, &args.limit, "N", "at most N prompts of each task (default: all)"),
    OPT("n", 'n', OPT_U32, &args.n, "N", "tokens per answer (default: 256)"),
    OPT("at-least", 0, OPT_F32, &args.at_least, "PERCENT", "exit 1 when less than this percentage of the answers is right"),
    OPT("wrong", 0, OPT_FLAG, &args.wrong, NULL, "print each wrong answer beside the expected one"),
    OPT("json", 0, OPT_FLAG, &args.json, NULL, "one JSON object instead of the table"),
    { 0 },
};

struct score {
    char task[40];
    uint32_t right, total;
};

struct eval {
    struct engine *eng;
    struct session *s;
    struct score scores[MAX_TASKS];
    uint32_t n_scores, n_prompt, n_answer;
    struct answer *parts;    /* takes the reasoning off               */
    char answer[MAX_ANSWER]; /* [n_text] what is left, then a NUL     */
    size_t n_text;
    const char *path;
    uint32_t line;
};

static int bad_line(const struct eval *v, const char *what)
{
    struct err e;
    err_set(&e, -EINVAL, "%s:%u: %s (a line is {\"task\": .., \"messages\": [..] or \"prompt\": .., \"want\": ..})", v->path,
            v->line, what);
    return cli_fail(&e);
}

static struct score *score_of(struct eval *v, const char *task)
{
    for (uint32_t i = 0; i < v->n_scores; i++)
        if (strcmp(v->scores[i].task, task) == 0)
            return &v->scores[i];
    if (v->n_scores == MAX_TASKS)
        return NULL;
    struct score *s = &v->scores[v->n_scores++];
    snprintf(s->task, sizeof s->task, "%s", task);
    return s;
}

static int keep_text(void *user, const char *text, size_t n)
{
    struct eval *v = user;
    n = MIN(n, sizeof v->answer - 1 - v->n_text);
    memcpy(v->answer + v->n_text, text, n);
    v->n_text += n;
    v->answer[v->n_text] = 0;
    return 0;
}

static int on_text(void *user, const char *text, size_t n)
{
    return answer_put(((struct eval *)user)->parts, text, n);
}

/* Generates into v->answer what comes after the reasoning. 0 or a negative errno. */
static int generate_answer(struct eval *v, int think, const int32_t *ids, uint32_t n, struct gen_result *r,
                           struct err *e)
{
    static const struct answer_sink sink = { .text = keep_text };
    const struct answer_opts as = { .think = think };
    struct gen_opts o = { .sampling = cli_sampling.p, .n_max = args.n, .show_special = true, .on_text = on_text,
                          .user = v };
    o.sampling.temp = 0;
    v->n_text = 0;
    v->answer[0] = 0;
    session_reset(v->s);
    int rc = answer_create(engine_chat_template(v->eng), &as, &sink, v, &v->parts, e);
    if (rc)
        return rc;
    rc = generate(v->s, &o, ids, n, r, e);
    if (!rc && (rc = answer_end(v->parts)))
        err_set(e, rc, "out of memory for an answer");
    answer_destroy(v->parts);
    return rc;
}

/* Whether the line asks to think. A prompt as it is, is taken to end where the answer begins. */
static int asks_to_think(const json_t *item)
{
    const json_t *think = json_object_get(item, "think");
    return json_object_get(item, "prompt") ? 0 : think ? json_is_true(think) : -1;
}

/* The prompt of a line as ids. 0 or an exit status. */
static int read_prompt(struct eval *v, const json_t *item, int32_t **ids, uint32_t *n)
{
    struct err e = { 0 };
    const char *prompt = json_string_value(json_object_get(item, "prompt"));
    if (prompt)
        return engine_encode(v->eng, prompt, strlen(prompt), ENGINE_ADD_SPECIAL | ENGINE_PARSE_SPECIAL, ids, n, &e)
                   ? cli_fail(&e) : 0;
    struct engine_message m[MAX_MESSAGES];
    const json_t *list = json_object_get(item, "messages"), *one;
    size_t i;
    if (!json_is_array(list) || !json_array_size(list) || json_array_size(list) > MAX_MESSAGES)
        return bad_line(v, "no \"prompt\" and no usable \"messages\"");
    json_array_foreach(list, i, one) {
        m[i] = (struct engine_message){ .role = json_string_value(json_object_get(one, "role")),
                                        .text = json_string_value(json_object_get(one, "content")) };
        if (!m[i].role || !m[i].text)
            return bad_line(v, "a message without \"role\" or \"content\"");
    }
    return engine_chat(v->eng, m, (uint32_t)i, asks_to_think(item), ids, n, &e) ? cli_fail(&e) : 0;
}

static char *trimmed(char *s)
{
    s += strspn(s, " \t\r\n");
    for (size_t n = strlen(s); n && strchr(" \t\r\n", s[n - 1]);)
        s[--n] = 0;
    return s;
}

static int eval_line(struct eval *v, const char *text, size_t n_text)
{
    json_error_t je;
    json_t *item = json_loadb(text, n_text, 0, &je);
    if (!item)
        return bad_line(v, je.text);
    const char *task = json_string_value(json_object_get(item, "task"));
    const char *want = json_string_value(json_object_get(item, "want"));
    int32_t *ids = NULL;
    uint32_t n;
    int rc = !task || !want ? bad_line(v, "no \"task\" or no \"want\"") : 0;
    struct score *sc = rc || (args.only && strcmp(args.only, task) != 0) ? NULL : score_of(v, task);
    if (!rc && !sc && v->n_scores == MAX_TASKS)
        rc = bad_line(v, "more than 64 different tasks");
    if (rc || !sc || (args.limit && sc->total >= args.limit) || (rc = read_prompt(v, item, &ids, &n)))
        goto out;
    struct gen_result r;
    struct err e = { 0 };
    rc = generate_answer(v, asks_to_think(item), ids, n, &r, &e);
    if (rc) {
        rc = rc == -ECANCELED ? EXIT_INTERRUPTED : cli_fail(&e);
        goto out;
    }
    if (r.reason == GEN_CANCELLED) {
        rc = EXIT_INTERRUPTED;
        goto out;
    }
    const char *got = trimmed(v->answer);
    v->n_prompt += r.n_prompt;
    v->n_answer += r.n_tokens;
    sc->total++;
    if (strcmp(got, want) == 0)
        sc->right++;
    else if (args.wrong)
        fprintf(args.json ? stderr : stdout, "wrong: %s, line %u\n  wanted: %s\n  got:    %s\n", task, v->line, want, got);
out:
    free(ids);
    json_decref(item);
    return rc;
}

static void print_table(const struct eval *v, uint32_t right, uint32_t total, double seconds)
{
    if (args.json) {
        json_t *tasks = json_object();
        for (uint32_t i = 0; i < v->n_scores; i++)
            json_object_set_new(tasks, v->scores[i].task,
                                json_pack("{s:i, s:i}", "right", v->scores[i].right, "total", v->scores[i].total));
        json_t *o = json_pack("{s:s, s:s, s:i, s:i, s:f, s:o}", "model", engine_info(v->eng)->label, "tier",
                              engine_info(v->eng)->tier, "right", right, "total", total, "seconds", seconds, "tasks", tasks);
        json_dumpf(o, stdout, JSON_INDENT(2) | JSON_REAL_PRECISION(6));
        putchar('\n');
        json_decref(o);
        return;
    }
    printf("%-20s %6s %6s %8s\n", "task", "right", "of", "%");
    for (uint32_t i = 0; i < v->n_scores; i++)
        printf("%-20s %6u %6u %8.1f\n", v->scores[i].task, v->scores[i].right, v->scores[i].total,
               v->scores[i].total ? 100.0 * v->scores[i].right / v->scores[i].total : 0.0);
    printf("%-20s %6u %6u %8.1f\n", "all", right, total, total ? 100.0 * right / total : 0.0);
    if (!cli_model.quiet)
        fprintf(stderr, "eval model=%s tier=%s prompts=%u prompt_tokens=%u answer_tokens=%u seconds=%.1f\n",
            engine_info(v->eng)->label, engine_info(v->eng)->tier, total, v->n_prompt, v->n_answer, seconds);
}

/* "models/x.gguf" to "models/x.eval.jsonl"; malloc'ed. */
static char *default_tasks(const char *model)
{
    size_t n = strlen(model);
    if (n > 5 && strcmp(model + n - 5, ".gguf") == 0)
        n -= 5;
    char *s = malloc(n + sizeof ".eval.jsonl");
    if (s)
        sprintf(s, "%.*s.eval.jsonl", (int)n, model);
    return s;
}

static int eval_file(struct eval *v, const char *text, size_t n)
{
    struct progress bar = progress_terminal();
    int rc = 0;
    for (size_t at = 0; at < n && !rc;) {
        const char *end = memchr(text + at, '\n', n - at);
        size_t len = end ? (size_t)(end - text) - at : n - at;
        v->line++;
        if (len)
            rc = eval_line(v, text + at, len);
        at += len + 1;
        if (!cli_model.quiet)
            progress_report(&bar, "eval", MIN(at, n), n);
    }
    return rc;
}

static int run_eval(int argc, char **argv)
{
    if (cli_take_model(argc, argv))
        return EXIT_USAGE;
    int status = cli_need_model(); /* the tasks lie beside the file */
    if (status)
        return status;
    struct eval *v = calloc(1, sizeof *v);
    char *path = args.tasks ? strdup(args.tasks) : default_tasks(cli_model.o.path), *text = NULL;
    size_t n;
    struct err e = { 0 };
    int rc = EXIT_FAILED;
    uint64_t start = clock_ns();
    if (!v || !path)
        goto out;
    v->path = path;
    if (cli_read_file(path, &text, &n, &e)) {
        err_context(&e, "eval: the tasks (--tasks FILE)");
        rc = cli_fail(&e);
        goto out;
    }
    if ((rc = cli_open_vocab(&v->eng)) || (rc = cli_start(v->eng)))
        goto out;
    cli_print_header(v->eng);
    if (session_create(v->eng, &v->s, &e)) {
        rc = cli_fail(&e);
        goto out;
    }
    session_set_cancel(v->s, cli_catch_interrupt());
    rc = eval_file(v, text, n);
    uint32_t right = 0, total = 0;
    for (uint32_t i = 0; i < v->n_scores; i++) {
        right += v->scores[i].right;
        total += v->scores[i].total;
    }
    if (!rc && !total) {
        err_set(&e, -EINVAL, "eval: %s has no prompt%s%s", path, args.only ? " of task " : "", args.only ? args.only : "");
        rc = cli_fail(&e);
    }
    if (!rc || rc == EXIT_INTERRUPTED)
        print_table(v, right, total, (double)(clock_ns() - start) * 1e-9);
    if (!rc && args.at_least >= 0 && 100.0 * right < (double)args.at_least * total) {
        err_set(&e, -ERANGE, "eval: %.1f %% of the answers are right, --at-least asks for %.1f", 100.0 * right / total,
                (double)args.at_least);
        rc = cli_fail(&e);
    }
out:
    if (v) {
        session_destroy(v->s);
        engine_close(v->eng);
    }
    free(v);
    free(path);
    free(text);
    return rc;
}

static const struct opt_group groups[] = { { "options", opts }, { "model", cli_model_opts }, { 0 } };

const struct command cmd_eval = {
    .name = "eval",
    .summary = "exact-match accuracy on a file of tasks",
    .usage = "MODEL.gguf [--tasks FILE]",
    .about =
        "Asks every question of a file of JSON lines, each greedily in a new session, and compares the answer\n"
        "(what follows the reasoning) with the expected text. A line holds \"task\", \"want\", and either\n"
        "\"messages\" with an optional \"think\", or \"prompt\", which is used as it is.\n"
        "\n"
        "  zinc eval models/zinc-demo.gguf\n"
        "  zinc eval models/zinc-demo.gguf --only recall_2000 --wrong",
    .groups = groups,
    .operands = cli_model_operand,
    .main = run_eval,
};
