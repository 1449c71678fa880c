/* kernels/matmul8.c
 * Decode products of 2 to 8 rows on the matrix instructions for signed bytes (kernels/hw/mma8.h): MATMUL, PROJ and
 * GATE_UP. Compiled once per set of weight types with KD_SET=<set>; the kernels are k_matmul8_<set>.
 *
 * The sums are those of kernels/mvcore.h, in the same order, so a row's bits are those that it has alone. There a lane adds
 * the items that it meets, then lanes are added 1, 2, 4, 8, 16 apart. Here a warp keeps four such sums for each of 16 rows
 * of weights and 8 of x, an instruction makes the integer sums of a run for all of them, and what lanes would add warps
 * leave in shared memory (kernels/matmul8_shared.h).
 *
 * A warp's codes come through a ring of its own in shared memory, some chunks ahead and across tiles; their scales are
 * asked for a chunk ahead. */
#include "kernels/hw/cluster.h"
#include "kernels/hw/mma.h"
#include "kernels/hw/mma8.h"
#include "kernels/klaunch.h"
#include "kernels/matmul8_shared.h"
#include "kernels/mvone.h"
#include "kernels/qset.h"

enum {
    M8_START = 0x4b400000, /* the bits of 1.5 * 2^23: with an integer added they are that float plus the integer */
};
#define M8_MAGIC 12582912.0f

/* ---- x ---- */

/* Sets of two types share what goes with x: there codes are opened with their signs. */
KD_FN bool m8_is_signed(uint32_t type) { return QSET_PAIR && wd_bias(type, 0); }
KD_FN bool m8_has_bias(uint32_t type) { return !wd_has_min(type) && !QSET_PAIR && wd_bias(type, 0); }
KD_FN uint32_t m8_run(uint32_t type) { return QSET_PAIR ? 16 : m8_run_of(type); }
/* A set's other type has runs of 16: what goes with a block goes with both of its halves. */
KD_FN bool m8_whole_blocks(void) { return QSET_PAIR && (wd_by_blocks(QSET_A) || wd_by_blocks(QSET_B)); }

/* What goes with the scale d of a run of x whose codes add up to `sum`. */
KD_FN uint32_t m8_beside(uint32_t type, float d, int32_t sum)
{
    if (!m8_has_bias(type))
        return f32_bits(d * (float)sum);
    return (uint32_t)M8_START - (uint32_t)(wd_bias(type, 0) * sum);
}

/* Elements 8 c and on of row r. The block's first lane of four writes what its runs have. */
KD_FN void m8_quant(uint32_t type, const struct m8_x *x, uint32_t r, uint32_t c, const float *v)
{
    uint32_t w[2], words = M8_HEAD_BYTES + 2 * M8_WARPS * M8_PART_BYTES;
    float d = xq_codes(v, w);
    kd_cluster_store8(KD_SHARED_AT(kd_u32x2, words + r * x->ld + c * 8), (kd_u32x2){ w[0], w[1] });
    int32_t sum = kd_dot4(w[0], 0x01010101u, kd_dot4(w[1], 0x01010101u, 0));
    sum += (int32_t)kd_shfl_xor_u32((uint32_t)sum, 1);
    int32_t other = (int32_t)kd_shfl_xor_u32((uint32_t)sum, 2);
    if (c & 3)
        return;
    uint32_t run = m8_run(type) == 16 ? c >> 1 : c >> 2;
    if (m8_whole_blocks())
        sum = other = sum + other;
    KD_SHARED kd_u32x2 *meta = KD_SHARED_AT(kd_u32x2, x->meta + r / 2 * x->pair) + run * 2 + r % 2;
    if (m8_run(type) == 16) {
        kd_cluster_store8(meta, (kd_u32x2){ f32_bits(d), m8_beside(type, d, sum) });
        kd_cluster_store8(meta + 2, (kd_u32x2){ f32_bits(d), m8_beside(type, d, other) });
    } else {
        kd_cluster_store8(meta, (kd_u32x2){ f32_bits(d), m8_beside(type, d, sum + other) });
    }
}

/* As many work-items as a work-group of kernels/xquant.h has, a half of this one, take every so-manieth row, as that would:
 * the sums of squares are its. The work-groups of a cluster do it for each other. */
enum { M8_SIDES = KD_CLUSTER * (M8_THREADS / MV_THREADS), M8_SIDE_ROWS = M8_ROWS / M8_SIDES };
KD_FN uint32_t m8_side(void) { return kd_cluster_rank() + KD_CLUSTER * (kd_tid() / MV_THREADS); }

/* Chunk c of the side's rows, zeros behind the end. Rows that the step does not have are read as well: their number would
 * have to be waited for. There is room for a->n_pad of them. */
KD_FN void m8_load_x(const kl_matvec *a, uint32_t cols, uint32_t side, uint32_t row0, uint32_t c, kd_f32x4 (*v)[2])
{
    bool in = c * 8 < a->n_in;
    KD_UNROLL
    for (uint32_t i = 0; i < M8_SIDE_ROWS; i++) {
        if (M8_SIDES * i >= cols)
            break;
        uint64_t row = kd_min_u32(row0 + side + M8_SIDES * i, a->n_pad - 1);
        KD_GLOBAL const kd_f32x4 *p = KD_PTR(const kd_f32x4, a->x + (row * a->ldx + (in ? c * 8 : 0)) * 4);
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            v[i][k] = p[k];
    }
    KD_UNROLL
    for (uint32_t i = 0; i < 8 * M8_SIDE_ROWS; i++)
        v[i / 8][i / 4 % 2][i % 4] = in ? v[i / 8][i / 4 % 2][i % 4] : 0.0f;
}

/* All rows of the pass. What a turn takes is asked for in the turn before; first: the norm's weights that its first turn takes.
 * Returns how many rows the step has. */
KD_FN uint32_t m8_prepare(uint32_t type, const kl_matvec *a, const struct m8_x *x, uint32_t row0, const float *first)
{
    struct xq_in in = { .n_in = a->n_in, .eps = a->eps };
    uint32_t tid = kd_tid() % MV_THREADS, side = m8_side(), chunks = x->n_pad / 8;
    KD_SHARED float *red = KD_SHARED_AT(float, 0);
    kd_f32x4 v[M8_SIDE_ROWS][2], next[M8_SIDE_ROWS][2];
    float scale[M8_SIDE_ROWS], norm[8];
    KD_UNROLL
    for (uint32_t k = 0; k < 8; k++)
        norm[k] = first[k];
    m8_load_x(a, x->cols, side, row0, tid, v);
    uint32_t n = kd_step_rows(a->step, a->rows);
    if (a->norm) {
        float ss[M8_SIDE_ROWS];
        KD_UNROLL
        for (uint32_t i = 0; i < M8_SIDE_ROWS; i++)
            ss[i] = 0.0f;
        for (uint32_t c = tid; c * 8 < a->n_in; c += MV_THREADS) {
            if (c != tid)
                m8_load_x(a, x->cols, side, row0, c, next);
            KD_UNROLL
            for (uint32_t i = 0; i < M8_SIDE_ROWS; i++)
                KD_UNROLL
                for (uint32_t k = 0; k < 8; k++) {
                    float e = c == tid ? v[i][k / 4][k % 4] : next[i][k / 4][k % 4];
                    ss[i] = k_fma(e, e, ss[i]);
                }
        }
        KD_UNROLL
        for (uint32_t i = 0; i < M8_SIDE_ROWS; i++) {
            ss[i] = kd_warp_sum(ss[i]);
            if (kd_lane() == 0)
                red[(side + M8_SIDES * i) * MV_WARPS + tid / KD_WARP] = ss[i];
        }
        kd_barrier();
        KD_UNROLL
        for (uint32_t i = 0; i < M8_SIDE_ROWS; i++)
            scale[i] = xq_rms(&in, side + M8_SIDES * i, red);
    }
    kd_cluster_wait(); /* the others are there */
    for (uint32_t c = tid; c < chunks; c += MV_THREADS) {
        float then[8];
        if (a->norm)
            xq_load_even8(then, a->norm, (c + MV_THREADS) * 8, a->n_in);
        m8_load_x(a, x->cols, side, row0, c + MV_THREADS, next);
        KD_UNROLL
        for (uint32_t i = 0; i < M8_SIDE_ROWS; i++) {
            float e[8];
            KD_UNROLL
            for (uint32_t k = 0; k < 8; k++) {
                e[k] = v[i][k / 4][k % 4];
                if (a->norm)
                    e[k] = e[k] * scale[i] * norm[k];
            }
            if (side + M8_SIDES * i < x->cols)
                m8_quant(type, x, side + M8_SIDES * i, c, e);
            v[i][0] = next[i][0], v[i][1] = next[i][1];
        }
        KD_UNROLL
        for (uint32_t k = 0; k < 8; k++)
            norm[k] = then[k];
    }
    kd_cluster_arrive();
    kd_cluster_wait();
    return n;
}

/* ---- weights ---- */

struct m8_mats {
    const kl_matvec *a;
    uint32_t m, end;        /* the matrix, or the first of the pair, and its tiles         */
    uint32_t n_out;
    uint32_t steps, log2;   /* of a row; of the warps that share a tile                    */
    uint32_t part, side;    /* this warp's, and which of the work-group's tiles it is at   */
    uint32_t first;         /* tile of the work-group                                      */
    uint32_t tile, stride;  /* this warp's first one, and from one to the next              */
    uint32_t x_end, slots;  /* of the ring                                                 */
    bool whole;             /* the steps of a row are full                                 */
    gpu_va w;
    uint64_t second;        /* bytes from it to the other matrix of pairs                  */
    uint64_t half[2];       /* in planes 0 and 1, from row 0 of a tile to row 8            */
};

/* log2 of the rows of y that a tile makes: of pairs the second half of its rows are the other matrix's. */
KD_FN uint32_t m8_wide(const kl_matvec *a) { return a->gate_up ? 3 : 4; }

/* From row 0 of a tile to row r, in a plane of so many bytes a row. */
KD_FN uint64_t m8_row(const struct m8_mats *s, uint32_t r, uint32_t bytes)
{
    bool second = s->a->gate_up && r >= M8_TILE / 2;
    return (uint64_t)(second ? r - M8_TILE / 2 : r) * bytes + (second ? s->second : 0);
}

/* Row 0 of this warp's first tile in plane f, and from one of its tiles to the next. */
KD_FN gpu_va m8_plane(uint32_t type, uint32_t f, const struct m8_mats *s)
{
    gpu_va p = s->w;
    KD_UNROLL
    for (uint32_t i = 0; i < f; i++)
        p += (uint64_t)s->n_out * mo_row_bytes(type, i, s->a->n_in);
    return p + (uint64_t)(s->tile << m8_wide(s->a)) * mo_row_bytes(type, f, s->a->n_in);
}
KD_FN uint64_t m8_to_next(uint32_t type, uint32_t f, const struct m8_mats *s)
{
    return (uint64_t)(s->stride << m8_wide(s->a)) * mo_row_bytes(type, f, s->a->n_in);
}

/* Is there a row r of the tile? */
KD_FN bool m8_has_row(const struct m8_mats *s, uint32_t tile, uint32_t r)
{
    return (tile << m8_wide(s->a)) + (s->a->gate_up ? r % (M8_TILE / 2) : r) < s->n_out;
}

/* The planes of what scales are made of. */
KD_FN uint32_t m8_first(uint32_t type) { return m8_pieces(type, 1) ? 2 : 1; }

/* Where a warp's copies have come to: this lane's first piece of each plane of codes, and its row of the first plane of
 * scales, or another row where the tile has none there, which is asked for in the level-2 cache. */
struct m8_feed {
    uint32_t tile, step;
    gpu_va p[2], scales;
};

KD_FN struct m8_feed m8_feed(uint32_t type, const struct m8_mats *s)
{
    struct m8_feed d = { .tile = s->tile };
    KD_UNROLL
    for (uint32_t f = 0; f < 2; f++) {
        uint32_t n = m8_pieces(type, f), bytes = mo_row_bytes(type, f, s->a->n_in);
        if (n)
            d.p[f] = m8_plane(type, f, s) + m8_row(s, kd_lane() / n, bytes) + (s->part * n + kd_lane() % n) * 16;
    }
    uint32_t f = m8_first(type), r = m8_has_row(s, s->tile, kd_lane() % M8_TILE) ? kd_lane() % M8_TILE : 0;
    d.scales = m8_plane(type, f, s) + m8_row(s, r, mo_row_bytes(type, f, s->a->n_in));
    return d;
}

/* Where piece p of row r lies among n a row: eight rows meet no bank twice. */
KD_FN uint32_t m8_place(uint32_t n, uint32_t r, uint32_t p) { return (r * n + (p ^ (r * n / 8 & (n - 1)))) * 16; }

KD_FN KD_SHARED uint8_t *m8_slot(uint32_t type, const struct m8_mats *s, uint32_t i)
{
    return KD_SHARED_AT(uint8_t, s->x_end + (kd_warp() * s->slots + i) * m8_slot_bytes(type));
}

/* The tile's rows of chunk c in plane f; all: it has them, to the chunk's end. Else zeros stand for what it lacks. A lane's rows are
 * 32 / n apart. */
KD_FN void m8_copy_plane(uint32_t type, uint32_t f, const struct m8_mats *s, const struct m8_feed *d, uint32_t c, bool all,
                         KD_SHARED uint8_t *to)
{
    uint32_t n = m8_pieces(type, f), bytes = mo_row_bytes(type, f, s->a->n_in), l = kd_lane();
    bool in = all || (c * n + l % n) * 16 < bytes;
    KD_UNROLL
    for (uint32_t k = 0; k < n * M8_TILE / KD_WARP; k++) {
        uint32_t down = k * (KD_WARP / n), place = m8_place(n, l / n, l % n) ^ (n == 8 && k % 2 ? 64 : 0);
        gpu_va from = d->p[f] + down % 8 * (uint64_t)bytes + (down / 8 ? s->half[f] : 0);
        kd_copy16(to + place + down * n * 16, KD_PTR(const uint8_t, from), in && (all || m8_has_row(s, d->tile, l / n + down)));
    }
}

/* The codes of the next chunk on their way; zeros behind the row's end and for rows behind the last. */
KD_FN void m8_copy(uint32_t type, const struct m8_mats *s, struct m8_feed *d, KD_SHARED uint8_t *slot)
{
    uint32_t c = (d->step << s->log2) + s->part;
    bool last = d->step + 1 == s->steps, all = (d->tile + 1) << m8_wide(s->a) <= s->n_out && (s->whole || !last);
    if (d->tile < s->end) {
        KD_SHARED uint8_t *second = slot + M8_TILE * m8_pieces(type, 0) * 16;
        if (all) {
            m8_copy_plane(type, 0, s, d, c, true, slot);
            if (m8_pieces(type, 1))
                m8_copy_plane(type, 1, s, d, c, true, second);
        } else {
            m8_copy_plane(type, 0, s, d, c, false, slot);
            if (m8_pieces(type, 1))
                m8_copy_plane(type, 1, s, d, c, false, second);
        }
        uint32_t f = m8_first(type), bytes = mo_row_bytes(type, f, s->a->n_in);
        uint32_t at = c * (planes_of((enum qtype)type).f[f].len * m8_chunk(type) / qtype_block((enum qtype)type));
        kd_prefetch(KD_PTR(const void, d->scales + kd_min_u32(at, bytes - 1)));
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++) {
            uint32_t n = m8_pieces(type, k), step = n * 16 << s->log2;
            d->p[k] += last ? m8_to_next(type, k, s) - (uint64_t)(s->steps - 1) * step : step;
        }
        if (last && m8_has_row(s, d->tile + s->stride, kd_lane() % M8_TILE))
            d->scales += m8_to_next(type, f, s);
    }
    kd_copy_commit();
    d->step = last ? 0 : d->step + 1;
    d->tile += last ? s->stride : 0;
}

/* What a chunk's scales are made of, for this lane's rows g and g + 8; and the scales that Q4_K's and Q5_K's two pairs of items
 * have, which leaves the head to the next chunk. */
struct m8_head {
    uint32_t w[2][8];
};
struct m8_scales {
    struct wd_scale of[2][2]; /* [row][pair] */
};

/* Rows g and g + 8 of the tile in the planes from m8_first on; where the tile has no such row, another one. */
struct m8_heads {
    gpu_va p[2][2];
};
KD_FN struct m8_heads m8_heads(uint32_t type, const struct m8_mats *s)
{
    struct m8_heads h;
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t r = kd_lane() / 4 + 8 * i, f = m8_first(type);
        r = m8_has_row(s, s->tile, r) ? r : 0;
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            h.p[i][k] = m8_plane(type, f + k, s) + m8_row(s, r, mo_row_bytes(type, f + k, s->a->n_in));
    }
    return h;
}
/* To the warp's next tile, `tile`. */
KD_FN void m8_heads_move(uint32_t type, const struct m8_mats *s, uint32_t tile, struct m8_heads *h)
{
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++)
        KD_UNROLL
        for (uint32_t k = 0; k < 2; k++)
            h->p[i][k] += m8_has_row(s, tile, kd_lane() / 4 + 8 * i) ? m8_to_next(type, m8_first(type) + k, s) : 0;
}

/* Of chunk c of the tile's rows. */
KD_FN void m8_load_head(uint32_t type, uint32_t n_in, const struct m8_heads *at, uint32_t c, struct m8_head *h)
{
    uint32_t blocks = n_in / qtype_block((enum qtype)type);
    KD_UNROLL
    for (uint32_t i = 0; i < 2; i++) {
        uint32_t *w = h->w[i], b = kd_min_u32(c, blocks - 1);
        const gpu_va *p = at->p[i];
        switch (type) {
        case QT_Q4_K:
        case QT_Q5_K: wd_get16(false, w, p[0] + b * 16); break;
        case QT_Q6_K:
            wd_get16(false, w, p[0] + b * 16);
            w[4] = wd_get2(false, p[1] + b * 2);
            break;
        case QT_Q2_K:
            wd_get16(false, w, p[0] + b * 16);
            w[4] = wd_get4(false, p[1] + b * 4);
            break;
        case QT_Q3_K:
            KD_UNROLL
            for (uint32_t k = 0; k < 3; k++)
                w[k] = wd_get4(false, p[0] + b * 12 + k * 4);
            w[3] = wd_get2(false, p[1] + b * 2);
            break;
        case QT_IQ4_XS: wd_get8(false, w, p[0] + kd_min_u32(c / 2, blocks - 1) * 8); break;
        case QT_Q8_0:
            if (n_in % 64 == 0) /* both of the chunk's blocks at once; nothing may wait for them here */
                w[0] = wd_get4(false, p[0] + kd_min_u32(c, blocks / 2 - 1) * 4);
            else
                w[0] = wd_get2(false, p[0] + kd_min_u32(2 * c, blocks - 1) * 2) |
                       wd_get2(false, p[0] + kd_min_u32(2 * c + 1, blocks - 1) * 2) << 16;
            break;
        default:
            KD_UNROLL
            for (uint32_t k = 0; k < 4; k++) {
                b = kd_min_u32(4 * c + k, blocks - 1);
                if (type == QT_Q4_1)
                    w[k] = wd_get4(false, p[0] + b * 4);
                else if (type == QT_MXFP4)
                    w[k] = *KD_PTR(const uint8_t, p[0] + b);
                else if (type == QT_Q5_0 || type == QT_Q5_1)
                    w[4 + k] = wd_get4(false, p[0] + b * 4);
                else
                    w[k] = wd_get2(false, p[0] + b * 2);
                if (type == QT_Q5_0)
                    w[k] = wd_get2(false, p[1] + b * 2);
                if (type == QT_Q5_1)
                    w[k] = wd_get4(false, p[1] + b * 4);
            }
        }
    }
}

/* Pieces p and q of all 16 rows: [0], [2] of row g, [1], [3] of row g + 8, this lane's word of each. */
KD_FN void m8_words(uint32_t n, KD_SHARED const uint8_t *plane, uint32_t p, uint32_t q, uint32_t v[4])
{
    uint32_t l = kd_lane();
    kd_bytes8_load(v, plane + m8_place(n, l % 16, l < 16 ? p : q));
}

/* ---- a chunk ---- */

/* Where a lane finds x of a chunk: its row's codes, and what goes with the runs of its column pair. */
struct m8_at {
    KD_SHARED const uint8_t *words, *meta;
    uint32_t start[4]; /* M8_START, which the compiler does not know: it would be set again for each instruction on matrices */
};
KD_FN uint32_t m8_step(uint32_t type) { return m8_is_k(type) && !wd_by_blocks(type) ? 32 : 16; }
KD_FN struct m8_at m8_at(uint32_t type, const kl_matvec *a, const struct m8_x *x, uint32_t k, const uint32_t start[4])
{
    uint32_t row = kd_lane() & (x->cols - 1), words = M8_HEAD_BYTES + 2 * M8_WARPS * M8_PART_BYTES;
    return (struct m8_at){
        KD_SHARED_AT(const uint8_t, words + row * x->ld + kd_lane() / 8 * m8_step(type) + k),
        KD_SHARED_AT(const uint8_t, x->meta + (kd_lane() & (x->cols / 2 - 1)) * x->pair + k / m8_run(type) * 16),
        { start[0], start[1], start[2], start[3] },
    };
}

/* Column pair of C: scales, and what goes with them. */
struct m8_pair {
    float d[2];
    uint32_t by[2];
};
KD_FN struct m8_pair m8_meta(const struct m8_at *at, uint32_t run)
{
    kd_u32x4 v = *(KD_SHARED const kd_u32x4 *)(at->meta + run * 16);
    return (struct m8_pair){ { f32_from_bits(v[0]), f32_from_bits(v[2]) }, { v[1], v[3] } };
}

/* 16 bytes of each row of x from elements k, k + m8_step, ... of the chunk on. */
KD_FN void m8_x_words(const struct m8_at *at, uint32_t k, uint32_t b[4])
{
    kd_bytes8_load(b, at->words + k);
}

/* A run's sum, of c[i], without what it began at and what the bias of the weights' codes adds. */
KD_FN float m8_sum(uint32_t type, const struct m8_pair *p, const uint32_t c[4], uint32_t i)
{
    return f32_from_bits(c[i]) - (m8_has_bias(type) ? f32_from_bits(p->by[i % 2]) : M8_MAGIC);
}

/* A row's item as wd_scale and wd_open take it, with this lane's word of each piece in place of the first. */
KD_FN void m8_item(uint32_t type, const uint32_t *head, uint32_t i, uint32_t *w)
{
    switch (type) {
    case QT_Q6_K: w[12] = head[i & 2], w[13] = head[(i & 2) + 1], w[14] = head[4]; break;
    case QT_Q2_K: w[4] = head[i & 2], w[5] = head[(i & 2) + 1], w[6] = head[4]; break;
    case QT_Q3_K:
        KD_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            w[8 + k] = head[k];
        break;
    case QT_IQ4_XS: w[4] = head[0], w[5] = head[1]; break;
    case QT_Q5_0:
    case QT_Q5_1: w[4] = head[4 + i] >> kd_lane() % 4 * 4, w[5] = head[i]; break;
    case QT_Q8_0: w[4] = head[0] >> i / 2 * 16; break;
    default: w[4] = head[i]; break;
    }
}

KD_FN struct m8_scales m8_pairs(uint32_t type, const struct m8_head *h)
{
    struct m8_scales all = { 0 };
    KD_UNROLL
    for (uint32_t i = 0; i < 4 && wd_by_blocks(type); i++) {
        uint32_t w[WD_WORDS] = { 0 };
        KD_UNROLL
        for (uint32_t k = 0; k < 4; k++)
            w[8 + k] = h->w[i / 2][k];
        all.of[i / 2][i % 2] = wd_scale(type, w, i % 2 * 2);
    }
    return all;
}

/* The word of run s that meets x. */
KD_FN uint32_t m8_open(uint32_t type, const uint32_t *w, const struct wd_scale *sc, uint32_t i, uint32_t s)
{
    uint32_t q[WD_SUB_WORDS];
    float dw, mw;
    wd_open(type, w, sc, i, s, q, &dw, &mw);
    return m8_is_signed(type) ? ((q[0] | 0x80808080u) - 0x01010101u * (uint32_t)-wd_bias(type, s)) ^ 0x80808080u : q[0];
}

/* An item's sums, weighted. */
KD_FN void m8_add_k(uint32_t type, const struct wd_scale *sc, const float *sum_d, const float *sum_m, float acc[4])
{
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++) {
        acc[i] = k_fma(sc[i / 2].d, sum_d[i], acc[i]);
        if (wd_has_min(type))
            acc[i] = k_fma(sc[i / 2].m, sum_m[i], acc[i]);
        acc[i] = mv_pinned(acc[i]);
    }
}

/* An item of the types by blocks, a quarter of the chunk; w: its two pieces of each row. High nibbles of Q4_K stay where they are,
 * bytes without a sign. */
KD_FN void m8_item_blocks(uint32_t type, const struct m8_at *x, uint32_t item, const uint32_t *w, const uint32_t *high,
                          const struct wd_scale *sc, const uint32_t *b, float acc[4])
{
    float sum_d[4] = { 0.0f, 0.0f, 0.0f, 0.0f }, sum_m[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    KD_UNROLL
    for (uint32_t s = 0; s < 2; s++) {
        const bool in_place = type == QT_Q4_K && s;
        struct m8_pair p = m8_meta(x, (2 * item + s) * (32 / m8_run(type)));
        uint32_t c[4], a[4], code = item % 2 * 2 + s, bit = 2 * item + s;
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            a[i] = in_place ? w[i] & 0xf0f0f0f0u : w[i] >> 4 * s & 0x0f0f0f0fu;
            if (type == QT_Q5_K)
                a[i] |= (bit < 4 ? high[i] << (4 - bit) : high[i] >> (bit - 4)) & 0x10101010u;
        }
        if (in_place)
            kd_mma8_k32_unsigned(c, x->start, a[0], a[1], a[2], a[3], b[2 * s], b[2 * s + 1]);
        else
            kd_mma8_k32(c, x->start, a[0], a[1], a[2], a[3], b[2 * s], b[2 * s + 1]);
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            float t = m8_sum(type, &p, c, i) * p.d[i % 2];
            float by = mv_code(type, sc[i / 2].sc, code);
            sum_d[i] = k_fma(in_place ? by * 0.0625f : by, t, sum_d[i]);
            sum_m[i] = k_fma(mv_code(type, sc[i / 2].mn, code), f32_from_bits(p.by[i % 2]), sum_m[i]);
        }
    }
    m8_add_k(type, sc, sum_d, sum_m, acc);
}
KD_FN void m8_chunk_blocks(uint32_t type, const struct m8_at *x, KD_SHARED const uint8_t *slot, const struct m8_scales *pairs,
                           float (*acc)[4])
{
    uint32_t n0 = m8_pieces(type, 0), n1 = m8_pieces(type, 1), high[4] = { 0 };
    if (n1)
        m8_words(n1, slot + M8_TILE * n0 * 16, 0, 1, high);
    KD_UNROLL
    for (uint32_t item = 0; item < M8_LANES; item++) {
        uint32_t w[4], b[4];
        m8_words(n0, slot, 2 * item, 2 * item + 1, w);
        m8_x_words(x, 64 * item, b);
        const struct wd_scale sc[2] = { pairs->of[0][item / 2], pairs->of[1][item / 2] };
        m8_item_blocks(type, x, item, w, high, sc, b, acc[item]);
    }
}

/* An item of the other K types, for this lane's rows; run: the first of its runs in the chunk. */
KD_FN void m8_item_k(uint32_t type, const struct m8_at *x, uint32_t run, uint32_t item, const uint32_t (*w)[WD_WORDS],
                     const struct wd_scale *sc, const uint32_t *b, float acc[4])
{
    float sum_d[4] = { 0.0f, 0.0f, 0.0f, 0.0f }, sum_m[4] = { 0.0f, 0.0f, 0.0f, 0.0f };
    KD_UNROLL
    for (uint32_t s = 0; s < WD_SUBS; s++) {
        struct m8_pair p = m8_meta(x, run + 2 * s);
        uint32_t c[4];
        uint32_t a0 = m8_open(type, w[0], &sc[0], item, s), a1 = m8_open(type, w[1], &sc[1], item, s);
        kd_mma8_k16(c, x->start, a0, a1, b[s]);
        KD_UNROLL
        for (uint32_t i = 0; i < 4; i++) {
            float t = m8_sum(type, &p, c, i) * p.d[i % 2];
            sum_d[i] = k_fma(mv_code(type, sc[i / 2].sc, s), t, sum_d[i]);
            if (wd_has_min(type))
                sum_m[i] = k_fma(mv_code(QT_Q4_K, sc[i / 2].mn, s), f32_from_bits(p.by[i % 2]), sum_m[i]);
        }
    }
    m8_add_k(type, sc, sum_d, sum_m, acc);
}

/* The K types that are not by blocks: two pairs of items. */
KD_FN void m8_chunk_k(uint32_t type, const struct m8_at *x, KD_SHARED const uint8_t *slot, const struct m8_head *h,
                      float (*acc)[4])
{
    uint32_t n0 = m8_pieces(type, 0), n1 = m8_pieces(type, 1), high[4];
    KD_SHARED const uint8_t *plane1 = slot + M8_TILE * n0 * 16;
    if (n1 == 2)
        m8_words(n1, plane1, 0, 1, high);
    KD_UNROLL
    for (uint32_t n = 0; n < 2; n++) {
        uint32_t both[4];
        if (n1 == 4)
            m8_words(n1, plane1, 2 * n, 2 * n + 1, high);
        if (n0 == 4)
            m8_words(n0, slot, 2 * n, 2 * n + 1, both);
        KD_UNROLL
        for (uint32_t j = 0; j < 2; j++) {
            uint32_t w[2][WD_WORDS] = { 0 }, o[4], b[4], item = 2 * n + j;
            struct wd_scale sc[2];
            if (n0 == 8)
                m8_words(n0, slot, 4 * n + j, 4 * n + 2 + j, o);
            m8_x_words(x, 128 * n + 16 * j, b);
            KD_UNROLL
            for (uint32_t i = 0; i < 2; i++) {
                m8_item(type, h->w[i], item, w[i]);
                sc[i] = wd_scale(type, w[i], item);
                w[i][0] = n0 == 8 ? o[i] : both[2 * j + i];
                if (n0 == 8)
                    w[i][4] = o[2 + i];
                if (n1)
                    w[i][type == QT_Q6_K ? 8 : 4] = high[2 * j + i];
            }
            m8_item_k(type, x, 8 * n + j, item, w, sc, b, acc[item]);
        }
    }
}

/* The others: items that are runs; c: the chunk's number in the row. */
KD_FN void m8_chunk_runs(uint32_t type, const struct m8_at *x, uint32_t c, KD_SHARED const uint8_t *slot,
                         const struct m8_head *h, float (*acc)[4])
{
    const bool half = m8_run(type) == 16;
    uint32_t b[2][4];
    m8_x_words(x, 0, b[0]);
    if (!half)
        m8_x_words(x, 64, b[1]);
    KD_UNROLL
    for (uint32_t j = 0; j < M8_LANES; j += 2) {
        uint32_t v[4];
        m8_words(m8_pieces(type, 0), slot, j, j + 1, v);
        KD_UNROLL
        for (uint32_t i = j; i < j + 2; i++) {
            uint32_t q[2][WD_SUB_WORDS], s[4];
            float dw[2], mw[2];
            KD_UNROLL
            for (uint32_t r = 0; r < 2; r++) {
                uint32_t w[WD_WORDS] = { 0 };
                m8_item(type, h->w[r], i, w);
                struct wd_scale sc = wd_scale(type, w, M8_LANES * c + i);
                w[0] = v[2 * (i - j) + r];
                wd_open(type, w, &sc, M8_LANES * c + i, 0, q[r], &dw[r], &mw[r]);
            }
            struct m8_pair p = m8_meta(x, i);
            if (half)
                kd_mma8_k16(s, x->start, q[0][0], q[1][0], b[0][i]);
            else
                kd_mma8_k32(s, x->start, q[0][0], q[1][0], q[0][4], q[1][4], b[i / 2][i % 2 * 2], b[i / 2][i % 2 * 2 + 1]);
            KD_UNROLL
            for (uint32_t e = 0; e < 4; e++) {
                acc[i][e] = k_fma(dw[e / 2] * p.d[e % 2], m8_sum(type, &p, s, e), acc[i][e]);
                if (wd_has_min(type))
                    acc[i][e] = k_fma(mw[e / 2], f32_from_bits(p.by[e % 2]), acc[i][e]);
            }
        }
    }
}

/* ---- the end of a tile ---- */

KD_FN KD_SHARED float *m8_part(uint32_t parity, uint32_t warp)
{
    return KD_SHARED_AT(float, M8_HEAD_BYTES + (parity * M8_WARPS + warp) * M8_PART_BYTES);
}

KD_FN void m8_leave(uint32_t parity, float (*acc)[4])
{
    uint32_t g = kd_lane() / 4, t = kd_lane() % 4;
    KD_SHARED float *p = m8_part(parity, kd_warp());
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        p[(2 * t + i % 2) * M8_PART_LD + g + i / 2 * 8] = (acc[0][i] + acc[1][i]) + (acc[2][i] + acc[3][i]);
}

/* The sum of row r of the tile for row p of x: parts 1, 2, 4 apart. */
KD_FN float m8_total(const struct m8_mats *s, uint32_t parity, uint32_t p, uint32_t r)
{
    KD_SHARED const float *v = m8_part(parity, s->side << s->log2) + p * M8_PART_LD + r;
    const uint32_t next = M8_PART_BYTES / 4;
    float a = v[0];
    if (s->log2 > 0)
        a += v[next];
    if (s->log2 > 1)
        a += v[2 * next] + v[3 * next];
    if (s->log2 > 2)
        a += (v[4 * next] + v[5 * next]) + (v[6 * next] + v[7 * next]);
    return a;
}

KD_FN void m8_finish(const struct m8_mats *s, uint32_t parity, uint32_t tile, uint32_t row0, uint32_t rows)
{
    const kl_matvec *a = s->a;
    uint32_t wide = m8_wide(a), n_out = s->n_out;
    gpu_va b = mo_pick_va(a->b, s->m), y = mo_pick_va(a->y, s->m), own = mo_pick_va(a->wscale, s->m);
    uint64_t ld = mo_pick(a->ld, s->m);
    for (uint32_t i = s->part * KD_WARP + kd_lane(); i < rows << wide; i += (uint32_t)KD_WARP << s->log2) {
        uint32_t r = i & ((1u << wide) - 1), p = i >> wide, row = (tile << wide) + r;
        if (row >= n_out)
            continue;
        uint64_t at = row0 + p;
        float v = m8_total(s, parity, p, r);
        if (own)
            v *= *KD_PTR(const float, own);
        if (b)
            v += KD_PTR(const float, b)[row];
        if (a->gate_up) {
            float up = m8_total(s, parity, p, r + M8_TILE / 2);
            if (a->wscale[1])
                up *= *KD_PTR(const float, a->wscale[1]);
            v = kd_act(a->act, v, a->b[1] ? up + KD_PTR(const float, a->b[1])[row] : up);
        } else {
            if (a->scale)
                v *= KD_PTR(const float, a->scale)[at];
            if (a->resid)
                v += KD_PTR(const float, a->resid)[at * a->ldr + row];
            if (a->softcap > 0.0f)
                v = a->softcap * k_tanh(v / a->softcap);
        }
        KD_PTR(float, y)[at * ld + row] = v;
    }
}

/* ---- the tiles of a matrix ---- */

/* What a warp begins with: its first chunks are on their way, and what the scales of the first one are made of. */
struct m8_ready {
    struct m8_feed feed;
    struct m8_heads at;
    struct m8_head head;
};
KD_FN void m8_begin(uint32_t type, const struct m8_mats *s, struct m8_ready *r)
{
    r->feed = m8_feed(type, s);
    for (uint32_t i = 0; i < s->slots; i++)
        m8_copy(type, s, &r->feed, m8_slot(type, s, i));
    r->at = m8_heads(type, s);
    if (s->tile < s->end)
        m8_load_head(type, s->a->n_in, &r->at, s->part, &r->head);
}

KD_FN void m8_wait(uint32_t slots)
{
    if (slots >= 4)
        kd_copy_wait_3();
    else if (slots == 3)
        kd_copy_wait_2();
    else if (slots == 2)
        kd_copy_wait_1();
    else
        kd_copy_wait_0();
    kd_warp_sync();
}

/* All warps of the work-group make the same number of turns. */
KD_FN void m8_tiles(uint32_t type, const struct m8_mats *s, const struct m8_x *x, struct m8_ready *r, uint32_t row0,
                    uint32_t rows, uint32_t *parity)
{
    uint32_t tile = s->tile, slot = 0, first = s->first;
    struct m8_head next = r->head;
    struct m8_heads at = r->at;
    uint32_t start[4];
    KD_UNROLL
    for (uint32_t i = 0; i < 4; i++)
        start[i] = mv_opaque(M8_START);
    for (uint32_t turn = first; turn < s->end; turn += s->stride, tile += s->stride, *parity ^= 1) {
        float acc[M8_LANES][4];
        KD_UNROLL
        for (uint32_t i = 0; i < 4 * M8_LANES; i++)
            acc[i / 4][i % 4] = 0.0f;
        for (uint32_t step = 0; step < s->steps && tile < s->end; step++) {
            uint32_t c = (step << s->log2) + s->part, then = c + (1u << s->log2);
            struct m8_head head = next;
            struct m8_scales pairs = m8_pairs(type, &next);
            if (step + 1 == s->steps) {
                m8_heads_move(type, s, tile + s->stride, &at);
                then = s->part;
            }
            m8_load_head(type, s->a->n_in, &at, then, &next);
            m8_wait(s->slots);
            struct m8_at at_x = m8_at(type, s->a, x, c * m8_chunk(type), start);
            if (wd_by_blocks(type))
                m8_chunk_blocks(type, &at_x, m8_slot(type, s, slot), &pairs, acc);
            else if (m8_is_k(type))
                m8_chunk_k(type, &at_x, m8_slot(type, s, slot), &head, acc);
            else
                m8_chunk_runs(type, &at_x, c, m8_slot(type, s, slot), &head, acc);
            kd_warp_sync();
            m8_copy(type, s, &r->feed, m8_slot(type, s, slot));
            slot = slot + 1 == s->slots ? 0 : slot + 1;
        }
        m8_leave(*parity, acc);
        kd_barrier();
        if (tile < s->end)
            m8_finish(s, *parity, tile, row0, rows);
    }
}

/* Matrix m. A work-group takes as many tiles at once as it has warps for; such units are dealt to the work-groups across
 * the matrices, tile_end[m] of them, modulo the work-groups, before this one. */
KD_FN struct m8_mats m8_mats(uint32_t type, const kl_matvec *a, const struct m8_x *x, uint32_t m)
{
    uint32_t groups = kd_groups_x(), log2 = a->shape[1], at_once = a->shape[3], side = kd_warp() >> log2;
    struct m8_mats s = { .a = a, .m = m, .steps = a->shape[2], .log2 = log2, .part = kd_warp() & ((1u << log2) - 1),
                         .side = side, .stride = groups * at_once, .x_end = x->end, .slots = a->shape[0] };
    s.w = mo_pick_va(a->w, m);
    s.whole = a->n_in == s.steps * m8_chunk(type) << log2;
    s.second = a->gate_up ? a->w[1] - a->w[0] : 0;
    KD_UNROLL
    for (uint32_t f = 0; f < 2; f++)
        s.half[f] = a->gate_up ? s.second : 8 * (uint64_t)mo_row_bytes(type, f, a->n_in);
    s.n_out = mo_pick(a->n_out, m);
    s.end = kd_div_up(s.n_out, 1u << m8_wide(a));
    uint32_t before = mo_pick(a->tile_end, m);
    s.first = (kd_group_x() + (kd_group_x() < before ? groups : 0) - before) * at_once;
    s.tile = s.first + side;
    if (side >= at_once) /* warps that only help with x: as many turns as the others */
        s.tile = s.end + side;
    return s;
}

QSET_KERNEL(k_matmul8_, , kl_matvec)
{
    struct m8_x x = m8_x(a.type[0], m8_run(a.type[0]), a.n_in, a.rows_pass);
    uint32_t mats = a.gate_up ? 1 : a.n_mats, parity = 0;
    struct m8_ready r = { 0 };
    kd_cluster_arrive();
    QSET_FOR(a.type[0], {
        struct m8_mats s = m8_mats(type, &a, &x, 0);
        m8_begin(type, &s, &r);
    })
    float norm[8] = { 0 };
    if (a.norm)
        xq_load_even8(norm, a.norm, kd_tid() % MV_THREADS * 8, a.n_in);
    kd_wait_inputs();
    kd_let_next_start();
    uint32_t n = 0, row0 = kd_group_y() * a.rows_pass;
    QSET_FOR(a.type[0], n = m8_prepare(type, &a, &x, row0, norm))
    if (row0 >= n) {
        kd_copy_wait_0();
        return;
    }
    uint32_t rows = kd_min_u32(n - row0, a.rows_pass);
    for (uint32_t m = 0; m < mats; m++) {
        QSET_FOR(mo_pick(a.type, m), {
            struct m8_mats s = m8_mats(type, &a, &x, m);
            if (m)
                m8_begin(type, &s, &r);
            m8_tiles(type, &s, &x, &r, row0, rows, &parity);
        })
    }
}
