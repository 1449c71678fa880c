#include "model/recut.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"

typedef unsigned long long ull;

/* Rows of one key head's group: q and k of `head` rows each, v and z of `values`. */
struct groups {
    uint64_t n, head, values;
};

static int read_groups(const struct gguf *g, struct groups *out, struct err *e)
{
    uint32_t n_k = 0, n_v = 0, head = 0;
    int rc;
    if ((rc = gguf_get_u32(g, "qwen3next.ssm.group_count", &n_k, e)) || (rc = gguf_get_u32(g, "qwen3next.ssm.time_step_rank", &n_v, e)) ||
        (rc = gguf_get_u32(g, "qwen3next.ssm.state_size", &head, e)))
        return rc;
    if (!n_k || !head || n_v < n_k || n_v % n_k || n_k > 1 << 12 || n_v > 1 << 12 || head > 1 << 12)
        return err_set(e, -EINVAL, "%s: keys 'qwen3next.ssm.*': expected time_step_rank to be a multiple of group_count, and state_size, found "
                       "%u, %u and %u (convert the model again)", gguf_path(g), n_v, n_k, head);
    *out = (struct groups){ n_k, head, (uint64_t)head * (n_v / n_k) };
    return 0;
}

static uint64_t rows_of_group(const struct groups *q)
{
    return 2 * (q->head + q->values);
}

/* Rows [first, first + n) of every group, one group behind the other. */
static uint8_t *gather(const struct gguf_tensor *t, const struct groups *q, uint64_t first, uint64_t n, uint8_t *dst)
{
    uint64_t row = qtype_row_bytes(t->type, t->ne[0]);
    for (uint64_t i = 0; i < q->n; i++, dst += n * row)
        memcpy(dst, t->data + (i * rows_of_group(q) + first) * row, n * row);
    return dst;
}

static int cut(struct gguf *g, uint64_t at, const struct groups *q, struct err *e)
{
    enum { NAME_BYTES = 64 };
    const struct gguf_tensor *t = &g->tensors[at];
    uint64_t want = q->n * rows_of_group(q);
    if (t->ne[1] != want || t->ne[2] != 1 || t->ne[3] != 1)
        return err_set(e, -EINVAL, "%s: tensor '%.*s': expected %llu rows, found %llu (metadata and tensors do not belong together: convert "
                       "the model again)", gguf_path(g), (int)t->name.len, t->name.s, (ull)want, (ull)(t->ne[1] * t->ne[2] * t->ne[3]));
    char *mem = aligned_alloc(64, align_up(t->bytes + 2 * NAME_BYTES, 64));
    if (!mem)
        return err_set(e, -ENOMEM, "%s: no memory for a copy of '%.*s', %llu bytes", gguf_path(g), (int)t->name.len, t->name.s, (ull)t->bytes);
    struct gguf_tensor qkv = *t, gate = *t;
    uint8_t *data = (uint8_t *)mem, *end = gather(t, q, 0, q->head, data);
    end = gather(t, q, q->head, q->head, end);
    end = gather(t, q, 2 * q->head, q->values, end);
    gather(t, q, 2 * q->head + q->values, q->values, end);
    qkv.bytes = (uint64_t)(end - data);
    gate.bytes = t->bytes - qkv.bytes;
    qkv.ne[1] = q->n * (2 * q->head + q->values);
    gate.ne[1] = q->n * q->values;
    qkv.data = data;
    gate.data = end;
    gate.file_off += qkv.bytes; /* where nothing else is said to be */
    int block = (int)t->name.len - (int)strlen("ssm_in.weight");
    char *names[2] = { mem + t->bytes, mem + t->bytes + NAME_BYTES };
    qkv.name = (struct gguf_str){ names[0], (uint64_t)snprintf(names[0], NAME_BYTES, "%.*sattn_qkv.weight", block, t->name.s) };
    gate.name = (struct gguf_str){ names[1], (uint64_t)snprintf(names[1], NAME_BYTES, "%.*sattn_gate.weight", block, t->name.s) };
    return gguf_replace_tensor(g, at, (struct gguf_tensor[2]){ qkv, gate }, 2, mem, e);
}

/* blk.N.ssm_in.weight, with N of a few digits. */
static bool is_ssm_in(struct gguf_str s)
{
    char name[32];
    int n = 0;
    snprintf(name, sizeof name, "%.*s", (int)MIN(s.len, sizeof name - 1), s.s);
    return s.len < sizeof name - 1 && sscanf(name, "blk.%*u.ssm_in.weight%n", &n) == 0 && n == (int)s.len;
}

int recut_legacy(struct gguf *g, struct err *e)
{
    static const char arch[] = "qwen3next";
    const struct gguf_kv *kv = gguf_find(g, "general.architecture");
    struct gguf_str s = { 0 };
    struct groups q = { 0 };
    int rc = 0;
    if (!kv || kv->type != GGUF_STR || !gguf_kv_str(kv, 0, &s) || s.len != strlen(arch) || memcmp(s.s, arch, s.len) != 0)
        return 0;
    for (uint64_t i = 0; !rc && i < g->n_tensors; i++)
        if (is_ssm_in(g->tensors[i].name) && (q.n || !(rc = read_groups(g, &q, e))))
            rc = cut(g, i, &q, e);
    return rc;
}
