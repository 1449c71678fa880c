#include "rt/null_script.h"

#include <ctype.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_ANSWERS = 4096, MAX_LINE = 1 << 20, MAX_SLOTS = 4096, NOTHING = -1 };

struct ids {
    uint32_t *id, n;
};

struct answer {
    struct ids when, say;
};

struct slot {
    uint32_t *token; /* [cap], by position */
    uint32_t cap;
    int32_t answer;    /* that is being given; NOTHING: none */
    uint32_t pos, at;  /* it goes on behind this position, with this id of it */
};

struct null_script {
    struct answer answer[MAX_ANSWERS];
    uint32_t n, max_id;
    struct slot *slot;
    uint32_t n_slots;
};

void null_script_close(struct null_script *s)
{
    if (!s)
        return;
    for (uint32_t i = 0; i < s->n; i++) {
        free(s->answer[i].when.id);
        free(s->answer[i].say.id);
    }
    for (uint32_t i = 0; i < s->n_slots; i++)
        free(s->slot[i].token);
    free(s->slot);
    free(s);
}

uint32_t null_script_max_id(const struct null_script *s)
{
    return s->max_id;
}

/* Ids up to `end`, which is none. 0 or a negative errno. */
static int read_ids(const char *text, const char *end, struct ids *out, uint32_t *max_id)
{
    uint32_t *id = malloc(((size_t)(end - text) / 2 + 1) * sizeof *id), n = 0;
    if (!id)
        return -ENOMEM;
    *out = (struct ids){ id, 0 };
    for (const char *s = text;;) {
        while (s < end && isspace((unsigned char)*s))
            s++;
        if (s == end)
            break;
        uint64_t v = 0;
        const char *from = s;
        for (; s < end && isdigit((unsigned char)*s) && v <= INT32_MAX; s++)
            v = v * 10 + (uint64_t)(*s - '0');
        if (s == from || v > INT32_MAX || (s < end && !isspace((unsigned char)*s)))
            return -EINVAL;
        id[n++] = (uint32_t)v;
        if (v > *max_id)
            *max_id = (uint32_t)v;
    }
    out->n = n;
    return 0;
}

static int read_line(struct null_script *s, char *line, const char *path, uint32_t number, struct err *e)
{
    line[strcspn(line, "#\r\n")] = 0;
    if (!line[strspn(line, " \t")])
        return 0;
    if (s->n == MAX_ANSWERS)
        return err_set(e, -E2BIG, "null: %s: more than %d answers", path, MAX_ANSWERS);
    struct answer *a = &s->answer[s->n++];
    char *colon = strchr(line, ':'), *say = colon ? colon + 1 : line;
    int rc = colon ? read_ids(line, colon, &a->when, &s->max_id) : 0;
    if (!rc)
        rc = read_ids(say, say + strlen(say), &a->say, &s->max_id);
    if (!rc && (!a->say.n || (colon && !a->when.n)))
        rc = -EINVAL;
    if (rc == -EINVAL)
        return err_set(e, rc, "null: %s: line %u: expected token ids with blanks between, as zinc tokenize prints them", path,
                       number);
    return rc ? err_set(e, rc, "null: %s: out of memory", path) : 0;
}

static int read_lines(struct null_script *s, FILE *f, const char *path, struct err *e)
{
    char *line = malloc(MAX_LINE);
    int rc = line ? 0 : err_set(e, -ENOMEM, "null: %s: out of memory", path);
    for (uint32_t number = 1; !rc && fgets(line, MAX_LINE, f); number++) {
        if (strlen(line) == MAX_LINE - 1)
            rc = err_set(e, -E2BIG, "null: %s: line %u has more than %d bytes", path, number, MAX_LINE - 2);
        else
            rc = read_line(s, line, path, number, e);
    }
    free(line);
    if (!rc && ferror(f))
        rc = err_set(e, -EIO, "null: %s: cannot be read", path);
    if (!rc && !s->n)
        rc = err_set(e, -EINVAL, "null: %s: no answer in it, expected lines of token ids", path);
    return rc;
}

int null_script_open(const char *path, struct null_script **out, struct err *e)
{
    FILE *f = fopen(path, "re");
    if (!f)
        return err_set(e, -errno, "null: %s: %s (ZINC_NULL_SCRIPT names a file with answers)", path, strerror(errno));
    struct null_script *s = calloc(1, sizeof *s);
    int rc = s ? read_lines(s, f, path, e) : err_set(e, -ENOMEM, "null: %s: out of memory", path);
    fclose(f);
    if (rc) {
        null_script_close(s);
        return rc;
    }
    *out = s;
    return 0;
}

/* ---- sequences ---- */

static int have_slot(struct null_script *s, uint32_t slot)
{
    if (slot < s->n_slots)
        return 0;
    struct slot *more = slot < MAX_SLOTS ? realloc(s->slot, (slot + 1) * sizeof *more) : NULL;
    if (!more)
        return -ENOMEM;
    s->slot = more;
    for (; s->n_slots <= slot; s->n_slots++)
        more[s->n_slots] = (struct slot){ .answer = NOTHING };
    return 0;
}

int null_script_see(struct null_script *s, uint32_t slot, uint32_t pos, uint32_t token)
{
    if (have_slot(s, slot))
        return -ENOMEM;
    struct slot *at = &s->slot[slot];
    if (pos >= at->cap) {
        uint64_t cap = (uint64_t)pos * 2 + 1024;
        uint32_t *more = cap <= UINT32_MAX ? realloc(at->token, cap * sizeof *more) : NULL;
        if (!more)
            return -ENOMEM;
        memset(more + at->cap, 0xff, (cap - at->cap) * sizeof *more); /* no token */
        at->token = more;
        at->cap = (uint32_t)cap;
    }
    at->token[pos] = token;
    return 0;
}

static bool has(const struct slot *at, uint32_t n, const struct ids *what)
{
    for (uint32_t i = 0; what->n && i + what->n <= n; i++)
        if (memcmp(at->token + i, what->id, what->n * sizeof *what->id) == 0)
            return true;
    return !what->n;
}

uint32_t null_script_next(struct null_script *s, uint32_t slot, uint32_t pos)
{
    struct slot *at = &s->slot[slot];
    if (at->answer != NOTHING) {
        const struct ids *say = &s->answer[at->answer].say;
        if (pos == at->pos + 1 && at->token[pos] == say->id[at->at]) {
            at->pos = pos;
            at->at += at->at + 1 < say->n;
            return say->id[at->at];
        }
    }
    for (uint32_t i = 0; i < s->n; i++) {
        if (!has(at, pos + 1, &s->answer[i].when))
            continue;
        at->answer = (int32_t)i;
        at->pos = pos;
        at->at = 0;
        return s->answer[i].say.id[0];
    }
    at->answer = NOTHING;
    return at->token[pos] < s->max_id ? at->token[pos] + 1 : 0;
}
