/* The lists of a persistent plan as text: a line for each item and one for its arguments by name, as streams are dumped.
 *
 *     12 MATMUL command 13 layer 1 kernel k_matvec_q4_0_r1 grid 12 1 1 by 5 need 31 behind 9 adds 5 weights 4608
 *        x=attn.1 resid=x.0 y0=h.1 w0=blk.1.attn_output.weight n_out0=64 type0=Q4_0 ... */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/ckd.h"
#include "base/json.h"
#include "rt/walk_fields.h"
#include "rt/walk_plan.h"

/* ---- arguments by name ---- */

/* An item, and all that is said of it. */
struct line {
    const struct stream *s;
    uint32_t cmd, first_cmd; /* its command, and the first of those that it does                */
    uint32_t kernel;         /* enum kernel_id                                                  */
    const uint8_t *args;
    struct walk_item it;
    uint32_t takers;         /* work-groups that have tiles of it, so many it adds              */
    uint32_t behind;         /* items before this one are complete when it begins               */
    uint64_t counter;        /* when it is complete, and all before                             */
    uint64_t weights;        /* bytes of weights that it reads                                  */
};

/* The buffer that an address lies in, among those of the item's commands: one that is written where the kernel writes, for what is
 * added to lies in one place under two names. NULL: none. */
static const struct stream_buf *find_buf(const struct line *l, gpu_va va, uint8_t dir)
{
    const struct stream *s = l->s;
    const struct stream_buf *found = NULL;
    for (uint32_t c = l->cmd + 1; c-- > l->first_cmd;)
        for (uint32_t i = 0; i < s->cmds[c].n_uses; i++) {
            const struct stream_use *u = &s->uses[s->cmds[c].first_use + i];
            const struct stream_buf *b = &s->bufs[u->buf];
            if (b->arena != SADDR_ARENA(va) || SADDR_OFF(va) < b->off || SADDR_OFF(va) - b->off >= b->bytes)
                continue;
            if ((u->dir & USE_WRITE) == (dir & USE_WRITE))
                return b;
            found = found ? found : b;
        }
    return found;
}

static void put_address(FILE *f, const struct line *l, gpu_va va, uint8_t dir)
{
    static const char *const arenas[ARENA_ALL] = { "weights", "const", "kv", "state", "scratch", "io", "work", "host_io" };
    const struct stream_buf *b = find_buf(l, va, dir);
    uint64_t off = b ? SADDR_OFF(va) - b->off : SADDR_OFF(va);
    fputs(b ? stream_str(l->s, b->name) : arenas[SADDR_ARENA(va)], f);
    if (off || !b)
        fprintf(f, "+%" PRIu64, off);
}

/* Elements of arrays: as many as there are matrices. */
static uint32_t n_elements(const struct line *l, const struct walk_field *fd)
{
    uint32_t n_fields, n = fd->count;
    const struct walk_field *all = walk_fields(l->kernel, &n_fields);
    for (uint32_t i = 0; i < n_fields && fd->count > 1; i++)
        if (strcmp(all[i].name, "n_mats") == 0)
            memcpy(&n, l->args + all[i].off, sizeof n);
    return MIN(n, fd->count);
}

/* Zeros are not printed, but types. */
static void put_element(FILE *f, const struct line *l, const struct walk_field *fd, uint32_t i)
{
    uint64_t v = 0;
    float x;
    const uint8_t *p = l->args + fd->off + i * walk_field_bytes(fd);
    bool type = strncmp(fd->name, "type", 4) == 0;
    memcpy(&v, p, walk_field_bytes(fd));
    if (!v && !type)
        return;
    fprintf(f, " %s", fd->name);
    if (fd->count > 1)
        fprintf(f, "%u", i);
    fputc('=', f);
    if (fd->type == WF_gpu_va) {
        put_address(f, l, v, fd->dir);
    } else if (fd->type == WF_float) {
        memcpy(&x, p, sizeof x);
        fprintf(f, "%.9g", (double)x);
    } else if (type) {
        fputs(qtype_name((enum qtype)v), f);
    } else {
        fprintf(f, "%" PRIu64, v);
    }
}

static void put_args(FILE *f, const struct line *l)
{
    uint32_t n;
    const struct walk_field *all = walk_fields(l->kernel, &n);
    fprintf(f, "  ");
    for (uint32_t i = 0; i < n; i++)
        for (uint32_t k = 0; k < n_elements(l, &all[i]); k++)
            put_element(f, l, &all[i], k);
    fprintf(f, "\n");
}

/* ---- items ---- */

/* The weights that an item's addresses lie in, each once: into buf[], at most `room`, and their bytes into *bytes. Returns how many. */
static uint32_t weights_of(const struct line *l, const struct stream_buf **buf, uint32_t room, uint64_t *bytes)
{
    uint32_t n = 0;
    *bytes = 0;
    for (const uint16_t *off = kernel_infos[l->kernel].addresses(); *off != UINT16_MAX; off++) {
        gpu_va va;
        uint32_t i = 0;
        memcpy(&va, l->args + *off, sizeof va);
        const struct stream_buf *b = va && SADDR_ARENA(va) == ARENA_WEIGHTS ? find_buf(l, va, USE_READ) : NULL;
        while (i < n && buf[i] != b)
            i++;
        if (b && i == n && n < room) {
            buf[n++] = b;
            *bytes += b->bytes;
        }
    }
    return n;
}

enum { MAX_WEIGHTS = 40 };

/* No more than the commands say: an embedding or experts are not read as a whole. */
static uint64_t weight_bytes(const struct line *l)
{
    const struct stream_buf *buf[MAX_WEIGHTS];
    uint64_t bytes, most = 0;
    weights_of(l, buf, MAX_WEIGHTS, &bytes);
    for (uint32_t c = l->first_cmd; c <= l->cmd; c++)
        most += l->s->cmds[c].bytes;
    return MIN(bytes, most);
}

/* Items of a list, one after the other. */
struct walker {
    const struct walk_plan *p;
    const struct stream *s;
    uint32_t walk, next;
    uint64_t sum;
    uint64_t *sums; /* [n] what items 0..i add; the caller frees it */
    uint32_t behind;
};

static bool begin(struct walker *x, const struct walk_plan *p, const struct stream *s, uint32_t walk)
{
    *x = (struct walker){ .p = p, .s = s, .walk = walk, .sums = calloc(p->walk[walk].n + 1ull, sizeof *x->sums) };
    return x->sums != NULL;
}

static bool next_line(struct walker *x, struct line *l)
{
    const struct walk_run *w = &x->p->walk[x->walk];
    if (x->next == w->n)
        return false;
    uint32_t i = w->first + x->next;
    *l = (struct line){ .s = x->s, .cmd = x->p->launch[i].cmd, .first_cmd = walk_first_cmd(x->p, i),
                        .kernel = walk_kernel_find(x->p->kernel[x->p->launch[i].kernel].name),
                        .it = walk_plan_item(x->p, x->walk, x->next) };
    l->args = walk_plan_list(x->p, x->walk) + l->it.args;
    l->takers = MIN(l->it.groups, w->groups);
    while (x->behind < x->next && x->sums[x->behind] <= l->it.need)
        x->behind++;
    l->behind = x->behind;
    l->counter = x->sums[x->next] = x->sum += l->takers;
    l->weights = weight_bytes(l);
    x->next++;
    return true;
}

/* Tiles of an item that fall to work-group g: g, g + groups, and so on. */
static uint32_t tiles_of(const struct line *l, uint32_t groups, uint32_t g)
{
    return g < l->it.groups ? (l->it.groups - g - 1) / groups + 1 : 0;
}

/* Their share of the item's weights. */
static uint64_t share_of(const struct line *l, uint32_t tiles)
{
    return (uint64_t)((double)l->weights * tiles / l->it.groups);
}

static void put_command(FILE *f, const struct line *l)
{
    const struct cmd *c = &l->s->cmds[l->cmd];
    fprintf(f, "%s command %u", cmd_name(c->op), l->cmd);
    if (l->first_cmd < l->cmd)
        fprintf(f, " from %u", l->first_cmd);
    if (c->layer != CMD_NO_LAYER)
        fprintf(f, " layer %u", c->layer);
    fprintf(f, " kernel %s", kernel_infos[l->kernel].name);
}

static void put_item(FILE *f, const struct line *l, uint32_t i)
{
    fprintf(f, "%u ", i);
    put_command(f, l);
    fprintf(f, " grid %u %u %u by %u need %u behind %u adds %u", l->it.grid[0], l->it.grid[1], l->it.grid[2], l->takers, l->it.need,
            l->behind, l->takers);
    if (l->weights)
        fprintf(f, " weights %" PRIu64, l->weights);
    fprintf(f, "\n");
    put_args(f, l);
}

/* ---- what work-groups get ---- */

struct load {
    uint32_t items;
    uint64_t tiles, weights;
};

/* load[groups] of a list. */
static bool add_loads(const struct walk_plan *p, const struct stream *s, uint32_t walk, struct load *load)
{
    struct walker x;
    struct line l;
    uint32_t groups = p->walk[walk].groups;
    if (!begin(&x, p, s, walk))
        return false;
    while (next_line(&x, &l))
        for (uint32_t g = 0; g < l.takers; g++) {
            uint32_t tiles = tiles_of(&l, groups, g);
            load[g].items++;
            load[g].tiles += tiles;
            load[g].weights += share_of(&l, tiles);
        }
    free(x.sums);
    return true;
}

static uint32_t most_groups(const struct walk_plan *p)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < p->h.n_walks; i++)
        n = MAX(n, p->walk[i].groups);
    return n;
}

static bool same_load(const struct load *a, const struct load *b)
{
    return a->items == b->items && a->tiles == b->tiles && a->weights == b->weights;
}

/* A line for each run of work-groups that get the same. */
static void put_loads(FILE *f, const struct load *load, uint32_t n)
{
    for (uint32_t g = 0, k; g < n; g = k) {
        for (k = g + 1; k < n && same_load(&load[k], &load[g]); k++)
            ;
        if (k == g + 1)
            fprintf(f, "work-group %u:", g);
        else
            fprintf(f, "work-groups %u to %u:", g, k - 1);
        fprintf(f, " items %u tiles %" PRIu64 " weights %" PRIu64 "\n", load[g].items, load[g].tiles, load[g].weights);
    }
}

/* ---- all of it ---- */

static void put_head(FILE *f, const struct walk_plan *p)
{
    uint32_t alone = 0;
    for (uint32_t i = 0; i < p->h.n_launches; i++)
        alone += p->launch[i].walk == WALK_ALONE;
    fprintf(f, "walk version %u for %s: cores %u, lists %u of at most %u bytes, launches %u, alone %u\n",
            (unsigned)(uint8_t)p->h.magic[7], p->h.card, p->h.n_cores, p->h.n_walks, p->h.form_bytes, p->h.n_launches, alone);
}

static void put_list_head(FILE *f, const struct walk_plan *p, uint32_t walk)
{
    const struct walk_run *w = &p->walk[walk];
    fprintf(f, "list %u launches %u to %u work-groups %u bytes %u\n", walk, w->first, w->first + w->n - 1, w->groups, w->bytes);
}

static void put_verdict(FILE *f, const struct walk_plan *p, const struct stream *s)
{
    struct walk_seen seen;
    struct err e = { 0 };
    if (walk_plan_verify(p, s, &seen, &e))
        fprintf(f, "refused: %s\n", e.msg);
    else
        fprintf(f, "verified: no list deadlocks, %u waits of commands are kept, %u pairs of items may overlap\n", seen.waits, seen.pairs);
}

static void put_alone(FILE *f, const struct walk_plan *p, const struct stream *s, uint32_t i)
{
    const struct walk_launch *l = &p->launch[i];
    fprintf(f, "launch %u alone %s command %u kernel %s\n", i, cmd_name(s->cmds[l->cmd].op), l->cmd, p->kernel[l->kernel].name);
}

void walk_plan_dump(FILE *f, const struct walk_plan *p, const struct stream *s)
{
    uint32_t n = most_groups(p);
    struct load *load = calloc(n + 1ull, sizeof *load);
    put_head(f, p);
    for (uint32_t i = 0; i < p->h.n_launches; i++) {
        struct walker x;
        struct line l;
        uint32_t walk = p->launch[i].walk;
        if (walk == WALK_ALONE) {
            put_alone(f, p, s, i);
        } else if (i == p->walk[walk].first && begin(&x, p, s, walk)) {
            put_list_head(f, p, walk);
            for (uint32_t k = 0; next_line(&x, &l); k++)
                put_item(f, &l, k);
            free(x.sums);
        }
    }
    for (uint32_t i = 0; i < p->h.n_walks && load; i++)
        add_loads(p, s, i, load);
    if (load)
        put_loads(f, load, n);
    free(load);
    put_verdict(f, p, s);
}

void walk_plan_dump_group(FILE *f, const struct walk_plan *p, const struct stream *s, uint32_t group)
{
    put_head(f, p);
    for (uint32_t i = 0; i < p->h.n_walks; i++) {
        struct walker x;
        struct line l;
        struct load sum = { 0 };
        uint32_t groups = p->walk[i].groups;
        if (!begin(&x, p, s, i))
            return;
        put_list_head(f, p, i);
        for (uint32_t k = 0; next_line(&x, &l); k++) {
            uint32_t tiles = tiles_of(&l, groups, group);
            if (!tiles || group >= groups)
                continue;
            sum.items++;
            sum.tiles += tiles;
            sum.weights += share_of(&l, tiles);
            fprintf(f, "%u ", k);
            put_command(f, &l);
            fprintf(f, " tile %u", group);
            if (tiles > 1)
                fprintf(f, " every %u to %u", groups, group + (tiles - 1) * groups);
            fprintf(f, " of %u", l.it.groups);
            if (l.weights)
                fprintf(f, " weights %" PRIu64, share_of(&l, tiles));
            if (l.it.need)
                fprintf(f, ", waits for %u: items up to %u", l.it.need, l.behind - 1);
            fprintf(f, ", adds 1 of %u\n", l.takers);
        }
        fprintf(f, "work-group %u: items %u tiles %" PRIu64 " weights %" PRIu64 "\n", group, sum.items, sum.tiles, sum.weights);
        free(x.sums);
    }
    put_verdict(f, p, s);
}

/* ---- JSON ---- */

static json_t *json_name(const char *text)
{
    json_t *name = json_string(text); /* NULL where a name is no UTF-8 */
    return name ? name : json_string("?");
}

static json_t *json_item(const struct line *l, uint32_t i)
{
    const struct stream_buf *buf[MAX_WEIGHTS];
    const struct cmd *c = &l->s->cmds[l->cmd];
    uint64_t bytes;
    json_t *names = json_array();
    for (uint32_t k = 0, n = weights_of(l, buf, MAX_WEIGHTS, &bytes); k < n; k++)
        json_array_append_new(names, json_name(stream_str(l->s, buf[k]->name)));
    return json_pack("{s:I, s:s, s:I, s:I, s:o, s:s, s:[I, I, I], s:I, s:I, s:I, s:I, s:I, s:o}", "index", (json_int_t)i, "op",
                     cmd_name(c->op), "command", (json_int_t)l->cmd, "first_command", (json_int_t)l->first_cmd, "layer",
                     c->layer == CMD_NO_LAYER ? json_null() : json_integer(c->layer), "kernel", kernel_infos[l->kernel].name, "grid",
                     (json_int_t)l->it.grid[0], (json_int_t)l->it.grid[1], (json_int_t)l->it.grid[2], "args", (json_int_t)l->it.args,
                     "need", (json_int_t)l->it.need, "behind", (json_int_t)l->behind, "adds", (json_int_t)l->takers, "weight_bytes",
                     (json_int_t)l->weights, "weights", names);
}

static json_t *json_list(const struct walk_plan *p, const struct stream *s, uint32_t walk)
{
    const struct walk_run *w = &p->walk[walk];
    json_t *items = json_array(), *groups = json_array();
    struct load *load = calloc(w->groups, sizeof *load);
    struct walker x;
    struct line l;
    if (begin(&x, p, s, walk))
        for (uint32_t k = 0; next_line(&x, &l); k++)
            json_array_append_new(items, json_item(&l, k));
    free(x.sums);
    if (load && add_loads(p, s, walk, load))
        for (uint32_t g = 0; g < w->groups; g++)
            json_array_append_new(groups, json_pack("{s:I, s:I, s:I}", "items", (json_int_t)load[g].items, "tiles",
                                                    (json_int_t)load[g].tiles, "weight_bytes", (json_int_t)load[g].weights));
    free(load);
    return json_pack("{s:I, s:I, s:I, s:I, s:o, s:o}", "first_launch", (json_int_t)w->first, "launches", (json_int_t)w->n,
                     "work_groups", (json_int_t)w->groups, "bytes", (json_int_t)w->bytes, "items", items, "loads", groups);
}

int walk_plan_json(FILE *f, const struct walk_plan *p, const struct stream *s)
{
    struct walk_seen seen = { 0 };
    struct err e = { 0 };
    json_t *lists = json_array(), *alone = json_array();
    bool good = walk_plan_verify(p, s, &seen, &e) == 0;
    for (uint32_t i = 0; i < p->h.n_walks; i++)
        json_array_append_new(lists, json_list(p, s, i));
    for (uint32_t i = 0; i < p->h.n_launches; i++)
        if (p->launch[i].walk == WALK_ALONE)
            json_array_append_new(alone, json_pack("{s:I, s:I, s:s}", "launch", (json_int_t)i, "command", (json_int_t)p->launch[i].cmd,
                                                   "kernel", p->kernel[p->launch[i].kernel].name));
    json_t *root = json_pack("{s:I, s:s, s:I, s:I, s:o, s:o, s:{s:b, s:s, s:I, s:I}}", "version", (json_int_t)(uint8_t)p->h.magic[7],
                             "card", p->h.card, "cores", (json_int_t)p->h.n_cores, "list_bytes_at_most", (json_int_t)p->h.form_bytes,
                             "lists", lists, "alone", alone, "verified", "ok", good, "message", e.msg, "waits",
                             (json_int_t)seen.waits, "pairs", (json_int_t)seen.pairs);
    return json_print(f, root, JSON_INDENT(1));
}
