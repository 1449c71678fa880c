/* What is asked of a router: lists of its models, and for which of them a request is. */
#ifdef ZINC_CURL
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/ckd.h"
#include "base/clock.h"
#include "server/router/router_impl.h"

enum { MOST_WAITING = 1024 };

const char *model_state_name(const struct model *m)
{
    static const char *const names[] = { [MODEL_OFF] = "waiting for a place", [MODEL_LOADING] = "being loaded", [MODEL_READY] = "about to answer",
                                         [MODEL_ENDING] = "ending", [MODEL_FAILED] = "failed" };
    return names[m->state];
}

/* As /v1/models tells it: llama.cpp's router has the same words (ggml-org/llama.cpp, tools/server/README.md, "router mode"). */
static const char *status_word(const struct model *m)
{
    return m->state == MODEL_LOADING ? "loading" : m->state == MODEL_READY ? "loaded" : "unloaded";
}

/* ---- paths ---- */

static const char *plain(const char *path)
{
    return strncmp(path, "/v1/", 4) == 0 ? path + 3 : path;
}

/* Those that a server of one model does not have. */
static bool is_own(const char *path, const char **label)
{
    static const char *const own[] = { "/models/load", "/models/unload" };
    for (size_t i = 0; i < ARRAY_LEN(own); i++)
        if (strcmp(path, own[i]) == 0) {
            *label = own[i];
            return true;
        }
    return false;
}

unsigned router_methods(const char *path, const char **label)
{
    const char *name;
    if (is_own(path, &name)) {
        if (label)
            *label = name;
        return API_POST;
    }
    if (strcmp(path, "/metrics") == 0) { /* of one model */
        if (label)
            *label = "/metrics";
        return API_GET;
    }
    return api_methods(path, label);
}

static struct model *find(struct router *r, const char *name)
{
    for (uint32_t i = 0; i < r->o.n_models; i++) /* names before patterns */
        if (strcmp(r->m[i].o->name, name) == 0)
            return &r->m[i];
    for (uint32_t i = 0; *name && i < r->o.n_models; i++)
        if (api_names_has(r->m[i].names, name))
            return &r->m[i];
    return NULL;
}

/* ---- lists ---- */

static void put(struct out *o, const char *name, const char *value)
{
    out_text(o, name);
    out_string(o, value ? value : "", value ? strlen(value) : 0);
}

static void put_int(struct out *o, const char *name, uint64_t v)
{
    out_text(o, name);
    out_int(o, (int64_t)v);
}

static void put_model(const struct model *m, const char *id, struct out *o)
{
    put(o, "{\"id\":", id);
    out_text(o, ",\"object\":\"model\",\"created\":0,\"owned_by\":\"zinc\"");
    put(o, ",\"status\":{\"value\":", status_word(m));
    out_text(o, m->state == MODEL_FAILED ? ",\"failed\":true" : ",\"failed\":false");
    if (m->state == MODEL_FAILED)
        put(o, ",\"message\":", m->why);
    put_int(o, ",\"running\":", m->n_running);
    out_text(o, "}");
    if (m->o->n_ctx_train)
        put_int(o, ",\"context_length\":", m->o->n_ctx_train);
    put_int(o, ",\"meta\":{\"size\":", m->o->bytes);
    put_int(o, ",\"n_params\":", m->o->n_params);
    put_int(o, ",\"n_ctx_train\":", m->o->n_ctx_train);
    out_text(o, "}}");
}

static void put_models(const struct router *r, struct out *o)
{
    out_text(o, "{\"object\":\"list\",\"data\":[");
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        const struct model *m = &r->m[i];
        out_text(o, i ? "," : "");
        put_model(m, m->o->name, o);
        for (uint32_t k = 0; k < m->o->n_aliases; k++) {
            if (strchr(m->o->aliases[k], '*')) /* a pattern names no model */
                continue;
            out_text(o, ",");
            put_model(m, m->o->aliases[k], o);
        }
    }
    out_text(o, "]}");
}

static void put_details(const struct model *m, struct out *o)
{
    char size[32] = "";
    bool billions = m->o->n_params >= 1000000000;
    if (m->o->n_params)
        snprintf(size, sizeof size, "%.1f%c", (double)m->o->n_params / (billions ? 1e9 : 1e6), billions ? 'B' : 'M');
    out_text(o, "\"details\":{\"parent_model\":\"\",\"format\":\"gguf\"");
    put(o, ",\"family\":", m->o->family);
    put(o, ",\"families\":[", m->o->family);
    put(o, "],\"parameter_size\":", size);
    put(o, ",\"quantization_level\":", m->o->weights);
    out_text(o, "}");
}

/* Ollama's lists; loaded: those that are alone. */
static void put_tags(const struct router *r, bool loaded, struct out *o)
{
    bool first = true;
    out_text(o, "{\"models\":[");
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        const struct model *m = &r->m[i];
        if (loaded && m->state != MODEL_READY)
            continue;
        out_text(o, first ? "" : ",");
        first = false;
        put(o, "{\"name\":", m->o->name);
        put(o, ",\"model\":", m->o->name);
        put_int(o, ",\"size\":", m->o->bytes);
        put(o, loaded ? ",\"expires_at\":" : ",\"modified_at\":", loaded ? "9999-12-31T23:59:59Z" : "2000-01-01T00:00:00Z");
        if (loaded)
            put_int(o, ",\"size_vram\":", m->o->bytes);
        out_text(o, ",");
        put_details(m, o);
        out_text(o, "}");
    }
    out_text(o, "]}");
}

/* Clients ask this of every model in their list, so none is loaded for it. */
static void put_show(const struct model *m, struct out *o)
{
    const char *family = m->o->family ? m->o->family : "";
    out_text(o, "{\"license\":\"\",\"modelfile\":\"\",\"parameters\":\"\",\"template\":\"\",");
    put_details(m, o);
    put(o, ",\"model_info\":{\"general.architecture\":", family);
    put_int(o, ",\"general.parameter_count\":", m->o->n_params);
    out_text(o, ",\"");
    out_escaped(o, family, strlen(family));
    put_int(o, ".context_length\":", m->o->n_ctx_train);
    out_text(o, "},\"modified_at\":\"2000-01-01T00:00:00Z\",\"capabilities\":[");
    out_text(o, m->o->pools ? "\"embedding\"" : m->o->chats ? "\"completion\",\"tools\"" : "\"completion\"");
    out_text(o, "]}");
}

/* ---- requests ---- */

static void list_names(const struct router *r, char *out, size_t cap)
{
    size_t n = 0;
    out[0] = 0;
    for (uint32_t i = 0; i < r->o.n_models && n + 60 < cap; i++)
        n += (size_t)snprintf(out + n, cap - n, "%s%.48s", i ? ", " : "", r->m[i].o->name);
    if (n + 60 >= cap)
        snprintf(out + MIN(n, cap - 6), 6, ", ...");
}

/* The one that is meant where the request names none: the only one, or for what is only looked at the only one loaded. */
static struct model *unnamed(struct router *r, const char *method)
{
    struct model *one = NULL;
    if (r->o.n_models == 1)
        return &r->m[0];
    for (uint32_t i = 0; strcmp(method, "POST") != 0 && i < r->o.n_models; i++) {
        if (r->m[i].state != MODEL_READY)
            continue;
        if (one)
            return NULL;
        one = &r->m[i];
    }
    return one;
}

/* Whose request it is: f->m, or an answer. */
static bool choose(struct forward *f, const struct api_call *c, struct pick *p)
{
    char names[400];
    pick_read(c->body, c->n_body, p);
    if (!p->model[0])
        pick_query(c->query, p->model);
    list_names(f->r, names, sizeof names);
    f->m = p->model[0] ? find(f->r, p->model) : unnamed(f->r, c->method);
    if (f->m)
        return true;
    if (p->model[0])
        forward_fail(f, 404, "model_not_found", "there is no model '%.150s', this server has %s", p->model, names);
    else
        forward_fail(f, 400, "missing_field", "the request has no 'model', and this server has several: %s", names);
    return false;
}

/* Answers what needs no process; false: it needs one. */
static bool answer_here(struct forward *f, const struct api_call *c)
{
    struct router *r = f->r;
    const char *path = plain(c->path);
    struct pick p;
    if (strcmp(path, "/models") == 0)
        put_models(r, &f->out);
    else if (strcmp(path, "/api/tags") == 0 || strcmp(path, "/api/ps") == 0)
        put_tags(r, strcmp(path, "/api/ps") == 0, &f->out);
    else if (strcmp(path, "/api/version") == 0)
        out_text(&f->out, "{\"version\":\"" API_OLLAMA_VERSION "\"}");
    else if (strcmp(path, "/api/show") == 0) {
        if (!choose(f, c, &p))
            return true;
        put_show(f->m, &f->out);
        f->m = NULL;
    } else if (strncmp(path, "/models/", 8) == 0 && strcmp(c->method, "GET") == 0) {
        const struct model *m = find(r, path + 8);
        if (!m) {
            forward_fail(f, 404, "model_not_found", "there is no model '%.150s': /v1/models lists them", path + 8);
            return true;
        }
        put_model(m, path + 8, &f->out);
    } else if (strcmp(path, "/models/unload") == 0) {
        if (!choose(f, c, &p))
            return true;
        f->m->unload = f->m->state == MODEL_READY || f->m->state == MODEL_LOADING;
        f->m = NULL;
        out_text(&f->out, "{\"success\":true}");
    } else {
        f->load_only = strcmp(path, "/models/load") == 0;
        return false;
    }
    forward_answer(f, 200);
    return true;
}

/* http://zinc/PATH?QUERY, what is not plain as %XX. */
static char *make_url(const struct api_call *c)
{
    static const char as_is[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~/";
    size_t cap = 3 * strlen(c->path) + (c->query ? strlen(c->query) : 0) + 32, n = 0;
    char *url = malloc(cap);
    if (!url)
        return NULL;
    n = (size_t)snprintf(url, cap, "http://zinc");
    for (const char *s = c->path; *s; s++)
        n += (size_t)(strchr(as_is, *s) ? snprintf(url + n, cap - n, "%c", *s) : snprintf(url + n, cap - n, "%%%02X", (unsigned char)*s));
    if (c->query && *c->query)
        snprintf(url + n, cap - n, "?%s", c->query);
    return url;
}

static bool is_one_of(const char *path, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(path, list[i]) == 0)
            return true;
    return false;
}

/* Takes what of the call the process is to get. */
static int take(struct forward *f, const struct api_call *c)
{
    uint64_t owner = c->owner && f->r->o.owner_name ? f->r->o.owner_name(f->r->o.user, c->owner) : c->owner, held = sizeof *f + c->n_body;
    int rc = budget_take(f->r->o.budget, held);
    if (rc)
        return rc;
    f->held = held;
    f->url = make_url(c);
    f->body = malloc(c->n_body + 1);
    if (!f->url || !f->body ||
        asprintf(&f->from, "X-Zinc-From: %llx %llx %s", (unsigned long long)c->client, (unsigned long long)owner, c->peer && *c->peer ? c->peer : "unknown") < 0 ||
        asprintf(&f->id, "X-Request-Id: %s", c->id) < 0)
        return -EBUSY;
    memcpy(f->body, c->body, c->n_body);
    f->n_body = c->n_body;
    return 0;
}

/* Under the lock: gives it its place among those that wait, or an answer. */
static void enter(struct forward *f, const struct api_call *c)
{
    static const char *const with_events[] = { "/chat/completions", "/completions", "/messages", "/responses" };
    struct router *r = f->r;
    struct pick p;
    if (answer_here(f, c) || !choose(f, c, &p))
        return;
    const char *path = plain(f->path);
    f->is_events = is_one_of(path, with_events, ARRAY_LEN(with_events));
    f->anthropic = strcmp(path, "/messages") == 0;
    f->wants_stream = p.stream == 1;
    int rc = r->n_waiting >= MOST_WAITING ? -EBUSY : take(f, c);
    if (rc) {
        f->m = NULL;
        forward_fail(f, rc == -E2BIG ? 413 : 429, rc == -E2BIG ? "request_too_large" : "overloaded", "no room for more requests%s",
                     rc == -E2BIG ? " of this size (--max-memory)" : " now");
        return;
    }
    f->out.budget = f->problem.budget = r->o.budget;
    TAILQ_INSERT_TAIL(&r->waiting, f, of_list);
    r->n_waiting++;
}

void *forward_begin(void *self, const struct api_call *c)
{
    struct router *r = self;
    struct forward *f = calloc(1, sizeof *f);
    if (!f || !(f->path = strdup(c->path))) {
        free(f);
        return NULL;
    }
    f->r = r;
    f->method = strcmp(c->method, "POST") == 0 ? "POST" : strcmp(c->method, "DELETE") == 0 ? "DELETE" : "GET";
    f->began_ns = clock_ns();
    pthread_mutex_lock(&r->lock);
    enter(f, c);
    f->wake = c->wake;
    f->user = c->user;
    pthread_mutex_unlock(&r->lock);
    router_poke(r);
    return f;
}

/* ---- for operators ---- */

static char *taken(struct out *o)
{
    out_raw(o, "", 1);
    if (o->failed)
        out_finish(o);
    return o->s;
}

char *router_health(void *self)
{
    struct router *r = self;
    struct out o = { 0 };
    uint32_t loaded = 0, running = 0;
    pthread_mutex_lock(&r->lock);
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        loaded += r->m[i].state == MODEL_READY;
        running += r->m[i].n_running;
    }
    put_int(&o, "{\"status\":\"ok\",\"models\":", r->o.n_models);
    put_int(&o, ",\"loaded\":", loaded);
    put_int(&o, ",\"running\":", running);
    put_int(&o, ",\"waiting\":", r->n_waiting);
    pthread_mutex_unlock(&r->lock);
    out_text(&o, "}\n");
    return taken(&o);
}

static void put_figure(const struct router *r, struct out *o, const char *name, const char *type, const char *help,
                       uint64_t (*value)(const struct model *m))
{
    char line[300];
    snprintf(line, sizeof line, "# HELP %s %s\n# TYPE %s %s\n", name, help, name, type);
    out_text(o, line);
    for (uint32_t i = 0; i < r->o.n_models; i++) {
        out_text(o, name);
        put(o, "{model=", r->m[i].o->name);
        put_int(o, "} ", value(&r->m[i]));
        out_text(o, "\n");
    }
}

static uint64_t loaded_of(const struct model *m) { return m->state == MODEL_READY; }
static uint64_t running_of(const struct model *m) { return m->n_running; }
static uint64_t loads_of(const struct model *m) { return m->loads; }
static uint64_t failures_of(const struct model *m) { return m->failures; }
static uint64_t bytes_of(const struct model *m) { return model_is_on(m) ? memory_needs(m) : 0; }

char *router_metrics(void *self)
{
    struct router *r = self;
    struct out o = { 0 };
    pthread_mutex_lock(&r->lock);
    put_figure(r, &o, "zinc_model_loaded", "gauge", "1: its process answers", loaded_of);
    put_figure(r, &o, "zinc_model_memory_bytes", "gauge", "what it takes, on its device or of the host; while it loads: an estimate", bytes_of);
    put_figure(r, &o, "zinc_model_requests_running", "gauge", "requests that its process has", running_of);
    put_figure(r, &o, "zinc_model_loads_total", "counter", "times that its process was started", loads_of);
    put_figure(r, &o, "zinc_model_load_failures_total", "counter", "times that it could not be loaded", failures_of);
    put_int(&o, "# HELP zinc_router_requests_waiting requests whose model is not loaded yet\n# TYPE zinc_router_requests_waiting gauge\nzinc_router_requests_waiting ",
            r->n_waiting);
    pthread_mutex_unlock(&r->lock);
    out_text(&o, "\n");
    return taken(&o);
}
#endif
