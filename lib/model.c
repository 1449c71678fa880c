/* Models: opened, described, shared. */
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/env.h"
#include "engine/look.h"
#include "lib/priv.h"

const char *zinc_version(void)
{
    return ZINC_VERSION;
}

const char *zinc_tier_name(size_t i)
{
    return engine_tier_name(i);
}

/* ---- turns ---- */

void turn_take(struct turn *t)
{
    pthread_mutex_lock(&t->lock);
    uint64_t mine = t->next++;
    while (t->serving != mine)
        pthread_cond_wait(&t->next_one, &t->lock);
    pthread_mutex_unlock(&t->lock);
}

void turn_give(struct turn *t)
{
    pthread_mutex_lock(&t->lock);
    t->serving++;
    pthread_cond_broadcast(&t->next_one);
    pthread_mutex_unlock(&t->lock);
}

/* ---- scopes ---- */

static locale_t c_locale;

static void make_locale(void)
{
    c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
}

struct scope scope_enter(const zinc_model *m)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    struct scope sc = { 0 };
    pthread_once(&once, make_locale);
    sc.locale = uselocale(c_locale); /* (locale_t)0: only asks */
    sc.log = log_divert(m && m->sink.fn ? &m->sink : NULL);
    return sc;
}

void scope_leave(struct scope *sc)
{
    log_divert(sc->log);
    uselocale(sc->locale);
}

static void on_log(void *user, enum log_level l, const char *module, const char *text)
{
    const zinc_model *m = user;
    m->log(m->log_user, (int32_t)l, module, text);
}

/* ---- opening and closing ---- */

void model_use(zinc_model *m)
{
    atomic_fetch_add(&m->users, 1);
}

void zinc_model_close(zinc_model *m)
{
    if (!m || atomic_fetch_sub(&m->users, 1) != 1)
        return;
    struct scope sc = scope_enter(m);
    sched_destroy(m->sched);
    engine_close(m->eng);
    scope_leave(&sc);
    pthread_cond_destroy(&m->turn.next_one);
    pthread_mutex_destroy(&m->turn.lock);
    free(m);
}

struct load_progress {
    zinc_progress_fn fn;
    void *user;
};

static bool on_progress(void *user, const char *what, uint64_t done_, uint64_t total)
{
    const struct load_progress *p = user;
    return p->fn(p->user, what, done_, total) == 0;
}

static int check_opts(const zinc_model_opts *o, struct err *e)
{
    enum {
        KNOWN = ZINC_MODEL_VOCABULARY | ZINC_MODEL_EXACT | ZINC_MODEL_IGNORE_MEMORY | ZINC_MODEL_DEVICE |
        ZINC_MODEL_FIT | ZINC_MODEL_PIN
    };
    if (!o->path)
        return err_set(e, -EINVAL, "libzinc: zinc_model_opts.path is NULL, expected a GGUF file");
    if (o->flags & ~(uint32_t)KNOWN)
        return err_set(e, -EINVAL, "libzinc: zinc_model_opts.flags has 0x%x, which this version does not know",
                       o->flags & ~(uint32_t)KNOWN);
    if (o->reserved)
        return err_set(e, -EINVAL, "libzinc: zinc_model_opts.reserved is not 0");
    if (o->threads > INT32_MAX || o->device < 0)
        return err_set(e, -EINVAL, "libzinc: %s is out of range",
                       o->device < 0 ? "zinc_model_opts.device" : "zinc_model_opts.threads");
    return o->tier ? engine_check_tier(o->tier, e) : 0;
}

static int start(zinc_model *m, const zinc_model_opts *o, struct err *e)
{
    enum { VECTOR_SLOTS = 4 };
    struct load_progress lp = { o->progress, o->progress_user };
    struct progress p = { on_progress, &lp };
    struct sched_opts so = { 0 };
    struct engine_opts eo = { .path = o->path,
                              .tier = o->tier,
                              .plan = o->plan,
                              .kv = o->kv,
                              .kv_edge = o->kv_edge,
                              .rope_scaling = o->rope_scaling,
                              .rope_factor = o->rope_factor,
                              .device_name = o->device_name,
                              .device = o->device,
                              .device_set = o->flags & ZINC_MODEL_DEVICE,
                              .exact = o->flags & ZINC_MODEL_EXACT,
                              .ignore_memory = o->flags & ZINC_MODEL_IGNORE_MEMORY,
                              .fit = o->flags & ZINC_MODEL_FIT,
                              .n_ctx = o->context,
                              .n_slots = o->sessions  ? o->sessions
                                         : o->pooling ? (uint32_t)VECTOR_SLOTS
                                                      : 1,
                              .chunk = o->chunk,
                              .score_rows = o->pooling ? o->sessions ? o->sessions : (uint32_t)VECTOR_SLOTS : 0,
                              .pooling = o->pooling,
                              .threads = (int)o->threads,
                              .no_pin = !(o->flags & ZINC_MODEL_PIN),
                              .progress = o->progress ? &p : NULL };
    int rc = engine_open_vocab(o->path, &m->eng, e);
    if (rc || (m->vocabulary = o->flags & ZINC_MODEL_VOCABULARY))
        return rc;
    if ((rc = engine_start(m->eng, &eo, e)))
        return rc;
    return engine_info(m->eng)->pooling ? sched_create(m->eng, &so, &m->sched, e) : 0;
}

static int open_model(const zinc_model_opts *given, zinc_model **out, struct err *e)
{
    zinc_model_opts o;
    if (!given || !out)
        return err_set(e, -EINVAL, "libzinc: zinc_model_open: %s is NULL", given ? "out" : "the options");
    int rc = STRUCT_TAKE(&o, given, kv_edge, e);
    if (rc || (rc = check_opts(&o, e)))
        return rc;
    zinc_model *m = calloc(1, sizeof *m);
    if (!m)
        return err_set(e, -ENOMEM, "libzinc: out of memory");
    pthread_mutex_init(&m->turn.lock, NULL);
    pthread_cond_init(&m->turn.next_one, NULL);
    atomic_init(&m->users, 1);
    m->log = o.log;
    m->log_user = o.log_user;
    if (o.log)
        m->sink = (struct log_sink){ on_log, m, (enum log_level)MAX(MIN(o.log_level, (int32_t)LOG_DEBUG), 0) };
    env_get(); /* what it warns of is the process's, not the model's */
    struct scope sc = scope_enter(m);
    rc = start(m, &o, e);
    scope_leave(&sc);
    if (rc)
        zinc_model_close(m);
    else
        *out = m;
    return rc;
}

int zinc_model_open(const zinc_model_opts *o, zinc_model **out, zinc_error *e)
{
    struct err own = { 0 };
    return done(open_model(o, out, &own), &own, e);
}

int zinc_model_info_get(const zinc_model *m, zinc_model_info *info, zinc_error *e)
{
    struct err own = { 0 };
    bool guessed = false;
    if (!m)
        return done(err_set(&own, -EINVAL, "libzinc: zinc_model_info_get: the model is NULL"), &own, e);
    const struct engine_info *in = engine_info(m->eng);
    zinc_model_info i = { .path = in->path,
                          .label = in->label,
                          .name = in->model_name,
                          .family = in->family,
                          .weights = in->weights,
                          .tier = in->tier,
                          .plan = in->plan,
                          .device = in->device,
                          .chat_format = engine_chat_format(m->eng, &guessed),
                          .pooling = in->pooling,
                          .n_vocab = in->n_vocab,
                          .n_layer = in->n_layer,
                          .n_embd = in->n_embd,
                          .n_vector = in->n_vector,
                          .context = in->n_ctx,
                          .context_trained = in->n_ctx_train,
                          .sessions = in->n_slots,
                          .chunk = in->chunk,
                          .n_params = in->n_params,
                          .file_bytes = in->file_bytes,
                          .weight_bytes = in->weight_bytes,
                          .cache_bytes = in->kv_bytes + in->state_bytes,
                          .scratch_bytes = in->scratch_bytes + in->io_bytes + in->const_bytes,
                          .load_ns = in->load_ns,
                          .has_vocab = in->has_vocab,
                          .recurrent = in->recurrent };
    i.chat_guessed = guessed;
    return done(struct_give(&i, sizeof i, info, "info", &own), &own, e);
}
