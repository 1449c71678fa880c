/* vk/shaders/gdn_prompt.glsl: the kernels of gated DeltaNet for prompts (kernels/gdn_prompt.c): gdn_rows, gdn_inputs,
 * gdn_scan, gdn_norm, in this order. Heads of GDN_DIM, convolutions of GDN_TAPS. With ONE_SLOT the rows of a step are
 * those of slot 0 as they are, and gdn_rows is left out. */
#include "zk.glsl"
#include "gdn.glsl"
ZK_ARGS(kl_gdn_prompt)

layout(constant_id = 2) const bool ONE_SLOT = false;
const uint HEAD_LANES = ZK_WAVE < 32 ? ZK_WAVE : 32; /* that share a head, where nothing else is said */
const uint HEAD_QUADS = GDN_QUADS / HEAD_LANES;

/* Rows of a slot: first their number, then which. */
zk_u32 slot_list(uint slot) { return zk_u32(a.list + uint64_t(slot) * (1 + a.cap) * 4); }
uint slot_rows(uint slot) { return ONE_SLOT ? zk_step_rows(a.step, ROWS_STEP) : slot_list(slot).v[0]; }
uint slot_row(uint slot, uint i) { return ONE_SLOT ? i : slot_list(slot).v[1 + i]; }
