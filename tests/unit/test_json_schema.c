/* JSON schemas as grammars: what texts they match, what is refused and how, and random schemas: every walk under the
 * mask ends in a text that a small validator of this file accepts, and every random instance is matched. */
#include <jansson.h>
#include <math.h>

#include "base/ckd.h"
#include "engine/grammar/json_schema.h"
#include "tests/unit/grammar_make.h"

static struct vocab_index *vocab;

static void set_up(void)
{
    vocab = made_vocab();
}

static void tear_down(void)
{
    vocab_index_destroy(vocab);
}

static struct grammar *make(const char *schema)
{
    struct grammar *g = NULL;
    struct err e = { 0 };
    ck_assert_msg(grammar_from_schema(vocab, schema, strlen(schema), &g, &e) == 0, "%s\n%s", e.msg, schema);
    return g;
}

/* ---- by hand; ' stands for " in schemas ---------------------------------------------------------------- */

static const struct {
    const char *schema, *yes[10], *no[10];
} table[] = {
    { "{}",
      { "{}", "[]", "1", "\"x\"", "null", "{\"a\": [1, {\"b\": null}]}", "[\n  1,\n  2\n]" },
      { "", "[1,]", "{\"a\"}", "01", "[1 ,2]", "nul" } },
    { "true", { "[true,false]" }, { "tru" } },
    { "{'type':'null'}", { "null" }, { "0" } },
    { "{'type':'boolean','title':'x','description':'y','default':true}", { "true", "false" }, { "null" } },
    { "{'type':['integer','null']}",
      { "-5", "0", "null", "9999999999999999" },
      { "1.5", "-", "00", "99999999999999999" } },
    { "{'type':'number'}", { "0", "-1.25", "1e5", "2.5E-10" }, { ".5", "1.", "+1", "1e", "1e555" } },
    { "{'type':'integer','minimum':5,'maximum':123}",
      { "5", "9", "10", "99", "100", "123" },
      { "4", "0", "124", "130", "-5", "1000", "05" } },
    { "{'type':'integer','minimum':-15,'maximum':7}",
      { "-15", "-9", "-1", "0", "7" },
      { "-16", "8", "-20", "10", "-0" } },
    { "{'type':'integer','exclusiveMinimum':-2,'exclusiveMaximum':2}", { "-1", "0", "1" }, { "-2", "2" } },
    { "{'type':'integer','minimum':0.5,'maximum':2.5}", { "1", "2" }, { "0", "3" } },
    { "{'type':'integer','minimum':-2.5,'exclusiveMaximum':-0.5}", { "-1", "-2" }, { "-3", "0" } },
    { "{'type':'integer','minimum':1000}", { "1000", "99999" }, { "999", "-1000", "1" } },
    { "{'type':'integer','maximum':-10}", { "-10", "-11", "-100" }, { "-9", "10", "0" } },
    { "{'type':'number','minimum':0,'maximum':1}",
      { "0", "1", "0.5", "1.0", "0.999" },
      { "1.01", "2", "-0.1", "10", "1e0" } },
    { "{'type':'number','exclusiveMinimum':0}", { "0.1", "0.001", "1", "12.5" }, { "0", "0.0", "-1" } },
    { "{'type':'number','minimum':1.25,'exclusiveMaximum':3.5}",
      { "1.25", "1.3", "1.250", "2", "3", "3.49", "3.4999" },
      { "1", "1.2", "1.24", "3.5", "3.50", "3.6", "4" } },
    { "{'type':'number','minimum':-1.5,'maximum':-0.25}",
      { "-1.5", "-1", "-0.25", "-0.3" },
      { "-1.51", "-2", "-0.2", "0", "-0" } },
    { "{'type':'number','minimum':2.13,'maximum':2.17}",
      { "2.13", "2.15", "2.17", "2.169" },
      { "2", "2.1", "2.12", "2.171", "2.2" } },
    { "{'type':'number','minimum':-1e300,'maximum':1e300}", { "5", "-12345.5" }, { "x" } },
    { "{'type':'string'}",
      { "\"\"", "\"a\\\"\\\\\\n\\u00e9\"", "\"\xc3\xa9\xe6\x97\xa5\"", "\"\\ud83d\\ude00\"" },
      { "\"", "a", "\"\n\"", "\"\\x\"", "\"\\ud83d\"", "\"\\u0000\"", "\"\xff\"" } },
    { "{'type':'string','minLength':2,'maxLength':3}",
      { "\"ab\"",
        "\"\xc3\xa9\xe6\x97\xa5"
        "a\"",
        "\"\\n\\n\"" },
      { "\"a\"", "\"abcd\"" } },
    { "{'type':'string','minLength':1}", { "\"a\"", "\"abcdefgh\"" }, { "\"\"" } },
    { "{'enum':['a',1,null,'x\\\"y',[1,2],{'k':1.5}]}",
      { "\"a\"", "1", "null", "\"x\\\"y\"", "[1,2]", "{\"k\":1.5}" },
      { "\"b\"", "2" } },
    { "{'type':'string','enum':['a',1]}", { "\"a\"" }, { "1" } },
    { "{'const':'only'}", { "\"only\"" }, { "\"onl\"", "only" } },
    { "{'type':'array','items':{'type':'integer'}}",
      { "[]", "[1]", "[1,2]", "[1, 2]", "[\n  1,\n  2\n]", "[ 1 ]" },
      { "[1,]", "[true]", "[1 2]", "[,1]" } },
    { "{'type':'array','items':{'type':'integer'},'minItems':2,'maxItems':3}",
      { "[1,2]", "[1,2,3]" },
      { "[1]", "[]", "[1,2,3,4]" } },
    { "{'type':'array','items':{'type':'integer'},'maxItems':1}", { "[]", "[1]" }, { "[1,2]" } },
    { "{'type':'array','maxItems':0}", { "[]" }, { "[1]" } },
    { "{'type':'array','prefixItems':[{'type':'integer'},{'type':'string'}]}",
      { "[1,\"a\"]" },
      { "[1]", "[\"a\",1]", "[1,\"a\",2]" } },
    { "{'type':'array','prefixItems':[{'type':'integer'}],'items':{'type':'null'},'minItems':2}",
      { "[1,null]", "[1,null,null]" },
      { "[1]", "[1,1]" } },
    { "{'items':[{'type':'integer'}],'additionalItems':{'type':'boolean'}}", { "[1]", "[1,true]" }, { "[]", "[1,1]" } },
    { "{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'null'}},'required':['a']}",
      { "{\"a\":1}", "{\"a\": 1, \"b\": null}", "{\n  \"a\": 1,\n  \"b\": null\n}" },
      { "{}", "{\"b\":null}", "{\"b\":null,\"a\":1}", "{\"a\":1,}", "{\"a\":1,\"c\":1}" } },
    { "{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'integer'},'c':{'type':'integer'}}}",
      { "{}", "{\"a\":1}", "{\"b\":1}", "{\"c\":1}", "{\"a\":1,\"c\":1}", "{\"a\":1,\"b\":2,\"c\":3}" },
      { "{,\"a\":1}", "{\"c\":1,\"a\":1}" } },
    { "{'type':'object','properties':{'a':{},'b':{},'c':{}},'required':['c']}",
      { "{\"c\":1}", "{\"a\":1,\"c\":1}", "{\"b\":1,\"c\":1}" },
      { "{}", "{\"a\":1}" } },
    { "{'type':'object','properties':{'ab':{'type':'integer'},'ac':{'type':'integer'}},'additionalProperties':{'type':'"
      "null'}}",
      { "{\"ab\":1}", "{\"ad\":null}", "{\"a\":null,\"abc\":null}", "{\"ab\":1,\"x\":null}", "{\"\":null}" },
      { "{\"ab\":null}", "{\"ac\":null}", "{\"x\":1}", "{\"\\u0061b\":null}" } },
    { "{'type':'object','properties':{'\xc3\xa9':{'type':'integer'}},'additionalProperties':{'type':'null'}}",
      { "{\"\xc3\xa9\":1}", "{\"\xc3\xa8\":null}", "{\"\xc3\xa9x\":null}" },
      { "{\"\xc3\xa9\":null}" } },
    { "{'type':'object','properties':{},'additionalProperties':false}", { "{}", "{ }" }, { "{\"a\":1}" } },
    { "{'type':'object'}", { "{}", "{\"a\":{\"b\":[]}}" }, { "[]" } },
    { "{'type':'object','required':['z']}", { "{\"z\":1}" }, { "{}" } },
    { "{'type':'object','properties':{'q\\\"\\n':{'type':'null'}},'required':['q\\\"\\n']}",
      { "{\"q\\\"\\n\":null}" },
      { "{}" } },
    { "{'anyOf':[{'type':'integer'},{'type':'array','items':{'type':'null'}}]}", { "1", "[null]" }, { "null" } },
    { "{'oneOf':[{'const':1},{'const':12}]}", { "1", "12" }, { "2" } },
    /* multiples between bounds */
    { "{'type':'number','multipleOf':0.01,'minimum':0}", { "0", "12.5", "3.99", "0.01" }, { "1.999", "-1", "1e2" } },
    { "{'type':'number','multipleOf':0.01,'minimum':-2.345,'maximum':999}",
      { "-2.34", "998.99", "999", "-0.5", "0" },
      { "-2.35", "999.01", "1.234" } },
    { "{'type':'number','multipleOf':0.5,'minimum':-1,'maximum':2.25}",
      { "-1", "-0.5", "0", "0.5", "2" },
      { "-1.5", "2.5", "2.25", "0.3" } },
    { "{'type':'number','multipleOf':0.05,'exclusiveMinimum':0,'exclusiveMaximum':0.15}", { "0.05", "0.1" }, { "0", "0.15" } },
    { "{'type':'number','multipleOf':1}", { "5", "-7" }, { "1.5", "1e-3" } },
    /* what a double could not keep apart from a bound that is excluded is not written */
    { "{'type':'number','minimum':0,'exclusiveMaximum':10}",
      { "9.99999999999999", "0.999999999999999" },
      { "9.9999999999999999", "10" } },
    { "{'type':'number','exclusiveMinimum':5,'maximum':6}", { "5.00000000000001" }, { "5", "5.0000000000000001" } },
    { "{'type':'string','format':'date'}", { "\"0001-01-31\"" }, { "\"0000-01-31\"", "\"2023-02-29\"" } },
    /* anchors in look-ahead */
    { "{'type':'string','pattern':'^(?!admin$|^root$)[a-z]{4,6}$'}",
      { "\"admins\"", "\"roots\"", "\"xroot\"" },
      { "\"admin\"", "\"root\"" } },
    { "{'type':'string','pattern':'^(?=^.{3}$)[a-z]+$'}", { "\"abc\"" }, { "\"ab\"", "\"abcd\"" } },
    { "{'type':'string','pattern':'^(?!^[-+.]*$)[+-]?0*\\\\d*\\\\.?\\\\d*$'}", { "\"+1.5\"", "\"0\"" }, { "\"\"", "\"+.\"" } },
    /* of two alternatives of a oneOf at most one holds */
    { "{'type':'object','properties':{'a':{'type':'null'},'b':{'type':'null'}},'oneOf':[{'required':['a']},"
      "{'required':['b']}]}",
      { "{\"a\":null}", "{\"b\":null}" },
      { "{\"a\":null,\"b\":null}", "{}" } },
    { "{'oneOf':[{'type':'object','properties':{'k':{'const':'x'},'n':{'type':'null'}},'required':['k']},"
      "{'type':'object','properties':{'k':{'const':'y'}},'required':['k']}]}",
      { "{\"k\":\"x\",\"n\":null}", "{\"k\":\"y\"}" },
      { "{\"k\":\"y\",\"n\":null}" } },
    { "{'oneOf':[{'type':'integer','maximum':3,'minimum':0},{'type':'integer','minimum':7,'maximum':9},{'type':'string',"
      "'pattern':'^a+$'},{'type':'string','pattern':'^b+$'}]}",
      { "2", "8", "\"aa\"", "\"b\"" },
      { "5", "\"ab\"" } },
    { "{'oneOf':[{'type':['integer','null']},{'type':'integer'}]}", { "null" }, { "1" } },
    /* alternatives that contradict what stands beside them are left out */
    { "{'type':'string','maxLength':3,'anyOf':[{'type':'integer'},{'minLength':2},{'minLength':5}]}",
      { "\"ab\"" },
      { "1", "\"a\"", "\"abcde\"" } },
    { "{'allOf':[{'anyOf':[{'type':'string'},{'type':'null'}]},{'anyOf':[{'type':'null'},{'type':'integer'}]}]}",
      { "null" },
      { "1", "\"a\"" } },
    /* values of an enum are held to all that stands beside it */
    { "{'enum':[[],[1],[1,2],['a','b']],'minItems':2,'items':{'type':'integer'}}",
      { "[1,2]" },
      { "[]", "[1]", "[\"a\",\"b\"]" } },
    { "{'enum':[1,2,3,4,5,6],'multipleOf':3}", { "3", "6" }, { "1", "5" } },
    { "{'enum':[{},{'x':1},{'x':5}],'required':['x'],'properties':{'x':{'minimum':3}}}",
      { "{\"x\":5}" },
      { "{}", "{\"x\":1}" } },
    { "{'type':'array','items':{'enum':[1,1.0,2]},'uniqueItems':true}", { "[1,2]", "[2]" }, { "[1,1.0]", "[1,1]" } },
    { "{'type':'array','prefixItems':[{'type':'null'},false]}", { "[null]" }, { "[null,null]" } },
    /* nothing has spoken of what is not evaluated */
    { "{'type':'object','unevaluatedProperties':false}", { "{}" }, { "{\"a\":1}" } },
    { "{'type':'array','unevaluatedItems':false}", { "[]" }, { "[1]" } },
    { "{'type':'object','anyOf':[{'properties':{'a':{'type':'null'}},'required':['a']},{'type':'object'}],"
      "'unevaluatedProperties':false}",
      { "{}", "{\"a\":null}" },
      { "{\"b\":1}" } },
    { "{'type':'object','properties':{'a':{'type':'integer'},'b':{'type':'integer'}},'anyOf':[{'required':['a']},{'"
      "required':['b']}]}",
      { "{\"a\":1}", "{\"b\":1}", "{\"a\":1,\"b\":1}" },
      { "{}" } },
    { "{'allOf':[{'type':'object','properties':{'a':{'type':'number'}},'required':['a']},{'properties':{'a':{'minimum':"
      "3,'type':'integer'},'b':{'type':'null'}}}]}",
      { "{\"a\":3}", "{\"a\":4,\"b\":null}" },
      { "{\"a\":2}", "{\"a\":3.5}", "{\"b\":null}" } },
    { "{'allOf':[{'minimum':3},{'minimum':5,'maximum':9},{'maximum':7}],'type':'integer'}",
      { "5", "7" },
      { "4", "8" } },
    { "{'allOf':[{'enum':[1,2,3]},{'enum':[2,3,4]}]}", { "2", "3" }, { "1", "4" } },
    { "{'$ref':'#/$defs/n','$defs':{'n':{'type':'object','properties':{'v':{'type':'integer'},'next':{'$ref':'#/$defs/"
      "n'}},'required':['v']}}}",
      { "{\"v\":1}", "{\"v\":1,\"next\":{\"v\":2,\"next\":{\"v\":3}}}" },
      { "{\"v\":1,\"next\":{}}" } },
    { "{'type':'array','items':{'$ref':'#'}}", { "[]", "[[],[[[]]]]" }, { "[1]" } },
    { "{'properties':{'a':{'allOf':[{'$ref':'#/definitions/x~1y%20z'}],'description':'d'}},'definitions':{'x/y "
      "z':{'type':'null'}}}",
      { "{\"a\":null}", "{}" },
      { "{\"a\":1}" } },
    { "{'type':'string','nullable':true}", { "\"\"", "null" }, { "1" } },
    { "{'type':'string','pattern':'^[a-c]{2}(x|y)?\\\\d+$'}",
      { "\"ab1\"", "\"cax22\"" },
      { "\"a1\"", "\"abz1\"", "\"abx\"" } },
    { "{'type':'string','pattern':'b+'}", { "\"b\"", "\"abba\"", "\"\\nb\"" }, { "\"\"", "\"aac\"" } },
    { "{'type':'string','pattern':'^a|c$'}", { "\"ax\"", "\"xc\"", "\"a\"" }, { "\"xa\"", "\"cx\"" } },
    { "{'type':'string','pattern':'^\\\\w+\\\\s\\\\S\\\\D[^\\\\d\\\\\\\\x]\\\\.$'}",
      { "\"a_1 -ab.\"", "\"b\\tc\\\"\xc3\xa9.\"" },
      { "\"a b1a.\"", "\"a bb1.\"", "\"a bbx.\"" } },
    { "{'type':'string','pattern':'^(?:a|b)(?<n>c)*?[\\\\]\\\"\\\\\\\\-]\\\\/\\\\u0041$'}",
      { "\"ac]/A\"", "\"b\\\"/A\"", "\"b\\\\/A\"", "\"a-/A\"" },
      { "\"c]/A\"", "\"a\\\\/B\"" } },
    { "{'type':'string','pattern':'^(|a)$'}", { "\"\"", "\"a\"" }, { "\"b\"" } },
    { "{'type':'string','format':'date'}",
      { "\"2024-02-28\"", "\"1999-12-31\"", "\"2000-04-30\"" },
      { "\"2024-13-01\"", "\"2024-04-31\"", "\"24-01-01\"" } },
    { "{'type':'string','format':'time'}",
      { "\"23:59:59Z\"", "\"00:00:00.5+02:00\"" },
      { "\"24:00:00Z\"", "\"10:00\"" } },
    { "{'type':'string','format':'date-time'}", { "\"2024-02-28T12:00:00Z\"" }, { "\"2024-02-28\"" } },
    { "{'type':'string','format':'uuid'}", { "\"123e4567-e89b-12d3-a456-426614174000\"" }, { "\"123e4567\"" } },
    { "{'type':'string','format':'uri'}", { "\"anything\"" }, { "1" } },
    { "{'type':'string','format':'email'}",
      { "\"a.b+c@x-1.org\"", "\"a@b.c.de\"" },
      { "\"a\"", "\"a@b\"", "\"@b.de\"", "\"a@-b.de\"" } },
    { "{'type':'string','format':'ipv4'}", { "\"0.10.99.255\"" }, { "\"1.2.3\"", "\"1.2.3.256\"", "\"01.2.3.4\"" } },
    { "{'type':'string','pattern':'^[a-z]+$','minLength':2,'maxLength':4}",
      { "\"ab\"", "\"abcd\"" },
      { "\"a\"", "\"abcde\"", "\"aB\"" } },
    { "{'type':'string','pattern':'a','maxLength':3}", { "\"a\"", "\"xa\\n\"" }, { "\"xxxa\"", "\"x\"" } },
    { "{'allOf':[{'pattern':'a'},{'pattern':'b'}],'type':'string'}",
      { "\"ab\"", "\"xbya\"" },
      { "\"a\"", "\"b\"" } },
    { "{'type':'string','pattern':'^(?=.*[A-Z])(?=.*\\\\d)(?!.*x).{4,6}$'}",
      { "\"aB1c\"", "\"1234Z6\"" },
      { "\"aB1\"", "\"abc1\"", "\"ABCD\"", "\"aB1x\"" } },
    { "{'type':'string','not':{'enum':['ab','']}}", { "\"a\"", "\"abc\"" }, { "\"ab\"", "\"\"" } },
    { "{'type':'string','not':{'pattern':'^a'}}", { "\"ba\"", "\"\"" }, { "\"a\"", "\"ab\"" } },
    { "{'not':{'type':['object','array','string']}}", { "1", "true", "null" }, { "\"\"", "[]", "{}" } },
    { "{'enum':['a','b',null],'not':{'const':'a'}}", { "\"b\"", "null" }, { "\"a\"" } },
    { "{'type':['boolean','null'],'not':{'const':true}}", { "false", "null" }, { "true" } },
    { "{'type':'object','properties':{'a':{'type':'null'},'b':{'type':'null'}},'not':{'required':['a']}}",
      { "{}", "{\"b\":null}" },
      { "{\"a\":null}" } },
    { "{'type':'integer','multipleOf':7}",
      { "0", "7", "-14", "7000000000007" },
      { "1", "8", "-13", "07", "-0" } },
    { "{'type':'integer','multipleOf':5,'minimum':0}", { "0", "15" }, { "-5", "3" } },
    { "{'type':'integer','multipleOf':15,'minimum':-20,'maximum':40}", { "-15", "0", "30" }, { "-30", "45", "1" } },
    { "{'type':'number','multipleOf':0.01}", { "0", "-1.5", "2.25" }, { "1.125", "1e-3" } },
    { "{'type':'object','minProperties':1}", { "{\"\":null}", "{\"a\":1, \"b\":2}" }, { "{}", "{ }" } },
    { "{'type':'object','properties':{'a':{},'b':{},'c':{}},'minProperties':2}",
      { "{\"a\":1,\"c\":2}", "{\"a\":1,\"b\":1,\"c\":1}" },
      { "{}", "{\"b\":1}" } },
    { "{'type':'object','properties':{'a':{},'b':{},'c':{}},'required':['c'],'maxProperties':2}",
      { "{\"c\":2}", "{\"b\":1,\"c\":1}" },
      { "{\"a\":1}", "{\"a\":1,\"b\":1,\"c\":1}" } },
    { "{'type':'object','additionalProperties':{'type':'null'},'maxProperties':2}",
      { "{}", "{\"c\":null}", "{\"b\":null,\"c\":null}" },
      { "{\"a\":null,\"b\":null,\"c\":null}" } },
    { "{'type':'object','patternProperties':{'^x-':{'type':'null'}},'properties':{'x-a':{},'b':{'type':'null'}}}",
      { "{}", "{\"x-a\":null}", "{\"b\":null,\"x-c\":null,\"x-d\":null}" },
      { "{\"x-a\":1}", "{\"c\":null}", "{\"x-c\":1}" } },
    { "{'type':'object','patternProperties':{'^x':{'type':'null'}},'additionalProperties':{'type':'integer'}}",
      { "{\"x\":null,\"y\":1}" },
      { "{\"x\":1}", "{\"y\":null}" } },
    { "{'type':'object','propertyNames':{'pattern':'^[a-z]+$','maxLength':3},'additionalProperties':true}",
      { "{}", "{\"ab\":1}" },
      { "{\"A\":1}", "{\"abcd\":1}", "{\"\":1}" } },
    { "{'type':'array','items':{'enum':['a','b']},'uniqueItems':true}",
      { "[]", "[\"a\"]", "[\"b\", \"a\"]" },
      { "[\"a\",\"a\"]", "[\"a\",\"b\",\"a\"]" } },
    { "{'type':'array','items':{'enum':[1,2,3,4,5,6,7]},'uniqueItems':true,'minItems':2,'maxItems':3}",
      { "[1,2]", "[3, 5, 7]" },
      { "[1]", "[1,1]", "[1,2,3,4]" } },
    { "{'type':'array','items':{'type':'integer'},'uniqueItems':true,'maxItems':1}", { "[]", "[1]" }, { "[1,1]" } },
    { "{'type':'array','uniqueItems':false,'items':{'type':'integer','multipleOf':1}}", { "[1,1]" }, { "[1.5]" } },
};

static void unquote(const char *in, char *out, size_t cap)
{
    size_t n = strlen(in);
    ck_assert_uint_lt(n, cap);
    for (size_t i = 0; i <= n; i++)
        out[i] = in[i] == '\'' ? '"' : in[i];
}

START_TEST(texts_are_valid_or_not)
{
    char schema[2048];
    unquote(table[_i].schema, schema, sizeof schema);
    struct grammar *g = make(schema);
    for (int k = 0; k < 10 && table[_i].yes[k]; k++)
        ck_assert_msg(made_matches(g, table[_i].yes[k], strlen(table[_i].yes[k])), "%s refuses %s", schema,
                      table[_i].yes[k]);
    for (int k = 0; k < 10 && table[_i].no[k]; k++)
        ck_assert_msg(!made_matches(g, table[_i].no[k], strlen(table[_i].no[k])), "%s matches %s", schema,
                      table[_i].no[k]);
    char text[65536];
    for (int k = 0; k < 4; k++) {
        size_t n = made_walk(g, text, sizeof text, 30, 2, 400); /* what a pattern asks for may be long in coming */
        json_t *v = json_loadb(text, n, JSON_DECODE_ANY, NULL);
        ck_assert_msg(v != NULL || n == 0, "%s: %.1000s", schema, text);
        json_decref(v);
    }
    grammar_unref(g);
}
END_TEST

static const struct {
    const char *schema;
    int rc;
    const char *says;
} refused[] = {
    { "{'type':", -EINVAL, "not JSON: line 1" },
    { "{'type':'x'}", -EINVAL, "#: type: \"x\" is no type" },
    { "{'type':1}", -EINVAL, "type is neither" },
    { "3", -EINVAL, "a schema is an object" },
    { "false", -EINVAL, "allows nothing" },
    { "{'properties':{'a':{'items':{'type':'q'}}}}", -EINVAL, "#/properties/a/items: type" },
    { "{'properties':[]}", -EINVAL, "properties is not an object" },
    { "{'required':['a'],'properties':{'b':{}},'additionalProperties':false}", -EINVAL,
      "the property a is required and not allowed" },
    { "{'required':[1]}", -EINVAL, "required: entry 0" },
    { "{'enum':[]}", -EINVAL, "enum: no value" },
    { "{'enum':[1],'type':'string'}", -EINVAL, "enum: no value is of the type" },
    { "{'type':'string','enum':'a'}", -EINVAL, "enum is not an array" },
    { "{'anyOf':[]}", -EINVAL, "anyOf is not an array of schemas" },
    { "{'allOf':[{'type':'string'},{'type':'null'}]}", -EINVAL, "no type is allowed by all" },
    { "{'allOf':[{'enum':[1]},{'enum':[2]}]}", -EINVAL, "no value is allowed by all" },
    { "{'$ref':'#/$defs/x'}", -EINVAL, "leads nowhere" },
    { "{'$ref':'#'}", -EINVAL, "leads back" },
    { "{'$ref':'http://x/y'}", -ENOTSUP, "only references inside" },
    { "{'allOf':[{'$ref':'#'},{'type':'null'}]}", -EINVAL, "leads back" },
    { "{'type':'object','not':{}}", -EINVAL, "#: not: nothing is allowed" },
    { "{'properties':{'a':{'if':{'const':1}}}}", -ENOTSUP, "#/properties/a: if is not supported" },
    { "{'type':'array','uniqueItems':true}", -ENOTSUP, "uniqueItems" },
    { "{'type':'number','multipleOf':0.5}", -ENOTSUP, "multipleOf" },
    { "{'type':'number','multipleOf':0.01,'minimum':2.001,'maximum':2.009}", -EINVAL, "lies between the bounds" },
    { "{'type':'number','multipleOf':0.01,'minimum':200000000.001,'maximum':200000000.002}", -EINVAL, "between the bounds" },
    { "{'type':'object','not':{'minProperties':1}}", -ENOTSUP, "not is supported with" },
    { "{'oneOf':[{'type':'number','minimum':0},{'type':'integer','maximum':5}]}", -ENOTSUP, "oneOf: that no value is of both 0 and 1" },
    { "{'oneOf':[{'type':'object','properties':{'a':{'type':'null'}}},{'type':'object','properties':{'b':{'type':'null'}}}]}",
      -ENOTSUP, "oneOf: that no value is of both" },
    { "{'type':'string','anyOf':[{'type':'null'},{'enum':[1]}]}", -EINVAL, "no alternative can be satisfied" },
    { "{'type':'object','contains':{}}", -ENOTSUP, "contains is not supported" },
    { "{'type':'object','minProperties':3}", -ENOTSUP, "minProperties" },
    { "{'type':'object','minProperties':2,'properties':{'a':{}},'additionalProperties':false}", -EINVAL, "disagree" },
    { "{'type':'object','patternProperties':{'a\\\\b':{}}}", -ENOTSUP, "patternProperties" },
    { "{'type':'array','uniqueItems':true,'items':{'enum':[1,2]},'minItems':3}", -EINVAL, "uniqueItems" },
    { "{'type':'integer','multipleOf':0}", -EINVAL, "multipleOf" },
    { "{'type':'string','pattern':'^(.?){8000}$'}", -E2BIG, "pattern: too large" },
    { "{'type':'string','pattern':'^[a-z]{30000}$'}", -E2BIG, "pattern: too large" },
    { "{'type':'string','pattern':'(a|b)*a(a|b){40}c'}", -E2BIG, "pattern: too large" },
    { "{'type':'string','pattern':'^a{2}$','maxLength':1}", -EINVAL, "no string satisfies" },
    { "{'type':'string','pattern':'(?=a)'}", -ENOTSUP, "look-around" },
    { "{'type':'string','pattern':'a\\\\b'}", -ENOTSUP, "the escape \\b" },
    { "{'type':'string','pattern':'(a)\\\\1'}", -ENOTSUP, "the escape \\1" },
    { "{'type':'string','pattern':'a^b'}", -ENOTSUP, "anchor" },
    { "{'type':'string','pattern':'(a'}", -EINVAL, "closing )" },
    { "{'type':'string','pattern':'a)'}", -EINVAL, "unexpected )" },
    { "{'type':'string','pattern':'[a'}", -EINVAL, "closing ]" },
    { "{'type':'string','pattern':'*a'}", -EINVAL, "nothing to repeat" },
    { "{'type':'string','pattern':'a{'}", -ENOTSUP, "this use of {" },
    { "{'type':'string','pattern':'[]'}", -EINVAL, "an empty class" },
    { "{'type':'string','minLength':4,'maxLength':3}", -EINVAL, "minLength is greater" },
    { "{'type':'string','minLength':-1}", -EINVAL, "minLength is not a whole number" },
    { "{'type':'string','minLength':1000000}", -E2BIG, "minLength" },
    { "{'type':'array','minItems':4,'maxItems':3}", -EINVAL, "minItems is greater" },
    { "{'type':'integer','minimum':5,'maximum':4}", -EINVAL, "no integer" },
    { "{'type':'integer','minimum':0.2,'maximum':0.8}", -EINVAL, "no integer" },
    { "{'type':'number','minimum':5,'exclusiveMaximum':5}", -EINVAL, "no number" },
    { "{'type':'number','minimum':1e20}", -ENOTSUP, "16 digits" },
    { "{'type':'number','minimum':'a'}", -EINVAL, "minimum is not a number" },
    { "{'type':'object','properties':{'a':{'$ref':'#'}},'required':['a']}", -EINVAL, "no end" },
    { "{'anyOf':[{'$ref':'#'},{'type':'null'}]}", -EINVAL, "left recursive" },
};

/* Without `strict` what is not supported is passed over and told, once; what is wrong is refused in any case. */
START_TEST(what_is_refused_for_want_of_support_is_passed_over)
{
    char schema[2048];
    struct json_schema_opts o = { .warnings = json_array(), .where = "tools: f" };
    struct tok_buf b = { 0 };
    struct grammar *g;
    struct err e = { 0 };
    unquote(refused[_i].schema, schema, sizeof schema);
    json_t *v = json_loads(schema, JSON_DECODE_ANY, NULL);
    bool large = refused[_i].rc == -E2BIG;
    int rc = v ? json_schema_rules(v, JSON_SCHEMA_VALUE, "root", &o, &b, &e) : -EINVAL;
    rc = rc ? rc : grammar_from_gbnf(vocab, b.s, b.n, &g, &e);
    ck_assert_msg(rc == (large || refused[_i].rc == -ENOTSUP ? 0 : -EINVAL), "%s: %d %s", schema, rc, e.msg);
    if (!rc) {
        const char *line = json_string_value(json_array_get(o.warnings, 0));
        ck_assert_msg(json_array_size(o.warnings) == 1 && !strncmp(line, "tools: f: schema: #", 19) &&
                      strstr(line, refused[_i].says) && strstr(line, ": passed over"), "%s: %s", schema, line);
        grammar_unref(g);
    }
    json_decref(v);
    json_decref(o.warnings);
    tok_buf_finish(&b);
}
END_TEST

START_TEST(schemas_are_refused_by_name)
{
    char schema[2048];
    struct grammar *g = NULL;
    struct err e = { 0 };
    unquote(refused[_i].schema, schema, sizeof schema);
    int rc = grammar_from_schema(vocab, schema, strlen(schema), &g, &e);
    ck_assert_msg(rc == refused[_i].rc && strstr(e.msg, refused[_i].says), "%s: %d %s", schema, rc, e.msg);
}
END_TEST

/* Each definition holds the next one twice: small to write, large to merge. */
START_TEST(merging_is_bounded)
{
    char schema[4096] = "{\"allOf\":[{\"$ref\":\"#/d/0\"},{}],\"d\":[";
    struct grammar *g = NULL;
    struct err e = { 0 };
    for (int i = 1; i <= 30; i++)
        snprintf(schema + strlen(schema), 100, "{\"allOf\":[{\"$ref\":\"#/d/%d\"},{\"$ref\":\"#/d/%d\"}]},", i, i);
    strcat(schema, "{\"type\":\"null\"}]}");
    int rc = grammar_from_schema(vocab, schema, strlen(schema), &g, &e);
    ck_assert_msg(rc == -E2BIG && strstr(e.msg, "repeat them"), "%d %s", rc, e.msg);
}
END_TEST

START_TEST(rules_carry_the_prefix)
{
    struct tok_buf b = { 0 };
    const char *schema = "{\"type\":\"object\",\"properties\":{\"a\":{\"$ref\":\"#\"},\"b\":{\"format\":\"uuid\","
                         "\"type\":\"string\"},\"c\":{}}}";
    struct grammar *g;
    struct err e = { 0 };
    tok_buf_add(&b, "root ::= x-args \"|\" y-any\n", 26);
    ck_assert_msg(grammar_schema_to_gbnf(schema, strlen(schema), "x-args", &b, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(grammar_json_to_gbnf(true, "y-any", &b, &e), 0);
    ck_assert(!strncmp(b.s + 26, "x-args ::= ", 11));
    for (const char *p = b.s; (p = memchr(p, '\n', (size_t)(b.s + b.n - p))) && p + 1 < b.s + b.n; p++)
        ck_assert_msg(!strncmp(p + 1, "x-args", 6) || !strncmp(p + 1, "y-any", 5), "%.40s", p + 1);
    ck_assert_msg(grammar_from_gbnf(vocab, b.s, b.n, &g, &e) == 0, "%s", e.msg);
    ck_assert(made_matches(g, "{\"a\":{\"c\":[{}]}}|{\"k\": 1}", 25));
    grammar_unref(g);
    tok_buf_finish(&b);
}
END_TEST

/* ---- a small validator --------------------------------------------------------------------------------- */

static bool valid(json_t *schema, json_t *v);

static bool valid_type(const char *t, json_t *v)
{
    return !strcmp(t, "object")    ? json_is_object(v)
           : !strcmp(t, "array")   ? json_is_array(v)
           : !strcmp(t, "string")  ? json_is_string(v)
           : !strcmp(t, "boolean") ? json_is_boolean(v)
           : !strcmp(t, "null")    ? json_is_null(v)
           : !strcmp(t, "number")  ? json_is_number(v)
                                   : json_is_number(v) && json_number_value(v) == floor(json_number_value(v));
}

static size_t n_chars(const char *s)
{
    size_t n = 0;
    for (; *s; s++)
        n += ((uint8_t)*s & 0xc0) != 0x80;
    return n;
}

static bool bound_holds(json_t *schema, const char *key, double x, int sign, bool strict)
{
    json_t *b = json_object_get(schema, key);
    double d = b ? sign * (x - json_number_value(b)) : 1;
    return strict ? d > 0 : d >= 0;
}

static bool valid_object(json_t *schema, json_t *v)
{
    json_t *props = json_object_get(schema, "properties"), *more = json_object_get(schema, "additionalProperties"), *x,
           *r;
    const char *key;
    size_t i;
    json_array_foreach(json_object_get(schema, "required"), i, r)
        if (!json_object_get(v, json_string_value(r)))
            return false;
    json_object_foreach(v, key, x) {
        json_t *p = json_object_get(props, key);
        if (p ? !valid(p, x) : more && !valid(more, x))
            return false;
    }
    return true;
}

static bool valid_array(json_t *schema, json_t *v)
{
    json_t *items = json_object_get(schema, "items"), *first = json_object_get(schema, "prefixItems"), *x;
    size_t i, n = json_array_size(v);
    json_array_foreach(v, i, x) {
        json_t *s = i < json_array_size(first) ? json_array_get(first, i) : items;
        if (s && !valid(s, x))
            return false;
    }
    return bound_holds(schema, "minItems", (double)n, 1, false) &&
           bound_holds(schema, "maxItems", (double)n, -1, false);
}

static bool valid_in(const char *key, json_t *schema, json_t *v, bool all)
{
    json_t *list = json_object_get(schema, key), *x;
    size_t i, n = 0;
    json_array_foreach(list, i, x)
        n += valid(x, v);
    return !list || (all ? n == json_array_size(list) : n > 0);
}

static bool valid(json_t *schema, json_t *v)
{
    json_t *t = json_object_get(schema, "type"), *e = json_object_get(schema, "enum"), *x;
    bool ok = !t || (json_is_string(t) && valid_type(json_string_value(t), v));
    size_t i;
    if (json_is_boolean(schema))
        return json_is_true(schema);
    json_array_foreach(t, i, x)
        ok |= valid_type(json_string_value(x), v);
    bool in = !e;
    json_array_foreach(e, i, x)
        in |= json_equal(x, v);
    if (!ok || !in || !valid_in("anyOf", schema, v, false) || !valid_in("allOf", schema, v, true))
        return false;
    if (json_object_get(schema, "const") && !json_equal(json_object_get(schema, "const"), v))
        return false;
    if (json_is_number(v))
        return bound_holds(schema, "minimum", json_number_value(v), 1, false) &&
               bound_holds(schema, "maximum", json_number_value(v), -1, false) &&
               bound_holds(schema, "exclusiveMinimum", json_number_value(v), 1, true) &&
               bound_holds(schema, "exclusiveMaximum", json_number_value(v), -1, true);
    if (json_is_string(v))
        return bound_holds(schema, "minLength", (double)n_chars(json_string_value(v)), 1, false) &&
               bound_holds(schema, "maxLength", (double)n_chars(json_string_value(v)), -1, false);
    return json_is_object(v) ? valid_object(schema, v) : json_is_array(v) ? valid_array(schema, v) : true;
}

/* ---- random schemas, each with a random instance ------------------------------------------------------- */

static json_t *random_schema(int depth, json_t **instance);

static json_t *random_number(json_t **instance)
{
    bool whole = rnd(2), negative = rnd(3) == 0;
    double lo = (negative ? -1 : 1) * (double)rnd(whole ? 2000 : 200000) / (whole ? 1 : 100),
           hi = lo + rnd(whole ? 3000 : 300000) / (whole ? 1 : 100.0);
    json_t *s = json_pack("{s:s}", "type", whole ? "integer" : "number");
    double x = whole ? lo + rnd((uint32_t)(hi - lo) + 1) : round((lo + (hi - lo) / 2) * 100) / 100;
    bool ex = rnd(2) && hi > lo + 2;
    if (rnd(3))
        json_object_set_new(s, ex ? "exclusiveMinimum" : "minimum",
                            whole ? json_integer((json_int_t)lo - ex) : json_real(lo - ex));
    if (rnd(3))
        json_object_set_new(s, ex ? "exclusiveMaximum" : "maximum",
                            whole ? json_integer((json_int_t)hi + ex) : json_real(hi + ex));
    *instance = whole ? json_integer((json_int_t)x) : json_real(x);
    return s;
}

static json_t *random_string(json_t **instance)
{
    static const char *const pieces[] = { "a",    "ab",       "\"",           "\\",
                                          "\n",   "\xc3\xa9", "\xe6\x97\xa5", "\xf0\x9f\x98\x80",
                                          " the", "/",        "<|call|>" };
    json_t *s = json_pack("{s:s}", "type", "string");
    char text[128] = "";
    for (uint32_t n = rnd(6); n--;)
        strcat(text, pieces[rnd(ARRAY_LEN(pieces))]);
    size_t n = n_chars(text);
    if (rnd(3) == 0)
        json_object_set_new(s, "minLength", json_integer((json_int_t)(n - rnd((uint32_t)n + 1))));
    if (rnd(3) == 0)
        json_object_set_new(s, "maxLength", json_integer((json_int_t)(n + rnd(5))));
    *instance = json_string(text);
    return s;
}

static json_t *random_array(int depth, json_t **instance)
{
    json_t *x, *items = random_schema(depth - 1, &x), *s = json_pack("{s:s, s:o}", "type", "array", "items", items);
    uint32_t n = rnd(4);
    *instance = json_array();
    if (rnd(4) == 0) {
        json_t *y;
        json_object_set_new(s, "prefixItems", json_pack("[o]", random_schema(depth - 1, &y)));
        json_array_append_new(*instance, y);
    }
    for (uint32_t i = 0; i < n; i++)
        json_array_append(*instance, x);
    n = (uint32_t)json_array_size(*instance);
    if (rnd(3) == 0)
        json_object_set_new(s, "minItems", json_integer(n - rnd(n + 1)));
    if (rnd(3) == 0)
        json_object_set_new(s, "maxItems", json_integer(n + rnd(3)));
    json_decref(x);
    return s;
}

static json_t *random_object(int depth, json_t **instance)
{
    static const char *const names[] = { "a", "ab", "name", "na", "\xc3\xa9", "q\"", "", "the" };
    json_t *s = json_pack("{s:s}", "type", "object"), *props = json_object(), *required = json_array(), *x;
    uint32_t n = rnd(5);
    *instance = json_object();
    for (uint32_t i = 0; i < n; i++) {
        const char *name = names[rnd(ARRAY_LEN(names))];
        if (json_object_get(props, name))
            continue;
        bool needed = rnd(2);
        json_object_set_new(props, name, random_schema(depth - 1, &x));
        if (needed)
            json_array_append_new(required, json_string(name));
        if (needed || rnd(2))
            json_object_set(*instance, name, x);
        json_decref(x);
    }
    json_object_set_new(s, "properties", props);
    json_object_set_new(s, "required", required);
    if (rnd(3) == 0) {
        json_object_set_new(s, "additionalProperties", random_schema(depth - 1, &x));
        if (rnd(2))
            json_object_set(*instance, "nam", x); /* between na and name */
        json_decref(x);
    } else if (rnd(2))
        json_object_set_new(s, "additionalProperties", json_false());
    return s;
}

static json_t *random_combination(int depth, json_t **instance)
{
    json_t *x, *s = random_schema(depth - 1, instance), *other = random_schema(depth - 1, &x), *out;
    if (rnd(2))
        out = rnd(2) ? json_pack("{s:[O,O]}", "anyOf", s, other) : json_pack("{s:[O,O]}", "anyOf", other, s);
    else
        out = json_pack("{s:[O,{}]}", "allOf", s);
    json_decref(s);
    json_decref(other);
    json_decref(x);
    return out;
}

static json_t *random_schema(int depth, json_t **instance)
{
    uint32_t kind = rnd(depth > 0 ? 10 : 5);
    json_t *s;
    switch (kind) {
    case 0: *instance = json_boolean(rnd(2)); return json_pack("{s:s}", "type", "boolean");
    case 1:
        s = random_number(instance);
        json_t *types = json_pack("{s:s}", "type", "null");
        if (rnd(4)) {
            json_decref(types);
            return s;
        }
        return json_pack("{s:[o,o]}", "anyOf", s, types);
    case 2: return random_number(instance);
    case 3: return random_string(instance);
    case 4:
        s = json_pack("{s:[s,i,n,s,b]}", "enum", "x", 17, "y\"\xc3\xa9", 1);
        *instance = json_incref(json_array_get(json_object_get(s, "enum"), rnd(5)));
        return s;
    case 5:
    case 6: return random_array(depth, instance);
    case 7:
    case 8: return random_object(depth, instance);
    }
    return random_combination(depth, instance);
}

/* Of a property's value, allOf and the like never lead away from what the grammar can say here. */
START_TEST(random_schemas_hold_in_both_directions)
{
    static const size_t how[] = { JSON_COMPACT, 0, JSON_INDENT(2) };
    for (int round = 0; round < 400; round++) {
        json_t *instance, *schema = random_schema(3, &instance);
        char *dump = json_dumps(schema, 0), text[65536];
        struct grammar *g = make(dump);
        ck_assert_msg(valid(schema, instance), "the test's own instance: %s", dump);
        for (size_t k = 0; k < ARRAY_LEN(how); k++) {
            char *s = json_dumps(instance, how[k] | JSON_ENCODE_ANY | JSON_REAL_PRECISION(12));
            ck_assert_msg(made_matches(g, s, strlen(s)), "%s refuses %s", dump, s);
            free(s);
        }
        for (int k = 0; k < 6; k++) {
            size_t n = made_walk(g, text, sizeof text, 10 + rnd(40), k == 0, 0);
            json_error_t je;
            json_t *v = json_loadb(text, n, JSON_DECODE_ANY, &je);
            ck_assert_msg(v != NULL, "%s\n%s: %s", dump, text, je.text);
            ck_assert_msg(valid(schema, v), "%s\n%s", dump, text);
            json_decref(v);
        }
        grammar_unref(g);
        free(dump);
        json_decref(schema);
        json_decref(instance);
    }
}
END_TEST

/* White space has an end wherever it may come. */
START_TEST(white_space_cannot_run_away)
{
    struct grammar *g = make("{\"type\":\"array\",\"items\":{\"type\":\"object\"}}");
    struct grammar_state *st = made_state(g);
    uint32_t n = 0;
    ck_assert_int_eq(grammar_state_accept(st, '['), 0);
    ck_assert_int_eq(grammar_state_accept(st, '\n'), 0);
    while (grammar_state_accept(st, ' ') == 0)
        ck_assert_uint_lt(n++, 100);
    ck_assert_uint_ge(n, 16);
    ck_assert_int_eq(grammar_state_accept(st, '\n'), -EINVAL);
    ck_assert_int_eq(grammar_state_accept(st, '{'), 0);
    grammar_state_destroy(st);
    grammar_unref(g);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("json_schema");
    TCase *tc = tcase_create("all");
    tcase_add_checked_fixture(tc, set_up, tear_down);
    tcase_set_timeout(tc, 300);
    tcase_add_loop_test(tc, texts_are_valid_or_not, 0, (int)ARRAY_LEN(table));
    tcase_add_loop_test(tc, schemas_are_refused_by_name, 0, (int)ARRAY_LEN(refused));
    tcase_add_loop_test(tc, what_is_refused_for_want_of_support_is_passed_over, 0, (int)ARRAY_LEN(refused));
    tcase_add_test(tc, merging_is_bounded);
    tcase_add_test(tc, rules_carry_the_prefix);
    tcase_add_test(tc, random_schemas_hold_in_both_directions);
    tcase_add_test(tc, white_space_cannot_run_away);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
#if defined(__SANITIZE_ADDRESS__) /* a process for each of so many cases is mostly the leak checker's at its end */
    srunner_set_fork_status(sr, CK_NOFORK);
#endif
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? 1 : 0;
}
