/* Where a step's time went, as the tier's time stamps tell, with the bytes that the stream says each command moves. */
#include <stdlib.h>

#include "engine/priv.h"

int engine_roof(struct engine *eng, double *gbs, struct err *e)
{
    return tier_roof(eng->tier, gbs, e);
}

int engine_roof_ops(struct engine *eng, double *gops, struct err *e)
{
    return tier_roof_ops(eng->tier, gops, e);
}

void engine_describe(struct engine *eng, void (*fn)(void *user, const char *part, const char *name, const char *value),
                     void *user)
{
    tier_describe(eng->tier, fn, user);
}

/* A command of several launches moves its bytes in the longest of them. */
static void give_bytes(struct engine *eng, const struct tier_trace *t, struct engine_launch *l, uint32_t first,
                       uint32_t end)
{
    uint64_t flops;
    uint32_t longest = first;
    for (uint32_t i = first; i < end; i++)
        longest = l[i].ns > l[longest].ns ? i : longest;
    stream_cmd_cost(eng->last.plan->s, t[first].cmd, eng->last_rows, eng->last_kv_len, &l[longest].bytes, &flops);
}

uint32_t engine_trace(struct engine *eng, struct engine_launch *l, uint32_t cap)
{
    const struct tier_trace *t;
    uint32_t n = eng->last.plan ? tier_trace(eng->tier, &t) : 0;
    n = n < cap ? n : cap;
    for (uint32_t i = 0; i < n; i++) {
        const char *name = t[i].kernel ? t[i].kernel : cmd_name((enum cmd_op)eng->last.plan->s->cmds[t[i].cmd].op);
        l[i] = (struct engine_launch){ .name = name, .ns = t[i].end_ns - t[i].start_ns };
    }
    for (uint32_t i = 0, end; i < n; i = end) {
        for (end = i + 1; end < n && t[end].cmd == t[i].cmd;)
            end++;
        give_bytes(eng, t, l, i, end);
    }
    return n;
}
