/* Where a module's kernels come from: an embedded metallib first, its text where there is none that this macOS takes, a line
 * where neither is. The table of embedded objects is this program's own, with one module; it runs itself on build/metalsim. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/embed.h"
#include "rt/blob.h"
#include "rt/tier.h"
#include "tests/lib/run.h"

EMBED_FILE(text, "build/kernels/msl/basic.metal.zst");
EMBED_FILE(metallib, "build/kernels/msl/basic.metallib.zst");
extern const uint8_t text_begin[], text_end[], metallib_begin[], metallib_end[];

enum { TEXT, METALLIB, N };
static _Atomic(uint8_t *) bytes[N];
const struct kernel_blob kernel_blobs[] = {
    { "basic", "msl", text_begin, text_end, &bytes[TEXT] },
    { "basic", "metallib", metallib_begin, metallib_end, &bytes[METALLIB] },
};
const uint32_t n_kernel_blobs = N;

extern const struct tier_driver tier_driver_metal;

/* In place of what is embedded: as many bytes that nobody takes. */
static void spoil(int which)
{
    uint64_t n;
    uint8_t *own = (uint8_t *)kernel_blob_bytes(&kernel_blobs[which], &n);
    memset(own, 'x', n);
}

static int open_it(struct err *e)
{
    const struct tier_opts o = { .device = -1 };
    struct tier *t = NULL;
    int rc = tier_driver_metal.open(&o, &t, e); /* which runs a kernel, and looks at its results */
    if (!rc)
        tier_close(t);
    return rc;
}

static void fresh(void)
{
    for (int i = 0; i < N; i++) {
        free(bytes[i]);
        bytes[i] = NULL;
    }
}

START_TEST(a_metallib_is_taken_before_the_text)
{
    struct err e = { 0 };
    fresh();
    spoil(TEXT);
    ck_assert_msg(open_it(&e) == 0, "%s", e.msg);
}
END_TEST

START_TEST(one_that_is_not_taken_gives_way_to_the_text)
{
    struct err e = { 0 };
    fresh();
    spoil(METALLIB);
    ck_assert_msg(open_it(&e) == 0, "%s", e.msg);
}
END_TEST

START_TEST(neither_is_one_line)
{
    struct err e = { 0 };
    fresh();
    spoil(TEXT);
    spoil(METALLIB);
    ck_assert_int_lt(open_it(&e), 0);
    ck_assert_msg(strstr(e.msg, "metal: the driver does not take the kernels of module basic: MTLLibraryErrorDomain 3"), "%s", e.msg);
    ck_assert_ptr_null(strchr(e.msg, '\n'));
    fresh();
}
END_TEST

int main(int argc, char **argv)
{
    const char *build = getenv("ZINC_BUILD");
    char sim[4096];
    snprintf(sim, sizeof sim, "%s/metalsim", build ? build : "build");
    if (!getenv("METALSIM")) {
        if (build && strchr(build, '/')) {
            printf("the release build runs it: a sanitizer's runtime wants to be loaded first\n");
            return 77;
        }
        if (access(sim, X_OK)) {
            printf("no %s in this build\n", sim);
            return 77;
        }
        setenv("ZINC_METAL_CACHE", "none", 1);
        execl(sim, sim, argv[0], (char *)NULL);
        return 1;
    }
    TCase *t = tcase_create("library");
    tcase_add_test(t, a_metallib_is_taken_before_the_text);
    tcase_add_test(t, one_that_is_not_taken_gives_way_to_the_text);
    tcase_add_test(t, neither_is_one_line);
    Suite *s = suite_create("metal library");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
