#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "pull/part.h"

enum { VERSION = 1 };

uint64_t part_state_bytes(const struct part_state *s, uint32_t i)
{
    return i + 1 < s->n ? s->piece : s->size - (uint64_t)i * s->piece;
}

uint64_t part_state_done(const struct part_state *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n; i++)
        n += s->done[i];
    return n;
}

uint64_t part_state_front(const struct part_state *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n; i++) {
        n += s->done[i];
        if (s->done[i] < part_state_bytes(s, i))
            break;
    }
    return n;
}

void part_state_clear(struct part_state *s)
{
    free(s->done);
    *s = (struct part_state){ 0 };
}

static int cut(struct part_state *s, uint64_t size, uint64_t piece)
{
    uint64_t n = (size - 1) / piece + 1;
    if (n > PART_MAX_PIECES)
        return -EFBIG;
    s->size = size;
    s->piece = piece;
    s->n = (uint32_t)n;
    s->done = calloc(n, sizeof *s->done);
    return s->done ? 0 : -ENOMEM;
}

int part_state_begin(struct part_state *s, uint64_t size, const char *etag, const char *sha256)
{
    uint64_t piece = PART_MIN_PIECE; /* some hundred pieces, so that several connections end at about the same time */
    while (piece < PART_MAX_PIECE && size / piece >= 256)
        piece *= 2;
    *s = (struct part_state){ 0 };
    if (!size)
        return -EINVAL;
    strncpy(s->etag, etag, sizeof s->etag - 1);
    strncpy(s->sha256, sha256, sizeof s->sha256 - 1);
    return cut(s, size, piece);
}

char *part_state_write(const struct part_state *s)
{
    unsigned before = json_failures();
    json_t *done = json_array(), *all;
    for (uint32_t i = 0; i < s->n; i++)
        json_array_append_new(done, json_integer((json_int_t)s->done[i]));
    all = json_pack("{s:i, s:I, s:I, s:s, s:s, s:o}", "version", (int)VERSION, "size", (json_int_t)s->size, "piece",
                    (json_int_t)s->piece, "etag", s->etag, "sha256", s->sha256, "done", done);
    char *text = all && json_failures() == before ? json_write(all, JSON_COMPACT) : NULL;
    json_decref(all);
    return text;
}

static int read_done(const json_t *done, struct part_state *s)
{
    if (json_array_size(done) != s->n)
        return -EINVAL;
    for (uint32_t i = 0; i < s->n; i++) {
        json_int_t v = json_integer_value(json_array_get(done, i));
        if (v < 0 || (uint64_t)v > part_state_bytes(s, i))
            return -EINVAL;
        s->done[i] = (uint64_t)v;
    }
    return 0;
}

int part_state_read(const char *text, size_t n, struct part_state *s)
{
    bool no_memory;
    json_int_t version, size, piece;
    const char *etag, *sum;
    json_t *done, *all = json_read(text, n, 0, NULL, &no_memory);
    *s = (struct part_state){ 0 };
    if (!all)
        return no_memory ? -ENOMEM : -EINVAL;
    int rc = -EINVAL;
    if (json_unpack(all, "{s:I, s:I, s:I, s:s, s:s, s:o}", "version", &version, "size", &size, "piece", &piece, "etag", &etag,
                    "sha256", &sum, "done", &done) == 0 &&
        version == VERSION && size > 0 && piece >= PART_MIN_PIECE && strlen(etag) < sizeof s->etag &&
        (!*sum || sha256_from_text(sum, s->sha256))) {
        strcpy(s->etag, etag);
        rc = cut(s, (uint64_t)size, (uint64_t)piece);
        rc = rc ? rc : read_done(done, s);
    }
    json_decref(all);
    if (rc)
        part_state_clear(s);
    return rc == -EFBIG ? -EINVAL : rc;
}
