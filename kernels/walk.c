/* kernels/walk.c: the walk over a list of launches (kernels/walk.h). Bodies are functions of other modules, compiled with
 * KD_WALK; they are put in the marked place when a plan is made (cuda/walk_ptx.c). */
#include "kernels/kdev.h"
#include "kernels/klaunch.h"
#include "kernels/walk.h"

#define WALK_CONSTANT __attribute__((address_space(4)))

WALK_CONSTANT uint8_t walk_const[WALK_CONST] __attribute__((aligned(16), used));

KD_FN void walk_item(const kl_walk *a, WALK_CONSTANT const struct walk_item *it, uint32_t group, uint32_t groups)
{
    KD_SHARED struct walk_group *to = WALK_GROUP;
    uint32_t x = it->grid[0], y = it->grid[1];
    for (uint32_t g = group; g < it->groups; g += groups) {
        if (kd_tid() == 0) {
            to->id[0] = g % x, to->id[1] = g / x % y, to->id[2] = g / x / y;
            to->grid[0] = x, to->grid[1] = y, to->grid[2] = it->grid[2];
            to->wait = g == group;
            to->need = it->need;
            to->zero = 0;
            to->args = (uint64_t)(walk_const + it->args);
            to->counter = a->counter;
        }
        kd_barrier();
        __asm__ volatile("// WALK_CALL %0" : : "r"(it->kernel) : "memory");
        kd_barrier();
    }
    if (kd_tid() == 0)
        kd_release(KD_PTR(uint32_t, a->counter));
}

__attribute__((nvptx_kernel)) void k_walk(const kl_walk a)
{
    WALK_CONSTANT const struct walk_item *items = (WALK_CONSTANT const struct walk_item *)walk_const;
    uint32_t group = (uint32_t)__nvvm_read_ptx_sreg_ctaid_x(), groups = (uint32_t)__nvvm_read_ptx_sreg_nctaid_x();
    for (uint32_t i = 0; i < a.n_items; i++)
        if (group < items[i].groups)
            walk_item(&a, &items[i], group, groups);
    kd_barrier();
    if (kd_tid() == 0 && kd_arrive(KD_PTR(uint32_t, a.left), groups) == groups - 1)
        *KD_PTR(uint32_t, a.counter) = 0; /* nobody looks at it any more */
}
