/* A run keeps no more resident than the file, the printed plan (KV, state, scratch, IO) and 64 MB. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static char model[256], zinc[256];

static double unit_bytes(const char *u)
{
    return strncmp(u, "GiB", 3) == 0 ? 0x1p30 : strncmp(u, "MiB", 3) == 0 ? 0x1p20 : strncmp(u, "KiB", 3) == 0 ? 0x1p10 : 1;
}

/* "weights 604.2 MiB, kv 224.0 MiB, state 0, scratch 3.1 MiB, io 2.4 MiB" without the weights, in bytes. */
static double plan_bytes(void)
{
    char cmd[1024], line[1024] = "";
    double sum = 0;
    int parts = 0;
    snprintf(cmd, sizeof cmd, "%s graph -m %s --ctx 4096 --plan-only", zinc, model);
    FILE *f = popen(cmd, "r");
    ck_assert_ptr_nonnull(f);
    ck_assert_msg(fgets(line, sizeof line, f) != NULL, "no plan from: %s", cmd);
    ck_assert_int_eq(pclose(f), 0);
    for (char *p = strtok(line, ",\n"); p; p = strtok(NULL, ",\n")) {
        char name[64] = "", unit[64] = "";
        double v = 0;
        if (sscanf(p, " %63s %lf %63s", name, &v, unit) < 2 || strcmp(name, "weights") == 0)
            continue;
        sum += v * unit_bytes(unit);
        parts++;
    }
    ck_assert_msg(parts >= 3, "a plan of %d parts", parts);
    return sum;
}

/* Peak resident bytes of the run; its output goes nowhere. */
static double run_rss(const char *weights)
{
    struct rusage ru;
    int status;
    pid_t pid = fork();
    ck_assert_int_ge(pid, 0);
    if (pid == 0) {
        if (weights)
            setenv("ZINC_CPU_WEIGHTS", weights, 1);
        if (!freopen("/dev/null", "w", stdout) || !freopen("/dev/null", "w", stderr))
            _exit(99);
        execl(zinc, zinc, "run", "-m", model, "--prompt-tokens", "1,2,3,4,5,6,7,8", "-n", "8", "--ctx", "4096", "--print-tokens",
              (char *)NULL);
        _exit(98);
    }
    ck_assert_int_eq(wait4(pid, &status, 0, &ru), pid);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == 0, "zinc run ended with status %x", status);
    return (double)ru.ru_maxrss * 1024;
}

START_TEST(peak_is_file_plus_plan)
{
    struct stat st;
    ck_assert_int_eq(stat(model, &st), 0);
    double limit = (double)st.st_size + plan_bytes() + 64e6;
    double packed = run_rss(NULL), mapped = run_rss("mapped");
    printf("file %.1f MB, plan %.1f MB; peak %.1f MB, with mapped weights %.1f MB, limit %.1f MB\n",
           (double)st.st_size / 1e6, plan_bytes() / 1e6, packed / 1e6, mapped / 1e6, limit / 1e6);
    ck_assert_msg(packed <= limit, "packed weights: peak %.1f MB, limit %.1f MB", packed / 1e6, limit / 1e6);
    ck_assert_msg(mapped <= limit, "mapped weights: peak %.1f MB, limit %.1f MB", mapped / 1e6, limit / 1e6);
}
END_TEST

int main(void)
{
    char dir[] = "/tmp/zinc-rss.XXXXXX";
    const char *build = getenv("ZINC_BUILD") ? getenv("ZINC_BUILD") : "build";
    unsetenv("ZINC_BUILD"); /* the scripts' own: zinc warns about names it does not know */
    snprintf(zinc, sizeof zinc, "%s/zinc", build);
    if (strstr(build, "sanitize") || access(zinc, X_OK) != 0) {
        printf("%s\n", strstr(build, "sanitize") ? "sanitizers have memory of their own" : "no zinc");
        return 77;
    }
    if (!mkdtemp(dir))
        return 1;
    snprintf(model, sizeof model, "%s/m.gguf", dir);
    char cmd[1024];
    snprintf(cmd, sizeof cmd, "%s/mkmodel qwen3-0.6b-q8_0 %s --layers 4", build, model);
    if (system(cmd) != 0) {
        printf("failed: %s\n", cmd);
        rmdir(dir);
        return 1;
    }
    Suite *s = suite_create("resident memory");
    TCase *tc = tcase_create("run");
    tcase_set_timeout(tc, 300);
    tcase_add_test(tc, peak_is_file_plus_plan);
    suite_add_tcase(s, tc);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    unlink(model);
    rmdir(dir);
    return failed != 0;
}
