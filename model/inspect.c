#include "model/inspect.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <utf8proc.h>

#include "base/ckd.h"
#include "base/json.h"
#include "model/model.h"

typedef unsigned long long ull;

/* --- text ------------------------------------------------------------------------------------------------------- */

/* What could move the cursor, turn the writing direction or hide itself. */
static bool is_harmful(utf8proc_int32_t c)
{
    return c < 0x20 || (c >= 0x7f && c < 0xa0) || (c >= 0x200b && c <= 0x200f) ||
           (c >= 0x2028 && c <= 0x202e) || (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* A printable copy of at most `max` input bytes, to be freed; NULL: no memory. */
static char *escaped(struct gguf_str s, uint64_t max)
{
    uint64_t n = MIN(s.len, max);
    char *out = malloc(4 * n + 4), *p = out;
    if (!out)
        return NULL;
    for (uint64_t i = 0; i < n;) {
        utf8proc_int32_t c;
        utf8proc_ssize_t len =
            utf8proc_iterate((const utf8proc_uint8_t *)s.s + i, (utf8proc_ssize_t)(n - i), &c);
        bool bad = len <= 0 || is_harmful(c);
        len = len <= 0 ? 1 : len;
        for (utf8proc_ssize_t k = 0; k < len; k++, i++) {
            if (bad)
                p += sprintf(p, "\\x%02x", (uint8_t)s.s[i]);
            else
                *p++ = s.s[i];
        }
    }
    strcpy(p, n < s.len ? "..." : "");
    return out;
}

static struct gguf_str cstr(const char *s)
{
    return (struct gguf_str){s, strlen(s)};
}

static void print_escaped(FILE *f, struct gguf_str s, uint64_t max)
{
    char *t = escaped(s, max);
    fputs(t ? t : "?", f);
    free(t);
}

static void print_bytes(FILE *f, uint64_t n)
{
    static const char *const unit[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
    double v = (double)n;
    size_t u = 0;
    for (; v >= 1024 && u + 1 < ARRAY_LEN(unit); u++)
        v /= 1024;
    fprintf(f, u ? "%.2f %s" : "%.0f %s", v, unit[u]);
}

/* --- what there is to say --------------------------------------------------------------------------------------- */

struct type_use {
    uint64_t n_tensors, n_elems, bytes;
};

/* min and max over the attention layers; equal when the layers are alike. */
struct range {
    uint32_t lo, hi;
};

struct summary {
    const struct gguf *g;
    struct model *m; /* NULL: see why_not */
    struct err why_not;
    struct gguf_str arch, name, tok_model, tok_pre, chat_template; /* .s NULL: absent */
    uint64_t n_tokens;
    struct type_use use[QT_LIMIT];
    uint64_t n_elems, tensor_bytes;
    uint32_t n_attn, n_gdn, n_window, window;
    struct range n_head, n_head_kv, head_dim, n_ff, n_ff_exp, n_used;
    uint64_t kv_bytes; /* a position of the whole cache, f16 */
    uint64_t gdn_state_bytes;
};

static void widen(struct range *r, uint32_t v)
{
    r->lo = r->hi ? MIN(r->lo, v) : v;
    r->hi = MAX(r->hi, v);
}

static struct gguf_str get_str(const struct gguf *g, const char *key)
{
    struct gguf_str s = {0};
    const struct gguf_kv *kv = gguf_find(g, key);
    if (kv && kv->type == GGUF_STR)
        gguf_kv_str(kv, 0, &s);
    return s;
}

static void sum_layers(struct summary *s)
{
    const struct model *m = s->m;
    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        widen(&s->n_ff, l->n_ff);
        widen(&s->n_ff_exp, l->n_ff_exp);
        widen(&s->n_used, l->n_expert_used);
        if (l->kind == LAYER_GDN) {
            s->n_gdn++;
            continue;
        }
        s->n_attn++;
        s->n_window += l->window != 0;
        s->window = MAX(s->window, l->window);
        widen(&s->n_head, l->n_head);
        widen(&s->n_head_kv, l->n_head_kv);
        widen(&s->head_dim, l->head_dim);
        if (l->kv_from == il)
            s->kv_bytes += 2 * 2 * (uint64_t)l->n_head_kv * l->head_dim;
    }
    uint64_t conv = (2 * (uint64_t)m->gdn_n_k + m->gdn_n_v) * m->gdn_head_dim;
    if (s->n_gdn)
        s->gdn_state_bytes =
            4ull * s->n_gdn *
            ((m->gdn_conv_kernel - 1) * conv + (uint64_t)m->gdn_n_v * m->gdn_head_dim * m->gdn_head_dim);
}

static void summarise(struct summary *s, const struct gguf *g)
{
    *s = (struct summary){.g = g};
    s->arch = get_str(g, "general.architecture");
    s->name = get_str(g, "general.name");
    s->tok_model = get_str(g, "tokenizer.ggml.model");
    s->tok_pre = get_str(g, "tokenizer.ggml.pre");
    s->chat_template = get_str(g, "tokenizer.chat_template");
    const struct gguf_kv *tokens = gguf_find(g, "tokenizer.ggml.tokens");
    s->n_tokens = tokens && tokens->type == GGUF_ARR ? tokens->n : 0;
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        uint64_t elems = t->ne[0] * t->ne[1] * t->ne[2] * t->ne[3];
        s->use[t->type].n_tensors++;
        s->use[t->type].n_elems += elems;
        s->use[t->type].bytes += t->bytes;
        s->n_elems += elems;
        s->tensor_bytes += t->bytes;
    }
    if (model_read(g, &s->m, &s->why_not) == 0)
        sum_layers(s);
}

/* --- for people ------------------------------------------------------------------------------------------------- */

static void label(FILE *f, const char *text)
{
    fprintf(f, "%-14s", text);
}

static void print_range(FILE *f, struct range r, const char *unit)
{
    if (r.lo == r.hi)
        fprintf(f, "%u%s", r.hi, unit);
    else
        fprintf(f, "%u to %u%s", r.lo, r.hi, unit);
}

static void print_layers(FILE *f, const struct summary *s)
{
    const struct model *m = s->m;
    label(f, "layers");
    fprintf(f, "%u", m->n_layer);
    if (s->n_gdn)
        fprintf(f, ", %u attention and %u gated DeltaNet", s->n_attn, s->n_gdn);
    if (s->n_window)
        fprintf(f, ", %u with a sliding window of %u", s->n_window, s->window);
    if (m->n_nextn)
        fprintf(f, "; %u more for multi-token prediction, not used", m->n_nextn);
    fputc('\n', f);
}

static void print_shapes(FILE *f, const struct summary *s)
{
    const struct model *m = s->m;
    print_layers(f, s);
    label(f, "width");
    fprintf(f, "%u", m->n_embd);
    if (s->n_ff.hi) {
        fputs(", FFN ", f);
        print_range(f, s->n_ff, "");
    }
    fputc('\n', f);
    if (s->n_attn) {
        label(f, "attention");
        print_range(f, s->n_head, " heads, ");
        print_range(f, s->n_head_kv, " KV heads, head size ");
        print_range(f, s->head_dim, "\n");
    }
    if (s->n_gdn) {
        label(f, "DeltaNet");
        fprintf(f, "%u key heads, %u value heads, head size %u, convolution over %u; state ", m->gdn_n_k,
                m->gdn_n_v, m->gdn_head_dim, m->gdn_conv_kernel);
        print_bytes(f, s->gdn_state_bytes);
        fputs(" a sequence\n", f);
    }
    if (m->n_expert) {
        label(f, "experts");
        fprintf(f, "%u, ", m->n_expert);
        print_range(f, s->n_used, " used, FFN ");
        print_range(f, s->n_ff_exp, "");
        if (m->n_ff_shexp)
            fprintf(f, ", shared expert %u", m->n_ff_shexp);
        fputc('\n', f);
    }
    label(f, "context");
    fprintf(f, "%u; KV cache ", m->n_ctx_train);
    print_bytes(f, s->kv_bytes);
    fputs(" a token at f16\n", f);
    if (m->pooling == POOLING_RANK) {
        label(f, "purpose");
        fprintf(f, "ranking documents (pooling_type rank)%s\n", m->cls ? "" : "; but there is no tensor cls.output.weight");
    } else if (m->pooling != POOLING_NONE) {
        label(f, "purpose");
        fprintf(f, "embeddings (pooling_type %s)\n", model_pooling_name(m->pooling));
    }
}

static void print_vocab(FILE *f, const struct summary *s)
{
    label(f, "vocabulary");
    if (!s->n_tokens) {
        fprintf(f, "none in the file (%u token ids)\n", s->m ? s->m->n_vocab : 0);
    } else {
        fprintf(f, "%llu tokens, ", (ull)s->n_tokens);
        print_escaped(f, s->tok_model.s ? s->tok_model : cstr("no tokenizer"), 60);
        if (s->tok_pre.s) {
            fputs(" / ", f);
            print_escaped(f, s->tok_pre, 60);
        }
        fputc('\n', f);
    }
    label(f, "chat template");
    if (s->chat_template.s)
        fprintf(f, "yes, %llu bytes\n", (ull)s->chat_template.len);
    else
        fputs("no\n", f);
}

static void print_types(FILE *f, const struct summary *s)
{
    const char *head = "types";
    for (int t = 0; t < QT_LIMIT; t++) {
        if (!s->use[t].n_tensors)
            continue;
        label(f, head);
        fprintf(f, "%-7s %6llu tensors  ", qtype_name((enum qtype)t), (ull)s->use[t].n_tensors);
        print_bytes(f, s->use[t].bytes);
        fputc('\n', f);
        head = "";
    }
    if (s->n_elems) {
        label(f, "bits");
        fprintf(f, "%.2f a weight\n", 8.0 * (double)s->tensor_bytes / (double)s->n_elems);
    }
}

static void print_tensors(FILE *f, const struct gguf *g)
{
    fprintf(f, "\n%-7s %12s  %-30s %s\n", "type", "bytes", "shape", "tensor");
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        char shape[96];
        int n = 0;
        for (uint32_t d = 0; d < t->n_dims; d++)
            n += snprintf(shape + n, sizeof shape - (size_t)n, "%s%llu", d ? " x " : "", (ull)t->ne[d]);
        fprintf(f, "%-7s %12llu  %-30s ", qtype_name(t->type), (ull)t->bytes, shape);
        print_escaped(f, t->name, 64);
        fputc('\n', f);
    }
}

int inspect_print(FILE *f, const struct gguf *g, bool tensors)
{
    struct summary s;
    summarise(&s, g);
    label(f, "file");
    print_escaped(f, cstr(gguf_path(g)), 4096);
    fprintf(f, " (GGUF version %u, %u file%s, ", g->version, g->n_parts, g->n_parts > 1 ? "s" : "");
    print_bytes(f, g->total_bytes);
    fputs(")\n", f);
    label(f, "model");
    print_escaped(f, s.name.s ? s.name : cstr("(no name)"), 128);
    fputs(", family ", f);
    print_escaped(f, s.arch.s ? s.arch : cstr("(none)"), 60);
    fputc('\n', f);
    if (!s.m) {
        label(f, "not runnable");
        print_escaped(f, cstr(s.why_not.msg), sizeof s.why_not.msg);
        fputc('\n', f);
    }
    label(f, "parameters");
    fprintf(f, "%llu (%.2f billion) in %llu tensors\n", (ull)s.n_elems, (double)s.n_elems * 1e-9,
            (ull)g->n_tensors);
    if (s.m)
        print_shapes(f, &s);
    print_vocab(f, &s);
    print_types(f, &s);
    if (tensors)
        print_tensors(f, g);
    model_free(s.m);
    return fflush(f) || ferror(f) ? -EIO : 0;
}

/* --- for programs ----------------------------------------------------------------------------------------------- */

static json_t *json_str(struct gguf_str s)
{
    char *t = escaped(s, UINT64_MAX / 8);
    json_t *j = t ? json_string(t) : NULL;
    free(t);
    return j;
}

static void set_str(json_t *o, const char *key, struct gguf_str s)
{
    if (s.s)
        json_object_set_new(o, key, json_str(s));
}

static void set_u64(json_t *o, const char *key, uint64_t v)
{
    json_object_set_new(o, key, json_integer((json_int_t)v));
}

static void set_range(json_t *o, const char *key, struct range r)
{
    if (r.lo == r.hi)
        set_u64(o, key, r.hi);
    else
        json_object_set_new(o, key, json_pack("[I, I]", (json_int_t)r.lo, (json_int_t)r.hi));
}

static json_t *json_model(const struct summary *s)
{
    const struct model *m = s->m;
    json_t *o = json_object();
    set_u64(o, "layers", m->n_layer);
    set_u64(o, "layers_attention", s->n_attn);
    set_u64(o, "layers_deltanet", s->n_gdn);
    set_u64(o, "layers_sliding", s->n_window);
    set_u64(o, "layers_nextn", m->n_nextn);
    set_u64(o, "window", s->window);
    set_u64(o, "n_embd", m->n_embd);
    set_u64(o, "n_vocab", m->n_vocab);
    set_u64(o, "context", m->n_ctx_train);
    set_range(o, "n_ff", s->n_ff);
    set_range(o, "n_head", s->n_head);
    set_range(o, "n_head_kv", s->n_head_kv);
    set_range(o, "head_dim", s->head_dim);
    set_u64(o, "kv_bytes_per_token_f16", s->kv_bytes);
    set_u64(o, "parameters_used", m->n_params);
    if (m->pooling != POOLING_NONE)
        json_object_set_new(o, "pooling", json_string(model_pooling_name(m->pooling)));
    json_object_set_new(o, "tied_output", json_boolean(m->output == m->token_embd));
    if (m->n_expert) {
        set_u64(o, "experts", m->n_expert);
        set_range(o, "experts_used", s->n_used);
        set_range(o, "n_ff_expert", s->n_ff_exp);
        set_u64(o, "n_ff_shared_expert", m->n_ff_shexp);
    }
    if (s->n_gdn) {
        set_u64(o, "deltanet_key_heads", m->gdn_n_k);
        set_u64(o, "deltanet_value_heads", m->gdn_n_v);
        set_u64(o, "deltanet_head_dim", m->gdn_head_dim);
        set_u64(o, "deltanet_state_bytes", s->gdn_state_bytes);
    }
    return o;
}

static json_t *json_types(const struct summary *s)
{
    json_t *o = json_object();
    for (int t = 0; t < QT_LIMIT; t++)
        if (s->use[t].n_tensors)
            json_object_set_new(o, qtype_name((enum qtype)t),
                                json_pack("{s:I, s:I, s:I}", "tensors", (json_int_t)s->use[t].n_tensors,
                                          "elements", (json_int_t)s->use[t].n_elems, "bytes",
                                          (json_int_t)s->use[t].bytes));
    return o;
}

static json_t *json_tensors(const struct gguf *g)
{
    json_t *a = json_array();
    for (uint64_t i = 0; i < g->n_tensors; i++) {
        const struct gguf_tensor *t = &g->tensors[i];
        json_t *o = json_object(), *ne = json_array();
        set_str(o, "name", t->name);
        json_object_set_new(o, "type", json_string(qtype_name(t->type)));
        for (uint32_t d = 0; d < t->n_dims; d++)
            json_array_append_new(ne, json_integer((json_int_t)t->ne[d]));
        json_object_set_new(o, "shape", ne);
        set_u64(o, "bytes", t->bytes);
        set_u64(o, "part", t->part);
        set_u64(o, "offset", t->file_off);
        json_array_append_new(a, o);
    }
    return a;
}

int inspect_json(FILE *f, const struct gguf *g, bool tensors)
{
    struct summary s;
    summarise(&s, g);
    json_t *o = json_object();
    set_str(o, "file", cstr(gguf_path(g)));
    set_u64(o, "version", g->version);
    set_u64(o, "files", g->n_parts);
    set_u64(o, "bytes", g->total_bytes);
    set_str(o, "architecture", s.arch);
    set_str(o, "name", s.name);
    json_object_set_new(o, "runs", json_boolean(s.m != NULL));
    if (s.m)
        json_object_set_new(o, "model", json_model(&s));
    else
        set_str(o, "why_not", cstr(s.why_not.msg));
    set_u64(o, "n_tensors", g->n_tensors);
    set_u64(o, "parameters", s.n_elems);
    if (s.n_tokens)
        set_u64(o, "tokens", s.n_tokens);
    set_str(o, "tokenizer", s.tok_model);
    set_str(o, "pre_tokenizer", s.tok_pre);
    json_object_set_new(o, "chat_template", json_boolean(s.chat_template.s != NULL));
    json_object_set_new(o, "types", json_types(&s));
    if (tensors)
        json_object_set_new(o, "tensors", json_tensors(g));
    model_free(s.m);
    return json_print(f, o, JSON_INDENT(2) | JSON_REAL_PRECISION(9));
}
