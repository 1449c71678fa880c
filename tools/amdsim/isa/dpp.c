/* tools/amdsim/isa/dpp.c: which lane reads which. */
#include "tools/amdsim/isa/dpp.h"

enum { OUTSIDE = -1, UNKNOWN = -2, N_CTRL = 1 << 9 };

/* The lane that lane l reads under a DPP16 control. */
static int source_lane(uint32_t ctrl, int l)
{
    int row = l & 16, i = l & 15, n = (int)(ctrl & 15);
    switch (ctrl >> 4) {
    case 0x00 ... 0x0f: /* quad_perm */
        return (l & ~3) | (ctrl >> 2 * (l & 3) & 3);
    case 0x10: /* row_shl */
        return n == 0 ? UNKNOWN : i + n > 15 ? OUTSIDE : row + i + n;
    case 0x11: /* row_shr */
        return n == 0 ? UNKNOWN : i < n ? OUTSIDE : row + i - n;
    case 0x12: /* row_ror */
        return n == 0 ? UNKNOWN : row + ((i - n) & 15);
    case 0x14: /* row_mirror, row_half_mirror */
        return n == 0 ? row + 15 - i : n == 1 ? (l ^ 7) : UNKNOWN;
    case 0x15: /* row_share */
        return row + n;
    case 0x16: /* row_xmask */
        return l ^ n;
    }
    return UNKNOWN;
}

/* Every DPP16 control, made once; a lane of its own where the source lies outside. */
static struct pattern {
    uint8_t from[WAVE_LANES];
    uint32_t inside;
    bool known;
} patterns[N_CTRL];

__attribute__((constructor)) static void make_patterns(void)
{
    for (uint32_t ctrl = 0; ctrl < N_CTRL; ctrl++) {
        struct pattern *p = &patterns[ctrl];
        p->known = source_lane(ctrl, 0) != UNKNOWN;
        for (int l = 0; l < WAVE_LANES && p->known; l++) {
            int from = source_lane(ctrl, l);
            p->from[l] = (uint8_t)(from >= 0 ? from : l);
            p->inside |= from >= 0 ? 1u << l : 0;
        }
    }
}

/* Lanes whose row and whose bank of four may write. */
static uint32_t enabled(const struct inst *in)
{
    uint32_t banks = 0;
    for (int b = 0; b < 4; b++)
        banks |= in->dpp_bank >> b & 1 ? 0xfu << 4 * b : 0;
    return (in->dpp_row & 1 ? banks : 0) | (in->dpp_row & 2 ? banks << 16 : 0);
}

uint32_t dpp_read(struct wave *w, const struct inst *in, const uint32_t *src, uint32_t *out)
{
    uint32_t exec = wave_exec(w), inside = ~0u, write = ~0u;
    uint8_t eights[WAVE_LANES];
    const uint8_t *from = eights;
    if (in->dpp == DPP_8) {
        for (uint32_t l = 0; l < WAVE_LANES; l++)
            eights[l] = (uint8_t)((l & ~7u) | (in->dpp_ctrl >> 3 * (l & 7) & 7));
    } else {
        const struct pattern *p = &patterns[in->dpp_ctrl % N_CTRL];
        if (!p->known) {
            wave_fault(w, ISA_FAULT_ILLEGAL, "DPP control 0x%03x is none of RDNA's", in->dpp_ctrl);
            return 0;
        }
        from = p->from;
        inside = p->inside;
        write = in->dpp_row == 15 && in->dpp_bank == 15 ? ~0u : enabled(in);
        write &= in->dpp_bound ? ~0u : inside;
    }
    if (inside == ~0u && (in->dpp_fi || exec == ~0u))
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = src[from[l]];
    else
        for (int l = 0; l < WAVE_LANES; l++)
            out[l] = (inside >> l & 1) && (in->dpp_fi || exec >> from[l] & 1) ? src[from[l]] : 0;
    return write;
}
