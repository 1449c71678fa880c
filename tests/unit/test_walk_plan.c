/* The lists of a persistent plan as data: for streams of every family and cards from small to large they verify; a list that lets an
 * item begin too early is refused though nothing else is wrong with it; files come back as they were, or are refused. */
#define FAKE_HEAD_DIM 64 /* which kernels that do ROPE_KV and ATTN take */
#include <unistd.h>

#include "rt/lockstep/walk.h"
#include "rt/walk_plan.h"
#include "tests/stream/compile.h"

static bool has_any(void *user, uint32_t kernel) { return true; }
/* So that walks are short, with launches between them. */
static bool has_some(void *user, uint32_t kernel) { return kernel != K_rope_kv && kernel != K_norm; }

static uint32_t room_of_a_card(uint32_t args_bytes)
{
    return (args_bytes + 320 + 63) / 64 * 64;
}
static const struct walk_form large = { .bytes = 16 << 20, .room = room_of_a_card }, small = { .bytes = 2048, .room = room_of_a_card };

static struct walk_card cards[] = {
    { .name = "host", .form = &walk_form_const, .groups = LOCKSTEP_WALKERS, .has = has_any },
    { .name = "h200", .form = &walk_form_const, .groups = 264, .has = has_any,
      .target = { .n_cores = 132, .shared_max = 227 << 10, .shared_core = 228 << 10, .wgmma = true, .mma8 = true } },
    { .name = "gfx1100", .form = &large, .groups = 192, .no_more = true, .has = has_any,
      .target = { .n_cores = 96, .shared_max = 64 << 10, .shared_core = 64 << 10, .amd = true, .prompt_split = 256 } },
    { .name = "2 cores", .form = &small, .groups = 3, .has = has_some,
      .target = { .n_cores = 2, .shared_max = 96 << 10, .shared_core = 96 << 10 } },
};
enum { N_CARDS = sizeof cards / sizeof cards[0] };

static struct walk_plan *make(const struct stream *s, uint32_t card)
{
    struct walk_plan *p = NULL;
    struct err e = { 0 };
    cards[0].target = lockstep_target;
    ck_assert_msg(walk_plan_make(s, &cards[card], &p, &e) == 0, "%s: %s", cards[card].name, e.msg);
    return p;
}

static char *dump(const struct walk_plan *p, const struct stream *s)
{
    char *text = NULL;
    size_t n = 0;
    FILE *f = open_memstream(&text, &n);
    walk_plan_dump(f, p, s);
    ck_assert_int_eq(walk_plan_json(f, p, s), 0);
    walk_plan_dump_group(f, p, s, 1);
    fclose(f);
    return text;
}

START_TEST(lists_of_every_family_verify)
{
    uint32_t waits = 0, pairs = 0, walks = 0, alone = 0;
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        for (uint32_t k = 0; k < N_CARDS; k++) {
            struct walk_plan *p = make(s, k);
            struct walk_seen seen;
            struct err e = { 0 };
            ck_assert_int_eq(walk_plan_verify(p, s, &seen, &e), 0);
            waits += seen.waits;
            pairs += seen.pairs;
            walks = p->h.n_walks > walks ? p->h.n_walks : walks;
            for (uint32_t j = 0; j < p->h.n_launches; j++)
                alone += p->launch[j].walk == WALK_ALONE;
            char *text = dump(p, s);
            ck_assert_ptr_nonnull(strstr(text, "\nverified: "));
            ck_assert_ptr_null(strstr(text, "refused"));
            free(text);
            walk_plan_free(p);
        }
        stream_free(s);
    }
    ck_assert_uint_gt(waits, 100);
    ck_assert_uint_gt(pairs, 10);
    ck_assert_uint_gt(walks, 3);
    ck_assert_uint_gt(alone, N_FAKE_MODELS * N_CARDS);
}
END_TEST

/* Item by item: it waits for what the one before waited for, and those that needed as much as it did do so too. The list alone says
 * nothing against it; the stream does, or the addresses. */
START_TEST(an_item_that_begins_too_early_is_refused)
{
    uint32_t by_wait = 0;
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        struct walk_plan *p = make(s, 0);
        for (uint32_t w = 0; w < p->h.n_walks; w++) {
            uint8_t *list = p->lists + (walk_plan_list(p, w) - p->lists);
            const struct walk_form f = { .bytes = p->walk[w].bytes };
            const struct walk_list l = { .form = &f, .n = p->walk[w].n, .groups = p->walk[w].groups };
            struct walk_item *kept = malloc(p->walk[w].n * sizeof *kept), *it = malloc(p->walk[w].n * sizeof *it);
            memcpy(kept, list, p->walk[w].n * sizeof *kept);
            for (uint32_t k = 1; k < p->walk[w].n; k++) {
                struct err e = { 0 };
                memcpy(it, kept, p->walk[w].n * sizeof *it);
                if (it[k].need == it[k - 1].need)
                    continue;
                for (uint32_t j = k; j < p->walk[w].n && kept[j].need == kept[k].need; j++)
                    it[j].need = kept[k - 1].need;
                memcpy(list, it, p->walk[w].n * sizeof *it);
                ck_assert_msg(walk_list_verify(&l, list, &e) == 0, "%s", e.msg);
                ck_assert_msg(walk_plan_verify(p, s, NULL, &e) == -EINVAL, "%s: list %u, item %u", fake_models[i].name, w, k);
                by_wait += strstr(e.msg, "waits for command") != NULL;
                ck_assert_msg(strstr(e.msg, "list ") && strstr(e.msg, "item "), "%s", e.msg);
                memcpy(list, kept, p->walk[w].n * sizeof *kept);
            }
            free(kept);
            free(it);
        }
        walk_plan_free(p);
        stream_free(s);
    }
    ck_assert_uint_gt(by_wait, 50);
}
END_TEST

static void put_address(uint8_t *list, uint32_t item, size_t off, gpu_va va)
{
    struct walk_item it;
    memcpy(&it, list + item * sizeof it, sizeof it);
    memcpy(list + it.args + off, &va, sizeof va);
}

/* The router and the shared expert's product begin together. */
START_TEST(items_that_may_overlap_share_nothing_that_is_written)
{
    struct stream *s = fake_compile(fake_index("qwen3next"), FAKE_DECODE);
    struct walk_plan *p = make(s, 0);
    uint32_t w = 0, k = 0;
    while (k + 1 == p->walk[w].n || s->cmds[p->launch[p->walk[w].first + k].cmd].op != CMD_ROUTER) {
        k = k + 1 == p->walk[w].n ? w++, 0 : k + 1;
        ck_assert_uint_lt(w, p->h.n_walks);
    }
    uint8_t *list = p->lists + (walk_plan_list(p, w) - p->lists), *kept = malloc(p->walk[w].bytes);
    struct walk_item router = walk_plan_item(p, w, k), product = walk_plan_item(p, w, k + 1);
    struct err e = { 0 };
    gpu_va ids;
    ck_assert_uint_eq(router.need, product.need);
    ck_assert_uint_eq(s->cmds[p->launch[p->walk[w].first + k + 1].cmd].op, CMD_GATE_UP);
    memcpy(kept, list, p->walk[w].bytes);
    memcpy(&ids, list + router.args + offsetof(kl_router, ids), sizeof ids);
    put_address(list, k + 1, offsetof(kl_matvec, scale), ids);
    ck_assert_int_eq(walk_plan_verify(p, s, NULL, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "shares what is written") && strstr(e.msg, "GATE_UP"), "%s", e.msg);
    memcpy(list, kept, p->walk[w].bytes);
    put_address(list, k, offsetof(kl_router, counters), SADDR(ARENA_WORK, 0));
    put_address(list, k + 1, offsetof(kl_matvec, scale), SADDR(ARENA_WORK, 256));
    ck_assert_int_eq(walk_plan_verify(p, s, NULL, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "private memory"), "%s", e.msg);
    memcpy(list, kept, p->walk[w].bytes);
    put_address(list, k, offsetof(kl_router, x), SADDR(ARENA_SCRATCH, s->h.arena_bytes[ARENA_SCRATCH]));
    ck_assert_int_eq(walk_plan_verify(p, s, NULL, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "in no arena"), "%s", e.msg);
    free(kept);
    walk_plan_free(p);
    stream_free(s);
}
END_TEST

/* What is printed grows with them. On this card no item has more groups than walk, so that nothing else is wrong. */
START_TEST(lists_for_more_work_groups_than_cards_hold_are_refused)
{
    struct stream *s = fake_compile(fake_index("llama"), FAKE_DECODE);
    struct walk_plan *p = make(s, 1);
    struct err e = { 0 };
    ck_assert_uint_eq(p->h.n_walks, 1);
    p->walk[0].groups = WALK_MOST_GROUPS;
    ck_assert_msg(walk_plan_verify(p, s, NULL, &e) == 0, "%s", e.msg);
    p->walk[0].groups = WALK_MOST_GROUPS + 1;
    ck_assert_int_eq(walk_plan_verify(p, s, NULL, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "65537 work-groups"), "%s", e.msg);
    walk_plan_free(p);
    stream_free(s);
}
END_TEST

/* ---- files ---- */

static char path[32];

static uint8_t *saved(const struct walk_plan *p, size_t *n)
{
    struct err e = { 0 };
    strcpy(path, "/tmp/zinc-walk-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    ck_assert_msg(walk_plan_save(p, path, &e) == 0, "%s", e.msg);
    FILE *f = fopen(path, "rb");
    uint8_t *b = malloc(1 << 20);
    *n = fread(b, 1, 1 << 20, f);
    fclose(f);
    return b;
}

START_TEST(loaded_lists_are_the_saved_ones)
{
    for (uint32_t i = 0; i < N_FAKE_MODELS; i++) {
        struct stream *s = fake_compile(i, FAKE_DECODE);
        struct walk_plan *p = make(s, i % N_CARDS), *q = NULL;
        struct err e = { 0 };
        size_t n;
        free(saved(p, &n));
        ck_assert_msg(walk_plan_load(path, s, &q, &e) == 0, "%s", e.msg);
        char *a = dump(p, s), *b = dump(q, s);
        ck_assert_str_eq(a, b);
        ck_assert_mem_eq(&p->h, &q->h, sizeof p->h);
        ck_assert_mem_eq(p->lists, q->lists, p->h.list_bytes);
        free(a);
        free(b);
        walk_plan_free(p);
        walk_plan_free(q);
        stream_free(s);
        unlink(path);
    }
}
END_TEST

START_TEST(truncated_and_damaged_files_are_refused)
{
    struct stream *s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    struct walk_plan *p = make(s, 0), *q = NULL;
    size_t n;
    uint8_t *b = saved(p, &n);
    for (size_t i = 0; i < n; i += i < 200 ? 1 : 61) {
        struct err e = { 0 };
        uint8_t *cut = malloc(i ? i : 1); /* exactly as long, so that a sanitizer sees a read behind it */
        memcpy(cut, b, i);
        ck_assert_int_eq(walk_plan_load_memory("cut", cut, i, s, &q, &e), -EINVAL);
        ck_assert_ptr_nonnull(strstr(e.msg, "cut"));
        free(cut);
        b[i] ^= 1u << i % 8;
        ck_assert_msg(walk_plan_load_memory("flipped", b, n, s, &q, &e) == -EINVAL, "byte %zu", i);
        b[i] ^= 1u << i % 8;
    }
    ck_assert_ptr_null(q);
    free(b);
    walk_plan_free(p);
    stream_free(s);
    unlink(path);
}
END_TEST

/* No word of the tables and of the items can be another without being noticed: only arguments that are no addresses, padding, and the
 * number of cores, which are for people. */
START_TEST(damage_behind_a_right_hash_is_refused_or_harmless)
{
    struct stream *s = fake_compile(fake_index("qwen3moe"), FAKE_DECODE);
    struct walk_plan *p = make(s, 0), *q = NULL;
    uint32_t refused = 0, harmless = 0;
    size_t n;
    uint8_t *b = saved(p, &n);
    for (size_t i = 0; i < n - 8; i += i < 200 ? 1 : 3) {
        struct err e = { 0 };
        b[i] ^= 1u << i % 8;
        uint64_t hash = walk_file_hash(b, n - 8);
        memcpy(b + n - 8, &hash, 8);
        if (walk_plan_load_memory("flipped", b, n, s, &q, &e) == 0) {
            free(dump(q, s));
            walk_plan_free(q);
            harmless++;
        } else {
            ck_assert_int_gt(strlen(e.msg), 10);
            refused++;
        }
        b[i] ^= 1u << i % 8;
    }
    ck_assert_uint_gt(refused, harmless / 4);
    ck_assert_uint_gt(harmless, 0);
    free(b);
    walk_plan_free(p);
    stream_free(s);
    unlink(path);
}
END_TEST

START_TEST(other_streams_versions_and_files_are_named)
{
    struct stream *s = fake_compile(0, FAKE_DECODE), *other = fake_compile(0, FAKE_OPTS(4, 4)), *prompt = fake_compile(0, FAKE_PREFILL);
    struct walk_plan *p = make(s, 0), *q = NULL;
    struct err e = { 0 };
    size_t n;
    uint8_t *b = saved(p, &n);
    ck_assert_int_eq(walk_plan_load_memory("a.zwalk", b, n, other, &q, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "of another stream"));
    b[7] = 9;
    ck_assert_int_eq(walk_plan_load_memory("a.zwalk", b, n, s, &q, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "version 9"));
    memcpy(b, "GGUF", 4);
    ck_assert_int_eq(walk_plan_load_memory("model.gguf", b, n, s, &q, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "model.gguf: no lists"));
    ck_assert_int_eq(walk_plan_load("/nonexistent/a.zwalk", s, &q, &e), -ENOENT);
    ck_assert_int_eq(walk_plan_load("/", s, &q, &e), -EINVAL);
    ck_assert_int_eq(walk_plan_save(p, "/nonexistent/a", &e), -ENOENT);
    ck_assert_int_eq(walk_plan_make(prompt, &cards[0], &q, &e), -EINVAL);
    ck_assert_ptr_nonnull(strstr(e.msg, "32 rows"));
    ck_assert_ptr_null(q);
    free(b);
    walk_plan_free(p);
    stream_free(s);
    stream_free(other);
    stream_free(prompt);
    unlink(path);
}
END_TEST

int main(void)
{
    return RUN_TESTS("walk plans", lists_of_every_family_verify, an_item_that_begins_too_early_is_refused,
                     items_that_may_overlap_share_nothing_that_is_written,
                     lists_for_more_work_groups_than_cards_hold_are_refused, loaded_lists_are_the_saved_ones,
                     truncated_and_damaged_files_are_refused, damage_behind_a_right_hash_is_refused_or_harmless,
                     other_streams_versions_and_files_are_named);
}
