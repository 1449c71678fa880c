/* kernels/router_rows_shared.h
 * How kernels/router_rows.c cuts its work, what it takes, and its shared memory. Hosts and kernels include it. */
#ifndef ZINC_KERNELS_ROUTER_ROWS_SHARED_H
#define ZINC_KERNELS_ROUTER_ROWS_SHARED_H

enum {
    RR_THREADS = 256,
    RR_WARPS = RR_THREADS / 32,
    RR_EXPERTS = 16, /* of a work-group */
    RR_ROWS = 8,     /* of a work-group; a warp makes the choice of each */
    RR_MAX_EXPERTS = 512,
    RR_MAX_K = 32, /* a lane has one of those that are chosen */
    RR_SQUARES = 4 * RR_WARPS * RR_EXPERTS * RR_ROWS, /* bytes of the warps' sums, which come first; behind them those of squares */
    RR_TURN = RR_SQUARES + 4 * RR_WARPS * RR_ROWS,    /* which work-group of its rows this was */
    RR_SHARED_BYTES = RR_TURN + 16
};

#endif
