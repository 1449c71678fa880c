/* tools/grammarbench.c: times constrained decoding over a real vocabulary: for each token of a text that fits the
 * grammar, the mask of what may come and the step over what comes.
 *
 *     grammarbench [-t GRAMMAR.gbnf|SCHEMA.json TEXT] VOCABULARY.gguf
 *
 * Every grammar sees its texts twice: first with an empty cache of masks, then with a warm one. -t takes a grammar and
 * a text from files in the place of the built-in ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/stdout.h"
#include "engine/engine.h"
#include "engine/grammar/grammar.h"

enum { ROUNDS = 5 };

/* Time of this thread alone: others use the machine too. */
static uint64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

struct series {
    double *us;
    uint32_t n;
};

static void die(const char *what, const struct err *e)
{
    fprintf(stderr, "grammarbench: %s: %s\n", what, e->msg);
    exit(1);
}

static int by_value(const void *a, const void *b)
{
    const double *x = a, *y = b;
    return (*x > *y) - (*x < *y);
}

static void print_series(const char *name, const char *pass, struct series *s)
{
    double sum = 0;
    qsort(s->us, s->n, sizeof *s->us, by_value);
    for (uint32_t i = 0; i < s->n; i++)
        sum += s->us[i];
    printf("%-22s %-5s %6u %9.2f %9.2f %9.2f %9.2f\n", name, pass, s->n, sum / s->n, s->us[s->n / 2],
           s->us[(size_t)s->n * 99 / 100], s->us[s->n - 1]);
}

/* Keeps each token's least time of all rounds. */
static void pass(struct grammar *g, const int32_t *ids, uint32_t n, struct series *out, bool first)
{
    struct grammar_state *st;
    struct err e = { 0 };
    if (grammar_state_create(g, &st, &e))
        die("state", &e);
    out->n = n;
    for (uint32_t i = 0; i < n; i++) {
        uint64_t from = cpu_ns();
        const uint64_t *mask = grammar_state_mask(st);
        bool allowed = mask && mask[ids[i] / 64] >> (ids[i] % 64) & 1;
        int rc = grammar_state_accept(st, ids[i]);
        double us = (double)(cpu_ns() - from) / 1e3;
        out->us[i] = first ? us : MIN(us, out->us[i]);
        if (!allowed || rc) {
            fprintf(stderr, "grammarbench: token %u of %u (id %d) is not allowed: mask %d, accept %d\n", i, n, ids[i],
                    allowed, rc);
            exit(1);
        }
    }
    if (!grammar_state_can_end(st))
        fprintf(stderr, "grammarbench: note: the text ends before the grammar may\n");
    grammar_state_destroy(st);
}

static void bench(const struct engine *eng, const struct vocab_index *v, const char *name, const char *grammar,
                  const char *text)
{
    struct err e = { 0 };
    struct grammar_stats st = { 0 };
    int32_t *ids;
    uint32_t n;
    double compile = 1e9;
    if (engine_encode(eng, text, strlen(text), 0, &ids, &n, &e))
        die(name, &e);
    struct series cold = { .us = malloc(n * sizeof(double) + 8) }, warm = { .us = malloc(n * sizeof(double) + 8) };
    for (int round = 0; round < ROUNDS; round++) {
        struct grammar *g;
        uint64_t from = cpu_ns();
        int rc = *grammar == '{' ? grammar_from_schema(v, grammar, strlen(grammar), &g, &e)
                                 : grammar_from_gbnf(v, grammar, strlen(grammar), &g, &e);
        if (rc)
            die(name, &e);
        compile = MIN(compile, (double)(cpu_ns() - from) / 1e3);
        pass(g, ids, n, &cold, round == 0);
        pass(g, ids, n, &warm, round == 0);
        st = grammar_stats(g);
        grammar_unref(g);
    }
    print_series(name, "cold", &cold);
    print_series(name, "warm", &warm);
    printf("%-22s       compiled in %.0f us; masks %llu, cached %llu, cache %.1f MiB; %llu steps at most\n", "", compile,
           (unsigned long long)st.masks, (unsigned long long)st.cached, (double)st.bytes / 1048576,
           (unsigned long long)st.most_steps);
    free(cold.us);
    free(warm.us);
    free(ids);
}

/* ---- built-in grammars and texts ----------------------------------------------------------------------- */

static const char weather[] = "{\"type\":\"object\",\"properties\":{\"city\":{\"type\":\"string\"},\"unit\":{\"type\":"
                              "\"string\",\"enum\":[\"celsius\",\"fahrenheit\"]},"
                              "\"days\":{\"type\":\"integer\",\"minimum\":1,\"maximum\":14}},\"required\":[\"city\","
                              "\"unit\"],\"additionalProperties\":false}";
static const char weather_text[] = "{\"city\": \"San Francisco, California\", \"unit\": \"celsius\", \"days\": 7}";

static const char person[] = "{\"type\":\"object\",\"required\":[\"name\",\"age\",\"email\",\"address\",\"tags\","
                             "\"history\"],\"additionalProperties\":false,\"properties\":{"
                             "\"name\":{\"type\":\"string\",\"minLength\":1,\"maxLength\":60},\"age\":{\"type\":"
                             "\"integer\",\"minimum\":0,\"maximum\":150},"
                             "\"email\":{\"type\":\"string\",\"pattern\":\"^[a-z0-9._-]+@[a-z0-9.-]+\\\\.[a-z]{2,8}$\"}"
                             ",\"score\":{\"type\":\"number\"},"
                             "\"address\":{\"type\":\"object\",\"properties\":{\"street\":{\"type\":\"string\"},"
                             "\"zip\":{\"type\":\"string\",\"pattern\":\"^[0-9]{5}$\"},"
                             "\"city\":{\"type\":\"string\"},\"country\":{\"enum\":[\"DE\",\"FR\",\"US\",\"JP\"]}},"
                             "\"required\":[\"street\",\"city\",\"country\"],\"additionalProperties\":false},"
                             "\"tags\":{\"type\":\"array\",\"items\":{\"type\":\"string\"},\"maxItems\":10},"
                             "\"history\":{\"type\":\"array\",\"items\":{\"type\":\"object\",\"properties\":{"
                             "\"date\":{\"type\":\"string\",\"format\":\"date\"},\"what\":{\"type\":\"string\"},"
                             "\"amount\":{\"anyOf\":[{\"type\":\"number\",\"minimum\":0},{\"type\":\"null\"}]}},"
                             "\"required\":[\"date\",\"what\",\"amount\"],\"additionalProperties\":false}}}}";
static const char person_text[] =
    "{\n  \"name\": \"Grace Brewster Murray Hopper\",\n  \"age\": 85,\n  \"email\": "
    "\"grace.hopper@navy.example.mil\",\n  \"score\": 99.75,\n"
    "  \"address\": {\n    \"street\": \"1206 South Arlington Ridge Road\",\n    \"zip\": \"22202\",\n    \"city\": "
    "\"Arlington, Virginia\",\n"
    "    \"country\": \"US\"\n  },\n  \"tags\": [\"compiler\", \"mathematician\", \"rear admiral\", \"na\\u00efve "
    "caf\xc3\xa9\", \"\xe6\x97\xa5\xe6\x9c\xac\xe8\xaa\x9e\"],\n"
    "  \"history\": [\n    {\"date\": \"1943-12-09\", \"what\": \"joined the WAVES; was told: \\\"too light\\\"\", "
    "\"amount\": null},\n"
    "    {\"date\": \"1952-05-01\", \"what\": \"wrote the first linker, the A-0 system\", \"amount\": 1200.5},\n"
    "    {\"date\": \"1959-05-28\", \"what\": \"CODASYL meeting on a common business language\", \"amount\": 0}\n  "
    "]\n}";

static const char tree[] =
    "{\"$ref\":\"#/$defs/"
    "node\",\"$defs\":{\"node\":{\"type\":\"object\",\"properties\":{\"value\":{\"type\":\"string\"},"
    "\"children\":{\"type\":\"array\",\"items\":{\"$ref\":\"#/$defs/node\"}}},\"required\":[\"value\",\"children\"],"
    "\"additionalProperties\":false}}}";

static void put(char **p, const char *s)
{
    size_t n = strlen(s);
    memcpy(*p, s, n + 1);
    *p += n;
}

static void indent(char **p, bool pretty, int depth)
{
    put(p, pretty ? "\n" : "");
    for (int i = 0; pretty && i < depth; i++)
        put(p, "  ");
}

static void put_tree(char **p, int depth)
{
    put(p, "{\"value\": \"node at depth ");
    put(p, (char[]){ (char)('0' + depth), 0 });
    put(p, "\", \"children\": [");
    for (int i = 0; i < 2 && depth < 7; i++) {
        put(p, i ? ", " : "");
        put_tree(p, depth + 1);
    }
    put(p, "]}");
}

/* Objects and arrays in turn, `depth` deep, with all kinds of values at each level. */
static void put_any(char **p, int depth, int most, bool pretty)
{
    static const char *const text[] = { "\"the quick brown fox, jumping: over [dogs]\"",
                                        "-12.5e3",
                                        "true",
                                        "null",
                                        "\"tab\\tquote \\\" done\"",
                                        "20240229" };
    bool object = depth % 2 == 0;
    put(p, object ? "{" : "[");
    for (int i = 0; i < 3; i++) {
        indent(p, pretty, depth + 1);
        if (object)
            put(p, i == 0 ? "\"name\": " : i == 1 ? "\"list_of_things\": " : "\"x-\xc3\xbc\": ");
        if (i == 1 && depth + 1 < most)
            put_any(p, depth + 1, most, pretty);
        else
            put(p, text[(depth + i) % 6]);
        put(p, i == 2 ? "" : pretty ? "," : ", ");
    }
    indent(p, pretty, depth);
    put(p, object ? "}" : "]");
}

static void built_in(const struct engine *eng, const struct vocab_index *v)
{
    struct tok_buf any = { 0 };
    struct err e = { 0 };
    char *text = malloc(1 << 20), *p = text;
    if (!text || grammar_json_to_gbnf(false, "root", &any, &e) || tok_buf_add(&any, "", 1))
        die("any JSON", &e);
    bench(eng, v, "tool call", weather, weather_text);
    bench(eng, v, "record, pretty", person, person_text);
    put_tree(&p, 0);
    bench(eng, v, "recursive tree", tree, text);
    p = text;
    put_any(&p, 0, 8, false);
    bench(eng, v, "any JSON, 8 deep", any.s, text);
    p = text;
    put_any(&p, 0, 12, true);
    bench(eng, v, "any JSON, pretty, 12", any.s, text);
    free(text);
    tok_buf_finish(&any);
}

static char *read_file(const char *path)
{
    FILE *f = fopen(path, "rb");
    char *s = malloc((16 << 20) + 1);
    size_t n = f && s ? fread(s, 1, 16 << 20, f) : 0;
    if (!f || !s) {
        perror(path);
        exit(1);
    }
    fclose(f);
    s[n] = 0;
    return s;
}

static int run_program(int argc, char **argv)
{
    const char *grammar = NULL, *text = NULL;
    struct engine *eng;
    const struct vocab_index *v;
    struct err e = { 0 };
    int opt;
    while ((opt = getopt(argc, argv, "t:")) == 't')
        grammar = optarg, text = optind < argc ? argv[optind++] : NULL;
    if (opt != -1 || optind + 1 != argc || (grammar && !text)) {
        fprintf(stderr, "usage: grammarbench [-t GRAMMAR TEXT] VOCABULARY.gguf\n");
        return 2;
    }
    if (engine_open_vocab(argv[optind], &eng, &e))
        die(argv[optind], &e);
    uint64_t from = cpu_ns();
    if (engine_vocab(eng, &v, &e))
        die(argv[optind], &e);
    printf("index of the vocabulary: %.0f ms\n", (double)(cpu_ns() - from) / 1e6);
    printf("%-22s %-5s %6s %9s %9s %9s %9s  us per token (mask + accept)\n", "", "pass", "tokens", "mean", "p50", "p99",
           "max");
    if (grammar) {
        char *g = read_file(grammar), *t = read_file(text);
        bench(eng, v, grammar, g, t);
        free(g);
        free(t);
    } else
        built_in(eng, v);
    engine_close(eng);
    return 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("grammarbench", run_program(argc, argv));
}
