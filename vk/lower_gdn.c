#include "vk/lower.h"

void vk_lower_gdn(struct dispatcher *d, const ka_gdn *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
