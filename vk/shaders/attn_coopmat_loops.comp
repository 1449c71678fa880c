#version 460
/* attn_coopmat with loops in place of matrix units: any device runs its addresses and tiles. */
#define COOPMAT_LOOPS
#include "zk.glsl"
#include "attn_coopmat.glsl"
