/* ZINC_DEBUG, the ladder of looking: 1 device and plan, 2 a line per step, 3 per command, 4 native words, 5 tensors to
 * files. Everything goes to stderr; the files of level 5 lie in zinc-debug/STEP/ as raw 32-bit numbers. */
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/ckd.h"
#include "base/env.h"
#include "engine/outputs.h"
#include "engine/priv.h"

void engine_debug_open(const struct engine *eng)
{
    int level = env_get()->debug;
    if (level < 1)
        return;
    fprintf(stderr, "debug: %s on %s: %s%s%s, plan %s, %u commands, prompts in steps of %u\n", eng->label,
            eng->info.tier, eng->device, eng->why[0] ? ": " : "", eng->why, eng->info.plan, eng->info.n_cmds,
            eng->info.chunk);
    fprintf(stderr, "debug: decode ");
    graph_print_plan(stderr, eng->decode.s);
    if (eng->decode_few.s) {
        fprintf(stderr, "debug: decode, few rows, ");
        graph_print_plan(stderr, eng->decode_few.s);
    }
    fprintf(stderr, "debug: prompt ");
    graph_print_plan(stderr, eng->prefill.s);
    if (level >= 4)
        tier_dump(eng->decode.native, stderr);
}

static void print_commands(struct engine *eng, const struct stream *s, const struct step *st)
{
    const struct tier_trace *t;
    uint32_t n = tier_trace(eng->tier, &t);
    for (uint32_t i = 0; i < n; i++) {
        const struct cmd *c = &s->cmds[t[i].cmd];
        struct output out[MAX_OUTPUTS];
        uint64_t bytes, flops;
        double us = (double)(t[i].end_ns - t[i].start_ns) * 1e-3;
        stream_cmd_cost(s, t[i].cmd, st->n_rows, st->kv_len, &bytes, &flops);
        uint32_t n_out = cmd_outputs(s, t[i].cmd, st->n_rows, st->n_out, out);
        fprintf(stderr, "debug:   %5u %-9s %4d %-20s %10.1f us %8.2f GB/s %9.2f Gflop/s\n", t[i].cmd,
                cmd_name((enum cmd_op)c->op), (int)c->layer, n_out ? out[0].name : "", us,
                us > 0 ? (double)bytes * 1e-3 / us : 0, us > 0 ? (double)flops * 1e-3 / us : 0);
    }
}

void engine_debug_step(struct engine *eng, const struct engine_plan *p, const struct step *st, uint64_t ns)
{
    int level = env_get()->debug;
    if (level < 2)
        return;
    fprintf(stderr, "debug: step %llu: %u rows (token %d at %u of slot %u ...), %u outputs, %.3f ms\n",
            (unsigned long long)eng->tier->stats.steps, st->n_rows, st->rows[0].token, st->rows[0].pos, st->rows[0].slot,
            st->n_out, (double)ns * 1e-6);
    if (level >= 3)
        print_commands(eng, p->s, st);
}

/* Runs up to every command and keeps what it wrote: later ones reuse its place. */
static int write_outputs(struct engine *eng, struct engine_plan *p, const struct step *st, const char *dir,
                         const uint8_t *state, struct err *e)
{
    int rc = 0;
    for (uint32_t i = 0; i < p->s->h.n_cmds && !rc; i++) {
        struct output out[MAX_OUTPUTS];
        uint32_t n = cmd_outputs(p->s, i, st->n_rows, st->n_out, out);
        if (eng->info.state_bytes)
            rc = tier_write(eng->tier, ARENA_STATE, 0, state, eng->info.state_bytes, e);
        if (!rc)
            rc = tier_submit_prefix(eng->tier, p->native, st, i + 1, e);
        for (uint32_t k = 0; k < n && !rc; k++) {
            char path[256];
            size_t count = out[k].rows ? (size_t)(out[k].rows - 1) * out[k].ld + out[k].cols : 0;
            float *v = malloc(count * sizeof *v + 1);
            rc = v ? tier_read(eng->tier, out[k].arena, out[k].off, v, count * sizeof *v, e) : -ENOMEM;
            snprintf(path, sizeof path, "%s/%04u-%s-%s.%s", dir, i, cmd_name((enum cmd_op)p->s->cmds[i].op), out[k].name,
                     out[k].ints ? "i32" : "f32");
            FILE *f = rc ? NULL : fopen(path, "wb");
            for (uint32_t r = 0; f && r < out[k].rows; r++)
                fwrite(v + (size_t)r * out[k].ld, sizeof *v, out[k].cols, f);
            if (f)
                fclose(f);
            free(v);
        }
    }
    return rc;
}

/* Before the step: it is run command by command, and then everything is as it was. */
void engine_debug_tensors(struct engine *eng, struct engine_plan *p, const struct step *st)
{
    if (env_get()->debug < 5)
        return;
    char dir[64];
    struct err e = { 0 };
    uint64_t n = eng->info.state_bytes;
    uint8_t *state = malloc(n + 1);
    snprintf(dir, sizeof dir, "zinc-debug/%06llu", (unsigned long long)eng->tier->stats.steps);
    mkdir("zinc-debug", 0777);
    mkdir(dir, 0777);
    int rc = !state ? err_set(&e, -ENOMEM, "out of memory") : n ? tier_read(eng->tier, ARENA_STATE, 0, state, n, &e) : 0;
    if (!rc)
        rc = write_outputs(eng, p, st, dir, state, &e);
    if (state && n)
        tier_write(eng->tier, ARENA_STATE, 0, state, n, NULL);
    if (rc)
        fprintf(stderr, "debug: %s: %s\n", dir, e.msg);
    free(state);
}
