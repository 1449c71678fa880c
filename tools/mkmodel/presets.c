/* The shapes. Real ones are those of the released models (their configurations as published). */
#include <string.h>

#include "tools/mkmodel/mkmodel.h"

#define TINY(nm, fam) .name = nm, .family = FAMILY_##fam, .recipe = "F32", .tiny = true, .n_vocab = 640, .n_ctx = 4096
#define REAL(nm, fam, r) .name = nm, .family = FAMILY_##fam, .recipe = r
#define EXPERTS(n, used, ff) .n_expert = n, .n_used = used, .n_ff_exp = ff

const struct preset presets[] = {
    { TINY("tiny-llama", LLAMA), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 512, .rope_base = 1e4f },
    { TINY("tiny-llama-moe", LLAMA), .n_layer = 2, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 256, EXPERTS(8, 2, 256), .rope_base = 1e6f },
    { TINY("tiny-llama3", LLAMA), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 1, .head_dim = 64,
      .n_ff = 512, .rope_base = 5e5f, .rope_freqs = true, .tied = true },
    { TINY("tiny-llama-longrope", LLAMA), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 512, .rope_base = 1e4f, .rope_orig = 1024 },
    { TINY("tiny-mistral3", MISTRAL3), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 512, .rope_base = 1e6f, .rope_orig = 32 },
    { TINY("tiny-qwen2", QWEN2), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 512, .rope_base = 1e6f, .tied = true },
    { TINY("tiny-qwen3", QWEN3), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 128,
      .n_ff = 512, .rope_base = 1e6f, .tied = true },
    { TINY("tiny-qwen3-embed", QWEN3), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 128,
      .n_ff = 512, .rope_base = 1e6f, .tied = true, .pooling = POOLING_LAST },
    { TINY("tiny-qwen3-rerank", QWEN3), .n_layer = 3, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 128,
      .n_ff = 512, .rope_base = 1e6f, .tied = true, .pooling = POOLING_RANK },
    { TINY("tiny-qwen3-ragged", QWEN3), .n_layer = 3, .n_embd = 288, .n_head = 6, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 544, .rope_base = 1e6f },
    { TINY("tiny-qwen3moe", QWEN3MOE), .n_layer = 3, .n_embd = 256, .n_head = 8, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 512, EXPERTS(16, 4, 256), .rope_base = 1e6f },
    { TINY("tiny-qwen3next", QWEN3NEXT), .n_layer = 4, .n_embd = 256, .n_head = 4, .n_head_kv = 1, .head_dim = 256,
      .n_ff = 512, EXPERTS(16, 4, 256), .n_ff_shexp = 256, .gdn_k = 2, .gdn_v = 4, .rope_base = 1e7f },
    { TINY("tiny-qwen35", QWEN35), .n_layer = 4, .n_embd = 256, .n_head = 4, .n_head_kv = 1, .head_dim = 256,
      .n_ff = 512, .gdn_k = 2, .gdn_v = 6, .rope_base = 1e7f },
    { TINY("tiny-qwen35moe", QWEN35MOE), .n_layer = 4, .n_embd = 256, .n_head = 4, .n_head_kv = 1, .head_dim = 256,
      EXPERTS(16, 4, 256), .n_ff_shexp = 256, .gdn_k = 2, .gdn_v = 4, .rope_base = 1e7f },
    { TINY("tiny-gemma3", GEMMA3), .n_layer = 6, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 512, .window = 32, .rope_base = 1e6f, .rope_factor = 8, .tied = true },
    { TINY("tiny-gemma4", GEMMA4), .n_layer = 4, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 512,
      .n_ff = 512, .window = 32, .swa_head_dim = 256, .full_kv = 1, .full_every = 2,
      .rope_base = 1e6f, .tied = true },
    { TINY("tiny-gemma4-moe", GEMMA4), .n_layer = 4, .n_embd = 256, .n_head = 4, .n_head_kv = 2, .head_dim = 512,
      .n_ff = 256, EXPERTS(8, 2, 256), .window = 32, .swa_head_dim = 256, .full_kv = 1, .full_every = 2,
      .rope_base = 1e6f, .tied = true },
    { TINY("tiny-gemma4-e", GEMMA4), .n_layer = 6, .n_embd = 256, .n_head = 4, .n_head_kv = 1, .head_dim = 512,
      .n_ff = 256, .window = 32, .swa_head_dim = 256, .full_kv = 1, .full_every = 3, .n_ple = 256, .shared_kv = 3,
      .wide_shared = true, .rope_base = 1e6f, .tied = true },
    { TINY("tiny-gpt-oss", GPT_OSS), .n_layer = 4, .n_embd = 256, .n_head = 8, .n_head_kv = 2, .head_dim = 64,
      .n_ff = 256, EXPERTS(8, 4, 256), .window = 32, .rope_base = 150000 },

    { REAL("small-qwen3moe-q4_k_m", QWEN3MOE, "Q4_K_M"), .n_layer = 4, .n_embd = 1024, .n_head = 8, .n_head_kv = 2,
      .head_dim = 128, .n_ff = 2048, EXPERTS(32, 4, 512), .n_vocab = 4096, .n_ctx = 8192, .rope_base = 1e6f },
    { REAL("qwen25-7b-q4_k_m", QWEN2, "Q4_K_M"), .n_layer = 28, .n_embd = 3584, .n_head = 28, .n_head_kv = 4,
      .head_dim = 128, .n_ff = 18944, .n_vocab = 152064, .n_ctx = 32768, .rope_base = 1e6f },
    { REAL("qwen3-0.6b-q8_0", QWEN3, "Q8_0"), .n_layer = 28, .n_embd = 1024, .n_head = 16, .n_head_kv = 8,
      .head_dim = 128, .n_ff = 3072, .n_vocab = 151936, .n_ctx = 40960, .rope_base = 1e6f, .tied = true },
    { REAL("qwen3-8b-q4_k_m", QWEN3, "Q4_K_M"), .n_layer = 36, .n_embd = 4096, .n_head = 32, .n_head_kv = 8,
      .head_dim = 128, .n_ff = 12288, .n_vocab = 151936, .n_ctx = 40960, .rope_base = 1e6f },
    { REAL("qwen3-30b-a3b-q4_k_m", QWEN3MOE, "Q4_K_M"), .n_layer = 48, .n_embd = 2048, .n_head = 32,
      .n_head_kv = 4, .head_dim = 128, .n_ff = 6144, EXPERTS(128, 8, 768), .n_vocab = 151936, .n_ctx = 40960,
      .rope_base = 1e6f },
    { REAL("qwen3-next-80b-a3b-q4_k_m", QWEN3NEXT, "Q4_K_M"), .n_layer = 48, .n_embd = 2048, .n_head = 16,
      .n_head_kv = 2, .head_dim = 256, .n_ff = 5120, EXPERTS(512, 10, 512), .n_ff_shexp = 512, .gdn_k = 16,
      .gdn_v = 32, .n_vocab = 151936, .n_ctx = 262144, .rope_base = 1e7f },
    { REAL("qwen35-9b-q4_k_m", QWEN35, "Q4_K_M"), .n_layer = 32, .n_embd = 4096, .n_head = 16, .n_head_kv = 4,
      .head_dim = 256, .n_ff = 12288, .gdn_k = 16, .gdn_v = 32, .n_vocab = 248320,
      .n_ctx = 262144, .rope_base = 1e7f },
    { REAL("qwen36-27b-q4_k_m", QWEN35, "Q4_K_M"), .n_layer = 64, .n_embd = 5120, .n_head = 24, .n_head_kv = 4,
      .head_dim = 256, .n_ff = 17408, .gdn_k = 16, .gdn_v = 48, .n_vocab = 248320,
      .n_ctx = 262144, .rope_base = 1e7f },
    { REAL("qwen36-35b-a3b-ud-q4_k_xl", QWEN35MOE, "UD_Q4_K_XL"), .n_layer = 40, .n_embd = 2048, .n_head = 16,
      .n_head_kv = 2, .head_dim = 256, EXPERTS(256, 8, 512), .n_ff_shexp = 512, .gdn_k = 16, .gdn_v = 32,
      .n_vocab = 248320, .n_ctx = 262144, .rope_base = 1e7f },
    { REAL("gemma-3-4b-q4_k_m", GEMMA3, "Q4_K_M"), .n_layer = 34, .n_embd = 2560, .n_head = 8, .n_head_kv = 4,
      .head_dim = 256, .n_ff = 10240, .window = 1024, .n_vocab = 262144, .n_ctx = 131072, .rope_base = 1e6f,
      .rope_factor = 8, .tied = true },
    { REAL("gemma-4-31b-q4_k_m", GEMMA4, "Q4_K_M"), .n_layer = 60, .n_embd = 5376, .n_head = 32, .n_head_kv = 16,
      .head_dim = 512, .n_ff = 21504, .window = 1024, .swa_head_dim = 256, .full_kv = 4, .full_every = 6,
      .n_vocab = 262144, .n_ctx = 262144, .rope_base = 1e6f, .tied = true },
    { REAL("gemma-4-26b-a4b-q4_k_m", GEMMA4, "Q4_K_M"), .n_layer = 30, .n_embd = 2816, .n_head = 16, .n_head_kv = 8,
      .head_dim = 512, .n_ff = 2112, EXPERTS(128, 8, 704), .window = 1024, .swa_head_dim = 256, .full_kv = 2,
      .full_every = 6, .n_vocab = 262144, .n_ctx = 262144, .rope_base = 1e6f, .tied = true },
    { REAL("gemma-4-e2b-q4_k_m", GEMMA4, "Q4_K_M"), .n_layer = 35, .n_embd = 1536, .n_head = 8, .n_head_kv = 1,
      .head_dim = 512, .n_ff = 6144, .window = 512, .swa_head_dim = 256, .full_kv = 1, .full_every = 5, .n_ple = 256,
      .shared_kv = 20, .wide_shared = true, .n_vocab = 262144, .n_ctx = 131072, .rope_base = 1e6f, .tied = true },
    { REAL("gemma-4-e4b-q4_k_m", GEMMA4, "Q4_K_M"), .n_layer = 42, .n_embd = 2560, .n_head = 8, .n_head_kv = 2,
      .head_dim = 512, .n_ff = 10240, .window = 512, .swa_head_dim = 256, .full_kv = 2, .full_every = 6, .n_ple = 256,
      .shared_kv = 18, .n_vocab = 262144, .n_ctx = 131072, .rope_base = 1e6f, .tied = true },
    { REAL("gpt-oss-20b-mxfp4", GPT_OSS, "MXFP4_MOE"), .n_layer = 24, .n_embd = 2880, .n_head = 64, .n_head_kv = 8,
      .head_dim = 64, .n_ff = 2880, EXPERTS(32, 4, 2880), .window = 128, .n_vocab = 201088, .n_ctx = 131072,
      .rope_base = 150000 },
    { REAL("llama-3.1-8b-q4_k_m", LLAMA, "Q4_K_M"), .n_layer = 32, .n_embd = 4096, .n_head = 32, .n_head_kv = 8,
      .head_dim = 128, .n_ff = 14336, .n_vocab = 128256, .n_ctx = 131072, .rope_base = 5e5f, .rope_freqs = true },
};

const size_t n_presets = sizeof presets / sizeof *presets;

const struct preset *preset_find(const char *name)
{
    for (size_t i = 0; i < n_presets; i++)
        if (strcmp(presets[i].name, name) == 0)
            return &presets[i];
    return NULL;
}
