/* The grammar of calls, in the syntax of each chat format: names are those of the tools, arguments follow their schemas.
 * How values are written in each syntax is in json_schema*.c. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/answer/answer_impl.h"

struct rule_name {
    char s[40];
};

/* Names of rules are letters and dashes, and none may begin with another's. */
static struct rule_name args_rule(size_t tool)
{
    struct rule_name r;
    snprintf(r.s, sizeof r.s, "zinc-args-%c%c%c", (char)('a' + tool / 676 % 26), (char)('a' + tool / 26 % 26),
             (char)('a' + tool % 26));
    return r;
}

static const char *name_of(const json_t *tools, size_t i)
{
    return json_string_value(json_object_get(answer_tool_function(json_array_get(tools, i)), "name"));
}

/* ---- JSON ---- */

/* The name of a call and its arguments, both as they stand in the one object. */
static void put_json_call(struct answer_grammar_out *o, const char *name, const char *args, const char *rule)
{
    answer_putf(o, "\"\\\"%s\\\"\" zinc-sp \",\" zinc-sp \"\\\"%s\\\"\" zinc-sp \":\" zinc-sp %s", name, args, rule);
}

static void put_json_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools)
{
    bool bare = in->calls == CHAT_CALL_BARE_JSON;
    answer_putf(o, "zinc-sp ::= \" \"?\nzinc-call ::= %s", bare ? "\"<|python_tag|>\"?" : "\"<tool_call>\" \"\\n\"?");
    answer_putf(o, " \"{\" zinc-sp \"\\\"name\\\"\" zinc-sp \":\" zinc-sp ( ");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        answer_putf(o, "%s", i ? " | " : "");
        put_json_call(o, name_of(tools, i), bare ? "parameters" : "arguments", args_rule(i).s);
    }
    answer_putf(o, " ) zinc-sp \"}\"%s\n", bare ? "" : " \"\\n\"? \"</tool_call>\"");
}

/* ---- a list of JSON objects ---- */

static void put_list_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools, bool parallel)
{
    answer_putf(o, "zinc-sp ::= \" \"?\nzinc-calls ::= ");
    answer_put_literal(o, in->call_begin);
    answer_putf(o, " zinc-sp \"[\" zinc-call %s \"]\" ", parallel ? "( \",\" zinc-sp zinc-call )*" : "");
    answer_put_literal(o, in->call_end ? in->call_end : "");
    answer_putf(o, "\nzinc-call ::= \"{\" zinc-sp \"\\\"name\\\"\" zinc-sp \":\" zinc-sp ( ");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        answer_putf(o, "%s", i ? " | " : "");
        put_json_call(o, name_of(tools, i), "arguments", args_rule(i).s);
    }
    answer_putf(o, " ) ( \",\" zinc-sp \"\\\"id\\\"\" zinc-sp \":\" zinc-sp \"\\\"\" [a-zA-Z0-9]{1,40} \"\\\"\" )? zinc-sp \"}\"\n");
}

/* ---- a name between marks, and JSON ---- */

static void put_named_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools, bool parallel)
{
    const struct chat_named_calls *n = in->named;
    if (*n->section_begin) {
        answer_putf(o, "zinc-calls ::= ");
        answer_put_literal(o, n->section_begin);
        answer_putf(o, " zinc-call%s ", parallel ? " ( \"\\n\"? zinc-call )*" : "");
        answer_put_literal(o, n->section_end);
        answer_putf(o, "\n");
    }
    answer_putf(o, "zinc-call ::= ");
    answer_put_literal(o, in->call_begin);
    answer_putf(o, " ");
    answer_put_literal(o, n->prefix);
    answer_putf(o, " ( ");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        answer_putf(o, "%s\"%s\" zinc-mid %s", i ? " | " : "", name_of(tools, i), args_rule(i).s);
    }
    answer_putf(o, " ) ");
    answer_put_literal(o, in->call_end ? in->call_end : "");
    answer_putf(o, "\nzinc-mid ::= %s", n->numbered ? "\":\" [0-9]{1,4} " : "");
    if (*n->id_begin) {
        answer_putf(o, "( ");
        answer_put_literal(o, n->id_begin);
        answer_putf(o, " [a-zA-Z0-9]{9} )? ");
    }
    answer_put_literal(o, n->args_begin);
    answer_putf(o, "\n");
}

/* ---- harmony ---- */

static void put_harmony_calls(struct answer_grammar_out *o, const json_t *tools)
{
    answer_putf(o, "zinc-json ::= ( \" \"? \"<|constrain|>json\" | \" json\" )? \"<|message|>\"\nzinc-call ::= ");
    for (size_t i = 0; i < json_array_size(tools); i++) {
        const char *name = name_of(tools, i);
        answer_putf(
            o,
            "%s( \" to=functions.%s<|channel|>commentary\" | \"<|channel|>commentary to=functions.%s\" ) zinc-json %s",
            i ? " | " : "", name, name, args_rule(i).s);
    }
    answer_putf(o, "\n");
}

/* ---- XML ---- */

static void put_xml_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools)
{
    answer_putf(o, "zinc-call ::= \"%s\" \"\\n\"? \"<function=\" ( ", in->call_begin);
    for (size_t i = 0; i < json_array_size(tools); i++)
        answer_putf(o, "%s\"%s>\\n\" %s", i ? " | " : "", name_of(tools, i), args_rule(i).s);
    answer_putf(o, " ) \"</function>\" \"\\n\"? \"%s\"\n", in->call_end);
}

static void put_pair_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools)
{
    answer_putf(o, "zinc-call ::= \"%s\" ( ", in->call_begin);
    for (size_t i = 0; i < json_array_size(tools); i++)
        answer_putf(o, "%s\"%s\" \"\\n\"? %s", i ? " | " : "", name_of(tools, i), args_rule(i).s);
    answer_putf(o, " ) \"%s\"\n", in->call_end);
}

/* ---- Gemma 4 ---- */

static void put_gemma_calls(struct answer_grammar_out *o, const json_t *tools)
{
    answer_putf(o, "zinc-call ::= \"<|tool_call>call:\" ( ");
    for (size_t i = 0; i < json_array_size(tools); i++)
        answer_putf(o, "%s\"%s{\" %s", i ? " | " : "", name_of(tools, i), args_rule(i).s);
    answer_putf(o, " ) \"}<tool_call|>\"\n");
}

/* ---- all ---- */

static void put_arguments(struct answer_grammar_out *o, const json_t *function, enum json_schema_form form, size_t i,
                          json_t *warnings)
{
    char where[160];
    struct json_schema_opts opts = { json_is_true(json_object_get(function, "strict")), warnings, where };
    snprintf(where, sizeof where, "tools: %s", json_string_value(json_object_get(function, "name")));
    if (!o->rc)
        o->rc = json_schema_rules(json_object_get(function, "parameters"), form, args_rule(i).s, &opts, o->b, o->e);
    answer_putf(o, "\n");
}

void answer_put_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools, bool parallel,
                      json_t *warnings)
{
    enum json_schema_form form = JSON_SCHEMA_ARGS_JSON;
    if (in->calls == CHAT_CALL_XML) {
        put_xml_calls(o, in, tools);
        form = JSON_SCHEMA_ARGS_XML;
    } else if (in->calls == CHAT_CALL_PAIRS) {
        put_pair_calls(o, in, tools);
        form = JSON_SCHEMA_ARGS_PAIRS;
    } else if (in->calls == CHAT_CALL_GEMMA4) {
        put_gemma_calls(o, tools);
        form = JSON_SCHEMA_ARGS_GEMMA;
    } else if (in->calls == CHAT_CALL_HARMONY) {
        put_harmony_calls(o, tools);
    } else if (in->calls == CHAT_CALL_NAMED) {
        put_named_calls(o, in, tools, parallel);
    } else if (in->calls == CHAT_CALL_LIST) {
        put_list_calls(o, in, tools, parallel);
    } else {
        put_json_calls(o, in, tools);
    }
    for (size_t i = 0; i < json_array_size(tools) && !o->rc; i++)
        put_arguments(o, answer_tool_function(json_array_get(tools, i)), form, i, warnings);
}
