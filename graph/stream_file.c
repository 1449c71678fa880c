/* Streams as files: the head, the sections in the order of stream_sections, each padded to 8 bytes, and the FNV-1a
 * hash of all that. Little-endian, the structs as they are in memory (doc/stream.md). */
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/ckd.h"
#include "graph/ir.h"

_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "streams are little-endian");
_Static_assert(sizeof(struct stream_use) == 16 && sizeof(struct stream_buf) == 32 &&
                   sizeof(struct stream_weight) == 72 && sizeof(struct patch) == 12 &&
                   sizeof(struct stream_head) == 152,
               "stream ABI");

#define MAX_FILE (1ull << 32)

/* Bytes of the file of such a stream, without the hash. */
static uint64_t body_bytes(const struct stream_head *h)
{
    struct section sec[STREAM_SECTIONS];
    uint64_t n = sizeof *h;
    stream_sections(&(struct stream){.h = *h}, sec);
    for (int i = 0; i < STREAM_SECTIONS; i++)
        n += align_up(sec[i].bytes, 8);
    return n;
}

static int write_all(int fd, const uint8_t *p, uint64_t n)
{
    while (n > 0) {
        ssize_t w = write(fd, p, n);
        if (w < 0 && errno == EINTR)
            continue;
        if (w <= 0)
            return w < 0 ? -errno : -EIO;
        p += w;
        n -= (uint64_t)w;
    }
    return 0;
}

int stream_save(const struct stream *s, const char *path, struct err *e)
{
    struct section sec[STREAM_SECTIONS];
    uint64_t n = body_bytes(&s->h), at = sizeof s->h, hash;
    uint8_t *mem = calloc(1, n + sizeof hash);
    if (!mem)
        return err_set(e, -ENOMEM, "stream: %s: %llu bytes to write", path, (unsigned long long)n);
    memcpy(mem, &s->h, sizeof s->h);
    stream_sections(s, sec);
    for (int i = 0; i < STREAM_SECTIONS; i++) {
        if (sec[i].bytes)
            memcpy(mem + at, sec[i].bytes_at, sec[i].bytes);
        at += align_up(sec[i].bytes, 8);
    }
    hash = stream_hash(mem, n, 0);
    memcpy(mem + n, &hash, sizeof hash);

    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    int rc = fd < 0 ? -errno : write_all(fd, mem, n + sizeof hash);
    if (fd >= 0 && close(fd) < 0 && !rc)
        rc = -errno;
    free(mem);
    return rc ? err_set(e, rc, "stream: %s: cannot write: %s", path, strerror(-rc)) : 0;
}

int stream_load_memory(const char *name, const void *bytes, uint64_t n, struct stream **out, struct err *e)
{
    struct stream_head h;
    struct section sec[STREAM_SECTIONS];
    const uint8_t *p = bytes;
    uint64_t hash, at = sizeof h;
    if (n < sizeof h + sizeof hash || memcmp(p, STREAM_MAGIC, 7) != 0)
        return err_set(e, -EINVAL, "stream: %s: not a command stream", name);
    memcpy(&h, p, sizeof h);
    if (memcmp(h.magic, STREAM_MAGIC, sizeof h.magic) != 0)
        return err_set(e, -EINVAL, "stream: %s: version %u, this program reads %u (save the stream again)", name,
                       (unsigned)(uint8_t)h.magic[7], (unsigned)STREAM_MAGIC[7]);
    if (body_bytes(&h) != n - sizeof hash)
        return err_set(e, -EINVAL, "stream: %s: %llu bytes, its head counts %llu (truncated?)", name,
                       (unsigned long long)n, (unsigned long long)(body_bytes(&h) + sizeof hash));
    memcpy(&hash, p + n - sizeof hash, sizeof hash);
    if (hash != stream_hash(p, n - sizeof hash, 0))
        return err_set(e, -EINVAL, "stream: %s: damaged: its hash does not match", name);
    struct stream *s = stream_alloc(&h);
    if (!s)
        return err_set(e, -ENOMEM, "stream: %s: %llu bytes", name, (unsigned long long)n);
    stream_sections(s, sec);
    for (int i = 0; i < STREAM_SECTIONS; i++) {
        if (sec[i].bytes)
            memcpy(sec[i].bytes_at, p + at, sec[i].bytes);
        at += align_up(sec[i].bytes, 8);
    }
    int rc = stream_verify(s, e);
    if (rc) {
        err_context(e, "%s", name);
        stream_free(s);
        return rc;
    }
    *out = s;
    return 0;
}

static int read_all(int fd, uint8_t *p, uint64_t n)
{
    while (n > 0) {
        ssize_t r = read(fd, p, n);
        if (r < 0 && errno == EINTR)
            continue;
        if (r <= 0)
            return r < 0 ? -errno : -EIO;
        p += r;
        n -= (uint64_t)r;
    }
    return 0;
}

int stream_load(const char *path, struct stream **out, struct err *e)
{
    struct stat st;
    uint8_t *mem = NULL;
    int fd = open(path, O_RDONLY | O_CLOEXEC), rc = 0;
    if (fd < 0)
        return err_set(e, -errno, "stream: %s: %s", path, strerror(errno));
    if (fstat(fd, &st) < 0)
        rc = err_set(e, -errno, "stream: %s: %s", path, strerror(errno));
    else if (!S_ISREG(st.st_mode) || (uint64_t)st.st_size > MAX_FILE)
        rc = err_set(e, -EINVAL, "stream: %s: not a regular file of at most 4 GiB", path);
    else if (!(mem = malloc((size_t)st.st_size + 1)))
        rc = err_set(e, -ENOMEM, "stream: %s: %llu bytes", path, (unsigned long long)st.st_size);
    else if ((rc = read_all(fd, mem, (uint64_t)st.st_size)))
        rc = err_set(e, rc, "stream: %s: cannot read: %s", path, strerror(-rc));
    else
        rc = stream_load_memory(path, mem, (uint64_t)st.st_size, out, e);
    free(mem);
    close(fd);
    return rc;
}
