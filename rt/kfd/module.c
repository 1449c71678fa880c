/* rt/kfd/module.c: code objects in the memory of a GPU. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rt/kfd/priv.h"

int kfd_module_load(struct kfd_queue *q, const char *name, const void *elf, uint64_t n, struct kfd_module *out,
                    struct err *e)
{
    char label[48];
    *out = (struct kfd_module){ .name = name };
    int rc = kfd_code_parse(elf, n, q->dev->gpu.chip, name, &out->code, e);
    if (rc)
        return rc;
    snprintf(label, sizeof label, "code of %s", name);
    uint8_t *image = malloc(out->code.image_bytes);
    if (!image)
        return err_set(e, -ENOMEM, "kfd: %s: %llu bytes of code", name, (unsigned long long)out->code.image_bytes);
    kfd_code_image(&out->code, image);
    rc = kfd_mem_alloc(q->dev, KFD_VRAM, out->code.image_bytes, label, &out->mem, e);
    if (!rc)
        rc = kfd_upload(&(struct kfd_copier){ .q = q }, out->mem, 0, image, out->code.image_bytes, e);
    free(image);
    if (rc)
        kfd_module_free(out);
    return rc;
}

void kfd_module_free(struct kfd_module *m)
{
    kfd_mem_free(m->mem);
    m->mem = NULL;
}

int kfd_module_kernel(const struct kfd_module *m, const char *name, struct kfd_kernel *out, struct err *e)
{
    int rc = kfd_code_kernel(&m->code, name, out, e);
    out->entry += m->mem->va;
    return rc;
}
