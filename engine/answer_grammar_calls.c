/* The grammar of calls, in the syntax of each chat format: names are those of the tools, arguments follow their schemas.
 * Where a syntax writes values as plain text (XML) or in its own way (Gemma 4), a parameter's type tells what may come. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/ckd.h"
#include "engine/answer_impl.h"

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

static struct rule_name param_rule(size_t tool, size_t param)
{
    struct rule_name r = args_rule(tool);
    size_t n = strlen(r.s);
    snprintf(r.s + n, sizeof r.s - n, "-%c%c%c", (char)('a' + param / 676 % 26), (char)('a' + param / 26 % 26),
             (char)('a' + param % 26));
    return r;
}

static const char *name_of(const json_t *tools, size_t i)
{
    return json_string_value(json_object_get(answer_tool_function(json_array_get(tools, i)), "name"));
}

static void put_schema(struct answer_grammar_out *o, const json_t *schema, const char *rule)
{
    char *text = schema ? json_dumps(schema, JSON_ENCODE_ANY) : NULL;
    if (o->rc)
        ;
    else if (!schema)
        o->rc = grammar_json_to_gbnf(true, rule, o->b, o->e);
    else if (!text)
        o->rc = err_set(o->e, -ENOMEM, "engine: out of memory for a grammar");
    else
        o->rc = grammar_schema_to_gbnf(text, strlen(text), rule, o->b, o->e);
    free(text);
    answer_putf(o, "\n");
}

/* Is it a string that can be but a few? Then they come as alternatives. */
static bool put_fixed_strings(struct answer_grammar_out *o, const json_t *schema, unsigned types, const char *mark)
{
    const json_t *list = json_object_get(schema, "enum"), *one = json_object_get(schema, "const"), *v;
    size_t i;
    if (types != TYPE_STRING || !(json_array_size(list) || json_is_string(one)))
        return false;
    json_array_foreach (list, i, v)
        if (!json_is_string(v))
            return false;
    answer_putf(o, "( ");
    json_array_foreach (list, i, v) {
        answer_putf(o, "%s", i ? " | " : "");
        answer_put_literal(o, mark);
        answer_putf(o, " ");
        answer_put_literal(o, json_string_value(v));
    }
    if (!json_array_size(list)) {
        answer_put_literal(o, mark);
        answer_putf(o, " ");
        answer_put_literal(o, json_string_value(one));
    }
    answer_putf(o, " )");
    return true;
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

/* A parameter's schema alone, with the definitions that it may refer to. */
static json_t *schema_alone(const json_t *schema, const json_t *params)
{
    static const char *const kept[] = { "$defs", "definitions" };
    json_t *copy = json_is_object(schema) ? json_copy((json_t *)schema) : json_deep_copy(schema);
    for (size_t i = 0; i < ARRAY_LEN(kept); i++)
        if (json_is_object(copy) && json_object_get(params, kept[i]) && !json_object_get(copy, kept[i]))
            json_object_set(copy, kept[i], json_object_get(params, kept[i]));
    return copy;
}

/* The rule of a value up to and with the end of its parameter. */
static void put_xml_value(struct answer_grammar_out *o, const json_t *schema, const json_t *params, const char *rule)
{
    unsigned types = answer_types(schema, params);
    char json_rule[48];
    answer_putf(o, "%s ::= ", rule);
    if (put_fixed_strings(o, schema, types, "")) {
        answer_putf(o, " \"\\n</parameter>\\n\"\n");
        return;
    }
    if (types & TYPE_STRING) {
        answer_putf(o, "%%until \"</parameter>\" \"\\n\"\n");
        return;
    }
    snprintf(json_rule, sizeof json_rule, "%s-v", rule);
    answer_putf(o, "( %s%s%s ) \"\\n</parameter>\\n\"\n", json_rule,
                types & TYPE_BOOLEAN ? " | \"True\" | \"False\"" : "", types & TYPE_NULL ? " | \"None\"" : "");
    json_t *alone = schema_alone(schema, params);
    put_schema(o, alone, json_rule);
    json_decref(alone);
}

static bool is_required(const json_t *params, const char *key)
{
    const json_t *v;
    size_t i;
    json_array_foreach (json_object_get(params, "required"), i, v)
        if (json_is_string(v) && strcmp(json_string_value(v), key) == 0)
            return true;
    return false;
}

static void put_xml_args(struct answer_grammar_out *o, size_t tool, const json_t *params)
{
    json_t *props = json_object_get(params, "properties"), *schema;
    const char *key;
    size_t k = 0;
    answer_putf(o, "%s ::= ", args_rule(tool).s);
    json_object_foreach (props, key, schema) {
        answer_putf(o, "( \"<parameter=\" ");
        answer_put_literal(o, key);
        answer_putf(o, " \">\\n\" %s )%s ", param_rule(tool, k++).s, is_required(params, key) ? "" : "?");
    }
    if (!params || (!k && json_is_true(json_object_get(params, "additionalProperties"))))
        answer_putf(o, "( \"<parameter=\" [^<>\\n]{1,60} \">\\n\" %%until \"</parameter>\" \"\\n\" )*");
    else if (!k)
        answer_putf(o, "\"\"");
    answer_putf(o, "\n");
    k = 0;
    json_object_foreach (props, key, schema)
        put_xml_value(o, schema, params, param_rule(tool, k++).s);
}

static void put_xml_calls(struct answer_grammar_out *o, const json_t *tools)
{
    answer_putf(o, "zinc-call ::= \"<tool_call>\" \"\\n\"? \"<function=\" ( ");
    for (size_t i = 0; i < json_array_size(tools); i++)
        answer_putf(o, "%s\"%s>\\n\" %s", i ? " | " : "", name_of(tools, i), args_rule(i).s);
    answer_putf(o, " ) \"</function>\" \"\\n\"? \"</tool_call>\"\n");
}

/* ---- Gemma 4 ---- */

static const char gemma_values[] =
    "zinc-string ::= \"<|\\\"|>\" %until \"<|\\\"|>\"\n"
    "zinc-integer ::= \"-\"? ( \"0\" | [1-9] [0-9]{0,17} )\n"
    "zinc-number ::= zinc-integer ( \".\" [0-9]{1,17} )? ( [eE] [-+]? [0-9]{1,3} )?\n"
    "zinc-boolean ::= \"true\" | \"false\"\n"
    "zinc-null ::= \"null\"\n"
    "zinc-array ::= \"[\" ( zinc-value ( \",\" zinc-value )* )? \"]\"\n"
    "zinc-object ::= \"{\" zinc-members \"}\"\n"
    "zinc-members ::= ( zinc-member ( \",\" zinc-member )* )?\n"
    "zinc-member ::= ( [^:,<>{}\\[\\]\" \\n]{1,60} | zinc-string ) \":\" zinc-value\n"
    "zinc-value ::= zinc-string | zinc-number | zinc-boolean | zinc-null | zinc-array | zinc-object\n";

static void put_gemma_value(struct answer_grammar_out *o, const json_t *schema, const json_t *params)
{
    static const struct {
        unsigned type;
        const char *rule;
    } rules[] = { { TYPE_STRING, "zinc-string" },   { TYPE_NUMBER, "zinc-number" }, { TYPE_INTEGER, "zinc-integer" },
                  { TYPE_BOOLEAN, "zinc-boolean" }, { TYPE_NULL, "zinc-null" },     { TYPE_ARRAY, "zinc-array" },
                  { TYPE_OBJECT, "zinc-object" } };
    unsigned types = answer_types(schema, params);
    bool first = true;
    if (put_fixed_strings(o, schema, types, "<|\"|>")) {
        answer_putf(o, " \"<|\\\"|>\"");
        return;
    }
    answer_putf(o, "( ");
    for (size_t i = 0; i < ARRAY_LEN(rules); i++) {
        if (!(types & rules[i].type) || (rules[i].type == TYPE_INTEGER && types & TYPE_NUMBER))
            continue;
        answer_putf(o, "%s%s", first ? "" : " | ", rules[i].rule);
        first = false;
    }
    answer_putf(o, " )");
}

/* The parameters in any order. */
static void put_gemma_args(struct answer_grammar_out *o, size_t tool, const json_t *params)
{
    json_t *props = json_object_get(params, "properties"), *schema;
    const char *key;
    struct rule_name args = args_rule(tool), one = param_rule(tool, 0);
    bool first = true;
    if (!json_object_size(props)) {
        answer_putf(o, "%s ::= zinc-members\n", args.s);
        return;
    }
    answer_putf(o, "%s ::= ( %s ( \",\" %s )* )%s\n%s ::= ", args.s, one.s, one.s,
                json_array_size(json_object_get(params, "required")) ? "" : "?", one.s);
    json_object_foreach (props, key, schema) {
        answer_putf(o, "%s", first ? "" : " | ");
        first = false;
        answer_put_literal(o, key);
        answer_putf(o, " \":\" ");
        put_gemma_value(o, schema, params);
    }
    answer_putf(o, "\n");
}

static void put_gemma_calls(struct answer_grammar_out *o, const json_t *tools)
{
    answer_putf(o, "zinc-call ::= \"<|tool_call>call:\" ( ");
    for (size_t i = 0; i < json_array_size(tools); i++)
        answer_putf(o, "%s\"%s{\" %s", i ? " | " : "", name_of(tools, i), args_rule(i).s);
    answer_putf(o, " ) \"}<tool_call|>\"\n%s", gemma_values);
}

/* ---- all ---- */

void answer_put_calls(struct answer_grammar_out *o, const struct chat_info *in, const json_t *tools)
{
    if (in->calls == CHAT_CALL_XML)
        put_xml_calls(o, tools);
    else if (in->calls == CHAT_CALL_GEMMA4)
        put_gemma_calls(o, tools);
    else if (in->calls == CHAT_CALL_HARMONY)
        put_harmony_calls(o, tools);
    else
        put_json_calls(o, in, tools);
    for (size_t i = 0; i < json_array_size(tools) && !o->rc; i++) {
        const json_t *params = json_object_get(answer_tool_function(json_array_get(tools, i)), "parameters");
        if (in->calls == CHAT_CALL_XML)
            put_xml_args(o, i, params);
        else if (in->calls == CHAT_CALL_GEMMA4)
            put_gemma_args(o, i, params);
        else
            put_schema(o, params, args_rule(i).s);
        if (o->rc)
            err_context(o->e, "tools[%zu]", i);
    }
}
