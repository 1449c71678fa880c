/* Instructions in words, for reports. */
#include "tools/amdsim/isa/inst.h"

#include <stdio.h>

static const char *const format_names[F_COUNT + 1] = {
    "SOP1", "SOP2", "SOPC", "SOPK", "SOPP", "SMEM", "VOP1", "VOP2", "VOPC", "VOP3", "VOP3SD", "VOP3P", "VOPD",
    "DS", "FLAT", "GLOBAL", "SCRATCH", "BUFFER", "unknown format",
};

void isa_describe(const struct chip *c, const uint32_t *dw, uint32_t n_dw, char *out, uint64_t size)
{
    if (size == 0)
        return;
    if (n_dw == 0) {
        snprintf(out, size, "(no code)");
        return;
    }
    struct inst in;
    inst_decode(c, dw, n_dw, &in);
    uint32_t n = in.dwords < n_dw ? in.dwords : n_dw;
    int used =
        snprintf(out, size, "%s (%s%s 0x%x)", in.name ? in.name : "unknown instruction", format_names[in.format],
                 in.e64 && in.format >= F_VOP1 && in.format <= F_VOPC ? " e64" : "", in.op);
    for (uint32_t i = 0; i < n && used > 0 && (uint64_t)used < size; i++)
        used += snprintf(out + used, size - (uint64_t)used, " %08X", dw[i]);
}
