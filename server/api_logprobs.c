#include "server/api_logprobs.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

void api_logprobs_init(struct api_logprobs *l, const struct engine *eng, int32_t n_logprobs, bool legacy)
{
    *l = (struct api_logprobs){ .eng = eng, .wanted = n_logprobs >= 0, .legacy = legacy,
                                .n_top = (uint32_t)MAX(n_logprobs, 0) };
}

void api_logprobs_finish(struct api_logprobs *l)
{
    free(l->held);
    out_finish(&l->entries);
    out_finish(&l->values);
    out_finish(&l->tops);
    out_finish(&l->offsets);
    out_finish(&l->behind);
    *l = (struct api_logprobs){ 0 };
}

/* Bytes of what is broken at s[0..n): as many as become one U+FFFD (Unicode's "maximal subpart"). */
static size_t broken(const char *s, size_t n)
{
    unsigned char a = (unsigned char)s[0], b = n > 1 ? (unsigned char)s[1] : 0;
    size_t want = a < 0xc2 ? 1 : a < 0xe0 ? 2 : a < 0xf0 ? 3 : a < 0xf5 ? 4 : 1, have = 1;
    if ((a == 0xe0 && b < 0xa0) || (a == 0xed && b > 0x9f) || (a == 0xf0 && b < 0x90) || (a == 0xf4 && b > 0x8f))
        return 1;
    while (have < want && have < n && ((unsigned char)s[have] & 0xc0) == 0x80)
        have++;
    return have;
}

/* Of the text as it goes out, whether s has gone out already or is what tokens are made of. */
static size_t characters(const char *s, size_t n)
{
    size_t count = 0;
    for (size_t i = 0, len; i < n; i += len, count++)
        if (!(len = out_char(s + i, n - i)))
            len = broken(s + i, n - i);
    return count;
}

/* The bytes of a token, malloc'ed; NULL: there was no memory, and the whole list has failed. Decoding it twice shows
 * what it is in the middle of a text: some vocabularies drop the space before the first word. */
static char *piece(struct api_logprobs *l, int32_t id, unsigned flags, size_t *n)
{
    char *s = NULL;
    size_t both = 0;
    *n = 0;
    if (engine_decode(l->eng, (int32_t[]){ id, id }, 2, flags, &s, &both, NULL)) {
        l->entries.failed = true;
        return NULL;
    }
    *n = (both + 1) / 2;
    memmove(s, s + both - *n, *n);
    return s;
}

/* Where a token's text begins: behind what came out and what is still held back, as it may be the beginning of a stop
 * string. */
static uint64_t place(struct api_logprobs *l, int32_t id)
{
    uint64_t at = l->n_chars + characters(l->behind.s, l->behind.n);
    size_t n;
    char *s = piece(l, id, 0, &n);
    if (n)
        out_raw(&l->behind, s, n);
    free(s);
    l->entries.failed |= l->behind.failed; /* or later tokens would be placed too early */
    return at;
}

/* Text came out. What does not agree with the tokens' is text that was put right, and nothing is held back then. */
static void came_out(struct api_logprobs *l, const char *text, size_t n)
{
    struct out *b = &l->behind;
    bool agrees = n <= b->n && memcmp(b->s, text, n) == 0;
    if (agrees && n < b->n)
        memmove(b->s, b->s + n, b->n - n);
    b->n = agrees ? b->n - n : 0;
    l->n_chars += characters(text, n);
}

void api_logprobs_token(struct api_logprobs *l, const struct sched_token *t)
{
    if (!l->wanted || engine_is_eog(l->eng, t->id))
        return;
    if (l->n_held == l->cap) {
        uint32_t cap = l->cap ? l->cap * 2 : 16;
        struct api_held *p = realloc(l->held, cap * sizeof *p);
        if (!p) {
            l->entries.failed = true;
            return;
        }
        l->held = p;
        l->cap = cap;
    }
    l->held[l->n_held++] = (struct api_held){ *t, l->legacy ? place(l, t->id) : 0 };
}

void api_logprobs_echo(struct api_logprobs *l, const char *text, size_t n)
{
    l->n_chars = l->n_echo = characters(text, n);
    l->blank_dropped = n && text[0] != ' ';
}

void api_logprobs_drop(struct api_logprobs *l)
{
    l->n_held = 0;
}

static void comma(struct out *o)
{
    if (o->n)
        out_text(o, ",");
}

/* "token":..,"logprob":..,"bytes":[..] */
static void write_entry(struct api_logprobs *l, struct out *o, int32_t id, float logprob)
{
    size_t n = 0;
    char *s = piece(l, id, ENGINE_SHOW_SPECIAL, &n);
    out_text(o, "\"token\":");
    out_string(o, s, n);
    out_text(o, ",\"logprob\":");
    out_real(o, (double)logprob);
    out_text(o, ",\"bytes\":[");
    for (size_t i = 0; i < n; i++) {
        if (i)
            out_text(o, ",");
        out_int(o, (unsigned char)s[i]);
    }
    out_text(o, "]");
    free(s);
}

static void list_chat(struct api_logprobs *l, const struct sched_token *t)
{
    struct out *o = &l->entries;
    comma(o);
    out_text(o, "{");
    write_entry(l, o, t->id, t->logprob);
    out_text(o, ",\"top_logprobs\":[");
    for (uint32_t i = 0; i < MIN(t->n_top, l->n_top); i++) {
        out_text(o, i ? ",{" : "{");
        write_entry(l, o, t->top[i].id, t->top[i].logprob);
        out_text(o, "}");
    }
    out_text(o, "]}");
}

/* A token's name in completions: its text, or its bytes where they are no text, "bytes:\\xe2\\x82". */
static void write_name(struct out *o, const char *s, size_t n)
{
    size_t i = 0, len;
    while (i < n && s[i] && (len = out_char(s + i, n - i))) /* some parsers take no NUL in a name */
        i += len;
    if (i == n) {
        out_string(o, s, n);
        return;
    }
    out_text(o, "\"bytes:");
    for (i = 0; i < n; i++) {
        char buf[8];
        snprintf(buf, sizeof buf, "\\\\x%02x", (unsigned char)s[i]);
        out_text(o, buf);
    }
    out_text(o, "\"");
}

/* Adds ,"name":logprob to the object that begins at `from`; not twice where tokens look the same. */
static void add_top(struct api_logprobs *l, size_t from, int32_t id, float logprob)
{
    struct out *o = &l->tops;
    size_t n = 0, start = o->n;
    char *s = piece(l, id, ENGINE_SHOW_SPECIAL, &n);
    out_text(o, ",");
    write_name(o, s, n);
    out_text(o, ":");
    free(s);
    if (!o->failed && memmem(o->s + from, start - from, o->s + start, o->n - start))
        o->n = start;
    else
        out_real(o, (double)logprob);
}

static void write_tops(struct api_logprobs *l, const struct sched_token *t)
{
    struct out *o = &l->tops;
    comma(o);
    if (isnan(t->logprob)) {
        out_text(o, "null");
        return;
    }
    size_t from = o->n;
    for (uint32_t i = 0; i < MIN(t->n_top, l->n_top); i++)
        add_top(l, from, t->top[i].id, t->top[i].logprob);
    add_top(l, from, t->id, t->logprob);
    if (!o->failed)
        o->s[from] = '{';
    out_text(o, "}");
}

/* at: where in the text the token begins, in characters. */
static void list_legacy(struct api_logprobs *l, const struct sched_token *t, uint64_t at)
{
    size_t n = 0;
    char *s = piece(l, t->id, ENGINE_SHOW_SPECIAL, &n);
    comma(&l->entries);
    write_name(&l->entries, s, n);
    comma(&l->values);
    if (isnan(t->logprob))
        out_text(&l->values, "null");
    else
        out_real(&l->values, (double)t->logprob);
    comma(&l->offsets);
    out_int(&l->offsets, (int64_t)at);
    free(s);
    if (l->n_top)
        write_tops(l, t);
}

/* A character that is several tokens counts where it begins. */
void api_logprobs_prompt(struct api_logprobs *l, const struct sched_token *t)
{
    size_t n;
    char *s = piece(l, t->id, 0, &n);
    uint64_t at = MIN(l->at_echo, l->n_echo);
    for (size_t i = l->blank_dropped && n && s[0] == ' '; i < n; i++)
        l->at_echo += ((unsigned char)s[i] & 0xc0) != 0x80;
    l->blank_dropped &= !n;
    free(s);
    list_legacy(l, t, at);
    l->n++;
}

/* The first of the held tokens that reaches into the last n bytes of their text. */
static uint32_t first_in(struct api_logprobs *l, size_t n)
{
    size_t have = 0, len = 0;
    uint32_t i = l->n_held;
    while (i > 0 && have < n) {
        free(piece(l, l->held[--i].t.id, ENGINE_SHOW_SPECIAL, &len));
        have += len;
    }
    return i;
}

void api_logprobs_text(struct api_logprobs *l, const char *text, size_t n, bool first)
{
    if (!l->wanted)
        return;
    for (uint32_t i = first ? first_in(l, n) : 0; i < l->n_held; i++, l->n++)
        if (l->legacy)
            list_legacy(l, &l->held[i].t, l->held[i].at);
        else
            list_chat(l, &l->held[i].t);
    l->n_held = 0;
    if (l->legacy)
        came_out(l, text, n);
}

static void write_array(struct out *o, const char *name, struct out *list)
{
    out_text(o, name);
    out_text(o, ":[");
    out_join(o, list);
    out_text(o, "]");
    out_clear(list);
}

void api_logprobs_write(struct api_logprobs *l, struct out *o)
{
    if (!l->wanted || (!l->n && !l->entries.failed)) {
        out_text(o, "null");
        return;
    }
    out_text(o, "{");
    if (l->legacy) {
        write_array(o, "\"tokens\"", &l->entries);
        write_array(o, ",\"token_logprobs\"", &l->values);
        if (l->n_top)
            write_array(o, ",\"top_logprobs\"", &l->tops);
        else
            out_text(o, ",\"top_logprobs\":null");
        write_array(o, ",\"text_offset\"", &l->offsets);
    } else {
        write_array(o, "\"content\"", &l->entries);
        out_text(o, ",\"refusal\":null");
    }
    out_text(o, "}");
    l->n = 0;
    out_clear(&l->tops);
}
