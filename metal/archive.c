/* metal/archive.c: compiled pipelines on disk, so that a second start compiles nothing: Metal's binary archives in the cache
 * folder, for each GPU, version of macOS and set of kernels.
 *
 * A start that compiles something writes it as one archive more, and reads all there are: another model needs other kernels,
 * and several processes may write at once. The sum of a file's bytes is in its name, so damage is seen before Metal reads it,
 * and a name never has two contents. What is wrong with a file costs a line, and the next start compiles again. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <xxhash.h>

#include "base/cache.h"
#include "base/env.h"
#include "base/log.h"
#include "metal/metal.h"
#include "rt/blob.h"

enum { MAX_READ = sizeof((struct metal_archives *)0)->file / sizeof *((struct metal_archives *)0)->file };
#define PREFIX "metal-%016llx-"

static uint64_t key_of(const struct metal_tier *m)
{
    XXH64_state_t *h = XXH64_createState();
    if (!h)
        return 0;
    const char *gpu = objc_text(device_name(m->device)), *os = objc_text(process_os(process_info(objc.class_of("NSProcessInfo"))));
    XXH64_reset(h, 0);
    XXH64_update(h, gpu, strlen(gpu) + 1);
    XXH64_update(h, os, strlen(os) + 1);
    for (uint32_t i = 0; i < n_kernel_blobs; i++)
        if (strcmp(kernel_blobs[i].target, "msl") == 0 || strcmp(kernel_blobs[i].target, "metallib") == 0)
            XXH64_update(h, kernel_blobs[i].frame, (size_t)(kernel_blobs[i].end - kernel_blobs[i].frame));
    uint64_t key = XXH64_digest(h);
    XXH64_freeState(h);
    return key;
}

static bool path_of(const char *name, char path[CACHE_PATH])
{
    return cache_path(env_get()->metal_cache, name, path);
}

static bool sum_of(const char *path, uint64_t *sum)
{
    char buf[64 << 10];
    FILE *f = fopen(path, "rb");
    XXH64_state_t *h = f ? XXH64_createState() : NULL;
    if (h) {
        XXH64_reset(h, 0);
        for (size_t n; (n = fread(buf, 1, sizeof buf, f)) > 0;)
            XXH64_update(h, buf, n);
        *sum = XXH64_digest(h);
        XXH64_freeState(h);
    }
    bool ok = h && !ferror(f);
    if (f)
        fclose(f);
    return ok;
}

/* An archive of a file, or an empty one for NULL. */
static id archive_of(struct metal_tier *m, const char *path, id *error)
{
    id d = objc_new("MTLBinaryArchiveDescriptor");
    if (path)
        archive_set_url(d, url_of_path(objc.class_of("NSURL"), objc_string(path)));
    id a = device_archive(m->device, d, error);
    object_release(d);
    return a;
}

/* NULL: it is gone, or damaged, and then removed. */
static id read_one(struct metal_tier *m, const char *name)
{
    char path[CACHE_PATH], why[300] = "its checksum is wrong";
    uint64_t sum, want = strtoull(name + snprintf(NULL, 0, PREFIX, 0ull), NULL, 16);
    id error = NULL, a = NULL;
    if (!path_of(name, path) || !sum_of(path, &sum))
        return NULL;
    if (sum == want && !(a = archive_of(m, path, &error)))
        metal_error(error, why, sizeof why);
    if (!a) {
        log_warn(METAL, "archive %s is ignored: %s; its kernels are compiled again", path, why);
        unlink(path);
    }
    return a;
}

static uint32_t read_all(struct metal_tier *m, id out[MAX_READ])
{
    struct metal_archives *x = &m->archives;
    char prefix[METAL_ARCHIVE_NAME], folder[CACHE_PATH];
    int n_prefix = snprintf(prefix, sizeof prefix, PREFIX, (unsigned long long)x->key);
    DIR *dir = path_of("", folder) ? opendir(folder) : NULL;
    for (struct dirent *d; dir && (d = readdir(dir)) && x->n_read < MAX_READ;) {
        size_t len = strlen(d->d_name);
        if (strncmp(d->d_name, prefix, (size_t)n_prefix) || len >= METAL_ARCHIVE_NAME || strcmp(d->d_name + len - 8, ".archive") ||
            !(out[x->n_read] = read_one(m, d->d_name)))
            continue;
        memcpy(x->file[x->n_read++], d->d_name, len + 1);
    }
    if (dir)
        closedir(dir);
    return x->n_read;
}

void metal_archives_open(struct metal_tier *m)
{
    struct metal_archives *x = &m->archives;
    id each[MAX_READ + 1], error = NULL;
    char path[CACHE_PATH], why[300];
    if (!path_of("", path))
        return;
    x->key = key_of(m);
    uint32_t n = m->fresh < 2 ? read_all(m, each) : 0;
    if (!(x->fresh = archive_of(m, NULL, &error))) {
        metal_error(error, why, sizeof why);
        log_info(METAL, "macOS makes no binary archive, the next start compiles again: %s", why);
    } else {
        each[n] = x->fresh;
    }
    uint32_t all = n + (x->fresh != NULL);
    if (all)
        x->all = object_retain(array_with(objc.class_of("NSArray"), each, all));
    for (uint32_t i = 0; i < n; i++)
        object_release(each[i]);
    if (n)
        log_info(METAL, "archives of compiled pipelines: %u, in %s", n, path);
}

/* What misses is compiled into the fresh archive and taken from there. */
id metal_archives_pipeline(struct metal_tier *m, id descriptor, id *error)
{
    struct metal_archives *x = &m->archives;
    id p = NULL, ignored = NULL;
    if (x->all)
        pipeline_set_archives(descriptor, x->all);
    if (x->n_read)
        p = device_pipeline(m->device, descriptor, METAL_FAIL_ON_MISS, NULL, &ignored);
    if (p)
        return p;
    if (x->fresh && archive_add(x->fresh, descriptor, &ignored))
        x->n_added++;
    return device_pipeline(m->device, descriptor, 0, NULL, error);
}

/* ---- writing ---- */

/* Those that were read go where there are too many: the next start begins a new one. */
static void make_room(struct metal_archives *x)
{
    char path[CACHE_PATH];
    for (uint32_t i = 0; i < x->n_read && x->n_read == MAX_READ; i++)
        if (path_of(x->file[i], path))
            unlink(path);
}

/* Written beside the others, then renamed to what its bytes are. */
static bool write_fresh(struct metal_archives *x, char path[CACHE_PATH], char *why, size_t n_why)
{
    char name[METAL_ARCHIVE_NAME], tmp[CACHE_PATH];
    uint64_t sum;
    id error = NULL;
    snprintf(name, sizeof name, PREFIX "%d.new", (unsigned long long)x->key, (int)getpid());
    if (!path_of(name, tmp) || !cache_write(tmp, NULL, 0, "", 0)) { /* which makes the folder */
        snprintf(why, n_why, "%s", strerror(errno));
        return false;
    }
    unlink(tmp); /* what Metal does with a file that is there is not documented */
    if (!archive_serialize(x->fresh, url_of_path(objc.class_of("NSURL"), objc_string(tmp)), &error)) {
        metal_error(error, why, n_why);
        unlink(tmp);
        return false;
    }
    bool ok = sum_of(tmp, &sum);
    snprintf(name, sizeof name, PREFIX "%016llx.archive", (unsigned long long)x->key, (unsigned long long)sum);
    ok = ok && path_of(name, path) && rename(tmp, path) == 0;
    if (!ok) {
        snprintf(why, n_why, "%s", strerror(errno));
        unlink(tmp);
        return false;
    }
    char old[CACHE_PATH];
    if (x->written[0] && strcmp(x->written, name) && path_of(x->written, old))
        unlink(old);
    memcpy(x->written, name, sizeof name);
    return true;
}

void metal_archives_save(struct metal_tier *m)
{
    struct metal_archives *x = &m->archives;
    char path[CACHE_PATH] = "", why[300];
    if (!x->n_added)
        return;
    make_room(x);
    if (write_fresh(x, path, why, sizeof why))
        log_info(METAL, "compiled pipelines: %u written to %s", x->n_added, path);
    else if (path_of("", path))
        log_info(METAL, "no archive of compiled pipelines in %s: %s; the next start compiles again", path, why);
    x->n_added = 0;
}

void metal_archives_close(struct metal_tier *m)
{
    object_release(m->archives.all);
    object_release(m->archives.fresh);
    m->archives = (struct metal_archives){ 0 };
}
