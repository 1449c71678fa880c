/* Decoded instructions, kept by page of host memory: whoever maps the same code shares them, in any address space. */
#include "tools/amdsim/isa/mem.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 4096, INST_DWORDS_MAX = 4, BLOCKS_KEPT = 16 };

struct isa_code {
    const struct chip *chip;
    pthread_mutex_t lock; /* of decoding and of adding pages; looking up takes none */
    struct code_page *bucket[BUCKETS];
    pthread_mutex_t block_lock;
    struct isa_group *block[BLOCKS_KEPT];
};

struct isa_code *isa_code_create(const struct chip *c)
{
    struct isa_code *code = calloc(1, sizeof *code);
    if (!code)
        return NULL;
    code->chip = c;
    pthread_mutex_init(&code->lock, NULL);
    pthread_mutex_init(&code->block_lock, NULL);
    return code;
}

void isa_code_invalidate(struct isa_code *c)
{
    for (uint32_t i = 0; i < BUCKETS; i++) {
        struct code_page *next;
        for (struct code_page *p = c->bucket[i]; p; p = next) {
            next = p->next;
            free(p);
        }
        c->bucket[i] = NULL;
    }
}

void isa_code_destroy(struct isa_code *c)
{
    if (!c)
        return;
    isa_code_invalidate(c);
    for (uint32_t i = 0; i < BLOCKS_KEPT; i++)
        free(c->block[i]);
    pthread_mutex_destroy(&c->lock);
    pthread_mutex_destroy(&c->block_lock);
    free(c);
}

static struct code_page *find_page(struct code_page *p, const uint8_t *host)
{
    while (p && p->host != host)
        p = p->next;
    return p;
}

struct code_page *code_page_of(struct isa_code *c, const uint8_t *host)
{
    uint64_t key = (uintptr_t)host >> VM_PAGE_SHIFT;
    struct code_page **head = &c->bucket[(key ^ key >> 12 ^ key >> 24) % BUCKETS];
    struct code_page *p = find_page(__atomic_load_n(head, __ATOMIC_ACQUIRE), host);
    if (p)
        return p;
    pthread_mutex_lock(&c->lock);
    p = find_page(*head, host);
    if (!p && (p = aligned_alloc(64, (sizeof *p + 63) & ~(size_t)63))) {
        memset(p, 0, sizeof *p);
        p->host = host;
        p->next = *head;
        __atomic_store_n(head, p, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&c->lock);
    return p;
}

/* The dwords at va, as far as they may be executed. */
static uint32_t fetch(struct wave *w, gva va, uint32_t dw[INST_DWORDS_MAX])
{
    uint32_t n = 0;
    for (; n < INST_DWORDS_MAX; n++) {
        const void *p = vm_at(w->g->l->vm, va + n * 4, VM_EXEC);
        if (!p)
            break;
        memcpy(&dw[n], p, 4);
    }
    return n;
}

bool code_decode(struct wave *w, struct inst *in)
{
    struct isa_code *c = w->g->l->code;
    uint32_t dw[INST_DWORDS_MAX];
    uint32_t n = fetch(w, w->at, dw);
    struct inst d;
    int rc = inst_decode(w->chip, dw, n, &d);
    if (rc && d.dwords > n) {
        w->fault.va = w->at + n * 4;
        w->fault.exec = true;
        wave_fault(w, ISA_FAULT_PAGE, "the instruction reaches into a page that is not mapped for execution");
        return false;
    }
    if (rc) {
        const char *graphics = inst_graphics(w->chip, dw[0]);
        if (graphics)
            wave_fault(w, ISA_FAULT_ILLEGAL, "%s: an instruction of graphics, which is not modelled", graphics);
        else
            wave_fault(w, ISA_FAULT_ILLEGAL, "%s does not have this instruction", w->chip->name);
        return false;
    }
    if (w->g->l->watch && !mem_ask(w, false, ISA_CODE, w->at, d.dwords * 4u, false, 0))
        return false;
    pthread_mutex_lock(&c->lock);
    if (!in->run) {
        inst_fn *run = d.run;
        d.run = NULL;
        *in = d;
        __atomic_store_n(&in->run, run, __ATOMIC_RELEASE);
    }
    pthread_mutex_unlock(&c->lock);
    return true;
}

struct isa_group *code_block_get(struct isa_code *c, uint64_t bytes)
{
    struct isa_group *g = NULL;
    bytes = (bytes + 4095) & ~(uint64_t)4095;
    pthread_mutex_lock(&c->block_lock);
    for (uint32_t i = 0; i < BLOCKS_KEPT && !g; i++)
        if (c->block[i] && c->block[i]->block_bytes == bytes) {
            g = c->block[i];
            c->block[i] = NULL;
        }
    pthread_mutex_unlock(&c->block_lock);
    if (!g && (g = aligned_alloc(4096, bytes)))
        g->block_bytes = bytes;
    return g;
}

void code_block_put(struct isa_code *c, struct isa_group *g)
{
    struct isa_group *victim = g;
    pthread_mutex_lock(&c->block_lock);
    for (uint32_t i = 0; i < BLOCKS_KEPT && victim; i++)
        if (!c->block[i]) {
            c->block[i] = g;
            victim = NULL;
        }
    if (victim) { /* sizes change from launch to launch: the oldest makes room */
        victim = c->block[0];
        memmove(c->block, c->block + 1, sizeof c->block - sizeof c->block[0]);
        c->block[BLOCKS_KEPT - 1] = g;
    }
    pthread_mutex_unlock(&c->block_lock);
    free(victim);
}
