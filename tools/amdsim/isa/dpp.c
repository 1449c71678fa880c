/* tools/amdsim/isa/dpp.c: which lane reads which. */
#include "tools/amdsim/isa/dpp.h"

enum { OUTSIDE = -1, UNKNOWN = -2 };

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

uint32_t dpp_read(struct wave *w, const struct inst *in, const uint32_t *src, uint32_t *out)
{
    uint32_t exec = wave_exec(w), write = 0;
    for (int l = 0; l < WAVE_LANES; l++) {
        int from =
            in->dpp == DPP_8 ? (l & ~7) | (int)(in->dpp_ctrl >> 3 * (l & 7) & 7) : source_lane(in->dpp_ctrl, l);
        if (from == UNKNOWN) {
            wave_fault(w, ISA_FAULT_ILLEGAL, "DPP control 0x%03x is none of RDNA's", in->dpp_ctrl);
            return 0;
        }
        bool on = in->dpp == DPP_8 || ((in->dpp_row >> l / 16 & 1) && (in->dpp_bank >> (l % 16 / 4) & 1));
        if (on && (from != OUTSIDE || in->dpp_bound))
            write |= 1u << l;
        out[l] = from >= 0 && (in->dpp_fi || exec >> from & 1) ? src[from] : 0;
    }
    return write;
}
