/* Every row is looked at once, whatever the numbers of rows and threads, one run after the other. */
#include <check.h>
#include <stdatomic.h>
#include <string.h>

#include "engine/serve/row_crew.h"
#include "tests/lib/run.h"

enum { MOST = 100 };

static atomic_uint seen[MOST];

static void look(void *user, uint32_t i)
{
    atomic_fetch_add(&seen[i], *(unsigned *)user);
}

START_TEST(each_row_is_looked_at_once)
{
    static const uint32_t threads[] = { 1, 2, 5, 8 };
    for (int t = 0; t < 4; t++) {
        struct row_crew *c;
        struct err e = { 0 };
        ck_assert_msg(row_crew_create(threads[t], &c, &e) == 0, "%s", e.msg);
        for (unsigned run = 1; run <= 300; run++) {
            uint32_t n = run % (MOST + 1);
            memset((void *)seen, 0, sizeof seen);
            row_crew_run(c, n, look, &run);
            for (uint32_t i = 0; i < MOST; i++)
                ck_assert_uint_eq(atomic_load(&seen[i]), i < n ? run : 0);
        }
        row_crew_destroy(c);
    }
    row_crew_destroy(NULL);
}
END_TEST

int main(void)
{
    return RUN_TESTS("row_crew", each_row_is_looked_at_once);
}
