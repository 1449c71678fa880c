#include "model/rope.h"

#include <math.h>

#include "base/ckd.h"

/* The pair that turns `beta` times over the original context. */
static double yarn_corr(const struct rope_params *p, double beta)
{
    return p->n_rot * log(p->n_ctx_orig / (beta * 2.0 * M_PI)) / (2.0 * log((double)p->base));
}

void rope_yarn_bounds(const struct rope_params *p, double *low, double *high)
{
    *low = MAX(0.0, floor(yarn_corr(p, (double)p->beta_fast)));
    *high = MIN((double)p->n_rot - 1, ceil(yarn_corr(p, (double)p->beta_slow)));
}

float rope_yarn_mscale(double factor)
{
    return factor > 1 ? (float)(1 + 0.1 * log(factor)) : 1;
}

const struct gguf_tensor *rope_divisors(const struct model_layer *l, uint32_t n_ctx)
{
    return l->rope_long && n_ctx > align_up(l->rope.n_ctx_orig, 16) ? l->rope_long : l->rope_freqs;
}

void rope_inv_freq(const struct rope_params *p, const float *freq_factors, float *inv_freq)
{
    double low = 0, high = 0;
    if (p->ext_factor != 0)
        rope_yarn_bounds(p, &low, &high);
    for (uint32_t i = 0; i < p->n_rot / 2; i++) {
        double freq =
            pow((double)p->base, -2.0 * i / p->n_rot) / (freq_factors ? (double)freq_factors[i] : 1.0);
        double mix = 0;
        if (p->ext_factor != 0) {
            double t = (i - low) / MAX(0.001, high - low);
            mix = (1 - MIN(MAX(t, 0.0), 1.0)) * (double)p->ext_factor;
        }
        inv_freq[i] = (float)(freq * ((double)p->freq_scale * (1 - mix) + mix));
    }
}

int rope_scale_model(struct model *m, bool yarn, float factor, struct err *e)
{
    if (!(factor >= 1) || !isfinite(factor))
        return err_set(e, -EINVAL, "%s: a rope factor of %g, expected at least 1", m->name, (double)factor);
    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        if (l->kind == LAYER_ATTN && (l->rope.freq_scale != 1 || l->rope.ext_factor != 0 || l->rope_freqs))
            return err_set(e, -ENOTSUP, "%s: its file scales the positions by itself: no other scaling fits (leave it out)", m->name);
    }
    for (uint32_t il = 0; il < m->n_layer; il++) {
        struct model_layer *l = &m->layers[il];
        if (l->kind != LAYER_ATTN || l->window)
            continue;
        l->rope.freq_scale = 1 / factor;
        l->rope.ext_factor = yarn;
        if (yarn)
            l->rope.mscale *= rope_yarn_mscale((double)factor);
    }
    m->n_ctx_train = (uint32_t)MIN((double)m->n_ctx_train * (double)factor, (double)INT32_MAX);
    return 0;
}
