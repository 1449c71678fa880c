#include "graph/fields.h"

#include <stddef.h>

#include "base/ckd.h"

#define FIELD(ftype, fname, fcount, fkind) {#fname, offsetof(ARGS, fname), fcount, FT_##ftype, FK_##fkind},

#define ARGS ka_embed
static const struct field fields_ka_embed[] = {KA_EMBED(FIELD)};
#undef ARGS
#define ARGS ka_norm
static const struct field fields_ka_norm[] = {KA_NORM(FIELD)};
#undef ARGS
#define ARGS ka_add
static const struct field fields_ka_add[] = {KA_ADD(FIELD)};
#undef ARGS
#define ARGS ka_act_mul
static const struct field fields_ka_act_mul[] = {KA_ACT_MUL(FIELD)};
#undef ARGS
#define ARGS ka_match
static const struct field fields_ka_match[] = {KA_MATCH(FIELD)};
#undef ARGS
#define ARGS ka_altup
static const struct field fields_ka_altup[] = {KA_ALTUP(FIELD)};
#undef ARGS
#define ARGS ka_matmul
static const struct field fields_ka_matmul[] = {KA_MATMUL(FIELD)};
#undef ARGS
#define ARGS ka_rope_kv
static const struct field fields_ka_rope_kv[] = {KA_ROPE_KV(FIELD)};
#undef ARGS
#define ARGS ka_attn
static const struct field fields_ka_attn[] = {KA_ATTN(FIELD)};
#undef ARGS
#define ARGS ka_gdn
static const struct field fields_ka_gdn[] = {KA_GDN(FIELD)};
#undef ARGS
#define ARGS ka_router
static const struct field fields_ka_router[] = {KA_ROUTER(FIELD)};
#undef ARGS
#define ARGS ka_moe_up
static const struct field fields_ka_moe_up[] = {KA_MOE_UP(FIELD)};
#undef ARGS
#define ARGS ka_moe_down
static const struct field fields_ka_moe_down[] = {KA_MOE_DOWN(FIELD)};
#undef ARGS
#define ARGS ka_gather
static const struct field fields_ka_gather[] = {KA_GATHER(FIELD)};
#undef ARGS
#define ARGS ka_step_out
static const struct field fields_ka_step_out[] = {KA_STEP_OUT(FIELD)};
#undef ARGS
#define ARGS ka_argmax
static const struct field fields_ka_argmax[] = {KA_ARGMAX(FIELD)};
#undef ARGS

static const struct {
    const char *name;
    const struct field *fields;
    uint32_t n_fields, bytes;
} cmds[CMD_COUNT] = {
    [CMD_NOP] = {"NOP", NULL, 0, 0},
#define X(cmd, args, list, what) [CMD_##cmd] = {#cmd, fields_##args, ARRAY_LEN(fields_##args), sizeof(args)},
    CMD_LIST(X)
#undef X
};

const struct field *cmd_fields(uint32_t op, uint32_t *n_fields)
{
    *n_fields = op < CMD_COUNT ? cmds[op].n_fields : 0;
    return op < CMD_COUNT ? cmds[op].fields : NULL;
}

uint32_t cmd_args_bytes(uint32_t op)
{
    return op < CMD_COUNT ? cmds[op].bytes : 0;
}

const char *cmd_name(enum cmd_op op)
{
    return (unsigned)op < CMD_COUNT ? cmds[op].name : "?";
}

const struct field *cmd_find_address(uint32_t op, uint32_t off)
{
    uint32_t n;
    const struct field *f = cmd_fields(op, &n);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t at = off - f[i].off; /* huge where off lies before the field */
        if (f[i].type == FT_gpu_va && at < 8u * f[i].count && at % 8 == 0)
            return &f[i];
    }
    return NULL;
}
