/* Dwords from anywhere: the decoder accounts for each of them, in both generations, in every form of output, with
 * addresses judged and indirect buffers followed into the input itself. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rt/pm4/decode.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

struct input {
    const uint32_t *dw;
    uint32_t n, n_fetched;
};

static const char *judge(void *user, uint64_t va, uint64_t bytes, bool write)
{
    if (bytes == 0)
        abort();
    return va & 0x1000 ? "unmapped" : NULL;
}

static const uint32_t *fetch(void *user, uint64_t va, uint32_t dwords)
{
    struct input *in = user;
    uint64_t at = va / 4;
    if (at >= in->n || dwords > in->n - at || in->n_fetched++ > 16)
        return NULL;
    return in->dw + at;
}

static void walk(enum pm4_gen gen, struct input *in)
{
    struct pm4_cursor c = { .gen = gen, .dw = in->dw, .n = in->n };
    struct pm4_packet p;
    uint32_t sum = 0;
    while (pm4_next(&c, &p)) {
        if (p.n == 0 || p.at != sum || p.n + p.left != in->n - sum)
            abort();
        sum += p.n;
    }
    if (sum != in->n)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    static FILE *f;
    struct input in = { .n = (uint32_t)(n / 4) };
    uint32_t *dw = n <= 1 << 14 ? malloc(in.n * 4ull) : NULL; /* its end is the end of what may be read */
    if (!f)
        f = fopen("/dev/null", "w");
    if (!f || !dw) {
        free(dw);
        return 0;
    }
    memcpy(dw, data, in.n * 4ull);
    in.dw = dw;
    for (enum pm4_gen gen = 0; gen < PM4_N_GENS; gen++)
        for (int verbose = 0; verbose < 2; verbose++) {
            struct pm4_view v = { .gen = gen, .check = judge, .fetch = fetch, .user = &in, .verbose = verbose };
            walk(gen, &in);
            in.n_fetched = 0;
            pm4_print(f, &v, in.dw, in.n);
        }
    free(dw);
    return 0;
}
