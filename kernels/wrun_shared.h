/* kernels/wrun_shared.h
 * How runs of weights meet matrix instructions on signed bytes (kernels/wrun.h), as far as it decides what lies where. Hosts and
 * kernels include it. */
#ifndef ZINC_KERNELS_WRUN_SHARED_H
#define ZINC_KERNELS_WRUN_SHARED_H

#include "kernels/matvec_shared.h"

/* Runs are 16 long. */
MVS_FN bool wr_is_short(uint32_t type) { return type == QT_Q2_K || type == QT_Q3_K || type == QT_Q6_K || type == QT_OPENED; }
/* Elements of a run lie side by side in memory, so a lane has eight of them in two words. */
MVS_FN bool wr_is_wide(uint32_t type) { return type == QT_Q4_K || type == QT_Q5_K || type == QT_Q8_0; }
/* Scales are codes, some for each block of 256: it takes work to make factors of them. */
MVS_FN bool wr_is_coded(uint32_t type)
{
    return type == QT_Q2_K || type == QT_Q3_K || type == QT_Q4_K || type == QT_Q5_K || type == QT_Q6_K || type == QT_IQ4_XS;
}

#endif
