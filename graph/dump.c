/* A stream as text: one line for the head of each part, one for each command, its fields by name.
 *
 *     12 MATMUL layer 1 wait 11 bytes 4352 flops 8192
 *        x=attn.1 resid=x.0 y=h.1 w=blk.1.attn_output.weight n_out=64 type=Q4_0 ld=64 n_mats=1 ... */
#include <inttypes.h>
#include <string.h>

#include "graph/fields.h"
#include "graph/stream.h"

static const char *const arena_names[ARENA_COUNT] = {"weights", "const", "kv", "state", "scratch", "io"};
static const char *const sym_names[SYM_COUNT] = {
#define X(name) #name,
    SYM_LIST(X)
#undef X
};

/* The use that covers the address at field_off, NULL: none. */
static const struct stream_use *find_use(const struct stream *s, const struct cmd *c, uint32_t field_off)
{
    for (uint32_t i = 0; i < c->n_uses; i++)
        if (s->uses[c->first_use + i].field_off == field_off)
            return &s->uses[c->first_use + i];
    return NULL;
}

static void dump_address(FILE *f, const struct stream *s, const struct cmd *c, uint32_t field_off, gpu_va a)
{
    const struct stream_use *u = find_use(s, c, field_off);
    if (!a)
        fprintf(f, "-");
    else if (!u || u->buf >= s->h.n_bufs)
        fprintf(f, "?0x%016" PRIx64, a);
    else if (u->off)
        fprintf(f, "%s+%" PRIu64, stream_str(s, s->bufs[u->buf].name), u->off);
    else
        fprintf(f, "%s", stream_str(s, s->bufs[u->buf].name));
}

static bool is_type_field(const struct field *fd)
{
    return strncmp(fd->name, "type", 4) == 0;
}

/* One element of a field; zero addresses and zero numbers are not printed. Returns whether it printed. */
static bool dump_element(FILE *f, const struct stream *s, const struct cmd *c, const struct field *fd, uint32_t i)
{
    uint32_t off = fd->off + i * field_bytes(fd);
    const uint8_t *p = s->args + c->args_off + off;
    uint64_t v = 0;
    float x;
    memcpy(&v, p, field_bytes(fd));
    if (v == 0 && !is_type_field(fd))
        return false;
    fprintf(f, " %s", fd->name);
    if (fd->count > 1)
        fprintf(f, "%u", i);
    fprintf(f, "=");
    switch (fd->type) {
    case FT_gpu_va: dump_address(f, s, c, off, v); break;
    case FT_float:
        memcpy(&x, p, sizeof x);
        fprintf(f, "%.9g", (double)x);
        break;
    default:
        if (is_type_field(fd))
            fprintf(f, "%s", qtype_name((enum qtype)v));
        else
            fprintf(f, "%" PRIu64, v);
    }
    return true;
}

/* Arrays of a product hold n_mats elements. */
static uint32_t live_elements(const struct stream *s, const struct cmd *c, const struct field *fd)
{
    if (fd->count == 1)
        return 1;
    const ka_matmul *a = (const void *)(s->args + c->args_off);
    return a->n_mats < fd->count ? a->n_mats : fd->count;
}

static void dump_cmd(FILE *f, const struct stream *s, uint32_t i)
{
    const struct cmd *c = &s->cmds[i];
    uint32_t n_fields;
    const struct field *fd = cmd_fields(c->op, &n_fields);
    fprintf(f, "%u %s", i, cmd_name(c->op));
    if (c->layer != CMD_NO_LAYER)
        fprintf(f, " layer %u", c->layer);
    if (c->wait != CMD_NO_WAIT)
        fprintf(f, " wait %u", c->wait);
    fprintf(f, " bytes %" PRIu64 "%s flops %" PRIu64, c->bytes, c->flags & CMD_BYTES_PER_ROW ? "/row" : "", c->flops);
    if (c->kv_bytes)
        fprintf(f, " kv_bytes %u kv_flops %u", c->kv_bytes, c->kv_flops);
    fprintf(f, "\n  ");
    for (uint32_t j = 0; j < n_fields; j++)
        for (uint32_t k = 0; k < live_elements(s, c, &fd[j]); k++)
            dump_element(f, s, c, &fd[j], k);
    fprintf(f, "\n");
}

void stream_dump(FILE *f, const struct stream *s)
{
    const struct stream_head *h = &s->h;
    fprintf(f, "stream version %u: %u commands, rows %u, outputs %u, context %u, slots %u, kv %s\n",
            (unsigned)(uint8_t)h->magic[7], h->n_cmds, h->row_cap, h->out_cap, h->n_ctx, h->n_slots,
            stream_kv_name(h->kv_type));
    fprintf(f, "model: %u layers, n_embd %u, n_vocab %u\n", h->n_layer, h->n_embd, h->n_vocab);
    if (!stream_is_whole(s))
        fprintf(f, "layers %u:%u, residual f32 [%u, %u] at io+%" PRIu64 "\n", h->layers_before,
                h->n_layer - h->layers_behind, h->row_cap, h->n_embd, stream_residual(s));
    for (int a = 0; a < ARENA_COUNT; a++)
        fprintf(f, "arena %s %" PRIu64 "\n", arena_names[a], h->arena_bytes[a]);
    for (uint32_t i = 0; i < h->n_patches; i++) {
        const struct patch *p = &s->patches[i];
        fprintf(f, "patch %s at %u, %u x %u, %u apart\n", p->sym < SYM_COUNT ? sym_names[p->sym] : "?", p->off,
                p->count, p->width, p->stride);
    }
    for (uint32_t i = 0; i < h->n_bufs; i++) {
        const struct stream_buf *b = &s->bufs[i];
        fprintf(f, "buf %s %s+%" PRIu64 " %" PRIu64, stream_str(s, b->name),
                b->arena < ARENA_COUNT ? arena_names[b->arena] : "?", b->off, b->bytes);
        if (b->ld)
            fprintf(f, " ld %u", b->ld);
        if (b->weight < h->n_weights) {
            const struct stream_weight *w = &s->weights[b->weight];
            fprintf(f, " %s [%" PRIu64 ", %" PRIu64 ", %" PRIu64 ", %" PRIu64 "]", qtype_name(w->type), w->ne[0],
                    w->ne[1], w->ne[2], w->ne[3]);
        }
        fprintf(f, "\n");
    }
    for (uint32_t i = 0; i < h->n_cmds; i++)
        dump_cmd(f, s, i);
}
