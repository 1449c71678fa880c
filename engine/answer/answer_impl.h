/* engine/answer/answer_impl.h: inside the answer parser; for this folder only. */
#ifndef ZINC_ANSWER_ANSWER_IMPL_H
#define ZINC_ANSWER_ANSWER_IMPL_H

#include <jansson.h>
#include <string.h>

#include "engine/answer/answer.h"
#include "engine/grammar/json_schema.h"

/* ---- the parser ---- */

enum answer_state {
    ANSWER_AT_MARK, /* at the start and after a mark: nothing but white space came since */
    ANSWER_REASONING,
    ANSWER_TEXT,
    ANSWER_HEADER, /* harmony: from <|start|> or <|channel|> to <|message|> */
    ANSWER_CALL,
};

/* What a step of a call's syntax says of the text so far. */
enum answer_step { CALL_MORE, CALL_DONE, CALL_BROKEN }; /* MORE at the end of the text: it was cut off */

/* {"name": .., "arguments": ..}: places in the held text. */
struct answer_json_call {
    bool string, escape;
    bool list;      /* a bracket comes first                                    */
    unsigned depth; /* of braces and brackets; 1: among the call's own members */
    enum { JSON_KEY, JSON_COLON, JSON_VALUE, JSON_AFTER } expect; /* at depth 1 */
    bool in_name, in_args;                                        /* what the member is */
    size_t begin, from;         /* of the object; of the key or value that is being read */
    size_t args, fed, args_end; /* 0: not yet; args[0..fed) was put */
};

/* Where in a JSON text its strings are: held[..at) was looked at. */
struct answer_json_strings {
    size_t at;
    bool json, inside, escape; /* json: nothing says that it is none */
};

struct answer_harmony_call {
    size_t body, scan;
    struct answer_json_strings strings;
};

struct answer_xml_call {
    enum { XML_FUNCTION, XML_NAME, XML_BODY, XML_KEY, XML_VALUE_BEGIN, XML_VALUE, XML_END } expect;
    bool pairs;               /* GLM's */
    unsigned types, n_params; /* types: of the parameter that is being read */
    enum json_schema_text text; /* how it is written                        */
    size_t scan;
    struct answer_json_strings strings;
};

struct answer_named_call {
    size_t body;               /* where the arguments begin; 0: the name is being read */
    unsigned depth;            /* of braces and brackets                               */
    bool string, escape;
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
    bool bare;                     /* no mark tells that it is a call; its name has to */
    union {
        struct answer_json_call json;
        struct answer_xml_call xml;
        struct answer_gemma_call gemma;
        struct answer_harmony_call harmony;
        struct answer_named_call named;
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
    bool said[2];        /* by enum answer_part: something was passed on */
    bool fresh;          /* a mark came since */
    uint32_t n_calls, index;
    bool in_list;        /* CHAT_CALL_LIST: behind a call of the list */
    struct answer_call call;
};

enum found { FOUND_NO, FOUND_MAYBE, FOUND_YES };

/* What is decided here depends on the text alone, never on where its pieces end: as long as more text could change the
 * answer it is MAYBE, or no mark yet, and the parser waits. Only where a state has waited in vain (answer.last) does it
 * take what is there for what it is.
 *
 * Does the held text go on with `mark` at `at`? MAYBE: more text is needed to tell. */
enum found answer_here(const struct answer *a, size_t at, const char *mark);
/* The first of the marks (all begin with the same byte) at or after `from`: its offset, and *which. *which -1: none; then the
 * offset is where one may begin, or the end. */
size_t answer_find(const struct answer *a, size_t from, const char *const *marks, size_t n_marks, int *which);

static inline bool answer_space(char c)
{
    return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The syntaxes. Each begins a call at held[0..]; pos stands after the mark. */
void answer_json_begin(struct answer *a, bool bare);
void answer_xml_begin(struct answer *a, bool named); /* named: <function= was the mark */
void answer_pairs_begin(struct answer *a);
void answer_gemma_begin(struct answer *a);
void answer_named_begin(struct answer *a);
/* The list's first call, if there is one: pos stands behind the mark. */
void answer_list_begin(struct answer *a);
int answer_harmony_begin(struct answer *a, const char *name, size_t n_name);
enum { HARMONY_END, HARMONY_RETURN, HARMONY_CALL, HARMONY_MESSAGE, HARMONY_START, HARMONY_CHANNEL };
enum { ANSWER_HARMONY_ENDS = 3, ANSWER_HARMONY_MARKS = 6 }; /* the first three end a message */
extern const char *const answer_harmony_marks[ANSWER_HARMONY_MARKS];

/* CALL_DONE: the text is a JSON object; CALL_BROKEN: something else; or -ENOMEM. */
int answer_expect_object(const char *s, size_t n);
/* For the syntaxes: 0 or -ENOMEM; CALL_BROKEN: no name. */
int answer_call_name(struct answer *a, const char *s, size_t n);
int answer_call_put(struct answer *a, const char *s, size_t n);     /* JSON text of the arguments */
int answer_call_escaped(struct answer *a, const char *s, size_t n); /* as the inside of a JSON string */
/* Begins to follow the JSON text at held[from..]; and is the place `at` inside one of its strings? A text that has a
 * control character in a string is no JSON: then no place is. */
struct answer_json_strings answer_strings_begin(size_t from);
bool answer_inside_string(const struct answer *a, struct answer_json_strings *j, size_t at);
/* A value in plain text as JSON: what it is as JSON when `types` has that type (True, False and None are known too),
 * else a string. */
int answer_call_value(struct answer *a, const char *s, size_t n, unsigned types);

/* Does the prompt end inside the reasoning? */
bool answer_opened(const struct chat_template *chat, int think);

/* ---- tools ---- */

/* NULL and *tools NULL where there is none. -EINVAL: not an array of functions with names. */
int answer_tools_read(const char *text, json_t **tools, struct err *e);
const json_t *answer_tool_function(const json_t *tool);
/* The function by name; prefix: any whose name begins so. NULL: none. */
const json_t *answer_tool_find(const json_t *tools, const char *name, size_t n, bool prefix);
/* How a parameter is written, and its types; a string where function or parameter are not known. */
enum json_schema_text answer_parameter(const json_t *tools, const char *function, const char *key, size_t n_key,
                                       unsigned *types);
/* A value's types, 0: not JSON; or -ENOMEM. Values in plain text, that is also True, False, None; *word is then how JSON
 * says it. */
int answer_value_type(const char *s, size_t n, const char **word);

/* ---- the grammar ---- */

struct answer_grammar_out {
    struct tok_buf *b;
    int rc;
    struct err *e;
};
__attribute__((format(printf, 2, 3))) void answer_putf(struct answer_grammar_out *o, const char *fmt, ...);
void answer_put_literal(struct answer_grammar_out *o, const char *text); /* quoted */
/* A rule for text that has none of the marks in it and may end anywhere. All begin with the same character and have it only
 * there. */
void answer_put_text_without(struct answer_grammar_out *o, const char *rule, const char *const *marks, size_t n);
/* Rules for the calls of one function each, "zinc-call" being one call of any of the tools; where all calls of an answer stand
 * in one list or section that is "zinc-calls", of one or (parallel) more. warnings: as in answer_rules. */
void answer_put_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools, bool parallel,
                      json_t *warnings);

#endif
