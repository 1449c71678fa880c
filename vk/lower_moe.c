#include "vk/lower.h"

void vk_lower_router(struct dispatcher *d, const ka_router *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
void vk_lower_moe_up(struct dispatcher *d, const ka_moe_up *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
void vk_lower_moe_down(struct dispatcher *d, const ka_moe_down *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
