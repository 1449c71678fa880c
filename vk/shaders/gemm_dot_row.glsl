/* vk/shaders/gemm_dot_row.glsl: the rows that become inputs of prompts' products: which row a position takes, its
 * elements by fours, and 1 / rms. Include it behind ZK_ARGS of VK_ACT or KL_ACT. ALIGNED: rows and norm weights lie at
 * multiples of 16 bytes. */
layout(constant_id = 2) const bool ALIGNED = true;

/* The row that position p takes; ~0: none. */
uint row_of(uint p)
{
    if (a.map == 0)
        return p < zk_step_rows(a.step, a.rows) ? p : ~0u;
    uint from = zk_ro(a.map).v[p];
    return from == ~0u ? from : from / a.div;
}

/* Elements [k, k + 4) of n at `at`, zeros behind the end. */
vec4 row_load4(uint64_t at, uint k)
{
    if (ALIGNED && k + 4 <= a.n_in)
        return zk_ro_f32x4(at).v[k / 4];
    vec4 v = vec4(0);
    [[unroll]] for (uint i = 0; i < 4; i++)
        if (k + i < a.n_in)
            v[i] = zk_ro_f32(at).v[k + i];
    return v;
}

/* 1 / rms of the row, the same in all work-items; 1 where there is no norm. */
float row_scale(uint64_t x)
{
    if (a.norm == 0)
        return 1.0;
    float sum = 0.0;
    for (uint k = 4 * zk_tid(); k < a.n_in; k += 4 * ZK_THREADS) {
        vec4 v = row_load4(x, k);
        [[unroll]] for (uint i = 0; i < 4; i++)
            sum = fma(v[i], v[i], sum);
    }
    precise float mean = zk_div(zk_group_sum(sum), float(a.n_in)) + a.eps;
    return zk_div(1.0, sqrt(mean));
}

/* Elements [k, k + 4) of the row as the product wants them. */
vec4 row_normed4(uint64_t x, uint k, float scale)
{
    vec4 v = row_load4(x, k);
    if (a.norm == 0)
        return v;
    precise vec4 w = v * scale * row_load4(a.norm, k);
    return w;
}
