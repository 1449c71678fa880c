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
#define QTYPE_BOOK(NAME, ...)                                                                                          \
    if (strcasecmp(name, #NAME) == 0)                                                                                  \
        return err_set(e, -ENOTSUP, #NAME ": zinc runs files of this type and does not quantise to it yet");
#include "kernels/qtypes.def"
    static const char types[] =
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

static enum qtype type_of_attn_v(const struct mix_state *m, uint32_t i)
{
    bool grouped = m->s->n_head_kv && m->s->n_head / m->s->n_head_kv >= 4;
    enum qtype t = m->r->base;
    switch (m->r->id) {
    case QR_Q4_K_M:
    case QR_Q5_K_M: t = more_bits(i, m->n_v) ? QT_Q6_K : t; break;
    case QR_Q4_K_S: t = i < 4 ? QT_Q5_K : t; break;
    case QR_Q3_K_M: t = i < 2 ? QT_Q5_K : QT_Q4_K; break;
    case QR_Q2_K: t = grouped ? QT_Q4_K : QT_Q3_K; break;
    case QR_IQ4_NL:
    case QR_IQ4_XS: t = grouped ? QT_Q5_K : t; break;
    default: break;
    }
    bool is_70b = strcmp(m->s->arch, "llama") == 0 && m->s->n_layer == 80;
    return is_70b && (t == QT_Q3_K || t == QT_Q4_K) ? QT_Q5_K : t;
}

static enum qtype type_of_ffn_down(const struct mix_state *m, uint32_t il)
{
    uint32_t n = m->s->n_layer;
    switch (m->r->id) {
    case QR_Q4_K_M:
    case QR_Q5_K_M: return more_bits(il, n) ? QT_Q6_K : m->r->base;
    case QR_Q4_K_S:
    case QR_IQ4_NL:
    case QR_IQ4_XS: return il < n / 8 ? QT_Q5_K : m->r->base;
    case QR_Q3_K_M: return il < n / 16 ? QT_Q5_K : QT_Q4_K;
    case QR_Q2_K: return QT_Q3_K;
    default: return m->r->base;
    }
}

static enum qtype type_ud(const char *name)
{
    static const char *const experts[] = { "ffn_gate_exps", "ffn_up_exps", "ffn_gate_up_exps", "token_embd", NULL };
    return role_is(name, "ffn_down_exps") ? QT_Q5_K : role_in(name, experts) ? QT_Q4_K : QT_Q8_0;
}

static enum qtype type_of(const struct mix_state *m, const struct quant_item *it, bool head, uint32_t i_v)
{
    static const char *const down[] = { "ffn_down", "ffn_down_exps", "ffn_down_shexp", NULL };
    const struct quant_recipe *r = m->r;
    bool eight = m->s->n_expert == 8; /* of their size attention is little, and it decides much */
    bool small = r->id == QR_Q5_K_M || r->id == QR_Q4_K_M || r->id == QR_Q4_K_S || r->id == QR_Q3_K_M ||
                 r->id == QR_Q2_K || r->id == QR_IQ4_XS || r->id == QR_IQ4_NL;
    if (r->pure || r->base == QT_F32 || r->base == QT_F16 || r->base == QT_BF16 || r->id == QR_Q8_0)
        return r->base;
    if (r->id == QR_MXFP4_MOE)
        return it->ne[2] > 1 ? QT_MXFP4 : QT_Q8_0;
    if (head)
        return QT_Q6_K;
    if (r->id == QR_UD_Q4_K_XL)
        return type_ud(it->name);
    if (role_is(it->name, "attn_v") || role_is(it->name, "attn_qkv"))
        return eight ? QT_Q8_0 : type_of_attn_v(m, i_v);
    if (role_is(it->name, "attn_k"))
        return eight ? QT_Q8_0 : r->base;
    if (role_is(it->name, "attn_output")) {
        if (small && eight)
            return QT_Q5_K;
        return r->id == QR_Q3_K_M ? QT_Q4_K : r->id == QR_Q2_K ? QT_Q3_K : r->base;
    }
    return role_in(it->name, down) ? type_of_ffn_down(m, layer_of(it->name)) : r->base;
}

static bool is_attn_v(const char *name)
{
    return role_is(name, "attn_v") || role_is(name, "attn_qkv");
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
