/* Any bytes as a GGUF file: opening, reading as a model, touching every key, every string and the directory entry of
 * every tensor, and describing it. Seeds: tests/fuzz/corpus/fuzz_gguf. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/check.h"
#include "model/gguf.h"
#include "model/inspect.h"
#include "model/model.h"
#include "model/recut.h"
#include "model/rope.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static volatile uint64_t sink;

static void touch_value(const struct gguf_kv *kv)
{
    for (uint64_t i = 0; i < kv->n; i++) {
        uint64_t u = 0;
        int64_t s = 0;
        double d = 0;
        struct gguf_str str = { 0 };
        int n_read = gguf_kv_u64(kv, i, &u) + gguf_kv_i64(kv, i, &s) + gguf_kv_f64(kv, i, &d) + gguf_kv_str(kv, i, &str);
        CHECK(n_read >= 1);
        sink += u + (uint64_t)s + (d > 0);
        for (uint64_t k = 0; k < str.len; k++)
            sink += (uint8_t)str.s[k];
    }
}

static void touch_tensor(const struct gguf *g, const struct gguf_tensor *t)
{
    const struct gguf_part *p = &g->parts[t->part];
    CHECK(t->bytes > 0 && t->file_off % 8 == 0 && t->file_off <= p->bytes && t->bytes <= p->bytes - t->file_off);
    CHECK(t->data == p->map + t->file_off);
    CHECK_EQ_U64(t->bytes, qtype_row_bytes(t->type, t->ne[0]) * t->ne[1] * t->ne[2] * t->ne[3]);
    sink += t->data[0] + t->data[t->bytes - 1];
    char name[64];
    snprintf(name, sizeof name, "%.*s", (int)t->name.len, t->name.s);
    if (strlen(name) == t->name.len)
        CHECK(gguf_find_tensor(g, name) == t);
}

static void touch_model(const struct model *m)
{
    CHECK(m->n_layer >= 1 && m->token_embd && m->output && m->output_norm);
    for (uint32_t il = 0; il < m->n_layer; il++) {
        const struct model_layer *l = &m->layers[il];
        CHECK(l->attn_norm && l->ffn_norm);
        if (l->kind != LAYER_ATTN)
            continue;
        CHECK(l->n_head_kv && l->n_head % l->n_head_kv == 0 && l->rope.n_rot <= l->head_dim && l->rope.n_rot % 2 == 0);
        CHECK(l->kv_from <= il && m->layers[l->kv_from].kv_from == l->kv_from);
        float *freq = malloc(l->rope.n_rot / 2 * sizeof *freq);
        for (uint32_t n_ctx = 1; n_ctx; n_ctx = n_ctx == 1 ? UINT32_MAX : 0) {
            const struct gguf_tensor *by = rope_divisors(l, n_ctx);
            rope_inv_freq(&l->rope, by ? (const float *)by->data : NULL, freq);
            sink += freq[0] > 0;
        }
        free(freq);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static FILE *null;
    struct gguf *g;
    struct model *m;
    struct err e = { 0 };
    if (!null)
        CHECK((null = fopen("/dev/null", "w")));
    uint8_t *copy = malloc(size ? size : 1); /* aligned as a mapping is, and with nothing behind it */
    memcpy(copy, data, size);
    if (gguf_open_memory("fuzz.gguf", copy, size, &g, &e)) {
        CHECK(e.code < 0 && e.msg[0]);
        free(copy);
        return 0;
    }
    for (uint64_t i = 0; i < g->n_kv; i++)
        touch_value(&g->kv[i]);
    for (uint64_t i = 0; i < g->n_tensors; i++)
        touch_tensor(g, &g->tensors[i]);
    m = NULL;
    if (recut_legacy(g, &e) || model_read(g, &m, &e))
        CHECK(e.code < 0 && e.msg[0]);
    else
        touch_model(m);
    inspect_print(null, g, true);
    inspect_json(null, g, true);
    model_free(m);
    gguf_close(g);
    free(copy);
    return 0;
}
