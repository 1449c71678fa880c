#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/ckd.h"
#include "base/log.h"
#include "oracle/cpu.h"

enum { CHUNK_BYTES = 64 << 20, HUGE = 2 << 20, DROP_BYTES = 4 << 20 };
enum { PANEL_RAW, PANEL_BUSY, PANEL_READY };

struct cpu_chunk {
    struct cpu_chunk *next;
    uint8_t *mem;
    size_t bytes, used;
};

void *cpu_pages(size_t bytes)
{
    void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED)
        return NULL;
#ifdef MADV_HUGEPAGE
    if (bytes >= HUGE)
        madvise(p, bytes, MADV_HUGEPAGE);
#endif
    return p;
}

void cpu_pages_free(void *p, size_t bytes)
{
    if (p)
        munmap(p, bytes);
}

/* Marks the weights that lie wholly in read-only mappings of files: only their pages may be dropped. */
static void find_file_mappings(struct cpu_weights *w)
{
#ifdef __linux__
    FILE *f = fopen("/proc/self/maps", "r");
    char line[512];
    while (f && fgets(line, sizeof line, f)) {
        unsigned long lo, hi, inode;
        char perms[8];
        if (sscanf(line, "%lx-%lx %7s %*s %*s %lu", &lo, &hi, perms, &inode) != 4 || inode == 0 || perms[1] == 'w')
            continue;
        for (uint32_t i = 0; i < w->n; i++)
            w->file_backed[i] |= (uintptr_t)w->data[i] >= lo && (uintptr_t)w->data[i] + w->table[i].bytes <= hi;
    }
    if (f)
        fclose(f);
#endif
}

int cpu_weights_init(struct cpu_weights *w, const struct tier_weights *tw, bool mapped, struct err *e)
{
    w->n = tw->s->h.n_weights;
    w->data = tw->data;
    w->mapped = mapped;
    /* the stream may go before the tier does: keep the table */
    struct stream_weight *table = calloc(w->n ? w->n : 1, sizeof *table);
    w->file_backed = calloc(w->n ? w->n : 1, 1);
    w->table = table;
    const uint8_t **data = calloc(w->n ? w->n : 1, sizeof *data);
    w->data = data;
    if (!table || !w->file_backed || !data)
        return err_set(e, -ENOMEM, "cpu: table of %u weights", w->n);
    for (uint32_t i = 0; i < w->n; i++) {
        table[i] = tw->s->weights[i];
        data[i] = tw->data[i];
    }
    find_file_mappings(w);
    return 0;
}

void cpu_weights_finish(struct cpu_weights *w)
{
    for (uint32_t i = 0; i < w->n_views; i++) {
        free(w->views[i]->state);
        free(w->views[i]->left);
        free(w->views[i]);
    }
    free(w->views);
    while (w->chunks) {
        struct cpu_chunk *next = w->chunks->next;
        cpu_pages_free(w->chunks->mem, w->chunks->bytes);
        free(w->chunks);
        w->chunks = next;
    }
    free((void *)w->table);
    free((void *)w->data);
    free(w->file_backed);
}

const uint8_t *cpu_weights_at(const struct cpu_weights *w, uint64_t off, uint32_t *index)
{
    uint32_t lo = 0, hi = w->n; /* the last weight that starts at or before off */
    while (lo < hi) {
        uint32_t mid = (lo + hi) / 2;
        if (w->table[mid].off <= off)
            lo = mid + 1;
        else
            hi = mid;
    }
    if (lo == 0)
        return NULL;
    uint32_t i = lo - 1;
    if (off - w->table[i].off >= w->table[i].bytes)
        return NULL;
    if (index)
        *index = i;
    return w->data[i] + (off - w->table[i].off);
}

static uint8_t *reserve(struct cpu_weights *w, size_t bytes)
{
    bytes = (size_t)align_up(bytes, 64);
    struct cpu_chunk *c = w->chunks;
    if (!c || c->bytes - c->used < bytes) {
        c = calloc(1, sizeof *c);
        if (!c)
            return NULL;
        c->bytes = bytes > CHUNK_BYTES / 4 ? (size_t)align_up(bytes, HUGE) : CHUNK_BYTES;
        c->mem = cpu_pages(c->bytes);
        if (!c->mem) {
            free(c);
            return NULL;
        }
        /* a chunk of one large view goes behind the one that small views share */
        if (bytes > CHUNK_BYTES / 4 && w->chunks) {
            c->next = w->chunks->next;
            w->chunks->next = c;
        } else {
            c->next = w->chunks;
            w->chunks = c;
        }
    }
    uint8_t *p = c->mem + c->used;
    c->used += bytes;
    return p;
}

static uint32_t n_groups(const struct cpu_view *v)
{
    return (v->panels + v->group - 1) / v->group;
}

static struct cpu_view *find_view(const struct cpu_weights *w, const struct cpu_view *like)
{
    for (uint32_t i = 0; i < w->n_views; i++) {
        struct cpu_view *v = w->views[i];
        if (v->off == like->off && v->type == like->type && v->n_in == like->n_in && v->n_out == like->n_out &&
            v->n_mats == like->n_mats && v->mat_stride == like->mat_stride)
            return v;
    }
    return NULL;
}

int cpu_weights_view(struct cpu_weights *w, uint64_t off, enum qtype t, uint32_t n_in, uint32_t n_out,
                     uint32_t n_mats, size_t mat_stride, struct cpu_view **out, struct err *e)
{
    uint32_t index = 0;
    struct cpu_view like = { .off = off, .type = t, .n_in = n_in, .n_out = n_out, .n_mats = n_mats,
                             .mat_stride = mat_stride };
    *out = find_view(w, &like);
    if (*out)
        return 0;
    like.rows = cpu_weights_at(w, off, &index);
    if (!like.rows)
        return err_set(e, -EINVAL, "cpu: weight address %#llx is in no weight", (unsigned long long)off);
    like.row_bytes = qtype_row_bytes(t, n_in);
    like.panels = (n_out + MM_ROWS - 1) / MM_ROWS;
    like.panel_bytes = mm_panel_bytes(t, n_in);
    like.file_backed = w->file_backed[index];
    uint64_t need = (uint64_t)(n_mats - 1) * mat_stride + (uint64_t)n_out * like.row_bytes;
    if (need > w->table[index].bytes - (off - w->table[index].off))
        return err_set(e, -EINVAL, "cpu: %u matrices of %u x %u reach %llu bytes past their weight", n_mats, n_out,
                       n_in, (unsigned long long)(need - (w->table[index].bytes - (off - w->table[index].off))));
    if (w->n_views == w->cap_views) {
        uint32_t cap = w->cap_views ? 2 * w->cap_views : 64;
        struct cpu_view **views = realloc(w->views, cap * sizeof *views);
        if (!views)
            return err_set(e, -ENOMEM, "cpu: %u weight views", cap);
        w->views = views;
        w->cap_views = cap;
    }
    struct cpu_view *v = malloc(sizeof *v);
    if (!v)
        return err_set(e, -ENOMEM, "cpu: weight view");
    *v = like;
    w->views[w->n_views++] = v;
    *out = v;
    if (w->mapped)
        return 0;
    size_t panels = (size_t)n_mats * v->panels;
    v->packed = reserve(w, panels * v->panel_bytes);
    v->state = calloc(panels, sizeof *v->state);
    v->group = (uint32_t)MAX(DROP_BYTES / v->panel_bytes, (size_t)1);
    v->left = calloc((size_t)n_mats * n_groups(v), sizeof *v->left);
    if (!v->packed || !v->state || !v->left)
        return err_set(e, -ENOMEM, "cpu: %zu MiB of packed weights; try ZINC_CPU_WEIGHTS=mapped",
                       panels * v->panel_bytes >> 20);
    for (uint32_t i = 0; i < n_mats * n_groups(v); i++)
        atomic_init(&v->left[i], MIN(v->group, v->panels - i % n_groups(v) * v->group));
    return 0;
}

/* The packed copy took over: the pages of the file need not stay resident. They come back by themselves when somebody
 * reads them (a tied embedding does). */
static void drop_pages(const struct cpu_view *v, uint32_t m, uint32_t group)
{
    uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE), base = (uintptr_t)v->rows + m * v->mat_stride;
    uint32_t row0 = group * v->group * MM_ROWS, row1 = MIN(row0 + v->group * MM_ROWS, v->n_out);
    uintptr_t lo = (base + row0 * v->row_bytes + page - 1) / page * page;
    uintptr_t hi = (base + row1 * v->row_bytes) / page * page;
    if (v->file_backed && lo < hi)
        madvise((void *)lo, hi - lo, MADV_DONTNEED);
}

static void pack(const struct cpu_view *v, uint32_t m, uint32_t p, uint8_t *dst)
{
    uint32_t row = p * MM_ROWS, n = MIN(v->n_out - row, (uint32_t)MM_ROWS);
    mm_pack(v->type, v->n_in, v->rows + m * v->mat_stride + row * v->row_bytes, v->row_bytes, n, dst);
}

static void make_ready(struct cpu_weights *w, struct cpu_view *v, uint32_t m, uint32_t p)
{
    size_t i = (size_t)m * v->panels + p;
    unsigned char raw = PANEL_RAW;
    if (atomic_compare_exchange_strong(&v->state[i], &raw, PANEL_BUSY)) {
        pack(v, m, p, v->packed + i * v->panel_bytes);
        atomic_store_explicit(&v->state[i], PANEL_READY, memory_order_release);
        atomic_fetch_add_explicit(&w->packed_bytes, v->panel_bytes, memory_order_relaxed);
        if (atomic_fetch_sub(&v->left[m * n_groups(v) + p / v->group], 1) == 1)
            drop_pages(v, m, p / v->group);
        return;
    }
    while (atomic_load_explicit(&v->state[i], memory_order_acquire) != PANEL_READY)
        ; /* another worker is at it, for microseconds */
}

const uint8_t *cpu_view_panels(struct cpu_weights *w, struct cpu_view *v, uint32_t m, uint32_t p, uint32_t n,
                               uint8_t *scratch)
{
    if (!v->packed) {
        for (uint32_t i = 0; i < n; i++)
            pack(v, m, p + i, scratch + i * v->panel_bytes);
        return scratch;
    }
    size_t first = (size_t)m * v->panels + p;
    for (uint32_t i = 0; i < n; i++)
        if (atomic_load_explicit(&v->state[first + i], memory_order_acquire) != PANEL_READY)
            make_ready(w, v, m, p + i);
    return v->packed + first * v->panel_bytes;
}
