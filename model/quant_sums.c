#include "model/quant_sums.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <xxhash.h>

#include "base/ckd.h"

enum { LINE_BYTES = 2 * 33 }; /* two sums in hex, a blank, a newline */

struct line {
    struct quant_sum from, to;
};

struct quant_sums {
    char *path;
    FILE *f;
    struct line *l; /* as read */
    uint64_t n;
};

struct quant_sum quant_sum_of(const void *p, uint64_t n)
{
    XXH128_hash_t h = XXH3_128bits(p, n);
    return (struct quant_sum){ h.high64, h.low64 };
}

struct quant_sum quant_sum_of_program(void)
{
    XXH3_state_t *x = XXH3_createState();
    FILE *f = fopen("/proc/self/exe", "rbe");
    char buf[16384] = ZINC_VERSION;
    struct quant_sum sum = quant_sum_of(buf, strlen(buf));
    if (x && f) {
        XXH3_128bits_reset(x);
        for (size_t n; (n = fread(buf, 1, sizeof buf, f));)
            XXH3_128bits_update(x, buf, n);
        XXH128_hash_t h = XXH3_128bits_digest(x);
        if (!ferror(f))
            sum = (struct quant_sum){ h.high64, h.low64 };
    }
    if (f)
        fclose(f);
    XXH3_freeState(x);
    return sum;
}

static bool read_hex(const char *s, uint64_t *out)
{
    *out = 0;
    for (int i = 0; i < 16; i++) {
        int c = s[i], v = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
        if (v < 0)
            return false;
        *out = *out << 4 | (uint64_t)v;
    }
    return true;
}

static bool read_line(const char *s, struct line *l)
{
    return s[32] == ' ' && s[LINE_BYTES - 1] == '\n' && read_hex(s, &l->from.hi) && read_hex(s + 16, &l->from.lo) &&
           read_hex(s + 33, &l->to.hi) && read_hex(s + 49, &l->to.lo);
}

static int system_error(const struct quant_sums *s, struct err *e)
{
    int err = errno ? errno : EIO;
    return err_set(e, -err, "%s: cannot be written: %s%s", s->path, strerror(err), err == ENOSPC || err == EDQUOT ? ": make room on the disk" : "");
}

int quant_sums_open(const char *path, struct quant_sums **out, struct err *e)
{
    struct quant_sums *s = calloc(1, sizeof *s);
    char text[LINE_BYTES];
    struct line line;
    *out = NULL;
    if (!s || !(s->path = strdup(path))) {
        free(s);
        return err_set(e, -ENOMEM, "%s: out of memory", path);
    }
    errno = 0;
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
    s->f = fd < 0 ? NULL : fdopen(fd, "r+be");
    int rc = s->f ? 0 : system_error(s, e);
    if (!s->f && fd >= 0)
        close(fd);
    while (!rc && fread(text, 1, sizeof text, s->f) == sizeof text && read_line(text, &line)) {
        struct line *l = s->n & (s->n + 1) ? s->l : realloc(s->l, 2 * (s->n + 1) * sizeof *l);
        if (l) {
            s->l = l;
            l[s->n++] = line;
        } else {
            rc = err_set(e, -ENOMEM, "%s: out of memory", path);
        }
    }
    if (rc)
        quant_sums_close(s, false);
    else
        *out = s;
    return rc;
}

uint64_t quant_sums_count(const struct quant_sums *s)
{
    return s->n;
}

static bool same(struct quant_sum a, struct quant_sum b)
{
    return a.hi == b.hi && a.lo == b.lo;
}

bool quant_sums_same(const struct quant_sums *s, uint64_t i, struct quant_sum from, struct quant_sum to)
{
    return i < s->n && same(s->l[i].from, from) && same(s->l[i].to, to);
}

int quant_sums_cut(struct quant_sums *s, uint64_t n, struct err *e)
{
    s->n = MIN(s->n, n);
    errno = 0;
    return fflush(s->f) || ftruncate(fileno(s->f), (off_t)(s->n * LINE_BYTES)) || fseeko(s->f, 0, SEEK_END) ? system_error(s, e) : 0;
}

int quant_sums_add(struct quant_sums *s, struct quant_sum from, struct quant_sum to, struct err *e)
{
    errno = 0;
    return fprintf(s->f, "%016" PRIx64 "%016" PRIx64 " %016" PRIx64 "%016" PRIx64 "\n", from.hi, from.lo, to.hi, to.lo) != LINE_BYTES ||
           fflush(s->f) ? system_error(s, e) : 0;
}

void quant_sums_close(struct quant_sums *s, bool remove)
{
    if (!s)
        return;
    if (remove)
        unlink(s->path);
    if (s->f)
        fclose(s->f);
    free(s->path);
    free(s->l);
    free(s);
}
