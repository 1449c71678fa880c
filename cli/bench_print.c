/* What was measured, as text and as JSON. */
#include <math.h>

#include "cli/bench.h"

static double mean(const double *v, uint32_t n)
{
    double sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += v[i];
    return n ? sum / n : 0;
}

static double deviation(const double *v, uint32_t n)
{
    double m = mean(v, n), sq = 0;
    for (uint32_t i = 0; i < n; i++)
        sq += (v[i] - m) * (v[i] - m);
    return n > 1 ? sqrt(sq / (n - 1)) : 0;
}

double bench_roof(const struct bench *b)
{
    return b->roof ? roof_best(b->roof) : b->gpu_roof;
}

double bench_share(const struct bench *b, double gbs)
{
    return bench_roof(b) > 0 ? 100 * gbs / bench_roof(b) : 0;
}

double bench_gops(const struct bench_row *r)
{
    return r->n && r->n_reps ? mean(r->tps, r->n_reps) * 1e-9 * (double)r->host.flops / ((double)r->n * r->n_reps) : 0;
}

static double ops_share(const struct bench *b, const struct bench_row *r)
{
    return b->ops_roof > 0 ? 100 * bench_gops(r) / b->ops_roof : 0;
}

static double per_step(const struct bench_row *r, uint64_t sum)
{
    return r->host.steps ? (double)sum / (double)r->host.steps : 0;
}

static double host_us(const struct bench_row *r)
{
    return r->host.host_bytes ? per_step(r, r->host.host_ns) * 1e-3 : 0; /* else submitting is evaluating */
}

void bench_print(const struct bench *b)
{
    const struct engine_info *in = engine_info(b->eng);
    char w[32];
    printf("model    %s (%s, %s, weights %s)\n", in->label, in->family, in->weights, cli_bytes(in->weight_bytes, w));
    printf("tier     %s%s, %s, context %u\n", in->tier, in->exact ? ":exact" : "", in->device, in->n_ctx);
    if (b->roof)
        printf("memory   %.2f GB/s measured: the best of all reads of %s by %u threads\n", roof_best(b->roof),
               cli_bytes(roof_bytes(b->roof), w), roof_threads(b->roof));
    else if (b->gpu_roof > 0)
        printf("memory   %.0f GB/s measured: the best of all reads of the device's memory\n", b->gpu_roof);
    if (b->ops_roof > 0)
        printf("compute  %.0f Gop/s measured: the best of int8 products in caches\n", b->ops_roof);
    bool above = false;
    for (uint32_t i = 0; i < b->n_rows; i++) {
        const struct bench_row *r = &b->row[i];
        double g = mean(r->gbs, r->n_reps);
        if (r->startup)
            printf("%-16s opened in %.3f s ± %.3f, first token after %.3f s ± %.3f\n", r->name, mean(r->tps, r->n_reps),
                   deviation(r->tps, r->n_reps), g, deviation(r->gbs, r->n_reps));
        else
            printf("%-16s %10.2f ± %.2f tok/s  %8.2f GB/s", r->name, mean(r->tps, r->n_reps),
                   deviation(r->tps, r->n_reps), g);
        if (r->prompt) /* what its bytes are to memory says little: most of them come out of caches */
            printf("  %.1f Gop/s", bench_gops(r));
        if (r->prompt && b->ops_roof > 0)
            printf("  %5.1f %% of compute", ops_share(b, r));
        if (!r->startup && !r->prompt && bench_roof(b) > 0)
            printf("  %5.1f %% of bandwidth", bench_share(b, g));
        if (!r->startup)
            putchar('\n');
        if (r->host.host_bytes)
            printf("%16s host: %.2f us, %.0f dwords, %.0f bytes written for each step\n", "", host_us(r),
                   per_step(r, r->host.words), per_step(r, r->host.host_bytes));
        above |= !r->startup && !r->prompt && bench_share(b, g) > 100;
    }
    if (above)
        printf("above 100 %%: part of the bytes came from caches, which are faster than memory\n");
}

static json_t *row_json(const struct bench *b, const struct bench_row *r)
{
    double m = mean(r->tps, r->n_reps), d = deviation(r->tps, r->n_reps), g = mean(r->gbs, r->n_reps);
    if (r->startup)
        return json_pack("{s:s, s:f, s:f, s:f, s:f}", "test", r->name, "open_s", m, "open_s_spread", d, "first_token_s", g,
                         "first_token_s_spread", deviation(r->gbs, r->n_reps));
    json_t *o = json_pack("{s:s, s:i, s:i, s:f, s:f, s:f, s:f, s:f, s:f, s:f}", "test", r->name, "n", r->n, "depth",
                          r->depth, "tps", m, "tps_spread", d, "gbs", g, "gops", bench_gops(r), "host_us", host_us(r),
                          "host_dwords", per_step(r, r->host.words), "host_bytes", per_step(r, r->host.host_bytes));
    if (o && r->prompt && b->ops_roof > 0)
        json_object_set_new(o, "compute_roof_percent", json_real(ops_share(b, r)));
    if (o && !r->prompt)
        json_object_set_new(o, "roof_percent", json_real(bench_share(b, g)));
    return o;
}

json_t *bench_json(const struct bench *b)
{
    const struct engine_info *in = engine_info(b->eng);
    json_t *rows = json_array(), *profiles = json_array();
    for (uint32_t i = 0; i < b->n_rows; i++) {
        if (b->row[i].n_reps)
            json_array_append_new(rows, row_json(b, &b->row[i]));
        if (b->row[i].profile)
            json_array_append_new(profiles, bench_profile_json(b, &b->row[i]));
    }
    json_t *o = json_pack("{s:s, s:s, s:s, s:s, s:b, s:s, s:i, s:i, s:f, s:f, s:o}", "model", in->label, "family", in->family,
                          "weights", in->weights, "tier", in->tier, "exact", in->exact, "device", in->device, "context",
                          in->n_ctx, "repetitions", b->reps, "roof_gbs", bench_roof(b), "roof_gops", b->ops_roof, "rows",
                          rows);
    if (json_array_size(profiles))
        json_object_set(o, "profiles", profiles);
    json_decref(profiles);
    return o;
}
