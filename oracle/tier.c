/* oracle/tier.c: the cpu tier's front: open, load, arenas, plans, submissions. */
#include <string.h>
#include <unistd.h>
#include <stdlib.h>

#include "base/alloc_guard.h"
#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "oracle/cpu.h"

enum { MAX_EXPERTS = 1024, MAX_CHOSEN = 64 };

static struct cpu *cpu_of(const struct tier *t)
{
    return (struct cpu *)t;
}

/* ---- open, load, alloc ---- */

static uint64_t mem_available(uint64_t *total)
{
    char line[128];
    unsigned long long kib, all = 0, avail = 0;
    FILE *f = fopen("/proc/meminfo", "r");
    while (f && fgets(line, sizeof line, f)) {
        if (sscanf(line, "MemTotal: %llu", &kib) == 1)
            all = kib;
        if (sscanf(line, "MemAvailable: %llu", &kib) == 1)
            avail = kib;
    }
    if (f)
        fclose(f);
    *total = (uint64_t)all << 10;
    return (uint64_t)avail << 10;
}

static int cpu_probe(const struct tier_opts *o, struct tier_info *info)
{
    const char *at_most = env_get()->cpu_isa;
    const struct mm_kernels *mm = mm_select(at_most);
    if (!mm) {
        snprintf(info->note, sizeof info->note, "ZINC_CPU_ISA='%s' is not plain, neon, dotprod, avx2, avxvnni, avx512, vbmi or amx", at_most);
        return -EINVAL;
    }
    info->mem_free_bytes = mem_available(&info->mem_bytes);
    snprintf(info->device, sizeof info->device, "%u cores, %s", pool_cores(), mm->isa);
    snprintf(info->note, sizeof info->note, "runs everywhere");
    info->host_memory = true;
    info->maps_weights = env_get()->cpu_weights && strcmp(env_get()->cpu_weights, "mapped") == 0;
    return 0;
}

static void cpu_destroy(struct tier *t)
{
    struct cpu *c = cpu_of(t);
    pool_destroy(c->pool);
    cpu_weights_finish(&c->w);
    for (int a = 0; a < ARENA_COUNT; a++)
        cpu_pages_free(c->arena[a], c->arena_mapped[a]);
    for (uint32_t i = 0; i < POOL_MAX; i++)
        free(c->scratch[i].mem);
    free(c->shared.mem);
    free(c->trace);
    free(c->watch_row);
    free(c);
}

static int cpu_load(struct tier *t, const struct tier_weights *w, const struct progress *p, struct err *e)
{
    struct cpu *c = cpu_of(t);
    const char *how = env_get()->cpu_weights;
    if (how && strcmp(how, "packed") && strcmp(how, "mapped"))
        return err_set(e, -EINVAL, "cpu: ZINC_CPU_WEIGHTS='%s': packed or mapped is expected", how);
    uint64_t total, bytes = 0, avail = mem_available(&total);
    for (uint32_t i = 0; i < w->s->h.n_weights; i++)
        bytes += w->s->weights[i].bytes;
    bool mapped = how && strcmp(how, "mapped") == 0;
    if (!how && avail && bytes > avail - avail / 16) {
        log_warn(CPU, "%llu MiB of weights do not fit the %llu MiB available: reading them from the file each time",
                 (unsigned long long)(bytes >> 20), (unsigned long long)(avail >> 20));
        mapped = true;
    }
    int rc = cpu_weights_init(&c->w, w, mapped || c->exact, e);
    if (rc)
        return rc;
    c->weight_bytes = bytes;
    c->weights_hash = w->s->h.weights_hash;
    return progress_report(p, "weights", 1, 1) ? 0 : err_set(e, -ECANCELED, "cpu: load was cancelled");
}

static int cpu_alloc(struct tier *t, const uint64_t bytes[ARENA_COUNT], struct err *e)
{
    static const char *const names[ARENA_COUNT] = { "weights", "const", "kv", "state", "scratch", "io" };
    struct cpu *c = cpu_of(t);
    for (int a = ARENA_KV; a < ARENA_COUNT; a++) {
        c->arena_mapped[a] = (size_t)align_up(bytes[a] ? bytes[a] : 1, 4096);
        c->arena[a] = cpu_pages(c->arena_mapped[a]);
        if (!c->arena[a])
            return err_set(e, -ENOMEM, "cpu: %s arena of %llu MiB%s", names[a], (unsigned long long)bytes[a] >> 20,
                           a == ARENA_KV ? "; try a smaller context (--ctx)" : "");
    }
    return 0;
}

/* ---- plans ---- */

static void plan_destroy(struct tier_plan *base)
{
    struct cpu_plan *p = (struct cpu_plan *)base;
    if (!p)
        return;
    for (uint32_t i = 0; i < p->n_ropes; i++) {
        free(p->ropes[i].cs);
        free(p->ropes[i].stamp);
    }
    free(p->ropes);
    free(p->cmds);
    free(p->consts);
    free(p);
}

static gpu_va host_addr(const struct cpu *c, const struct cpu_plan *p, gpu_va a)
{
    if (!a)
        return 0;
    uint32_t arena = SADDR_ARENA(a);
    uint64_t off = SADDR_OFF(a);
    CHECK(arena < ARENA_COUNT);
    const uint8_t *at = arena == ARENA_WEIGHTS ? cpu_weights_at(&c->w, off, NULL)
                        : arena == ARENA_CONST ? p->consts + off
                                               : c->arena[arena] + off;
    return (gpu_va)(uintptr_t)at;
}

/* Copies the arguments with host addresses, by the field lists of kernels/kargs.h. */
static void relocate(const struct cpu *c, const struct cpu_plan *p, uint32_t i, struct cpu_cmd *cmd)
{
    const void *args = stream_args(p->base.s, i);
#define ADDR(name)                                                                                                     \
    for (size_t k = 0; k < sizeof a->name / sizeof(gpu_va); k++)                                                       \
        ((gpu_va *)&a->name)[k] = host_addr(c, p, ((gpu_va *)&a->name)[k]);
#define KIND_R(name) ADDR(name)
#define KIND_W(name) ADDR(name)
#define KIND_M(name) ADDR(name)
#define KIND_T(name) ADDR(name)
#define KIND_N(name)
#define KIND_E(name)
#define FIELD(type, name, count, kind) KIND_##kind(name)
    switch (cmd->op) {
#define X(name, type, list, what)                                                                                      \
    case CMD_##name: {                                                                                                 \
        type *a = &cmd->a.name;                                                                                        \
        memcpy(a, args, sizeof *a);                                                                                    \
        list(FIELD)                                                                                                    \
        break;                                                                                                         \
    }
        CMD_LIST(X)
#undef X
    default: break;
    }
}

/* The matrices that a command multiplies by. Addresses are the stream's, not yet the host's. */
static int find_views(struct cpu *c, const struct stream *s, uint32_t i, struct cpu_cmd *cmd, struct err *e)
{
    const void *args = stream_args(s, i);
    int rc = 0;
    switch (cmd->op) {
    case CMD_MATMUL:
    case CMD_PROJ:
    case CMD_GATE_UP: {
        const ka_matmul *a = args;
        for (uint32_t m = 0; m < a->n_mats && !rc; m++)
            rc = cpu_weights_view(&c->w, SADDR_OFF(a->w[m]), a->type[m], a->n_in, a->n_out[m], 1, 0, &cmd->view[m],
                                  e);
        break;
    }
    case CMD_ROUTER: {
        const ka_router *a = args;
        rc = cpu_weights_view(&c->w, SADDR_OFF(a->w), a->type, a->n_in, a->n_expert, 1, 0, &cmd->view[0], e);
        if (!rc && a->shared_w)
            rc = cpu_weights_view(&c->w, SADDR_OFF(a->shared_w), QT_F32, a->n_in, 1, 1, 0, &cmd->view[1], e);
        break;
    }
    case CMD_MOE_UP: {
        const ka_moe_up *a = args;
        rc = cpu_weights_view(&c->w, SADDR_OFF(a->gate), a->type_gate, a->n_in, a->n_ff, a->n_expert, a->gate_stride,
                              &cmd->view[0], e);
        if (!rc)
            rc = cpu_weights_view(&c->w, SADDR_OFF(a->up), a->type_up, a->n_in, a->n_ff, a->n_expert, a->up_stride,
                                  &cmd->view[1], e);
        break;
    }
    case CMD_MOE_DOWN: {
        const ka_moe_down *a = args;
        rc = cpu_weights_view(&c->w, SADDR_OFF(a->down), a->type, a->n_in, a->n_out, a->n_expert, a->stride,
                              &cmd->view[0], e);
        break;
    }
    default: break;
    }
    return rc;
}

static int find_rope(struct cpu_plan *p, struct cpu_cmd *cmd)
{
    const ka_rope_kv *a = &cmd->a.ROPE_KV;
    uint32_t rows = p->base.s->h.row_cap + p->base.s->h.out_cap;
    for (uint32_t i = 0; i < p->n_ropes; i++) {
        struct cpu_rope *t = &p->ropes[i];
        if (t->inv_freq == CPU_F32(a->inv_freq) && t->n_rot == a->n_rot && t->mscale == a->mscale) {
            cmd->rope = t;
            return 0;
        }
    }
    struct cpu_rope *t = &p->ropes[p->n_ropes++];
    *t = (struct cpu_rope){ .inv_freq = CPU_F32(a->inv_freq), .n_rot = a->n_rot, .row_cap = p->base.s->h.row_cap,
                            .mscale = a->mscale };
    t->cs = malloc(MAX((size_t)rows * a->n_rot, (size_t)1) * sizeof *t->cs);
    t->stamp = calloc(rows, sizeof *t->stamp);
    cmd->rope = t;
    return t->cs && t->stamp ? 0 : -ENOMEM;
}

/* Workers meet before a command only when it waits for one that may still be running. Rope tables add an edge of
 * their own: their first user in a step fills them. */
static void place_barriers(struct cpu *c, struct cpu_plan *p)
{
    const struct stream *s = p->base.s;
    uint32_t complete = 0; /* commands below are complete when command i starts */
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        struct cpu_cmd *cmd = &p->cmds[i];
        uint32_t wait = s->cmds[i].wait;
        bool must = wait != CMD_NO_WAIT && wait >= complete;
        for (uint32_t j = complete; cmd->rope && j < i; j++)
            must |= p->cmds[j].rope == cmd->rope;
        cmd->barrier = must || c->exact || c->trace_on;
        if (cmd->barrier)
            complete = i;
    }
}

static bool cpu_supports(const struct tier *t, const struct stream *s, uint32_t i)
{
    const void *args = stream_args(s, i);
    switch (s->cmds[i].op) {
    case CMD_ATTN: {
        const ka_attn *a = args;
        return a->head_dim % 16 == 0 && a->head_dim <= ATTN_MAX_DIM && a->n_ctx % 16 == 0 && a->n_head % a->n_kv == 0;
    }
    case CMD_ROPE_KV: {
        const ka_rope_kv *a = args;
        return a->head_dim % 16 == 0 && a->head_dim <= ATTN_MAX_DIM && a->n_ctx % 16 == 0 && a->n_rot <= a->head_dim;
    }
    case CMD_GDN: {
        const ka_gdn *a = args;
        return a->head_dim % 16 == 0 && a->head_dim <= GDN_MAX_DIM && a->conv_kernel <= GDN_MAX_TAPS;
    }
    case CMD_ROUTER: {
        const ka_router *a = args;
        return a->n_expert <= MAX_EXPERTS && a->k <= MAX_CHOSEN && a->k <= a->n_expert;
    }
    case CMD_MOE_DOWN: return ((const ka_moe_down *)args)->k <= MAX_CHOSEN;
    default: return s->cmds[i].op < CMD_COUNT;
    }
}

/* Carves one worker's scratch; pass mem NULL for the size. */
static size_t carve(struct cpu_scratch *s, uint8_t *mem, const struct cpu_need *n, bool panels)
{
    size_t at = 0;
#define PIECE(member, type, bytes)                                                                                     \
    s->member = (bytes) ? (type *)(mem + at) : NULL;                                                                   \
    at += (size_t)align_up(bytes, 64)
    PIECE(panels, uint8_t, panels ? n->panels : 0);
    PIECE(mm, uint8_t, n->mm);
    PIECE(tile, float, n->tile);
    PIECE(x, uint8_t, n->x);
    PIECE(act, uint8_t, n->act);
    PIECE(pairs, uint32_t, n->pairs);
    PIECE(op, uint8_t, n->op);
#undef PIECE
    s->mem = mem;
    return at ? at : 64;
}

static int alloc_scratch(struct cpu *c, const struct cpu_need *n, struct err *e)
{
    static uint8_t nowhere[64];
    struct cpu_scratch s;
    struct cpu_need all = { .x = n->shared_x, .act = n->shared_act, .op = n->shared_part };
    size_t each = carve(&s, nowhere, n, c->w.mapped), one = carve(&s, nowhere, &all, false);
    for (uint32_t i = 0; i <= pool_size(c->pool); i++) {
        bool shared = i == pool_size(c->pool);
        struct cpu_scratch *own = shared ? &c->shared : &c->scratch[i];
        size_t bytes = (size_t)align_up(shared ? one : each, 64);
        free(own->mem);
        uint8_t *mem = aligned_alloc(64, bytes);
        own->mem = mem;
        if (!mem)
            return err_set(e, -ENOMEM, "cpu: scratch of %zu KiB", bytes >> 10);
        memset(mem, 0, bytes); /* touch it now, not in the first step */
        carve(own, mem, shared ? &all : n, !shared && c->w.mapped);
    }
    c->need = *n;
    c->scratch_bytes = each * pool_size(c->pool) + one;
    return 0;
}

static int prepare_cmds(struct cpu *c, struct cpu_plan *p, struct err *e)
{
    const struct stream *s = p->base.s;
    struct cpu_need need = c->need;
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        struct cpu_cmd *cmd = &p->cmds[i];
        cmd->op = s->cmds[i].op;
        relocate(c, p, i, cmd);
        int rc = c->exact ? 0 : find_views(c, s, i, cmd, e);
        if (rc) {
            err_context(e, "command %u (%s)", i, cmd_name(cmd->op));
            return rc;
        }
        if (cmd->op == CMD_ROPE_KV && find_rope(p, cmd))
            return err_set(e, -ENOMEM, "cpu: rope table");
        if (c->exact)
            cpu_need_exact(c, s, cmd, &need);
        else
            cpu_need_default(c, s, cmd, &need);
    }
    if (memcmp(&need, &c->need, sizeof need) == 0 && c->shared.mem)
        return 0;
    return alloc_scratch(c, &need, e);
}

static int cpu_prepare(struct tier *t, const struct stream *s, enum plan_kind k, struct tier_plan **out,
                       struct err *e)
{
    struct cpu *c = cpu_of(t);
    if (s->h.n_weights != c->w.n || s->h.weights_hash != c->weights_hash)
        return err_set(e, -EINVAL, "cpu: the stream is of another model than the weights: %u weights, hash %016llx; "
                       "loaded %u, %016llx", s->h.n_weights, (unsigned long long)s->h.weights_hash, c->w.n,
                       (unsigned long long)c->weights_hash);
    struct cpu_plan *p = calloc(1, sizeof *p);
    if (!p)
        return err_set(e, -ENOMEM, "cpu: plan object");
    p->base = (struct tier_plan){ .tier = t, .s = s, .kind = PLAN_REPLAY };
    uint32_t n_ropes = 0;
    for (uint32_t i = 0; i < s->h.n_cmds; i++)
        n_ropes += s->cmds[i].op == CMD_ROPE_KV;
    p->cmds = calloc(s->h.n_cmds + 1, sizeof *p->cmds);
    p->ropes = calloc(n_ropes + 1, sizeof *p->ropes);
    p->consts = aligned_alloc(64, align_up(s->h.const_bytes + 1, 64));
    int rc = p->cmds && p->ropes && p->consts ? 0 : err_set(e, -ENOMEM, "cpu: plan of %u commands", s->h.n_cmds);
    if (!rc && c->trace_on && s->h.n_cmds > c->cap_trace) {
        struct tier_trace *trace = realloc(c->trace, s->h.n_cmds * sizeof *trace);
        if (trace) {
            c->trace = trace;
            c->cap_trace = s->h.n_cmds;
        }
        rc = trace ? 0 : err_set(e, -ENOMEM, "cpu: trace of %u commands", s->h.n_cmds);
    }
    if (!rc) {
        if (s->h.const_bytes)
            memcpy(p->consts, s->consts, s->h.const_bytes);
        rc = prepare_cmds(c, p, e);
    }
    if (rc) {
        plan_destroy(&p->base);
        return rc;
    }
    place_barriers(c, p);
    if (c->check)
        cpu_check_hazards(s, p->hazard, sizeof p->hazard);
    *out = &p->base;
    return 0;
}

/* ---- submissions ---- */

static void run_step(struct pool_worker *w, void *arg)
{
    struct cpu *c = arg;
    struct cpu_run r = { .c = c, .w = w, .s = &c->scratch[w->id] };
    cpu_cmd_fn *const *table = c->exact ? cpu_exact_cmds : cpu_default_cmds;
    for (uint32_t i = 0; i < c->n_cmds; i++) {
        const struct cpu_cmd *cmd = &c->plan->cmds[i];
        if (cmd->barrier && w->n_loops)
            pool_barrier(w);
        if (c->trace_on && w->id == 0) {
            uint64_t now = clock_ns();
            if (i)
                c->trace[i - 1].end_ns = now;
            c->trace[i] = (struct tier_trace){ .cmd = i, .start_ns = now, .end_ns = now };
        }
        if (c->watch)
            cpu_watch_cmd(&r, cmd);
        if (table[cmd->op])
            table[cmd->op](&r, cmd);
    }
}

static int cpu_submit_prefix(struct tier *t, struct tier_plan *base, const struct step *step, uint32_t n_cmds)
{
    struct cpu *c = cpu_of(t);
    struct cpu_plan *p = (struct cpu_plan *)base;
    const struct stream_head *h = &base->s->h;
    if (p->hazard[0])
        return err_set(&c->fault, -EIO, "%s", p->hazard);
    alloc_guard_begin("cpu submit");
    uint8_t *io = c->arena[ARENA_IO];
    t->stats.words += stream_patch(io, base->s, step);
    c->plan = p;
    c->io = (const ka_step *)io;
    c->rows = (const ka_row *)(io + sizeof(ka_step));
    c->next = (int32_t *)(io + h->next_off);
    c->n_cmds = n_cmds;
    c->step_no++;
    int rc = 0;
    for (uint32_t r = 0; r < step->n_rows; r++) {
        int32_t token = c->rows[r].token;
        if (token < 0 && (uint32_t)c->next[-1 - token] >= h->n_vocab)
            rc = err_set(&c->fault, -EINVAL, "cpu: row %u names output %d, which holds %d of %u tokens", r,
                         -1 - token, c->next[-1 - token], h->n_vocab);
    }
    if (rc == 0)
        pool_run(c->pool, run_step, c);
    if (c->trace_on) {
        c->n_trace = rc ? 0 : n_cmds;
        if (c->n_trace)
            c->trace[n_cmds - 1].end_ns = clock_ns();
    }
    alloc_guard_end();
    return rc;
}

static int cpu_submit(struct tier *t, struct tier_plan *p, const struct step *step, uint64_t *point)
{
    int rc = cpu_submit_prefix(t, p, step, p->s->h.n_cmds);
    if (rc == 0)
        *point = ++cpu_of(t)->points;
    return rc;
}

static int cpu_wait(struct tier *t, uint64_t point, uint64_t timeout_ns)
{
    return 0; /* submit ran it */
}

static int cpu_fault(struct tier *t, struct err *out)
{
    struct cpu *c = cpu_of(t);
    if (!c->fault.code)
        return -ENOENT;
    if (out)
        *out = c->fault;
    return 0;
}

/* ---- looking inside ---- */

static int cpu_read(struct tier *t, enum arena a, uint64_t off, void *dst, uint64_t n, struct err *e)
{
    if (!cpu_of(t)->arena[a])
        return err_set(e, -EINVAL, "cpu: arena %d is not kept by the tier", (int)a);
    memcpy(dst, cpu_of(t)->arena[a] + off, n);
    return 0;
}

static int cpu_write(struct tier *t, enum arena a, uint64_t off, const void *src, uint64_t n, struct err *e)
{
    if (!cpu_of(t)->arena[a])
        return err_set(e, -EINVAL, "cpu: arena %d is not kept by the tier", (int)a);
    memcpy(cpu_of(t)->arena[a] + off, src, n);
    return 0;
}

static int cpu_copy(struct tier *t, enum arena a, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    uint8_t *p = cpu_of(t)->arena[a];
    memcpy(p + dst, p + src, n);
    return 0;
}

static const void *cpu_map(struct tier *t, enum arena a, uint64_t off)
{
    return cpu_of(t)->arena[a] ? cpu_of(t)->arena[a] + off : NULL;
}

static uint32_t cpu_trace(struct tier *t, const struct tier_trace **out)
{
    *out = cpu_of(t)->trace;
    return cpu_of(t)->n_trace;
}

static uint64_t cpu_resident(const struct tier *t)
{
    const struct cpu *c = cpu_of(t);
    uint64_t n = c->weight_bytes + c->scratch_bytes;
    for (int a = 0; a < ARENA_COUNT; a++)
        n += t->arena_bytes[a];
    return n;
}

static void cpu_dump(const struct tier_plan *base, FILE *f)
{
    const struct cpu_plan *p = (const struct cpu_plan *)base;
    const struct cpu *c = cpu_of(base->tier);
    const char *ops = c->exact ? "double" : c->ops->isa, *mm = c->exact ? "double" : c->mm->isa;
    fprintf(f, "cpu plan: %u commands, %u threads, ops %s, products %s, weights %s\n", base->s->h.n_cmds,
            pool_size(c->pool), ops, mm, c->w.mapped ? "mapped" : "packed");
    for (uint32_t i = 0; i < base->s->h.n_cmds; i++) {
        const struct cpu_cmd *cmd = &p->cmds[i];
        fprintf(f, "%5u %-8s%s", i, cmd_name(cmd->op), cmd->barrier ? " barrier" : "");
        for (int m = 0; m < 4 && cmd->view[m]; m++)
            fprintf(f, " %s[%u x %u%s]", qtype_name(cmd->view[m]->type), cmd->view[m]->n_out, cmd->view[m]->n_in,
                    cmd->view[m]->n_mats > 1 ? ", experts" : "");
        fputc('\n', f);
    }
}

static const struct tier_impl cpu_impl = {
    .name = "cpu",
    .destroy = cpu_destroy,
    .load = cpu_load,
    .alloc = cpu_alloc,
    .prepare = cpu_prepare,
    .plan_destroy = plan_destroy,
    .submit = cpu_submit,
    .wait = cpu_wait,
    .read = cpu_read,
    .write = cpu_write,
    .copy = cpu_copy,
    .map = cpu_map,
    .supports = cpu_supports,
    .fault = cpu_fault,
    .dump = cpu_dump,
    .trace = cpu_trace,
    .roof_ops = cpu_roof_ops,
    .submit_prefix = cpu_submit_prefix,
    .resident = cpu_resident,
    .watch = cpu_watch,
};

static int cpu_open(const struct tier_opts *o, struct tier **out, struct err *e)
{
    const struct env *env = env_get();
    struct cpu *c = calloc(1, sizeof *c);
    if (!c)
        return err_set(e, -ENOMEM, "cpu: tier object");
    c->base.impl = &cpu_impl;
    c->exact = o->exact;
    c->trace_on = o->trace;
    c->check = o->check;
#ifdef ZINC_DEBUG_CHECKS
    c->check = true;
#endif
    int rc = cpu_probe(o, &c->base.info);
    if (rc) {
        free(c);
        return err_set(e, rc, "cpu: ZINC_CPU_ISA='%s': plain, neon, dotprod, avx2, avxvnni, avx512, vbmi or amx is expected", env->cpu_isa);
    }
    c->mm = mm_select(env->cpu_isa);
    c->ops = ops_select(env->cpu_isa);
    int threads = o->threads > 0 ? o->threads : env->threads;
    rc = pool_create(threads > 0 ? (uint32_t)threads : 0, !env->no_pin && !o->no_pin, &c->pool, e);
    if (rc) {
        cpu_destroy(&c->base);
        return rc;
    }
    snprintf(c->base.info.device, sizeof c->base.info.device, "%u of %u cores, %s", pool_size(c->pool), pool_cores(),
             c->exact ? "double" : c->mm->isa);
    *out = &c->base;
    return 0;
}

const struct tier_driver tier_driver_cpu = { "cpu", cpu_probe, cpu_open, NULL };
