/* What include/zinc.h promises to threads: models are independent, sessions of one model take turns and give what
 * they give alone, a session is one thread's at a time, and a cancel from another one ends what runs and is never
 * lost. */
#include <dirent.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stdlib.h>
#include <unistd.h>

#include "tests/lib/run.h"
#include "tests/unit/libzinc.h"

enum { N = 24 };

struct run {
    zinc_model *m;
    const char *prompt;
    char text[512];
    int rc, end;
    zinc_error e;
};

/* Check's asserts are for the main thread: what went wrong is looked at there. */
static void *run(void *user)
{
    struct run *r = user;
    int32_t ids[64];
    size_t n;
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0", .max_tokens = N };
    zinc_piece p = { .size = sizeof p };
    zinc_session *s = NULL;
    zinc_gen *g = NULL;
    if ((r->rc = zinc_tokenize(r->m, r->prompt, strlen(r->prompt), 0, ids, 64, &n, &r->e)) == 0 &&
        (r->rc = zinc_session_open(r->m, &s, &r->e)) == 0 && (r->rc = zinc_generate(s, ids, n, &o, &g, &r->e)) == 0)
        while ((r->rc = zinc_gen_next(g, &p, &r->e)) == 1)
            strcat(r->text, p.text);
    zinc_gen_close(g);
    zinc_session_close(s);
    return NULL;
}

static const char *const prompts[] = { "The cat", "What is 27 + 48?", "Once upon a time", "def main" };

START_TEST(sessions_on_threads_give_what_they_give_alone)
{
    zinc_model *m = open_demo(4, 128);
    struct run alone[4] = { 0 }, together[4] = { 0 };
    pthread_t t[4];
    for (int i = 0; i < 4; i++) {
        alone[i].m = together[i].m = m;
        alone[i].prompt = together[i].prompt = prompts[i];
        run(&alone[i]);
        ck_assert_msg(alone[i].rc == 0, "%s", alone[i].e.text);
    }
    for (int i = 0; i < 4; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, run, &together[i]), 0);
    for (int i = 0; i < 4; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 4; i++) {
        ck_assert_msg(together[i].rc == 0, "%s", together[i].e.text);
        ck_assert_str_eq(together[i].text, alone[i].text);
    }
    zinc_model_close(m);
}
END_TEST

static void *open_and_run(void *user)
{
    struct run *r = user;
    zinc_model_opts o = { .size = sizeof o, .path = DEMO, .tier = "cpu", .context = 128, .threads = 1 };
    if ((r->rc = zinc_model_open(&o, &r->m, &r->e)) == 0)
        run(r);
    zinc_model_close(r->m);
    return NULL;
}

START_TEST(models_are_independent)
{
    struct run r[3] = { 0 };
    pthread_t t[3];
    for (int i = 0; i < 3; i++) {
        r[i].prompt = prompts[0];
        ck_assert_int_eq(pthread_create(&t[i], NULL, open_and_run, &r[i]), 0);
    }
    for (int i = 0; i < 3; i++)
        pthread_join(t[i], NULL);
    for (int i = 0; i < 3; i++) {
        ck_assert_msg(r[i].rc == 0, "%s", r[i].e.text);
        ck_assert(r[i].text[0]);
        ck_assert_str_eq(r[i].text, r[0].text);
    }
}
END_TEST

/* ---- cancelling, held in a progress callback so that it is sure to run ---- */

struct gate {
    pthread_mutex_t lock;
    pthread_cond_t moved;
    bool inside, go_on;
};

static int hold(void *user, const char *what, uint64_t done, uint64_t total)
{
    struct gate *g = user;
    pthread_mutex_lock(&g->lock);
    g->inside = true;
    pthread_cond_broadcast(&g->moved);
    while (!g->go_on)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
    return 0;
}

static void await_inside(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    while (!g->inside)
        pthread_cond_wait(&g->moved, &g->lock);
    pthread_mutex_unlock(&g->lock);
}

static void let_go(struct gate *g)
{
    pthread_mutex_lock(&g->lock);
    g->go_on = true;
    pthread_cond_broadcast(&g->moved);
    pthread_mutex_unlock(&g->lock);
}

struct held {
    zinc_gen *g;
    int rc;
    zinc_error e;
};

static void *next(void *user)
{
    struct held *h = user;
    zinc_piece p = { .size = sizeof p };
    h->rc = zinc_gen_next(h->g, &p, &h->e);
    return NULL;
}

START_TEST(another_thread_cancels_and_is_refused_otherwise)
{
    zinc_model_opts o = {
        .size = sizeof o, .path = DEMO, .tier = "cpu", .chunk = 32, .context = 256, .sessions = 2, .threads = 1
    };
    zinc_model *m;
    OK(zinc_model_open(&o, &m, &err));
    zinc_session *s = open_session(m);
    struct gate gate = { PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, false, false };
    zinc_gen_opts go = { .size = sizeof go, .sampling = "temp=0", .progress = hold, .progress_user = &gate };
    static int32_t ids[200];
    struct held h = { 0 };
    pthread_t t;
    size_t n = 1;
    char text[512];
    OK(zinc_generate(s, ids, 200, &go, &h.g, &err));
    ck_assert_int_eq(pthread_create(&t, NULL, next, &h), 0);
    await_inside(&gate);
    /* it is inside of zinc_gen_next now: the session is refused, the model's other sessions go on */
    FAILS(zinc_session_tokens(s, NULL, 0, &n, &err), -EBUSY, "one thread at a time");
    FAILS(zinc_gen_info_get(h.g, &(zinc_gen_info){ .size = sizeof(zinc_gen_info) }, &err), -EBUSY,
          "one thread at a time");
    continue_greedily(m, "The cat", 5, text, sizeof text);
    ck_assert(text[0]);
    zinc_session_cancel(s);
    let_go(&gate);
    pthread_join(t, NULL);
    ck_assert_msg(h.rc == -ECANCELED, "%d %s", h.rc, h.e.text);
    zinc_gen_info i = { .size = sizeof i };
    OK(zinc_gen_info_get(h.g, &i, &err));
    ck_assert_int_eq(i.end, ZINC_END_CANCELLED);
    zinc_gen_close(h.g);
    OK(zinc_session_truncate(s, 0, &err));
    OK(zinc_session_eval(s, ids, 3, NULL, 0, &err)); /* the cancel was used up */
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

START_TEST(a_cancel_before_its_time_is_not_lost)
{
    zinc_model *m = open_demo(1, 128);
    zinc_session *s = open_session(m);
    int32_t ids[16];
    size_t n = tokens_of(m, "The cat", ids, 16), held;
    zinc_gen_opts o = { .size = sizeof o, .sampling = "temp=0" };
    zinc_piece p = { .size = sizeof p };
    zinc_gen_info i = { .size = sizeof i };
    zinc_gen *g;
    zinc_session_cancel(s);
    FAILS(zinc_session_eval(s, ids, n, NULL, 0, &err), -ECANCELED, "cancelled");
    OK(zinc_session_tokens(s, NULL, 0, &held, &err));
    ck_assert_uint_eq(held, 0);
    OK(zinc_session_eval(s, ids, n, NULL, 0, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    ck_assert_int_eq(zinc_gen_next(g, &p, &err), 1);
    zinc_session_cancel(s);
    ck_assert_int_eq(zinc_gen_next(g, &p, &err), 0); /* an answer that was begun ends: no failure */
    OK(zinc_gen_info_get(g, &i, &err));
    ck_assert_int_eq(i.end, ZINC_END_CANCELLED);
    zinc_gen_close(g);
    OK(zinc_session_truncate(s, 0, &err));
    OK(zinc_generate(s, ids, n, &o, &g, &err));
    zinc_session_cancel(s);
    zinc_gen_close(g); /* which was meant */
    OK(zinc_session_eval(s, ids, n, NULL, 0, &err));
    zinc_session_close(s);
    zinc_model_close(m);
}
END_TEST

struct tokenizing {
    zinc_model *m;
    int failed;
};

static void *tokenise_much(void *user)
{
    struct tokenizing *x = user;
    int32_t ids[64], again[64];
    size_t n, n_again;
    x->failed = zinc_tokenize(x->m, "What is 27 + 48?", 16, 0, ids, 64, &n, NULL);
    for (int k = 0; k < 200 && !x->failed; k++)
        x->failed = zinc_tokenize(x->m, "What is 27 + 48?", 16, 0, again, 64, &n_again, NULL) || n != n_again ||
                    memcmp(ids, again, n * sizeof *ids);
    return NULL;
}

START_TEST(text_is_for_any_thread_while_others_generate)
{
    zinc_model *m = open_demo(1, 128);
    struct tokenizing x[2] = { { m, -1 }, { m, -1 } };
    struct run r = { .m = m, .prompt = prompts[0] };
    pthread_t t[2];
    for (int i = 0; i < 2; i++)
        ck_assert_int_eq(pthread_create(&t[i], NULL, tokenise_much, &x[i]), 0);
    run(&r);
    for (int i = 0; i < 2; i++)
        pthread_join(t[i], NULL);
    ck_assert_msg(r.rc == 0, "%s", r.e.text);
    ck_assert_int_eq(x[0].failed + x[1].failed, 0);
    zinc_model_close(m);
}
END_TEST

/* How many of the process's threads are kept off a CPU that the process may use. */
static int pinned_threads(void)
{
    cpu_set_t all, own;
    int n = 0;
    struct dirent *d;
    DIR *dir = opendir("/proc/self/task");
    ck_assert(dir && sched_getaffinity(0, sizeof all, &all) == 0);
    while ((d = readdir(dir)))
        if (atoi(d->d_name) && sched_getaffinity(atoi(d->d_name), sizeof own, &own) == 0)
            n += !CPU_EQUAL(&own, &all);
    closedir(dir);
    return n;
}

START_TEST(threads_are_kept_on_a_core_only_if_that_is_asked_for)
{
    zinc_model_opts o = { .size = sizeof o, .path = DEMO, .tier = "cpu", .context = 64, .threads = 2 };
    zinc_model *m;
    unsetenv("ZINC_NO_PIN"); /* of the tests; not read yet */
    OK(zinc_model_open(&o, &m, &err));
    ck_assert_int_eq(pinned_threads(), 0);
    zinc_model_close(m);
    o.flags = ZINC_MODEL_PIN;
    OK(zinc_model_open(&o, &m, &err));
    if (sysconf(_SC_NPROCESSORS_ONLN) >= 2)
        ck_assert_int_eq(pinned_threads(), 1); /* never the caller's */
    zinc_model_close(m);
}
END_TEST

/* The last one to let go may be any thread. */
static void *close_model(void *user)
{
    zinc_model_close(user);
    return NULL;
}

START_TEST(the_last_user_frees_whatever_thread_it_is)
{
    for (int k = 0; k < 8; k++) {
        zinc_model *m = open_demo(1, 64);
        zinc_session *s = open_session(m);
        pthread_t t;
        ck_assert_int_eq(pthread_create(&t, NULL, close_model, m), 0);
        zinc_session_close(s);
        pthread_join(t, NULL);
    }
}
END_TEST

int main(void)
{
    return RUN_TESTS("libzinc_threads", sessions_on_threads_give_what_they_give_alone, models_are_independent,
                     another_thread_cancels_and_is_refused_otherwise, a_cancel_before_its_time_is_not_lost,
                     text_is_for_any_thread_while_others_generate,
                     threads_are_kept_on_a_core_only_if_that_is_asked_for, the_last_user_frees_whatever_thread_it_is);
}
