/* API keys: which headers open, and that files of keys are read as they are documented. */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "server/auth.h"
#include "tests/lib/run.h"

static struct auth *make(const char *const *keys, uint32_t n, const char *path)
{
    struct auth *a;
    struct err e = { 0 };
    ck_assert_msg(auth_create(keys, n, path, &a, &e) == 0, "%s", e.msg);
    return a;
}

START_TEST(only_the_keys_open)
{
    static const char *const keys[] = { "sk-one", "sk-two" };
    struct auth *a = make(keys, 2, NULL);
    uint64_t one = 0, two = 0, none = 0;
    ck_assert(auth_required(a));
    ck_assert(auth_check(a, "Bearer sk-one", &one));
    ck_assert(auth_check(a, "bearer  sk-two", &two));
    ck_assert_uint_ne(one, two);
    static const char *const wrong[] = { "", "Bearer", "Bearer ", "Bearer sk-on", "Bearer sk-onee", "Bearer sk-one ",
                                         "sk-one", "Basic sk-one", "Bearer Sk-one", "Bearer sk-onesk-one" };
    ck_assert(auth_check_key(a, "sk-two", &none) && none == two);
    ck_assert(!auth_check_key(a, "Bearer sk-two", &none) && !auth_check_key(a, "", &none) && !auth_check_key(a, NULL, &none));
    ck_assert(!auth_check(a, NULL, &none));
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(!auth_check(a, wrong[i], &none), "'%s'", wrong[i]);
    char longer[2 * AUTH_MAX_KEY] = "Bearer sk-one"; /* what is too long is not cut to fit */
    memset(longer + 13, 'x', sizeof longer - 14);
    ck_assert(!auth_check(a, longer, &none));
    auth_destroy(a);
}
END_TEST

START_TEST(the_longest_key_works)
{
    char key[AUTH_MAX_KEY + 1] = "", header[AUTH_MAX_KEY + 10];
    memset(key, 'k', AUTH_MAX_KEY);
    struct auth *a = make((const char *const[]){ key }, 1, NULL);
    uint64_t client;
    snprintf(header, sizeof header, "Bearer %s", key);
    ck_assert(auth_check(a, header, &client));
    header[7 + AUTH_MAX_KEY - 1] = 'l';
    ck_assert(!auth_check(a, header, &client));
    auth_destroy(a);
}
END_TEST

static char path[] = "/tmp/zinc-keys-XXXXXX";

static void write_file(const char *text)
{
    strcpy(path, "/tmp/zinc-keys-XXXXXX");
    int fd = mkstemp(path);
    ck_assert_int_ge(fd, 0);
    ck_assert_int_eq((int)write(fd, text, strlen(text)), (int)strlen(text));
    close(fd);
}

START_TEST(files_have_a_key_a_line)
{
    write_file("# keys of the editors\nalpha # Anna's\n\n  beta\t\r\ngamma");
    struct auth *a = make((const char *const[]){ "delta" }, 1, path);
    uint64_t client;
    unlink(path);
    ck_assert(auth_check(a, "Bearer alpha", &client) && auth_check(a, "Bearer beta", &client));
    ck_assert(auth_check(a, "Bearer gamma", &client) && auth_check(a, "Bearer delta", &client));
    ck_assert(!auth_check(a, "Bearer #", &client) && !auth_check(a, "Bearer Anna's", &client));
    auth_destroy(a);
}
END_TEST

START_TEST(bad_keys_are_named_by_place_not_text)
{
    struct auth *a = NULL;
    struct err e = { 0 };
    write_file("good\nbad secret\n");
    ck_assert_int_eq(auth_create(NULL, 0, path, &a, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, ":2") && !strstr(e.msg, "secret"), "%s", e.msg);
    unlink(path);
    ck_assert_int_eq(auth_create(NULL, 0, path, &a, &e), -ENOENT);
    write_file("# none\n");
    ck_assert_int_eq(auth_create(NULL, 0, path, &a, &e), -EINVAL); /* a typo must not open the server */
    unlink(path);
    ck_assert_int_eq(auth_create((const char *const[]){ "" }, 1, NULL, &a, &e), -EINVAL);
    a = make(NULL, 0, NULL);
    ck_assert(!auth_required(a));
    auth_destroy(a);
}
END_TEST

/* What is no file of keys is not read in part. */
START_TEST(other_files_are_refused)
{
    struct auth *a = NULL;
    struct err e = { 0 };
    write_file("good\n");
    int fd = open(path, O_WRONLY | O_APPEND);
    ck_assert_int_eq((int)write(fd, "\0hidden\n", 8), 8);
    ck_assert_int_eq(auth_create(NULL, 0, path, &a, &e), -EINVAL);
    ck_assert_msg(strstr(e.msg, "NUL") && !strstr(e.msg, "hidden"), "%s", e.msg);
    ck_assert_int_eq(ftruncate(fd, 2 << 20), 0);
    close(fd);
    ck_assert_int_eq(auth_create(NULL, 0, path, &a, &e), -EFBIG);
    unlink(path);
    ck_assert_int_eq(auth_create(NULL, 0, "/", &a, &e), -EISDIR);
}
END_TEST

int main(void)
{
    return RUN_TESTS("http_auth", only_the_keys_open, the_longest_key_works, files_have_a_key_a_line,
                     bad_keys_are_named_by_place_not_text, other_files_are_refused);
}
