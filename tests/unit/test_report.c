/* The folder that a failure of a device leaves behind: where others may write as well, it is made anew and for nobody
 * else, whatever was put under its name before. */
#include <check.h>
#include <dirent.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "rt/report.h"
#include "tests/lib/run.h"

static char place[64];

static void enter(void)
{
    strcpy(place, "/tmp/zinc-report-test-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(place));
    ck_assert_int_eq(chdir(place), 0);
}

static void leave(void)
{
    char cmd[128];
    ck_assert_int_eq(chdir("/"), 0);
    snprintf(cmd, sizeof cmd, "rm -rf %s", place);
    ck_assert_int_eq(system(cmd), 0);
}

static int entries(const char *folder)
{
    int n = 0;
    DIR *d = opendir(folder);
    ck_assert_ptr_nonnull(d);
    for (struct dirent *e; (e = readdir(d));)
        n += e->d_name[0] != '.';
    closedir(d);
    return n;
}

static void is_ours(const char *folder)
{
    struct stat st;
    ck_assert_int_eq(lstat(folder, &st), 0);
    ck_assert(S_ISDIR(st.st_mode) && (st.st_mode & 0777) == 0700 && st.st_uid == geteuid());
}

/* The names of this process's reports in the next seconds lead elsewhere. */
START_TEST(links_under_its_name_are_not_followed)
{
    char name[64], folder[256];
    enter();
    ck_assert_int_eq(mkdir("elsewhere", 0755), 0);
    for (time_t t = time(NULL), i = 0; i < 20; i++) {
        struct tm tm;
        time_t at = t + i;
        localtime_r(&at, &tm);
        size_t len = strftime(name, sizeof name, "zinc-report-%Y%m%d-%H%M%S", &tm);
        snprintf(name + len, sizeof name - len, "-%d", (int)getpid());
        ck_assert_int_eq(symlink("elsewhere", name), 0);
    }
    FILE *f = report_open(folder, sizeof folder);
    ck_assert_ptr_nonnull(f);
    fclose(f);
    ck_assert_int_eq(entries("elsewhere"), 0);
    is_ours(folder);
    ck_assert_int_eq(entries(folder), 1);
    leave();
}
END_TEST

START_TEST(a_second_report_does_not_overwrite_the_first)
{
    char folder[2][256], path[300];
    struct stat st;
    enter();
    for (int i = 0; i < 2; i++) {
        FILE *f = report_open(folder[i], sizeof folder[i]);
        ck_assert_ptr_nonnull(f);
        fputs(i ? "second" : "1", f);
        fclose(f);
        is_ours(folder[i]);
    }
    ck_assert_str_ne(folder[0], folder[1]);
    snprintf(path, sizeof path, "%s/report.txt", folder[0]);
    ck_assert_int_eq(stat(path, &st), 0);
    ck_assert_int_eq(st.st_size, 1);
    ck_assert_ptr_null(report_file(folder[0], "report.txt"));
    ck_assert_int_eq(symlink("/dev/full", "link"), 0);
    ck_assert_ptr_null(report_file(".", "link"));
    leave();
}
END_TEST

int main(void)
{
    return RUN_TESTS("report", links_under_its_name_are_not_followed, a_second_report_does_not_overwrite_the_first);
}
