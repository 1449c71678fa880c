/* graph/verify.h: private to graph/: the parts of stream_verify.
 * Verification trusts nothing: tables first (graph/verify_tables.c), then every command by the rules of
 * kernels/kargs.h (graph/verify.c), which also yields the bytes that each address covers, and from those the hazards
 * (graph/verify_waits.c). Nothing here shares code with lowering. */
#ifndef ZINC_GRAPH_VERIFY_H
#define ZINC_GRAPH_VERIFY_H

#include "graph/stream.h"

/* Bytes that an address of a command covers at full capacity. `at` and `end` are (arena + 1) << 56 | offset. */
struct extent {
    gpu_va at, end;
    uint64_t ld, width; /* bytes: rows of `width`, ld apart; one row: ld 0 */
    uint32_t cmd;
    uint16_t field_off;
    uint8_t dir; /* enum use_dir */
};

/* Head, strings, buffers, weights, patches. */
int verify_tables(const struct stream *s, struct err *e);

/* Fills ext[n_uses], in the order of uses. */
int verify_commands(const struct stream *s, struct extent *ext, struct err *e);

/* The newest earlier command that must be complete before each: CMD_NO_WAIT or an index. -ENOMEM. */
int verify_needed_waits(const struct stream *s, const struct extent *ext, uint32_t *need, struct err *e);

#endif
