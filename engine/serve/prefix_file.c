#include "engine/serve/prefix_file.h"

#include <errno.h>
#include <string.h>
#include <xxhash.h>

#include "base/ckd.h"

static const uint64_t MAGIC = 0x31786670636e697au; /* "zincpfx1" in the order of a little-endian host */
enum { ALIGN = 64 };

struct head {
    uint64_t magic;
    struct prefix_hash sum;      /* of all that follows                                       */
    struct prefix_hash class, key;
    uint32_t kind, from, to, reserved;
    uint64_t n_data;
};

static struct prefix_hash hash(const void *p, size_t n, uint64_t seed)
{
    XXH128_hash_t h = XXH3_128bits_withSeed(p, n, seed);
    return (struct prefix_hash){ h.low64, h.high64 };
}

struct prefix_hash prefix_hash_next(struct prefix_hash before, const int32_t *tok, uint32_t n)
{
    return hash(tok, n * sizeof *tok, before.lo ^ (before.hi << 1 | before.hi >> 63));
}

bool prefix_hash_equal(struct prefix_hash a, struct prefix_hash b)
{
    return a.lo == b.lo && a.hi == b.hi;
}

uint64_t prefix_file_data(const struct prefix_id *id)
{
    return align_up(sizeof(struct head) + id->to * sizeof(int32_t), ALIGN);
}

uint64_t prefix_file_bytes(const struct prefix_id *id)
{
    return prefix_file_data(id) + id->n_data;
}

/* Of all behind the sum. */
static struct prefix_hash sum_of(const uint8_t *file, uint64_t n)
{
    size_t at = offsetof(struct head, class);
    return hash(file + at, n - at, 0);
}

void prefix_file_seal(void *file, const struct prefix_id *id, const int32_t *tok)
{
    uint8_t *bytes = file;
    uint64_t tokens = id->to * sizeof *tok;
    struct head h = { .magic = MAGIC, .class = id->class, .key = id->key, .kind = id->kind, .from = id->from,
                      .to = id->to, .n_data = id->n_data };
    memset(bytes, 0, prefix_file_data(id));
    memcpy(bytes, &h, sizeof h);
    memcpy(bytes + sizeof h, tok, tokens);
    h.sum = sum_of(bytes, prefix_file_bytes(id));
    memcpy(bytes, &h, sizeof h);
}

int prefix_file_check(const void *file, uint64_t n, const struct prefix_id *want, const int32_t *tok, struct err *e)
{
    struct head h;
    if (n < sizeof h)
        return err_set(e, -EINVAL, "%llu bytes, expected %llu", (unsigned long long)n,
                       (unsigned long long)prefix_file_bytes(want));
    memcpy(&h, file, sizeof h);
    if (h.magic != MAGIC)
        return err_set(e, -EINVAL, "not a file of prefixes that this machine wrote");
    if (n != prefix_file_bytes(want))
        return err_set(e, -EINVAL, "%llu bytes, expected %llu", (unsigned long long)n,
                       (unsigned long long)prefix_file_bytes(want));
    if (!prefix_hash_equal(h.class, want->class))
        return err_set(e, -EINVAL, "of another model or other arithmetic");
    if (h.kind != (uint32_t)want->kind || h.from != want->from || h.to != want->to || h.n_data != want->n_data)
        return err_set(e, -EINVAL, "positions %u to %u in %llu bytes, expected %u to %u in %llu", h.from, h.to,
                       (unsigned long long)h.n_data, want->from, want->to, (unsigned long long)want->n_data);
    if (!prefix_hash_equal(h.key, want->key) ||
        memcmp((const uint8_t *)file + sizeof h, tok, want->to * sizeof *tok) != 0)
        return err_set(e, -EINVAL, "of other tokens");
    if (!prefix_hash_equal(h.sum, sum_of(file, n)))
        return err_set(e, -EINVAL, "its checksum is wrong");
    return 0;
}
