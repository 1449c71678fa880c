#include "pull/fetch.h"

#include <stdio.h>
#include <string.h>

#include "pull/http.h"
#include "pull/part.h"

#ifndef ZINC_CURL

int fetch_file(const struct fetch *f, struct fetch_result *r, struct err *e)
{
    struct http_file none;
    *r = (struct fetch_result){ 0 };
    return http_look(f->url, f->token, &none, e); /* says why not */
}

#else

#include <stdlib.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "pull/curl_lib.h"

/* TRIES in a row without a byte, FAILURES in all, or RESTARTS because the file changed, and it is given up. */
enum { TRIES = 5, FAILURES = 500, RESTARTS = 2, WAIT_MS = 250, MAX_WAIT_MS = 8000, HASH_BYTES = 1 << 20, WAIT_EVENTS_MS = 200 };
#define SAVE_NS 2000000000u

struct pulling;

/* A connection and the piece that it brings. */
struct slot {
    struct pulling *x;
    struct http_request r;
    bool busy;
    uint32_t piece;
    uint64_t first, end; /* bytes [first, end) of the file are asked for; first moves */
    bool looked_at;      /* the answer's head is what was asked for                   */
    int rc;
    struct err e;
};

struct pulling {
    const struct fetch *f;
    struct fetch_result *out;
    struct http_file h;
    struct part part;
    CURLM *multi;
    struct slot slot[FETCH_MAX_CONNECTIONS];
    unsigned n_slots, tries, failures, restarts;
    bool *taken; /* pieces that a slot brings */
    struct sha256 sum;
    uint64_t hashed, saved_ns, retry_ns;
    char *buf; /* HASH_BYTES */
    char what[80];
};

static bool cancelled(const struct pulling *x)
{
    return flag_is_set(x->f->cancel);
}

static void say(const struct pulling *x, const char *line)
{
    if (x->f->say)
        x->f->say(line);
}

static void report(const struct pulling *x)
{
    progress_report(x->f->progress, x->what, part_state_done(&x->part.s), x->part.s.size);
}

/* ---- the bytes of a range ---- */

/* The answer is the one to this question: 206 with this range of this file, or 200 where all of it was asked for. */
static int check_answer(struct slot *s)
{
    const struct pulling *x = s->x;
    const struct http_head *h = &s->r.head;
    long status = 0;
    curl_off_t length = -1;
    curl_lib.easy_getinfo(s->r.curl, CURLINFO_RESPONSE_CODE, &status);
    curl_lib.easy_getinfo(s->r.curl, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
    if (status != 200 && status != 206)
        return http_status_error(status, x->h.shown, x->f->token && x->h.same_origin, &s->e);
    if (h->etag[0] && x->h.etag[0] && strcmp(h->etag, x->h.etag) != 0)
        return err_set(&s->e, -ESTALE, "%.200s: the file changed on the server while it was pulled", x->h.shown);
    if (x->h.ranges && (status != 206 || !h->has_range || h->first != s->first || h->last != s->end - 1))
        return err_set(&s->e, -EIO, "%.200s: asked for bytes %llu to %llu, the server answers %ld with others", x->h.shown,
                       (unsigned long long)s->first, (unsigned long long)s->end - 1, status);
    uint64_t total = status == 206 ? h->total : length > 0 ? (uint64_t)length : 0;
    if (total != x->part.s.size)
        return err_set(&s->e, -ESTALE, "%.200s: %llu bytes are expected, the server now has %llu", x->h.shown,
                       (unsigned long long)x->part.s.size, (unsigned long long)total);
    return 0;
}

static size_t on_bytes(char *p, size_t size, size_t n, void *user)
{
    struct slot *s = user;
    struct pulling *x = s->x;
    n *= size;
    if (!s->looked_at && (s->rc = check_answer(s)))
        return 0;
    s->looked_at = true;
    if (n > s->end - s->first) {
        s->rc = err_set(&s->e, -EIO, "%.200s: the server sends more bytes than it said", x->h.shown);
        return 0;
    }
    for (size_t at = 0; at < n;) {
        ssize_t k = pwrite(x->part.fd, p + at, n - at, (off_t)(s->first + at));
        if (k < 0 && errno == EINTR)
            continue;
        if (k < 0) {
            s->rc = err_set(&s->e, -errno, "%.300s: cannot be written: %s", x->part.path, strerror(errno));
            return 0;
        }
        at += (size_t)k;
    }
    if (s->first == x->hashed) { /* what comes behind the first hole is read back later */
        if (sha256_add(&x->sum, p, n)) {
            s->rc = err_set(&s->e, -EIO, "%.300s: its sum cannot be computed", x->part.path);
            return 0;
        }
        x->hashed += n;
    }
    s->first += n;
    x->part.s.done[s->piece] += n;
    x->out->received += n;
    x->tries = 0;
    return n;
}

/* ---- connections ---- */

static bool next_piece(const struct pulling *x, uint32_t *out)
{
    for (uint32_t i = 0; i < x->part.s.n; i++)
        if (!x->taken[i] && x->part.s.done[i] < part_state_bytes(&x->part.s, i)) {
            *out = i;
            return true;
        }
    return false;
}

static int start_slot(struct pulling *x, struct slot *s, uint32_t piece, struct err *e)
{
    char range[64];
    *s = (struct slot){ .x = x, .piece = piece };
    s->first = (uint64_t)piece * x->part.s.piece + x->part.s.done[piece];
    s->end = (uint64_t)piece * x->part.s.piece + part_state_bytes(&x->part.s, piece);
    if (http_open(&s->r, x->h.url, x->h.same_origin ? x->f->token : NULL))
        return err_set(e, -ENOMEM, "%.200s: out of memory", x->h.shown);
    if (x->h.ranges) {
        snprintf(range, sizeof range, "%llu-%llu", (unsigned long long)s->first, (unsigned long long)s->end - 1);
        curl_lib.easy_setopt(s->r.curl, CURLOPT_RANGE, range);
    }
    curl_lib.easy_setopt(s->r.curl, CURLOPT_WRITEFUNCTION, on_bytes);
    curl_lib.easy_setopt(s->r.curl, CURLOPT_WRITEDATA, s);
    curl_lib.easy_setopt(s->r.curl, CURLOPT_PRIVATE, s);
    s->busy = true;
    x->taken[piece] = true;
    if (curl_lib.multi_add_handle(x->multi, s->r.curl))
        return err_set(e, -ENOMEM, "%.200s: out of memory", x->h.shown);
    return 0;
}

static void end_slot(struct pulling *x, struct slot *s)
{
    if (!s->busy)
        return;
    curl_lib.multi_remove_handle(x->multi, s->r.curl);
    http_close(&s->r);
    x->taken[s->piece] = false;
    s->busy = false;
}

static void end_slots(struct pulling *x)
{
    for (unsigned i = 0; i < ARRAY_LEN(x->slot); i++)
        end_slot(x, &x->slot[i]);
}

/* ---- the sum, of what is there without a hole ---- */

static int hash_some(struct pulling *x, uint64_t most, struct err *e)
{
    uint64_t front = part_state_front(&x->part.s);
    for (uint64_t n; x->hashed < front && most; x->hashed += n, most -= n) {
        n = MIN(MIN(front - x->hashed, (uint64_t)HASH_BYTES), most);
        ssize_t k = pread(x->part.fd, x->buf, (size_t)n, (off_t)x->hashed);
        if (k <= 0)
            return err_set(e, k ? -errno : -EIO, "%.300s: cannot be read back: %s", x->part.path, k ? strerror(errno) : "it is too short");
        n = (uint64_t)k;
        if (sha256_add(&x->sum, x->buf, (size_t)n))
            return err_set(e, -EIO, "%.300s: its sum cannot be computed", x->part.path);
    }
    return 0;
}

static int hash_anew(struct pulling *x, struct err *e)
{
    sha256_end(&x->sum, NULL);
    x->hashed = 0;
    return sha256_begin(&x->sum) ? err_set(e, -ENOMEM, "%.200s: out of memory", x->f->path) : 0;
}

/* ---- beginning, and beginning again ---- */

static int look(struct pulling *x, struct err *e)
{
    const struct fetch *f = x->f;
    char said[SHA256_TEXT];
    http_file_clear(&x->h);
    int rc = http_look(f->url, f->token, &x->h, e);
    if (rc)
        return rc;
    memcpy(said, x->h.sha256, sizeof said);
    if (!x->h.size)
        return err_set(e, -EIO, "%.200s: the server does not tell how long the file is (Content-Length), or it is empty", x->h.shown);
    if (f->size && f->size != x->h.size)
        return err_set(e, -EIO, "%.200s: %llu bytes are expected, the server has %llu", f->url, (unsigned long long)f->size,
                       (unsigned long long)x->h.size);
    if (f->sha256 && said[0] && strcmp(f->sha256, said) != 0)
        return err_set(e, -EIO, "%.100s: the server has another file than is expected: its sha256 begins %.12s..., expected is %.12s...",
                       f->url, said, f->sha256);
    return 0;
}

/* The server was asked, the part is there: its pieces and what they need. */
static int begin(struct pulling *x, struct err *e)
{
    const char *sum = x->f->sha256 ? x->f->sha256 : x->h.sha256;
    int rc = part_begin(&x->part, x->h.size, x->h.etag, sum, x->h.ranges, e);
    if (rc)
        return rc;
    free(x->taken);
    x->taken = calloc(x->part.s.n, sizeof *x->taken);
    if (!x->taken)
        return err_set(e, -ENOMEM, "%.200s: out of memory", x->f->path);
    x->n_slots = x->h.ranges ? MIN(x->f->connections ? x->f->connections : FETCH_CONNECTIONS, FETCH_MAX_CONNECTIONS) : 1;
    if (!x->h.ranges && x->part.s.n > 1) { /* one stream is one piece */
        x->part.s.piece = x->part.s.size;
        x->part.s.n = 1;
    }
    uint64_t done = part_state_done(&x->part.s);
    if (done && !x->out->received) {
        char line[160];
        snprintf(line, sizeof line, "going on where an earlier pull ended: %.0f%% are there", 100.0 * (double)done / (double)x->part.s.size);
        say(x, line);
    }
    return hash_anew(x, e);
}

static int again_from_zero(struct pulling *x, struct err *e)
{
    int rc = part_restart(&x->part, e);
    return rc ? rc : hash_anew(x, e);
}

/* After a failure: 0 when it is tried again, after a while. */
static int after_failure(struct pulling *x, int rc, struct err *e)
{
    struct err why = { 0 };
    bool expired = rc == -EACCES || rc == -ENOENT; /* addresses that a redirect gave are valid for a while only */
    end_slots(x);
    if (rc == -ESTALE && ++x->restarts <= RESTARTS) {
        say(x, "the file changed on the server: beginning again");
        if ((rc = look(x, e)) || (rc = begin(x, e)))
            return rc;
        return again_from_zero(x, e);
    }
    if ((rc != -EAGAIN && !expired) || ++x->tries >= TRIES || ++x->failures >= FAILURES)
        return rc;
    if (!x->h.ranges && (rc = again_from_zero(x, e)))
        return rc;
    if (x->tries > 1) /* at once where bytes came */
        x->retry_ns = clock_ns() + (uint64_t)MIN(WAIT_MS << x->tries, MAX_WAIT_MS) * 1000000u;
    if (expired) {
        uint64_t size = x->part.s.size;
        if ((rc = look(x, &why)) && rc != -EAGAIN)
            return rc;
        if (!rc && x->h.size != size)
            return err_set(e, -EIO, "%.200s: the file changed on the server; pull it again", x->f->url);
    }
    return 0;
}

/* ---- all of it ---- */

static int start_slots(struct pulling *x, struct err *e)
{
    uint32_t piece;
    int rc = 0;
    if (clock_ns() < x->retry_ns)
        return 0;
    for (unsigned i = 0; i < x->n_slots && !rc; i++)
        if (!x->slot[i].busy && next_piece(x, &piece))
            rc = start_slot(x, &x->slot[i], piece, e);
    return rc;
}

/* Transfers that ended: 0, or the first failure. */
static int collect(struct pulling *x, struct err *e)
{
    CURLMsg *m;
    int rc = 0, left;
    while ((m = curl_lib.multi_info_read(x->multi, &left))) {
        struct slot *s = NULL;
        CURLcode code = m->data.result;
        if (m->msg != CURLMSG_DONE || curl_lib.easy_getinfo(m->easy_handle, CURLINFO_PRIVATE, (char **)&s) || !s)
            continue;
        int own = s->rc;
        if (!own && code)
            own = http_curl_error((int)code, &s->r, x->h.shown, &s->e);
        else if (!own && !s->looked_at)
            own = check_answer(s); /* an answer without a body */
        if (!own && s->first < s->end)
            own = err_set(&s->e, -EAGAIN, "%.200s: the connection ended before all bytes were there", x->h.shown);
        if (own && (!rc || rc == -EAGAIN)) {
            rc = own;
            *e = s->e;
        }
        end_slot(x, s);
    }
    return rc;
}

static int save(struct pulling *x, struct err *e)
{
    x->saved_ns = clock_ns();
    return x->h.ranges ? part_save(&x->part, e) : 0; /* without ranges there is nothing to go on with */
}

static int transfer(struct pulling *x, struct err *e)
{
    int running, rc = 0;
    while (part_state_done(&x->part.s) < x->part.s.size) {
        if (cancelled(x))
            return err_set(e, -ECANCELED, "interrupted; what came is kept, and the next pull goes on with it");
        if ((rc = start_slots(x, e)))
            return rc;
        if (curl_lib.multi_perform(x->multi, &running))
            return err_set(e, -EIO, "%.200s: libcurl cannot go on", x->h.shown);
        if ((rc = collect(x, e))) {
            if ((rc = after_failure(x, rc, e)))
                return rc;
            running = 0;
        }
        if ((rc = hash_some(x, 8 * HASH_BYTES, e)))
            return rc;
        if (clock_ns() - x->saved_ns > SAVE_NS && (rc = save(x, e)))
            return rc;
        report(x);
        if (running || clock_ns() < x->retry_ns)
            curl_lib.multi_poll(x->multi, NULL, 0, WAIT_EVENTS_MS, NULL);
    }
    return 0;
}

/* All bytes are there: are they the right ones? */
static int check_whole(struct pulling *x, struct err *e)
{
    char magic[4];
    const char *expected = x->part.s.sha256;
    int rc;
    snprintf(x->what, sizeof x->what, "checking the sum");
    while (x->hashed < x->part.s.size) {
        if ((rc = hash_some(x, 64 * HASH_BYTES, e)))
            return rc;
        if (cancelled(x))
            return err_set(e, -ECANCELED, "interrupted; what came is kept, and the next pull goes on with it");
        progress_report(x->f->progress, x->what, x->hashed, x->part.s.size);
    }
    sha256_end(&x->sum, x->out->sha256);
    x->out->verified = expected[0] && strcmp(expected, x->out->sha256) == 0;
    if (expected[0] && !x->out->verified) {
        part_drop(&x->part);
        return err_set(e, -EBADMSG, "%.150s: wrong sum: sha256 %s is expected, what came has %s; it was removed, pull it again", x->f->url,
                       expected, x->out->sha256);
    }
    if (pread(x->part.fd, magic, sizeof magic, 0) != sizeof magic || memcmp(magic, "GGUF", 4) != 0) {
        part_drop(&x->part);
        return err_set(e, -EBADMSG, "%.200s: what came is no GGUF file (a page about it, perhaps): it was removed", x->f->url);
    }
    return 0;
}

static void tell_wait(void *user)
{
    say(user, "another pull of this file goes on: waiting for it");
}

static int fetch_all(struct pulling *x, struct err *e)
{
    int rc;
    while ((rc = look(x, e)) == -EAGAIN && ++x->tries < TRIES && !cancelled(x))
        usleep((useconds_t)(WAIT_MS << (x->tries - 1)) * 1000);
    if (rc) {
        part_drop_empty(&x->part);
        return rc;
    }
    x->tries = 0;
    if ((rc = begin(x, e)))
        return rc;
    rc = transfer(x, e);
    end_slots(x);
    if (rc && part_state_done(&x->part.s))
        save(x, NULL); /* the failure is what is told */
    else if (rc)
        part_drop(&x->part);
    if (rc || (rc = check_whole(x, e)))
        return rc;
    return part_finish(&x->part, e);
}

int fetch_file(const struct fetch *f, struct fetch_result *r, struct err *e)
{
    struct pulling *x = calloc(1, sizeof *x);
    uint64_t begun = clock_ns();
    const char *name = strrchr(f->path, '/');
    bool there;
    int no_library = curl_lib_open(e);
    *r = (struct fetch_result){ 0 };
    if (no_library || !x || !(x->buf = malloc(HASH_BYTES)) || !(x->multi = curl_lib.multi_init())) {
        free(x ? x->buf : NULL);
        free(x);
        return no_library ? no_library : err_set(e, -ENOMEM, "%.200s: out of memory", f->url);
    }
    x->f = f;
    x->out = r;
    x->saved_ns = begun;
    snprintf(x->what, sizeof x->what, "%.70s", name ? name + 1 : f->path);
    int rc = part_open(&x->part, f->path, tell_wait, x, f->cancel, &there, e);
    r->there = there;
    if (!rc && !there) {
        rc = fetch_all(x, e);
        r->size = x->part.s.size;
    }
    end_slots(x);
    curl_lib.multi_cleanup(x->multi);
    sha256_end(&x->sum, NULL);
    http_file_clear(&x->h);
    part_close(&x->part);
    r->ns = clock_ns() - begun;
    free(x->taken);
    free(x->buf);
    free(x);
    return rc;
}

#endif
