/* Waiting for an AMD card: how long the host looks, when it sleeps, and what it takes for a hang. The card, the driver and the
 * clock are this file's. */
#include <errno.h>
#include <stdlib.h>

#include "rt/amd/ring.h"
#include "tests/lib/run.h"

enum { MS = 1000000 };

static struct err e;
static struct amd_watch w;
static struct amd_cells cells;
static uint64_t time_ns, done_ns; /* now, and when the card is done with point 1 (0: never) */
static uint64_t slept_ns;         /* when the host slept first                              */
static uint32_t n_looks, n_sleeps;
static int bad_news;              /* of the driver, to a host that sleeps                   */
static bool off_the_card;

static uint64_t a_millisecond_later(struct amd_watch *of)
{
    n_looks++;
    time_ns += MS;
    if (done_ns && time_ns >= done_ns)
        cells.fence = 1;
    return time_ns;
}

static int sleeps(struct amd_watch *of, uint64_t point, uint64_t ns, struct err *err)
{
    if (n_sleeps++ == 0)
        slept_ns = time_ns;
    time_ns += ns;
    return bad_news ? err_set(err, bad_news, "news") : 0;
}

static void stands(struct amd_watch *of, char *out, size_t n)
{
    snprintf(out, n, ", words of the driver's");
}

static bool alive(struct amd_watch *of)
{
    return off_the_card;
}

static const struct amd_watch_ops ops = { .sleep = sleeps, .stands = stands, .alive = alive, .clock = a_millisecond_later };

static void begin(const char *poll_ms, uint64_t done_after_ms)
{
    if (poll_ms)
        setenv("ZINC_AMD_POLL", poll_ms, 1);
    amd_watch_init(&w, "kfd", "gfx1201", &ops, NULL);
    w.cells = &cells;
    w.point = 1;
    time_ns = 1000 * MS;
    done_ns = done_after_ms ? time_ns + done_after_ms * MS : 0;
    ck_assert_int_eq(amd_watch_begin(&w, &e), 0);
}

START_TEST(a_host_looks_for_20_ms)
{
    begin(NULL, 15);
    ck_assert_int_eq(amd_watch_wait(&w, 1, 1000 * (uint64_t)MS, &e), 0);
    ck_assert_uint_eq(n_sleeps, 0);
    cells.fence = 0;
    begin(NULL, 500);
    ck_assert_int_eq(amd_watch_wait(&w, 1, 1000 * (uint64_t)MS, &e), 0);
    ck_assert_uint_ge(n_sleeps, 1);
    ck_assert_uint_eq(slept_ns - 1001 * (uint64_t)MS, 20 * MS); /* from the first look on */
}
END_TEST

START_TEST(it_looks_for_as_long_as_it_is_told)
{
    begin("3", 500);
    ck_assert_int_eq(amd_watch_wait(&w, 1, 1000 * (uint64_t)MS, &e), 0);
    ck_assert_uint_eq(slept_ns - 1001 * (uint64_t)MS, 3 * MS);
}
END_TEST

START_TEST(it_may_sleep_at_once)
{
    begin("0", 500);
    ck_assert_int_eq(amd_watch_wait(&w, 1, 1000 * (uint64_t)MS, &e), 0);
    ck_assert_uint_eq(slept_ns, 1001 * (uint64_t)MS);
}
END_TEST

START_TEST(a_wait_ends_when_its_time_is_over)
{
    begin("20", 0);
    ck_assert_int_eq(amd_watch_wait(&w, 1, 0, &e), -ETIME);
    ck_assert_uint_eq(n_sleeps, 1); /* which is how the driver is asked for news */
    ck_assert_uint_eq(slept_ns, time_ns - MS);
    begin("20", 0);
    ck_assert_int_eq(amd_watch_wait(&w, 1, 250 * (uint64_t)MS, &e), -ETIME);
    ck_assert_uint_ge(time_ns, 1250 * (uint64_t)MS);
    ck_assert_uint_le(time_ns, 1300 * (uint64_t)MS);
    ck_assert(!w.dead);
}
END_TEST

START_TEST(a_card_that_stands_still_hangs)
{
    setenv("ZINC_KFD_TIMEOUT", "2", 1);
    begin("1", 0);
    ck_assert_int_eq(amd_watch_wait(&w, 1, UINT64_MAX, &e), -EIO);
    ck_assert_str_eq(e.msg, "kfd: gfx1201 made no progress for 2 s: point 0 of 1, words of the driver's");
    ck_assert_uint_ge(time_ns, 3000 * (uint64_t)MS);
    ck_assert_uint_le(time_ns, 3200 * (uint64_t)MS);
    ck_assert_int_eq(amd_watch_wait(&w, 1, UINT64_MAX, &e), -EIO);
    ck_assert_str_eq(e.msg, "kfd: the queue is dead after a fault");
    ck_assert_int_eq(amd_watch_begin(&w, &e), -EIO);
}
END_TEST

/* A queue that the driver took off the card does not hang, however long that takes. */
START_TEST(a_queue_off_the_card_does_not_hang)
{
    setenv("ZINC_KFD_TIMEOUT", "2", 1);
    off_the_card = true;
    begin("1", 7000);
    ck_assert_int_eq(amd_watch_wait(&w, 1, UINT64_MAX, &e), 0);
    ck_assert(!w.dead);
}
END_TEST

START_TEST(bad_news_end_a_wait)
{
    bad_news = -EIO;
    begin("1", 0);
    ck_assert_int_eq(amd_watch_wait(&w, 1, UINT64_MAX, &e), -EIO);
    ck_assert_str_eq(e.msg, "news");
    ck_assert(w.dead);
    bad_news = -EBADF; /* of the call, not of the card */
    begin("1", 0);
    ck_assert_int_eq(amd_watch_wait(&w, 1, UINT64_MAX, &e), -EBADF);
    ck_assert(!w.dead);
}
END_TEST

int main(void)
{
    return RUN_TESTS("amd_watch", a_host_looks_for_20_ms, it_looks_for_as_long_as_it_is_told, it_may_sleep_at_once,
                     a_wait_ends_when_its_time_is_over, a_card_that_stands_still_hangs, a_queue_off_the_card_does_not_hang,
                     bad_news_end_a_wait);
}
