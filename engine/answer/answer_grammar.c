/* The grammar of a whole answer: the reasoning that the chat format has, free, then text, calls of tools, or an answer in
 * a form of its own. The calls themselves are in answer_grammar_calls.c. All rules but `root` are named zinc-... */
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/json.h"
#include "engine/answer/answer_impl.h"
#include "engine/grammar/grammar.h"

/* ---- writing GBNF ---- */

static void put_bytes(struct answer_grammar_out *o, const char *s, size_t n)
{
    if (!o->rc && tok_buf_add(o->b, s, n))
        o->rc = err_set(o->e, -ENOMEM, "engine: out of memory for a grammar");
}

void answer_putf(struct answer_grammar_out *o, const char *fmt, ...)
{
    char text[1024];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    if (n < 0 || (size_t)n >= sizeof text)
        o->rc = o->rc ? o->rc : err_set(o->e, -E2BIG, "engine: a rule of a grammar has %d bytes", n);
    else
        put_bytes(o, text, (size_t)n);
}

void answer_put_literal(struct answer_grammar_out *o, const char *text)
{
    put_bytes(o, "\"", 1);
    for (; *text; text++) {
        if (*text == '"' || *text == '\\')
            put_bytes(o, "\\", 1);
        if ((unsigned char)*text >= 0x20)
            put_bytes(o, text, 1);
        else
            answer_putf(o, "\\x%02X", (unsigned)*text);
    }
    put_bytes(o, "\"", 1);
}

/* A mark by characters, 0 behind the last. */
enum { MARK_CHARS = 48, MARKS = 8 };
struct mark {
    uint32_t c[MARK_CHARS];
};

static struct mark mark_of(const char *text)
{
    struct mark m = { { 0 } };
    for (size_t i = 0; *text && i < MARK_CHARS - 1; i++) {
        unsigned char b = (unsigned char)*text++;
        m.c[i] = b < 0x80 ? b : b < 0xe0 ? b & 0x1fu : b < 0xf0 ? b & 0xfu : b & 7u;
        while (((unsigned char)*text & 0xc0) == 0x80)
            m.c[i] = m.c[i] << 6 | ((unsigned char)*text++ & 0x3fu);
    }
    return m;
}

static void put_char(struct answer_grammar_out *o, uint32_t c)
{
    if (c < 0x80 && (c < 0x20 || strchr("\\]^-[\"", (int)c)))
        answer_putf(o, "\\x%02X", c);
    else if (c < 0x80)
        answer_putf(o, "%c", (int)c);
    else
        answer_putf(o, c < 0x10000 ? "\\u%04X" : "\\U%08X", c);
}

/* What may follow the first `n` characters of those marks in `set`: one that leads away from all of them, then `tail`; one
 * that goes on, or nothing. But never `first`, where that begins another mark. */
static void put_diverging(struct answer_grammar_out *o, const struct mark *marks, unsigned set, size_t n, uint32_t first,
                          const char *tail)
{
    uint32_t seen[MARKS];
    size_t n_seen = 0, k;
    for (unsigned i = 0; set >> i; i++) {
        uint32_t c = set >> i & 1 ? marks[i].c[n] : 0;
        for (k = 0; k < n_seen && seen[k] != c; k++)
            ;
        if (c && k == n_seen)
            seen[n_seen++] = c;
    }
    answer_putf(o, "( [^");
    for (k = 0; k < n_seen; k++)
        put_char(o, seen[k]);
    if (first)
        put_char(o, first);
    answer_putf(o, "] %s", tail);
    for (k = 0; k < n_seen; k++) {
        unsigned next = 0;
        bool complete = false;
        for (unsigned i = 0; set >> i; i++) {
            if ((set >> i & 1) && marks[i].c[n] == seen[k]) {
                next |= 1u << i;
                complete |= !marks[i].c[n + 1];
            }
        }
        if (complete)
            continue;
        answer_putf(o, " | \"");
        put_char(o, seen[k]);
        answer_putf(o, "\" ");
        put_diverging(o, marks, next, n + 1, first, tail);
    }
    answer_putf(o, " )?");
}

void answer_put_text_without(struct answer_grammar_out *o, const char *rule, const char *const *marks, size_t n)
{
    struct mark m[MARKS];
    char tail[16];
    if (!n) {
        answer_putf(o, "%s ::= [^\\x00]*\n", rule);
        return;
    }
    for (size_t i = 0; i < n; i++)
        m[i] = mark_of(marks[i]);
    snprintf(tail, sizeof tail, "[^\\x%02X]*", (unsigned char)marks[0][0]);
    answer_putf(o, "%s ::= %s ( \"\\x%02X\" ", rule, tail, (unsigned char)marks[0][0]);
    put_diverging(o, m, (1u << n) - 1, 1, m[0].c[0], tail);
    answer_putf(o, " )*\n");
}

/* ---- an answer in a form of its own: the rule zinc-answer ---- */

static bool is_name(char c)
{
    return isalnum((unsigned char)c) || c == '-' || c == '_';
}

/* The end of what begins at s and is not made of names: a string, a class, a comment or a token. */
static const char *skip_terminal(const char *s)
{
    char end = *s == '"' ? '"' : *s == '[' ? ']' : *s == '#' ? '\n' : *s == '<' ? '>' : 0;
    if (!end)
        return s + 1;
    for (s++; *s && *s != end; s++)
        s += *s == '\\' && end != '\n' && s[1];
    return *s ? s + 1 : s;
}

/* The user's grammar, its root renamed. */
static void put_users_grammar(struct answer_grammar_out *o, const char *s)
{
    bool rooted = false;
    while (*s && !o->rc) {
        const char *from = s;
        while (is_name(*s))
            s++;
        size_t n = (size_t)(s - from);
        if (!n) {
            s = skip_terminal(s);
            put_bytes(o, from, (size_t)(s - from));
        } else if (n == 4 && memcmp(from, "root", 4) == 0) {
            answer_putf(o, "zinc-answer");
            rooted = true;
        } else if (n >= 5 && memcmp(from, "zinc-", 5) == 0) {
            o->rc = err_set(o->e, -EINVAL, "grammar: rule '%.*s': names that begin with zinc- are taken", (int)n, from);
        } else {
            put_bytes(o, from, n);
        }
    }
    if (!rooted && !o->rc)
        o->rc = err_set(o->e, -EINVAL, "grammar: there is no rule 'root'");
    answer_putf(o, "\n");
}

static void put_schema(struct answer_grammar_out *o, const struct answer_rules *r)
{
    struct json_schema_opts opts = { r->strict, r->warnings, NULL };
    json_error_t je;
    const char *text = r->schema ? r->schema : "";
    bool no_memory;
    json_t *schema = json_read(text, strlen(text), JSON_DECODE_ANY | JSON_REJECT_DUPLICATES, &je, &no_memory);
    if (!schema && no_memory)
        o->rc = err_set(o->e, -ENOMEM, "schema: out of memory");
    else if (!schema)
        o->rc = err_set(o->e, -EINVAL, "schema: not JSON: line %d, column %d: %s", je.line, je.column, je.text);
    else
        o->rc = json_schema_rules(schema, JSON_SCHEMA_VALUE, "zinc-answer", &opts, o->b, o->e);
    json_decref(schema);
}

static void put_answer(struct answer_grammar_out *o, const struct answer_rules *r)
{
    const char *s = r->schema ? r->schema : "";
    switch (r->format) {
    case ANSWER_ANY: break;
    case ANSWER_JSON_OBJECT: o->rc = grammar_json_to_gbnf(true, "zinc-answer", o->b, o->e); break;
    case ANSWER_JSON_SCHEMA: put_schema(o, r); break;
    case ANSWER_GRAMMAR: put_users_grammar(o, s); break;
    }
    answer_putf(o, "\n");
}

/* ---- the tools that may be called ---- */

/* Names become parts of marks, which must stay readable. */
static int check_names(const json_t *tools, struct err *e)
{
    const json_t *tool;
    size_t i;
    json_array_foreach (tools, i, tool) {
        const char *name = json_string_value(json_object_get(answer_tool_function(tool), "name"));
        size_t n = strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-.:/");
        if (name[n] || n > 128)
            return err_set(e, -EINVAL, "tools[%zu]: the name '%.64s': 1 to 128 letters, digits and _ - . : / wanted", i,
                           name);
    }
    return 0;
}

/* Those that the choice leaves; *tools NULL where there are none. */
static int read_tools(const struct answer_rules *r, const struct chat_info *in, json_t **tools, struct err *e)
{
    bool forced = r->choice == ANSWER_TOOLS_REQUIRED || r->choice == ANSWER_TOOLS_NAMED;
    int rc = r->choice == ANSWER_TOOLS_NONE ? 0 : answer_tools_read(r->tools, tools, e);
    if (!rc && *tools)
        rc = check_names(*tools, e);
    if (!rc && *tools && in->calls == CHAT_CALL_NONE)
        rc = err_set(e, -ENOTSUP, "chat: the %s format has no way to offer tools", in->name);
    if (!rc && forced && !*tools)
        rc = err_set(e, -EINVAL, "tool_choice: a call is wanted and there are no tools");
    if (rc || r->choice != ANSWER_TOOLS_NAMED)
        return rc;
    const char *name = r->named ? r->named : "";
    for (size_t i = json_array_size(*tools); i-- > 0;) {
        const json_t *f = answer_tool_function(json_array_get(*tools, i));
        if (strcmp(json_string_value(json_object_get(f, "name")), name) != 0)
            json_array_remove(*tools, i);
    }
    return json_array_size(*tools) ? 0 : err_set(e, -EINVAL, "tool_choice: there is no function '%.64s'", name);
}

/* ---- the whole ---- */

struct whole {
    struct answer_grammar_out o;
    const struct answer_rules *r;
    const struct chat_info *in;
    bool opened, thinks, calls, text, parallel; /* calls, text: may come (text: or zinc-answer) */
};

/* Harmony: analysis and preambles, then a final message or a call. */
static void put_harmony_root(struct whole *w)
{
    struct answer_grammar_out *o = &w->o;
    bool any = w->r->format == ANSWER_ANY;
    answer_putf(o, "root ::= ( zinc-aside \"<|start|>assistant\" )* ( %s%s%s )\n", w->text ? "zinc-final" : "",
                w->text && w->calls ? " | " : "", w->calls ? "zinc-call" : "");
    answer_putf(o, "zinc-aside ::= \"<|channel|>\" %s \"<|message|>\" %%until \"<|end|>\"\n",
                any ? "( \"analysis\" | \"commentary\" )" : "\"analysis\"");
    answer_putf(o, "zinc-final ::= \"<|channel|>final\" %s \"<|message|>\" %s\n",
                any ? "" : "( \" \"? \"<|constrain|>json\" )?", any ? "zinc-text" : "zinc-answer");
    answer_put_text_without(o, "zinc-text", answer_harmony_marks, ANSWER_HARMONY_MARKS);
}

static void put_think(struct whole *w)
{
    struct answer_grammar_out *o = &w->o;
    answer_putf(o, "zinc-think ::= ");
    if (!w->opened && w->thinks) {
        char begin[32];
        snprintf(begin, sizeof begin, "%.*s", (int)strcspn(w->in->think_begin, "\n"), w->in->think_begin);
        answer_putf(o, "( ");
        answer_put_literal(o, begin);
        answer_putf(o, " ");
    }
    if (w->opened || w->thinks) {
        answer_putf(o, "%%until ");
        answer_put_literal(o, w->in->think_end);
        answer_putf(o, " zinc-ws");
    } else {
        answer_putf(o, "\"\"");
    }
    answer_putf(o, !w->opened && w->thinks ? " )?\n" : "\n");
}

/* A list, or a section with marks around it. */
static bool calls_in_one(const struct chat_info *in)
{
    return in->calls == CHAT_CALL_LIST || (in->calls == CHAT_CALL_NAMED && *in->named->section_begin);
}

/* Free text and calls. Where calls have no mark before them, a beginning of text is one. */
static void put_text_and_calls(struct whole *w)
{
    struct answer_grammar_out *o = &w->o;
    const char *marks[2] = { w->in->call_begin, "<function=" };
    const struct mark name = mark_of("{\"name\"");
    size_t n_marks = w->in->calls == CHAT_CALL_XML ? 2 : 1;
    if (w->in->calls == CHAT_CALL_NAMED && *w->in->named->section_begin)
        marks[n_marks++] = w->in->named->section_begin;
    if (w->in->calls == CHAT_CALL_BARE_JSON) {
        answer_putf(o, "zinc-body ::= zinc-call | zinc-text\nzinc-text ::= ");
        put_diverging(o, &name, 1, 0, 0, "[^\\x00]*");
        answer_putf(o, "\n");
        return;
    }
    if (calls_in_one(w->in)) /* they stand at the end, together */
        answer_putf(o, "zinc-body ::= zinc-text zinc-calls?\n");
    else
        answer_putf(o, "zinc-body ::= zinc-text %s\n", w->parallel ? "( zinc-call zinc-text )*" : "zinc-call?");
    answer_put_text_without(o, "zinc-text", marks, n_marks);
}

static void put_root(struct whole *w)
{
    struct answer_grammar_out *o = &w->o;
    answer_putf(o, "root ::= zinc-think zinc-body\n");
    put_think(w);
    if (w->text && w->calls && w->r->format == ANSWER_ANY)
        put_text_and_calls(w);
    else
        answer_putf(o, "zinc-body ::= %s%s%s\n", w->text ? "zinc-answer" : "", w->text && w->calls ? " | " : "",
                    !w->calls                    ? ""
                    : calls_in_one(w->in) ? "zinc-calls"
                    : w->parallel                ? "zinc-call ( zinc-ws zinc-call )*"
                                  : "zinc-call");
}

int answer_grammar(const struct chat_template *chat, const struct answer_rules *r, struct tok_buf *out, struct err *e)
{
    json_t *tools = NULL;
    unsigned failures = json_failures();
    const struct chat_info *in = chat_template_info(chat);
    struct answer_rules own = *r;
    if (chat->file && in->calls == CHAT_CALL_NONE && r->choice < ANSWER_TOOLS_REQUIRED)
        own.choice = ANSWER_TOOLS_NONE; /* they are offered, but how a call looks is not known: it comes as text */
    int rc = read_tools(&own, in, &tools, e);
    if (!rc && (tools || r->format != ANSWER_ANY)) {
        struct whole w = {
            .o = { out, 0, e }, .r = r, .in = in, .calls = tools, .text = r->choice < ANSWER_TOOLS_REQUIRED
        };
        w.opened = answer_opened(chat, r->think);
        w.thinks = in->can_think && (r->think < 0 ? chat->think_default : r->think || !in->can_toggle);
        w.parallel = r->parallel && in->calls != CHAT_CALL_BARE_JSON;
        if (w.text) /* first, so that line numbers in errors are those of the user's grammar */
            put_answer(&w.o, r);
        if (in->calls == CHAT_CALL_HARMONY)
            put_harmony_root(&w);
        else
            put_root(&w);
        answer_putf(&w.o, "zinc-ws ::= [ \\n]{0,4}\n");
        if (!w.o.rc && tools)
            answer_put_calls(&w.o, in, tools, w.parallel, r->warnings);
        rc = w.o.rc;
        if (json_failures() != failures) /* a schema may have been copied with holes */
            rc = err_set(e, -ENOMEM, "engine: out of memory for a grammar");
    }
    json_decref(tools);
    return rc;
}
