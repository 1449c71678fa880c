/* A stream from anywhere: loading says no or hands over something that may be dumped, costed, patched and drawn.
 * The input lacks the hash that closes a file; it is put there, so that damage gets past the first door. */
#include <stdlib.h>
#include <string.h>

#include "graph/graph.h"
#include "graph/ir.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n);

static void use(const struct stream *s)
{
    FILE *f = fopen("/dev/null", "w");
    struct graph_view v = {.n_rows = 3, .kv_len = 17};
    ka_row rows[3] = {{0}};
    uint32_t out_row[1] = {0};
    ka_sample sample = {.temp = 1.0f};
    struct step step = {.n_rows = s->h.row_cap < 3 ? s->h.row_cap : 3, .n_out = 1, .kv_len = 1, .rows = rows,
                        .out_row = out_row};
    if (f) {
        stream_dump(f, s);
        graph_print_plan(f, s);
        graph_print_json(f, s, &v);
        graph_print_dot(f, s, &v);
        fclose(f);
    }
    if (s->h.arena_bytes[ARENA_IO] <= 1 << 20) {
        uint8_t *io = malloc(s->h.arena_bytes[ARENA_IO]);
        if (io)
            stream_patch(io, s, &step);
        step.sample = &sample;
        if (io)
            stream_patch(io, s, &step);
        free(io);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n)
{
    struct stream *s = NULL;
    struct err e = {0};
    uint8_t *file = malloc(n + 8);
    uint64_t hash = stream_hash(data, n, 0);
    memcpy(file, data, n);
    memcpy(file + n, &hash, 8);
    int rc = stream_load_memory("fuzz", file, n + 8, &s, &e);
    free(file);
    if (rc == 0) {
        if (stream_verify(s, &e))
            abort();
        use(s);
        stream_free(s);
    } else if (e.code != rc || strlen(e.msg) == 0) {
        abort();
    }
    return 0;
}
