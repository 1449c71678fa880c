/* The dumps of every family against tests/stream/golden/: what graph/ makes of a model changes on purpose only.
 * UPDATE_GOLDEN=1 rewrites the files, and the seeds of the fuzzers of streams and lists; review the diff. */
#include <unistd.h>

#include "rt/lockstep/walk.h"
#include "rt/walk_plan.h"
#include "tests/stream/compile.h"

/* Frees got. */
static void compare_text(const char *file, char *got)
{
    char path[256];
    char *want = NULL;
    size_t n = 0, got_n = strlen(got);
    snprintf(path, sizeof path, "tests/stream/golden/%s.txt", file);
    if (getenv("UPDATE_GOLDEN")) {
        FILE *f = fopen(path, "w");
        ck_assert_msg(f && fwrite(got, 1, got_n, f) == got_n && fclose(f) == 0, "cannot write %s", path);
        free(got);
        return;
    }
    FILE *f = fopen(path, "r");
    ck_assert_msg(f, "no %s: make it with UPDATE_GOLDEN=1", path);
    ck_assert(getdelim(&want, &n, 0, f) > 0);
    fclose(f);
    if (strcmp(got, want) != 0) {
        uint32_t line = 1;
        size_t i = 0, start = 0;
        for (; got[i] && got[i] == want[i]; i++)
            if (got[i] == '\n') {
                line++;
                start = i + 1;
            }
        ck_abort_msg("%s line %u differs:\n  want %.*s\n  got  %.*s", path, line, (int)strcspn(want + start, "\n"),
                     want + start, (int)strcspn(got + start, "\n"), got + start);
    }
    free(got);
    free(want);
}

static void compare(const char *file, const struct stream *s)
{
    compare_text(file, fake_dump(s));
}

START_TEST(every_family_lowers_to_its_golden_dump)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        compare(fake_models[i].name, s);
        stream_free(s);
    }
}
END_TEST

START_TEST(prefill_and_unfused_lower_to_their_golden_dumps)
{
    struct graph_opts o = FAKE_DECODE;
    struct stream *s = fake_compile(fake_index("qwen3"), FAKE_PREFILL);
    compare("qwen3_prefill", s);
    stream_free(s);
    o.no_fuse = true;
    s = fake_compile(fake_index("qwen35moe"), o);
    compare("qwen35moe_unfused", s);
    stream_free(s);
}
END_TEST

/* Layers 1 and 2 of a hybrid: an attention and a DeltaNet, a residual on both sides. */
static struct stream *compile_part(void)
{
    struct graph_opts o = FAKE_DECODE;
    o.first_layer = 1;
    o.end_layer = 3;
    return fake_compile(fake_index("qwen35"), o);
}

START_TEST(a_part_of_a_model_lowers_to_its_golden_dump)
{
    struct stream *s = compile_part();
    compare("qwen35_layers_1_3", s);
    stream_free(s);
}
END_TEST

static bool has_any(void *user, uint32_t kernel) { return true; }

/* As streamdump --walk has them. */
static struct walk_plan *make_lists(const struct stream *s)
{
    const struct walk_card card = { .name = "host", .target = lockstep_target, .form = &walk_form_const, .groups = LOCKSTEP_WALKERS,
                                    .has = has_any };
    struct walk_plan *p = NULL;
    struct err e = {0};
    ck_assert_msg(walk_plan_make(s, &card, &p, &e) == 0, "%s", e.msg);
    return p;
}

START_TEST(the_lists_of_a_persistent_plan_are_the_golden_ones)
{
    static const char *const models[] = {"llama", "qwen35moe"};
    for (size_t i = 0; i < sizeof models / sizeof models[0]; i++) {
        struct stream *s = fake_compile(fake_index(models[i]), FAKE_DECODE);
        struct walk_plan *p = make_lists(s);
        char *text = NULL, file[64];
        size_t n = 0;
        FILE *f = open_memstream(&text, &n);
        walk_plan_dump(f, p, s);
        fclose(f);
        snprintf(file, sizeof file, "%s_walk", models[i]);
        compare_text(file, text);
        walk_plan_free(p);
        stream_free(s);
    }
}
END_TEST

/* Seeds lack the hash that closes a saved file: tests/fuzz/fuzz_stream.c and fuzz_walk_file.c put it there. */
static void cut_hash(const char *path)
{
    FILE *f = fopen(path, "r+");
    ck_assert(f && fseek(f, 0, SEEK_END) == 0 && ftruncate(fileno(f), ftell(f) - 8) == 0);
    fclose(f);
}

/* Frees s. */
static void write_seed(const char *name, struct stream *s)
{
    char path[256];
    struct err e = {0};
    snprintf(path, sizeof path, "tests/fuzz/corpus/fuzz_stream/%s.zstream", name);
    ck_assert_msg(stream_save(s, path, &e) == 0, "%s", e.msg);
    cut_hash(path);
    stream_free(s);
}

static void write_seed_of_lists(const char *name)
{
    struct stream *s = fake_compile(fake_index(name), FAKE_DECODE);
    struct walk_plan *p = make_lists(s);
    char path[256];
    struct err e = {0};
    snprintf(path, sizeof path, "tests/fuzz/corpus/fuzz_walk_file/%s.zwalk", name);
    ck_assert_msg(walk_plan_save(p, path, &e) == 0, "%s", e.msg);
    cut_hash(path);
    walk_plan_free(p);
    stream_free(s);
}

START_TEST(seeds_of_the_fuzzers_are_rewritten_on_demand)
{
    static const char *const models[] = {"llama", "gpt_oss", "qwen35moe", "qwen3next", "gemma4_moe"};
    for (size_t i = 0; getenv("UPDATE_GOLDEN") && i < sizeof models / sizeof models[0]; i++)
        write_seed(models[i], fake_compile(fake_index(models[i]), FAKE_DECODE));
    if (getenv("UPDATE_GOLDEN")) {
        write_seed("qwen35_layers_1_3", compile_part());
        write_seed_of_lists("llama");
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("golden dumps", every_family_lowers_to_its_golden_dump,
                     prefill_and_unfused_lower_to_their_golden_dumps,
                     a_part_of_a_model_lowers_to_its_golden_dump,
                     the_lists_of_a_persistent_plan_are_the_golden_ones, seeds_of_the_fuzzers_are_rewritten_on_demand);
}
