/* The prefix tree: what is told by the headline of each test, then random operations beside plain arrays. */
#include <check.h>

#include "tests/unit/prefix_model.h"

static struct prefix_tree t;
static int32_t count[2000]; /* 0, 1, 2, ... */

static void setup(void)
{
    for (int32_t i = 0; i < 2000; i++)
        count[i] = i;
    ck_assert_int_eq(prefix_tree_init(&t, 100000), 0);
}

static void teardown(void)
{
    prefix_tree_finish(&t);
}

static struct prefix_blob *blob(uint64_t bytes)
{
    return prefix_tree_blob(&t, &t.any, bytes - sizeof(struct prefix_blob));
}

START_TEST(a_sequence_grows_in_place)
{
    struct prefix_node *end = &t.any.root;
    for (uint32_t i = 0; i < 1000; i++)
        end = prefix_tree_hold(&t, end, 3, count + i, 1);
    ck_assert_uint_eq(t.n_nodes, (1000 + PREFIX_RUN - 1) / PREFIX_RUN);
    ck_assert_uint_eq(prefix_node_end(end), 1000);
}
END_TEST

START_TEST(what_parts_is_split_and_joins_again)
{
    int32_t other[60];
    memcpy(other, count, sizeof other);
    other[40] = 999;
    struct prefix_node *a = prefix_tree_hold(&t, &t.any.root, 0, count, 100);
    struct prefix_node *b = prefix_tree_hold(&t, &t.any.root, 200, other, 60);
    ck_assert_uint_eq(t.n_nodes, 3);
    ck_assert_ptr_eq(a->parent, b->parent);
    ck_assert(prefix_node_end(a->parent) == 40 && prefix_node_in_slot(a->parent, 0) &&
              prefix_node_in_slot(a->parent, 200));
    ck_assert(!prefix_node_in_slot(a, 200) && !prefix_node_in_slot(b, 0));
    ck_assert_ptr_eq(prefix_tree_cut(&t, b, 200, 0), &t.any.root);
    ck_assert_uint_eq(t.n_nodes, 1);
    ck_assert(a->begin == 0 && a->n == 100 && memcmp(a->tok, count, 100 * sizeof *count) == 0);
}
END_TEST

START_TEST(a_saved_run_outlives_its_slot_and_is_found_by_parts)
{
    struct prefix_node *a = prefix_tree_hold(&t, &t.any.root, 0, count, 100);
    struct prefix_at at = { &t.any.root, 0 };
    prefix_tree_put_run(&t, a, blob(5000));
    prefix_tree_cut(&t, a, 0, 0);
    ck_assert(prefix_tree_next(&t, &at, count, 70));
    ck_assert_uint_eq(at.n, 70);
    ck_assert(at.node->run && !prefix_node_in_slots(at.node));
    ck_assert(!prefix_tree_next(&t, &at, count, 70));
    struct prefix_node *half = prefix_tree_hold(&t, &t.any.root, 1, count, 70);
    ck_assert(half->run == a->run && half->run && a->begin == 70); /* one blob, two nodes */
    ck_assert_uint_eq(t.bytes, 5000);
    prefix_tree_cut(&t, half, 1, 0);
    ck_assert_uint_eq(t.n_nodes, 1);
}
END_TEST

START_TEST(the_oldest_goes_first_and_ends_before_beginnings)
{
    struct prefix_node *end[3];
    for (uint32_t i = 0; i < 3; i++) { /* three sequences of three runs each: 90000 bytes */
        prefix_tree_tick(&t);
        end[i] = prefix_tree_hold(&t, &t.any.root, i, count + 300 * i, 3 * PREFIX_RUN);
        for (struct prefix_node *n = end[i]; n != &t.any.root; n = n->parent)
            prefix_tree_put_run(&t, n, blob(10000));
    }
    prefix_tree_tick(&t);
    prefix_tree_touch_path(&t, end[0]);
    prefix_tree_tick(&t);
    struct prefix_blob *b = blob(25000); /* two of sequence 1, from its end */
    ck_assert_ptr_nonnull(b);
    free(b);
    ck_assert_uint_eq(t.evictions, 2);
    ck_assert(!end[1]->run && !end[1]->parent->run && end[1]->parent->parent->run);
    ck_assert(end[0]->run && end[2]->run);
}
END_TEST

START_TEST(what_the_operation_uses_is_not_evicted)
{
    struct prefix_node *a = prefix_tree_hold(&t, &t.any.root, 0, count, 100);
    struct prefix_node *b = prefix_tree_hold(&t, &t.any.root, 1, count + 1, 100);
    prefix_tree_put_run(&t, a, blob(50000));
    prefix_tree_put_state(&t, b, blob(30000));
    ck_assert_ptr_null(blob(20001)); /* all are of this tick */
    prefix_tree_tick(&t);
    prefix_tree_touch(&t, a->run);
    ck_assert_ptr_null(blob(50001));
    ck_assert(b->state); /* nor evicted in vain */
    free(blob(50000));
    ck_assert(a->run && !b->state);
    ck_assert_ptr_null(blob(100001));
}
END_TEST

START_TEST(nobody_finds_what_others_have)
{
    struct prefix_owner *one = prefix_tree_owner(&t, 1), *two = prefix_tree_owner(&t, 2);
    ck_assert(one && two && one != two && prefix_tree_owner(&t, 1) == one && prefix_tree_owner(&t, 0) == &t.any);
    struct prefix_node *a = prefix_tree_hold(&t, &one->root, 0, count, 100);
    prefix_tree_put_run(&t, a, prefix_tree_blob(&t, one, 5000));
    struct prefix_at none = { &two->root, 0 }, neither = { &t.any.root, 0 }, own = { &one->root, 0 };
    ck_assert(!prefix_tree_next(&t, &none, count, 100) && !prefix_tree_next(&t, &neither, count, 100));
    ck_assert(prefix_tree_next(&t, &own, count, 100));
    struct prefix_node *b = prefix_tree_hold(&t, &two->root, 1, count, 100);
    ck_assert(a != b && !b->run && !prefix_node_in_slot(b, 0));
    ck_assert_ptr_eq(prefix_tree_cut(&t, a, 0, 0), &one->root);
    ck_assert_ptr_eq(prefix_tree_cut(&t, b, 1, 0), &two->root);
}
END_TEST

/* n runs of 10,000 bytes, each an operation of its own; returns how many found room. */
static int save_some(struct prefix_owner *o, int32_t first, int n)
{
    int saved = 0;
    for (int i = 0; i < n; i++) {
        int32_t tok = first + i;
        prefix_tree_tick(&t);
        struct prefix_node *x = prefix_tree_hold(&t, &o->root, 0, &tok, 1);
        struct prefix_blob *b = prefix_tree_blob(&t, o, 10000 - sizeof *b);
        if (b)
            prefix_tree_put_run(&t, x, b);
        saved += b != NULL;
        prefix_tree_cut(&t, x, 0, 0);
    }
    return saved;
}

START_TEST(nobody_evicts_all_of_another_ones)
{
    struct prefix_owner *one = prefix_tree_owner(&t, 1), *two, *three;
    ck_assert_int_eq(save_some(one, 0, 10), 10); /* alone he has all */
    two = prefix_tree_owner(&t, 2);
    ck_assert_int_eq(save_some(two, 0, 3), 3);
    ck_assert(one->bytes == 70000 && two->bytes == 30000);
    ck_assert_int_eq(save_some(one, 100, 50), 50); /* greedy: his own go, none of the other's */
    ck_assert(one->bytes == 70000 && two->bytes == 30000);
    ck_assert_int_eq(save_some(two, 100, 50), 50); /* and down to a half he has to give way */
    ck_assert(one->bytes == 50000 && two->bytes == 50000);
    t.now_ns += PREFIX_FRESH_NS + 1; /* both are gone */
    three = prefix_tree_owner(&t, 3);
    ck_assert_int_eq(save_some(three, 0, 10), 10);
    ck_assert(!one->bytes && !two->bytes && three->bytes == 100000);
    prefix_tree_owner(&t, 1);
    prefix_tree_tick(&t);
    ck_assert_uint_eq(prefix_tree_room(&t, one), 50000);
    ck_assert_ptr_null(prefix_tree_blob(&t, one, 50001)); /* more than may be taken */
    ck_assert_uint_eq(three->bytes, 100000);              /* nothing in vain        */
}
END_TEST

START_TEST(no_memory_to_keep_is_fine)
{
    t.max_bytes = 0;
    prefix_tree_hold(&t, &t.any.root, 0, count, 100);
    ck_assert_ptr_null(prefix_tree_blob(&t, &t.any, 1));
}
END_TEST

START_TEST(random_operations_agree_with_arrays)
{
    static struct prefix_model m;
    uint32_t saved = 0, states = 0, evictions = 0;
    uint8_t in[1500];
    uint64_t x = 88172645463325252u + (uint64_t)_i;
    for (int round = 0; round < 25; round++) {
        for (size_t i = 0; i < sizeof in; i++) {
            x ^= x << 13;
            x ^= x >> 7;
            x ^= x << 17;
            in[i] = (uint8_t)(x >> 32);
        }
        pm_run(&m, in, sizeof in);
        saved += m.saved;
        states += m.states;
        evictions += (uint32_t)m.t.evictions;
        pm_finish(&m);
    }
    ck_assert(saved > 100 && states > 100 && evictions > 50);
}
END_TEST

int main(void)
{
    Suite *s = suite_create("prefix_tree");
    TCase *c = tcase_create("tree");
    tcase_add_checked_fixture(c, setup, teardown);
    tcase_add_test(c, a_sequence_grows_in_place);
    tcase_add_test(c, what_parts_is_split_and_joins_again);
    tcase_add_test(c, a_saved_run_outlives_its_slot_and_is_found_by_parts);
    tcase_add_test(c, the_oldest_goes_first_and_ends_before_beginnings);
    tcase_add_test(c, what_the_operation_uses_is_not_evicted);
    tcase_add_test(c, nobody_finds_what_others_have);
    tcase_add_test(c, nobody_evicts_all_of_another_ones);
    tcase_add_test(c, no_memory_to_keep_is_fine);
    suite_add_tcase(s, c);
    c = tcase_create("random");
    tcase_set_timeout(c, 300);
    tcase_add_loop_test(c, random_operations_agree_with_arrays, 0, 4);
    suite_add_tcase(s, c);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_ENV);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
