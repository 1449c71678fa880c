#include "engine/engine.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <xxhash.h>

#include "base/check.h"
#include "base/ckd.h"
#include "base/clock.h"
#include "base/env.h"
#include "base/log.h"
#include "engine/grammar/grammar.h"
#include "engine/plan_trial.h"
#include "engine/priv.h"
#include "model/recut.h"
#include "model/rope.h"
#include "model/tok.h"

enum { DECODE_ROWS = ENGINE_MAX_BATCH, DEFAULT_CTX = 4096, DEFAULT_CHUNK = 512, DEFAULT_OUT = 8 };

static int set_word(struct engine_spec *sp, const char *word, size_t n, struct err *e)
{
    static const struct {
        const char *word;
        int what;
    } words[] = { { "exact", 0 }, { "check", 1 }, { "nofuse", 2 }, { "replay", 3 }, { "persistent", 4 },
                  { "auto", 5 }, { "sm90", 6 } };
    enum ka_kv kv = stream_kv_find(word, n);
    if (kv != KA_KV_COUNT) {
        sp->kv = kv;
        return 0;
    }
    for (size_t i = 0; i < ARRAY_LEN(words); i++) {
        if (strlen(words[i].word) != n || memcmp(words[i].word, word, n) != 0)
            continue;
        switch (words[i].what) {
        case 0: sp->exact = true; break;
        case 1: sp->check = true; break;
        case 2: sp->no_fuse = true; break;
        case 3: sp->plan = PLAN_REPLAY; break;
        case 4: sp->plan = PLAN_PERSISTENT; break;
        case 5: sp->plan = PLAN_AUTO; break;
        case 6: sp->target = "sm90"; break;
        }
        return 0;
    }
    if (n > 4 && n < 8 && memcmp(word, "edge", 4) == 0 && strspn(word + 4, "0123456789") >= n - 4) {
        sp->kv_edge = (uint32_t)strtoul(word + 4, NULL, 10);
        return 0;
    }
    if (n && strspn(word, "0123456789") >= n)
        return err_set(e, -EINVAL, "engine: a tier's device is not a word of it (--device %.*s, or --device-name)", (int)n, word);
    return err_set(e, -EINVAL, "engine: '%.*s' is not a word of a tier (exact, check, nofuse, replay, persistent, "
                   "sm90, " ENGINE_KV_TYPES ", edgeN)", (int)n, word);
}

int engine_parse_spec(const struct engine_opts *o, struct engine_spec *sp, struct err *e)
{
    *sp = (struct engine_spec){ .exact = o->exact, .check = o->check, .no_fuse = o->no_fuse, .kv = KA_KV_F16,
                                .kv_edge = o->kv_edge };
    const char *spec = o->tier ? o->tier : env_get()->tier ? env_get()->tier : "auto";
    size_t n = strcspn(spec, ":");
    if (!n || n >= sizeof sp->tier)
        return err_set(e, -EINVAL, "engine: '%s' is not a tier (see zinc check)", spec);
    memcpy(sp->tier, spec, n);
    if (o->plan && strcmp(o->plan, "auto") != 0 && strcmp(o->plan, "replay") != 0 && strcmp(o->plan, "persistent") != 0)
        return err_set(e, -EINVAL, "engine: '%s' is not a kind of plan (auto, replay, persistent)", o->plan);
    if (o->kv && stream_kv_find(o->kv, strlen(o->kv)) == KA_KV_COUNT)
        return err_set(e, -EINVAL, "engine: '%s' is not a type for the KV cache (" ENGINE_KV_TYPES ")", o->kv);
    int rc = 0;
    if ((o->plan && (rc = set_word(sp, o->plan, strlen(o->plan), e))) ||
        (o->kv && (rc = set_word(sp, o->kv, strlen(o->kv), e))))
        return rc;
    for (spec += n; *spec == ':'; spec += n) {
        n = strcspn(++spec, ":");
        if ((rc = set_word(sp, spec, n, e)))
            return rc;
    }
    return 0;
}

/* The type that holds the most weight bytes. */
static void name_weights(struct engine *eng)
{
    uint64_t bytes[256] = { 0 };
    uint32_t best = 0;
    for (uint64_t i = 0; i < eng->gguf->n_tensors; i++) {
        uint32_t t = (uint32_t)eng->gguf->tensors[i].type & 255;
        bytes[t] += eng->gguf->tensors[i].bytes;
        best = bytes[t] > bytes[best] ? t : best;
    }
    snprintf(eng->weights_name, sizeof eng->weights_name, "%s", qtype_name((enum qtype)best));
}

static void name_model(struct engine *eng, const char *path)
{
    const char *base = strrchr(path, '/');
    base = base ? base + 1 : path;
    size_t n = strlen(base);
    if (n > 5 && strcasecmp(base + n - 5, ".gguf") == 0)
        n -= 5;
    n = MIN(n, sizeof eng->label - 1);
    for (size_t i = 0; i < n; i++)
        eng->label[i] = base[i] > ' ' && base[i] < 0x7f ? base[i] : '_'; /* one word, printable everywhere */
    eng->info.label = eng->label;
    eng->info.path = gguf_path(eng->gguf);
    eng->info.file_bytes = eng->gguf->total_bytes;
    name_weights(eng);
    eng->info.weights = eng->weights_name;
}

/* Appends the token's text and a NUL. */
static int token_text(const struct engine *eng, int32_t id, struct tok_buf *out, struct err *e)
{
    int rc = eng->tok && id >= 0 ? tok_piece(eng->tok, id, TOK_SHOW_SPECIAL, out, e) : 0;
    return rc == 0 && tok_buf_add(out, "", 1) ? err_set(e, -ENOMEM, "engine: out of memory") : rc;
}

static bool is_chatml(enum chat_format f)
{
    return f == CHAT_CHATML || f == CHAT_QWEN3 || f == CHAT_QWEN3_THINKING || f == CHAT_QWEN3_CODER || f == CHAT_QWEN35;
}

/* A template with other marks than the known formats is interpreted, and so is one that has ChatML's and says something
 * else; where that cannot be, the format that was detected stays. */
static int open_chat_template(struct engine *eng, struct err *e)
{
    static const char key[] = "tokenizer.chat_template";
    struct gguf_str text = { "", 0 };
    struct tok_buf bos = { 0 }, eos = { 0 };
    struct err why = { 0 };
    bool replaces = false;
    chat_template_detect(eng->gguf, &eng->chat);
    gguf_get_str(eng->gguf, key, &text, NULL);
    if (!text.len || !(eng->chat.guessed || is_chatml(eng->chat.format)))
        return 0;
    int rc = token_text(eng, eng->tok ? tok_bos(eng->tok) : -1, &bos, e);
    if (!rc)
        rc = token_text(eng, eng->tok ? tok_eos(eng->tok) : -1, &eos, e);
    if (!rc) {
        rc = chat_file_open(text.s, text.len, bos.s, eos.s, eng->tok && tok_add_bos(eng->tok), &eng->chat_file, &why);
        if (!rc && !(replaces = eng->chat.guessed))
            rc = chat_file_replaces(eng->chat_file, &eng->chat, &replaces, &why);
        if (rc == -ENOMEM) {
            err_set(e, rc, "%s", why.msg);
        } else if (rc) {
            if (eng->chat.guessed)
                log_warn(ENGINE, "%s: %s: %s; conversations are written in the %s format instead", gguf_path(eng->gguf), key,
                         why.msg, chat_format_info(eng->chat.format)->name);
            rc = 0;
        } else if (replaces) {
            eng->chat.file = eng->chat_file;
            eng->chat.guessed = false;
        }
    }
    tok_buf_finish(&bos);
    tok_buf_finish(&eos);
    return rc;
}

static int open_file(struct engine *eng, const char *path, struct err *e)
{
    if (!path)
        return err_set(e, -EINVAL, "engine: no model given (-m FILE)");
    int rc = gguf_open(path, &eng->gguf, e);
    if (rc)
        return rc;
    name_model(eng, path);
    if (tok_create(eng->gguf, &eng->tok, &eng->tok_err))
        log_info(ENGINE, "no text: %s", eng->tok_err.msg);
    eng->info.has_vocab = eng->tok != NULL;
    return open_chat_template(eng, e);
}

static void describe_model(struct engine *eng)
{
    const struct model *m = eng->model;
    struct engine_info *in = &eng->info;
    in->model_name = m->name;
    in->family = model_family_name(m->family);
    in->n_layer = m->n_layer;
    in->n_embd = m->n_embd;
    in->n_vocab = m->n_vocab;
    in->n_ctx_train = m->n_ctx_train;
    in->rope = eng->rope;
    in->n_params = m->n_params;
    for (uint32_t il = 0; il < m->n_layer; il++)
        in->recurrent |= m->layers[il].kind == LAYER_GDN;
}

int engine_scale_rope(struct model *m, const struct engine_opts *o, char *say, size_t n, struct err *e)
{
    uint32_t trained = m->n_ctx_train;
    say[0] = 0;
    if (!o->rope_scaling)
        return o->rope_factor > 0 ? err_set(e, -EINVAL, "engine: a rope factor without a kind of scaling (linear, yarn)") : 0;
    bool yarn = strcmp(o->rope_scaling, "yarn") == 0;
    if (!yarn && strcmp(o->rope_scaling, "linear") != 0)
        return err_set(e, -EINVAL, "engine: '%s' is not a kind of scaling (linear, yarn)", o->rope_scaling);
    if (!trained || o->n_ctx <= trained)
        return 0;
    float factor = o->rope_factor > 0 ? o->rope_factor : (float)o->n_ctx / (float)trained;
    int rc = rope_scale_model(m, yarn, factor, e);
    if (!rc)
        snprintf(say, n, "positions are scaled by %s, factor %.3g: the model was trained for a context of %u", o->rope_scaling, (double)factor,
                 trained);
    return rc;
}

uint32_t engine_default_ctx(const struct engine_opts *o, uint32_t n_ctx_train)
{
    if (o->n_ctx)
        return o->n_ctx;
    uint32_t n = MAX((uint32_t)DEFAULT_CTX, o->ctx_wanted);
    return n_ctx_train ? MIN(n, n_ctx_train) : n;
}

static const char *pooling_name(enum model_pooling p)
{
    return p == POOLING_NONE ? NULL : model_pooling_name(p);
}

/* What the model is to do, by the options and by its file. */
static int choose_pooling(struct engine *eng, const char *wanted, struct err *e)
{
    const struct model *m = eng->model;
    enum model_pooling p = POOLING_NONE;
    eng->info.made_for = pooling_name(m->pooling);
    if (wanted && strcmp(wanted, "auto") == 0)
        p = m->pooling;
    else if (wanted)
        while (p < POOLING_COUNT && (p == POOLING_NONE || strcmp(wanted, model_pooling_name(p)) != 0))
            p++;
    if (p == POOLING_COUNT)
        return err_set(e, -EINVAL, "engine: '%s' is no way to pool (auto, mean, cls, last, rank)", wanted);
    if (p == POOLING_RANK && !m->cls)
        return err_set(e, -ENOTSUP, "engine: %s: cannot rank: expected pooling_type rank and a tensor cls.output.weight, found %s "
                       "(take a GGUF file that was converted for reranking)", eng->label,
                       m->pooling == POOLING_RANK ? "no such tensor" : "no pooling_type rank");
    eng->pooling = p;
    eng->info.pooling = pooling_name(p);
    eng->info.n_vector = p == POOLING_NONE ? 0 : p == POOLING_RANK ? m->n_labels : m->n_embd;
    return 0;
}

/* Rows of the stream for decoding: one for each slot, at least 8 and at most what the tier's kernels for that take. With experts 8,
 * below so many slots as pay for more: rows that go to experts of their own gain nothing from being together (doc/speed-log.md). */
static uint32_t decode_rows(const struct engine *eng, uint32_t slots)
{
    const struct tier_info *t = &eng->tier->info;
    bool few = eng->model->n_expert && (!t->expert_slots || slots < t->expert_slots);
    return few ? (uint32_t)DECODE_ROWS : MAX(MIN(slots, engine_most_rows(eng)), (uint32_t)DECODE_ROWS);
}

uint32_t engine_most_rows(const struct engine *eng)
{
    return MAX(eng->tier->info.decode_rows, (uint32_t)DECODE_ROWS);
}

/* For decoding, for few rows of it where these are to have kernels of their own, and for a chunk of a prompt. */
static int compile_streams(struct engine *eng, const struct engine_opts *o, const struct engine_spec *sp,
                           struct err *e)
{
    if (o->stream_path) {
        int rc = stream_load(o->stream_path, &eng->decode.s, e);
        eng->prefill.s = eng->decode.s;
        if (!rc && stream_vectors(eng->decode.s, NULL))
            return err_set(e, -ENOTSUP, "engine: %s ends with vectors, a stream with logits is expected", o->stream_path);
        if (rc || stream_is_whole(eng->decode.s))
            return rc;
        const struct stream_head *h = &eng->decode.s->h;
        return err_set(e, -EINVAL, "engine: %s: layers %u:%u of %u, which cannot run alone (zinc graph --save "
                       "without --layers)", o->stream_path, h->layers_before, h->n_layer - h->layers_behind, h->n_layer);
    }
    struct graph_opts go = { .n_ctx = engine_default_ctx(o, eng->info.n_ctx_train),
                             .n_slots = o->n_slots ? o->n_slots : 1,
                             .row_cap = DECODE_ROWS,
                             .kv_type = sp->kv,
                             .kv_edge = sp->kv_edge,
                             .pooling = eng->pooling,
                             .no_fuse = sp->no_fuse };
    uint32_t suits = eng->tier->info.chunk ? eng->tier->info.chunk : (uint32_t)DEFAULT_CHUNK;
    int rc = 0;
    eng->fit[0] = 0;
    if (o->fit) {
        go.row_cap = go.out_cap = o->chunk ? o->chunk : suits;
        if ((rc = engine_fit(eng, o, &go, e)))
            return rc;
    }
    uint32_t slots = go.n_slots;
    go.row_cap = go.out_cap = decode_rows(eng, slots);
    if ((rc = graph_compile(eng->model, &go, &eng->decode.s, e)))
        return rc;
    if (o->batch_variant && eng->pooling == POOLING_NONE && eng->tier->info.by_capacity && go.row_cap > DECODE_ROWS) {
        go.row_cap = go.out_cap = DECODE_ROWS;
        if ((rc = graph_compile(eng->model, &go, &eng->decode_few.s, e)))
            return rc;
    }
    uint32_t least = engine_most_rows(eng) + eng->tier->info.by_capacity; /* never of a class for decoding */
    go.row_cap = MAX(o->chunk ? o->chunk : suits, least);
    go.row_cap = MIN(go.row_cap, MAX(align_up(go.n_ctx, 16), (uint64_t)least));
    uint32_t score = o->score_rows ? o->score_rows : o->fit && !o->n_slots ? MAX(slots, DRAFT_MOST + 1u) : (uint32_t)DEFAULT_OUT;
    go.out_cap = MIN(score, go.row_cap);
    if (eng->pooling == POOLING_MEAN)
        go.out_cap = go.row_cap;
    return graph_compile(eng->model, &go, &eng->prefill.s, e);
}

static uint64_t output_off(const struct stream *s)
{
    return s->h.logits_off ? s->h.logits_off : stream_vectors(s, NULL);
}

/* Which of longrope's tables the context chose. */
static void describe_longrope(struct engine *eng)
{
    const struct model_layer *l = eng->model->layers; /* llama's are all alike */
    uint32_t n_ctx = eng->decode.s->h.n_ctx;
    if (l->rope_long)
        snprintf(eng->rope, sizeof eng->rope, "positions turn by longrope's %s, for a context %s %u",
                 rope_divisors(l, n_ctx) == l->rope_long ? "long factors" : "short factors",
                 rope_divisors(l, n_ctx) == l->rope_long ? "beyond" : "up to", l->rope.n_ctx_orig);
}

static void describe_plan(struct engine *eng)
{
    describe_longrope(eng);
    eng->decode.out_off = output_off(eng->decode.s);
    eng->prefill.out_off = output_off(eng->prefill.s);
    eng->n_output = eng->pooling == POOLING_NONE ? eng->decode.s->h.n_vocab : eng->info.n_vector;
    const struct stream_head *d = &eng->decode.s->h, *p = &eng->prefill.s->h;
    struct engine_info *in = &eng->info;
    in->few_rows = 0;
    if (eng->decode_few.s) {
        eng->decode_few.out_off = output_off(eng->decode_few.s);
        in->few_rows = eng->decode_few.s->h.row_cap;
    }
    in->n_ctx = d->n_ctx;
    in->n_slots = d->n_slots;
    in->n_batch = MIN(d->row_cap, d->out_cap);
    if (!eng->tier->info.by_capacity)
        in->n_batch = MAX(in->n_batch, MIN(p->row_cap, p->out_cap));
    in->n_vocab = d->n_vocab;
    in->chunk = p->row_cap;
    in->n_cmds = d->n_cmds;
    in->kv = stream_kv_name(d->kv_type);
    in->weight_bytes = d->arena_bytes[ARENA_WEIGHTS];
    in->const_bytes = MAX(d->arena_bytes[ARENA_CONST], p->arena_bytes[ARENA_CONST]);
    in->kv_bytes = d->arena_bytes[ARENA_KV];
    in->state_bytes = d->arena_bytes[ARENA_STATE];
    in->scratch_bytes = MAX(d->arena_bytes[ARENA_SCRATCH], p->arena_bytes[ARENA_SCRATCH]);
    in->io_bytes = MAX(d->arena_bytes[ARENA_IO], p->arena_bytes[ARENA_IO]);
    in->recurrent |= in->state_bytes > 0;
}

static int open_tier(struct engine *eng, const struct engine_opts *o, const struct engine_spec *sp, struct err *e)
{
    struct tier_opts to = { .device = o->device_set || o->device ? o->device : -1,
                            .device_name = o->device_name,
                            .threads = o->threads ? o->threads : env_get()->threads,
                            .no_pin = o->no_pin,
                            .exact = sp->exact,
                            .check = sp->check,
                            .target = sp->target,
                            .trace = o->trace || env_get()->debug >= 3,
                            .fresh = o->fresh };
#ifdef ZINC_DEBUG_CHECKS
    to.check |= sp->plan != PLAN_PERSISTENT; /* launch by launch there would be no walk */
#endif
    int rc = tier_open(sp->tier, &to, &eng->tier, e);
    if (rc)
        return rc;
    eng->tier_opts = to;
    eng->plan = sp->plan;
    eng->plan_or_nothing = o->plan_or_nothing;
    bool has_both = eng->tier->info.persistent && !eng->tier->info.dry_run;
    snprintf(eng->plan_why, sizeof eng->plan_why, "%s",
             sp->plan == PLAN_AUTO && has_both ? "--plan persistent is the other: doc/persistent.md" : "");
    eng->info.plan_why = eng->plan_why;
    snprintf(eng->device, sizeof eng->device, "%s", eng->tier->info.device);
    snprintf(eng->why, sizeof eng->why, "%s", eng->tier->info.note);
    eng->info.tier = tier_name(eng->tier);
    eng->info.device = eng->device;
    eng->info.why = eng->why;
    eng->info.fit = eng->fit;
    eng->info.exact = sp->exact;
    eng->info.is_reference = strcmp(eng->info.tier, tier_reference()) == 0;
    eng->info.dry_run = eng->tier->info.dry_run;
    eng->info.reopens = eng->tier->info.reopens;
    eng->info.compiles = eng->tier->info.compiles;
    return 0;
}

/* A plan that the tier does not have for this stream is no reason not to run. */
static int prepare(struct engine *eng, struct engine_plan *p, struct err *e)
{
    int rc = tier_prepare(eng->tier, p->s, eng->plan, &p->native, e);
    if (rc != -ENOTSUP || eng->plan != PLAN_PERSISTENT || eng->plan_or_nothing)
        return rc;
    log_warn(ENGINE, "%s, which is taken", e->msg);
    snprintf(eng->plan_why, sizeof eng->plan_why, "%s", e->msg);
    eng->plan = PLAN_REPLAY;
    return tier_prepare(eng->tier, p->s, eng->plan, &p->native, e);
}

/* Those that have a stream of their own. */
static uint32_t own_plans(struct engine *eng, struct engine_plan *p[3])
{
    uint32_t n = 0;
    p[n++] = &eng->decode;
    if (eng->prefill.s != eng->decode.s)
        p[n++] = &eng->prefill;
    if (eng->decode_few.s)
        p[n++] = &eng->decode_few;
    return n;
}

/* Weights, arenas and plans of an open tier. */
static int load_tier(struct engine *eng, const struct progress *progress, struct err *e)
{
    struct engine_plan *p[3];
    uint64_t bytes[ARENA_COUNT] = { 0 };
    uint32_t n = own_plans(eng, p);
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t a = 0; a < ARENA_COUNT; a++)
            bytes[a] = MAX(bytes[a], p[i]->s->h.arena_bytes[a]);
    bytes[ARENA_STATE] *= 1 + eng->go_back;
    struct tier_weights w = { eng->decode.s, eng->weights };
    eng->tier->progress = progress;
    int rc = tier_load(eng->tier, &w, progress, e);
    if (!rc)
        rc = tier_alloc(eng->tier, bytes, e);
    for (uint32_t i = 0; i < n && !rc; i++)
        rc = prepare(eng, p[i], e);
    eng->tier->progress = NULL;
    if (!rc && eng->prefill.s == eng->decode.s)
        eng->prefill.native = eng->decode.native;
    return rc;
}

static int prepare_tier(struct engine *eng, const struct engine_opts *o, struct err *e)
{
    eng->weights = calloc(MAX(eng->decode.s->h.n_weights, 1), sizeof *eng->weights);
    if (!eng->weights)
        return err_set(e, -ENOMEM, "engine: out of memory");
    int rc = graph_bind_weights(eng->decode.s, eng->gguf, eng->weights, e);
    if (rc || (rc = load_tier(eng, o->progress, e)))
        return rc;
    return gguf_check_unchanged(eng->gguf, e);
}

static int alloc_host(struct engine *eng, struct err *e)
{
    uint32_t rows = MAX(eng->decode.s->h.row_cap, eng->prefill.s->h.row_cap);
    uint32_t out = MAX(eng->decode.s->h.out_cap, eng->prefill.s->h.out_cap);
    bool mapped = tier_map(eng->tier, ARENA_IO, 0) != NULL;
    eng->slots = calloc(eng->info.n_slots, sizeof *eng->slots);
    eng->rows = calloc(rows, sizeof *eng->rows);
    eng->out_row = calloc(out, sizeof *eng->out_row);
    eng->unread = calloc(out, sizeof *eng->unread);
    if (!mapped)
        eng->logits = calloc((size_t)out * eng->n_output, sizeof *eng->logits);
    if (!eng->slots || !eng->rows || !eng->out_row || !eng->unread || (!mapped && !eng->logits))
        return err_set(e, -ENOMEM, "engine: out of memory for %u rows of logits", out);
    for (uint32_t i = 0; i < out; i++)
        eng->unread[i].quiet = 1;
    return 0;
}

/* Replay was prepared; where the tier has the other kind too, --plan auto looks for the quicker one. */
static int choose_plan(struct engine *eng, const struct engine_opts *o, struct err *e)
{
    static const char *const plan_name[] = { "auto", "replay", "persistent" };
    const struct tier_info *in = &eng->tier->info;
    bool asked = o->plan && strcmp(o->plan, "auto") == 0;
    bool one_kind = !in->persistent || in->dry_run || eng->tier_opts.check || eng->tier_opts.trace;
    eng->tier->progress = o->progress;
    int rc = eng->plan == PLAN_AUTO && !one_kind && stream_chooses(eng->decode.s) ? plan_trial(eng, asked, e) : 0;
    eng->tier->progress = NULL;
    eng->info.plan = plan_name[eng->decode.native->kind];
    return rc;
}

static int start_on_tier(struct engine *eng, const struct engine_opts *o, const struct engine_spec *sp, struct err *e)
{
    int rc;
    if ((rc = open_tier(eng, o, sp, e)) || (rc = compile_streams(eng, o, sp, e)))
        return rc;
    describe_plan(eng);
    eng->go_back = o->go_back && eng->info.recurrent && eng->info.n_slots == 1;
    eng->info.state_bytes *= 1 + eng->go_back;
    if ((rc = engine_check_memory(eng, o->ignore_memory, e)) || (rc = prepare_tier(eng, o, e)) || (rc = alloc_host(eng, e)))
        return rc;
    return choose_plan(eng, o, e);
}

static void close_tier(struct engine *eng)
{
    if (eng->prefill.native != eng->decode.native)
        tier_plan_destroy(eng->prefill.native);
    tier_plan_destroy(eng->decode_few.native);
    tier_plan_destroy(eng->decode.native);
    tier_close(eng->tier);
    eng->prefill.native = eng->decode.native = eng->decode_few.native = NULL;
    eng->tier = NULL;
}

int engine_reopen(struct engine *eng, struct err *e)
{
    for (uint32_t i = 0; i < eng->info.n_slots; i++)
        CHECK(!eng->slots[i]);
    close_tier(eng);
    eng->last = (struct engine_flight){ 0 };
    int rc = tier_open(eng->info.tier, &eng->tier_opts, &eng->tier, e);
    if (rc || (rc = load_tier(eng, NULL, e)))
        return rc;
    eng->faulted = false;
    return 0;
}

/* Everything that start_on_tier made, also by halves. */
static void leave_tier(struct engine *eng)
{
    struct engine_plan *p[3];
    close_tier(eng);
    for (uint32_t i = 0, n = own_plans(eng, p); i < n; i++)
        stream_free(p[i]->s);
    free(eng->weights);
    free(eng->slots);
    free(eng->rows);
    free(eng->out_row);
    free(eng->unread);
    free(eng->logits);
    eng->prefill = eng->decode = eng->decode_few = (struct engine_plan){ 0 };
    eng->weights = NULL;
    eng->slots = NULL;
    eng->rows = NULL;
    eng->out_row = NULL;
    eng->unread = NULL;
    eng->logits = NULL;
}

/* Was it the context that was chosen here which did not fit? */
static bool may_halve(const struct engine *eng, const struct engine_opts *o)
{
    enum { MOST_HALVINGS = 4, LEAST_HALVED = 2048 };
    return o->fit && !o->n_ctx && !o->stream_path && eng->decode.s && eng->decode.s->h.n_ctx >= LEAST_HALVED &&
           eng->fit_halvings < MOST_HALVINGS;
}

static int start(struct engine *eng, const struct engine_opts *o, struct err *e)
{
    struct engine_spec sp;
    int rc;
    if ((rc = engine_parse_spec(o, &sp, e)) || (rc = recut_legacy(eng->gguf, e)) || (rc = model_read(eng->gguf, &eng->model, e)) ||
        (rc = engine_scale_rope(eng->model, o, eng->rope, sizeof eng->rope, e)))
        return rc;
    describe_model(eng);
    if ((rc = choose_pooling(eng, o->pooling, e)))
        return rc;
    if (!o->pooling && eng->info.made_for)
        log_warn(ENGINE, "%s: pooling_type %s: an embedding model (zinc embed, zinc serve), not made to generate text",
                 eng->label, eng->info.made_for);
    rc = start_on_tier(eng, o, &sp, e);
    while (rc == -ENOMEM && may_halve(eng, o)) {
        log_warn(ENGINE, "%s; trying again with half the context", e ? e->msg : "no memory");
        leave_tier(eng);
        eng->fit_halvings++;
        rc = start_on_tier(eng, o, &sp, e);
    }
    eng->fit_halvings = 0; /* of one tier */
    if ((rc == -ENOMEM || rc == -ENOTSUP || rc == -EIO) && strcmp(sp.tier, "auto") == 0 && eng->tier &&
        !eng->info.is_reference) {
        log_warn(ENGINE, "%s; running on the %s tier instead", e ? e->msg : "the best tier cannot run this model",
                 tier_reference());
        leave_tier(eng);
        snprintf(sp.tier, sizeof sp.tier, "%s", tier_reference());
        rc = start_on_tier(eng, o, &sp, e);
    }
    return rc;
}

int engine_open_vocab(const char *path, struct engine **out, struct err *e)
{
    uint64_t start_ns = clock_ns();
    struct engine *eng = calloc(1, sizeof *eng);
    if (!eng)
        return err_set(e, -ENOMEM, "engine: out of memory");
    pthread_mutex_init(&eng->vocab_lock, NULL);
    int rc = open_file(eng, path, e);
    if (rc) {
        engine_close(eng);
        return rc;
    }
    if (eng->tok)
        eng->info.n_vocab = tok_n_vocab(eng->tok);
    eng->info.load_ns = clock_ns() - start_ns;
    *out = eng;
    return 0;
}

int engine_start(struct engine *eng, const struct engine_opts *o, struct err *e)
{
    CHECK(!eng->model && !eng->tier);
    uint64_t start_ns = clock_ns();
    int rc = start(eng, o, e);
    if (rc)
        return rc;
    eng->info.load_ns += clock_ns() - start_ns;
    log_info(ENGINE, "%s on %s (%s), plan %s, %u commands, context %u", eng->label, eng->info.tier, eng->device,
             eng->info.plan, eng->info.n_cmds, eng->info.n_ctx);
    engine_debug_open(eng);
    return 0;
}

int engine_open(const struct engine_opts *o, struct engine **out, struct err *e)
{
    struct engine *eng;
    int rc = engine_open_vocab(o->path, &eng, e);
    if (rc)
        return rc;
    if ((rc = engine_start(eng, o, e))) {
        engine_close(eng);
        return rc;
    }
    *out = eng;
    return 0;
}

void engine_close(struct engine *eng)
{
    if (!eng)
        return;
    leave_tier(eng);
    tok_destroy(eng->tok);
    model_free(eng->model);
    vocab_index_destroy(eng->vocab);
    chat_file_close(eng->chat_file);
    gguf_close(eng->gguf);
    pthread_mutex_destroy(&eng->vocab_lock);
    free(eng);
}

const struct engine_info *engine_info(const struct engine *eng)
{
    return &eng->info;
}

struct engine_stats engine_stats(const struct engine *eng)
{
    const struct tier_stats *t = &eng->tier->stats;
    return (struct engine_stats){ t->steps, t->rows, t->busy_ns, t->bytes, t->flops, t->host_ns, t->words, t->host_bytes };
}

uint32_t engine_fingerprint(const struct engine *eng, const float *logits)
{
    return XXH32(logits, (size_t)eng->info.n_vocab * sizeof *logits, 0);
}
