/* model/quant_codebook_fit.h: the search for a block's codes (model/quant_codebook.h), as function FIT, in the instruction set that
 * the including file is compiled for. */
#include <math.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/fp.h"
#include "model/quant_codebook.h"

#if defined(__AVX512F__)
enum { LANES = 16 };
#elif defined(__AVX2__)
enum { LANES = 8 };
#else
enum { LANES = 4 };
#endif

/* Entries side by side: one register or several, and the same sums whatever there is. */
typedef float lanes __attribute__((vector_size(4 * LANES)));
typedef int32_t lanes_i __attribute__((vector_size(4 * LANES)));

static inline lanes load(const float *p)
{
    lanes v;
    memcpy(&v, p, sizeof v);
    return v;
}

static inline void store(float *p, lanes v)
{
    memcpy(p, &v, sizeof v);
}

static inline lanes pick_lanes(lanes_i which, lanes a, lanes b)
{
    return (lanes)((which & (lanes_i)a) | (~which & (lanes_i)b));
}

/* ---- a run ---- */

/* Sums of every entry for the elements x with weights w. */
static void sum_entries(const struct book *bk, const float *x, const float *w, struct part *p)
{
    float wx[8], sx = 0, sw = 0;
    for (uint32_t i = 0; i < bk->len; i++) {
        wx[i] = w[i] * (bk->is_signed ? x[i] : fabsf(x[i]));
        sx += wx[i];
        sw += w[i];
    }
    for (uint32_t k = 0; k < bk->n; k += LANES) {
        lanes a = { 0 }, b = { 0 }, r = { 0 };
        for (uint32_t i = 0; i < bk->len; i++) {
            lanes g = load(&bk->g[i][k]), wg = g * w[i];
            a += g * wx[i];
            b += wg * g;
            r += wg;
        }
        store(&p->a[0][k], a);
        store(&p->b[0][k], bk->is_signed ? b + r * (2 * SHIFT) : b);
        if (bk->is_signed) {
            store(&p->a[1][k], a);
            store(&p->b[1][k], b - r * (2 * SHIFT));
        }
    }
    p->add_a[0] = bk->is_signed ? SHIFT * sx : 0;
    p->add_a[1] = -p->add_a[0];
    p->add_b = bk->is_signed ? SHIFT * SHIFT * sw : 0;
}

static bool odd_minuses(const float *x, uint32_t n)
{
    bool odd = false;
    for (uint32_t i = 0; i < n; i++)
        odd ^= x[i] < 0;
    return odd;
}

/* a, less what flipping the cheapest element costs. */
static void flip(const struct book *bk, const float *x, const float *w, const float *a, float *out)
{
    for (uint32_t k = 0; k < bk->n; k += LANES) {
        lanes least = load(&bk->g[0][k]) * (w[0] * fabsf(x[0]));
        for (uint32_t i = 1; i < bk->len; i++) {
            lanes v = load(&bk->g[i][k]) * (w[i] * fabsf(x[i]));
            least = pick_lanes(v < least, v, least);
        }
        store(&out[k], load(&a[k]) - least * 2.0f);
    }
}

static void sum_run(const struct book *bk, const float *x, const float *w, struct part *part)
{
    for (uint32_t i = 0; i < bk->run / bk->len; i++) {
        const float *xi = x + i * bk->len, *wi = w + i * bk->len;
        struct part *p = &part[i];
        sum_entries(bk, xi, wi, p);
        p->odd = bk->even && odd_minuses(x + i * bk->len / 8 * 8, 8);
        if (p->odd && bk->options == PAIRS) {
            flip(bk, xi, wi, p->a[0], p->a[1]);
            memcpy(p->b[1], p->b[0], bk->n * sizeof(float));
        } else if (p->odd) {
            flip(bk, xi, wi, p->a[0], p->a[0]);
        }
    }
}

struct best {
    float gain;
    uint32_t k;
};

static struct best best_entry(const struct part *p, uint32_t n, int option, float s)
{
    const float *a = p->a[option], *b = p->b[option];
    float two = 2 * s, square = s * s;
    lanes gain = load(a) * two - load(b) * square;
    lanes_i at = { 0 }, now = { 0 };
    for (uint32_t k = LANES; k < n; k += LANES) {
        lanes v = load(&a[k]) * two - load(&b[k]) * square;
        lanes_i more = v > gain;
        now += LANES;
        gain = pick_lanes(more, v, gain);
        at = (more & now) | (~more & at);
    }
    struct best r = { gain[0], (uint32_t)at[0] };
    for (uint32_t l = 1; l < LANES; l++) { /* of equals the first one, however many lanes there are */
        uint32_t k = (uint32_t)at[l] + l;
        if (gain[l] > r.gain || (gain[l] >= r.gain && k < r.k))
            r = (struct best){ gain[l], k };
    }
    r.gain += two * p->add_a[option] - square * p->add_b;
    return r;
}

static void take(struct pick *o, const struct part *part, uint32_t i, int option, struct best b)
{
    const struct part *p = &part[i];
    o->gain += b.gain;
    o->a += p->a[option][b.k] + p->add_a[option];
    o->b += p->b[option][b.k] + p->add_b;
    o->k[i] = (uint16_t)b.k;
    o->option[i] = (uint8_t)option;
}

/* The best entries of a run at scale s. */
static struct pick choose(const struct book *bk, const struct part *part, float s)
{
    uint32_t parts = bk->run / bk->len, n = bk->n;
    struct pick o = { 0 }, other = { 0 };
    for (uint32_t i = 0; i < parts; i++) {
        struct best b = best_entry(&part[i], n, 0, s);
        if (bk->options == ONE || (bk->options == PAIRS && !part[i].odd)) {
            take(&o, part, i, 0, b);
            continue;
        }
        struct best c = best_entry(&part[i], n, 1, s);
        if (bk->options == EACH) {
            take(&o, part, i, c.gain > b.gain, c.gain > b.gain ? c : b);
        } else if (bk->options == ALL) {
            take(&o, part, i, 0, b);
            take(&other, part, i, 1, c);
        } else { /* the flip in this entry, or in the next one */
            struct best b2 = best_entry(&part[i + 1], n, 0, s), c2 = best_entry(&part[i + 1], n, 1, s);
            bool here = c.gain + b2.gain > b.gain + c2.gain;
            take(&o, part, i, here, here ? c : b);
            take(&o, part, i + 1, !here, here ? b2 : c2);
            i++;
        }
    }
    return other.gain > o.gain && bk->options == ALL ? other : o;
}

/* The scale that suits a run best. */
static float fit_run(const struct book *bk, const struct part *part, const float *x)
{
    float ss = 0, top = 0, best = 0, gain = 0;
    for (uint32_t i = 0; i < bk->run; i++) {
        ss += x[i] * x[i];
        top = MAX(top, fabsf(x[i]));
    }
    if (top < TINY)
        return 0;
    float lo = 0.55f * sqrtf(ss / (float)bk->run) / bk->rms, hi = MAX(4 * lo, 1.1f * top / bk->top);
    float factor = powf(hi / lo, 1.0f / (STEPS - 1)), s = lo;
    for (int i = 0; i < STEPS + POLISH; i++, s *= factor) {
        if (i >= STEPS)
            s = best;
        struct pick p = choose(bk, part, s);
        if (!(p.a > 0 && p.b > 0))
            continue;
        if (!(p.a * p.a > gain * p.b)) {
            if (i >= STEPS)
                break;
            continue;
        }
        gain = p.a * p.a / p.b;
        best = p.a / p.b;
    }
    return best;
}

/* ---- a block ---- */

/* The signs of a run's elements, with the flips that were chosen. */
static void set_signs(const struct book *bk, const struct part *part, const struct pick *p, const float *x, const float *w, uint8_t *signs)
{
    for (uint32_t i = 0; i < bk->run; i++)
        signs[i / 8] |= (uint8_t)((x[i] < 0) << i % 8);
    for (uint32_t i = 0; i < bk->run / bk->len; i++) {
        uint32_t at = i * bk->len, least = 0;
        if (!part[i].odd || (bk->options == PAIRS && !p->option[i]))
            continue;
        for (uint32_t j = 1; j < bk->len; j++)
            if (w[at + j] * fabsf(x[at + j]) * bk->g[j][p->k[i]] < w[at + least] * fabsf(x[at + least]) * bk->g[least][p->k[i]])
                least = j;
        signs[(at + least) / 8] ^= (uint8_t)(1 << (at + least) % 8);
    }
}

/* The multiple of d that suits a run best, and its entries. */
static struct pick fit_scale(const struct book *bk, const struct part *part, float want, float d, uint8_t *scale)
{
    int near = d > 0 ? (int)lrintf((want / (d * bk->unit) - 1) * 0.5f) : 0;
    struct pick best = { .gain = -INFINITY };
    for (int c = near - 1; c <= near + 1; c++) {
        int clamped = c < 0 ? 0 : c > (int)bk->max_scale ? (int)bk->max_scale : c;
        struct pick p = choose(bk, part, d * bk->unit * (float)(2 * clamped + 1));
        if (p.gain > best.gain) {
            best = p;
            *scale = (uint8_t)clamped;
        }
    }
    return best;
}

void FIT(struct work *k, const float *x, const float *w, struct codes *c)
{
    const struct book *bk = &k->book;
    float s[16], top = 0;
    uint32_t runs = QK_K / bk->run, parts = bk->run / bk->len;
    double num = 0, den = 0;
    memset(c, 0, sizeof *c);
    for (uint32_t r = 0; r < runs; r++) {
        sum_run(bk, x + r * bk->run, w + r * bk->run, k->part);
        s[r] = fit_run(bk, k->part, x + r * bk->run);
        top = MAX(top, s[r]);
    }
    float d = f16_to_f32(f16_from_f32(top / (bk->unit * (float)(2 * bk->max_scale + 1))));
    for (uint32_t r = 0; r < runs; r++) {
        const float *xr = x + r * bk->run, *wr = w + r * bk->run;
        sum_run(bk, xr, wr, k->part);
        struct pick p = fit_scale(bk, k->part, s[r], d, &c->scale[r]);
        for (uint32_t i = 0; i < parts; i++) {
            c->k[r * parts + i] = p.k[i];
            c->option[r * parts + i] = p.option[i];
        }
        if (!bk->is_signed)
            set_signs(bk, k->part, &p, xr, wr, c->signs + r * bk->run / 8);
        double m = (double)bk->unit * (2 * c->scale[r] + 1);
        num += m * (double)p.a;
        den += m * m * (double)p.b;
    }
    c->d = d > 0 && den > 0 && num > 0 ? (float)(num / den) : d;
}
