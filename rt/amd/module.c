/* rt/amd/module.c: code objects in the memory of a GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/env.h"
#include "rt/amd/amd.h"

int amd_module_load(struct amd_copier *c, const char *name, const void *elf, uint64_t n, struct amd_module *out,
                    struct err *e)
{
    char label[48];
    *out = (struct amd_module){ .name = name };
    int rc = amd_code_parse(elf, n, c->w->card.chip, name, &out->code, e);
    if (rc) {
        err_context(e, "%s", c->w->name);
        return rc;
    }
    snprintf(label, sizeof label, "code of %s", name);
    uint8_t *image = malloc(out->code.image_bytes);
    if (!image)
        return err_set(e, -ENOMEM, "%s: %s: %llu bytes of code", c->w->name, name,
                       (unsigned long long)out->code.image_bytes);
    amd_code_image(&out->code, image);
    rc = amd_mem_alloc(c->w, AMD_VRAM, out->code.image_bytes, label, &out->mem, e);
    if (!rc)
        rc = amd_upload(c, &out->mem, 0, image, out->code.image_bytes, e);
    free(image);
    if (rc)
        amd_module_free(out);
    return rc;
}

void amd_module_free(struct amd_module *m)
{
    amd_mem_free(&m->mem);
}

/* What the chip wants beside the kernel's descriptor, so that its waves survive being preempted with their context saved: PRIV
 * by chips.def, where there is such preemption: Mesa's queues have no save area, and its kernels never have it. TRAP_PRESENT as
 * kfdtest has it below gfx12 (Dispatch::BuildIb). On gfx12 the latter's bit is DYNAMIC_VGPR (rt/pm4/regs.def), so it is never
 * set there, and PRIV belongs to gfx11's workaround alone. */
static void set_for_preemption(const struct amd_winsys *w, struct amd_kernel *k)
{
    const struct amd_chip *chip = w->card.chip;
    enum { RSRC1_PRIV = 1 << 20, RSRC2_TRAP_PRESENT = 1 << 6 };
    int priv = env_get()->amd_priv;
    if (chip->gen != PM4_GFX11)
        return;
    if (priv < 0 ? chip->priv && w->saves_waves : priv > 0)
        k->rsrc1 |= RSRC1_PRIV;
    if (env_get()->amd_trap_present > 0)
        k->rsrc2 |= RSRC2_TRAP_PRESENT;
}

int amd_module_kernel(const struct amd_module *m, const char *name, struct amd_kernel *out, struct err *e)
{
    int rc = amd_code_kernel(&m->code, name, out, e);
    if (rc)
        err_context(e, "%s", m->mem.w->name);
    out->entry += m->mem.va;
    set_for_preemption(m->mem.w, out);
    return rc;
}
