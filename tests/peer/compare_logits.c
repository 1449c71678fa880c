/* tests/peer/compare_logits.c
 * Compares two greedy runs that were fed the same tokens.
 *
 *     compare_logits LIMIT IDS LOGITS REF_IDS REF_LOGITS [--free] [--overall]
 *
 * The id files hold the token chosen at each step, the others f32 [steps, n_vocab], the logits it was chosen from.
 * NMSE of a step is sum((x - ref)^2) / sum(ref^2) over its row; the largest step counts, with --overall the sum of all
 * steps. A step whose tokens differ is a tie when the reference prefers its own by at most three times the error that
 * LIMIT allows a logit, sqrt(LIMIT) times the root mean square of its row (as zinc validate has it); anything else is a
 * difference. With --free the reference was not fed the first run's tokens: rows after the first difference are left
 * out.
 *
 * One line: "steps 64 same 63 ties 1 nmse 2.1e-08 worst 8.8e-08 max 1.3e-03 verdict". Exit 0: no difference and
 * within the limit; 1 otherwise; 2 unusable input. */
#include <math.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct run {
    long n, n_vocab;
    long *ids;
    float *logits;
};

static void *slurp(const char *path, size_t *n)
{
    FILE *f = fopen(path, "rb");
    if (!f) {
        perror(path);
        exit(2);
    }
    fseek(f, 0, SEEK_END);
    *n = (size_t)ftell(f);
    rewind(f);
    char *p = malloc(*n + 1);
    if (!p || fread(p, 1, *n, f) != *n) {
        perror(path);
        exit(2);
    }
    p[*n] = 0;
    fclose(f);
    return p;
}

static struct run load(const char *ids_path, const char *logits_path)
{
    struct run r = { 0 };
    size_t n;
    char *text = slurp(ids_path, &n), *end;
    r.ids = calloc(n + 1, sizeof *r.ids);
    for (char *p = text;; p = end) {
        long v = strtol(p, &end, 10);
        if (end == p)
            break;
        r.ids[r.n++] = v;
    }
    free(text);
    r.logits = slurp(logits_path, &n);
    if (r.n == 0 || n == 0 || n % (size_t)(4 * r.n)) {
        fprintf(stderr, "%s has %zu bytes, not a multiple of 4 * %ld tokens (%s)\n", logits_path, n, r.n, ids_path);
        exit(2);
    }
    r.n_vocab = (long)(n / 4) / r.n;
    return r;
}

int main(int argc, char **argv)
{
    bool follow_all = true, overall = false, usage = argc < 6;
    for (int i = 6; i < argc; i++) {
        if (strcmp(argv[i], "--free") == 0)
            follow_all = false;
        else if (strcmp(argv[i], "--overall") == 0)
            overall = true;
        else
            usage = true;
    }
    if (usage) {
        fprintf(stderr, "usage: compare_logits LIMIT IDS LOGITS REF_IDS REF_LOGITS [--free] [--overall]\n");
        return 2;
    }
    double limit = atof(argv[1]), err_sum = 0, ref_sum = 0, worst = 0, max = 0;
    struct run a = load(argv[2], argv[3]), b = load(argv[4], argv[5]);
    if (a.n_vocab != b.n_vocab) {
        fprintf(stderr, "%s has rows of %ld logits, %s of %ld\n", argv[3], a.n_vocab, argv[5], b.n_vocab);
        return 2;
    }
    long steps = a.n < b.n ? a.n : b.n, same = 0, ties = 0, differ = -1, i;
    char detail[160] = "";
    for (i = 0; i < steps; i++) {
        const float *x = a.logits + i * a.n_vocab, *y = b.logits + i * b.n_vocab;
        double se = 0, sr = 0;
        for (long v = 0; v < a.n_vocab; v++) {
            double d = (double)x[v] - y[v];
            se += d * d;
            sr += (double)y[v] * y[v];
            max = fmax(max, fabs(d));
        }
        double nmse = sr > 0 ? se / sr : se > 0 ? INFINITY : 0;
        worst = isnan(nmse) ? INFINITY : fmax(worst, nmse);
        err_sum += se;
        ref_sum += sr;
        if (a.ids[i] == b.ids[i]) {
            same++;
            continue;
        }
        bool in_range = a.ids[i] >= 0 && a.ids[i] < b.n_vocab && b.ids[i] >= 0 && b.ids[i] < b.n_vocab;
        double gap = in_range ? (double)y[b.ids[i]] - y[a.ids[i]] : INFINITY, stated = 3 * sqrt(limit * sr / a.n_vocab);
        snprintf(detail, sizeof detail, " (step %ld: %ld, ref %ld, gap %.3g, stated error %.3g)", i, a.ids[i], b.ids[i],
                 gap, stated);
        if (gap <= stated)
            ties++;
        else if (differ < 0)
            differ = i;
        if (differ >= 0 || !follow_all) {
            i++;
            break;
        }
    }
    double nmse = ref_sum > 0 ? err_sum / ref_sum : worst;
    bool over = !((overall ? nmse : worst) <= limit);
    const char *verdict = differ >= 0 ? "DIFFERENT" : over ? "OVER-LIMIT" : ties ? "tie" : "same";
    printf("steps %ld same %ld ties %ld nmse %.1e worst %.1e max %.1e %s%s\n", i, same, ties, nmse, worst, max, verdict,
           detail);
    free(a.ids);
    free(a.logits);
    free(b.ids);
    free(b.logits);
    return differ >= 0 || over;
}
