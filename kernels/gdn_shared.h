/* kernels/gdn_shared.h: how the work of the gated DeltaNet kernels is cut, for them and for rt/dispatch_gdn.c. */
#ifndef ZINC_KERNELS_GDN_SHARED_H
#define ZINC_KERNELS_GDN_SHARED_H

enum {
    GDN_ANY_DIM = 256,       /* k_gdn_step: the largest head                             */
    GDN_INPUT_ROWS = 32,     /* k_gdn_inputs: rows of a work-group                       */
    GDN_SCAN_VALUES = 16,    /* k_gdn_scan: value rows of a work-group                   */

    /* bytes of shared memory */
    GDN_STEP_SHARED = (3 * GDN_ANY_DIM + 8) * 4,
    GDN_STEP_H128_SHARED = (4 * 128 + 8) * 4,
    GDN_ROWS_SHARED = 8 * 4,
    GDN_SCAN_SHARED = 2 * 8 * (2 * 128 + 2 * GDN_SCAN_VALUES + 4) * 4,
};

#endif
