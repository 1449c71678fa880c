/* A failure: one line for the user, and a folder with what a developer asks for next. */
#include <errno.h>
#include <stdio.h>

#include "base/alloc_guard.h"
#include "rt/report.h"
#include "vk/vk.h"

void vk_report(struct vk *v, VkResult r, const struct replay_plan *p, uint32_t cmd, const char *when)
{
    char folder[200], at[96] = "";
    uint64_t done = 0;
    if (v->r.fault.msg[0])
        return; /* the first one tells */
    if (p)
        replay_where(p->base.s, cmd, at, sizeof at);
    FILE *f = report_open(folder, sizeof folder);
    if (f) {
        v->vk.GetSemaphoreCounterValue(v->dev, v->timeline, &done);
        fprintf(f, "%s while %s%s\ndevice: %s, driver %s, Vulkan %u.%u.%u\nsteps submitted: %llu\n"
                "steps complete by the semaphore: %llu\n", vk_error(r), when, at, v->info.name, v->info.driver,
                VK_VERSION_MAJOR(v->info.api), VK_VERSION_MINOR(v->info.api), VK_VERSION_PATCH(v->info.api),
                (unsigned long long)v->r.issued, (unsigned long long)done);
        if (v->done.p)
            fprintf(f, "steps complete by the last kernel's count: %u\n", *(const volatile uint32_t *)v->done.p);
        if (p)
            vk_plan_dump(&p->base, f);
        fclose(f);
        if (p)
            report_stream(folder, p->base.s);
    }
    err_set(&v->r.fault, -EIO, "vulkan: %s while %s%s%s%s%s", vk_error(r), when, at,
            cmd == UINT32_MAX ? "; --tier=vulkan:check names the command" : "", folder[0] ? "; details in " : "", folder);
    alloc_guard_forgive();
}
