#include "server/server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/log.h"
#include "server/http.h"
#include "server/router/router.h"
#include "server/sys.h"

enum { LAST_BYTES_S = 2 }; /* for sending what a drained scheduler left */

struct server {
    struct http *http;
    uint32_t drain_s;
    const char *ready_file;
    bool behind_router;
};

static int ready_failed(const char *file, int rc, struct err *e)
{
    return err_set(e, rc, "--ready-file %s: cannot be written: %s", file, strerror(-rc));
}

int server_create(const struct server_opts *o, struct server **out, struct err *e)
{
    int can = o->ready_file ? sys_can_replace(o->ready_file) : 0; /* before a model is loaded for nothing */
    if (can)
        return ready_failed(o->ready_file, can, e);
    struct server *s = calloc(1, sizeof *s);
    if (!s)
        return err_set(e, -ENOMEM, "server: out of memory");
    s->drain_s = o->drain_s;
    s->ready_file = o->ready_file;
    s->behind_router = o->behind_router;
    int rc = http_start(o, &s->http, e);
    if (rc) {
        free(s);
        return rc;
    }
    *out = s;
    return 0;
}

void server_destroy(struct server *s)
{
    if (!s)
        return;
    http_destroy(s->http);
    free(s);
}

const char *server_url(const struct server *s)
{
    return http_url(s->http);
}

bool server_is_open(const struct server *s)
{
    return http_is_open(s->http);
}

/* in: what the model takes is a second line, for a router (server/router/child.h); NULL: there is none. */
static int write_ready(const struct server *s, const struct engine_info *in, struct err *e)
{
    char line[512];
    if (!s->ready_file)
        return 0;
    int n = snprintf(line, sizeof line, "%s\n", server_url(s));
    if (s->behind_router && in)
        snprintf(line + n, sizeof line - (size_t)n, "memory %llu %llu %s\n", (unsigned long long)in->mem_need,
                 (unsigned long long)in->mem_free, in->host_memory ? "host" : in->device);
    int rc = sys_replace_file(s->ready_file, line);
    return rc ? ready_failed(s->ready_file, rc, e) : 0;
}

static void wait_for(const struct flag *stop)
{
    while (!flag_is_set(stop)) /* a signal ends the sleep of the thread that gets it, which may be another one */
        nanosleep(&(struct timespec){ .tv_nsec = 50000000 }, NULL);
}

static uint32_t drain_sched(void *sched, uint64_t timeout_ns)
{
    struct sched_stats st = sched_stats(sched);
    log_info(SERVER, "draining: %u requests running, %u waiting, %.0f s at most", st.running, st.waiting, (double)timeout_ns * 1e-9);
    return sched_drain(sched, timeout_ns);
}

/* Answers until stop is set; `end` gives what is being answered its time. */
static int serve(struct server *s, const struct http_backend *b, const struct engine_info *in, uint32_t (*end)(void *user, uint64_t timeout_ns), void *user,
                 const struct flag *stop, struct err *e)
{
    http_serve(s->http, b);
    int rc = write_ready(s, in, e);
    if (!rc)
        wait_for(stop);
    http_drain(s->http);
    uint32_t ended = end(user, s->drain_s * 1000000000ull);
    uint32_t cut = http_stop(s->http, LAST_BYTES_S * 1000000000ull);
    if (ended || cut)
        log_warn(SERVER, "drained: %u requests ended early, %u answers cut", ended, cut);
    if (s->ready_file)
        sys->unlink(s->ready_file);
    return rc;
}

int server_run(struct server *s, struct engine *eng, const struct server_model *m, const struct flag *stop,
               struct err *e)
{
    const struct engine_info *in = engine_info(eng);
    struct sched *sched = NULL;
    struct api *api = NULL;
    struct api_opts ao = { .eng = eng, .model_name = m->name, .aliases = m->aliases, .n_aliases = m->n_aliases,
                           .strict_model = m->strict_model, .sampling = m->sampling, .think = m->think,
                           .think_budget = m->think_budget, .max_tokens = m->max_tokens, .timeout_ns = m->timeout_ns,
                           .budget = http_budget(s->http) };
    const struct vocab_index *v;
    if (in->has_vocab && !in->pooling) /* now, or the first request with a grammar would wait for it */
        engine_vocab(eng, &v, NULL);
    struct sched_opts so = m->sched;
    so.kv.owner_name = http_owner_name;
    so.kv.owner_user = s->http;
    int rc = sched_create(eng, &so, &sched, e);
    ao.sched = sched;
    if (!rc)
        rc = api_create(&ao, &api, e);
    if (!rc) {
        struct http_backend b = { .ops = &api_backend, .self = api, .sched = sched, .model = m->name ? m->name : in->label,
                                  .tier = in->tier, .n_ctx = in->n_ctx };
        rc = serve(s, &b, in, drain_sched, sched, stop, e);
    }
    http_stop(s->http, 0); /* nothing refers to what is destroyed now */
    api_destroy(api);
    sched_destroy(sched);
    return rc;
}

#ifdef ZINC_CURL
static uint32_t drain_router(void *router, uint64_t timeout_ns)
{
    return router_drain(router, timeout_ns);
}
#endif

int server_run_models(struct server *s, const struct router_opts *o, const struct flag *stop, struct err *e)
{
#ifdef ZINC_CURL
    struct router_opts all = *o;
    struct router *r;
    all.budget = http_budget(s->http);
    all.owner_name = http_owner_name;
    all.user = s->http;
    all.end_s = s->drain_s;
    int rc = router_create(&all, &r, e);
    if (rc)
        return rc;
    rc = serve(s, &(struct http_backend){ .ops = &router_backend, .self = r }, NULL, drain_router, r, stop, e);
    http_stop(s->http, 0);
    router_destroy(r);
    return rc;
#else
    return err_set(e, -ENOSYS, "this zinc was built without libcurl and serves one model at a time: build it with libcurl4-openssl-dev");
#endif
}
