/* stream_verify refuses each single corruption: every field of every table and of every command's arguments is
 * changed in turn. Fields whose other values are also right (a window, a cost, a layer) are listed; nothing else may
 * pass. */
#include <math.h>

#include "graph/fields.h"
#include "graph/ir.h"
#include "tests/stream/compile.h"

static struct stream *s;
static struct err e;

static int verify(void)
{
    e = (struct err){0};
    int rc = stream_verify(s, &e);
    ck_assert(rc == 0 || (rc == -EINVAL && strlen(e.msg) > 10));
    return rc;
}

/* Changes `n` bytes at p to the value v, verifies, restores. */
static int with(void *p, uint64_t v, size_t n)
{
    uint64_t old = 0;
    memcpy(&old, p, n);
    memcpy(p, &v, n);
    int rc = verify();
    memcpy(p, &old, n);
    return rc;
}

static uint64_t get(const void *p, size_t n)
{
    uint64_t v = 0;
    memcpy(&v, p, n);
    return v;
}

/* Wrong values of a number, made from its right one. */
static void refuse_number(void *p, size_t n, const char *what)
{
    uint64_t v = get(p, n), top = 1ull << (n * 8 - 1);
    const uint64_t wrong[] = {v + 1, v ^ top, UINT64_MAX, v + 256, v | top >> 1, v ? v - 1 : 3};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        ck_assert_msg(get(&wrong[i], n) == v || with(p, wrong[i], n) != 0, "%s = %llu instead of %llu verifies", what,
                      (unsigned long long)get(&wrong[i], n), (unsigned long long)v);
}
#define REFUSE(field) refuse_number(&(field), sizeof(field), #field)

static bool in_list(const char *name, const char *const *list)
{
    for (; *list; list++)
        if (strcmp(name, *list) == 0)
            return true;
    return false;
}

/* Numbers of which other values make another, equally safe command: what they change is arithmetic only, or they may
 * shrink. */
static const char *const free_numbers[] = {
    "act",   "rope", "v_norm",   "gating", "window", "heads", "pad", "n_rot", "k",   "conv_kernel", "n_head", "n_kv",
    "n_k",   "n_v",  "q_hs",     "head_dim", "n",    "rows",  "n_out", "ld",  "ldx", "ldr",         "ldq",    "ldk",
    "ldv",   "lda",  "group",    "sparse", "ab_ld", "n_mats",  "n_ff",   "n_expert", "type", NULL};
/* Of these even larger values can be right, where buffers have room or only the meaning changes. */
static const char *const loose_numbers[] = {"act",    "rope",  "v_norm", "gating",
                                            "window", "heads", "pad",    "rows", NULL};

static void corrupt_field(struct cmd *c, const struct field *f, uint32_t at)
{
    uint8_t *p = s->args + c->args_off + at;
    uint32_t n = field_bytes(f);
    if (f->kind == FK_E) {
        const float wrong[] = {NAN, INFINITY, -INFINITY};
        for (int i = 0; i < 3; i++)
            ck_assert_msg(with(p, get(&wrong[i], 4), 4) != 0, "%s %s", cmd_name(c->op), f->name);
        return;
    }
    if (f->type == FT_gpu_va || f->type == FT_uint64_t) {
        refuse_number(p, n, f->name);
        return;
    }
    ck_assert_msg(in_list(f->name, loose_numbers) || with(p, 0xffffffff, n) != 0, "%s %s = -1", cmd_name(c->op),
                  f->name);
    ck_assert_msg(in_list(f->name, loose_numbers) || with(p, 0x40000000, n) != 0, "%s %s = 2^30", cmd_name(c->op),
                  f->name);
    if (!in_list(f->name, free_numbers))
        refuse_number(p, n, f->name);
}

START_TEST(wrong_arguments_are_refused)
{
    for (uint32_t m = 0; m < N_FAKE_MODELS; m++) {
        s = fake_compile(m, FAKE_PREFILL);
        ck_assert_int_eq(verify(), 0);
        for (uint32_t i = 0; i < s->h.n_cmds; i++) {
            uint32_t n;
            const struct field *f = cmd_fields(s->cmds[i].op, &n);
            for (uint32_t j = 0; j < n; j++)
                for (uint32_t k = 0; k < f[j].count; k++)
                    corrupt_field(&s->cmds[i], &f[j], f[j].off + k * field_bytes(&f[j]));
        }
        stream_free(s);
    }
}
END_TEST

START_TEST(sizes_that_do_not_fit_are_refused)
{
    s = fake_compile(fake_index("qwen3"), FAKE_PREFILL);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        void *a = s->args + s->cmds[i].args_off;
        if (s->cmds[i].op == CMD_PROJ) {
            ka_matmul *m = a;
            ck_assert_int_ne(with(&m->n_in, m->n_in + 32, 4), 0);
            ck_assert_int_ne(with(&m->n_in, m->n_in - 32, 4), 0);
            ck_assert_int_ne(with(&m->n_out[1], m->n_out[1] + 1, 4), 0);
            ck_assert_int_ne(with(&m->ld[1], m->ld[1] + 1, 4), 0);
            ck_assert_int_ne(with(&m->ld[1], m->n_out[1] - 1, 4), 0);
            ck_assert_int_ne(with(&m->type[0], QT_Q8_0, 4), 0);
            ck_assert_int_ne(with(&m->type[0], 5, 4), 0);
            ck_assert_int_ne(with(&m->n_mats, 4, 4), 0);
            ck_assert_int_ne(with(&m->n_mats, 1, 4), 0);
            ck_assert_int_ne(with(&m->n_mats, 2, 4), 0); /* y2 is still there */
        } else if (s->cmds[i].op == CMD_ATTN) {
            ka_attn *m = a;
            ck_assert_int_ne(with(&m->n_kv, 3, 4), 0);
            ck_assert_int_ne(with(&m->n_kv, 0, 4), 0);
            ck_assert_int_ne(with(&m->n_kv, 4, 4), 0);
            ck_assert_int_ne(with(&m->n_head, 6, 4), 0);
            ck_assert_int_ne(with(&m->head_dim, m->head_dim * 2, 4), 0);
        } else if (s->cmds[i].op == CMD_ROPE_KV) {
            ka_rope_kv *m = a;
            ck_assert_int_ne(with(&m->n_rot, m->head_dim + 2, 4), 0);
            ck_assert_int_ne(with(&m->n_rot, 3, 4), 0);
            ck_assert_int_ne(with(&m->n_rot, 0, 4), 0);
            ck_assert_int_ne(with(&m->rope, 2, 4), 0);
        }
    }
    stream_free(s);
}
END_TEST

START_TEST(wrong_records_and_uses_are_refused)
{
    s = fake_compile(fake_index("qwen35moe"), FAKE_DECODE);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        struct cmd *c = &s->cmds[i];
        for (uint32_t op = 0; op < CMD_COUNT + 2; op++)
            ck_assert_msg(op == c->op || with(&c->op, op, 2) != 0, "%s as %s", cmd_name(c->op), cmd_name(op));
        REFUSE(c->args_off);
        REFUSE(c->args_bytes);
        REFUSE(c->first_use);
        REFUSE(c->n_uses);
        REFUSE(c->reserved[0]);
        REFUSE(c->reserved[2]);
        ck_assert_int_ne(with(&c->flags, 2, 2), 0);
        ck_assert_int_ne(with(&c->layer, s->h.n_layer, 4), 0);
        ck_assert_int_ne(with(&c->wait, i, 4), 0);
        if (c->wait != CMD_NO_WAIT) {
            ck_assert_int_ne(with(&c->wait, CMD_NO_WAIT, 4), 0);
            if (c->wait > 0)
                ck_assert_msg(with(&c->wait, c->wait - 1, 4) != 0, "command %u waits for one less", i);
        }
    }
    for (uint32_t i = 0; i < s->h.n_uses; i++) {
        struct stream_use *u = &s->uses[i];
        REFUSE(u->field_off);
        REFUSE(u->off);
        ck_assert_int_ne(with(&u->reserved, 1, 1), 0);
        for (uint8_t dir = 0; dir < 5; dir++)
            ck_assert(dir == u->dir || with(&u->dir, dir, 1) != 0);
        /* another buffer passes only where it is the same memory by another name */
        for (uint32_t b = 0; b <= s->h.n_bufs; b++)
            if (b != u->buf && with(&u->buf, b, 4) == 0)
                ck_assert(s->bufs[b].arena == s->bufs[u->buf].arena && s->bufs[b].off == s->bufs[u->buf].off);
    }
    stream_free(s);
}
END_TEST

START_TEST(wrong_tables_are_refused)
{
    s = fake_compile(fake_index("qwen35"), FAKE_DECODE);
    for (uint32_t i = 0; i < s->h.n_bufs; i++) {
        struct stream_buf *b = &s->bufs[i];
        REFUSE(b->off);
        REFUSE(b->arena);
        if (b->weight != UINT32_MAX)
            REFUSE(b->weight);
        ck_assert_int_ne(with(&b->bytes, 0, 8), 0);
        ck_assert_int_ne(with(&b->bytes, UINT64_MAX, 8), 0);
        ck_assert_int_ne(with(&b->bytes, s->h.arena_bytes[b->arena] + 1, 8), 0);
        ck_assert_int_ne(with(&b->name, s->h.str_bytes, 4), 0);
        ck_assert_int_ne(with(&b->ld, 0xffffffff, 4), 0);
        if (b->arena == ARENA_SCRATCH)
            ck_assert_msg(with(&b->bytes, b->bytes - 4, 8) != 0, "%s", stream_str(s, b->name));
    }
    for (uint32_t i = 0; i < s->h.n_weights; i++) {
        struct stream_weight *w = &s->weights[i];
        REFUSE(w->type);
        REFUSE(w->ne[0]);
        REFUSE(w->ne[1]);
        REFUSE(w->ne[2]);
        REFUSE(w->ne[3]);
        REFUSE(w->off);
        REFUSE(w->bytes);
        REFUSE(w->part);
        REFUSE(w->file_off);
        REFUSE(w->reserved);
        ck_assert_int_ne(with(&w->name, s->h.str_bytes, 4), 0);
    }
    for (uint32_t i = 0; i < s->h.n_patches; i++) {
        struct patch *p = &s->patches[i];
        REFUSE(p->off);
        REFUSE(p->count);
        REFUSE(p->stride);
        REFUSE(p->sym);
        REFUSE(p->width);
    }
    s->strs[s->h.str_bytes - 1] = 'x';
    ck_assert_int_ne(verify(), 0);
    stream_free(s);
}
END_TEST

START_TEST(heads_of_a_q8_0_cache_are_whole_blocks)
{
    struct graph_opts o = FAKE_DECODE;
    uint32_t n = 0;
    o.kv_type = KA_KV_Q8_0;
    s = fake_compile(fake_index("qwen3"), o);
    ck_assert_int_eq(verify(), 0);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        void *a = s->args + s->cmds[i].args_off;
        bool attn = s->cmds[i].op == CMD_ATTN;
        if (!attn && s->cmds[i].op != CMD_ROPE_KV)
            continue;
        n++;
        ck_assert_int_ne(with(attn ? &((ka_attn *)a)->head_dim : &((ka_rope_kv *)a)->head_dim, FAKE_HEAD / 2, 4), 0);
        ck_assert_msg(strstr(e.msg, "q8_0") != NULL, "%s", e.msg);
    }
    ck_assert_uint_ge(n, 2);
    stream_free(s);
}
END_TEST

/* A layer may have f16 where the others have less, but all that read its cache take it for that. */
START_TEST(a_cache_has_one_type)
{
    struct graph_opts o = FAKE_DECODE;
    uint32_t n = 0;
    o.kv_type = KA_KV_Q8_0;
    o.kv_edge = 1;
    s = fake_compile(fake_index("gemma4_moe"), o);
    ck_assert_int_eq(verify(), 0);
    for (uint32_t i = 0; i < s->h.n_cmds; i++) {
        ka_attn *a = (void *)(s->args + s->cmds[i].args_off);
        if (s->cmds[i].op != CMD_ATTN)
            continue;
        bool f16 = a->kv_type == KA_KV_F16;
        n += f16;
        ck_assert_int_ne(with(&a->kv_type, f16 ? KA_KV_Q8_0 : KA_KV_F16, 4), 0);
        ck_assert_int_ne(with(&a->kv_type, KA_KV_FP8, 4), 0);
    }
    ck_assert_uint_eq(n, 2);
    ck_assert_int_ne(with(&s->h.kv_type, KA_KV_FP8, 4), 0);
    stream_free(s);
    o.kv_edge = 9; /* all of them */
    s = fake_compile(fake_index("gemma4_moe"), o);
    ck_assert_int_eq(verify(), 0);
    ck_assert_uint_eq(s->h.kv_type, KA_KV_F16);
    stream_free(s);
}
END_TEST

START_TEST(a_wrong_head_is_refused)
{
    s = fake_compile(fake_index("qwen3"), FAKE_DECODE);
    REFUSE(s->h.magic);
    REFUSE(s->h.row_cap);
    REFUSE(s->h.out_cap);
    REFUSE(s->h.n_ctx);
    REFUSE(s->h.n_slots);
    REFUSE(s->h.n_vocab);
    REFUSE(s->h.kv_type);
    REFUSE(s->h.weights_hash);
    REFUSE(s->h.next_off);
    ck_assert_int_ne(with(&s->h.logits_off, 0, 8), 0);
    ck_assert_int_ne(with(&s->h.logits_off, s->h.arena_bytes[ARENA_IO], 8), 0);
    ck_assert_int_ne(with(&s->h.n_layer, 1, 4), 0);
    ck_assert_int_ne(with(&s->h.const_bytes, 0, 4), 0);
    for (int a = 0; a < ARENA_COUNT; a++) {
        ck_assert_int_ne(with(&s->h.arena_bytes[a], UINT64_MAX, 8), 0);
        ck_assert_int_ne(with(&s->h.arena_bytes[a], s->h.arena_bytes[a] + 1, 8), 0);
        if (s->h.arena_bytes[a])
            ck_assert_int_ne(with(&s->h.arena_bytes[a], s->h.arena_bytes[a] - 256, 8), 0);
    }
    stream_free(s);
}
END_TEST

/* Points the address at `field_off` of command i to another place, with its use: everything but the rule is right. */
static int moved(uint32_t i, uint32_t field_off, uint32_t buf, uint64_t off)
{
    struct cmd *c = &s->cmds[i];
    for (uint32_t u = c->first_use; u < c->first_use + c->n_uses; u++)
        if (s->uses[u].field_off == field_off) {
            struct stream_use old = s->uses[u];
            gpu_va a = SADDR(s->bufs[buf].arena, s->bufs[buf].off + off);
            s->uses[u].buf = buf;
            s->uses[u].off = off;
            int rc = with(s->args + c->args_off + field_off, a, 8);
            s->uses[u] = old;
            return rc;
        }
    ck_abort_msg("no use at %u", field_off);
}

static uint32_t find_buf(const char *name)
{
    for (uint32_t i = 0; i < s->h.n_bufs; i++)
        if (strcmp(stream_str(s, s->bufs[i].name), name) == 0)
            return i;
    ck_abort_msg("no buffer %s", name);
}

START_TEST(consistent_but_wrong_places_are_refused)
{
    s = fake_compile(fake_index("llama"), FAKE_DECODE);
    ck_assert_int_eq(s->cmds[1].op, CMD_PROJ);
    uint32_t y = offsetof(ka_matmul, y), x = offsetof(ka_matmul, x), norm = offsetof(ka_matmul, norm);
    ck_assert_int_eq(moved(1, y, find_buf("q.0"), 0), 0);
    ck_assert_int_ne(moved(1, y, find_buf("step"), 0), 0);                  /* the host's words    */
    ck_assert_ptr_nonnull(strstr(e.msg, "step"));
    ck_assert_int_ne(moved(1, y, find_buf("token_embd.weight"), 0), 0);     /* read-only           */
    ck_assert_int_ne(moved(1, y, find_buf("kv.k.0"), 0), 0);                /* not for activations */
    ck_assert_int_ne(moved(1, y, find_buf("embed"), 0), 0);                 /* over its own input  */
    ck_assert_int_ne(moved(1, y, find_buf("q.0"), 4), 0);                   /* past the end        */
    ck_assert_int_ne(moved(1, x, find_buf("k.0"), 0), 0);                   /* an output           */
    ck_assert_int_ne(moved(1, norm, find_buf("output.weight"), 0), 0);      /* not F32             */
    ck_assert_int_ne(moved(1, norm, find_buf("embed"), 0), 0);              /* no weight           */
    ck_assert_int_ne(moved(1, offsetof(ka_matmul, w), find_buf("blk.0.ffn_down.weight"), 0), 0);
    ck_assert_int_ne(moved(1, offsetof(ka_matmul, w), find_buf("blk.0.attn_q.weight"), 36), 0);
    ck_assert_int_ne(moved(1, 0, find_buf("logits"), 0), 0);                /* step elsewhere      */
    ck_assert_int_eq(s->cmds[2].op, CMD_ROPE_KV);
    ck_assert_int_ne(moved(2, offsetof(ka_rope_kv, kc), find_buf("kv.v.0"), 0), 0); /* k over v    */
    ck_assert_int_ne(moved(2, offsetof(ka_rope_kv, kc), find_buf("q.0"), 0), 0);
    ck_assert_int_ne(moved(2, offsetof(ka_rope_kv, kc), find_buf("kv.k.0"), 256), 0);
    ck_assert_int_ne(moved(s->h.n_cmds - 1, offsetof(ka_argmax, next), find_buf("step"), 64), 0);
    ck_assert_int_ne(moved(s->h.n_cmds - 1, offsetof(ka_argmax, sample), find_buf("step"), 64), 0);
    ck_assert_int_ne(moved(s->h.n_cmds - 1, offsetof(ka_argmax, sample), find_buf("logits"), 0), 0);
    ck_assert_int_ne(moved(s->h.n_cmds - 3, offsetof(ka_gather, out_row), find_buf("step"), 64), 0);
    stream_free(s);
}
END_TEST

int main(void)
{
    return RUN_TESTS("stream verification", wrong_arguments_are_refused, sizes_that_do_not_fit_are_refused,
                     wrong_records_and_uses_are_refused, wrong_tables_are_refused, a_wrong_head_is_refused,
                     heads_of_a_q8_0_cache_are_whole_blocks, a_cache_has_one_type, consistent_but_wrong_places_are_refused);
}
