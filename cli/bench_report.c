/* One file for somebody who has no such device: machine, tiers, speeds, where the time goes, and whether the results are
 * right. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "cli/bench.h"
#include "engine/look.h"
#include "engine/proof/ladder.h"

static json_t *host_json(void)
{
    struct host_look h;
    struct utsname u = { 0 };
    engine_host(&h);
    uname(&u);
    return json_pack("{s:s, s:s, s:s, s:s, s:i, s:s, s:I, s:I}", "system", u.sysname, "release", u.release, "machine",
                     u.machine, "cpu", h.cpu, "cores", (int)h.n_cores, "isa", h.isa, "memory_bytes",
                     (json_int_t)h.mem_bytes, "memory_free_bytes", (json_int_t)h.mem_free_bytes);
}

static void add_tier(void *user, const struct tier_look *t)
{
    json_array_append_new(user, json_pack("{s:s, s:b, s:s, s:s, s:I, s:I}", "tier", t->name, "works", t->works, "device",
                                          t->device, "note", t->note, "memory_bytes", (json_int_t)t->mem_bytes,
                                          "memory_free_bytes", (json_int_t)t->mem_free_bytes));
}

static json_t *model_json(const struct engine_info *in)
{
    return json_pack("{s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:i, s:i, s:i, s:s, s:s, s:f}", "model", in->label,
                     "family", in->family, "weights", in->weights, "parameters", (json_int_t)in->n_params, "weight_bytes",
                     (json_int_t)in->weight_bytes, "kv_bytes", (json_int_t)in->kv_bytes, "state_bytes",
                     (json_int_t)in->state_bytes, "scratch_bytes", (json_int_t)in->scratch_bytes, "context",
                     (int)in->n_ctx, "chunk", (int)in->chunk, "commands", (int)in->n_cmds, "plan", in->plan, "note",
                     in->why, "load_s", (double)in->load_ns * 1e-9);
}

/* Parts, each an object of names and values. */
static void add_property(void *user, const char *part, const char *name, const char *value)
{
    json_t *parts = user, *p = json_object_get(parts, part);
    if (!p && !json_object_set_new(parts, part, json_object()))
        p = json_object_get(parts, part);
    json_object_set_new(p, name, json_string(value));
}

/* ---- are the results right? ---- */

static void add_rung(void *user, const struct ladder_line *l)
{
    static const char *const word[] = { "ok", "failed", "skipped" };
    json_array_append_new(user, json_pack("{s:i, s:s, s:s, s:f, s:s}", "rung", (int)l->number, "name", l->name, "status",
                                          word[l->status], "ms", l->ms, "found", l->found ? l->found : ""));
}

static void show_progress(void *user, const char *what, uint32_t done, uint32_t total)
{
    (void)user;
    if (isatty(STDERR_FILENO))
        fprintf(stderr, what ? "\r\033[K     case %u of %u: %.60s" : "\r\033[K", done + 1, total, what);
}

/* Every kernel, a layer and some tokens against the cpu tier, as zinc ladder does. */
static json_t *check_json(const char *tier, uint32_t *failed)
{
    enum { TOKENS = 16 };
    struct err e = { 0 };
    struct ladder_result r = { 0 };
    json_t *rungs = json_array();
    const struct ladder_opts o = { .tier = tier, .device = cli_model.o.device_set ? cli_model.o.device : -1,
                                   .model = cli_model.o.path, .n_tokens = TOKENS, .cancel = cli_catch_interrupt(),
                                   .line = add_rung, .progress = show_progress, .user = rungs };
    int rc = ladder_climb(&o, &r, &e);
    *failed = r.failed;
    return json_pack("{s:i, s:i, s:i, s:i, s:s?, s:o}", "rungs", (int)r.n, "ok", (int)r.ok, "skipped", (int)r.skipped,
                     "failed", (int)r.failed, "error", rc ? e.msg : NULL, "lines", rungs);
}

/* ---- the file ---- */

static int profile_rows(struct bench *b)
{
    struct err e = { 0 };
    bench_close(b);
    int rc = bench_open(b, true);
    if (rc)
        return rc;
    for (uint32_t i = 0; i < b->n_rows; i++)
        if (!b->row[i].startup && bench_profile_row(b, &b->row[i], &e))
            return cli_fail(&e);
    return 0;
}

static int write_file(const char *path, const json_t *o)
{
    struct err e;
    FILE *f = fopen(path, "w");
    bool bad = !f || json_dumpf(o, f, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) || fputc('\n', f) == EOF;
    if (f)
        bad |= fclose(f) != 0;
    if (!bad)
        return EXIT_OK;
    err_set(&e, -EIO, "%s: the report could not be written: %s", path, strerror(errno));
    return cli_fail(&e);
}

int bench_report(struct bench *b, const char *path)
{
    char tier[32];
    uint32_t failed = 0;
    snprintf(tier, sizeof tier, "%s", engine_info(b->eng)->tier);
    bool nothing_to_check = engine_info(b->eng)->is_reference || engine_info(b->eng)->dry_run;
    json_t *tiers = json_array(), *device = json_object(), *model = model_json(engine_info(b->eng));
    engine_tiers(add_tier, tiers);
    engine_describe(b->eng, add_property, device);
    fprintf(stderr, "zinc: report: where the time goes\n");
    int rc = profile_rows(b);
    json_t *bench = rc ? json_null() : bench_json(b);
    bench_close(b); /* the check opens the device for itself */
    if (!rc && !nothing_to_check)
        fprintf(stderr, "zinc: report: every kernel and some tokens against the cpu tier; this may take minutes\n");
    json_t *check = rc || nothing_to_check ? json_null() : check_json(tier, &failed);
    json_t *o = json_pack("{s:s, s:o, s:o, s:o, s:o, s:o, s:o}", "zinc", ZINC_VERSION, "host", host_json(), "tiers", tiers,
                          "device", device, "model", model, "bench", bench, "check", check);
    if (!rc)
        rc = write_file(path, o);
    json_decref(o);
    if (!rc)
        fprintf(stderr, "zinc: report: %s%s\n", path, failed ? ": the results are NOT right on this device, see check" : "");
    return rc ? rc : failed ? EXIT_FAILED : EXIT_OK;
}
