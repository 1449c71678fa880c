/* What goes wrong on the card: an address that is not mapped, a queue that never goes on, code that is cut off. Each
 * ends in one line and a report that names the command. Needs an AMD card and a model in KFD_TEST_MODEL;
 * tests/e2e/test_kfd_steps.sh gives it the hardware model. Every test is a process of its own: a GPU that faulted is
 * of no more use to the process that did it. */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine/engine.h"
#include "engine/priv.h"
#include "rt/kfd/kfd.h"
#include "rt/amd/walk.h"
#include "tests/lib/run.h"

enum { VICTIM = 6 }; /* the launch that is spoilt */

static struct err e;
static struct kfd_dev *dev;
static struct kfd_queue *q;
static struct engine *eng;

static void open_device(void)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    ck_assert_int_gt(kfd_topology(kfd_sys_current(), gpu, KFD_MAX_GPUS, &e), 0);
    ck_assert_msg(kfd_open(&gpu[0], &dev, &e) == 0, "%s", e.msg);
    ck_assert_msg(kfd_queue_create(dev, 64 << 10, &q, &e) == 0, "%s", e.msg);
    q->ring.watch.hang_ns = 1000000000u;
}

static void in_folder(char *folder)
{
    ck_assert_ptr_nonnull(mkdtemp(folder));
    ck_assert_int_eq(chdir(folder), 0);
}

static void open_plan(const char *plan)
{
    struct engine_opts o = { .path = getenv("KFD_TEST_MODEL"), .tier = "kfd", .plan = plan, .n_ctx = 64, .chunk = 16 };
    ck_assert_msg(engine_open(&o, &eng, &e) == 0, "%s", e.msg);
}

static void open_engine(void)
{
    open_plan("replay");
}

enum { N_KEPT = 64 };
static float kept[N_KEPT]; /* the last token's first logits */

static int one_token(void)
{
    static const float *logits;
    struct session *s;
    int32_t token = 5;
    ck_assert_int_eq(session_create(eng, &s, &e), 0);
    int rc = session_eval(s, &token, 1, &logits, &e);
    if (!rc)
        memcpy(kept, logits, sizeof kept);
    session_destroy(s);
    return rc;
}

/* The pass that a single token takes. */
static struct amd_pass *single(void)
{
    struct amd_plan *p = (struct amd_plan *)eng->decode.native;
    return &p->pass[p->r.n_passes - 1];
}

/* Does the report in this folder say so? */
static void expect_report(const char *file, const char *words)
{
    char cmd[300];
    snprintf(cmd, sizeof cmd, "grep -q '%s' zinc-report-*/%s || { cat zinc-report-*/report.txt; false; }", words,
             file);
    ck_assert_msg(system(cmd) == 0, "no '%s' in %s", words, file);
}

START_TEST(a_page_that_is_not_mapped)
{
    const uint32_t word = 1;
    uint32_t dw[8];
    uint64_t point;
    struct pm4_buf b;
    open_device();
    pm4_init(&b, dev->gpu.chip->gen, dw, 8);
    pm4_write_data(&b, 0x123456789000, &word, 1, PM4_WRITE_CONFIRM);
    ck_assert_int_eq(kfd_queue_submit(q, dw, b.n, &point, &e), 0);
    int rc;
    while ((rc = kfd_queue_wait(q, point, 100000000, &e)) == -ETIME) {
    }
    ck_assert_int_eq(rc, -EIO);
    ck_assert_msg(strstr(e.msg, "0x123456789000") && strstr(e.msg, "unmapped"), "%s", e.msg);
    ck_assert_int_eq(kfd_queue_submit(q, dw, b.n, &point, &e), -EIO);
    kfd_close(dev);
    struct kfd_dev *again;
    ck_assert_int_eq(kfd_open(&dev->gpu, &again, &e), -EIO);
}
END_TEST

START_TEST(a_queue_that_never_goes_on)
{
    uint32_t dw[8];
    uint64_t point;
    struct pm4_buf b;
    struct kfd_mem *m;
    open_device();
    ck_assert_int_eq(kfd_mem_alloc(dev, KFD_HOST, 4096, "never 1", &m, &e), 0);
    pm4_init(&b, dev->gpu.chip->gen, dw, 8);
    pm4_wait_mem(&b, PM4_EQ, m->va, 1, ~0u);
    ck_assert_int_eq(kfd_queue_submit(q, dw, b.n, &point, &e), 0);
    ck_assert_int_eq(kfd_queue_wait(q, point, 0, &e), -ETIME);
    ck_assert_int_eq(kfd_queue_wait(q, point, 30000000, &e), -ETIME);
    ck_assert_int_eq(kfd_queue_wait(q, point, 20000000000u, &e), -EIO);
    ck_assert_msg(strstr(e.msg, "no progress for 1 s"), "%s", e.msg);
    *(volatile uint32_t *)m->cpu = 1; /* so that the queue can be taken down at once */
    kfd_close(dev);
}
END_TEST

START_TEST(a_spoilt_argument_names_its_command)
{
    char folder[] = "/tmp/zinc-kfd-XXXXXX";
    in_folder(folder);
    open_engine();
    struct amd_pass *x = single();
    uint64_t nowhere = 0x123456789000, off = 0;
    uint32_t cmd;
    const char *name = amd_launch_name(x, VICTIM, &cmd);
    for (uint32_t i = 0; i < VICTIM; i++) {
        uint32_t c;
        const char *n = amd_launch_name(x, i, &c);
        for (uint32_t k = 0; k < KERNEL_COUNT; k++)
            if (strcmp(kernel_infos[k].name, n) == 0)
                off += amd_kernarg_bytes(kernel_infos[k].args_bytes);
    }
    for (uint32_t k = 0; k < KERNEL_COUNT; k++)
        if (strcmp(kernel_infos[k].name, name) == 0)
            for (const uint16_t *a = kernel_infos[k].addresses(); *a != UINT16_MAX; a++)
                memcpy((uint8_t *)x->args.cpu + off + *a, &nowhere, sizeof nowhere);
    ck_assert_int_eq(one_token(), -EIO);
    ck_assert_msg(strstr(e.msg, name) && strstr(e.msg, "unmapped") && strstr(e.msg, "layer"), "%s", e.msg);
    expect_report("report.txt", "va 0x123456789000");
    expect_report("report.txt", "^last complete: command");
    expect_report("report.txt", "indirect buffer");
    expect_report("packets.txt", "^running: launch 6,");
    expect_report("stream.txt", "EMBED");
    engine_close(eng);
}
END_TEST

START_TEST(a_hang_names_its_command)
{
    char folder[] = "/tmp/zinc-kfd-XXXXXX", words[100];
    in_folder(folder);
    setenv("ZINC_KFD_TIMEOUT", "1", 1);
    open_engine();
    struct amd_tier *c = amd_of(eng->tier);
    ((struct kfd_winsys *)c->w)->q->ring.watch.hang_ns = 1000000000u;
    struct amd_pass *x = single();
    struct amd_mem m;
    struct pm4_buf b;
    uint32_t cmd;
    ck_assert_int_eq(amd_mem_alloc(c->w, AMD_HOST, AMD_PAGE, "never 1", &m, &e), 0);
    /* the barrier before the victim becomes a wait for what never comes: its predecessor is the last that ran */
    pm4_init(&b, c->w->card.chip->gen, (uint32_t *)x->ib.cpu + x->at[VICTIM], 10);
    pm4_wait_mem(&b, PM4_EQ, m.va, 1, ~0u);
    pm4_nop(&b, 10 - b.n);
    ck_assert_int_eq(b.rc, 0);
    c->w->host_wrote_vram = true;
    ck_assert_int_eq(one_token(), -EIO);
    ck_assert_msg(strstr(e.msg, "no progress"), "%s", e.msg);
    ck_assert_ptr_nonnull(strstr(e.msg, amd_launch_name(x, VICTIM - 1, &cmd)));
    snprintf(words, sizeof words, "^running: .*kernel %s, launch %d of", amd_launch_name(x, VICTIM - 1, &cmd),
             VICTIM - 1);
    expect_report("report.txt", words);
    *(volatile uint32_t *)m.cpu = 1;
    engine_close(eng);
}
END_TEST

/* The list of the first walk, and what the walk is told of it. */
static struct walk_item *walk_items(struct walk_amd **args)
{
    struct amd_walk *w = single()->walks;
    ck_assert_ptr_nonnull(w);
    ck_assert_ptr_nonnull(w->mem.cpu);
    uint64_t own = w->regs.user[0] | (uint64_t)w->regs.user[1] << 32;
    *args = (struct walk_amd *)((uint8_t *)w->mem.cpu + (own - w->mem.va));
    return w->mem.cpu;
}

/* Without waits an item begins before its inputs are complete, and other logits come out. */
START_TEST(a_walk_that_does_not_wait_is_seen)
{
    struct walk_amd *args;
    float right[N_KEPT];
    open_plan("persistent");
    ck_assert_int_eq(one_token(), 0);
    memcpy(right, kept, sizeof right);
    ck_assert_int_eq(one_token(), 0);
    ck_assert_mem_eq(right, kept, sizeof right);
    struct walk_item *it = walk_items(&args);
    for (uint32_t i = 0; i < args->n_items; i++)
        it[i].need = 0;
    ck_assert(one_token() || memcmp(right, kept, sizeof right) != 0);
    engine_close(eng);
}
END_TEST

static void wait_for_more(struct walk_item *it, uint32_t i)
{
    it[i].need++;
}

/* On the hardware model alone: it sees that nobody can go on before the walk's own limit has passed. */
START_TEST(a_deadlock_is_found)
{
    char folder[] = "/tmp/zinc-kfd-XXXXXX";
    struct walk_amd *args;
    in_folder(folder);
    open_plan("persistent");
    wait_for_more(walk_items(&args), VICTIM);
    ck_assert_int_eq(one_token(), -EIO);
    ck_assert_msg(strstr(e.msg, "the GPU was reset") != NULL, "%s", e.msg);
    engine_close(eng);
}
END_TEST

START_TEST(a_walk_gives_up)
{
    const uint32_t tenth_of_a_second = 10000000;
    char folder[] = "/tmp/zinc-kfd-XXXXXX", words[80];
    struct walk_amd *args;
    in_folder(folder);
    open_plan("persistent");
    wait_for_more(walk_items(&args), VICTIM);
    args->ticks = tenth_of_a_second;
    ck_assert_int_eq(one_token(), -EIO);
    snprintf(words, sizeof words, "gave up: launch %u of the step did not end", args->first + VICTIM);
    ck_assert_msg(strstr(e.msg, words) != NULL, "'%s' is not in: %s", words, e.msg);
    engine_close(eng);
}
END_TEST

START_TEST(a_child_must_not_use_it)
{
    open_device();
    int status;
    pid_t pid = fork();
    if (pid == 0) {
        struct kfd_mem *m;
        uint32_t dw[1] = { 0xffff1000 };
        uint64_t point;
        struct err why = { 0 };
        bool ok = kfd_mem_alloc(dev, KFD_HOST, 4096, "cell", &m, &why) == -EPERM && strstr(why.msg, "fork") &&
                  kfd_queue_submit(q, dw, 1, &point, &why) == -EPERM;
        kfd_close(dev);
        _exit(ok ? 0 : 1);
    }
    ck_assert_int_eq(waitpid(pid, &status, 0), pid);
    ck_assert_int_eq(status, 0);
    uint64_t point; /* and the parent goes on */
    uint32_t dw[1] = { 0xffff1000 };
    ck_assert_int_eq(kfd_queue_submit(q, dw, 1, &point, &e), 0);
    ck_assert_int_eq(kfd_queue_wait(q, point, 5000000000u, &e), 0);
    kfd_close(dev);
}
END_TEST

START_TEST(nothing_is_left_behind)
{
    open_device();
    const struct kfd_mem *only = dev->event_page;
    kfd_close(dev);
    ck_assert_ptr_null(dev->queues);
    ck_assert_ptr_eq(dev->mem, only);
    ck_assert_ptr_null(only->next);
    ck_assert_int_eq(kfd_open(&dev->gpu, &dev, &e), 0); /* the same again: the driver takes no second file */
    ck_assert_int_eq(kfd_queue_create(dev, 64 << 10, &q, &e), 0);
    kfd_close(dev);
}
END_TEST

int main(void)
{
    struct kfd_gpu gpu[KFD_MAX_GPUS];
    if (!getenv("KFD_TEST_MODEL") || kfd_topology(kfd_sys_current(), gpu, KFD_MAX_GPUS, &e) < 0) {
        puts(e.msg[0] ? e.msg : "no model in KFD_TEST_MODEL; test_kfd_steps.sh runs this on the hardware model");
        return 77;
    }
    return RUN_TESTS("kfd_faults", a_page_that_is_not_mapped, a_queue_that_never_goes_on,
                     a_spoilt_argument_names_its_command, a_hang_names_its_command, a_walk_that_does_not_wait_is_seen,
                     a_deadlock_is_found, a_walk_gives_up, a_child_must_not_use_it,
                     nothing_is_left_behind);
}
