/* Any bytes as an importance matrix, in GGUF and in the older form: what is read has finite weights, which are those of the form's own
 * rules, and fits the shapes that it may fit. Seeds: tests/fuzz/corpus/fuzz_imatrix. */
#include <errno.h>
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "model/imatrix.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void touch(struct imatrix *im)
{
    struct err e = { 0 };
    CHECK(im->n >= 1);
    for (uint32_t i = 0; i < im->n; i++) {
        struct imatrix_entry *en = &im->e[i];
        CHECK(en->name[0] && en->n_in >= 1 && en->n_mats >= 1);
        int rc = imatrix_fit(im, en->name, en->n_in / 2, 2, &e);
        CHECK(rc == 0 || (rc == -EINVAL && e.msg[0]));
        float *w = malloc(en->n_in * sizeof *w);
        for (uint32_t m = 0; m < en->n_mats && m < 4; m++) {
            imatrix_weights(en, m, w);
            for (uint32_t k = 0; k < en->n_in; k++)
                CHECK(w[k] >= 0);
        }
        free(w);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct imatrix *im;
    uint8_t *copy = malloc(size ? size : 1); /* aligned as a mapping is, and with nothing behind it */
    memcpy(copy, data, size);
    for (int older = 0; older < 2; older++) {
        struct err e = { 0 };
        int rc = older ? imatrix_read_dat("fuzz.dat", copy, size, &im, &e) : imatrix_read_memory("fuzz.gguf", copy, size, &im, &e);
        if (rc)
            CHECK(rc < 0 && e.msg[0] && !im);
        else
            touch(im);
        if (!rc)
            imatrix_destroy(im);
    }
    free(copy);
    return 0;
}
