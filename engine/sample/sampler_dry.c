#include <math.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/sample/sampler_steps.h"

/* z[k]: how many of the newest tokens also stand k tokens further back, that is the length of the common prefix of
 * hist and hist + k (the Z-function; z[0] is not used). */
static void z_function(const int32_t *hist, uint32_t n, uint32_t *z)
{
    uint32_t left = 0, right = 0; /* [left, right): the known match that reaches furthest */
    for (uint32_t k = 1; k < n; k++) {
        uint32_t len = k < right ? MIN(right - k, z[k - left]) : 0;
        while (k + len < n && hist[len] == hist[k + len])
            len++;
        z[k] = len;
        if (k + len > right) {
            left = k;
            right = k + len;
        }
    }
}

void dry_apply(float *logits, uint32_t n_vocab, const struct dry_args *a, const int32_t *hist, uint32_t n,
               uint32_t limit, uint32_t *z, uint32_t *longest)
{
    uint32_t allowed = (uint32_t)MAX(a->allowed_length, 0);
    if (n <= allowed || limit < allowed)
        return;
    z_function(hist, n, z);
    float max_exp = a->base > 1.000001f ? 88.7228391f / logf(a->base) : 0;
    for (uint32_t k = 1; k < n; k++) { /* choosing hist[k - 1] would continue a repetition of z[k] tokens */
        uint32_t len = MIN(z[k], limit);
        int32_t id = hist[k - 1];
        bool counts = len && len >= allowed && id >= 0 && (uint32_t)id < n_vocab && !(a->exempt && a->exempt[id]);
        if (counts && len > longest[id])
            longest[id] = len;
    }
    for (uint32_t k = 1; k < n; k++) {
        int32_t id = hist[k - 1];
        if (id < 0 || (uint32_t)id >= n_vocab || !longest[id])
            continue;
        float exp = (float)(longest[id] - allowed);
        if (max_exp > 0 && exp > max_exp)
            exp = max_exp;
        logits[id] -= a->multiplier * powf(a->base, exp);
        longest[id] = 0;
    }
}
