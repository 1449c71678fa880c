/* tools/loadgen/expect.c: what each distinct request's answer must be: text, number of tokens and how it ended, as a
 * server gave them that had nothing else to do. One JSON line for each in a file. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "tools/loadgen/load.h"

struct answer {
    char *text[MAX_TEXTS];
    size_t n[MAX_TEXTS];
    char finish[MAX_CHOICES][16];
    int64_t tokens; /* -1: not known */
    bool set;
};

struct expect {
    struct answer *a; /* [n] */
    uint32_t n;
    uint64_t seed;
    char why[400];
};

int expect_create(const struct load_opts *o, struct expect **out, struct err *e)
{
    struct expect *x = calloc(1, sizeof *x);
    if (x)
        x->a = calloc(o->distinct, sizeof *x->a);
    if (!x || !x->a) {
        free(x);
        return err_set(e, -ENOMEM, "loadgen: %u expected answers", o->distinct);
    }
    x->n = o->distinct;
    x->seed = o->seed;
    *out = x;
    return 0;
}

void expect_free(struct expect *x)
{
    for (uint32_t d = 0; x && d < x->n; d++)
        for (int i = 0; i < MAX_TEXTS; i++)
            free(x->a[d].text[i]);
    if (x)
        free(x->a);
    free(x);
}

static void set_text(struct answer *a, int i, const char *p, size_t n)
{
    free(a->text[i]);
    a->text[i] = malloc(n + 1);
    a->n[i] = a->text[i] ? n : 0;
    if (a->text[i] && n)
        memcpy(a->text[i], p, n);
    if (a->text[i])
        a->text[i][n] = 0;
}

void expect_set(struct expect *x, uint32_t distinct, const struct response *r)
{
    struct answer *a = &x->a[distinct];
    a->set = true;
    a->tokens = r->completion_tokens;
    for (int i = 0; i < MAX_TEXTS; i++)
        set_text(a, i, r->text[i].p, r->text[i].n);
    for (int i = 0; i < MAX_CHOICES; i++)
        memcpy(a->finish[i], r->finish[i], sizeof a->finish[i]);
}

/* ---- the file ---- */

static json_t *text_of(const struct answer *a, int i)
{
    return json_stringn_nocheck(a->text[i] ? a->text[i] : "", a->n[i]);
}

int expect_save(const struct expect *x, const char *path, struct err *e)
{
    FILE *f = fopen(path, "w");
    if (!f)
        return err_set(e, -errno, "%s: %s", path, strerror(errno));
    fprintf(f, "{\"seed\":%llu,\"distinct\":%u}\n", (unsigned long long)x->seed, x->n);
    for (uint32_t d = 0; d < x->n; d++) {
        const struct answer *a = &x->a[d];
        if (!a->set)
            continue;
        json_t *j = json_pack("{s:i,s:I,s:[]}", "d", (int)d, "tokens", (json_int_t)a->tokens, "choices");
        for (int i = 0; i < MAX_CHOICES; i++)
            json_array_append_new(json_object_get(j, "choices"),
                                  json_pack("[soo]", a->finish[i], text_of(a, i), text_of(a, MAX_CHOICES + i)));
        json_dumpf(j, f, JSON_COMPACT);
        fputc('\n', f);
        json_decref(j);
    }
    int rc = ferror(f) ? -EIO : 0;
    if (fclose(f) || rc)
        return err_set(e, -EIO, "%s: cannot be written", path);
    return 0;
}

static int load_line(struct expect *x, const json_t *j)
{
    json_int_t d = json_integer_value(json_object_get(j, "d"));
    if (d < 0 || d >= x->n)
        return -EINVAL;
    struct answer *a = &x->a[d];
    a->set = true;
    a->tokens = json_integer_value(json_object_get(j, "tokens"));
    for (int i = 0; i < MAX_CHOICES; i++) {
        const json_t *c = json_array_get(json_object_get(j, "choices"), (size_t)i);
        const json_t *finish = json_array_get(c, 0), *text = json_array_get(c, 1), *more = json_array_get(c, 2);
        if (!json_is_string(finish) || !json_is_string(text) || !json_is_string(more))
            return -EINVAL;
        snprintf(a->finish[i], sizeof a->finish[i], "%s", json_string_value(finish));
        set_text(a, i, json_string_value(text), json_string_length(text));
        set_text(a, MAX_CHOICES + i, json_string_value(more), json_string_length(more));
    }
    return 0;
}

int expect_load(const char *path, const struct load_opts *o, struct expect **out, struct err *e)
{
    FILE *f = fopen(path, "r");
    if (!f)
        return err_set(e, -errno, "%s: %s; make it with --solo", path, strerror(errno));
    json_error_t why;
    json_t *j = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &why);
    int rc = 0;
    if ((uint64_t)json_integer_value(json_object_get(j, "seed")) != o->seed ||
        json_integer_value(json_object_get(j, "distinct")) != o->distinct)
        rc = err_set(e, -EINVAL, "%s: made for --seed %lld --distinct %lld", path,
                     (long long)json_integer_value(json_object_get(j, "seed")),
                     (long long)json_integer_value(json_object_get(j, "distinct")));
    else
        rc = expect_create(o, out, e);
    json_decref(j);
    while (rc == 0 && (j = json_loadf(f, JSON_DISABLE_EOF_CHECK | JSON_ALLOW_NUL, &why))) {
        if (load_line(*out, j))
            rc = err_set(e, -EINVAL, "%s: a line that --solo did not write", path);
        json_decref(j);
    }
    fclose(f);
    return rc;
}

/* ---- comparing ---- */

/* At most 24 bytes around `at`, as they would stand in C. */
static void show(char *out, size_t cap, const char *p, size_t n, size_t at)
{
    size_t k = 0;
    out[0] = 0;
    for (size_t i = at > 12 ? at - 12 : 0; i < n && i < at + 12 && k + 5 < cap; i++)
        k += (size_t)snprintf(out + k, cap - k, p[i] >= ' ' && p[i] <= '~' ? "%c" : "\\x%02x", (unsigned char)p[i]);
}

static const char *differs(struct expect *x, uint32_t d, int choice, size_t at, const struct bytes *got)
{
    const struct answer *a = &x->a[d];
    char is[128], want[128];
    show(is, sizeof is, got->p, got->n, at);
    show(want, sizeof want, a->text[choice], a->n[choice], at);
    snprintf(x->why, sizeof x->why, "request %u, choice %d%s, byte %zu: \"%s\" of %zu bytes instead of \"%s\" of %zu", d,
             choice % MAX_CHOICES, choice < MAX_CHOICES ? "" : " (calls and probabilities)", at, is, got->n, want, a->n[choice]);
    return x->why;
}

const char *expect_differs(struct expect *x, const struct request *q, const struct response *r, bool complete)
{
    const struct answer *a = &x->a[q->distinct];
    if (!a->set)
        return NULL;
    for (int i = 0; i < MAX_TEXTS; i++) {
        size_t n = MIN(r->text[i].n, a->n[i]), same = 0;
        while (same < n && r->text[i].p[same] == a->text[i][same])
            same++;
        if (same < r->text[i].n || (complete && same < a->n[i]))
            return differs(x, q->distinct, i, same, &r->text[i]);
        if (complete && i < MAX_CHOICES && strcmp(a->finish[i], r->finish[i]) != 0) {
            snprintf(x->why, sizeof x->why, "request %u, choice %d: finish_reason %s instead of %s", q->distinct, i,
                     r->finish[i], a->finish[i]);
            return x->why;
        }
    }
    if (complete && a->tokens >= 0 && r->completion_tokens != a->tokens) {
        snprintf(x->why, sizeof x->why, "request %u: %lld tokens instead of %lld", q->distinct,
                 (long long)r->completion_tokens, (long long)a->tokens);
        return x->why;
    }
    return NULL;
}
