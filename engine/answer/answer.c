/* The parts of an answer: where reasoning, text and calls begin and end. The calls' own syntaxes are in answer_call.c,
 * answer_named.c, answer_xml.c and answer_gemma.c. */
#include "engine/answer/answer.h"

#include <errno.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/answer/answer_impl.h"

/* Of harmony's headers, in bytes: what is longer is none; what is cut off and longer is not thrown away. */
enum { HEADER_MAX = 300, HEADER_TRIFLE = 64 };
enum { HELD_RESERVE = 4096 }; /* text is rarely held back for longer: while it comes nothing is allocated */

const char *const answer_harmony_marks[ANSWER_HARMONY_MARKS] = {
    "<|end|>", "<|return|>", "<|call|>", "<|message|>", "<|start|>", "<|channel|>",
};

bool answer_opened(const struct chat_template *chat, int think)
{
    struct chat_opts o = { .thinking = think < 0 ? CHAT_THINK_DEFAULT : think ? CHAT_THINK_ON : CHAT_THINK_OFF,
                           .add_generation_prompt = true };
    return chat_prompt_opens_thinking(chat, &o);
}

int answer_create(const struct chat_template *chat, const struct answer_opts *o, const struct answer_sink *sink,
                  void *user, struct answer **out, struct err *e)
{
    struct answer *a = calloc(1, sizeof *a);
    if (!a)
        return err_set(e, -ENOMEM, "engine: out of memory for an answer");
    a->in = chat_template_info(chat);
    a->sink = *sink;
    a->user = user;
    a->forced = o->forced_call;
    a->fresh = true;
    a->state = answer_opened(chat, o->think) ? ANSWER_REASONING : ANSWER_AT_MARK;
    int rc = a->in->calls != CHAT_CALL_NONE ? answer_tools_read(o->tools, &a->tools, e) : 0;
    if (!rc && tok_buf_reserve(&a->held, HELD_RESERVE))
        rc = err_set(e, -ENOMEM, "engine: out of memory for an answer");
    if (rc) {
        answer_destroy(a);
        return rc;
    }
    *out = a;
    return 0;
}

void answer_destroy(struct answer *a)
{
    if (!a)
        return;
    free(a->call.name);
    tok_buf_finish(&a->call.args);
    tok_buf_finish(&a->held);
    json_decref(a->tools);
    free(a);
}

uint32_t answer_n_calls(const struct answer *a)
{
    return a->n_calls;
}

enum answer_part answer_part(const struct answer *a)
{
    switch (a->state) {
    case ANSWER_REASONING: return ANSWER_PART_REASONING;
    case ANSWER_TEXT:
    case ANSWER_CALL: return ANSWER_PART_TEXT;
    default: return ANSWER_PART_NONE;
    }
}

/* ---- looking for marks ---- */

enum found answer_here(const struct answer *a, size_t at, const char *mark)
{
    size_t n = strlen(mark), have = a->held.n - at;
    if (memcmp(a->held.s + at, mark, MIN(n, have)) != 0)
        return FOUND_NO;
    return have >= n ? FOUND_YES : FOUND_MAYBE;
}

size_t answer_find(const struct answer *a, size_t from, const char *const *marks, size_t n_marks, int *which)
{
    *which = -1;
    while (from < a->held.n) {
        const char *p = n_marks ? memchr(a->held.s + from, marks[0][0], a->held.n - from) : NULL;
        if (!p)
            break;
        from = (size_t)(p - a->held.s);
        for (size_t i = 0; i < n_marks; i++) {
            enum found f = answer_here(a, from, marks[i]);
            if (f == FOUND_YES)
                *which = (int)i;
            if (f != FOUND_NO)
                return from;
        }
        from++;
    }
    return a->held.n;
}

/* ---- passing on ---- */

static void drop(struct answer *a, size_t n)
{
    if (n < a->held.n)
        memmove(a->held.s, a->held.s + n, a->held.n - n);
    a->held.n -= n;
}

static int pass(struct answer *a, enum answer_part part, const char *s, size_t n)
{
    int (*fn)(void *, const char *, size_t) = part == ANSWER_PART_REASONING ? a->sink.reasoning : a->sink.text;
    int rc = 0;
    if (fn && a->fresh && a->said[part])
        rc = fn(a->user, "\n\n", 2); /* in place of what stood between them */
    a->fresh = false;
    a->said[part] = true;
    return rc || !fn ? rc : fn(a->user, s, n);
}

/* Passes on held[0..n) without white space next to marks. closed: a mark follows; else white space at the end waits. */
static int say(struct answer *a, enum answer_part part, size_t n, bool closed)
{
    size_t from = 0, to = n;
    while (a->fresh && from < n && answer_space(a->held.s[from]))
        from++;
    while ((closed || !a->last) && to > from && answer_space(a->held.s[to - 1]))
        to--;
    int rc = to > from ? pass(a, part, a->held.s + from, to - from) : 0;
    drop(a, closed ? n : to);
    return rc;
}

/* ---- calls ---- */

static int announce(struct answer *a)
{
    struct answer_call *c = &a->call;
    int rc = 0;
    if (!c->begun) {
        c->begun = true;
        rc = a->sink.call_begin(a->user, a->index, c->name);
    }
    if (!rc && c->args.n)
        rc = a->sink.call_arguments(a->user, a->index, c->args.s, c->args.n);
    c->args.n = 0;
    return rc;
}

static void end_call(struct answer *a, enum answer_state next)
{
    struct answer_call *c = &a->call;
    a->index += c->begun;
    free(c->name);
    tok_buf_finish(&c->args);
    *c = (struct answer_call){ 0 };
    drop(a, a->pos);
    a->pos = 0;
    a->state = next;
}

static int complete_call(struct answer *a)
{
    int rc = announce(a);
    if (!rc)
        rc = a->sink.call_end(a->user, a->index, true);
    a->n_calls++;
    end_call(a, ANSWER_AT_MARK);
    a->fresh = true;
    a->in_list = a->in->calls == CHAT_CALL_LIST;
    return rc;
}

/* The text ends inside a call. Its marks are not shown: what is known of it is told as a call, and without a name
 * nothing is. A bare object may as well be an answer that happens to be JSON, as long as it has not named a tool. */
static int cut_call(struct answer *a)
{
    int rc = 0;
    a->pos = a->held.n;
    if (a->call.name) {
        rc = announce(a);
        if (!rc)
            rc = a->sink.call_end(a->user, a->index, false);
    } else if (a->call.bare) {
        rc = pass(a, ANSWER_PART_TEXT, a->held.s, a->pos);
    }
    end_call(a, ANSWER_TEXT);
    return rc;
}

static int break_call(struct answer *a)
{
    int rc;
    if (a->call.begun) {
        rc = a->sink.call_cancel(a->user, a->index, a->held.s, a->pos);
        a->said[ANSWER_PART_TEXT] = true;
        a->fresh = false;
    } else {
        rc = pass(a, ANSWER_PART_TEXT, a->held.s, a->pos);
    }
    end_call(a, ANSWER_TEXT);
    return rc;
}

static bool go_on_with_call(struct answer *a, int *rc)
{
    int step = a->call.step(a);
    if (step < 0) {
        *rc = step;
        return false;
    }
    if (step == CALL_DONE)
        *rc = complete_call(a);
    else if (step == CALL_BROKEN)
        *rc = break_call(a);
    else if (a->last)
        *rc = cut_call(a);
    else if (a->sink.call_cancel && a->call.name)
        *rc = announce(a);
    return step != CALL_MORE;
}

/* ---- reasoning and text ---- */

static void enter(struct answer *a, enum answer_state state, size_t used)
{
    drop(a, used);
    a->state = state;
    a->fresh = true;
}

/* What begins a call in the middle of text, by format. */
static size_t call_marks(const struct answer *a, const char *marks[2])
{
    marks[0] = a->in->calls == CHAT_CALL_BARE_JSON ? "<|python_tag|>" : a->in->call_begin;
    marks[1] = "<function="; /* Qwen3-Coder forgets the mark before it */
    if (a->in->calls == CHAT_CALL_NAMED)
        marks[1] = a->in->named->section_begin;
    return !a->tools || a->in->calls == CHAT_CALL_HARMONY                                              ? 0
           : a->in->calls == CHAT_CALL_XML || (a->in->calls == CHAT_CALL_NAMED && *marks[1]) ? 2
                                                                                                       : 1;
}

static void begin_call(struct answer *a, int mark)
{
    const char *marks[2];
    call_marks(a, marks);
    if (a->in->calls == CHAT_CALL_NAMED && mark == 1) { /* calls follow, each with its own mark */
        enter(a, ANSWER_AT_MARK, strlen(marks[1]));
        return;
    }
    a->state = ANSWER_CALL;
    a->fresh = true;
    a->pos = strlen(marks[mark]);
    if (a->in->calls == CHAT_CALL_JSON || a->in->calls == CHAT_CALL_BARE_JSON)
        answer_json_begin(a, false);
    else if (a->in->calls == CHAT_CALL_XML)
        answer_xml_begin(a, mark);
    else if (a->in->calls == CHAT_CALL_NAMED)
        answer_named_begin(a);
    else if (a->in->calls == CHAT_CALL_PAIRS)
        answer_pairs_begin(a);
    else if (a->in->calls == CHAT_CALL_LIST)
        answer_list_begin(a);
    else
        answer_gemma_begin(a);
}

/* Text or reasoning up to the next mark. True when there was one. */
static bool go_on_with_part(struct answer *a, int *rc)
{
    bool harmony = a->in->calls == CHAT_CALL_HARMONY, reasoning = a->state == ANSWER_REASONING;
    const char *two[2], *const *marks = two;
    size_t n_marks;
    int which;
    if (harmony) {
        marks = answer_harmony_marks;
        n_marks = ANSWER_HARMONY_MARKS;
    } else if (reasoning) {
        two[0] = a->in->think_end;
        n_marks = 1;
    } else {
        n_marks = call_marks(a, two);
    }
    size_t at = answer_find(a, 0, marks, n_marks, &which);
    if (!n_marks) {
        *rc = pass(a, ANSWER_PART_TEXT, a->held.s, a->held.n);
        drop(a, a->held.n);
        return false;
    }
    if (which < 0 && a->last) /* a mark's beginning that did not go on */
        at = a->held.n;
    *rc = say(a, reasoning ? ANSWER_PART_REASONING : ANSWER_PART_TEXT, at, which >= 0);
    if (which < 0)
        return false;
    if (harmony && which >= ANSWER_HARMONY_ENDS)
        enter(a, ANSWER_HEADER, 0);
    else if (harmony || reasoning)
        enter(a, ANSWER_AT_MARK, strlen(marks[which]));
    else
        begin_call(a, which);
    return true;
}

/* ---- at a mark ---- */

/* The mark at held[0], among those that count only where nothing else came before. True when the state moved. */
static bool at_any_mark(struct answer *a, bool *maybe)
{
    const char *mark[6], *begin = a->in->think_begin;
    char first[32] = ""; /* without the white space at its end, which is not shown anyway */
    size_t n_calls = call_marks(a, mark), n = n_calls;
    if (begin) {
        memcpy(first, begin, MIN(strcspn(begin, "\n"), sizeof first - 1));
        mark[n++] = first;
        mark[n++] = a->in->think_end;
    }
    if (n_calls && a->in->call_end)
        mark[n++] = a->in->call_end;
    if (n_calls && a->in->calls == CHAT_CALL_NAMED && *a->in->named->section_end)
        mark[n++] = a->in->named->section_end;
    for (size_t i = 0; i < n; i++) {
        enum found f = answer_here(a, 0, mark[i]);
        *maybe |= f == FOUND_MAYBE;
        if (f != FOUND_YES)
            continue;
        if (i < n_calls)
            begin_call(a, (int)i);
        else
            enter(a, mark[i] == first ? ANSWER_REASONING : ANSWER_AT_MARK, strlen(mark[i]));
        return true;
    }
    return false;
}

/* The prompt ends inside a header, which may go on with the recipient. */
static bool at_harmony_mark(struct answer *a, bool *maybe)
{
    bool start = !a->said[ANSWER_PART_REASONING] && !a->said[ANSWER_PART_TEXT] && !a->index;
    enum found to = start ? answer_here(a, 0, "to=") : FOUND_NO;
    if (to == FOUND_YES)
        a->state = ANSWER_HEADER;
    *maybe |= to == FOUND_MAYBE;
    for (int i = 0; i < ANSWER_HARMONY_MARKS && to != FOUND_YES; i++) {
        enum found f = answer_here(a, 0, answer_harmony_marks[i]);
        *maybe |= f == FOUND_MAYBE;
        if (f != FOUND_YES)
            continue;
        if (i < ANSWER_HARMONY_ENDS)
            drop(a, strlen(answer_harmony_marks[i]));
        else
            a->state = ANSWER_HEADER;
        return true;
    }
    return to == FOUND_YES;
}

/* A call without marks around it. */
static bool at_bare_call(struct answer *a)
{
    if (a->in->calls != CHAT_CALL_BARE_JSON || !a->tools || a->held.s[0] != '{')
        return false;
    a->state = ANSWER_CALL;
    a->pos = 0;
    answer_json_begin(a, true);
    return true;
}

/* Behind a call of a list: the next one, or its end. */
static bool at_list(struct answer *a)
{
    bool next = a->held.s[0] == '{', end = a->held.s[0] == ']';
    a->in_list = false;
    if (next) {
        a->state = ANSWER_CALL;
        a->pos = 0;
        answer_json_begin(a, false);
    } else if (end) {
        drop(a, 1);
    }
    return next || end;
}

static bool go_on_at_mark(struct answer *a)
{
    size_t n = 0;
    bool maybe = false;
    char between = a->in->calls == CHAT_CALL_BARE_JSON && a->n_calls ? ';' : a->in_list ? ',' : ' ';
    while (n < a->held.n && (answer_space(a->held.s[n]) || a->held.s[n] == between))
        n++;
    drop(a, n);
    if (!a->held.n)
        return false;
    if (a->in_list && at_list(a))
        return true;
    if (a->in->calls == CHAT_CALL_HARMONY ? at_harmony_mark(a, &maybe) : at_bare_call(a) || at_any_mark(a, &maybe))
        return true;
    if (maybe && !a->last)
        return false;
    a->state = ANSWER_TEXT;
    return true;
}

/* ---- harmony's headers ---- */

/* The word after `key` in a header. */
static size_t word_after(const char *s, size_t n, const char *key, const char **word)
{
    const char *p = memmem(s, n, key, strlen(key));
    size_t k = 0;
    *word = p ? p + strlen(key) : s;
    while (p && *word + k < s + n && !strchr(" <\t\r\n", (*word)[k]))
        k++;
    return k;
}

static const char *function_prefix = "functions.";

/* The function that a header's recipient stands for, or none. */
static size_t called_function(const struct answer *a, size_t n_header, const char **name)
{
    size_t n = word_after(a->held.s, n_header, "to=", name), n_prefix = strlen(function_prefix);
    bool call = n > n_prefix && memcmp(*name, function_prefix, n_prefix) == 0;
    if (call)
        *name += n_prefix, n -= n_prefix;
    return a->tools && n && (call || answer_tool_find(a->tools, *name, n, false)) ? n : 0;
}

/* Opens what the header says: reasoning, text or a call. */
static int open_message(struct answer *a, size_t n_header, size_t n_mark)
{
    const char *name, *channel;
    size_t n_name = called_function(a, n_header, &name);
    size_t n_channel = word_after(a->held.s, n_header, "<|channel|>", &channel);
    if (n_name) {
        a->state = ANSWER_CALL;
        a->pos = n_header + n_mark;
        return answer_harmony_begin(a, name, n_name);
    }
    bool reasoning = n_channel == strlen("analysis") && memcmp(channel, "analysis", n_channel) == 0;
    enter(a, reasoning ? ANSWER_REASONING : ANSWER_TEXT, n_header + n_mark);
    return 0;
}

/* The text ends inside a header. Where it has named a function, and the name has ended, a call was begun; the header
 * itself is nothing to show, unless it began like one only. */
static int cut_header(struct answer *a)
{
    const char *name;
    size_t n = a->held.n, n_name = called_function(a, n, &name);
    if (n_name && name + n_name < a->held.s + n) {
        a->state = ANSWER_CALL;
        a->pos = n;
        return answer_harmony_begin(a, name, n_name);
    }
    bool shown = !n_name && (n > HEADER_TRIFLE || a->held.s[0] != '<');
    int rc = shown ? pass(a, ANSWER_PART_TEXT, a->held.s, n) : 0;
    drop(a, n);
    return rc;
}

/* No header: marks without anything are of no use, but what was to be a call or may be text is not lost. */
static int drop_header(struct answer *a, size_t n)
{
    int rc = 0;
    if (n > HEADER_TRIFLE || a->held.s[0] != '<' || memmem(a->held.s, n, function_prefix, strlen(function_prefix)))
        rc = pass(a, ANSWER_PART_TEXT, a->held.s, n);
    enter(a, ANSWER_AT_MARK, n);
    return rc;
}

/* What is longer than HEADER_MAX before its <|message|> is none: its first mark is dropped, the rest is text. */
static int leave_header(struct answer *a)
{
    for (size_t i = 0; i < ANSWER_HARMONY_MARKS; i++) {
        if (answer_here(a, 0, answer_harmony_marks[i]) == FOUND_YES) {
            enter(a, ANSWER_TEXT, strlen(answer_harmony_marks[i]));
            return 0;
        }
    }
    a->state = ANSWER_TEXT;
    return 0;
}

static bool go_on_with_header(struct answer *a, int *rc)
{
    const char *const *marks = answer_harmony_marks;
    int which;
    size_t at = 0;
    while (at = answer_find(a, at, marks, ANSWER_HARMONY_MARKS, &which), which > HARMONY_MESSAGE)
        at += strlen(marks[which]); /* <|start|> and <|channel|> are parts of it */
    if (at > HEADER_MAX)
        *rc = leave_header(a);
    else if (which == HARMONY_MESSAGE)
        *rc = open_message(a, at, strlen(marks[which]));
    else if (which >= 0)
        *rc = drop_header(a, at);
    else if (a->last)
        *rc = cut_header(a);
    else
        return false;
    return true;
}

/* ---- all together ---- */

static int go_on(struct answer *a)
{
    int rc = 0;
    bool moved = true;
    while (moved && !rc && (a->held.n || a->state == ANSWER_CALL)) {
        switch (a->state) {
        case ANSWER_AT_MARK: moved = go_on_at_mark(a); break;
        case ANSWER_REASONING:
        case ANSWER_TEXT: moved = go_on_with_part(a, &rc); break;
        case ANSWER_HEADER: moved = go_on_with_header(a, &rc); break;
        case ANSWER_CALL: moved = go_on_with_call(a, &rc); break;
        }
    }
    return rc;
}

int answer_put(struct answer *a, const char *text, size_t n)
{
    if (tok_buf_add(&a->held, text, n))
        return -ENOMEM;
    return go_on(a);
}

int answer_end(struct answer *a)
{
    a->last = true;
    return go_on(a);
}

/* ---- for the syntaxes of calls ---- */

int answer_call_name(struct answer *a, const char *s, size_t n)
{
    if (!n || memchr(s, 0, n))
        return CALL_BROKEN;
    free(a->call.name);
    a->call.name = strndup(s, n);
    return a->call.name ? 0 : -ENOMEM;
}

int answer_call_put(struct answer *a, const char *s, size_t n)
{
    return tok_buf_add(&a->call.args, s, n);
}

int answer_call_escaped(struct answer *a, const char *s, size_t n)
{
    static const char names[] = "\"\\\b\f\n\r\t", escapes[] = "\"\\bfnrt";
    int rc = 0;
    for (size_t i = 0, from = 0; i <= n && !rc; i++) {
        char text[8] = "";
        if (i < n && (unsigned char)s[i] >= 0x20 && s[i] != '"' && s[i] != '\\')
            continue;
        const char *name = i < n && s[i] ? strchr(names, s[i]) : NULL;
        if (name)
            snprintf(text, sizeof text, "\\%c", escapes[name - names]);
        else if (i < n)
            snprintf(text, sizeof text, "\\u%04x", (unsigned)s[i]);
        rc = answer_call_put(a, s + from, i - from);
        if (!rc)
            rc = answer_call_put(a, text, strlen(text));
        from = i + 1;
    }
    return rc;
}

int answer_call_value(struct answer *a, const char *s, size_t n, unsigned types)
{
    const char *word = NULL;
    int type = answer_value_type(s, n, &word);
    if (type < 0)
        return type;
    if ((unsigned)type & types)
        return answer_call_put(a, word ? word : s, word ? strlen(word) : n);
    int rc = answer_call_put(a, "\"", 1);
    if (!rc)
        rc = answer_call_escaped(a, s, n);
    return rc ? rc : answer_call_put(a, "\"", 1);
}

/* The text that ends the reasoning as the format's template writes it. */
const char *answer_think_end(const struct chat_template *chat)
{
    if (chat->file) {
        const char *end = chat_template_info(chat)->think_end;
        return end && strcmp(end, "</think>") == 0 ? "\n</think>\n\n" : end;
    }
    switch (chat->format) {
    case CHAT_QWEN3:
    case CHAT_QWEN3_THINKING:
    case CHAT_QWEN35: return "\n</think>\n\n";
    case CHAT_GPT_OSS: return "<|end|><|start|>assistant<|channel|>final<|message|>";
    case CHAT_GEMMA4: return "\n<channel|>";
    default: return NULL;
    }
}
