/* tools/mmbench.c: times the cpu tier's products alone, as the tier would call them: threads take chunks of panels
 * from a counter. Decode sizes walk through a set of matrices larger than any cache.
 *
 *     mmbench [-i isa] [-t threads] [-T type,...] [-s n_in x n_out,...] [-r rows,...]
 *             [-m MiB of weights] [-n seconds] [-q] [-R]
 *
 * Prints GB/s of weights and, counting a multiply-add as two operations, Gop/s; quantisation of x included,
 * but for -q only once. -R only reads the weights: the roof of decoding. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/stdout.h"
#include "model/quant.h"
#include "oracle/mm.h"

enum { MAX_THREADS = 64, MAX_LIST = 16, CHUNK = 4 };

struct job {
    const struct mm_kernels *k;
    enum qtype type;
    uint32_t n_in, n_out, n_rows, n_mats, threads;
    uint8_t *weights;
    float *x, *y;
    struct mm_act act;
    void *scratch[MAX_THREADS];
    uint32_t mat;
    atomic_uint next_row, next_panel, phase, arrived;
    bool stop, reuse, read_only;
};

static void barrier(struct job *j)
{
    uint32_t phase = atomic_load(&j->phase);
    if (atomic_fetch_add(&j->arrived, 1) + 1 == j->threads) {
        atomic_store(&j->arrived, 0);
        atomic_fetch_add(&j->phase, 1);
        return;
    }
    while (atomic_load(&j->phase) == phase)
        ;
}

/* The roof: touches every line of the panels, in four streams. */
static void read_panels(const uint8_t *p, size_t bytes)
{
    size_t quarter = bytes / 4 / 64 * 64;
    uint64_t sum = 0, v;
    for (size_t i = 0; i < quarter; i += 64)
        for (size_t s = 0; s < 4; s++) {
            memcpy(&v, p + s * quarter + i, sizeof v);
            sum += v;
        }
    __asm__ volatile("" : : "r"(sum));
}

/* One product, by thread `id` of all. */
static void product(struct job *j, uint32_t id)
{
    uint32_t n_panels = j->n_out / MM_ROWS, r, p;
    size_t bytes = mm_panel_bytes(j->type, j->n_in);
    const uint8_t *w = j->weights + (size_t)j->mat * n_panels * bytes;
    mm_dot_fn *dot = j->k->dot(j->type, j->n_rows);
    if (j->read_only) {
        barrier(j);
        while ((p = atomic_fetch_add(&j->next_panel, CHUNK)) < n_panels)
            read_panels(w + p * bytes, (n_panels - p < CHUNK ? n_panels - p : CHUNK) * bytes);
        barrier(j);
        return;
    }
    if (mm_type_is_block(j->type) && !j->reuse)
        while ((r = atomic_fetch_add(&j->next_row, 1)) < j->n_rows)
            j->k->quant(j->x + (size_t)r * j->n_in, j->n_in, &j->act, r);
    barrier(j);
    while ((p = atomic_fetch_add(&j->next_panel, CHUNK)) < n_panels)
        dot(j->n_in, w + p * bytes, n_panels - p < CHUNK ? n_panels - p : CHUNK, &j->act, 0, j->x, j->n_in, j->n_rows,
            j->y + (size_t)p * MM_ROWS, j->n_out, j->scratch[id]);
    barrier(j);
}

struct worker {
    struct job *j;
    uint32_t id;
};

static void *work(void *arg)
{
    struct worker *w = arg;
    for (;;) {
        barrier(w->j);
        if (w->j->stop)
            return NULL;
        product(w->j, w->id);
    }
}

static void *memory(size_t bytes)
{
    size_t huge = (size_t)2 << 20, n = (bytes + huge - 1) / huge * huge;
    void *p = aligned_alloc(huge, n);
    if (!p) {
        fprintf(stderr, "mmbench: no memory for %zu MiB of weights: choose a smaller -m\n", n >> 20);
        exit(1);
    }
    madvise(p, n, MADV_HUGEPAGE);
    return p;
}

/* Random codes with small scales: no NaN comes out, as none would of a model. */
static void fill(struct job *j, size_t bytes)
{
    uint64_t s = 1;
    size_t row = qtype_row_bytes(j->type, j->n_in);
    uint8_t *file = malloc(row * MM_ROWS), *first = j->weights;
    for (size_t i = 0; i < row * MM_ROWS; i++) {
        s = s * 6364136223846793005u + 1442695040888963407u;
        file[i] = (uint8_t)(s >> 57);
    }
    if (j->type == QT_MXFP4) /* exponents of a usual size: subnormal sums are slow */
        for (size_t i = 0; i < row * MM_ROWS; i += qtype_block_bytes(QT_MXFP4))
            file[i] = (uint8_t)(118 + file[i] % 8);
    if (j->type == QT_BF16 || j->type == QT_F16) /* likewise */
        for (size_t i = 1; i < row * MM_ROWS; i += 2)
            file[i] = (uint8_t)(0x38 + file[i] % 8);
    mm_pack(j->type, j->n_in, file, row, MM_ROWS, first);
    for (size_t at = row * MM_ROWS; at < bytes; at += row * MM_ROWS)
        memcpy(first + at, first, row * MM_ROWS);
    free(file);
}

static void measure(struct job *j, size_t weights_bytes, double seconds, bool once)
{
    size_t panel = mm_panel_bytes(j->type, j->n_in), mat = panel * (j->n_out / MM_ROWS);
    j->n_mats = (uint32_t)(weights_bytes / mat) + 1;
    j->weights = memory(mat * j->n_mats);
    j->x = memory((size_t)j->n_rows * j->n_in * sizeof(float));
    j->y = memory((size_t)j->n_rows * j->n_out * sizeof(float));
    void *act = memory(mm_act_bytes(j->n_rows, j->n_in));
    mm_act_init(&j->act, j->n_rows, j->n_in, act);
    fill(j, mat * j->n_mats);
    for (size_t i = 0; i < (size_t)j->n_rows * j->n_in; i++)
        j->x[i] = (float)(i * 2654435761u % 1000) * 0.002f - 1;
    pthread_t th[MAX_THREADS];
    struct worker ws[MAX_THREADS];
    j->stop = false;
    for (uint32_t i = 0; i < j->threads; i++) {
        j->scratch[i] = memory(mm_scratch_bytes(j->n_in));
        ws[i] = (struct worker){ j, i };
        if (i)
            pthread_create(&th[i], NULL, work, &ws[i]);
    }
    uint64_t best = UINT64_MAX, t0 = clock_ns(), n = 0, sum = 0;
    for (; n < 3 || (double)(clock_ns() - t0) < seconds * 1e9; n++) {
        j->mat = (uint32_t)(n % j->n_mats);
        atomic_store(&j->next_row, 0);
        atomic_store(&j->next_panel, 0);
        j->reuse = n && once;
        uint64_t t = clock_ns();
        if (j->threads > 1)
            barrier(j);
        product(j, 0);
        t = clock_ns() - t;
        best = t < best ? t : best;
        sum += t;
    }
    j->stop = true;
    if (j->threads > 1)
        barrier(j);
    for (uint32_t i = 1; i < j->threads; i++)
        pthread_join(th[i], NULL);
    double ops = 2.0 * j->n_in * j->n_out * j->n_rows, mean = (double)sum / (double)n;
    printf("%-7s %-6s %6u x %-6u rows %-4u threads %u  mean %9.1f us, %6.1f GB/s, %6.0f Gop/s"
           "  best %9.1f us, %6.1f GB/s, %6.0f Gop/s\n",
           j->read_only ? "read" : j->k->isa, qtype_name(j->type), j->n_in, j->n_out, j->n_rows, j->threads, mean / 1e3,
           (double)mat / mean, ops / mean, (double)best / 1e3, (double)mat / (double)best, ops / (double)best);
    fflush(stdout);
    for (uint32_t i = 0; i < j->threads; i++)
        free(j->scratch[i]);
    free(j->weights);
    free(j->x);
    free(j->y);
    free(act);
}

static int run_program(int argc, char **argv)
{
    const char *isa = NULL;
    char types[256] = "Q8_0", sizes[256] = "1024x3072", rows[256] = "1,128";
    double seconds = 0.5;
    size_t mib = 512;
    uint32_t threads = 2;
    bool once = false, roof = false;
    for (int c; (c = getopt(argc, argv, "i:t:T:s:r:m:n:qR")) != -1;)
        switch (c) {
        case 'i': isa = optarg; break;
        case 't': threads = (uint32_t)atoi(optarg); break;
        case 'T': snprintf(types, sizeof types, "%s", optarg); break;
        case 's': snprintf(sizes, sizeof sizes, "%s", optarg); break;
        case 'r': snprintf(rows, sizeof rows, "%s", optarg); break;
        case 'm': mib = (size_t)atoi(optarg); break;
        case 'n': seconds = atof(optarg); break;
        case 'q': once = true; break;
        case 'R': roof = true; break;
        default: return 2;
        }
    const struct mm_kernels *k = mm_select(isa);
    if (!k || threads < 1 || threads > MAX_THREADS) {
        fprintf(stderr, "mmbench: -i takes plain|neon|dotprod|avx2|avx512|amx, -t 1..%d\n", MAX_THREADS);
        return 2;
    }
    char *st, *ss, *sr;
    for (char *t = strtok_r(types, ",", &st); t; t = strtok_r(NULL, ",", &st)) {
        char sz[256], rw[256];
        snprintf(sz, sizeof sz, "%s", sizes);
        for (char *s = strtok_r(sz, ",", &ss); s; s = strtok_r(NULL, ",", &ss)) {
            snprintf(rw, sizeof rw, "%s", rows);
            for (char *r = strtok_r(rw, ",", &sr); r; r = strtok_r(NULL, ",", &sr)) {
                static struct job j;
                j = (struct job){ .k = k, .threads = threads, .read_only = roof, .n_rows = (uint32_t)atoi(r) };
                if (quant_type_parse(t, &j.type, NULL) || sscanf(s, "%ux%u", &j.n_in, &j.n_out) != 2 || j.n_out % MM_ROWS ||
                    !j.n_rows || !j.n_in || j.n_in % qtype_block(j.type)) {
                    fprintf(stderr, "mmbench: '%s' '%s' '%s': a type of kernels/qtypes.def, n_in a multiple of its "
                                    "block, n_out of 16, at least a row\n", t, s, r);
                    return 2;
                }
                measure(&j, mib << 20, seconds, once);
            }
        }
    }
    return 0;
}

int main(int argc, char **argv)
{
    return stdout_finish("mmbench", run_program(argc, argv));
}
