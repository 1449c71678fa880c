#include "model/quant_mix.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/nearest.h"
#include "kernels/blocks.h"
#include "model/quant.h"

static const struct quant_recipe recipes[] = {
#define X(name, file_type, base, help) { QR_##name, QT_##base, false, file_type, #name },
    QUANT_RECIPES(X)
#undef X
};

/* The recipe whose file type a pure file carries. */
static enum quant_recipe_id recipe_of_type(enum qtype t)
{
    switch (t) {
#define QTYPE_BOOKS
#define QTYPE(NAME, name, set, id, elems, bytes, recipe, ...) case QT_##NAME: return QR_##recipe;
#include "kernels/qtypes.def"
    default: return QR_F32;
    }
}

int quant_recipe_parse(const char *name, bool pure, struct quant_recipe *out, struct err *e)
{
    for (int i = 0; !pure && i < QR_COUNT; i++)
        if (strcasecmp(name, recipes[i].name) == 0) {
            *out = recipes[i];
            return 0;
        }
    enum qtype t;
    if (quant_type_parse(name, &t, NULL) == 0) {
        *out = recipes[recipe_of_type(t)];
        out->base = t;
        out->pure = true;
        out->name = qtype_name(t);
        return 0;
    }
    static const char types[] =
#define QTYPE_BOOKS
#define QTYPE(NAME, ...) "|" #NAME
#include "kernels/qtypes.def"
        ;
    static const char names[] =
#define X(id_name, file_type, base, help) #id_name "|"
        QUANT_RECIPES(X)
#undef X
        ;
    char all[sizeof names + sizeof types], near[64];
    snprintf(all, sizeof all, "%s%s", pure ? "" : names, types + 1);
    const char *meant = nearest_word(name, all, near);
    for (char *p = all; (p = strchr(p, '|'));)
        *p = ' ';
    return err_set(e, -EINVAL, "unknown %s '%s'%s%s%s; known: %s", pure ? "type" : "type or recipe", name,
                   meant ? ": did you mean " : "", meant ? meant : "", meant ? "?" : "", all);
}

static bool ends_with(const char *s, const char *tail)
{
    size_t n = strlen(s), m = strlen(tail);
    return n >= m && strcmp(s + n - m, tail) == 0;
}

/* The tensor's role: the name without "blk.N." and ".weight". */
static bool role_is(const char *name, const char *role)
{
    size_t m = strlen(role);
    if (strncmp(name, "blk.", 4) == 0) {
        const char *dot = strchr(name + 4, '.');
        name = dot ? dot + 1 : name;
    }
    return strncmp(name, role, m) == 0 && strcmp(name + m, ".weight") == 0;
}

static bool role_in(const char *name, const char *const *roles)
{
    for (; *roles; roles++)
        if (role_is(name, *roles))
            return true;
    return false;
}

static uint32_t layer_of(const char *name)
{
    unsigned il = 0;
    return sscanf(name, "blk.%u.", &il) == 1 ? il : 0;
}

bool quant_recipe_wants_importance(const struct quant_recipe *r)
{
    return qtype_is_book(r->base) && r->base != QT_TQ1_0 && r->base != QT_TQ2_0;
}

bool quant_is_matrix(const struct quant_item *it)
{
    static const char *const kept[] = { "ffn_gate_inp", "ssm_conv1d", "per_layer_model_proj", "position_embd",
                                        "token_types", NULL };
    uint32_t dims = 0;
    for (uint32_t i = 0; i < it->n_dims && i < 4; i++)
        dims += it->ne[i] > 1;
    return dims >= 2 && ends_with(it->name, ".weight") && !ends_with(it->name, "_norm.weight") &&
           !role_in(it->name, kept) && !strstr(it->name, "altup") && !strstr(it->name, "laurel");
}

enum qtype quant_fallback(enum qtype want, uint64_t ne0)
{
    if (ne0 % qtype_block(want) == 0)
        return want;
    if (ne0 % QK)
        return QT_F16;
    switch (want) {
#define QTYPE_BOOKS
#define QTYPE_BLOCK(NAME, name, set, id, elems, bytes, recipe, stand_in, ...) case QT_##NAME: return QT_##stand_in;
#include "kernels/qtypes.def"
    default: return QT_IQ4_NL;
    }
}

/* The layers that a "_M" recipe gives more bits: the first and the last eighth, and every third between. */
static bool more_bits(uint32_t i, uint32_t n)
{
    return i < n / 8 || i >= 7 * n / 8 || (i - n / 8) % 3 == 2;
}

struct mix_state {
    const struct quant_recipe *r;
    const struct quant_shape *s;
    uint32_t n_v; /* tensors attn_v and attn_qkv together */
};

static bool grouped(const struct mix_state *m)
{
    return m->s->n_head_kv && m->s->n_head / m->s->n_head_kv >= 4;
}

static enum qtype type_of_attn_v(const struct mix_state *m, uint32_t i)
{
    enum qtype t = m->r->base;
    switch (m->r->id) {
    case QR_Q4_K_M:
    case QR_Q5_K_M: t = more_bits(i, m->n_v) ? QT_Q6_K : t; break;
    case QR_Q4_K_S: t = i < 4 ? QT_Q5_K : t; break;
    case QR_Q3_K_L: t = QT_Q5_K; break;
    case QR_Q3_K_M: t = i < 2 ? QT_Q5_K : QT_Q4_K; break;
    case QR_Q2_K: t = grouped(m) ? QT_Q4_K : QT_Q3_K; break;
    case QR_IQ3_M: t = QT_Q4_K; break;
    case QR_IQ3_XXS: t = grouped(m) ? QT_Q4_K : m->s->importance ? t : QT_IQ3_S; break;
    case QR_Q2_K_S:
    case QR_IQ3_XS:
    case QR_IQ3_S: t = grouped(m) ? QT_Q4_K : t; break;
    case QR_IQ4_NL:
    case QR_IQ4_XS: t = grouped(m) ? QT_Q5_K : t; break;
    default: break;
    }
    bool is_70b = strcmp(m->s->arch, "llama") == 0 && m->s->n_layer == 80;
    return is_70b && (t == QT_Q3_K || t == QT_Q4_K) ? QT_Q5_K : t;
}

static enum qtype type_of_ffn_down(const struct mix_state *m, uint32_t il)
{
    uint32_t n = m->s->n_layer;
    enum qtype t = m->r->base;
    bool early = il < n / 8;
    switch (m->r->id) {
    case QR_Q4_K_M:
    case QR_Q5_K_M: return more_bits(il, n) ? QT_Q6_K : t;
    case QR_Q4_K_S: return early ? QT_Q5_K : t;
    case QR_IQ4_NL:
    case QR_IQ4_XS: return early && !m->s->importance ? QT_Q5_K : t;
    case QR_Q3_K_L: return QT_Q5_K;
    case QR_Q3_K_M: return il < n / 16 ? QT_Q5_K : QT_Q4_K;
    case QR_Q2_K: return QT_Q3_K;
    case QR_Q2_K_S: return early ? QT_Q4_K : t;
    case QR_IQ3_M: return early || (m->s->n_expert == 8 && more_bits(il, n)) ? QT_Q4_K : t;
    case QR_IQ3_XXS: return m->s->importance ? t : early ? QT_Q4_K : QT_Q3_K;
    case QR_Q4_0: return early && m->s->importance ? QT_Q4_1 : t;
    case QR_Q5_0: return early && m->s->importance ? QT_Q5_1 : t;
    default: return t;
    }
}

static enum qtype type_of_attn_output(const struct mix_state *m)
{
    switch (m->r->id) {
    case QR_Q2_K: return QT_Q3_K;
    case QR_Q3_K_M:
    case QR_IQ3_M: return QT_Q4_K;
    case QR_Q3_K_L: return QT_Q5_K;
    case QR_IQ3_XXS: return QT_IQ3_S;
    default: return m->r->base;
    }
}

/* Recipes below three bits: what counts most keeps two to four. */
static bool is_low(enum quant_recipe_id id)
{
    return id == QR_IQ2_XXS || id == QR_IQ2_XS || id == QR_IQ2_S || id == QR_IQ2_M || id == QR_IQ1_S || id == QR_IQ1_M;
}

static enum qtype type_low(const struct mix_state *m, const char *name, bool is_v, bool is_down)
{
    bool two = m->r->id == QR_IQ2_S || m->r->id == QR_IQ2_M, one = m->r->id == QR_IQ1_S || m->r->id == QR_IQ1_M;
    enum qtype better = two ? QT_IQ3_S : QT_Q2_K;
    if (is_v)
        return grouped(m) || m->s->n_expert >= 4 ? QT_Q4_K : better;
    if (m->s->n_expert == 8 && role_is(name, "attn_k"))
        return QT_Q4_K;
    if (is_down)
        return layer_of(name) < m->s->n_layer / 8 ? better : m->r->base;
    if (role_is(name, "attn_output"))
        return m->s->n_expert == 8 ? QT_Q5_K : one ? QT_IQ2_XXS : two ? QT_IQ3_S : m->r->base;
    return m->r->base;
}

static enum qtype type_of_embedding(const struct quant_recipe *r)
{
    switch (r->id) {
    case QR_IQ2_XXS:
    case QR_IQ2_XS:
    case QR_IQ1_S:
    case QR_IQ1_M: return QT_Q2_K;
    case QR_IQ2_S:
    case QR_IQ2_M:
    case QR_IQ3_XXS: return QT_IQ3_S;
    case QR_TQ1_0:
    case QR_TQ2_0: return QT_Q4_K;
    default: return r->base;
    }
}

static enum qtype type_ud(const char *name)
{
    static const char *const experts[] = { "ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps", "token_embd", NULL };
    return role_is(name, "ffn_down_exps") ? QT_Q5_K : role_in(name, experts) ? QT_Q4_K : QT_Q8_0;
}

static bool is_attn_v(const char *name)
{
    return role_is(name, "attn_v") || role_is(name, "attn_qkv");
}

static enum qtype type_of(const struct mix_state *m, const struct quant_item *it, bool head, uint32_t i_v)
{
    static const char *const down[] = { "ffn_down", "ffn_down_exps", "ffn_down_shexp", NULL };
    static const char *const gate_up[] = { "ffn_gate", "ffn_up", "ffn_gate_exps", "ffn_up_exps", "ffn_gate_shexp", "ffn_up_shexp", NULL };
    const struct quant_recipe *r = m->r;
    uint32_t il = layer_of(it->name), n = m->s->n_layer;
    bool eight = m->s->n_expert == 8; /* of their size attention is little, and it decides much */
    bool small = r->id == QR_Q5_K_M || r->id == QR_Q4_K_M || r->id == QR_Q4_K_S || r->id == QR_Q3_K_M || r->id == QR_Q3_K_S ||
                 r->id == QR_Q2_K || r->id == QR_IQ4_XS || r->id == QR_IQ4_NL || r->id == QR_IQ3_XS || r->id == QR_IQ3_XXS ||
                 r->id == QR_IQ3_S || r->id == QR_IQ3_M;
    if (r->pure || r->base == QT_F32 || r->base == QT_F16 || r->base == QT_BF16 || r->id == QR_Q8_0)
        return r->base;
    if (r->id == QR_NVFP4)
        return r->base;
    if (r->id == QR_MXFP4_MOE)
        return it->ne[2] > 1 ? QT_MXFP4 : QT_Q8_0;
    if (head)
        return it->ne[0] % qtype_block(r->base) ? QT_Q8_0 : is_low(r->id) || r->id == QR_IQ3_XXS ? QT_Q5_K : QT_Q6_K;
    if (r->id == QR_UD_Q4_K_XL)
        return type_ud(it->name);
    if (role_is(it->name, "token_embd"))
        return type_of_embedding(r);
    if (is_low(r->id))
        return type_low(m, it->name, is_attn_v(it->name), role_in(it->name, down));
    if (is_attn_v(it->name))
        return eight ? QT_Q8_0 : type_of_attn_v(m, i_v);
    if (role_is(it->name, "attn_k") && eight)
        return QT_Q8_0;
    if (role_is(it->name, "attn_k") || role_is(it->name, "attn_q"))
        return r->id == QR_IQ3_XS ? QT_IQ3_XXS : r->id == QR_IQ3_XXS ? QT_IQ2_S : r->base;
    if (role_is(it->name, "attn_output"))
        return small && eight ? QT_Q5_K : eight ? r->base : type_of_attn_output(m);
    if (r->id == QR_IQ3_XS && role_in(it->name, gate_up) && il >= n / 8 && il < 7 * n / 8)
        return QT_IQ3_XXS;
    return role_in(it->name, down) ? type_of_ffn_down(m, il) : r->base;
}

void quant_recipe_types(const struct quant_recipe *r, const struct quant_shape *s, struct quant_item *items, size_t n)
{
    struct mix_state m = { r, s, 0 };
    bool has_output = false;
    for (size_t i = 0; i < n; i++) {
        m.n_v += is_attn_v(items[i].name);
        has_output |= strcmp(items[i].name, "output.weight") == 0;
    }
    for (size_t i = 0; i < n; i++) {
        struct quant_item *it = &items[i];
        if (!quant_is_matrix(it))
            continue;
        uint32_t i_v = 0; /* its place among the attn_v and attn_qkv in layer order */
        if (is_attn_v(it->name))
            for (size_t k = 0; k < n; k++)
                i_v += is_attn_v(items[k].name) && layer_of(items[k].name) < layer_of(it->name);
        bool head = strcmp(it->name, "output.weight") == 0 ||
                    (!has_output && strcmp(it->name, "token_embd.weight") == 0);
        it->type = quant_fallback(type_of(&m, it, head, i_v), it->ne[0]);
    }
}
