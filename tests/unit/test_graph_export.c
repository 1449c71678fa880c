/* The stream as JSON and as a picture. */
#include <jansson.h>

#include "tests/stream/compile.h"

static char *text_of(int (*print)(FILE *, const struct stream *, const struct graph_view *), const struct stream *s,
                     const struct graph_view *v)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    ck_assert_int_eq(print(f, s, v), 0);
    fclose(f);
    return text;
}

START_TEST(json_holds_every_command_and_its_sums)
{
    for (uint32_t m = 0; m < N_FAKE_MODELS; m++) {
        struct stream *s = fake_compile(m, FAKE_DECODE);
        struct graph_view v = {.n_rows = 2, .kv_len = 30, .gbs = 100, .gflops = 1000};
        char *text = text_of(graph_print_json, s, &v);
        json_error_t je;
        json_t *root = json_loads(text, 0, &je), *cmds = json_object_get(root, "commands"), *c;
        ck_assert_msg(root, "%s line %d", je.text, je.line);
        ck_assert_uint_eq(json_array_size(cmds), s->h.n_cmds);
        uint64_t bytes = 0, flops = 0;
        size_t i;
        json_array_foreach(cmds, i, c) {
            uint64_t b, f;
            stream_cmd_cost(s, (uint32_t)i, 2, 30, &b, &f);
            ck_assert_int_eq(json_integer_value(json_object_get(c, "bytes")), (long long)b);
            ck_assert_int_eq(json_integer_value(json_object_get(c, "flops")), (long long)f);
            ck_assert_str_eq(json_string_value(json_object_get(c, "op")), cmd_name(s->cmds[i].op));
            bytes += b;
            flops += f;
        }
        json_t *total = json_object_get(root, "total");
        ck_assert_int_eq(json_integer_value(json_object_get(total, "bytes")), (long long)bytes);
        ck_assert_int_eq(json_integer_value(json_object_get(total, "flops")), (long long)flops);
        json_decref(root);
        free(text);
        stream_free(s);
    }
}
END_TEST

START_TEST(bottlenecks_follow_the_roofs)
{
    static const struct {
        struct graph_view v;
        const char *want;
    } cases[] = {
        {{8, 1, 1e-6, 1e6}, "memory"}, {{8, 1, 1e6, 1e-6}, "compute"}, {{8, 1, 1e6, 1e6}, "latency"}};
    struct stream *s = fake_compile(fake_index("llama"), FAKE_DECODE);
    for (size_t k = 0; k < 3; k++) {
        char *text = text_of(graph_print_json, s, &cases[k].v);
        json_t *root = json_loads(text, 0, NULL);
        json_t *proj = json_array_get(json_object_get(root, "commands"), 1);
        ck_assert_str_eq(json_string_value(json_object_get(proj, "bottleneck")), cases[k].want);
        ck_assert(json_is_false(json_object_get(json_object_get(root, "roofs"), "typical_cpu")));
        json_decref(root);
        free(text);
    }
    stream_free(s);
}
END_TEST

static uint32_t occurrences(const char *text, const char *what)
{
    uint32_t n = 0;
    for (const char *p = text; (p = strstr(p, what)); p += strlen(what))
        n++;
    return n;
}

START_TEST(the_picture_has_a_node_per_command_and_an_edge_per_wait)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct graph_view v = {.n_rows = 1, .kv_len = 1};
    char *text = text_of(graph_print_dot, s, &v);
    uint32_t waits = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        waits += s->cmds[i].wait != CMD_NO_WAIT;
    ck_assert_uint_eq(occurrences(text, "fillcolor"), s->h.n_cmds);
    ck_assert_uint_eq(occurrences(text, " -> "), waits);
    ck_assert_uint_eq(occurrences(text, "subgraph"), s->h.n_layer);
    ck_assert_uint_eq(occurrences(text, "{"), occurrences(text, "}"));
    ck_assert_uint_eq(occurrences(text, "typical of a desktop CPU"), 1);
    free(text);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("graph export", json_holds_every_command_and_its_sums, bottlenecks_follow_the_roofs,
                     the_picture_has_a_node_per_command_and_an_edge_per_wait);
}
