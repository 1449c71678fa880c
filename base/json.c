#include "base/json.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

/* The text is given to the parser in pieces, and no more of it after an allocation failed. What one piece can still
 * ask for is put aside: small blocks for values (a brace costs 200 bytes), and one that takes a token's text, which
 * grows by doubling. A second large one in the same piece can only be an object's table, whose failure is looked at. */
enum { PIECE = 32, SMALL_BYTES = 16384, SMALL_MOST = 1024, ALIGN_BYTES = 16 };

struct reader {
    const char *s;
    size_t n;
    bool failed, large_used;
    char *small, *large;
    size_t n_small, large_bytes;
};

/* What a program that zinc is a part of had given to jansson before; NULL: nothing, malloc and free. */
static json_malloc_t theirs_malloc;
static json_free_t theirs_free;

static _Thread_local struct reader *reader; /* of the json_read that runs on this thread */

static void *put_aside(struct reader *r, size_t n)
{
    r->failed = true;
    size_t room = align_up(n, ALIGN_BYTES);
    if (n <= SMALL_MOST && r->n_small + room <= SMALL_BYTES) {
        r->n_small += room;
        return r->small + r->n_small - room;
    }
    if (n > SMALL_MOST && n <= r->large_bytes && !r->large_used) {
        r->large_used = true;
        return r->large;
    }
    return NULL;
}

static _Thread_local unsigned failures;

unsigned json_failures(void)
{
    return failures;
}

static void *take(size_t n)
{
    struct reader *r = reader;
    void *p = r && r->failed ? NULL : theirs_malloc ? theirs_malloc(n) : malloc(n);
    failures += !p;
    return p || !r ? p : put_aside(r, n);
}

static void give_back(void *p)
{
    const struct reader *r = reader;
    bool aside = r && (uintptr_t)p - (uintptr_t)r->small < SMALL_BYTES + r->large_bytes;
    if (!aside && theirs_free)
        theirs_free(p);
    else if (!aside)
        free(p);
}

/* Before any thread is there: jansson reads these without a lock. */
static __attribute__((constructor)) void use_own_memory(void)
{
    json_get_alloc_funcs(&theirs_malloc, &theirs_free);
    if ((void *)theirs_malloc == dlsym(RTLD_DEFAULT, "malloc")) {
        theirs_malloc = NULL;
        theirs_free = NULL;
    }
    json_set_alloc_funcs(take, give_back);
}

static size_t next_piece(void *buf, size_t cap, void *user)
{
    struct reader *r = user;
    size_t n = r->failed ? 0 : MIN(MIN(r->n, cap), (size_t)PIECE);
    memcpy(buf, r->s, n);
    r->s += n;
    r->n -= n;
    return n;
}

json_t *json_read(const char *s, size_t n, size_t flags, json_error_t *je, bool *no_memory)
{
    struct reader r = { .s = s, .n = n, .large_bytes = n < SIZE_MAX / 4 ? 2 * n + 2 * SMALL_MOST : 0 };
    bool none;
    json_t *v = NULL;
    if (je)
        *je = (json_error_t){ 0 };
    r.small = r.large_bytes ? malloc(SMALL_BYTES + r.large_bytes) : NULL;
    if (r.small) {
        r.large = r.small + SMALL_BYTES;
        reader = &r;
        v = json_load_callback(next_piece, &r, flags, je);
        if (r.failed) {
            json_decref(v);
            v = NULL;
        }
        reader = NULL;
        free(r.small);
    }
    failures += !r.small;
    none = !r.small || r.failed;
    if (no_memory)
        *no_memory = none;
    return v;
}

/* ---- writing ---- */

struct writer {
    char *s;
    size_t n, cap;
    bool failed;
};

/* What jansson does with -1 differs from place to place: after the first one nothing is written any more. */
static int write_piece(const char *s, size_t n, void *user)
{
    struct writer *w = user;
    if (!w->failed && w->cap - w->n <= n) {
        size_t cap = MAX(2 * w->cap, w->n + n + 256);
        char *p = realloc(w->s, cap);
        w->failed = !p;
        w->s = p ? p : w->s;
        w->cap = p ? cap : w->cap;
    }
    if (w->failed)
        return -1;
    memcpy(w->s + w->n, s, n);
    w->n += n;
    w->s[w->n] = 0;
    return 0;
}

char *json_write(const json_t *v, size_t flags)
{
    struct writer w = { 0 };
    if (json_dump_callback(v, write_piece, &w, flags) == 0 && !w.failed)
        return w.s;
    free(w.s);
    failures++;
    return NULL;
}

int json_print(FILE *f, json_t *v, size_t flags)
{
    char *text = v ? json_write(v, flags) : NULL;
    json_decref(v);
    if (!text)
        return -ENOMEM;
    errno = 0;
    bool bad = fputs(text, f) == EOF || fputc('\n', f) == EOF || fflush(f) || ferror(f);
    int code = errno ? -errno : -EIO; /* no errno: it failed before */
    free(text);
    return bad ? code : 0;
}
