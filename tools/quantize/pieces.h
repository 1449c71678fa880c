/* tools/quantize/pieces.h: tensors, one after the other, piece by piece, into the new file; pieces that an earlier run finished are
 * taken when they are proven to be what would be made now. */
#ifndef ZINC_TOOLS_QUANTIZE_PIECES_H
#define ZINC_TOOLS_QUANTIZE_PIECES_H

#include "base/flag.h"
#include "base/progress.h"
#include "model/gguf.h"
#include "model/gguf_write.h"
#include "model/quant_sums.h"

struct pieces {
    const char *path;                          /* of the new file                                    */
    struct gguf_writer *w;                     /* from gguf_writer_create_kept, begun                */
    struct progress progress;
    const struct flag *interrupted;
    uint32_t threads;                          /* 0: one per core                                    */
    uint64_t total;                            /* bytes of the new file's data                       */
    /* for pieces.c */
    struct quant_sums *sums;
    struct quant_sum program;
    uint8_t *buf;
    uint64_t buf_bytes, done, taken, n;
    bool looking;
};

/* After gguf_writer_begin. */
int pieces_begin(struct pieces *p, struct err *e);
/* `importance` [t->ne[2] x ne[3], t->ne[0]], or NULL; `times` [t->ne[2]], f32 of any alignment that the matrices are multiplied by, or
 * NULL. -ECANCELED: interrupted. */
int pieces_tensor(struct pieces *p, const struct gguf_tensor *t, const float *importance, const void *times, enum qtype to,
                  struct err *e);
/* rc: what came of it all. After a success, and after an error that would come again, nothing is kept; after an interruption or a
 * failed write it is, and the message says so. gguf_writer_destroy is the caller's. Zeroed memory is fine. */
void pieces_end(struct pieces *p, int rc, struct err *e);

#endif
