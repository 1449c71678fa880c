#version 460
/* MOE_DOWN, for few rows: y = resid + the weighted sum of the chosen experts' products. Grid x: work-groups that share
 * the output rows, y: rows.
 *
 * A work-group takes a unit of output rows: tasks (choice, tile of SLOTS times ABREAST rows) go round its subgroups,
 * their results to shared memory, and it adds them up in the order of choices. */
#include "zk.glsl"
#include "moe.glsl"
ZK_ARGS(kl_moe_down)

#include "types.glsl" /* T0 */
layout(constant_id = 4) const uint CHOICES = 8;
layout(constant_id = 5) const uint LANES = 8;
layout(constant_id = 6) const uint XQ_N_IN = 512;
layout(constant_id = 7) const uint XQ_N_PAD = 512;
layout(constant_id = 8) const uint SLOTS = 2; /* rows of a lane: 1, 2 or 4 */
layout(constant_id = 9) const uint AHEAD = 1;
layout(constant_id = 10) const uint TILES = 1; /* of a unit */
layout(constant_id = 11) const uint FLAGS = 0; /* vk/lower_moe.c */
const bool XQ_NORM = false, RAGGED = (FLAGS & 4) != 0, XQ_DIRECT = (FLAGS & 8) != 0;
const bool XQ_QUANTS = (FLAGS & 16) != 0, XQ_FLOATS = (FLAGS & 32) != 0, WD_TABLE = (FLAGS & 64) != 0;
const bool XQ_UNEVEN = (FLAGS & 128) != 0;
const uint XQ_ROWS = CHOICES;

#include "moe_dot.glsl"

const uint TILE = SLOTS * ABREAST, UNIT = TILE * TILES, TASKS = CHOICES * TILES; /* UNIT <= ZK_THREADS */
shared float result[2][CHOICES * UNIT];
shared float weight[CHOICES];

/* x of all choices: their chunks are shared out as if they were one row. */
void prepare(uint64_t x)
{
    const uint row = XQ_N_PAD / 8, chunks = CHOICES * row, rounds = (chunks + ZK_THREADS - 1) / ZK_THREADS;
    if (XQ_DIRECT) {
        xq_prepare(x, XQ_N_IN, 0, CHOICES, 0.0);
        return;
    }
    for (uint from = 0; from < rounds; from += 4) {
        xq_chunk v[4];
        [[unroll]] for (uint k = 0; k < 4; k++) {
            uint c = (from + k) * ZK_THREADS + zk_tid();
            if (from + k < rounds)
                v[k] = xq_load(x + uint64_t(c / row) * XQ_N_IN * 4, c < chunks ? c % row * 8 : XQ_N_PAD, XQ_N_IN);
        }
        [[unroll]] for (uint k = 0; k < 4; k++) {
            uint c = (from + k) * ZK_THREADS + zk_tid();
            if (from + k < rounds)
                xq_store(c / row, c < chunks ? c % row : row, v[k]);
        }
    }
    barrier();
}

/* ---- tasks ---- */

uint row0; /* of step: pairs of this row start at row0 * CHOICES */

uint expert_of(uint task) { return moe_expert(a.ids, row0 * CHOICES + task / TILES, a.n_expert); }
uint row_of(uint unit, uint task, uint slot)
{
    return unit * UNIT + task % TILES * TILE + slot * ABREAST + moe_side();
}

void fetch(wd_mat m, uint unit, uint task, uint step, out wd_item w[4])
{
    [[unroll]] for (uint k = 0; k < 4; k++)
        if (k < SLOTS)
            w[k] = wd_load(T0, RAGGED, wd_row(T0, m, min(row_of(unit, task, k), a.n_out - 1), XQ_N_IN),
                           moe_item(T0, step), XQ_N_IN);
}

wd_mat matrix_of(uint task)
{
    return wd_matrix(T0, a.down + expert_of(task) * a.stride, a.n_out, XQ_N_IN);
}

void fill(uint unit, uint task, out wd_item w[AHEAD][4])
{
    wd_mat m = matrix_of(task);
    [[unroll]] for (uint c = 0; c < AHEAD; c++)
        fetch(m, unit, task, c, w[c]);
}

/* One task; its items are followed by those of (unit2, task2) if there is more. */
void run(uint unit, uint task, uint unit2, uint task2, bool more, uint parity, inout wd_item w[AHEAD][4])
{
    const uint steps = moe_steps(T0);
    uint choice = task / TILES, slot = min(moe_place(), SLOTS - 1), n = row_of(unit, task, slot);
    bool own = moe_place() < SLOTS;
    float b = own && a.b != 0 && n < a.n_out ? zk_ro_f32(a.b + uint64_t(expert_of(task)) * a.n_out * 4).v[n] : 0.0;
    float sd = a.sd != 0 ? zk_ro_f32(a.sd).v[expert_of(task)] : 1.0;
    float sum[16];
    wd_mat m = matrix_of(task);
    moe_row = choice;
    [[unroll]] for (uint i = 0; i < 16; i++)
        sum[i] = 0.0;
    [[dont_unroll]] for (uint from = 0; from < steps; from += AHEAD) {
        bool last = from + AHEAD >= steps;
        uint at = last ? 0 : from + AHEAD;
        if (last && more)
            m = matrix_of(task2);
        [[unroll]] for (uint c = 0; c < AHEAD; c++) {
            if (from + c < steps)
                mv_dot(T0, SLOTS, 1, true, w[c], moe_item(T0, from + c), moe_at(from + c), sum);
            if ((!last || more) && at + c < steps)
                fetch(m, last ? unit2 : unit, last ? task2 : task, at + c, w[c]);
        }
    }
    moe_reduce(SLOTS, sum);
    precise float v = sum[0];
    [[unroll]] for (uint k = 1; k < 4; k++)
        v = k == slot ? sum[k] : v;
    if (a.sd != 0)
        v *= sd;
    if (a.b != 0)
        v += b;
    if (own)
        result[parity][choice * UNIT + row_of(0, task, slot)] = v;
}

void main()
{
    uint r = gl_WorkGroupID.y, units = zk_div_up(a.n_out, UNIT), unit = gl_WorkGroupID.x, parity = 0;
    wd_item w[AHEAD][4];
    if (!moe_has_row(a.step, r))
        return;
    row0 = r;
    if (unit < units && zk_wave() < TASKS)
        fill(unit, zk_wave(), w);
    wd_fill_table(T0);
    for (uint j = zk_tid(); j < CHOICES; j += ZK_THREADS)
        weight[j] = zk_ro_f32(a.weights).v[r * CHOICES + j];
    prepare(a.x + uint64_t(r) * CHOICES * XQ_N_IN * 4);

    for (; unit < units; unit += gl_NumWorkGroups.x, parity ^= 1) {
        uint n = unit * UNIT + zk_tid(); /* this work-item's result */
        bool own = zk_tid() < UNIT && n < a.n_out;
        uint64_t at = uint64_t(r) * a.n_out * 4;
        float resid = own && a.resid != 0 ? zk_f32(a.resid + at).v[n] : 0.0;
        for (uint task = zk_wave(); task < TASKS; task += ZK_WAVES) {
            bool inside = task + ZK_WAVES < TASKS;
            uint unit2 = inside ? unit : unit + gl_NumWorkGroups.x;
            run(unit, task, unit2, inside ? task + ZK_WAVES : zk_wave(), unit2 < units, parity, w);
        }
        barrier();
        if (own) {
            precise float y = weight[0] * result[parity][zk_tid()];
            for (uint j = 1; j < CHOICES; j++)
                y = fma(weight[j], result[parity][j * UNIT + zk_tid()], y);
            if (a.resid != 0)
                y += resid;
            zk_f32(a.y + at).v[n] = y;
        }
    }
}
