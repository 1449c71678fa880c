/* Files of prefixes. Whatever the bytes, the answer is yes or no without looking beyond them; what is believed is what was
 * written, and nothing else. The first byte says what is wanted and whether the checksum is made to agree, so that what
 * stands behind it is reached too. */
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "engine/serve/prefix_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void must(bool ok)
{
    if (!ok)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    int32_t tok[40];
    struct err e;
    if (!n)
        return 0;
    for (uint32_t i = 0; i < ARRAY_LEN(tok); i++)
        tok[i] = (int32_t)(i * 7);
    uint32_t to = *data & 32 ? ARRAY_LEN(tok) : 16;
    struct prefix_id id = { .class = { 1, 2 }, .kind = *data & 1 ? PREFIX_END : PREFIX_BLOCK, .from = to - 16, .to = to,
                            .n_data = *data & 2 ? 100 : 64 };
    id.key = prefix_hash_next((struct prefix_hash){ *data & 16, 0 }, tok, to);
    uint64_t whole = prefix_file_bytes(&id);
    uint8_t *good = calloc(1, whole), *f = malloc(n);
    for (uint64_t i = 0; i < id.n_data; i++)
        good[prefix_file_data(&id) + i] = (uint8_t)i;
    prefix_file_seal(good, &id, tok);
    must(prefix_file_check(good, whole, &id, tok, &e) == 0);
    must(prefix_file_check(good, whole - 1, &id, tok, &e) != 0);

    memcpy(f, data + 1, n - 1);
    if (*data & 4) /* the good one, and the bytes of the input added to it */
        for (size_t i = 0; i < n - 1; i++)
            f[i] = (uint8_t)(f[i] + (i < whole ? good[i] : 0));
    if (*data & 8 && n - 1 > 24) {
        XXH128_hash_t h = XXH3_128bits_withSeed(f + 24, n - 1 - 24, 0);
        memcpy(f + 8, (uint64_t[]){ h.low64, h.high64 }, 16);
    }
    bool yes = prefix_file_check(f, n - 1, &id, tok, &e) == 0;
    if (yes && !(*data & 8))
        must(n - 1 == whole && memcmp(f, good, whole) == 0);
    if (yes) /* all but the data can be told without the sum */
        must(n - 1 == whole && memcmp(f + 24, good + 24, 32) == 0);
    free(good);
    free(f);
    return 0;
}
