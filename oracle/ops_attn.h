/* oracle/ops_attn.h: attention, a part of oracle/ops_impl.h
 * Up to SUB query vectors go through the cache together, so that each K group and V row is loaded and widened once
 * for all of them: heads of one kv head, and for prompts several rows. Scores: lane = position, so the sum over the
 * head dimension needs no reduction. Values: lane = dimension. */

#if defined(__AVX512F__)
enum { SUB = 8, SCORE_ACC = 8, VALUE_ACC = 16 }; /* query vectors; v16 accumulators that stay in registers */
#else
enum { SUB = 4, SCORE_ACC = 4, VALUE_ACC = 4 };
#endif

/* 16 cached values of one scale, before it: dimension d of a group of K. */
INLINE v16 load_k(const enum ka_kv kv, const uint8_t *group, uint32_t d)
{
    switch (kv) {
    case KA_KV_Q8_0: return v16_load_b((const int8_t *)group + (size_t)d * 16);
    case KA_KV_Q4_0:
    case KA_KV_ROT4: return v16_load_n(group + (size_t)(d / 2) * 16, d % 2 * 4, kv == KA_KV_ROT4);
    case KA_KV_FP8: return v16_load_e4m3(group + (size_t)d * 16);
    case KA_KV_F16: return v16_load_h((const uint16_t *)group + (size_t)d * 16);
    default: return v16_load((const float *)group + (size_t)d * 16);
    }
}

/* s[i][16 g ..] = scale * q_i . K of the pg groups behind k. */
INLINE void score_groups(const int nq, const int pg, const enum ka_kv kv, const float *const *q, const uint8_t *k,
                         uint32_t hd, float *s, float scale)
{
    const size_t group = KA_KV_BYTES(kv, (size_t)hd * 16), codes = KA_KV_CODES(kv, (size_t)hd * 16);
    const uint32_t step = KA_KV_IS_BLOCKS(kv) ? KA_KV_BLOCK : hd;
    v16 acc[8], ks[8];
    for (int i = 0; i < nq * pg; i++)
        acc[i] = v16_set(0.0f);
    for (uint32_t b = 0; b < hd; b += step) {
        for (int g = 0; KA_KV_IS_BLOCKS(kv) && g < pg; g++)
            ks[g] = v16_load_h((const uint16_t *)(k + (size_t)g * group + codes) + b / KA_KV_BLOCK * 16);
        for (uint32_t d = b; d < b + step; d++)
            for (int g = 0; g < pg; g++) {
                v16 x = load_k(kv, k + (size_t)g * group, d);
                x = KA_KV_IS_BLOCKS(kv) ? v16_mul(ks[g], x) : x;
                for (int i = 0; i < nq; i++)
                    acc[g * nq + i] = v16_fma(v16_set(q[i][d]), x, acc[g * nq + i]);
            }
    }
    for (int g = 0; g < pg; g++)
        for (int i = 0; i < nq; i++)
            v16_store(s + i * ATTN_TILE + g * 16, v16_mul(acc[g * nq + i], v16_set(scale)));
}

/* 16 values of a row of V from dimension d on. */
INLINE v16 load_v(const enum ka_kv kv, const uint8_t *row, uint32_t hd, uint32_t d)
{
    const uint16_t *scales = (const uint16_t *)(row + KA_KV_CODES(kv, hd));
    switch (kv) {
    case KA_KV_Q8_0: return v16_mul(v16_set(f16_to_f32(scales[d / KA_KV_BLOCK])), v16_load_b((const int8_t *)row + d));
    case KA_KV_Q4_0:
    case KA_KV_ROT4:
        return v16_mul(v16_set(f16_to_f32(scales[d / KA_KV_BLOCK])), v16_load_n8(row + d / 2, kv == KA_KV_ROT4));
    case KA_KV_FP8: return v16_load_e4m3(row + d);
    case KA_KV_F16: return v16_load_h((const uint16_t *)row + d);
    default: return v16_load((const float *)row + d);
    }
}

/* o_i[d ..] += p_i[j] * V[j][d ..] for 16 nb dimensions, j ascending. */
INLINE void value_blocks(const int nq, const int nb, const enum ka_kv kv, const float *p, const uint8_t *v, uint32_t n,
                         uint32_t hd, uint32_t d, float *o)
{
    const size_t row = KA_KV_BYTES(kv, (size_t)hd);
    o += d;
    v16 acc[16];
    for (int i = 0; i < nq; i++)
        for (int b = 0; b < nb; b++)
            acc[i * nb + b] = v16_load(o + (size_t)i * hd + 16 * b);
    for (uint32_t j = 0; j < n; j++)
        for (int b = 0; b < nb; b++) {
            v16 vv = load_v(kv, v + j * row, hd, d + 16 * (uint32_t)b);
            for (int i = 0; i < nq; i++)
                acc[i * nb + b] = v16_fma(v16_set(p[i * ATTN_TILE + j]), vv, acc[i * nb + b]);
        }
    for (int i = 0; i < nq; i++)
        for (int b = 0; b < nb; b++)
            v16_store(o + (size_t)i * hd + 16 * b, acc[i * nb + b]);
}

INLINE void scores(const int nq, const enum ka_kv kv, const float *const *q, const uint8_t *k, uint32_t n_groups,
                   uint32_t hd, float *s, float scale)
{
    const int pg = SCORE_ACC / nq;
    const size_t group = KA_KV_BYTES(kv, (size_t)hd * 16);
    uint32_t g = 0;
    for (; g + (uint32_t)pg <= n_groups; g += (uint32_t)pg)
        score_groups(nq, pg, kv, q, k + g * group, hd, s + 16 * g, scale);
    for (; g < n_groups; g++)
        score_groups(nq, 1, kv, q, k + g * group, hd, s + 16 * g, scale);
}

INLINE void values(const int nq, const enum ka_kv kv, const float *p, const uint8_t *v, uint32_t n, uint32_t hd,
                   float *o)
{
    const int nb = VALUE_ACC / nq < 8 ? VALUE_ACC / nq : 8;
    uint32_t d = 0;
    for (; d + 16 * (uint32_t)nb <= hd; d += 16 * (uint32_t)nb)
        value_blocks(nq, nb, kv, p, v, n, hd, d, o);
    for (; d < hd; d += 16)
        value_blocks(nq, 1, kv, p, v, n, hd, d, o);
}

#define KV_TYPES(X) X(F32) X(F16) X(Q8_0) X(FP8) X(Q4_0) X(ROT4)

static void scores_of(uint32_t nq, enum ka_kv kv, const float *const *q, const uint8_t *k, uint32_t n_groups,
                      uint32_t hd, float *s, float scale)
{
#define TYPE(t)                                                                                                        \
    if (kv == KA_KV_##t)                                                                                               \
        scores(N, KA_KV_##t, q, k, n_groups, hd, s, scale);
#define CASE(n)                                                                                                        \
    case n: {                                                                                                          \
        enum { N = n };                                                                                                \
        KV_TYPES(TYPE)                                                                                                 \
        break;                                                                                                         \
    }
    switch (nq) {
#if defined(__AVX512F__)
        CASE(8)
#endif
        CASE(4)
        CASE(2)
        CASE(1)
    }
#undef CASE
#undef TYPE
}

static void values_of(uint32_t nq, enum ka_kv kv, const float *p, const uint8_t *v, uint32_t n, uint32_t hd, float *o)
{
#define TYPE(t)                                                                                                        \
    if (kv == KA_KV_##t)                                                                                               \
        values(N, KA_KV_##t, p, v, n, hd, o);
#define CASE(n)                                                                                                        \
    case n: {                                                                                                          \
        enum { N = n };                                                                                                \
        KV_TYPES(TYPE)                                                                                                 \
        break;                                                                                                         \
    }
    switch (nq) {
#if defined(__AVX512F__)
        CASE(8)
#endif
        CASE(4)
        CASE(2)
        CASE(1)
    }
#undef CASE
#undef TYPE
}

/* One query vector on its way through the tiles. */
struct attn_vec {
    const float *q;
    uint32_t lo, hi;   /* positions that it sees, both inclusive        */
    uint32_t from, to; /* of them in the tile at hand; from > to: none  */
    float m, l, mt, lt;
};

/* p = exp(s - max) over the visible positions of a tile, 0 elsewhere in their groups of 16; mt and lt. */
INLINE void tile_softmax(struct attn_vec *x, float *s, uint32_t tile0)
{
    uint32_t from = x->from - tile0, to = x->to - tile0, g0 = from / 16, g1 = to / 16 + 1;
    for (uint32_t i = g0 * 16; i < from; i++)
        s[i] = -INFINITY;
    for (uint32_t i = to + 1; i < g1 * 16; i++)
        s[i] = -INFINITY;
    v16 m = v16_load(s + 16 * g0);
    for (uint32_t g = g0 + 1; g < g1; g++)
        m = v16_max(m, v16_load(s + 16 * g));
    float t[16], mt;
    v16_store(t, m);
    mt = t[0];
    for (int i = 1; i < 16; i++)
        mt = t[i] > mt ? t[i] : mt;
    v16 mv = v16_set(mt), sum = v16_set(0.0f);
    for (uint32_t g = g0; g < g1; g++) {
        v16 p = v16_exp(v16_sub(v16_load(s + 16 * g), mv));
        v16_store(s + 16 * g, p);
        sum = v16_add(sum, p);
    }
    x->mt = mt;
    x->lt = v16_sum(sum);
}

/* l and o take in a tile (mt, lt, ot); ot NULL: zeros, as of a sink. */
INLINE void merge_tile(float *m, float *l, float *o, float mt, float lt, const float *ot, uint32_t hd)
{
    float both = *m > mt ? *m : mt, a = k_exp(*m - both), b = k_exp(mt - both);
    *l = *l * a + lt * b;
    *m = both;
    v16 av = v16_set(a), bv = v16_set(b);
    for (uint32_t d = 0; d < hd; d += 16) {
        v16 y = v16_mul(v16_load(o + d), av);
        v16_store(o + d, ot ? v16_add(y, v16_mul(v16_load(ot + d), bv)) : y);
    }
}

INLINE void attn_output(const ka_attn *a, uint32_t r, uint32_t h, float m, float l, float *o)
{
    uint32_t hd = a->head_dim;
    float *y = (float *)(uintptr_t)a->y + ((size_t)r * a->n_head + h) * hd;
    if (a->sinks)
        merge_tile(&m, &l, o, ((const float *)(uintptr_t)a->sinks)[h], 1.0f, NULL, hd);
    v16 lv = v16_set(l);
    const float *gate = (const float *)(uintptr_t)a->gate;
    if (gate)
        gate += (size_t)r * a->ldq + (size_t)h * a->q_hs;
    for (uint32_t d = 0; d < hd; d += 16) {
        v16 v = v16_div(v16_load(o + d), lv);
        v16_store(y + d, gate ? v16_mul(v, v16_sigmoid(v16_load(gate + d))) : v);
    }
}

static void op_attn_merge(const ka_attn *a, uint32_t r, uint32_t h, const float *part, size_t part_ld,
                          uint32_t n_tiles)
{
    float o[ATTN_MAX_DIM] = { 0 }, m = -INFINITY, l = 0.0f;
    for (uint32_t t = 0; t < n_tiles; t++)
        if (part[t * part_ld + 1] > 0.0f || part[t * part_ld + 1] != part[t * part_ld + 1]) /* 0: nothing visible */
            merge_tile(&m, &l, o, part[t * part_ld], part[t * part_ld + 1], part + t * part_ld + 2, a->head_dim);
    attn_output(a, r, h, m, l, o);
}

/* Adds the tile's values for n vectors; ot [n, hd] starts at zero. Positions that all see go together; what only some
 * see comes before and behind, so that each vector still adds in ascending order. */
INLINE void tile_values(struct attn_vec *x, uint32_t n, enum ka_kv kv, const float *p, const uint8_t *v,
                        uint32_t tile0, uint32_t hd, float *ot)
{
    const size_t row = KA_KV_BYTES(kv, (size_t)hd);
    uint32_t from = 0, to = UINT32_MAX;
    bool all = true;
    for (uint32_t i = 0; i < n; i++) {
        from = x[i].from > from ? x[i].from : from;
        to = x[i].to < to ? x[i].to : to;
        all &= x[i].from <= x[i].to;
    }
    all &= from <= to;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t end = all ? from : x[i].to + 1;
        if (x[i].from <= x[i].to && x[i].from < end)
            values_of(1, kv, p + i * ATTN_TILE + (x[i].from - tile0), v + (x[i].from - tile0) * row, end - x[i].from,
                      hd, ot + (size_t)i * hd);
    }
    if (!all)
        return;
    values_of(n, kv, p + (from - tile0), v + (from - tile0) * row, to + 1 - from, hd, ot);
    for (uint32_t i = 0; i < n; i++)
        if (x[i].to > to)
            values_of(1, kv, p + i * ATTN_TILE + (to + 1 - tile0), v + (to + 1 - tile0) * row, x[i].to - to, hd,
                      ot + (size_t)i * hd);
}

/* n of 8, 4, 2 or 1 vectors through one tile; part: the tile's results, else they are merged into o. */
INLINE void attn_tile(const struct op_attn *u, struct attn_vec *x, uint32_t n, uint32_t tile, float *o, float *ot,
                      float *p)
{
    const ka_attn *a = u->a;
    uint32_t hd = a->head_dim, tile0 = tile * ATTN_TILE, g0 = UINT32_MAX, g1 = 0;
    enum ka_kv kv = a->kv_type;
    const float *q[SUB];
    for (uint32_t i = 0; i < n; i++) {
        x[i].from = x[i].lo > tile0 ? x[i].lo : tile0;
        x[i].to = x[i].hi < tile0 + ATTN_TILE - 1 ? x[i].hi : tile0 + ATTN_TILE - 1;
        q[i] = x[i].q;
        if (x[i].from > x[i].to)
            continue;
        g0 = x[i].from / 16 < g0 ? x[i].from / 16 : g0;
        g1 = x[i].to / 16 + 1 > g1 ? x[i].to / 16 + 1 : g1;
    }
    if (g0 >= g1)
        return;
    uint32_t kvh = u->head0 / (a->n_head / a->n_kv), slot = u->rows[u->row0].slot;
    const uint8_t *kc = (const uint8_t *)(uintptr_t)a->kc + slot * a->slot_bytes;
    const uint8_t *vc = (const uint8_t *)(uintptr_t)a->vc + slot * a->slot_bytes;
    scores_of(n, kv, q, kc + k_group_at(kv, kvh, g0 * 16, a->n_ctx, hd), g1 - g0, hd, p + (g0 * 16 - tile0), a->scale);
    for (uint32_t i = 0; i < n; i++)
        if (x[i].from <= x[i].to)
            tile_softmax(&x[i], p + i * ATTN_TILE, tile0);
    memset(ot, 0, (size_t)n * hd * sizeof *ot);
    tile_values(x, n, kv, p, vc + v_row_at(kv, kvh, tile0, a->n_ctx, hd), tile0, hd, ot);
    for (uint32_t i = 0; i < n; i++)
        if (x[i].from <= x[i].to && !u->part)
            merge_tile(&x[i].m, &x[i].l, o + (size_t)i * hd, x[i].mt, x[i].lt, ot + (size_t)i * hd, hd);
}

static void op_attn(const struct op_attn *u)
{
    const ka_attn *a = u->a;
    uint32_t hd = a->head_dim, n = u->n_rows * u->n_heads, first = UINT32_MAX, last = 0;
    struct attn_vec x[ATTN_BLOCK];
    float *o = u->scratch, *ot = o + (size_t)ATTN_BLOCK * hd, *p = ot + (size_t)8 * hd;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t r = u->row0 + i / u->n_heads, h = u->head0 + i % u->n_heads, pos = u->rows[r].pos;
        x[i] = (struct attn_vec){
            .q = (const float *)(uintptr_t)a->q + (size_t)r * a->ldq + (size_t)h * a->q_hs,
            .lo = a->window && pos >= a->window ? pos - a->window + 1 : 0,
            .hi = pos,
            .m = -INFINITY,
        };
        first = x[i].lo / ATTN_TILE < first ? x[i].lo / ATTN_TILE : first;
        last = pos / ATTN_TILE > last ? pos / ATTN_TILE : last;
    }
    if (u->tile != UINT32_MAX)
        first = last = u->tile;
    else
        memset(o, 0, (size_t)n * hd * sizeof *o);
    for (uint32_t t = first; t <= last; t++)
        for (uint32_t i = 0; i < n;) {
            uint32_t m = n - i >= SUB ? SUB : n - i >= 4 ? 4 : n - i >= 2 ? 2 : 1;
            attn_tile(u, x + i, m, t, o + (size_t)i * hd, ot, p);
            for (uint32_t j = 0; u->part && j < m; j++) {
                float *out = u->part + (size_t)(i + j) * u->part_ld;
                bool seen = x[i + j].from <= x[i + j].to;
                out[0] = seen ? x[i + j].mt : 0.0f;
                out[1] = seen ? x[i + j].lt : 0.0f;
                if (seen)
                    memcpy(out + 2, ot + (size_t)j * hd, hd * sizeof *out);
            }
            i += m;
        }
    for (uint32_t i = 0; i < n && !u->part; i++)
        attn_output(a, u->row0 + i / u->n_heads, u->head0 + i % u->n_heads, x[i].m, x[i].l, o + (size_t)i * hd);
}
