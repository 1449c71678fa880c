/* oracle/mm.c: panels and activations in memory, and the choice of an instruction set. */
#include "oracle/mm.h"

#include <string.h>

#include "oracle/isa.h"
#include "oracle/mm_block.h"

static size_t up64(size_t n)
{
    return (n + 63) & ~(size_t)63;
}

enum { ROOM = 16 /* rows past cap that a kernel may touch */ };

static uint32_t act_ldq(uint32_t n_in)
{
    return (uint32_t)up64(n_in) + 64; /* not a power of two: rows of a tile fall into different cache sets */
}

static uint32_t act_ldd(uint32_t cap)
{
    return (cap + 15) / 16 * 16 + ROOM;
}

static size_t act_q_bytes(uint32_t cap, uint32_t n_in)
{
    return ((size_t)cap + ROOM) * act_ldq(n_in);
}

/* d, dx and s16 take 4 bytes a row and block each. */
static size_t act_scale_bytes(uint32_t cap, uint32_t n_in)
{
    return (size_t)act_ldd(cap) * (n_in / QK) * 4;
}

size_t mm_act_bytes(uint32_t cap, uint32_t n_in)
{
    return 4 * act_q_bytes(cap, n_in) + 3 * act_scale_bytes(cap, n_in);
}

void mm_act_init(struct mm_act *a, uint32_t cap, uint32_t n_in, void *mem)
{
    uint8_t *p = mem;
    size_t scale = act_scale_bytes(cap, n_in);
    *a = (struct mm_act){ .n_in = n_in, .cap = cap, .ldq = act_ldq(n_in), .ldd = act_ldd(cap), .q = mem };
    p += act_q_bytes(cap, n_in);
    a->d = (float *)p;
    a->dx = (float *)(p + scale);
    a->s16 = (int16_t *)(p + 2 * scale);
    a->b = (uint16_t *)(p + 3 * scale);
    a->u = p + 3 * scale + 2 * act_q_bytes(cap, n_in);
}

size_t mm_panel_bytes(enum qtype t, uint32_t n_in)
{
    return MM_ROWS * ((size_t)qtype_row_bytes(t, n_in) + (mm_is_boxed(t) ? n_in / qtype_block(t) * 4 : 0));
}

size_t mm_scratch_bytes(uint32_t n_in)
{
    size_t row = 2 * (size_t)n_in; /* struct mm_xrun */
    return row > 128 * 1024 ? up64(row) : 128 * 1024;
}

/* Element 4 g + j of a Q5_0 word of fifth bits goes to bit 8 j + g. */
static uint32_t spread_bits(uint32_t h)
{
    uint32_t out = 0;
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t v = h >> j & 0x11111111;
        v = (v | v >> 3) & 0x03030303;
        v = (v | v >> 6) & 0x000f000f;
        v = (v | v >> 12) & 0xff;
        out |= v << 8 * j;
    }
    return out;
}

static uint32_t gather_bits(uint32_t p)
{
    uint32_t out = 0;
    for (uint32_t j = 0; j < 4; j++) {
        uint32_t v = p >> 8 * j & 0xff;
        v = (v | v << 12) & 0x000f000f;
        v = (v | v << 6) & 0x03030303;
        v = (v | v << 3) & 0x11111111;
        out |= v << j;
    }
    return out;
}

/* Word i of a block between file and panel. */
static uint32_t word_in(enum qtype t, uint32_t i, uint32_t w)
{
    if (t == QT_Q8_0)
        return w ^ MM_B(0x80);
    if ((t == QT_Q5_0 && i == 0) || (t == QT_Q5_1 && i == 1))
        return spread_bits(w);
    return w;
}

static uint32_t word_out(enum qtype t, uint32_t i, uint32_t w)
{
    if ((t == QT_Q5_0 && i == 0) || (t == QT_Q5_1 && i == 1))
        return gather_bits(w);
    return word_in(t, i, w);
}

/* Where word i stands in the file's block, all in a row: behind the head where that comes first. */
static uint32_t word_off(enum qtype t, uint32_t i)
{
    return 4 * i + (mm_head_bytes(t) && mm_head_off(t) == 0 ? mm_head_bytes(t) : 0);
}

/* The bits from `at` on of words. */
static uint32_t bits_at(const uint32_t *words, uint32_t at, uint32_t n)
{
    return words[at / 32] >> at % 32 & ((1u << n) - 1);
}

/* Words of a block of IQ1 between file and panel: entries take their places in boxes, and what is a run's stands together. In a file
 * there are, from word 8 on, a run's high bits of indices, and in IQ1_S its scale and whether it is moved down, in 16 bits. */
static void boxed_in(enum qtype t, const uint32_t *file, uint32_t *panel)
{
    memset(panel, 0, 4 * mm_words(t));
    for (uint32_t j = 0; j < 32; j++) {
        uint32_t b = j / 4, k = j % 4, high = t == QT_IQ1_S ? 256 + 16 * b + 3 * k : 256 + 4 * j;
        uint32_t place = mm_packed.iq1_place[bits_at(file, 8 * j, 8) | bits_at(file, high, 3) << 8];
        panel[b] |= place >> 4 << 8 * k;
        panel[8 + b / 2] |= (place & 15) << (16 * (b % 2) + 4 * k);
        if (t == QT_IQ1_M)
            panel[12] |= bits_at(file, 256 + 4 * j + 3, 1) << j;
        else if (k == 0)
            panel[12] |= bits_at(file, 256 + 16 * b + 12, 4) << 4 * b;
    }
    if (t == QT_IQ1_M)
        memcpy(panel + 13, file + 12, 8);
}

static void boxed_out(enum qtype t, const uint32_t *panel, uint32_t *file)
{
    memset(file, 0, qtype_block_bytes(t));
    for (uint32_t j = 0; j < 32; j++) {
        uint32_t b = j / 4, k = j % 4, high = t == QT_IQ1_S ? 16 * b + 3 * k : 4 * j;
        uint32_t i = mm_packed.iq1_index[bits_at(panel, 8 * j, 8) << 4 | bits_at(panel, 256 + 4 * j, 4)];
        file[b] |= (i & 255) << 8 * k;
        file[8 + high / 32] |= i >> 8 << high % 32;
        if (t == QT_IQ1_M)
            file[8 + b / 2] |= bits_at(panel, 384 + j, 1) << (4 * j + 3) % 32;
        else if (k == 0)
            file[8 + b / 2] |= bits_at(panel, 384 + 4 * b, 4) << (16 * (b % 2) + 12);
    }
    if (t == QT_IQ1_M)
        memcpy(file + 12, panel + 13, 8);
}

/* Words of a block between file and panel. */
MM_INLINE void words_in(enum qtype t, const uint8_t *blk, uint32_t *panel)
{
    uint32_t file[64];
    memcpy(file, blk + word_off(t, 0), qtype_block_bytes(t) / 4 * 4);
    if (mm_is_boxed(t))
        boxed_in(t, file, panel);
    else
        for (uint32_t i = 0; i < mm_words(t); i++)
            panel[i] = word_in(t, i, file[i]);
}

MM_INLINE void words_out(enum qtype t, const uint32_t *panel, uint8_t *blk)
{
    uint32_t file[64];
    if (mm_is_boxed(t))
        boxed_out(t, panel, file);
    else
        for (uint32_t i = 0; i < mm_words(t); i++)
            file[i] = word_out(t, i, panel[i]);
    memcpy(blk + word_off(t, 0), file, qtype_block_bytes(t) / 4 * 4);
}

MM_INLINE void pack_blocks(enum qtype t, uint32_t nb, const uint8_t *rows, size_t row_bytes, uint32_t n_rows,
                           uint8_t *panel)
{
    uint32_t hb = mm_head_bytes(t), bb = qtype_block_bytes(t), words[64];
    if (mm_is_boxed(t))
        mm_packed_init();
    for (uint32_t ib = 0; ib < nb; ib++) {
        struct mm_where at = mm_where(t, nb, ib);
        for (uint32_t r = 0; r < n_rows; r++) {
            const uint8_t *blk = rows + r * row_bytes + (size_t)ib * bb;
            memcpy(panel + at.head + r * hb, blk + mm_head_off(t), hb);
            words_in(t, blk, words);
            for (uint32_t i = 0; i < mm_words(t); i++)
                memcpy(panel + at.words + 64 * (size_t)i + 4 * r, &words[i], 4);
        }
    }
}

static void pack_floats(uint32_t bytes, uint32_t n_in, const uint8_t *rows, size_t row_bytes, uint32_t n_rows,
                        uint8_t *panel)
{
    for (uint32_t k = 0; k < n_in; k++)
        for (uint32_t r = 0; r < n_rows; r++)
            memcpy(panel + ((size_t)k * MM_ROWS + r) * bytes, rows + r * row_bytes + (size_t)k * bytes, bytes);
}

void mm_pack(enum qtype t, uint32_t n_in, const uint8_t *rows, size_t row_bytes, uint32_t n_rows, uint8_t *panel)
{
    if (n_rows < MM_ROWS)
        memset(panel, 0, mm_panel_bytes(t, n_in));
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(T, ...)                                                                                            \
    case QT_##T: pack_blocks(QT_##T, n_in / qtype_block(QT_##T), rows, row_bytes, n_rows, panel); break;
#include "kernels/qtypes.def"
    case QT_F32: pack_floats(4, n_in, rows, row_bytes, n_rows, panel); break;
    case QT_F16: case QT_BF16: pack_floats(2, n_in, rows, row_bytes, n_rows, panel); break;
    default: break;
    }
}

void mm_unpack(enum qtype t, uint32_t n_in, const uint8_t *panel, uint32_t n_rows, uint8_t *rows, size_t row_bytes)
{
    if (!mm_type_is_block(t)) {
        uint32_t bytes = qtype_block_bytes(t);
        for (uint32_t k = 0; k < n_in; k++)
            for (uint32_t r = 0; r < n_rows; r++)
                memcpy(rows + r * row_bytes + (size_t)k * bytes, panel + ((size_t)k * MM_ROWS + r) * bytes, bytes);
        return;
    }
    uint32_t nb = n_in / qtype_block(t), hb = mm_head_bytes(t), bb = qtype_block_bytes(t), words[64];
    if (mm_is_boxed(t))
        mm_packed_init();
    for (uint32_t ib = 0; ib < nb; ib++) {
        struct mm_where at = mm_where(t, nb, ib);
        for (uint32_t r = 0; r < n_rows; r++) {
            uint8_t *blk = rows + r * row_bytes + (size_t)ib * bb;
            memcpy(blk + mm_head_off(t), panel + at.head + r * hb, hb);
            for (uint32_t i = 0; i < mm_words(t); i++)
                memcpy(&words[i], panel + at.words + 64 * (size_t)i + 4 * r, 4);
            words_out(t, words, blk);
        }
    }
}

const struct mm_kernels *mm_select(const char *at_most)
{
    static const char *const names[] = { "plain", "neon", "dotprod", "avx2", "avxvnni", "avx512", "vbmi", "amx" };
    const struct isa *isa = isa_get();
    const struct mm_kernels *const sets[] = { &mm_plain, mm_neon, isa->dotprod ? mm_dotprod : NULL, isa->avx2 ? mm_avx2 : NULL,
                                              isa->avxvnni ? mm_avxvnni : NULL, isa->avx512 ? mm_avx512 : NULL, isa->vbmi ? mm_vbmi : NULL, isa->amx ? mm_amx : NULL };
    int top = 7;
    if (at_most)
        for (; top >= 0 && strcmp(at_most, names[top]); top--)
            ;
    if (top < 0)
        return NULL;
    while (!sets[top])
        top--;
    mm_packed_init();
    return sets[top];
}
