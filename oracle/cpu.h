/* oracle/cpu.h: private to oracle/
 * The cpu tier's objects. A tier holds the arenas, the packed weights and the threads; a plan holds the stream's
 * commands with host addresses instead of stream addresses, and the matrices that each one multiplies by. */
#ifndef ZINC_ORACLE_CPU_H
#define ZINC_ORACLE_CPU_H

#include <stdatomic.h>

#include "oracle/mm.h"
#include "oracle/ops.h"
#include "oracle/pool.h"
#include "rt/tier.h"

/* ---- weights (oracle/weights.c) ---- */

/* Matrices of one tensor as products read them: n_mats of n_out rows (one, or one per expert), packed into panels of
 * 16 rows when a product first needs them. */
struct cpu_view {
    const uint8_t *rows; /* of matrix 0 in the file's layout */
    size_t row_bytes, mat_stride;
    uint64_t off;        /* address in ARENA_WEIGHTS: with the shape, the view's identity */
    enum qtype type;
    uint32_t n_in, n_out, n_mats;
    uint32_t panels; /* of one matrix */
    size_t panel_bytes;
    bool file_backed; /* the rows are a read-only file mapping: its pages may be dropped */
    uint8_t *packed;  /* [n_mats, panels] panels; NULL: mapped, every use packs into scratch */
    atomic_uchar *state;
    uint32_t group;    /* panels whose file pages are dropped together                  */
    atomic_uint *left; /* [n_mats, groups of a matrix] panels of the group not packed yet */
};

struct cpu_weights {
    const struct stream_weight *table; /* [n] own copy, ascending off, as stream_verify checks */
    const uint8_t *const *data;
    uint32_t n;
    bool *file_backed;
    bool mapped;
    struct cpu_view **views;
    uint32_t n_views, cap_views;
    struct cpu_chunk *chunks; /* memory of the panels */
    atomic_ullong packed_bytes;
};

int cpu_weights_init(struct cpu_weights *w, const struct tier_weights *tw, bool mapped, struct err *e);
void cpu_weights_finish(struct cpu_weights *w);
/* Host address of a stream address in ARENA_WEIGHTS; NULL: in no weight. */
const uint8_t *cpu_weights_at(const struct cpu_weights *w, uint64_t off, uint32_t *index);
/* Finds or makes the view of n_mats matrices [n_in, n_out], mat_stride bytes apart. */
int cpu_weights_view(struct cpu_weights *w, uint64_t off, enum qtype t, uint32_t n_in, uint32_t n_out,
                     uint32_t n_mats, size_t mat_stride, struct cpu_view **out, struct err *e);
/* Panels [p, p + n) of matrix m, one behind the other: packed for good, or into scratch (n panels). */
const uint8_t *cpu_view_panels(struct cpu_weights *w, struct cpu_view *v, uint32_t m, uint32_t p, uint32_t n,
                               uint8_t *scratch);

/* ---- the plan ---- */

/* cos and sin for the rows of a step, computed by the first command that needs them. */
struct cpu_rope {
    const float *inv_freq;
    uint32_t n_rot, row_cap;
    float mscale;
    float *cs;       /* [row_cap + out_cap, n_rot]: n_rot / 2 cosines, then sines; of STEP_OUT's rows behind the step's */
    uint64_t *stamp; /* [row_cap + out_cap] step that cs was computed for */
};

struct cpu_cmd {
    uint16_t op;
    bool barrier;    /* earlier commands must be complete */
    struct cpu_view *view[4];
    struct cpu_rope *rope;
    union {
#define X(name, args, list, what) args name;
        CMD_LIST(X)
#undef X
    } a; /* addresses are host addresses */
};

struct cpu_plan {
    struct tier_plan base;
    struct cpu_cmd *cmds;
    uint8_t *consts;
    struct cpu_rope *ropes;
    uint32_t n_ropes;
    char hazard[400]; /* of the check, empty: none */
};

/* ---- scratch ---- */

/* Bytes of each kind that the commands of the plans need: the largest wins. */
struct cpu_need {
    /* of each worker */
    size_t panels; /* packing, where weights are mapped               */
    size_t mm;     /* mm_scratch_bytes                                */
    size_t tile;   /* products of a chunk of panels                   */
    size_t x, act; /* an input of few rows: normed, quantised         */
    size_t pairs;  /* order of (row, expert) pairs                    */
    size_t op;     /* attention, DeltaNet, exact rows                 */
    /* shared */
    size_t shared_x, shared_act, shared_part;
};

struct cpu_scratch {
    uint8_t *mem;
    uint8_t *panels, *mm, *x, *act, *op;
    float *tile;
    uint32_t *pairs;
};

struct cpu {
    struct tier base;
    bool exact, check, trace_on;
    uint64_t weight_bytes, weights_hash;
    const struct cpu_ops *ops;
    const struct mm_kernels *mm;
    struct pool *pool;
    struct cpu_weights w;
    uint8_t *arena[ARENA_COUNT];
    size_t arena_mapped[ARENA_COUNT];
    struct cpu_need need;
    struct cpu_scratch scratch[POOL_MAX];
    struct cpu_scratch shared; /* x, act, and op for partial results; see cpu_claim */
    size_t scratch_bytes;
    struct tier_trace *trace;
    uint32_t n_trace, cap_trace;
    struct err fault;
    uint64_t points, step_no;
    tier_watch_fn watch; /* or NULL */
    void *watch_user;
    float *watch_row;
    /* the step that runs */
    struct cpu_plan *plan;
    const ka_step *io;
    const ka_row *rows;
    int32_t *next;
    uint32_t n_cmds;
};

/* oracle/roof.c: tier_impl.roof_ops */
int cpu_roof_ops(struct tier *t, double *gops, struct err *e);

/* oracle/watch.c: tier_impl.watch */
int cpu_watch(struct tier *t, tier_watch_fn fn, void *user, struct err *e);

/* One worker in one command. */
struct cpu_run {
    struct cpu *c;
    struct pool_worker *w;
    struct cpu_scratch *s;
};

/* Rows that a private input serves: preparing few rows on every worker is cheaper than one more barrier. */
enum { CPU_FEW_ROWS = 2 };

static inline uint32_t cpu_rows(const struct cpu *c, uint32_t rows)
{
    return rows == ROWS_OUT ? c->io->n_out : c->io->n_rows;
}

static inline void *cpu_ptr(gpu_va a)
{
    return (void *)(uintptr_t)a;
}
#define CPU_F32(a) ((float *)cpu_ptr(a))

/* The step block that ROPE_KV and ATTN read. */
static inline const ka_step *cpu_step(const struct cpu *c, gpu_va step, uint32_t rows)
{
    return rows == ROWS_OUT ? cpu_ptr(step) : c->io;
}
static inline const ka_row *cpu_step_rows(const ka_step *s)
{
    return (const ka_row *)(s + 1);
}

/* Before the first write to shared scratch: commands still in flight may be reading it. After a barrier inside the
 * command, claim again while it is still being read. */
static inline void cpu_claim(struct cpu_run *r)
{
    if (r->w->claimed)
        pool_barrier(r->w);
    r->w->claimed = true;
}

/* ---- commands ---- */

/* Each runs on all workers at once. */
typedef void cpu_cmd_fn(struct cpu_run *r, const struct cpu_cmd *cmd);
extern cpu_cmd_fn *const cpu_default_cmds[CMD_COUNT]; /* oracle/exec.c  */
extern cpu_cmd_fn *const cpu_exact_cmds[CMD_COUNT];   /* oracle/exact.c */

cpu_cmd_fn cpu_run_step_out; /* oracle/exec.c */
cpu_cmd_fn cpu_run_products, cpu_run_router, cpu_run_moe_up, cpu_run_moe_down; /* oracle/exec_mm.c */

/* The (row, expert) pairs of a step sorted by expert: order[i] is the pair at place i, place[] its inverse, expert e
 * has places [start[e], start[e + 1]); active: the experts that have any. Each worker sorts for itself. */
struct cpu_pairs {
    uint32_t *order, *place, *start, *active;
    uint32_t n, n_active;
};
/* The worker's copy of the n chosen experts, for the sort and after; an id that no router wrote becomes the last
 * expert: streams come from files too. */
const uint32_t *cpu_pairs_ids(struct cpu_run *r, gpu_va ids, uint32_t n, uint32_t n_expert);
void cpu_pairs_sort(struct cpu_run *r, struct cpu_pairs *ps, const uint32_t *ids, uint32_t n, uint32_t n_expert);
size_t cpu_pairs_bytes(size_t n, uint32_t n_expert);

/* Adds what a command of a stream with these capacities needs to *n. */
void cpu_need_default(const struct cpu *c, const struct stream *s, const struct cpu_cmd *cmd, struct cpu_need *n);
void cpu_need_products(const struct cpu *c, const struct stream *s, const struct cpu_cmd *cmd, struct cpu_need *n);
void cpu_need_exact(const struct cpu *c, const struct stream *s, const struct cpu_cmd *cmd, struct cpu_need *n);

void cpu_watch_cmd(struct cpu_run *r, const struct cpu_cmd *cmd); /* before the command, when somebody watches */

/* ---- checks (oracle/check.c) ---- */

/* Every input of every command is complete, given its wait: -EIO and what it was in msg when not. */
int cpu_check_hazards(const struct stream *s, char *msg, size_t msg_bytes);

/* ---- small things ---- */

void *cpu_pages(size_t bytes); /* zeroed, huge pages where possible; NULL: none left */
void cpu_pages_free(void *p, size_t bytes);

static inline void need_max(size_t *n, size_t v)
{
    if (v > *n)
        *n = v;
}

#endif
