/* rt/amd/copy.c: between host memory and the GPU's. Where the host sees the GPU's memory it writes there directly,
 * and reads through a piece of host memory that the GPU fills, because reading over PCIe word by word is slow. Where
 * it does not, the GPU copies both ways: with k_gather, which moves rows, or before that is there with packets. */
#include <errno.h>
#include <string.h>

#include "base/ckd.h"
#include "kernels/klaunch.h"
#include "rt/amd/amd.h"
#include "rt/blob.h"
#include "rt/dispatch.h"

enum {
    ROW_BYTES = 16 << 10,
    STAGE_ROWS = 512,
    STAGE_BYTES = ROW_BYTES * STAGE_ROWS,
    LIST_AT = sizeof(ka_step),              /* u32 row numbers behind the step block          */
    ZERO_LIST_AT = LIST_AT + 4 * STAGE_ROWS, /* the same, all 0                               */
    DATA_AT = 2 * AMD_PAGE,
    PACKET_WORDS = 512,                     /* of data in one WRITE_DATA                      */
    SMALL = 256,                            /* bytes that are read over PCIe directly          */
    COPY_SECONDS = 600,
};
_Static_assert(ZERO_LIST_AT + 4 * STAGE_ROWS <= DATA_AT, "the lists end before the data");

int amd_copier_init(struct amd_copier *c, struct amd_winsys *w, struct err *e)
{
    *c = (struct amd_copier){ .w = w };
    int rc = amd_mem_alloc(w, AMD_STAGE, DATA_AT + STAGE_BYTES, "staging", &c->stage, e);
    if (rc)
        return rc;
    memset(c->stage.cpu, 0, DATA_AT); /* the rest is touched when something goes through: 8 MiB are 2048 page faults */
    uint32_t *list = (uint32_t *)((uint8_t *)c->stage.cpu + LIST_AT);
    for (uint32_t i = 0; i < STAGE_ROWS; i++)
        list[i] = i;
    return 0;
}

void amd_copier_free(struct amd_copier *c)
{
    amd_mem_free(&c->stage);
    c->has_gather = false;
}

/* rows of n floats: y[i] = x[list[i]]. */
static int gather(struct amd_copier *c, uint64_t y, uint64_t x, uint32_t rows, uint32_t n, uint32_t list_at,
                  struct err *e)
{
    volatile ka_step *step = c->stage.cpu;
    step->n_rows = step->n_out = rows;
    ka_gather a = { .step = c->stage.va, .y = y, .x = x, .out_row = c->stage.va + list_at, .n = n };
    struct amd_launch l = { .kernel = &c->gather, .args = &a, .args_bytes = sizeof a, .groups = { rows, 1, 1 },
                            .threads = kernel_infos[K_gather].threads };
    return amd_run_kernel(c->w, &l, COPY_SECONDS * 1000000000ull, NULL, e);
}

/* n bytes, a multiple of 4: whole rows, then what is left as one short row. */
static int gather_bytes(struct amd_copier *c, uint64_t y, uint64_t x, uint64_t n, struct err *e)
{
    uint32_t rows = (uint32_t)(n / ROW_BYTES), rest = (uint32_t)(n % ROW_BYTES);
    int rc = rows ? gather(c, y, x, rows, ROW_BYTES / 4, LIST_AT, e) : 0;
    if (!rc && rest)
        rc = gather(c, y + n - rest, x + n - rest, 1, rest / 4, LIST_AT, e);
    return rc;
}

/* The packets go into the stage's data, piece by piece. */
static int by_packets(struct amd_copier *c, uint64_t va, const uint8_t *from, uint64_t n, struct err *e)
{
    enum { IB_DW = PM4_DW_WRITE_DATA + PACKET_WORDS + 64 };
    struct amd_winsys *w = c->w;
    uint32_t words[PACKET_WORDS];
    int rc = 0;
    for (uint64_t at = 0; at < n && !rc;) {
        uint32_t bytes = (uint32_t)MIN(n - at, (uint64_t)sizeof words);
        struct pm4_buf b;
        uint64_t point;
        memcpy(words, from + at, bytes);
        pm4_init(&b, w->card.chip->gen, (uint32_t *)((uint8_t *)c->stage.cpu + DATA_AT), IB_DW);
        pm4_write_data(&b, va + at, words, bytes / 4, PM4_WRITE_CONFIRM);
        amd_ib_pad(w, &b);
        if (b.rc)
            return err_set(e, b.rc, "%s: WRITE_DATA: %s", w->name, b.why);
        rc = amd_submit(w, c->stage.va + DATA_AT, b.n, &point, e);
        at += bytes;
        if (!rc)
            rc = amd_wait(w, point, COPY_SECONDS * 1000000000ull, e);
    }
    w->host_wrote_vram = true; /* the next submission begins with fresh caches */
    return rc;
}

static int check(const struct amd_copier *c, const struct amd_mem *m, uint64_t off, uint64_t n, struct err *e)
{
    bool whole = m->cpu || (off % 4 == 0 && n % 4 == 0);
    if (whole && off <= m->bytes && n <= m->bytes - off)
        return 0;
    return err_set(e, -EINVAL, "%s: %llu bytes at %llu of %s, which has %llu: multiples of 4 inside it are expected",
                   c->w->name, (unsigned long long)n, (unsigned long long)off, m->name, (unsigned long long)m->bytes);
}

int amd_upload(struct amd_copier *c, struct amd_mem *to, uint64_t off, const void *from, uint64_t n, struct err *e)
{
    int rc = check(c, to, off, n, e);
    if (rc || !n)
        return rc;
    if (to->cpu) {
        memcpy((uint8_t *)to->cpu + off, from, n);
        amd_store_fence();
        c->w->host_wrote_vram = true;
        return 0;
    }
    if (!c->has_gather)
        return by_packets(c, to->va + off, from, n, e);
    for (uint64_t at = 0; at < n && !rc; at += STAGE_BYTES) {
        uint64_t bytes = MIN(n - at, (uint64_t)STAGE_BYTES);
        memcpy((uint8_t *)c->stage.cpu + DATA_AT, (const uint8_t *)from + at, bytes);
        rc = gather_bytes(c, to->va + off + at, c->stage.va + DATA_AT, bytes, e);
    }
    return rc;
}

int amd_download(struct amd_copier *c, const struct amd_mem *from, uint64_t off, void *to, uint64_t n, struct err *e)
{
    bool direct = from->kind == AMD_HOST || (from->cpu && (!c->has_gather || n <= SMALL));
    int rc = check(c, from, off, n, e);
    if (rc || !n)
        return rc;
    if (direct || off % 4 || n % 4) {
        memcpy(to, (const uint8_t *)from->cpu + off, n);
        return 0;
    }
    if (!c->has_gather)
        return err_set(e, -ENOTSUP, "%s: %s: the host does not see it, and the kernel that copies is not loaded",
                       c->w->name, from->name);
    for (uint64_t at = 0; at < n && !rc; at += STAGE_BYTES) {
        uint64_t bytes = MIN(n - at, (uint64_t)STAGE_BYTES);
        rc = gather_bytes(c, c->stage.va + DATA_AT, from->va + off + at, bytes, e);
        if (!rc)
            memcpy((uint8_t *)to + at, (uint8_t *)c->stage.cpu + DATA_AT, bytes);
    }
    return rc;
}

int amd_zero(struct amd_copier *c, struct amd_mem *to, uint64_t off, uint64_t n, struct err *e)
{
    int rc = check(c, to, off, n, e);
    if (rc || !n)
        return rc;
    if (to->cpu) {
        memset((uint8_t *)to->cpu + off, 0, n);
        amd_store_fence();
        c->w->host_wrote_vram = true;
        return 0;
    }
    if (!c->has_gather)
        return err_set(e, -ENOTSUP, "%s: %s: the host does not see it, and the kernel that copies is not loaded",
                       c->w->name, to->name);
    memset((uint8_t *)c->stage.cpu + DATA_AT, 0, ROW_BYTES);
    for (uint64_t at = 0; at < n && !rc; at += STAGE_BYTES) {
        uint64_t bytes = MIN(n - at, (uint64_t)STAGE_BYTES);
        uint32_t rows = (uint32_t)(bytes / ROW_BYTES), rest = (uint32_t)(bytes % ROW_BYTES);
        if (rows)
            rc = gather(c, to->va + off + at, c->stage.va + DATA_AT, rows, ROW_BYTES / 4, ZERO_LIST_AT, e);
        if (!rc && rest)
            rc = gather(c, to->va + off + at + (uint64_t)rows * ROW_BYTES, c->stage.va + DATA_AT, 1, rest / 4,
                        ZERO_LIST_AT, e);
    }
    return rc;
}

int amd_copy(struct amd_copier *c, struct amd_mem *m, uint64_t dst, uint64_t src, uint64_t n, struct err *e)
{
    bool words = dst % 4 == 0 && src % 4 == 0 && n % 4 == 0;
    int rc = check(c, m, dst, n, e);
    if (rc || (rc = check(c, m, src, n, e)))
        return rc;
    if (!words || !c->has_gather) {
        if (!m->cpu)
            return err_set(e, -EINVAL, "%s: copying %llu bytes from %llu to %llu of %s: multiples of 4 are expected",
                           c->w->name, (unsigned long long)n, (unsigned long long)src, (unsigned long long)dst,
                           m->name);
        memcpy((uint8_t *)m->cpu + dst, (const uint8_t *)m->cpu + src, n);
        amd_store_fence();
        c->w->host_wrote_vram = true;
        return 0;
    }
    for (uint64_t at = 0; at < n && !rc; at += STAGE_BYTES)
        rc = gather_bytes(c, m->va + dst + at, m->va + src + at, MIN(n - at, (uint64_t)STAGE_BYTES), e);
    return rc;
}
