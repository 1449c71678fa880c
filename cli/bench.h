/* cli/bench.h: private to zinc bench: what was measured, between the files that measure, sum, print and report. */
#ifndef ZINC_CLI_BENCH_H
#define ZINC_CLI_BENCH_H

#include <jansson.h>

#include "cli/cli.h"
#include "engine/roof.h"

enum { BENCH_ROWS = 64, BENCH_REPS = 100, BENCH_KERNELS = 128, BENCH_STREAMS = 256, BENCH_WARM = 2 /* steps before a profile */ };

struct bench_kernel {
    const char *name;
    uint64_t ns, bytes;
    uint32_t n;
};

/* Where the time of a row's steps went. */
struct bench_profile {
    struct bench_kernel kernel[BENCH_KERNELS]; /* by falling time */
    uint32_t n_kernels, steps, launches;       /* launches: of one step; 0: the tier has no time stamps */
    uint64_t ns;
};

struct bench_row {
    char name[48];
    uint32_t n, depth, n_reps;
    uint32_t streams;        /* 0: one session; else so many, a token of each in a step: profiled only */
    bool prompt, startup;
    double tps[BENCH_REPS], gbs[BENCH_REPS]; /* startup: seconds, first token's seconds */
    struct engine_stats host;                /* summed over the repetitions             */
    struct bench_profile *profile;           /* NULL: not profiled */
};

struct bench {
    struct engine *eng;
    struct session *s;
    struct roof *roof;      /* of the host's memory */
    double gpu_roof;        /* of the tier's own memory, GB/s; 0: it has none or was not asked */
    double ops_roof;        /* of its products, Gop/s; 0: it cannot tell or was not asked      */
    struct bench_row row[BENCH_ROWS];
    uint32_t n_rows;
    uint32_t reps;
    int32_t *tok; /* [n_ctx] any tokens */
    struct progress bar;
};

/* The engine and a session; trace: with time stamps, launches then run one by one. 0 or an exit status, after a message. */
int bench_open(struct bench *b, bool trace);
void bench_close(struct bench *b);
/* Evaluates n tokens at once or one by one: the speed of the evaluations alone; host: sums what submitting cost. */
int bench_measure(struct bench *b, uint32_t n, bool prompt, double *tps, double *gbs, struct engine_stats *host,
                  struct err *e);
/* The session at the row's depth and everything warm. */
int bench_prepare(struct bench *b, const struct bench_row *r, struct err *e);

/* cli/bench_profile.c */
int bench_profile_row(struct bench *b, struct bench_row *r, struct err *e);
void bench_profile_print(const struct bench *b, const struct bench_row *r);
json_t *bench_profile_json(const struct bench *b, const struct bench_row *r);

/* cli/bench_print.c */
double bench_roof(const struct bench *b);              /* GB/s, 0: not known */
double bench_share(const struct bench *b, double gbs); /* of it, percent     */
double bench_gops(const struct bench_row *r);          /* operations, 10^9/s */
void bench_print(const struct bench *b);
json_t *bench_json(const struct bench *b);

/* cli/bench_report.c: profiles the rows, checks the tier against the cpu tier, and writes all that somebody far away would
 * ask for into one file. 0 or an exit status, after a message. */
int bench_report(struct bench *b, const char *path);

/* cli/bench_streams.c: `count` greedy streams at the same time, one count after the other; those of a repetition arrive
 * every_ms apart. cli_model.o must have slots and context for them. 0 or an exit status, after a message. */
struct bench_streams {
    uint32_t count[BENCH_ROWS], n_counts; /* each 1 to BENCH_STREAMS                       */
    uint32_t p, n, reps;                  /* tokens of a prompt, and to generate; all >= 1 */
    uint32_t every_ms;                    /* 0: all at once                                */
    bool json;
};
int bench_streams(const struct bench_streams *o);

#endif
