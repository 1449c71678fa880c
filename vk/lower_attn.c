#include "vk/lower.h"

void vk_lower_rope_kv(struct dispatcher *d, const ka_rope_kv *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
void vk_lower_attn(struct dispatcher *d, const ka_attn *a) { (void)a; if (!d->rc) d->rc = err_set(d->e, -ENOTSUP, "vulkan: %s is not lowered", cmd_name(d->s->cmds[d->cmd].op)); }
