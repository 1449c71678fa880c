/* Renders chat templates: build/jinja TEMPLATE CONTEXT.json prints what TEMPLATE makes of the object in
 * CONTEXT.json (messages, tools, add_generation_prompt, ..); --marks shows what came from the context between ⟦ and
 * ⟧; --time N renders N times and tells the time of one. build/jinja --lines reads a line {"template": text, "own":
 * {..}, "data": {..}} after the other and answers each with {"text": ..} or {"error": .., "raised": bool}: for
 * tests that compare. */
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "jinja/jinja.h"

struct text {
    char *s;
    size_t n, cap;
    bool marks, in_data;
};

static int add(struct text *t, const char *s, size_t n)
{
    if (t->n + n + 1 > t->cap) {
        size_t cap = 2 * (t->n + n) + 4096;
        char *p = realloc(t->s, cap);
        if (!p)
            return -ENOMEM;
        t->s = p;
        t->cap = cap;
    }
    memcpy(t->s + t->n, s, n);
    t->n += n;
    t->s[t->n] = 0;
    return 0;
}

static int put(void *user, const char *s, size_t n, bool data)
{
    struct text *t = user;
    int rc = t->marks && data != t->in_data ? add(t, data ? "⟦" : "⟧", 3) : 0;
    t->in_data = data;
    return rc ? rc : add(t, s, n);
}

static int render(const struct jinja *t, const json_t *own, const json_t *data, struct text *to, struct err *e)
{
    static const struct tm now = { .tm_year = 125, .tm_mon = 7, .tm_mday = 1, .tm_wday = 5, .tm_yday = 212 };
    static const char *const roles[] = { "system", "user", "assistant", "tool", "developer", NULL };
    struct jinja_opts o = { .own = own, .data = data, .roles = roles, .now = &now };
    int rc = jinja_render(t, &o, put, to, e);
    if (rc)
        return rc;
    return to->marks && to->in_data ? add(to, "⟧", 3) : add(to, "", 0);
}

static int answer_lines(void)
{
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    json_t *last = NULL; /* the text of t */
    struct jinja *t = NULL;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        json_t *in = json_read(line, (size_t)n, JSON_ALLOW_NUL, NULL, NULL), *template = json_object_get(in, "template");
        struct text to = { .marks = json_is_true(json_object_get(in, "marks")) };
        struct err e = { 0 };
        if (!json_is_string(template)) {
            fprintf(stderr, "jinja: a line is an object with a string 'template', not %.100s\n", line);
            json_decref(in);
            json_decref(last);
            jinja_free(t);
            free(line);
            return 1;
        }
        int rc = 0;
        if (!t || !json_equal(last, template)) {
            jinja_free(t);
            json_decref(last);
            last = json_incref(template);
            rc = jinja_parse(json_string_value(template), json_string_length(template), &t, &e);
        }
        if (!rc)
            rc = render(t, json_object_get(in, "own"), json_object_get(in, "data"), &to, &e);
        json_t *out = rc ? json_pack("{s:s, s:b}", "error", e.msg, "raised", rc == -EPERM)
                         : json_pack("{s:s%}", "text", to.s, to.n);
        if (!out) /* not UTF-8 */
            out = json_pack("{s:s, s:b}", "error", "the output is not UTF-8", "raised", 0);
        char *s = json_write(out, JSON_COMPACT);
        puts(s ? s : "{}");
        fflush(stdout);
        free(s);
        json_decref(out);
        json_decref(in);
        free(to.s);
    }
    json_decref(last);
    jinja_free(t);
    free(line);
    return 0;
}

static char *read_file(const char *path, size_t *n)
{
    struct text t = { 0 };
    FILE *f = fopen(path, "rb");
    char b[65536];
    if (!f) {
        fprintf(stderr, "jinja: %s: %s\n", path, strerror(errno));
        return NULL;
    }
    for (size_t k; (k = fread(b, 1, sizeof b, f)) > 0;)
        if (add(&t, b, k))
            break;
    fclose(f);
    *n = t.n;
    return t.s ? t.s : strdup("");
}

static int render_file(const char *path, const char *context, bool marks, int times)
{
    size_t n, n_json;
    char *text = read_file(path, &n), *json = text ? read_file(context, &n_json) : NULL;
    struct text to = { .marks = marks };
    struct err e = { 0 };
    json_error_t je;
    int rc = 1;
    json_t *data = json ? json_read(json, n_json, JSON_ALLOW_NUL, &je, NULL) : NULL;
    if (json && !json_is_object(data)) {
        fprintf(stderr, "jinja: %s: an object with messages was expected: %s\n", context, data ? "it is none" : je.text);
    } else if (json) {
        uint64_t from = clock_ns();
        for (int i = 0; i < times; i++) {
            struct jinja *t;
            to.n = 0;
            if ((rc = jinja_parse(text, n, &t, &e)))
                break;
            rc = render(t, NULL, data, &to, &e);
            jinja_free(t);
            if (rc)
                break;
        }
        if (rc)
            fprintf(stderr, "jinja: %s: %s\n", path, e.msg);
        else if (times > 1)
            printf("template %zu bytes, output %zu bytes, read and rendered in %.3f ms\n", n, to.n,
                   (double)(clock_ns() - from) / times / 1e6);
        else
            fwrite(to.s, 1, to.n, stdout);
    }
    json_decref(data);
    free(json);
    free(text);
    free(to.s);
    return rc != 0;
}

int main(int argc, char **argv)
{
    static const struct option options[] = {
        { "marks", no_argument, NULL, 'm' }, { "time", required_argument, NULL, 't' }, { "lines", no_argument, NULL, 'l' },
        { "help", no_argument, NULL, 'h' },  { 0 },
    };
    bool marks = false, lines = false;
    int times = 1;
    for (int o; (o = getopt_long(argc, argv, "mt:lh", options, NULL)) >= 0;) {
        if (o == 'm')
            marks = true;
        else if (o == 't')
            times = atoi(optarg);
        else if (o == 'l')
            lines = true;
        else {
            fprintf(o == 'h' ? stdout : stderr,
                    "usage: jinja [--marks] [--time N] TEMPLATE CONTEXT.json\n       jinja --lines\n");
            return o == 'h' ? 0 : 2;
        }
    }
    if (lines && argc == optind)
        return answer_lines();
    if (argc - optind != 2 || times < 1) {
        fprintf(stderr, "jinja: expected a template and a JSON file; jinja --help\n");
        return 2;
    }
    return render_file(argv[optind], argv[optind + 1], marks, times);
}
