/* metalsim holds a client to Metal's rules: each is broken once, in a process of its own, which must end with the status for it
 * and a line that names the rule. And what is right passes. The test runs itself on build/metalsim. */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "kernels/klaunch.h"
#include "metal/objc.h"
#include "rt/blob.h"
#include "tests/lib/run.h"

enum { BROKEN = 86, SHARED = 1 << 8, ERROR = 5, COMPLETED = 4, BYTES = 4096 };

static struct {
    id device, queue, set, event, fence, library, pipeline, buffer;
} g;

static id descriptor_of(const char *kernel, unsigned long threads)
{
    id f = library_function(g.library, objc_string(kernel)), d = objc_new("MTLComputePipelineDescriptor");
    pipeline_set_function(d, f);
    pipeline_set_threads(d, threads);
    object_release(f);
    return d;
}

static id pipeline_of(const char *kernel, unsigned long threads)
{
    id d = descriptor_of(kernel, threads), error = NULL;
    id p = device_pipeline(g.device, d, 0, NULL, &error);
    object_release(d);
    return p;
}

/* Of a file, or an empty one. */
static id archive_of(const char *path, id *error)
{
    id d = objc_new("MTLBinaryArchiveDescriptor");
    if (path)
        archive_set_url(d, url_of_path(objc.class_of("NSURL"), objc_string(path)));
    id a = device_archive(g.device, d, error);
    object_release(d);
    return a;
}
static id array_of(const id *item, unsigned long n) { return array_with(objc.class_of("NSArray"), item, n); }

/* A device with everything that a dispatch of k_add takes; the buffer is resident. */
static void set_up(void)
{
    struct err e = { 0 };
    uint64_t n;
    id error = NULL;
    ck_assert_msg(objc_open(&e) == 0, "%s", e.msg);
    objc.pool_push();
    g.device = objc.default_device();
    g.queue = device_queue(g.device);
    g.event = device_event(g.device);
    g.fence = device_fence(g.device);
    id d = objc_new("MTLResidencySetDescriptor");
    g.set = device_residency(g.device, d, &error);
    object_release(d);
    queue_residency(g.queue, g.set);
    g.library = device_library(g.device, objc_string(kernel_blob_bytes(kernel_blob_find("basic", "msl"), &n)), NULL, &error);
    ck_assert_ptr_nonnull(g.library);
    g.pipeline = pipeline_of("k_add", 256);
    g.buffer = device_buffer(g.device, BYTES, SHARED);
    set_label(g.buffer, objc_string("numbers"));
    residency_add(g.set, g.buffer);
    commit(g.set);
    uint8_t *p = buffer_contents(g.buffer);
    uint64_t va = buffer_address(g.buffer);
    kl_add args = { .step = va + 512, .y = va + 2048, .a = va + 1024, .b = va + 1024, .n = 4 };
    memcpy(p, &args, sizeof args);
    ((ka_step *)(p + 512))->n_rows = 1;
    for (int i = 0; i < 4; i++)
        ((float *)(p + 1024))[i] = (float)i;
}

static id encoder_of(id cmdbuf)
{
    id e = cmdbuf_encoder(cmdbuf, 1);
    encoder_pipeline(e, g.pipeline);
    encoder_buffer(e, g.buffer, 0, 0);
    encoder_shared(e, 16, 0);
    return e;
}
static const struct objc_size one = { 1, 1, 1 }, threads = { 256, 1, 1 };
static id run_it(void)
{
    id b = queue_buffer(g.queue), e = encoder_of(b);
    encoder_dispatch(e, one, threads);
    encoder_end(e);
    cmdbuf_signal(b, g.event, 7);
    commit(b);
    cmdbuf_wait(b);
    return b;
}

/* ---- what breaks a rule ---- */

#define ENCODE id b = queue_buffer(g.queue), e = encoder_of(b); (void)b
static void dead_object(void) { object_release(g.event); event_value(g.event); }
static void dead_buffer(void)
{
    ENCODE;
    encoder_dispatch(e, one, threads);
    encoder_end(e);
    object_release(g.buffer);
    commit(b);
    cmdbuf_wait(b);
}
static void no_pool(void) { objc.pool_pop(objc.pool_push()); void *p = objc.pool_push(); objc.pool_push(); objc.pool_pop(p); }
static void empty_buffer(void) { device_buffer(g.device, 0, SHARED); }
static void huge_buffer(void) { device_buffer(g.device, 1ul << 60, SHARED); }
static void managed_buffer(void) { device_buffer(g.device, 64, 1 << 4); }
static void twice(void) { commit(run_it()); }
static void open_encoder(void) { ENCODE; commit(b); (void)e; }
static void after_the_end(void) { ENCODE; encoder_end(e); encoder_dispatch(e, one, threads); }
static void signal_inside(void) { ENCODE; cmdbuf_signal(b, g.event, 1); (void)e; }
static void odd_shared(void) { ENCODE; encoder_shared(e, 24, 0); }
static void much_shared(void) { ENCODE; encoder_shared(e, 64 << 10, 0); }
static void far_slot(void) { ENCODE; encoder_shared(e, 16, 31); }
static void past_the_end(void) { ENCODE; encoder_offset(e, 1 << 20, 0); }
static void odd_offset(void) { ENCODE; encoder_offset(e, 2, 0); }
static void no_groups(void) { ENCODE; encoder_dispatch(e, (struct objc_size){ 1, 0, 1 }, threads); }
static void many_threads(void) { ENCODE; encoder_dispatch(e, one, (struct objc_size){ 512, 1, 1 }); }
static void no_arguments(void)
{
    id b = queue_buffer(g.queue), e = cmdbuf_encoder(b, 1);
    encoder_pipeline(e, g.pipeline);
    encoder_shared(e, 16, 0);
    encoder_dispatch(e, one, threads);
}
static void no_threadgroup_memory(void)
{
    id b = queue_buffer(g.queue), e = cmdbuf_encoder(b, 1);
    encoder_pipeline(e, g.pipeline);
    encoder_buffer(e, g.buffer, 0, 0);
    encoder_dispatch(e, one, threads);
}
static void serial_barrier(void) { id b = queue_buffer(g.queue); encoder_barrier(cmdbuf_encoder(b, 0), 1); }
static void late_wait(void) { ENCODE; encoder_dispatch(e, one, threads); encoder_wait(e, g.fence); }
static void waits_for_itself(void) { ENCODE; encoder_update(e, g.fence); encoder_wait(e, g.fence); }
static void too_many(void)
{
    for (int i = 0; i < 65; i++)
        queue_buffer(g.queue);
}
static void not_resident(void)
{
    residency_remove(g.set, g.buffer);
    commit(g.set);
    run_it();
}
static void no_archive_descriptor(void) { device_archive(g.device, NULL, NULL); }
static void archive_of_a_string(void) { archive_set_url(objc_new("MTLBinaryArchiveDescriptor"), objc_string("/tmp/x")); }
static void adds_nothing(void) { archive_add(archive_of(NULL, NULL), objc_new("MTLComputePipelineDescriptor"), NULL); }
static void serialized_nowhere(void) { archive_serialize(archive_of(NULL, NULL), NULL, NULL); }
static void looks_in_a_buffer(void) { pipeline_set_archives(descriptor_of("k_add", 256), array_of(&g.buffer, 1)); }
static void looks_in_no_array(void) { pipeline_set_archives(descriptor_of("k_add", 256), archive_of(NULL, NULL)); }
static void nil_in_an_array(void) { array_of((const id[]){ g.buffer, NULL }, 2); }
static void path_of_nothing(void) { url_of_path(objc.class_of("NSURL"), objc_string("")); }
static void odd_options(void) { device_pipeline(g.device, descriptor_of("k_add", 256), 64, NULL, NULL); }
static void library_of_a_string(void) { device_library_data(g.device, objc_string("MTLB"), NULL); }

static const struct {
    void (*fn)(void);
    const char *says;
} rules[] = {
    { dead_object, "lifetime: signaledValue: a MTLSharedEvent that was released" },
    { dead_buffer, "lifetime: running a command buffer with unretained references" },
    { no_pool, "autorelease pool: a pool is popped that is not the newest" },
    { empty_buffer, "newBufferWithLength:: 0 bytes" },
    { huge_buffer, "newBufferWithLength:" },
    { managed_buffer, "options 0x10 are no storage mode" },
    { twice, "commit: the command buffer was committed before" },
    { open_encoder, "commit: an encoder of the command buffer is still open" },
    { after_the_end, "the encoder has ended" },
    { signal_inside, "encodeSignalEvent:value:: an encoder" },
    { odd_shared, "24 bytes: a multiple of 16" },
    { much_shared, "65536 bytes: a multiple of 16, at most 32768" },
    { far_slot, "index 31 of 31" },
    { past_the_end, "offset 1048576 of a buffer" },
    { odd_offset, "offset 2 of a buffer" },
    { no_groups, "1 x 0 x 1 threadgroups" },
    { many_threads, "512 threads of a threadgroup, the pipeline of k_add has at most 256" },
    { no_arguments, "no buffer is set at index 0" },
    { no_threadgroup_memory, "no threadgroup memory is set" },
    { serial_barrier, "barriers act in concurrent encoders alone" },
    { late_wait, "waitForFence:: a fence is waited for before the encoder's first dispatch" },
    { waits_for_itself, "waitForFence:: the encoder has updated this fence" },
    { too_many, "64 command buffers of the queue are not complete" },
    { no_archive_descriptor, "newBinaryArchiveWithDescriptor:error:: not an archive's descriptor" },
    { archive_of_a_string, "setUrl:: not an NSURL" },
    { adds_nothing, "addComputePipelineFunctionsWithDescriptor:error:: not a compute pipeline's descriptor with a function" },
    { serialized_nowhere, "serializeToURL:error:: not an NSURL of a file" },
    { looks_in_a_buffer, "setBinaryArchives:: item 0 is no binary archive" },
    { looks_in_no_array, "setBinaryArchives:: not an NSArray" },
    { nil_in_an_array, "arrayWithObjects:count:: item 1 is nil" },
    { path_of_nothing, "fileURLWithPath:: the path is nil or empty" },
    { odd_options, "newComputePipelineStateWithDescriptor:: options 0x40" },
    { library_of_a_string, "newLibraryWithData:error:: not a dispatch_data_t" },
    { not_resident, "residency: the argument buffer \"numbers\" is not resident" },
};

START_TEST(rule_is_told)
{
    char text[1024];
    int fd[2], status = 0;
    ck_assert_int_eq(pipe(fd), 0);
    pid_t pid = fork();
    if (pid == 0) {
        dup2(fd[1], 2);
        set_up();
        rules[_i].fn();
        _exit(0);
    }
    close(fd[1]);
    size_t n = 0;
    for (ssize_t got; (got = read(fd[0], text + n, sizeof text - 1 - n)) > 0;)
        n += (size_t)got;
    text[n] = 0;
    close(fd[0]);
    waitpid(pid, &status, 0);
    ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) == BROKEN, "rule %d (%s): status %x: %s", _i, rules[_i].says, status, text);
    ck_assert_msg(strstr(text, rules[_i].says), "rule %d: '%s' is not in: %s", _i, rules[_i].says, text);
}
END_TEST

START_TEST(what_is_right_passes)
{
    set_up();
    id b = run_it();
    ck_assert_uint_eq(cmdbuf_status(b), COMPLETED);
    ck_assert_uint_eq(event_value(g.event), 7);
    ck_assert(event_wait(g.event, 7, 0) && !event_wait(g.event, 8, 1));
    const float *y = (const float *)((uint8_t *)buffer_contents(g.buffer) + 2048);
    for (int i = 0; i < 4; i++)
        ck_assert(y[i] == 2.0f * (float)i);
    ck_assert_ptr_nonnull(object_retain(g.event));
    ck_assert_ptr_null(device_name(NULL)); /* a message to nil */
}
END_TEST

/* The host's address in place of the GPU's, and memory that is not there: the command buffer fails, its event stays. */
START_TEST(faults_are_errors)
{
    set_up();
    kl_add *a = buffer_contents(g.buffer);
    a->y = (uintptr_t)buffer_contents(g.buffer) + 2048;
    uint64_t host = a->y;
    (void)host;
    a->b = buffer_address(g.buffer) + (1ull << 40);
    id b = run_it();
    ck_assert_uint_eq(cmdbuf_status(b), ERROR);
    ck_assert_int_eq(error_code(cmdbuf_error(b)), 3);
    ck_assert_msg(strstr(objc_text(error_text(cmdbuf_error(b))), "no buffer of the GPU's"), "%s", objc_text(error_text(cmdbuf_error(b))));
    ck_assert_uint_eq(event_value(g.event), 0);
    a->b = a->a;
    a->y = buffer_address(g.buffer) + 2048;
    ck_assert_uint_eq(cmdbuf_status(run_it()), COMPLETED);
}
END_TEST

START_TEST(other_texts_are_rejected)
{
    set_up();
    id error = NULL;
    ck_assert_ptr_null(device_library(g.device, objc_string("kernel void f() {}"), NULL, &error));
    ck_assert_msg(strstr(objc_text(error_text(error)), "program_source"), "%s", objc_text(error_text(error)));
    ck_assert_ptr_null(library_function(g.library, objc_string("k_none")));
}
END_TEST

/* A pipeline is in an archive when it was added with the same function and settings, there or where the file comes from. */
START_TEST(an_archive_has_what_was_added)
{
    enum { FAIL_ON_MISS = 4 };
    char path[] = "/tmp/zt.XXXXXX";
    set_up();
    id error = NULL, a = archive_of(NULL, &error), d = descriptor_of("k_add", 256), other = descriptor_of("k_add", 128);
    close(mkstemp(path));
    id url = url_of_path(objc.class_of("NSURL"), objc_string(path));
    ck_assert_ptr_nonnull(device_pipeline(g.device, d, FAIL_ON_MISS, NULL, &error)); /* no archive to miss it in */
    pipeline_set_archives(d, array_of(&a, 1));
    ck_assert_ptr_null(device_pipeline(g.device, d, FAIL_ON_MISS, NULL, &error));
    ck_assert_ptr_nonnull(error);
    ck_assert(archive_add(a, d, &error) && archive_serialize(a, url, &error));
    ck_assert_ptr_nonnull(device_pipeline(g.device, d, FAIL_ON_MISS, NULL, &error));
    id read = archive_of(path, &error);
    ck_assert_ptr_nonnull(read);
    pipeline_set_archives(d, array_of(&read, 1));
    pipeline_set_archives(other, array_of(&read, 1));
    ck_assert_ptr_nonnull(device_pipeline(g.device, d, FAIL_ON_MISS, NULL, &error));
    ck_assert_ptr_null(device_pipeline(g.device, other, FAIL_ON_MISS, NULL, &error));
    ck_assert_ptr_nonnull(device_pipeline(g.device, other, 0, NULL, &error));
    ck_assert_int_eq(truncate(path, 40), 0);
    ck_assert_ptr_null(archive_of(path, &error));
    ck_assert_int_eq(error_code(error), 1);
    unlink(path);
    ck_assert_ptr_null(archive_of(path, &error));
    ck_assert(!archive_serialize(a, url_of_path(objc.class_of("NSURL"), objc_string("/proc/nowhere/x")), &error));
}
END_TEST

START_TEST(a_metallib_is_its_text_behind_four_letters)
{
    uint64_t n;
    id error = NULL;
    set_up();
    const char *text = kernel_blob_bytes(kernel_blob_find("basic", "msl"), &n);
    char *bytes = malloc(n + 4);
    memcpy(bytes, "MTLB", 4);
    memcpy(bytes + 4, text, n);
    ck_assert_ptr_nonnull(library_function(device_library_data(g.device, objc.data(bytes, n + 4, NULL, NULL), &error), objc_string("k_add")));
    ck_assert_ptr_null(device_library_data(g.device, objc.data(bytes, n + 3, NULL, NULL), &error));
    ck_assert_str_eq(objc_text(error_text(error)), "Invalid library file");
    free(bytes);
}
END_TEST

int main(int argc, char **argv)
{
    const char *build = getenv("ZINC_BUILD");
    char sim[4096];
    snprintf(sim, sizeof sim, "%s/metalsim", build ? build : "build");
    if (!getenv("METALSIM")) {
        if (build && strchr(build, '/')) {
            printf("the release build runs it: a sanitizer's runtime wants to be loaded first\n");
            return 77;
        }
        if (access(sim, X_OK) || !kernel_blob_find("basic", "msl")) {
            printf("no %s in this build\n", sim);
            return 77;
        }
        execl(sim, sim, argv[0], (char *)NULL);
        return 1;
    }
    TCase *t = tcase_create("rules");
    tcase_add_loop_test(t, rule_is_told, 0, sizeof rules / sizeof *rules);
    tcase_add_test(t, what_is_right_passes);
    tcase_add_test(t, faults_are_errors);
    tcase_add_test(t, other_texts_are_rejected);
    tcase_add_test(t, an_archive_has_what_was_added);
    tcase_add_test(t, a_metallib_is_its_text_behind_four_letters);
    Suite *s = suite_create("metalsim");
    suite_add_tcase(s, t);
    SRunner *r = srunner_create(s);
    srunner_run_all(r, CK_NORMAL);
    int failed = srunner_ntests_failed(r);
    srunner_free(r);
    return failed != 0;
}
