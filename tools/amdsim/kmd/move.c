/* Buffers in VRAM at another place, as an eviction and the way back leave them: page tables lead there, and nothing is in reach
 * where the buffer was, so an address that the model keeps instead of translating again is a crash.
 *
 * Places are two views of the file behind the card's memory. What a program has mapped goes on showing the buffer, as with a
 * kernel, which takes such mappings away (ttm_bo_unmap_virtual) and makes them again at the next access. */
#include <pthread.h>
#include <stdio.h>
#include <sys/mman.h>
#include <time.h>

#include "tools/amdsim/kmd/kmd.h"

static bool to_view(struct bo *bo, uint32_t to)
{
    uint8_t *host = card.view[to] + bo->off;
    if (mprotect(host, bo->bytes, PROT_READ | PROT_WRITE))
        return false;
    mprotect(bo->host, bo->bytes, PROT_NONE);
    bo->view = to;
    bo->host = host;
    return true;
}

void bo_first_view(struct bo *bo)
{
    if (bo->view)
        to_view(bo, 0);
}

static void move(struct bo *bo)
{
    if (!to_view(bo, !bo->view))
        return;
    card.n_bytes_moved += bo->bytes;
    for (struct gpuvm *v = card.vms; v; v = v->next)
        for (uint32_t i = 0; i < v->n; i++)
            if (v->maps[i].bo == bo)
                vm_move(v->vm, v->maps[i].va, v->maps[i].bytes, bo->host + v->maps[i].bo_off);
}

/* False: a call of the driver goes on, which may itself wait for the command processor to stop. */
static bool lock_card(void)
{
    enum { TRIES = 200 };
    for (int i = 0; i < TRIES; i++) {
        if (pthread_mutex_trylock(&card.lock) == 0)
            return true;
        nanosleep(&(struct timespec){ .tv_nsec = 100000 }, NULL);
    }
    return false;
}

/* Nothing runs on the card. --strict knows memory by where it lies and does not see a move. */
void card_move_vram(void)
{
    if (card.opt.strict || !lock_card())
        return;
    for (uint32_t i = 0; i < card.n_bos; i++)
        if (card.bos[i]->domain == KMD_VRAM && !card.bos[i]->doorbell)
            move(card.bos[i]);
    pthread_mutex_unlock(&card.lock);
}
