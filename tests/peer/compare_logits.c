/* tests/peer/compare_logits.c
 * Compares two greedy runs that were fed the same tokens.
 *
 *     compare_logits LIMIT IDS LOGITS REF_IDS REF_LOGITS [--free] [--overall] [--steps FILE]
 *     compare_logits LIMIT IDS LOGITS --golden DIR NAME  [--free] [--overall] [--steps FILE]
 *
 * The id files hold the token chosen at each step, the others f32 [steps, n_vocab], the logits it was chosen from. The
 * reference is another such run, or the prompt NAME of a folder that tests/real/reference.py made, where its format is
 * told: there the error of a row is that of 24 of its logits.
 * NMSE of a step is sum((x - ref)^2) / sum(ref^2) over its row; the largest step counts, with --overall the sum of all
 * steps. A step whose tokens differ is a tie when the reference prefers its own by at most three times the error that
 * LIMIT allows a logit, sqrt(LIMIT) times the root mean square of its row (as zinc validate has it); anything else is a
 * difference. With --free the reference was not fed the first run's tokens: rows after the first difference are left
 * out. --steps appends a line for each step: its NMSE, then same, tie or differ.
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

static void unload(struct run *r)
{
    free(r->ids);
    free(r->logits);
}

/* ---- the reference ---- */

enum { TOP = 8, SAMPLES = 24 };

/* A record of golden/logits.bin. */
struct record {
    float square;
    uint16_t top[TOP];
    float top_logit[TOP], sample[SAMPLES];
};
_Static_assert(sizeof(struct record) == 148, "as reference.py packs it");

struct reference {
    struct run run;              /* golden: no logits */
    struct record *all;          /* golden: the file */
    const struct record *golden; /* [run.n] of it */
    long first;                  /* golden: the first record's number in the file */
};

/* What is told of one step. */
struct step {
    double se, sr, max; /* squared error and reference, summed over the row; the largest error seen */
    double gap;         /* by which the reference prefers its own token to the other run's; INFINITY: unknown */
};

static struct reference load_golden(const char *dir, const char *name, long n_vocab)
{
    struct reference g = { .run = { .n_vocab = n_vocab } };
    char path[512];
    size_t n, len = strlen(name);
    snprintf(path, sizeof path, "%s/tokens.txt", dir);
    char *text = slurp(path, &n), *ids = NULL;
    for (char *save = NULL, *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
        long count = 1;
        ids = strrchr(line, ' ');
        for (const char *p = ids; p && *p; p++)
            count += *p == ',';
        if (ids && strncmp(line, name, len) == 0 && line[len] == ' ') {
            g.run.n = count;
            break;
        }
        g.first += count;
    }
    if (!g.run.n) {
        fprintf(stderr, "%s has no prompt '%s'\n", path, name);
        exit(2);
    }
    g.run.ids = calloc((size_t)g.run.n, sizeof *g.run.ids);
    for (long i = 0; i < g.run.n; i++)
        g.run.ids[i] = strtol(ids + 1, &ids, 10);
    free(text);
    snprintf(path, sizeof path, "%s/logits.bin", dir);
    struct record *all = slurp(path, &n);
    if (n % sizeof *all || (size_t)(g.first + g.run.n) * sizeof *all > n) {
        fprintf(stderr, "%s has %zu bytes, expected %zu for each step and at least %ld steps\n", path, n, sizeof *all,
                g.first + g.run.n);
        exit(2);
    }
    g.all = all;
    g.golden = all + g.first;
    return g;
}

static void add_error(struct step *s, double x, double y)
{
    double d = x - y;
    s->se += d * d;
    s->max = isnan(d) ? INFINITY : fmax(s->max, fabs(d));
}

static struct step measure_golden(const struct reference *g, long i, const float *x, long n_vocab, long chosen)
{
    const struct record *r = &g->golden[i];
    struct step s = { .sr = (double)r->square, .gap = INFINITY };
    long n = n_vocab / SAMPLES;
    for (long k = 0; k < SAMPLES; k++)
        add_error(&s, (double)x[n * k + (193 * (g->first + i) + 811 * k) % n], (double)r->sample[k]);
    s.se *= (double)n_vocab / SAMPLES;
    double row = s.se;
    for (long k = 0; k < TOP; k++) {
        add_error(&s, (double)x[r->top[k]], (double)r->top_logit[k]);
        if (r->top[k] == chosen)
            s.gap = (double)r->top_logit[0] - (double)r->top_logit[k];
    }
    s.se = row; /* the largest ones are no fair sample */
    return s;
}

static struct step measure(const struct run *b, long i, const float *x, long chosen)
{
    const float *y = b->logits + i * b->n_vocab;
    struct step s = { .gap = INFINITY };
    for (long v = 0; v < b->n_vocab; v++) {
        add_error(&s, (double)x[v], (double)y[v]);
        s.sr += (double)y[v] * (double)y[v];
    }
    if (chosen >= 0 && chosen < b->n_vocab && b->ids[i] >= 0 && b->ids[i] < b->n_vocab)
        s.gap = (double)y[b->ids[i]] - (double)y[chosen];
    return s;
}

int main(int argc, char **argv)
{
    bool follow_all = true, overall = false, usage = argc < 6;
    const char *golden = NULL, *name = NULL, *steps_path = NULL;
    if (!usage && strcmp(argv[4], "--golden") == 0) {
        usage = argc < 7;
        golden = argv[5];
        name = argv[6];
    }
    for (int i = golden ? 7 : 6; i < argc && !usage; i++) {
        if (strcmp(argv[i], "--free") == 0)
            follow_all = false;
        else if (strcmp(argv[i], "--overall") == 0)
            overall = true;
        else if (strcmp(argv[i], "--steps") == 0 && i + 1 < argc)
            steps_path = argv[++i];
        else
            usage = true;
    }
    if (usage) {
        fprintf(stderr, "usage: compare_logits LIMIT IDS LOGITS (REF_IDS REF_LOGITS | --golden DIR NAME) [--free] "
                        "[--overall] [--steps FILE]\n");
        return 2;
    }
    double limit = atof(argv[1]), err_sum = 0, ref_sum = 0, worst = 0, max = 0;
    struct run a = load(argv[2], argv[3]);
    struct reference ref = { 0 };
    if (golden)
        ref = load_golden(golden, name, a.n_vocab);
    else
        ref.run = load(argv[4], argv[5]);
    if (a.n_vocab != ref.run.n_vocab) {
        fprintf(stderr, "%s has rows of %ld logits, %s of %ld\n", argv[3], a.n_vocab, argv[5], ref.run.n_vocab);
        return 2;
    }
    FILE *each = steps_path ? fopen(steps_path, "a") : NULL;
    if (steps_path && !each) {
        perror(steps_path);
        return 2;
    }
    long steps = a.n < ref.run.n ? a.n : ref.run.n, same = 0, ties = 0, differ = -1, i;
    char detail[160] = "";
    for (i = 0; i < steps; i++) {
        const float *x = a.logits + i * a.n_vocab;
        struct step s = golden ? measure_golden(&ref, i, x, a.n_vocab, a.ids[i]) : measure(&ref.run, i, x, a.ids[i]);
        double nmse = s.sr > 0 ? s.se / s.sr : s.se > 0 ? INFINITY : 0, stated = 3 * sqrt(limit * s.sr / (double)a.n_vocab);
        bool equal = a.ids[i] == ref.run.ids[i], tie = !equal && s.gap <= stated;
        worst = isnan(nmse) ? INFINITY : fmax(worst, nmse);
        max = fmax(max, s.max);
        err_sum += s.se;
        ref_sum += s.sr;
        same += equal;
        ties += tie;
        if (each)
            fprintf(each, "%.3e %s\n", nmse, equal ? "same" : tie ? "tie" : "differ");
        if (equal)
            continue;
        snprintf(detail, sizeof detail, " (step %ld: %ld, ref %ld, gap %.3g, stated error %.3g)", i, a.ids[i],
                 ref.run.ids[i], s.gap, stated);
        if (!tie && differ < 0)
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
    if (each)
        fclose(each);
    unload(&a);
    unload(&ref.run);
    free(ref.all);
    return differ >= 0 || over;
}
