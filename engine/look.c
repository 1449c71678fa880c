#include "engine/look.h"

#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "engine/priv.h"
#include "rt/auto.h"
#include "model/inspect.h"
#include "model/recut.h"

int engine_inspect(const char *path, bool tensors, bool json, FILE *f, struct err *e)
{
    struct gguf *g;
    int rc = gguf_open(path, &g, e);
    if (rc)
        return rc;
    if ((rc = recut_legacy(g, e))) {
        gguf_close(g);
        return rc;
    }
    rc = json ? inspect_json(f, g, tensors) : inspect_print(f, g, tensors);
    gguf_close(g);
    return rc ? err_set(e, rc, "%s: the description could not be written: %s", path, strerror(-rc)) : 0;
}

static int print_graph(const struct graph_request *r, const struct stream *s, FILE *f, struct err *e)
{
    struct graph_view v = { .n_rows = r->rows ? r->rows : 1,
                            .kv_len = MIN(r->kv_len ? r->kv_len : 1024, s->h.n_ctx),
                            .gbs = r->gbs,
                            .gflops = r->gflops };
    int rc = 0;
    switch (r->format) {
    case GRAPH_PLAN: graph_print_plan(f, s); break;
    case GRAPH_JSON: rc = graph_print_json(f, s, &v); break;
    case GRAPH_DOT: rc = graph_print_dot(f, s, &v); break;
    case GRAPH_STREAM: stream_dump(f, s); break;
    }
    if (!rc && fflush(f))
        rc = errno ? -errno : -EIO;
    return rc ? err_set(e, rc, "graph: the output could not be written: %s", strerror(-rc)) : 0;
}

int engine_graph(const struct graph_request *r, FILE *f, struct err *e)
{
    struct engine_spec sp;
    struct gguf *g = NULL;
    struct model *m = NULL;
    struct stream *s = NULL;
    char scaled[160];
    int rc;
    if ((rc = engine_parse_spec(&r->o, &sp, e)) || (rc = gguf_open(r->o.path, &g, e)) || (rc = recut_legacy(g, e)) ||
        (rc = model_read(g, &m, e)) || (rc = engine_scale_rope(m, &r->o, scaled, sizeof scaled, e)))
        goto out;
    struct graph_opts go = { .n_ctx = engine_default_ctx(&r->o, m->n_ctx_train),
                             .n_slots = MAX(r->o.n_slots, 1u),
                             .row_cap = MAX(r->rows, (uint32_t)ENGINE_MAX_BATCH),
                             .out_cap = ENGINE_MAX_BATCH,
                             .kv_type = sp.kv,
                             .kv_edge = sp.kv_edge,
                             .no_fuse = sp.no_fuse,
                             .first_layer = r->first_layer,
                             .end_layer = r->end_layer };
    if ((rc = graph_compile(m, &go, &s, e)) || (rc = print_graph(r, s, f, e)))
        goto out;
    rc = r->save ? stream_save(s, r->save, e) : 0;
out:
    stream_free(s);
    model_free(m);
    gguf_close(g);
    return rc;
}

void engine_tiers(void (*fn)(void *user, const struct tier_look *t), void *user)
{
    const struct tier_opts o = { .device = -1 };
    for (const struct tier_driver *const *d = tier_drivers; *d; d++) {
        struct tier_info info = { 0 };
        bool works = (*d)->probe(&o, &info) == 0;
        struct tier_look l = { .name = (*d)->name, .device = info.device, .note = info.note, .works = works,
                               .dry_run = info.dry_run, .mem_bytes = info.mem_bytes,
                               .mem_free_bytes = info.mem_free_bytes };
        fn(user, &l);
    }
}

void engine_auto(char *out, size_t n)
{
    auto_describe(out, n);
}

const char *engine_tier_name(size_t i)
{
    size_t n = 0;
    while (tier_drivers[n])
        n++;
    return i == 0 ? "auto" : i <= n ? tier_drivers[i - 1]->name : NULL;
}

int engine_check_tier(const char *spec, struct err *e)
{
    struct engine_spec sp;
    const struct engine_opts o = { .tier = spec };
    int rc = engine_parse_spec(&o, &sp, e);
    char known[160] = "";
    const char *name;
    if (rc)
        return rc;
    for (size_t i = 0; (name = engine_tier_name(i)); i++) {
        size_t n = strlen(known);
        if (strcmp(name, sp.tier) == 0)
            return 0;
        snprintf(known + n, sizeof known - n, "%s%s", n ? ", " : "", name);
    }
    return err_set(e, -EINVAL, "there is no tier '%s': this binary has %s", sp.tier, known);
}

#ifndef __APPLE__
/* The rest of the first line of a file that starts with `key`, without ": "; "" when there is none. */
static void first_line(const char *path, const char *key, char *out, size_t n)
{
    char line[512];
    FILE *f = fopen(path, "r");
    out[0] = 0;
    while (f && fgets(line, sizeof line, f))
        if (strncmp(line, key, strlen(key)) == 0) {
            const char *v = line + strlen(key);
            v += strspn(v, " \t:");
            snprintf(out, n, "%.*s", (int)strcspn(v, "\n"), v);
            break;
        }
    if (f)
        fclose(f);
}
#endif

static void name_isa(char *out, size_t n)
{
    out[0] = 0;
#if defined(__x86_64__)
    const struct {
        const char *name;
        int have;
    } isa[] = {
        { "avx2", __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") },
        { "avx512", __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl") },
        { "vnni", __builtin_cpu_supports("avx512vnni") },
#if defined(__clang__) || __GNUC__ >= 13
        { "amx", __builtin_cpu_supports("amx-int8") },
#endif
    };
    for (size_t i = 0; i < ARRAY_LEN(isa); i++)
        if (isa[i].have) {
            size_t len = strlen(out);
            snprintf(out + len, n - len, "%s%s", len ? " " : "", isa[i].name);
        }
#endif
}

void engine_host(struct host_look *h)
{
    *h = (struct host_look){ 0 };
    name_isa(h->isa, sizeof h->isa);
#ifdef __APPLE__
    h->n_cores = macos_cores();
    macos_processor(h->cpu, sizeof h->cpu);
    h->mem_bytes = macos_memory();
    h->mem_free_bytes = macos_memory_available();
    snprintf(h->huge_pages, sizeof h->huge_pages, "none");
#else
    cpu_set_t set;
    if (sched_getaffinity(0, sizeof set, &set) == 0)
        h->n_cores = (uint32_t)CPU_COUNT(&set);
    first_line("/proc/cpuinfo", "model name", h->cpu, sizeof h->cpu);
    char text[128];
    first_line("/proc/meminfo", "MemTotal", text, sizeof text);
    h->mem_bytes = strtoull(text, NULL, 10) * 1024;
    h->mem_free_bytes = host_memory_available();
    first_line("/sys/kernel/mm/transparent_hugepage/enabled", "", text, sizeof text);
    const char *open = strchr(text, '[');
    snprintf(h->huge_pages, sizeof h->huge_pages, "%.*s", open ? (int)strcspn(open + 1, "]") : 7,
             open ? open + 1 : "unknown");
#endif
}
