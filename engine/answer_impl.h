/* engine/answer_impl.h: inside the answer parser; for engine/answer*.c only. */
#ifndef ZINC_ENGINE_ANSWER_IMPL_H
#define ZINC_ENGINE_ANSWER_IMPL_H

#include <jansson.h>
#include <string.h>

#include "engine/answer.h"
#include "model/chat.h"

/* ---- the parser ---- */

enum answer_state {
    ANSWER_AT_MARK, /* at the start and after a mark: nothing but white space came since */
    ANSWER_REASONING,
    ANSWER_TEXT,
    ANSWER_HEADER, /* harmony: from <|start|> or <|channel|> to <|message|> */
    ANSWER_CALL,
};

/* What a step of a call's syntax says of the text so far. */
enum answer_step { CALL_MORE, CALL_DONE, CALL_BROKEN };

/* {"name": .., "arguments": ..}: places in the held text. */
struct answer_json_call {
    bool bare; /* without marks around: it must be a call of a known tool */
    bool string, escape;
    unsigned depth; /* of braces and brackets; 1: among the call's own members */
    enum { JSON_KEY, JSON_COLON, JSON_VALUE, JSON_AFTER } expect; /* at depth 1 */
    bool in_name, in_args;                                        /* what the member is */
    size_t begin, from;         /* of the object; of the key or value that is being read */
    size_t args, fed, args_end; /* 0: not yet; args[0..fed) was put */
};

struct answer_xml_call {
    enum { XML_FUNCTION, XML_NAME, XML_BODY, XML_KEY, XML_VALUE_BEGIN, XML_VALUE, XML_END } expect;
    unsigned types, n_params; /* types: of the parameter that is being read */
    size_t scan;
};

struct answer_gemma_call {
    enum { GEMMA_NAME, GEMMA_KEY, GEMMA_COLON, GEMMA_VALUE, GEMMA_STRING, GEMMA_AFTER, GEMMA_END } expect;
    uint64_t is_array; /* one bit for each open brace or bracket */
    unsigned depth;
    bool first, in_key; /* first: nothing came in the innermost one yet */
};

struct answer_call {
    int (*step)(struct answer *a); /* enum answer_step, or a negative errno; moves a->pos */
    char *name;                    /* NULL: not known yet */
    struct tok_buf args;           /* JSON text that was not passed on */
    bool begun;                    /* the sink knows of it */
    union {
        struct answer_json_call json;
        struct answer_xml_call xml;
        struct answer_gemma_call gemma;
        size_t harmony_body;
    };
};

struct answer {
    struct answer_sink sink;
    void *user;
    json_t *tools; /* an array; NULL: nothing is a call */
    bool forced;
    const struct chat_info *in;
    enum answer_state state;
    struct tok_buf held; /* text that was not passed on; in a call all of the call */
    size_t pos;          /* in a call: held[0..pos) is understood */
    bool last;           /* no more text will come */
    bool said[2];        /* by part: something was passed on */
    bool fresh;          /* a mark came since */
    uint32_t n_calls, index;
    struct answer_call call;
};

enum { PART_REASONING, PART_TEXT };

enum found { FOUND_NO, FOUND_MAYBE, FOUND_YES };

/* Does the held text go on with `mark` at `at`? MAYBE: more text is needed to tell. */
enum found answer_here(const struct answer *a, size_t at, const char *mark);
/* The first of the marks (each begins with '<') at or after `from`: its offset, and *which. *which -1: none; then the
 * offset is where one may begin, or the end. */
size_t answer_find(const struct answer *a, size_t from, const char *const *marks, size_t n_marks, int *which);

static inline bool answer_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The syntaxes. Each begins a call at held[0..]; pos stands after the mark. */
void answer_json_begin(struct answer *a, bool bare);
void answer_xml_begin(struct answer *a, bool named); /* named: <function= was the mark */
void answer_gemma_begin(struct answer *a);
int answer_harmony_begin(struct answer *a, const char *name, size_t n_name);
enum { HARMONY_END, HARMONY_RETURN, HARMONY_CALL, HARMONY_MESSAGE, HARMONY_START, HARMONY_CHANNEL };
enum { ANSWER_HARMONY_ENDS = 3, ANSWER_HARMONY_MARKS = 6 }; /* the first three end a message */
extern const char *const answer_harmony_marks[ANSWER_HARMONY_MARKS];

/* For the syntaxes: 0 or -ENOMEM; CALL_BROKEN: no name. */
int answer_call_name(struct answer *a, const char *s, size_t n);
int answer_call_put(struct answer *a, const char *s, size_t n);     /* JSON text of the arguments */
int answer_call_escaped(struct answer *a, const char *s, size_t n); /* as the inside of a JSON string */
/* A value in plain text as JSON: what it is as JSON when `types` has that type (True, False and None are known too),
 * else a string. */
int answer_call_value(struct answer *a, const char *s, size_t n, unsigned types);

/* ---- tools ---- */

enum {
    TYPE_STRING = 1,
    TYPE_INTEGER = 2,
    TYPE_NUMBER = 4, /* with fraction */
    TYPE_BOOLEAN = 8,
    TYPE_NULL = 16,
    TYPE_OBJECT = 32,
    TYPE_ARRAY = 64,
    TYPE_ANY = 127,
};

/* NULL and *tools NULL where there is none. -EINVAL: not an array of functions with names. */
int answer_tools_read(const char *text, json_t **tools, struct err *e);
const json_t *answer_tool_function(const json_t *tool);
/* The function by name; prefix: any whose name begins so. NULL: none. */
const json_t *answer_tool_find(const json_t *tools, const char *name, size_t n, bool prefix);
/* The types that a schema allows; `root` is where its references point to. */
unsigned answer_types(const json_t *schema, const json_t *root);
/* Those of a parameter; a string where function or parameter are not known. */
unsigned answer_parameter_types(const json_t *tools, const char *function, const char *key, size_t n_key);
/* A value's type, 0: not JSON. Values in plain text, that is also True, False, None; *word is then how JSON says it. */
unsigned answer_value_type(const char *s, size_t n, const char **word);

/* ---- the grammar ---- */

struct answer_grammar_out {
    struct tok_buf *b;
    int rc;
    struct err *e;
};
__attribute__((format(printf, 2, 3))) void answer_putf(struct answer_grammar_out *o, const char *fmt, ...);
void answer_put_literal(struct answer_grammar_out *o, const char *text); /* quoted */
/* A rule for text that has none of the marks in it and may end anywhere. All begin with '<' and have no other. */
void answer_put_text_without(struct answer_grammar_out *o, const char *rule, const char *const *marks, size_t n);
/* Rules for the calls of one function each, "zinc-call" being one call of any of the tools. */
void answer_put_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools);

#endif
