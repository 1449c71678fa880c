#version 460
/* gemm_coopmat with loops in place of matrix units: any device runs its addresses, tiles and ends. */
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#define COOPMAT_LOOPS
#include "zk.glsl"
#include "gemm_coopmat.glsl"
