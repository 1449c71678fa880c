#include <string.h>

#include "base/ckd.h"
#include "model/gguf.h"

const char *gguf_type_name(enum gguf_type t)
{
    static const char *const names[GGUF_TYPE_COUNT] = {
        [GGUF_U8] = "u8",      [GGUF_I8] = "i8",     [GGUF_U16] = "u16", [GGUF_I16] = "i16",
        [GGUF_U32] = "u32",    [GGUF_I32] = "i32",   [GGUF_F32] = "f32", [GGUF_BOOL] = "bool",
        [GGUF_STR] = "string", [GGUF_ARR] = "array", [GGUF_U64] = "u64", [GGUF_I64] = "i64",
        [GGUF_F64] = "f64",
    };
    return (unsigned)t < GGUF_TYPE_COUNT ? names[t] : "?";
}

#define LOAD(type, kv, i)                                                                                    \
    ({                                                                                                       \
        type v_;                                                                                             \
        memcpy(&v_, (kv)->data + (i) * sizeof v_, sizeof v_);                                                \
        v_;                                                                                                  \
    })

bool gguf_kv_i64(const struct gguf_kv *kv, uint64_t i, int64_t *out)
{
    if (i >= kv->n)
        return false;
    switch (kv->elem_type) {
    case GGUF_U8:
    case GGUF_BOOL: *out = LOAD(uint8_t, kv, i); return true;
    case GGUF_I8: *out = LOAD(int8_t, kv, i); return true;
    case GGUF_U16: *out = LOAD(uint16_t, kv, i); return true;
    case GGUF_I16: *out = LOAD(int16_t, kv, i); return true;
    case GGUF_U32: *out = LOAD(uint32_t, kv, i); return true;
    case GGUF_I32: *out = LOAD(int32_t, kv, i); return true;
    case GGUF_I64: *out = LOAD(int64_t, kv, i); return true;
    case GGUF_U64: {
        uint64_t v = LOAD(uint64_t, kv, i);
        if (v > INT64_MAX)
            return false;
        *out = (int64_t)v;
        return true;
    }
    default: return false;
    }
}

bool gguf_kv_u64(const struct gguf_kv *kv, uint64_t i, uint64_t *out)
{
    if (kv->elem_type == GGUF_U64 && i < kv->n) {
        *out = LOAD(uint64_t, kv, i);
        return true;
    }
    int64_t v;
    if (!gguf_kv_i64(kv, i, &v) || v < 0)
        return false;
    *out = (uint64_t)v;
    return true;
}

bool gguf_kv_f64(const struct gguf_kv *kv, uint64_t i, double *out)
{
    if (i >= kv->n || (kv->elem_type != GGUF_F32 && kv->elem_type != GGUF_F64))
        return false;
    *out = kv->elem_type == GGUF_F32 ? (double)LOAD(float, kv, i) : LOAD(double, kv, i);
    return true;
}

bool gguf_kv_str(const struct gguf_kv *kv, uint64_t i, struct gguf_str *out)
{
    if (i >= kv->n || kv->elem_type != GGUF_STR)
        return false;
    const uint8_t *p = kv->data + kv->str_off[i];
    memcpy(&out->len, p, 8);
    out->s = (const char *)p + 8;
    return true;
}

/* --- by key ----------------------------------------------------------------------------------------------------- */

static int wrong_type(const struct gguf *g, const struct gguf_kv *kv, const char *key, const char *want,
                      struct err *e)
{
    int64_t i;
    if (kv->type == GGUF_ARR)
        return err_set(e, -EINVAL,
                       "%s: key '%s': expected %s, found an array of %llu %s (convert the model again)",
                       gguf_path(g), key, want, (unsigned long long)kv->n, gguf_type_name(kv->elem_type));
    if (gguf_kv_i64(kv, 0, &i))
        return err_set(e, -EINVAL, "%s: key '%s': expected %s, found %s %lld (convert the model again)",
                       gguf_path(g), key, want, gguf_type_name(kv->type), (long long)i);
    return err_set(e, -EINVAL, "%s: key '%s': expected %s, found %s (convert the model again)", gguf_path(g),
                   key, want, gguf_type_name(kv->type));
}

int gguf_get_u32(const struct gguf *g, const char *key, uint32_t *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    uint64_t v;
    if (!kv)
        return 0;
    if (kv->type == GGUF_ARR || kv->type == GGUF_BOOL || !gguf_kv_u64(kv, 0, &v) || v > UINT32_MAX)
        return wrong_type(g, kv, key, "an integer from 0 to 4294967295", e);
    *out = (uint32_t)v;
    return 0;
}

int gguf_get_f32(const struct gguf *g, const char *key, float *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    double v;
    if (!kv)
        return 0;
    if (kv->type == GGUF_ARR || !gguf_kv_f64(kv, 0, &v))
        return wrong_type(g, kv, key, "a float", e);
    *out = (float)v;
    return 0;
}

int gguf_get_bool(const struct gguf *g, const char *key, bool *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    uint64_t v;
    if (!kv)
        return 0;
    if (kv->type == GGUF_ARR || !gguf_kv_u64(kv, 0, &v) || v > 1)
        return wrong_type(g, kv, key, "a bool", e);
    *out = v;
    return 0;
}

int gguf_get_str(const struct gguf *g, const char *key, struct gguf_str *out, struct err *e)
{
    const struct gguf_kv *kv = gguf_find(g, key);
    if (!kv)
        return 0;
    if (kv->type == GGUF_ARR || !gguf_kv_str(kv, 0, out))
        return wrong_type(g, kv, key, "a string", e);
    return 0;
}
