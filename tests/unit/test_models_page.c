/* doc/models.md has the families, the types and the tiers that the code has, and no others: what came since it was made is missing there
 * until `make models-page` was run. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "engine/look.h"
#include "model/model.h"
#include "model/quant.h"

static char *page;

static void setup(void)
{
    FILE *f = fopen("doc/models.md", "rb");
    ck_assert_msg(f, "no doc/models.md: the test runs in the repository's root");
    page = calloc(1, 1 << 20);
    ck_assert_uint_gt(fread(page, 1, (1 << 20) - 1, f), 0);
    fclose(f);
}

static void teardown(void)
{
    free(page);
}

/* The section's table, its head first; to the next empty line. Cuts the page there. */
static char *table_of(const char *heading)
{
    char *at = strstr(page, heading), *end;
    ck_assert_msg(at, "no section '%s'", heading);
    at = strstr(at, "\n| |");
    ck_assert_msg(at, "no table below '%s'", heading);
    if ((end = strstr(++at, "\n\n")))
        end[1] = 0;
    return at;
}

static bool has_row(const char *table, const char *name)
{
    char text[80];
    snprintf(text, sizeof text, "\n| %s ", name);
    return strstr(table, text);
}

static bool has_column(const char *table, const char *name)
{
    char text[80];
    snprintf(text, sizeof text, " %s |", name);
    const char *at = strstr(table, text);
    return at && at < strchr(table, '\n');
}

static const char *const families[] = {
#define X(name, arch) arch,
    MODEL_FAMILIES(X)
#undef X
};

static const char *const types[] = {
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) #NAME,
#include "kernels/qtypes.def"
};

#define MISSING "%s is missing in '%s' of doc/models.md: make models-page"

START_TEST(every_family_and_every_tier_is_there)
{
    const char *table = table_of("## Families by tier"), *name;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        ck_assert_msg(has_row(table, families[i]), MISSING, families[i], "Families by tier");
    for (size_t i = 0; (name = engine_tier_name(i)); i++)
        if (strcmp(name, "auto") != 0 && strcmp(name, "null") != 0 && strcmp(name, "cuda") != 0)
            ck_assert_msg(has_column(table, name), MISSING, name, "Families by tier");
}
END_TEST

START_TEST(every_type_is_there)
{
    static const char *const sections[] = { "## Families by type", "## Types by tier" }; /* the later one first: tables are cut off */
    for (size_t s = 0; s < 2; s++) {
        const char *table = table_of(sections[s]);
        for (size_t i = 0; i < sizeof types / sizeof *types; i++)
            ck_assert_msg(has_row(table, types[i]), MISSING, types[i], sections[s]);
        for (const char *row = strstr(table, "\n| "); row; row = strstr(row + 1, "\n| ")) {
            char name[64];
            enum qtype t;
            struct err e;
            ck_assert_int_eq(sscanf(row, "\n| %63s", name), 1);
            ck_assert_msg(quant_type_parse(name, &t, &e) == 0, "'%s' of doc/models.md is no type any more: make models-page", name);
        }
    }
}
END_TEST

START_TEST(every_family_is_there_in_every_type)
{
    const char *table = table_of("## Families by type");
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        ck_assert_msg(has_column(table, families[i]), MISSING, families[i], "Families by type");
    ck_assert_msg(!strstr(table, "|   |"), "'Families by type' of doc/models.md has holes: make models-page");
}
END_TEST

int main(void)
{
    Suite *s = suite_create("models_page");
    TCase *tc = tcase_create("models_page");
    tcase_add_checked_fixture(tc, setup, teardown);
    tcase_add_test(tc, every_family_and_every_tier_is_there);
    tcase_add_test(tc, every_type_is_there);
    tcase_add_test(tc, every_family_is_there_in_every_type);
    suite_add_tcase(s, tc);
    SRunner *sr = srunner_create(s);
    srunner_run_all(sr, CK_NORMAL);
    int failed = srunner_ntests_failed(sr);
    srunner_free(sr);
    return failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
