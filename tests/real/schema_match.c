/* tests/real/schema_match.c: the grammar of a JSON schema, asked about single texts and for texts of its own. What
 * tests/real/schemas.py compares with a validator that is not ours. Commands on standard input, one a line, each
 * answered on standard output by lines of JSON:
 *
 *     schema FORM JSON   compiles; FORM value, json, xml, gemma. {"warnings": [...]} or {"refused": "..."}
 *     text JSON          is this string in the language of the last schema? true or false
 *     prefix JSON        does one that begins so lie in it?
 *     walk SEED N        N random texts of it, each a string on a line of its own
 *
 * The vocabulary is that of single bytes, so that nothing but the grammar decides. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/grammar/grammar.h"
#include "engine/grammar/json_schema.h"

enum { END = 256, N_VOCAB = 257, PATIENCE = 60, MAX_WALK = 4000 };

static enum vocab_kind byte_token(void *user, int32_t id, const char **bytes, size_t *n)
{
    static char one;
    (void)user;
    one = (char)id;
    *bytes = id == END ? "<|end|>" : &one;
    *n = id == END ? 7 : 1;
    return id == END ? VOCAB_END : VOCAB_TEXT;
}

static void print(json_t *v) /* takes it */
{
    char *text = json_dumps(v, JSON_ENCODE_ANY | JSON_COMPACT | JSON_ENSURE_ASCII);
    puts(text ? text : "{\"error\":\"not UTF-8, or out of memory\"}");
    free(text);
    json_decref(v);
}

static struct grammar *compile(const struct vocab_index *vocab, char *args)
{
    static const char *const forms[] = { "value", "json", "xml", "gemma" };
    char *text = strchr(args, ' ');
    json_t *warnings = json_array(), *schema;
    struct json_schema_opts o = { .strict = false, .warnings = warnings };
    struct tok_buf gbnf = { 0 };
    struct grammar *g = NULL;
    struct err e = { 0 };
    size_t form = 0;
    size_t n = text ? (size_t)(text - args) : 0;
    while (form < 4 && (strlen(forms[form]) != n || strncmp(forms[form], args, n)))
        form++;
    if (!text || form == 4 || !(schema = json_loads(text + 1, JSON_DECODE_ANY, NULL))) {
        fprintf(stderr, "schema_match: 'schema FORM JSON' expected, found 'schema %.60s'\n", args);
        exit(2);
    }
    int rc = json_schema_rules(schema, (enum json_schema_form)form, "root", &o, &gbnf, &e);
    if (!rc)
        rc = grammar_from_gbnf(vocab, gbnf.s, gbnf.n, &g, &e);
    if (rc)
        json_decref(warnings);
    print(rc ? json_pack("{s:s}", "refused", e.msg) : json_pack("{s:o}", "warnings", warnings));
    json_decref(schema);
    tok_buf_finish(&gbnf);
    return g;
}

static bool matches(struct grammar *g, const char *s, size_t n, bool whole)
{
    struct grammar_state *st = NULL;
    if (grammar_state_create(g, &st, NULL))
        exit(1);
    bool yes = true;
    for (size_t i = 0; i < n && yes; i++)
        yes = grammar_state_accept(st, (unsigned char)s[i]) == 0;
    yes = yes && (!whole || grammar_state_can_end(st));
    grammar_state_destroy(st);
    return yes;
}

/* ---- texts at random ----------------------------------------------------------------------------------- */

static uint32_t rnd(uint64_t *seed, uint32_t below)
{
    *seed = *seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((*seed >> 33) % below);
}

/* Brackets and quotes that close, digits, letters, blanks, and bytes above ASCII are chosen with like chances. */
static int class_of(int c)
{
    return strchr("\"]}", c)                                          ? 0
           : c >= '0' && c <= '9'                                     ? 1
           : (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z')         ? 2
           : c >= 0x80                                                ? 3
           : c == ' ' || c == '\n' || c == '\t'                       ? 4
                                                                      : 5;
}

static int choose(const uint64_t *mask, uint64_t *seed, bool hurry)
{
    int pick[6] = { 0 }, n[6] = { 0 }, n_classes = 0, best = -1;
    for (int c = 1; c < 256; c++)
        if (mask[c / 64] >> (c % 64) & 1) {
            int k = class_of(c);
            if (rnd(seed, (uint32_t)++n[k]) == 0)
                pick[k] = c;
        }
    if (hurry && n[0])
        return pick[0];
    for (int k = 0; k < 6; k++)
        if (n[k] && rnd(seed, (uint32_t)++n_classes) == 0)
            best = pick[k];
    return best;
}

static void walk(struct grammar *g, uint64_t *seed)
{
    char text[MAX_WALK];
    size_t n = 0;
    struct grammar_state *st = NULL;
    if (grammar_state_create(g, &st, NULL))
        exit(1);
    while (n < sizeof text) {
        bool hurry = n > PATIENCE;
        if (grammar_state_can_end(st) && (hurry || rnd(seed, 3) == 0))
            break;
        const uint64_t *mask = grammar_state_mask(st);
        int c = mask ? choose(mask, seed, hurry) : -1;
        if (c < 0)
            break;
        if (grammar_state_accept(st, c))
            exit(1);
        text[n++] = (char)c;
    }
    print(grammar_state_can_end(st) ? json_stringn(text, n) : json_null());
    grammar_state_destroy(st);
}

int main(void)
{
    struct vocab_source src = { .n_vocab = N_VOCAB, .token = byte_token };
    struct vocab_index *vocab = NULL;
    struct grammar *g = NULL;
    char *line = NULL;
    size_t cap = 0;
    ssize_t n;
    if (vocab_index_create(&src, &vocab, NULL))
        return 1;
    while ((n = getline(&line, &cap, stdin)) > 0) {
        line[n - (line[n - 1] == '\n')] = 0;
        uint64_t seed;
        int count;
        if (!strncmp(line, "schema ", 7)) {
            grammar_unref(g);
            g = compile(vocab, line + 7);
        } else if (g && (!strncmp(line, "text ", 5) || !strncmp(line, "prefix ", 7))) {
            json_t *v = json_loads(strchr(line, ' '), JSON_DECODE_ANY, NULL);
            if (!json_is_string(v))
                return 2;
            print(json_boolean(matches(g, json_string_value(v), json_string_length(v), *line == 't')));
            json_decref(v);
        } else if (g && sscanf(line, "walk %" SCNu64 " %d", &seed, &count) == 2) {
            while (count-- > 0)
                walk(g, &seed);
        } else {
            fprintf(stderr, "schema_match: no schema, or not a command: %.60s\n", line);
            return 2;
        }
        fflush(stdout);
    }
    grammar_unref(g);
    vocab_index_destroy(vocab);
    free(line);
    return 0;
}
