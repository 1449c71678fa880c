/* oracle/ops_gdn.h: gated DeltaNet, a part of oracle/ops_impl.h
 * The state of a v-head is [value j][key i]. Rows of S are independent of each other, so four of them stay in
 * the nearest cache while all rows of the step pass by. */

INLINE uint32_t gdn_channels(const ka_gdn *a)
{
    return (2 * a->n_k + a->n_v) * a->head_dim;
}

enum { GDN_RUN = 256 }; /* channels that go through the rows together */

static void conv_run(const ka_gdn *a, const ka_row *rows, uint32_t n_rows, uint32_t c0, uint32_t width)
{
    uint32_t K = a->conv_kernel, n = gdn_channels(a);
    const float *qkv = (const float *)(uintptr_t)a->qkv + c0, *w = (const float *)(uintptr_t)a->conv_w;
    float *c = (float *)(uintptr_t)a->c + c0, taps[GDN_MAX_TAPS][GDN_RUN];
    for (uint32_t i = 0; i < width; i++)
        for (uint32_t j = 0; j < K; j++)
            taps[j][i] = w[(size_t)(c0 + i) * K + j];
    for (uint32_t r = 0; r < n_rows; r++) {
        float *ring = (float *)((uint8_t *)(uintptr_t)a->conv + rows[r].slot * a->conv_slot_bytes) + c0;
        uint32_t pos = rows[r].pos;
        const float *m[GDN_MAX_TAPS];
        for (uint32_t j = 0; j < K; j++) /* nothing before position 0 */
            m[j] = pos + 1 + j >= K ? ring + (size_t)((pos + 1 + j - K) % K) * n : NULL;
        memcpy(ring + (size_t)(pos % K) * n, qkv + (size_t)r * n, width * sizeof *ring);
        for (uint32_t i = 0; i < width; i += 16) {
            v16 acc = v16_set(0.0f);
            for (uint32_t j = 0; j < K; j++)
                if (m[j])
                    acc = v16_fma(v16_load(taps[j] + i), v16_load(m[j] + i), acc);
            v16_store(c + (size_t)r * n + i, v16_silu(acc));
        }
    }
}

static void op_gdn_conv(const ka_gdn *a, const ka_row *rows, uint32_t n_rows, uint32_t c0, uint32_t c1)
{
    for (; c0 < c1; c0 += GDN_RUN)
        conv_run(a, rows, n_rows, c0, c1 - c0 < GDN_RUN ? c1 - c0 : GDN_RUN);
}

/* Rows j .. j + 3 of the state over rows [r0, r1) of one slot. nv: head_dim / 16. The decayed state is computed twice
 * rather than stored. */
INLINE void gdn_four(const uint32_t nv, float *S, uint32_t j, uint32_t r0, uint32_t r1, float *qkvo,
                     const float *eb, float inv)
{
    uint32_t hd = 16 * nv;
    for (uint32_t r = r0; r < r1; r++) {
        const float *q = qkvo + 4 * (size_t)r * hd, *k = q + hd, *v = k + hd + j;
        float *o = qkvo + 4 * (size_t)r * hd + 3 * hd + j;
        v16 dv = v16_set(eb[2 * r]), sum[4], e[4];
        float t[4];
        for (int i = 0; i < 4; i++)
            sum[i] = v16_set(0.0f);
        for (uint32_t d = 0; d < hd; d += 16) {
            v16 kv = v16_load(k + d);
            for (int i = 0; i < 4; i++)
                sum[i] = v16_fma(v16_mul(v16_load(S + (size_t)i * hd + d), dv), kv, sum[i]);
        }
        v16_sum4(sum, t);
        for (int i = 0; i < 4; i++) {
            e[i] = v16_set(eb[2 * r + 1] * (v[i] - t[i]));
            sum[i] = v16_set(0.0f);
        }
        for (uint32_t d = 0; d < hd; d += 16) {
            v16 kv = v16_load(k + d), qv = v16_load(q + d);
            for (int i = 0; i < 4; i++) {
                v16 s = v16_fma(kv, e[i], v16_mul(v16_load(S + (size_t)i * hd + d), dv));
                v16_store(S + (size_t)i * hd + d, s);
                sum[i] = v16_fma(s, qv, sum[i]);
            }
        }
        v16_sum4(sum, t);
        for (int i = 0; i < 4; i++)
            o[i] = t[i] * inv;
    }
}

/* x / sqrt(sum x^2 + eps) */
INLINE void l2_norm(float *y, const float *x, uint32_t n, float eps)
{
    v16 d = v16_set(sqrtf(sum_sq(x, n) + eps));
    for (uint32_t i = 0; i < n; i += 16)
        v16_store(y + i, v16_div(v16_load(x + i), d));
}

static void op_gdn_step(const struct op_gdn *u)
{
    const ka_gdn *a = u->a;
    uint32_t hd = a->head_dim, n = gdn_channels(a), h = u->head, g = a->ab_group;
    uint32_t hk = a->heads == KA_GDN_MODULO ? h % a->n_k : h / (a->n_v / a->n_k);
    size_t ab = g ? (size_t)(h / g) * 2 * g + h % g : h; /* grouped: alpha points behind the first betas */
    const float *c = (const float *)(uintptr_t)a->c;
    const float *alpha = (const float *)(uintptr_t)a->alpha + ab, *beta = (const float *)(uintptr_t)a->beta + ab;
    float av = ((const float *)(uintptr_t)a->a)[h], dt = ((const float *)(uintptr_t)a->dt)[h];
    /* rows of q, k, v and o lie together: in c and y they are a power of two apart, one cache set */
    float *qkvo = u->scratch, *eb = qkvo + 4 * (size_t)u->n_rows * hd;
    for (uint32_t r = 0; r < u->n_rows; r++) {
        float *row = qkvo + 4 * (size_t)r * hd;
        const float *cr = c + (size_t)r * n;
        l2_norm(row, cr + (size_t)hk * hd, hd, a->eps);
        l2_norm(row + hd, cr + (size_t)(a->n_k + hk) * hd, hd, a->eps);
        memcpy(row + 2 * hd + u->j0, cr + (size_t)(2 * a->n_k + h) * hd + u->j0, (u->j1 - u->j0) * sizeof *row);
        eb[2 * r] = k_exp(av * k_softplus(alpha[(size_t)r * a->ab_ld] + dt));
        eb[2 * r + 1] = k_sigmoid(beta[(size_t)r * a->ab_ld]);
    }
    float inv = 1.0f / sqrtf((float)hd);
    for (uint32_t r0 = 0, r1; r0 < u->n_rows; r0 = r1) {
        for (r1 = r0 + 1; r1 < u->n_rows && u->rows[r1].slot == u->rows[r0].slot && u->rows[r1].pos != 0;)
            r1++;
        float *S = (float *)((uint8_t *)(uintptr_t)a->state + u->rows[r0].slot * a->state_slot_bytes) +
                   (size_t)h * hd * hd;
        if (u->rows[r0].pos == 0)
            memset(S + (size_t)u->j0 * hd, 0, (size_t)(u->j1 - u->j0) * hd * sizeof *S);
        for (uint32_t j = u->j0; j < u->j1; j += 4) {
            if (hd == 128)
                gdn_four(8, S + (size_t)j * hd, j, r0, r1, qkvo, eb, inv);
            else
                gdn_four(hd / 16, S + (size_t)j * hd, j, r0, r1, qkvo, eb, inv);
        }
    }
    for (uint32_t r = 0; r < u->n_rows; r++)
        memcpy((float *)(uintptr_t)a->y + ((size_t)r * a->n_v + h) * hd + u->j0,
               qkvo + 4 * (size_t)r * hd + 3 * hd + u->j0, (u->j1 - u->j0) * sizeof(float));
}

static void op_gdn_gate(const ka_gdn *a, uint32_t r, uint32_t head)
{
    uint32_t hd = a->head_dim;
    size_t at = ((size_t)r * a->n_v + head) * hd;
    float *y = (float *)(uintptr_t)a->y + at;
    const float *z = (const float *)(uintptr_t)a->z + at;
    op_norm(y, y, (const float *)(uintptr_t)a->norm, NULL, hd, a->eps);
    for (uint32_t i = 0; i < hd; i += 16)
        v16_store(y + i, v16_mul(v16_load(y + i), v16_silu(v16_load(z + i))));
}
