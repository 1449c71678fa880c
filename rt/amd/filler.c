/* rt/amd/filler.c: a child that fills the card's memory. */
#include "rt/amd/filler.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* include/uapi/drm/amdgpu_drm.h and drm.h of Linux; libdrm's headers need not be there. */
union gem_create {
    struct { uint64_t bytes, align, domains, flags; } in;
    struct { uint32_t handle, pad; } out;
};
struct gem_close { uint32_t handle, pad; };
struct info { uint64_t out; uint32_t bytes, query; uint64_t pad[2]; };
struct heap { uint64_t total, usable, usage, largest; };
struct memory { struct heap vram, visible, gtt; };
_Static_assert(sizeof(union gem_create) == 32 && sizeof(struct info) == 32 && sizeof(struct memory) == 96, "kernel interface");

#define GEM_CREATE _IOWR('d', 0x40, union gem_create)
#define GEM_CLOSE  _IOW('d', 0x09, struct gem_close)
#define INFO       _IOW('d', 0x45, struct info)
enum { INFO_NUM_EVICTIONS = 0x18, INFO_MEMORY = 0x19, DOMAIN_VRAM = 4, NO_CPU_ACCESS = 1 << 1 };
enum { PIECES = 64, HOLD_MS = 20, PAGE = 4096 };

static int call(int fd, unsigned long request, void *arg)
{
    int rc;
    while ((rc = ioctl(fd, request, arg)) && (errno == EINTR || errno == EAGAIN))
        ;
    return rc ? -errno : 0;
}

static int ask(int fd, uint32_t query, void *out, uint32_t bytes)
{
    return call(fd, INFO, &(struct info){ .out = (uintptr_t)out, .bytes = bytes, .query = query });
}

/* Until the pipe's other end is closed; true: it is. */
static bool told_to_stop(int fd, int ms)
{
    struct pollfd p = { .fd = fd, .events = POLLIN };
    return poll(&p, 1, ms) > 0;
}

/* What there is, in pieces; a buffer for which VRAM has no more room goes to host memory, without an error, so the sum is what
 * ends it. */
static int fill_once(int fd, uint64_t bytes, int stop)
{
    uint32_t handle[PIECES], n = 0;
    uint64_t piece = bytes / PIECES / PAGE * PAGE;
    int rc = piece ? 0 : -ENOMEM;
    while (n < PIECES && !rc && !told_to_stop(stop, 0)) {
        union gem_create c = { .in = { piece, PAGE, DOMAIN_VRAM, NO_CPU_ACCESS } };
        if (!(rc = call(fd, GEM_CREATE, &c)))
            handle[n++] = c.out.handle;
    }
    rc = rc == -ENOMEM && n ? 0 : rc;
    if (!rc)
        told_to_stop(stop, HOLD_MS);
    while (n)
        call(fd, GEM_CLOSE, &(struct gem_close){ .handle = handle[--n] });
    return rc;
}

/* Between fork and _exit, where only what is safe in a signal handler may be called. */
static struct amd_filler_report child(const char *path, int stop)
{
    struct amd_filler_report r = { 0 };
    struct memory m = { 0 };
    uint64_t before = 0, after = 0;
    int fd = open(path, O_RDWR | O_CLOEXEC);
    if (fd < 0 || (r.rc = ask(fd, INFO_MEMORY, &m, sizeof m))) {
        r.rc = fd < 0 ? -errno : r.rc;
        return r;
    }
    r.bytes = m.vram.usable ? m.vram.usable : m.vram.total;
    ask(fd, INFO_NUM_EVICTIONS, &before, sizeof before);
    while (!r.rc && !told_to_stop(stop, 0))
        if (!(r.rc = fill_once(fd, r.bytes, stop)))
            r.rounds++;
    ask(fd, INFO_NUM_EVICTIONS, &after, sizeof after);
    r.evictions = after - before;
    return r;
}

int amd_filler_start(uint32_t render_minor, struct amd_filler *f, struct err *e)
{
    char path[48];
    int stop[2], said[2];
    snprintf(path, sizeof path, "/dev/dri/renderD%u", render_minor);
    if (pipe2(stop, O_CLOEXEC))
        return err_set(e, -errno, "a pipe: %s", strerror(errno));
    if (pipe2(said, O_CLOEXEC)) {
        close(stop[0]);
        close(stop[1]);
        return err_set(e, -errno, "a pipe: %s", strerror(errno));
    }
    pid_t pid = fork();
    if (pid == 0) {
        close(stop[1]);
        struct amd_filler_report r = child(path, stop[0]);
        ssize_t n = write(said[1], &r, sizeof r);
        _exit(n != sizeof r);
    }
    int rc = pid < 0 ? -errno : 0;
    close(stop[0]);
    close(said[1]);
    *f = (struct amd_filler){ .pid = pid, .stop = stop[1], .said = said[0] };
    if (!rc)
        return 0;
    close(f->stop);
    close(f->said);
    return err_set(e, rc, "a second process: %s", strerror(-rc));
}

void amd_filler_stop(struct amd_filler *f, struct amd_filler_report *out)
{
    close(f->stop);
    *out = (struct amd_filler_report){ 0 };
    if (read(f->said, out, sizeof *out) != sizeof *out)
        out->rc = -EIO;
    close(f->said);
    while (waitpid(f->pid, NULL, 0) < 0 && errno == EINTR)
        ;
}
