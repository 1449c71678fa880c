/* A unix socket's path: what is there and is no dead socket stays as it is, and at the end only our own goes. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "server/listen.h"
#include "tests/lib/run.h"

static char dir[] = "/tmp/zinc-listen-XXXXXX";
static char path[64], host[80], other[64];

static void setup(void)
{
    strcpy(dir + strlen(dir) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/at", dir);
    snprintf(other, sizeof other, "%s/other", dir);
    snprintf(host, sizeof host, "unix:%s", path);
}

static void teardown(void)
{
    unlink(path);
    rmdir(path);
    unlink(other);
    rmdir(dir);
}

static void write_file(const char *name)
{
    FILE *f = fopen(name, "w");
    ck_assert_ptr_nonnull(f);
    fputs("weights", f);
    fclose(f);
}

static void check_file(const char *name)
{
    char text[16] = "";
    FILE *f = fopen(name, "r");
    ck_assert_msg(f != NULL, "%s is gone", name);
    ck_assert_ptr_nonnull(fgets(text, sizeof text, f));
    ck_assert_str_eq(text, "weights");
    fclose(f);
}

static void refused(const char *word)
{
    struct listener l;
    struct err e = { 0 };
    ck_assert_int_eq(listener_open(host, 0, false, &l, &e), -EADDRINUSE);
    ck_assert_msg(strstr(e.msg, path) && strstr(e.msg, word) && !strchr(e.msg, '\n'), "%s", e.msg);
    listener_close(&l);
}

static int dial(void)
{
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0), rc = connect(fd, (struct sockaddr *)&a, sizeof a);
    close(fd);
    return rc;
}

START_TEST(a_file_stays)
{
    setup();
    write_file(path);
    refused("a file");
    check_file(path);
    teardown();
}
END_TEST

START_TEST(a_folder_stays)
{
    setup();
    ck_assert_int_eq(mkdir(path, 0700), 0);
    refused("a folder");
    struct stat st;
    ck_assert(lstat(path, &st) == 0 && S_ISDIR(st.st_mode));
    teardown();
}
END_TEST

START_TEST(a_link_and_what_it_points_to_stay)
{
    setup();
    struct stat st;
    write_file(other);
    ck_assert_int_eq(symlink(other, path), 0);
    refused("symbolic link");
    check_file(other);
    ck_assert(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
    unlink(other); /* and one that points nowhere */
    refused("symbolic link");
    ck_assert(lstat(path, &st) == 0 && S_ISLNK(st.st_mode));
    teardown();
}
END_TEST

START_TEST(a_fifo_stays)
{
    setup();
    struct stat st;
    ck_assert_int_eq(mkfifo(path, 0600), 0);
    refused("no socket");
    ck_assert(lstat(path, &st) == 0 && S_ISFIFO(st.st_mode));
    teardown();
}
END_TEST

START_TEST(a_dead_socket_is_replaced)
{
    setup();
    struct sockaddr_un a = { .sun_family = AF_UNIX };
    struct listener l;
    struct err e = { 0 };
    strcpy(a.sun_path, path);
    int fd = socket(AF_UNIX, SOCK_STREAM, 0);
    ck_assert(!bind(fd, (struct sockaddr *)&a, sizeof a) && !listen(fd, 1));
    close(fd);
    ck_assert_msg(listener_open(host, 0, false, &l, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(dial(), 0);
    listener_close(&l);
    ck_assert_int_ne(access(path, F_OK), 0);
    teardown();
}
END_TEST

START_TEST(a_live_one_stays)
{
    setup();
    struct listener l;
    struct err e = { 0 };
    ck_assert_msg(listener_open(host, 0, false, &l, &e) == 0, "%s", e.msg);
    refused("another server");
    ck_assert_int_eq(dial(), 0);
    listener_close(&l);
    teardown();
}
END_TEST

START_TEST(at_the_end_only_our_own_goes)
{
    setup();
    struct listener l, next;
    struct err e = { 0 };
    ck_assert_msg(listener_open(host, 0, false, &l, &e) == 0, "%s", e.msg);
    unlink(path);
    write_file(path);
    listener_close(&l);
    check_file(path);
    unlink(path);
    ck_assert_msg(listener_open(host, 0, false, &l, &e) == 0, "%s", e.msg);
    ck_assert_int_eq(rename(path, other), 0); /* its place is taken by a server that came later */
    ck_assert_msg(listener_open(host, 0, false, &next, &e) == 0, "%s", e.msg);
    listener_close(&l);
    ck_assert_int_eq(dial(), 0);
    listener_close(&next);
    teardown();
}
END_TEST

int main(void)
{
    return RUN_TESTS("listen", a_file_stays, a_folder_stays, a_link_and_what_it_points_to_stay, a_fifo_stays,
                     a_dead_socket_is_replaced, a_live_one_stays, at_the_end_only_our_own_goes);
}
