/* Prefixes on disk: a pool that comes later finds what an earlier one evaluated, and its logits have the bits of a prompt
 * evaluated from nothing. Whatever is done to the files, the worst is that a prompt is evaluated again. */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <time.h>

#include "base/ckd.h"
#include "engine/priv.h"
#include "engine/serve/kvpool.h"
#include "tests/unit/tiny_model.h"

enum { N_CTX = 1024, CHUNK = 64, MANY = 64 << 20, LONG = 700 };
enum preset { QWEN3, QWEN35, N_PRESETS };

static const char *const presets[N_PRESETS] = { "tiny-qwen3", "tiny-qwen35" };
static char paths[N_PRESETS][32], dir[32];
static struct engine *eng;
static struct kvpool *pool;
static struct err e;
static struct kvpool_opts opts;
static int32_t prompt[N_CTX];
static float want[N_PRESETS][1024]; /* logits behind prompt[0..LONG), evaluated from nothing */

static void open_engine(enum preset m, const char *kv)
{
    struct engine_opts eo = { .path = paths[m], .tier = "cpu", .kv = kv, .n_ctx = N_CTX, .chunk = CHUNK, .n_slots = 2,
                              .threads = 1 };
    ck_assert_msg(engine_open(&eo, &eng, &e) == 0, "%s", e.msg);
    ck_assert_uint_le(engine_info(eng)->n_vocab, 1024);
}

static void open_pool(void)
{
    ck_assert_msg(kvpool_create(eng, &opts, &pool, &e) == 0, "%s", e.msg);
}

static void close_pool(void)
{
    kvpool_destroy(pool);
    pool = NULL;
}

/* Evaluates prompt[0..n) for this owner as the scheduler does; returns how much of it was there. */
static uint32_t run_on(struct kvpool *p, uint64_t owner, uint32_t n, float *logits)
{
    struct session *s;
    const float *l = NULL;
    bool again;
    ck_assert_msg(kvpool_acquire(p, owner, prompt, n, NULL, 0, &s, &e) == 0, "%s", e.msg);
    while (kvpool_fetch(p, s, prompt, &again))
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    uint32_t reused = session_pos(s);
    ck_assert_uint_lt(reused, n);
    ck_assert_mem_eq(session_tokens(s), prompt, reused * sizeof *prompt);
    session_set_prompt(s, true);
    for (uint32_t pos = reused, stop; pos < n; pos = stop) {
        stop = kvpool_next_stop(p, s, n);
        ck_assert_msg(session_eval(s, prompt + pos, stop - pos, &l, &e) == 0, "%s", e.msg);
        kvpool_extend(p, s, false);
    }
    memcpy(logits, l, engine_info(s->eng)->n_vocab * sizeof *l);
    kvpool_release(p, s, true);
    while (kvpool_spill(p))
        ;
    return reused;
}

static uint32_t run_n(uint32_t n)
{
    float got[1024];
    return run_on(pool, 0, n, got);
}

/* The long prompt, whose logits are known. */
static uint32_t run(enum preset m)
{
    float got[1024];
    uint32_t reused = run_on(pool, 0, LONG, got);
    ck_assert_msg(memcmp(got, want[m], engine_info(eng)->n_vocab * sizeof *got) == 0,
                  "%s: other bits after %u tokens from elsewhere", presets[m], reused);
    return reused;
}

static void empty_folder(void)
{
    char cmd[64];
    snprintf(cmd, sizeof cmd, "rm -rf %s", dir);
    ck_assert_int_eq(system(cmd), 0);
}

/* Once for all cases, which are forked from here. */
static void setup(void)
{
    uint64_t rng = 88172645463325252u;
    for (uint32_t i = 0; i < N_CTX; i++) {
        rng ^= rng << 13;
        rng ^= rng >> 7;
        rng ^= rng << 17;
        prompt[i] = (int32_t)((rng >> 33) % 640);
    }
    for (int m = 0; m < N_PRESETS; m++) {
        snprintf(paths[m], sizeof paths[m], "/tmp/zinc-disk-XXXXXX");
        tiny_model(paths[m], presets[m]);
        opts = (struct kvpool_opts){ .host_bytes = MANY, .snapshot_every = 300 };
        open_engine(m, NULL);
        open_pool();
        ck_assert_uint_eq(run_on(pool, 0, LONG, want[m]), 0);
        close_pool();
        engine_close(eng);
    }
}

static void teardown(void)
{
    for (int m = 0; m < N_PRESETS; m++)
        unlink(paths[m]);
}

static void begin(void)
{
    snprintf(dir, sizeof dir, "/tmp/zinc-disk-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(dir));
    opts = (struct kvpool_opts){ .host_bytes = MANY, .snapshot_every = 300, .disk_dir = dir, .disk_bytes = MANY };
}

static void finish(void)
{
    engine_close(eng);
    empty_folder();
}

/* ---- files ---- */

/* Of this kind and end. */
static char *file_of(const char *ending)
{
    static char path[300];
    DIR *d = opendir(dir);
    *path = 0;
    for (struct dirent *de; (de = readdir(d));) {
        size_t n = strlen(de->d_name), k = strlen(ending);
        if (n > k && strcmp(de->d_name + n - k, ending) == 0)
            snprintf(path, sizeof path, "%s/%s", dir, de->d_name);
    }
    closedir(d);
    ck_assert_msg(*path, "no file that ends with %s", ending);
    return path;
}

static uint32_t n_files(const char *part, uint64_t *bytes)
{
    uint32_t n = 0;
    DIR *d = opendir(dir);
    *bytes = 0;
    for (struct dirent *de; (de = readdir(d));) {
        struct stat st;
        if (!strstr(de->d_name, part) || *de->d_name == '.' || fstatat(dirfd(d), de->d_name, &st, 0))
            continue;
        n++;
        *bytes += (uint64_t)st.st_size;
    }
    closedir(d);
    return n;
}

static void flip(const char *path, off_t at)
{
    uint8_t b;
    int fd = open(path, O_RDWR);
    ck_assert_int_eq(pread(fd, &b, 1, at), 1);
    b ^= 4;
    ck_assert_int_eq(pwrite(fd, &b, 1, at), 1);
    close(fd);
}

/* ---- cases ---- */

START_TEST(a_pool_that_comes_later_finds_it)
{
    static const uint32_t there[N_PRESETS] = { 512, 600 };
    for (int m = 0; m < N_PRESETS; m++) {
        begin();
        open_engine(m, NULL);
        open_pool();
        ck_assert_uint_eq(run(m), 0);
        close_pool();
        open_pool();
        ck_assert_uint_eq(run(m), there[m]);
        ck_assert_uint_eq(kvpool_stats(pool).tokens_fetched, there[m]);
        ck_assert_uint_eq(kvpool_stats(pool).disk.bad, 0);
        ck_assert_uint_eq(run(m), m == QWEN3 ? LONG - 1 : 600); /* now from memory */
        ck_assert_uint_eq(kvpool_stats(pool).tokens_fetched, there[m]);
        close_pool();
        finish();
    }
}
END_TEST

START_TEST(caches_of_other_types_are_not_taken_for_it)
{
    begin();
    open_engine(QWEN3, NULL);
    open_pool();
    run(QWEN3);
    close_pool();
    engine_close(eng);
    open_engine(QWEN3, "q8_0");
    open_pool();
    float first[1024], later[1024];
    ck_assert_uint_eq(run_on(pool, 0, LONG, first), 0);
    close_pool();
    open_pool();
    ck_assert_uint_eq(run_on(pool, 0, LONG, later), 512);
    ck_assert_mem_eq(first, later, engine_info(eng)->n_vocab * sizeof *first);
    ck_assert_uint_eq(kvpool_stats(pool).disk.bad, 0);
    close_pool();
    finish();
}
END_TEST

/* The sequence goes on where it ended, though no snapshot was wanted there. */
START_TEST(a_recurrent_sequence_goes_on_from_its_end)
{
    begin();
    opts.snapshot_every = 2000;
    open_engine(QWEN35, NULL);
    open_pool();
    ck_assert_uint_eq(run_n(555), 0);
    close_pool();
    open_pool();
    ck_assert_uint_eq(run(QWEN35), 555);
    close_pool();
    finish();
}
END_TEST

/* What a broken file costs is what it held; the next one finds it mended. */
static void broken(enum preset m, const char *ending, uint32_t left, uint32_t whole, const char *what)
{
    open_pool();
    uint32_t reused = run(m);
    struct kvpool_stats st = kvpool_stats(pool);
    ck_assert_msg(reused == left, "%s %s: %u tokens reused, expected %u", ending, what, reused, left);
    ck_assert_msg(st.disk.bad == 1, "%s %s: %u bad files", ending, what, (unsigned)st.disk.bad);
    close_pool();
    open_pool();
    ck_assert_msg(run(m) == whole, "%s %s: not mended", ending, what);
    close_pool();
}

START_TEST(a_broken_file_is_a_miss)
{
    static const struct {
        enum preset m;
        const char *ending;
        uint32_t left, whole;
    } c[] = { { QWEN3, "-256.block", 0, 512 }, { QWEN3, "-512.block", 256, 512 }, { QWEN35, "-600.end", 300, 600 },
              { QWEN35, "-512.block", 300, 600 } };
    for (size_t i = 0; i < ARRAY_LEN(c); i++) {
        begin();
        open_engine(c[i].m, NULL);
        open_pool();
        run(c[i].m);
        close_pool();
        struct stat st;
        ck_assert_int_eq(stat(file_of(c[i].ending), &st), 0);
        off_t at[] = { 0, 9, 24, 45, 57, 60, 64, 72, 80, 100, 1000, st.st_size / 2, st.st_size - 1 };
        for (size_t k = 0; k < ARRAY_LEN(at); k += i ? 4 : 1) {
            char what[32];
            snprintf(what, sizeof what, "flipped at %ld", (long)at[k]);
            flip(file_of(c[i].ending), at[k]);
            broken(c[i].m, c[i].ending, c[i].left, c[i].whole, what);
        }
        for (off_t n = st.st_size - 1; n > 0; n /= 2000) {
            ck_assert_int_eq(truncate(file_of(c[i].ending), n), 0);
            broken(c[i].m, c[i].ending, c[i].left, c[i].whole, "cut");
        }
        ck_assert_int_eq(truncate(file_of(c[i].ending), 0), 0);
        broken(c[i].m, c[i].ending, c[i].left, c[i].whole, "empty");
        ck_assert_int_eq(truncate(file_of(c[i].ending), st.st_size + 1), 0);
        broken(c[i].m, c[i].ending, c[i].left, c[i].whole, "longer");
        finish();
    }
}
END_TEST

START_TEST(a_foreign_file_is_a_miss)
{
    char target[300], cmd[700];
    begin();
    open_engine(QWEN3, NULL);
    open_pool();
    run(QWEN3);
    close_pool();
    snprintf(target, sizeof target, "%s", file_of("-512.block"));
    snprintf(cmd, sizeof cmd, "cp %s %s", file_of("-256.block"), target); /* of other tokens */
    ck_assert_int_eq(system(cmd), 0);
    broken(QWEN3, "-512.block", 256, 512, "of other tokens");
    /* A link is not followed, and nothing is waited for: neither is listed, so that nobody asks for them. */
    static const char *const make[] = { "ln -s /etc/passwd", "mkfifo", "mkdir" };
    for (size_t i = 0; i < ARRAY_LEN(make); i++) {
        ck_assert_int_eq(unlink(target), 0);
        snprintf(cmd, sizeof cmd, "%s %s", make[i], target);
        ck_assert_int_eq(system(cmd), 0);
        open_pool();
        ck_assert_uint_eq(run(QWEN3), 256);
        close_pool();
        snprintf(cmd, sizeof cmd, "rm -rf %s", target);
        ck_assert_int_eq(system(cmd), 0);
        open_pool();
        run(QWEN3);
        close_pool();
    }
    finish();
}
END_TEST

START_TEST(models_share_a_folder)
{
    uint64_t bytes;
    begin();
    for (int round = 0; round < 2; round++)
        for (int m = 0; m < N_PRESETS; m++) {
            open_engine(m, NULL);
            open_pool();
            ck_assert_uint_eq(run(m), !round ? 0 : m == QWEN3 ? 512 : 600);
            ck_assert_uint_eq(kvpool_stats(pool).disk.bad, 0);
            close_pool();
            if (!round || m < N_PRESETS - 1)
                engine_close(eng);
        }
    ck_assert_uint_eq(n_files(".block", &bytes), 4);
    engine_close(eng);
    /* Another file of the same name, size and contents, but of another time, might have other weights inside. */
    struct timespec t[2] = { { .tv_sec = 1 }, { .tv_sec = 1 } };
    ck_assert_int_eq(utimensat(AT_FDCWD, paths[QWEN3], t, 0), 0);
    open_engine(QWEN3, NULL);
    open_pool();
    ck_assert_uint_eq(run(QWEN3), 0);
    close_pool();
    finish();
}
END_TEST

static uint64_t name_of(void *user, uint64_t owner)
{
    return ((const uint64_t *)user)[owner];
}

START_TEST(owners_are_known_by_their_names)
{
    static uint64_t first[] = { 0, 77, 88 }, later[] = { 0, 88, 77, 99 };
    float got[1024];
    begin();
    open_engine(QWEN3, NULL);
    opts.owner_name = name_of;
    opts.owner_user = first;
    open_pool();
    ck_assert_uint_eq(run_on(pool, 1, LONG, got), 0);
    close_pool();
    opts.owner_user = later;
    open_pool();
    ck_assert_uint_eq(run_on(pool, 1, LONG, got), 0);
    ck_assert_uint_eq(run_on(pool, 3, LONG, got), 0);
    ck_assert_uint_eq(run_on(pool, 2, LONG, got), 512);
    close_pool();
    finish();
}
END_TEST

START_TEST(the_oldest_give_way)
{
    uint64_t bytes, one;
    begin();
    open_engine(QWEN3, NULL);
    open_pool();
    run_n(300);
    close_pool();
    ck_assert_uint_eq(n_files(".block", &one), 1);
    opts.disk_bytes = 4 * one;
    for (int i = 0; i < 6; i++) {
        prompt[0] = i; /* another beginning, and as long */
        open_pool();
        run_n(300);
        run_n(300);
        close_pool();
        n_files("", &bytes);
        ck_assert_uint_le(bytes, opts.disk_bytes);
    }
    open_pool();
    ck_assert_uint_eq(run_n(300), 256); /* the newest */
    prompt[0] = 1;
    ck_assert_uint_eq(run_n(300), 0);
    close_pool();
    opts.disk_bytes = one / 2; /* nothing fits, and what is there goes */
    open_pool();
    ck_assert_uint_eq(run_n(300), 0);
    close_pool();
    ck_assert_uint_eq(n_files("", &bytes), 0);
    finish();
}
END_TEST

/* A limit to the size of files stands for the disk that is full. */
START_TEST(a_full_disk_is_no_failure)
{
    uint64_t bytes;
    begin();
    open_engine(QWEN35, NULL);
    signal(SIGXFSZ, SIG_IGN);
    struct rlimit was, little;
    getrlimit(RLIMIT_FSIZE, &was);
    little = was;
    little.rlim_cur = 4096;
    setrlimit(RLIMIT_FSIZE, &little);
    open_pool();
    ck_assert_uint_eq(run(QWEN35), 0);
    for (int i = 0; i < 30000 && !kvpool_stats(pool).disk.failed; i++) {
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        run(QWEN35);
    }
    ck_assert_uint_ge(kvpool_stats(pool).disk.failed, 1);
    ck_assert_uint_eq(kvpool_stats(pool).disk.writes, 0);
    close_pool();
    ck_assert_uint_eq(n_files("", &bytes), 0); /* not a half one either */
    setrlimit(RLIMIT_FSIZE, &was);
    open_pool();
    ck_assert_uint_eq(run(QWEN35), 0);
    close_pool();
    open_pool();
    ck_assert_uint_eq(run(QWEN35), 600);
    close_pool();
    finish();
}
END_TEST

/* Both are there all the time: what one has written, the other one finds. */
START_TEST(two_at_the_same_time)
{
    struct kvpool *a;
    struct engine *first;
    float got[1024];
    begin();
    open_engine(QWEN3, NULL);
    first = eng;
    open_pool();
    a = pool;
    open_engine(QWEN3, NULL);
    open_pool();
    ck_assert_uint_eq(run_on(a, 0, LONG, got), 0);
    /* The other pool looks into the folder after it was asked: each question is of another owner, whose memory is empty,
     * until it is the first one's. */
    uint32_t reused = 0;
    for (int i = 0; i < 30000 && !reused; i++) {
        struct session *s;
        bool again;
        ck_assert_int_eq(kvpool_acquire(pool, 0, prompt, LONG, NULL, 0, &s, &e), 0);
        while (kvpool_fetch(pool, s, prompt, &again))
            nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
        reused = session_pos(s);
        kvpool_release(pool, s, reused > 0);
        nanosleep(&(struct timespec){ .tv_nsec = 1000000 }, NULL);
    }
    ck_assert_uint_ge(reused, 256);
    ck_assert_uint_ge(run(QWEN3), reused);
    kvpool_destroy(a);
    engine_close(first);
    close_pool();
    finish();
}
END_TEST

START_TEST(a_request_that_leaves_while_it_is_fetched)
{
    struct session *s;
    bool again;
    begin();
    open_engine(QWEN35, NULL);
    open_pool();
    run(QWEN35);
    close_pool();
    for (int i = 0; i < 20; i++) {
        open_pool();
        ck_assert_int_eq(kvpool_acquire(pool, 0, prompt, LONG, NULL, 0, &s, &e), 0);
        for (int k = 0; k < i; k++)
            kvpool_fetch(pool, s, prompt, &again);
        kvpool_release(pool, s, true);
        if (i % 4 == 0)
            ck_assert_uint_eq(run(QWEN35), 600);
        close_pool();
    }
    finish();
}
END_TEST

START_TEST(a_folder_that_is_none)
{
    begin();
    open_engine(QWEN3, NULL);
    opts.disk_dir = "/proc/zinc";
    ck_assert_int_lt(kvpool_create(eng, &opts, &pool, &e), 0);
    ck_assert_ptr_nonnull(strstr(e.msg, "/proc/zinc"));
    opts.disk_dir = paths[QWEN3];
    ck_assert_int_eq(kvpool_create(eng, &opts, &pool, &e), -ENOTDIR);
    ck_assert_ptr_nonnull(strstr(e.msg, "expected a folder"));
    finish();
}
END_TEST

int main(void)
{
    tiny_model_or_skip();
    Suite *s = suite_create("prefix_disk");
    TCase *t = tcase_create("prefix_disk");
    tcase_add_unchecked_fixture(t, setup, teardown);
    tcase_set_timeout(t, 600);
    tcase_add_test(t, a_pool_that_comes_later_finds_it);
    tcase_add_test(t, caches_of_other_types_are_not_taken_for_it);
    tcase_add_test(t, a_recurrent_sequence_goes_on_from_its_end);
    tcase_add_test(t, a_broken_file_is_a_miss);
    tcase_add_test(t, a_foreign_file_is_a_miss);
    tcase_add_test(t, models_share_a_folder);
    tcase_add_test(t, owners_are_known_by_their_names);
    tcase_add_test(t, the_oldest_give_way);
    tcase_add_test(t, a_full_disk_is_no_failure);
    tcase_add_test(t, two_at_the_same_time);
    tcase_add_test(t, a_request_that_leaves_while_it_is_fetched);
    tcase_add_test(t, a_folder_that_is_none);
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed ? 1 : 0;
}
