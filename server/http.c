#include "server/http.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <xxhash.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "base/log.h"
#include "server/http_priv.h"
#include "server/sys.h"

enum {
    CONN_SPARE = 64, /* beyond max_connections these are told so; further ones wait in the kernel  */
    FD_SPARE = 256,  /* descriptors of everything else in the process                              */
};

#define DEFAULT_MEMORY (512u << 20)

/* ---- start and end ---- */

/* Where the limit stays too low, fewer connections are taken: what makes room for new ones has to begin before the system has
 * no descriptor for them. */
static void fit_fd_limit(struct http *h)
{
    struct rlimit l;
    uint64_t spare = CONN_SPARE + FD_SPARE, want = h->o.max_connections + spare;
    if (sys->getrlimit(RLIMIT_NOFILE, &l) || l.rlim_cur >= want)
        return;
    rlim_t before = l.rlim_cur;
    l.rlim_cur = l.rlim_max == RLIM_INFINITY ? want : MIN((rlim_t)want, l.rlim_max);
    if (sys->setrlimit(RLIMIT_NOFILE, &l))
        l.rlim_cur = before;
    if (l.rlim_cur >= want)
        return;
    h->o.max_connections = (uint32_t)MAX(l.rlim_cur >= 2 * spare ? l.rlim_cur - spare : l.rlim_cur / 2, 1u);
    log_warn(SERVER, "%llu open files allowed, %llu wanted: %u connections at most (ulimit -n)", (unsigned long long)l.rlim_cur,
             (unsigned long long)want, h->o.max_connections);
}

static struct site site_of(const struct http *h)
{
    bool is_unix = h->listener.path[0];
    return (struct site){ .any_name = is_unix, .any_address = !h->listener.local, .bound = is_unix ? NULL : h->o.host,
                          .allowed = h->o.hosts, .n_allowed = h->o.n_hosts, .cors = h->o.cors };
}

static int open_all(struct http *h, struct err *e)
{
    int rc = auth_create(h->o.api_keys, h->o.n_api_keys, h->o.api_key_file, &h->auth, e);
    if (!rc)
        rc = tls_open(h->o.tls_cert, h->o.tls_key, &h->tls, e);
    if (!rc && (!(h->metrics = metrics_create()) || !(h->budget = budget_create(h->o.max_memory))))
        rc = err_set(e, -ENOMEM, "server: out of memory");
    if (!rc)
        rc = listener_open(h->o.host, h->o.port, h->tls != NULL, &h->listener, e);
    if (rc)
        return rc;
    h->site = site_of(h);
    rc = begin_pool_create(&h->begin, e);
    return rc ? rc : loops_start(h, e);
}

int http_start(const struct server_opts *o, struct http **out, struct err *e)
{
    struct http *h = calloc(1, sizeof *h);
    if (!h)
        return err_set(e, -ENOMEM, "server: out of memory");
    h->o = *o;
    h->listener.fd = -1;
    pthread_mutex_init(&h->conns_lock, NULL);
    TAILQ_INIT(&h->all);
    h->o.host = o->host ? o->host : "127.0.0.1";
    h->o.max_body = o->max_body ? o->max_body : 8u << 20;
    h->o.max_connections = o->max_connections ? o->max_connections : 1024;
    h->o.max_memory = o->max_memory ? o->max_memory : MAX((uint64_t)DEFAULT_MEMORY, 4 * h->o.max_body);
    h->o.threads = o->threads ? o->threads : 2;
    h->o.idle_s = o->idle_s ? o->idle_s : 60;
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    uint64_t seed[2] = { (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec, clock_ns() };
    atomic_store(&h->next_id, XXH3_64bits(seed, sizeof seed));
    fit_fd_limit(h);
    int rc = open_all(h, e);
    if (rc) {
        http_destroy(h);
        return rc;
    }
    *out = h;
    return 0;
}

const char *http_url(const struct http *h)
{
    return h->listener.url;
}

struct budget *http_budget(struct http *h)
{
    return h->budget;
}

bool http_is_open(const struct http *h)
{
    return !h->listener.local && !auth_required(h->auth);
}

void http_serve(struct http *h, const struct http_backend *b)
{
    h->b = *b;
    atomic_store(&h->state, HTTP_READY);
}

void http_drain(struct http *h)
{
    atomic_store(&h->state, HTTP_DRAINING);
    listener_stop(&h->listener);
}

static void nap(void)
{
    nanosleep(&(struct timespec){ .tv_nsec = 2000000 }, NULL);
}

uint32_t http_stop(struct http *h, uint64_t timeout_ns)
{
    if (!h->loops)
        return 0;
    uint64_t end = clock_ns() + timeout_ns;
    while (atomic_load(&h->answering) && clock_ns() < end)
        nap();
    uint32_t cut = atomic_load(&h->answering);
    loops_stop(h);
    return cut;
}

void http_destroy(struct http *h)
{
    if (!h)
        return;
    http_stop(h, 0);
    begin_pool_destroy(h->begin);
    listener_close(&h->listener);
    pthread_mutex_destroy(&h->conns_lock);
    metrics_destroy(h->metrics);
    budget_destroy(h->budget);
    auth_destroy(h->auth);
    tls_close(h->tls);
    free(h);
}

uint64_t http_owner_name(void *user, uint64_t owner)
{
    const struct http *h = user;
    return h->o.behind_router && owner ? owner : auth_name(h->auth, owner); /* a router sends names */
}
