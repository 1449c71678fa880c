/* A model's process: what is said to it as soon as it is there. The program that it becomes is this one. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef ZINC_CURL
#include "base/flag.h"
#include "server/router/child.h"
#include "tests/lib/run.h"

static struct flag told;

static void on_signal(int sig)
{
    (void)sig;
    flag_set(&told, true);
}

/* Also before it is the new program, while it still has the handlers of the one that started it. */
START_TEST(a_signal_is_never_too_early)
{
    static const char *const argv[] = { "zinc", NULL };
    struct sigaction sa = { .sa_handler = on_signal };
    char dir[] = "/tmp/zinc-child-XXXXXX", how[64];
    ck_assert_ptr_nonnull(mkdtemp(dir));
    sigaction(SIGTERM, &sa, NULL);
    for (int i = 0; i < 100; i++) {
        struct child c;
        struct err e = { 0 };
        sigset_t now;
        ck_assert_msg(child_start(&c, "m", argv, dir, 0, &e) == 0, "%s", e.msg);
        child_signal(&c, SIGTERM);
        ck_assert_int_eq(pthread_sigmask(SIG_SETMASK, NULL, &now), 0);
        ck_assert(!sigismember(&now, SIGTERM));
        for (int k = 0; !child_ended(&c, how); k++) {
            ck_assert_msg(k < 5000, "process %d goes on after SIGTERM", i);
            usleep(1000);
        }
        ck_assert_msg(strstr(how, "signal 15"), "process %d: %s", i, how);
    }
    ck_assert(!flag_is_set(&told));
    rmdir(dir);
}
END_TEST

int main(int argc, char **argv)
{
    (void)argv;
    while (argc > 1) /* a model's process */
        pause();
    return RUN_TESTS("router_child", a_signal_is_never_too_early);
}
#else
int main(void)
{
    printf("built without libcurl: there is no router\n");
    return 77;
}
#endif
