#version 460
/* Products of prompts on cooperative matrices. */
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#include "zk.glsl"
#include "gemm_coopmat.glsl"
