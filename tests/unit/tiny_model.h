/* tests/unit/tiny_model.h: a synthetic model for tests of whole engines. Models are the same whichever build of mkmodel writes
 * them: the release build's does where it is made, as one that is watched takes several times as long. */
#ifndef ZINC_TESTS_UNIT_TINY_MODEL_H
#define ZINC_TESTS_UNIT_TINY_MODEL_H

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

static inline const char *tiny_model_maker(void)
{
    static char path[512];
    const char *build = getenv("ZINC_BUILD");
    if (!build || access("build/mkmodel", X_OK) == 0)
        return "build/mkmodel";
    snprintf(path, sizeof path, "%s/mkmodel", build);
    return path;
}

static inline void tiny_model_or_skip(void)
{
    if (access(tiny_model_maker(), X_OK) == 0)
        return;
    printf("no %s: make first\n", tiny_model_maker());
    exit(77);
}

/* Writes the preset to `path`, whose XXXXXX are replaced. */
static inline void tiny_model(char *path, const char *preset)
{
    char cmd[1024];
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    close(fd);
    snprintf(cmd, sizeof cmd, "ASAN_OPTIONS=detect_leaks=0 %s %s %s >/dev/null", tiny_model_maker(), preset, path);
    ck_assert_msg(system(cmd) == 0, "%s failed", cmd);
}

#endif
