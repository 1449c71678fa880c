#include "vk/lower.h"

void vk_lower_matvec(struct dispatcher *d, enum cmd_op op, const ka_matmul *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
