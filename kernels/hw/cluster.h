/* kernels/hw/cluster.h
 * Work-groups that run at the same time and store into each other's shared memory. KD_CLUSTER neighbours along x are one
 * cluster where the target has such a thing (sm_90a, and the host where it stands in for that; tools/ptx_threads.awk says for
 * which kernels), elsewhere each is alone.
 * A launch has a multiple of KD_CLUSTER work-groups along x there.
 *
 *     uint32_t kd_cluster_rank()              this work-group's number in its cluster
 *     void kd_cluster_arrive()                all of the work-group; then, before the first store to others or the end,
 *     void kd_cluster_wait()                  this: all of the cluster have arrived, and what they stored before is seen
 *     void kd_cluster_store8(p, v)            8 bytes to p in this and every other work-group's shared memory
 *
 * Source: the PTX ISA manual, "barrier.cluster", "mapa", "st.shared::cluster". */
#ifndef ZINC_KERNELS_HW_CLUSTER_H
#define ZINC_KERNELS_HW_CLUSTER_H

#include "kernels/kdev.h"

#if defined(__NVPTX__) && defined(KD_SM90)

enum { KD_CLUSTER = 2 };

KD_FN uint32_t kd_cluster_rank(void)
{
    uint32_t r;
    __asm__("mov.u32 %0, %%cluster_ctarank;" : "=r"(r));
    return r;
}
KD_FN void kd_cluster_arrive(void) { __asm__ volatile("barrier.cluster.arrive.release.aligned;" ::: "memory"); }
KD_FN void kd_cluster_wait(void) { __asm__ volatile("barrier.cluster.wait.acquire.aligned;" ::: "memory"); }
KD_FN void kd_cluster_store8(KD_SHARED kd_u32x2 *p, kd_u32x2 v)
{
    *p = v;
    __asm__ volatile("{\n\t.reg .b32 at;\n\tmapa.shared::cluster.u32 at, %0, %1;\n\tst.shared::cluster.v2.b32 [at], {%2, %3};\n\t}"
                     :
                     : "r"((uint32_t)(uintptr_t)p), "r"(kd_cluster_rank() ^ 1), "r"(v[0]), "r"(v[1])
                     : "memory");
}

#elif defined(KD_SM90) /* the host: rt/lockstep/hopper.c */

enum { KD_CLUSTER = 2 };

uint32_t kd_host_cluster_rank(void);
void kd_host_cluster_arrive(void);
void kd_host_cluster_wait(void);
void kd_host_cluster_store8(void *p, kd_u32x2 v); /* to the others */

KD_FN uint32_t kd_cluster_rank(void) { return kd_host_cluster_rank(); }
KD_FN void kd_cluster_arrive(void) { kd_host_cluster_arrive(); }
KD_FN void kd_cluster_wait(void) { kd_host_cluster_wait(); }
KD_FN void kd_cluster_store8(kd_u32x2 *p, kd_u32x2 v)
{
    *p = v;
    kd_host_cluster_store8(p, v);
}

#else

enum { KD_CLUSTER = 1 };

KD_FN uint32_t kd_cluster_rank(void) { return 0; }
KD_FN void kd_cluster_arrive(void) {}
KD_FN void kd_cluster_wait(void) { kd_barrier(); }
KD_FN void kd_cluster_store8(KD_SHARED kd_u32x2 *p, kd_u32x2 v) { *p = v; }

#endif
#endif
