/* Lists of a persistent plan from anywhere, for streams of ours: loading says no, or hands over what verifies again and
 * may be printed.
 *
 * An input that begins as a file does is one without the hash that closes it. Any other is a byte for one of the files
 * made here and words that are written over its own, two bytes for where and four for what: damage that gets past the
 * first doors, however old the corpus is.
 *
 * What is let in is verified twice and printed three times, so fixed runs: 8000. */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/check.h"
#include "graph/graph.h"
#include "rt/lockstep/walk.h"
#include "rt/walk_plan.h"
#include "tests/stream/fake_model.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static bool has_any(void *user, uint32_t kernel) { return true; }
/* So that lists are short, with launches between them. */
static bool has_some(void *user, uint32_t kernel) { return kernel % 4 != 0; }

static struct made {
    const char *model;
    bool (*has)(void *user, uint32_t kernel);
    struct stream *s;
    uint8_t *file; /* [n] as walk_plan_save makes it, without its hash */
    size_t n;
    uint64_t hash; /* of the stream, as the file has it */
} made[] = {
    { .model = "llama", .has = has_any },
    { .model = "llama", .has = has_some },
    { .model = "qwen35moe", .has = has_any },
    { .model = "qwen35moe", .has = has_some },
    { .model = "gemma3n", .has = has_some },
};
enum { N_MADE = sizeof made / sizeof made[0] };

static struct stream *compile(const char *model)
{
    static struct fake_model fake;
    struct graph_opts o = { .n_ctx = 50, .n_slots = 2, .row_cap = 8, .out_cap = 8, .kv_type = KA_KV_F16 };
    struct stream *s = NULL;
    uint32_t i = 0;
    while (strcmp(fake_models[i].name, model) != 0)
        i++;
    fake_models[i].make(&fake);
    CHECK(graph_compile(&fake.m, &o, &s, NULL) == 0);
    return s;
}

static void make(struct made *m)
{
    const struct walk_card card = { .name = "host", .target = lockstep_target, .form = &walk_form_const,
                                    .groups = LOCKSTEP_WALKERS, .has = m->has };
    char path[] = "/tmp/zinc-fuzz-XXXXXX";
    struct walk_plan *p;
    int fd = mkstemp(path);
    m->s = compile(m->model);
    CHECK(fd >= 0 && walk_plan_make(m->s, &card, &p, NULL) == 0 && walk_plan_save(p, path, NULL) == 0);
    m->hash = p->h.stream;
    FILE *f = fdopen(fd, "rb");
    m->file = malloc(1 << 20);
    m->n = fread(m->file, 1, 1 << 20, f) - 8;
    fclose(f);
    unlink(path);
    walk_plan_free(p);
}

static void use(const struct walk_plan *p, const struct stream *s)
{
    struct err e = { 0 };
    FILE *f = fopen("/dev/null", "w");
    CHECK(walk_plan_verify(p, s, NULL, &e) == 0);
    if (!f)
        return;
    walk_plan_dump(f, p, s);
    walk_plan_dump_group(f, p, s, 1);
    CHECK(walk_plan_json(f, p, s) == 0);
    fclose(f);
}

static bool load(const uint8_t *body, size_t n, const struct stream *s)
{
    struct walk_plan *p = NULL;
    struct err e = { 0 };
    uint8_t *file = malloc(n + 8); /* its end is the end of what may be read */
    uint64_t hash = walk_file_hash(body, n);
    memcpy(file, body, n);
    memcpy(file + n, &hash, 8);
    int rc = walk_plan_load_memory("fuzz", file, n + 8, s, &p, &e);
    free(file);
    if (rc)
        CHECK(rc == e.code && e.msg[0] && !p);
    else
        use(p, s);
    walk_plan_free(p);
    return rc == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    for (int i = 0; i < N_MADE && !made[i].s; i++)
        make(&made[i]);
    if (!n)
        return 0;
    if (data[0] == WALK_MAGIC[0]) {
        struct walk_head h = { .stream = 0 };
        const struct made *m = &made[0];
        memcpy(&h, data, n < sizeof h ? n : sizeof h);
        for (int i = 0; i < N_MADE; i++)
            m = made[i].hash == h.stream ? &made[i] : m;
        load(data, n, m->s);
        return 0;
    }
    const struct made *m = &made[data[0] % N_MADE];
    uint8_t *body = malloc(m->n);
    memcpy(body, m->file, m->n);
    for (size_t at = 1; at + 6 <= n; at += 6) {
        uint16_t word;
        memcpy(&word, data + at, 2);
        memcpy(body + 4 * (word % (m->n / 4)), data + at + 2, 4);
    }
    bool good = load(body, m->n, m->s);
    CHECK(good || memcmp(body, m->file, m->n) != 0);
    free(body);
    return 0;
}
