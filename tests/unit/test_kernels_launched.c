/* What the code objects for AMD and the texts for Metal hold and what the op table launches are the same kernels: none that is
 * never run, none that is missing. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/proof/op_cases.h"
#include "engine/proof/op_check.h"
#include "engine/proof/opstream.h"
#include "kernels/klaunch.h"
#include "rt/amd/amd.h"
#include "rt/blob.h"
#include "rt/dispatch.h"
#include "tests/lib/run.h"

/* A large card and a small one of each: short prompts fill the small one with wide work-groups. As rt/amd/tier.c and metal/tier.c
 * have them, for Apple the largest of the chips and one that is smaller than any. */
#define CARD(cores, split)                                                                                             \
    { .n_cores = cores, .shared_max = 64 << 10, .shared_core = 64 << 10, .amd = true, .prompt_split = split }
#define APPLE(cores) { .n_cores = cores, .shared_max = 32 << 10, .shared_core = 32 << 10 }
static const struct {
    uint32_t version; /* of AMD's, 0 for Apple's */
    struct dispatch_target large, small;
} cards[] = {
    { 120001, CARD(64, 0), CARD(12, 0) },
    { 110000, CARD(96, 256), CARD(12, 256) },
    { 0, APPLE(80), APPLE(2) },
};
static bool used[ARRAY_LEN(cards)][KERNEL_COUNT];

static void launch(const struct op_case *c)
{
    struct dispatch_plan *p = NULL;
    struct err e = { 0 };
    struct ops *o = c->make(c);
    ck_assert_msg(ops_finish(o, &e) == 0, "%s: %s", c->name, e.msg);
    uint32_t cap = ops_stream(o)->h.row_cap, rows[] = { cap, 1 }, passes = cap > 1 && cap <= KL_DECODE_ROWS ? 2 : 1; /* rt/replay.c's */
    for (uint32_t t = 0; t < 2 * ARRAY_LEN(cards); t++) {
        for (uint32_t k = 0; k < passes; k++) {
            int rc = dispatch_build(ops_stream(o), t % 2 ? &cards[t / 2].small : &cards[t / 2].large, rows[k], 0, &p, &e);
            ck_assert_msg(rc == 0 || rc == -ENOTSUP, "%s: %s", c->name, e.msg);
            for (uint32_t i = 0; rc == 0 && i < p->n; i++)
                used[t / 2][p->d[i].kernel] = true;
            if (rc == 0)
                dispatch_free(p);
        }
    }
    ops_free(o);
}

/* A plan's frame, which every plan has, and what measures and proves devices: no command asks for them. */
static bool is_a_command(uint32_t kernel)
{
    return kernel != K_step_begin && kernel != K_step_end && kernel != K_roof && kernel != K_ladder_ids &&
           kernel != K_ladder_shared;
}

static bool in_object(const struct amd_chip *chip, uint32_t kernel)
{
    const struct kernel_blob *b = kernel_blob_find(kernel_infos[kernel].module, chip->target);
    struct amd_code code;
    struct amd_kernel found;
    struct err e = { 0 };
    uint64_t n;
    if (!b)
        return false;
    const uint8_t *elf = kernel_blob_bytes(b, &n);
    ck_assert_msg(amd_code_parse(elf, n, chip, kernel_infos[kernel].module, &code, &e) == 0, "%s", e.msg);
    return amd_code_kernel(&code, kernel_infos[kernel].name, &found, &e) == 0;
}

static void check_amd(uint32_t card)
{
    const struct amd_chip *chip = amd_chip_of(cards[card].version);
    if (!kernel_blob_find("basic", chip->target))
        return; /* built without the compiler for AMD */
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        bool there = in_object(chip, k);
        ck_assert_msg(there || !used[card][k], "%s: %s is launched and not in the object", chip->name, kernel_infos[k].name);
        ck_assert_msg(!there || used[card][k] || !is_a_command(k), "%s: %s is in the object and no case launches it", chip->name,
                      kernel_infos[k].name);
    }
}

static bool in_text(uint32_t kernel)
{
    const struct kernel_blob *b = kernel_blob_find(kernel_infos[kernel].module, "msl");
    char entry[96];
    uint64_t n;
    snprintf(entry, sizeof entry, "kernel void %s(", kernel_infos[kernel].name);
    return b && strstr(kernel_blob_bytes(b, &n), entry);
}

/* Which prepare the inputs of products of few rows elsewhere, and on Hopper of prompts. */
static bool not_for_apple(uint32_t kernel)
{
    return kernel == K_act_q8 || kernel == K_act_lanes || kernel == K_act_half;
}

static void check_texts(uint32_t card)
{
    if (!kernel_blob_find("basic", "msl"))
        return;
    for (uint32_t k = 0; k < KERNEL_COUNT; k++) {
        ck_assert_msg(in_text(k) || !used[card][k], "%s is launched and in no text", kernel_infos[k].name);
        ck_assert_msg(!in_text(k) || used[card][k] || !is_a_command(k) || not_for_apple(k), "%s is in a text and no case launches it",
                      kernel_infos[k].name);
    }
}

START_TEST(all_that_is_there_and_no_more)
{
    struct op_case other;
    char name[96];
    ops_set_without_data(true);
    for (const struct op_case *c = op_cases; c->name; c++) {
        launch(c);
        for (uint32_t i = 0; op_variant(c, i, &other, name); i++)
            launch(&other);
    }
    for (uint32_t i = 0; i < ARRAY_LEN(cards); i++) {
        if (cards[i].version)
            check_amd(i);
        else
            check_texts(i);
    }
}
END_TEST

int main(void)
{
    Suite *s = suite_create("kernels launched");
    TCase *t = tcase_create("kernels launched");
    tcase_set_timeout(t, 300);
    tcase_add_test(t, all_that_is_there_and_no_more);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed > 0;
}
