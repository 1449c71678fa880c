/* engine/look.h: what there is to see without generating anything: the file, its command stream, the tiers. */
#ifndef ZINC_ENGINE_LOOK_H
#define ZINC_ENGINE_LOOK_H

#include "engine/engine.h"

/* Describes the file on `f`, as text or JSON; `tensors`: with a line for each. */
int engine_inspect(const char *path, bool tensors, bool json, FILE *f, struct err *e);

enum graph_format { GRAPH_PLAN, GRAPH_JSON, GRAPH_DOT, GRAPH_STREAM };

struct graph_request {
    struct engine_opts o;    /* path, n_ctx, n_slots, kv, no_fuse; the rest is not looked at           */
    enum graph_format format; /* what goes to `f`: the memory plan alone, or the stream in this form    */
    const char *save;        /* NULL, or where to save the stream                                      */
    uint32_t rows;           /* of a step: costs are for so many, the stream holds at least 8; 0: 1    */
    uint32_t kv_len;         /* positions that each row looks at; 0: min(1024, the context)            */
    double gbs, gflops;      /* roofs for the bottleneck; 0: typical of a CPU                          */
    uint32_t first_layer, end_layer; /* layers [first, end) alone; end 0: up to the last               */
};
int engine_graph(const struct graph_request *r, FILE *f, struct err *e);

/* Every tier that this binary knows: fn gets its name, whether it can run here, the device and the note. */
struct tier_look {
    const char *name, *device, *note;
    bool works, dry_run; /* dry_run: computes nothing */
    uint64_t mem_bytes, mem_free_bytes; /* 0: unknown */
};
void engine_tiers(void (*fn)(void *user, const struct tier_look *t), void *user);
/* What --tier=auto measured of the ways to an AMD card and where that is kept, in a line; "": nothing yet. */
void engine_auto(char *out, size_t n);

/* "auto", then the tiers that this binary has; NULL behind the last. Nothing is looked for. */
const char *engine_tier_name(size_t i);
/* -EINVAL, with what there is: not NAME or NAME:WORD... as engine_opts has it. */
int engine_check_tier(const char *spec, struct err *e);

/* The host, as far as it matters. */
struct host_look {
    uint32_t n_cores;             /* that this process may use                           */
    char cpu[64], isa[64];        /* model name; instruction sets that zinc knows, or "" */
    uint64_t mem_bytes, mem_free_bytes;
    char huge_pages[32];          /* transparent huge pages: always, madvise, never      */
};
void engine_host(struct host_look *h);

#endif
