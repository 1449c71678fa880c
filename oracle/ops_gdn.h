/* oracle/ops_gdn.h: gated DeltaNet, a part of oracle/ops_impl.h
 * The state of a v-head is [value j][key i]. Rows of S are independent of each other, so a pair of them stays in
 * registers while all rows of the step pass by. */

INLINE uint32_t gdn_channels(const ka_gdn *a)
{
    return (2 * a->n_k + a->n_v) * a->head_dim;
}

static void op_gdn_conv(const ka_gdn *a, const ka_row *rows, uint32_t n_rows, uint32_t c0, uint32_t c1)
{
    uint32_t K = a->conv_kernel, n = gdn_channels(a);
    const float *qkv = (const float *)(uintptr_t)a->qkv, *w = (const float *)(uintptr_t)a->conv_w;
    float *c = (float *)(uintptr_t)a->c;
    for (uint32_t ch = c0; ch < c1; ch += 16) {
        float taps[GDN_MAX_TAPS][16];
        for (uint32_t l = 0; l < 16; l++)
            for (uint32_t j = 0; j < K; j++)
                taps[j][l] = w[(size_t)(ch + l) * K + j];
        for (uint32_t r = 0; r < n_rows; r++) {
            float *ring = (float *)((uint8_t *)(uintptr_t)a->conv + rows[r].slot * a->conv_slot_bytes) + ch;
            uint32_t pos = rows[r].pos;
            v16_store(ring + (size_t)(pos % K) * n, v16_load(qkv + (size_t)r * n + ch));
            v16 acc = v16_set(0.0f);
            for (uint32_t j = 0; j < K; j++)
                if (pos + 1 + j >= K) /* nothing before position 0 */
                    acc = v16_fma(v16_load(taps[j]), v16_load(ring + (size_t)((pos + 1 + j - K) % K) * n), acc);
            v16_store(c + (size_t)r * n + ch, v16_silu(acc));
        }
    }
}

/* Rows j .. j + 1 of the state over rows [r0, r1) of one slot. nv: head_dim / 16. */
INLINE void gdn_pair(const struct op_gdn *u, const uint32_t nv, float *S, uint32_t j, uint32_t r0, uint32_t r1,
                     const float *qk, const float *eb, float inv)
{
    const ka_gdn *a = u->a;
    uint32_t hd = a->head_dim, n = gdn_channels(a);
    const float *v = (const float *)(uintptr_t)a->c + (size_t)(2 * a->n_k + u->head) * hd + j;
    float *y = (float *)(uintptr_t)a->y + (size_t)u->head * hd + j;
    v16 s0[GDN_MAX_DIM / 16], s1[GDN_MAX_DIM / 16];
    for (uint32_t i = 0; i < nv; i++) {
        s0[i] = v16_load(S + 16 * i);
        s1[i] = v16_load(S + hd + 16 * i);
    }
    for (uint32_t r = r0; r < r1; r++) {
        const float *q = qk + 2 * (size_t)r * hd, *k = q + hd;
        float decay = eb[2 * r], beta = eb[2 * r + 1];
        v16 dv = v16_set(decay), a0 = v16_set(0.0f), a1 = a0, o0 = a0, o1 = a0;
        for (uint32_t i = 0; i < nv; i++) {
            v16 kv = v16_load(k + 16 * i);
            s0[i] = v16_mul(s0[i], dv);
            s1[i] = v16_mul(s1[i], dv);
            a0 = v16_fma(s0[i], kv, a0);
            a1 = v16_fma(s1[i], kv, a1);
        }
        v16 e0 = v16_set(beta * (v[(size_t)r * n] - v16_sum(a0)));
        v16 e1 = v16_set(beta * (v[(size_t)r * n + 1] - v16_sum(a1)));
        for (uint32_t i = 0; i < nv; i++) {
            v16 kv = v16_load(k + 16 * i), qv = v16_load(q + 16 * i);
            s0[i] = v16_fma(kv, e0, s0[i]);
            s1[i] = v16_fma(kv, e1, s1[i]);
            o0 = v16_fma(s0[i], qv, o0);
            o1 = v16_fma(s1[i], qv, o1);
        }
        y[(size_t)r * a->n_v * hd] = v16_sum(o0) * inv;
        y[(size_t)r * a->n_v * hd + 1] = v16_sum(o1) * inv;
    }
    for (uint32_t i = 0; i < nv; i++) {
        v16_store(S + 16 * i, s0[i]);
        v16_store(S + hd + 16 * i, s1[i]);
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
    float *qk = u->scratch, *eb = qk + 2 * (size_t)u->n_rows * hd;
    for (uint32_t r = 0; r < u->n_rows; r++) {
        l2_norm(qk + 2 * (size_t)r * hd, c + (size_t)r * n + (size_t)hk * hd, hd, a->eps);
        l2_norm(qk + 2 * (size_t)r * hd + hd, c + (size_t)r * n + (size_t)(a->n_k + hk) * hd, hd, a->eps);
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
        for (uint32_t j = u->j0; j < u->j1; j += 2) {
            if (hd == 128)
                gdn_pair(u, 8, S + (size_t)j * hd, j, r0, r1, qk, eb, inv);
            else
                gdn_pair(u, hd / 16, S + (size_t)j * hd, j, r0, r1, qk, eb, inv);
        }
    }
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
