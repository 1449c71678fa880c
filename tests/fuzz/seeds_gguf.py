#!/usr/bin/env python3
"""Writes the seeds of fuzz_gguf into tests/fuzz/corpus/fuzz_gguf: a model of each family with the smallest shapes that
model_read accepts, and one file with every value type. Run from the root of the repository."""
import os
import struct

OUT = "tests/fuzz/corpus/fuzz_gguf"
U32, F32, BOOL, STR, ARR = 4, 6, 7, 8, 9
E, FF, V, H, KV, HD, X, FX = 4, 4, 2, 2, 1, 2, 2, 2  # widths, vocabulary, heads, experts


def text(s):
    return struct.pack("<Q", len(s)) + s.encode()


def value(v):
    if isinstance(v, bool):
        return BOOL, struct.pack("<B", v)
    if isinstance(v, int):
        return U32, struct.pack("<I", v)
    if isinstance(v, float):
        return F32, struct.pack("<f", v)
    if isinstance(v, str):
        return STR, text(v)
    elem = value(v[0])[0]
    return ARR, struct.pack("<IQ", elem, len(v)) + b"".join(value(x)[1] for x in v)


def write(name, keys, tensors):
    align = 8
    keys = dict(keys, **{"general.alignment": align})
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for k, v in keys.items():
        t, b = value(v)
        head += text(k) + struct.pack("<I", t) + b
    data = b""
    for n, ne in tensors:
        elems = 1
        for d in ne:
            elems *= d
        head += text(n) + struct.pack("<I", len(ne)) + struct.pack("<%dQ" % len(ne), *ne)
        head += struct.pack("<IQ", 0, len(data))
        data += struct.pack("<f", 1) * elems
        data += bytes(-len(data) % align)
    head += bytes(-len(head) % align)
    with open(os.path.join(OUT, name), "wb") as f:
        f.write(head + data)


def block(il, *parts):
    return [("blk.%d.%s" % (il, n), ne) for part in parts for n, ne in part]


def norms(*names):
    return [(n + ".weight", [E]) for n in names]


def attn(q=H * HD, kv=KV * HD):
    return [("attn_q.weight", [E, q]), ("attn_k.weight", [E, kv]), ("attn_v.weight", [E, kv]),
            ("attn_output.weight", [H * HD, E])]


QK = [("attn_q_norm.weight", [HD]), ("attn_k_norm.weight", [HD])]
DENSE = [("ffn_gate.weight", [E, FF]), ("ffn_up.weight", [E, FF]), ("ffn_down.weight", [FF, E])]
MOE = [("ffn_gate_inp.weight", [E, X]), ("ffn_gate_exps.weight", [E, FX, X]), ("ffn_up_exps.weight", [E, FX, X]),
       ("ffn_down_exps.weight", [FX, E, X])]
SHARED = [("ffn_gate_shexp.weight", [E, FX]), ("ffn_up_shexp.weight", [E, FX]), ("ffn_down_shexp.weight", [FX, E]),
          ("ffn_gate_inp_shexp.weight", [E])]
SANDWICH = norms("attn_norm", "post_attention_norm", "ffn_norm", "post_ffw_norm")
EXPERTS = {"expert_count": X, "expert_used_count": 1, "expert_feed_forward_length": FX}


def gdn(ba):
    gates = [("ssm_ba.weight", [E, 2])] if ba else [("ssm_alpha.weight", [E, 1]), ("ssm_beta.weight", [E, 1])]
    return [("attn_qkv.weight", [E, 6]), ("attn_gate.weight", [E, 2])] + gates + [
        ("ssm_conv1d.weight", [2, 6]), ("ssm_dt.bias", [1]), ("ssm_a", [1]), ("ssm_norm.weight", [2]),
        ("ssm_out.weight", [2, E])]


def family(arch, keys, tensors, n_blocks=1):
    common = {"block_count": n_blocks, "context_length": 64, "embedding_length": E, "feed_forward_length": FF,
              "attention.layer_norm_rms_epsilon": 1e-6, "attention.head_count": H, "attention.head_count_kv": KV,
              "attention.key_length": HD, "attention.value_length": HD, "rope.freq_base": 1e4}
    keys = {"%s.%s" % (arch, k): v for k, v in dict(common, **keys).items()}
    keys = dict({"general.architecture": arch}, **keys)
    write(arch + ".gguf", keys, [("token_embd.weight", [E, V]), ("output_norm.weight", [E])] + tensors)


def main():
    os.makedirs(OUT, exist_ok=True)
    pre = norms("attn_norm", "ffn_norm")
    family("llama", {}, block(0, pre, attn(), DENSE) + [("rope_freqs.weight", [1])])
    family("qwen3", {"rope.scaling.type": "yarn", "rope.scaling.factor": 4.0}, block(0, pre, attn(), QK, DENSE))
    family("qwen3moe", EXPERTS, block(0, pre, attn(), QK, MOE))
    ssm = {"ssm.conv_kernel": 2, "ssm.state_size": 2, "ssm.group_count": 1, "ssm.time_step_rank": 1,
           "ssm.inner_size": 2, "full_attention_interval": 2}
    pre = norms("attn_norm", "post_attention_norm")
    shared = dict(EXPERTS, **{"expert_shared_feed_forward_length": FX})
    family("qwen3next", dict(ssm, **shared), block(0, pre, gdn(True), MOE, SHARED), 1)
    sections = {"rope.dimension_sections": [1, 1, 1, 0]}
    family("qwen35", dict(ssm, nextn_predict_layers=1, **sections),
           block(0, pre, gdn(False), DENSE) + block(1, pre, attn(2 * H * HD), QK, DENSE), 3)
    family("qwen35moe", dict(dict(ssm, full_attention_interval=1), **shared, **sections),
           block(0, pre, attn(2 * H * HD), QK, MOE, SHARED))
    family("gemma3", {"attention.sliding_window": 8}, block(0, SANDWICH, attn(), QK, DENSE))
    gemma4_experts = MOE + [("ffn_gate_inp.scale", [E]), ("ffn_down_exps.scale", [X])] + norms(
        "post_ffw_norm_1", "pre_ffw_norm_2", "post_ffw_norm_2")
    ple = [("inp_gate.weight", [E, 2]), ("proj.weight", [2, E]), ("post_norm.weight", [E]),
           ("layer_output_scale.weight", [1])]
    family("gemma4", dict(EXPERTS, **{
        "attention.sliding_window": 8, "attention.sliding_window_pattern": [False, False],
        "attention.shared_kv_layers": 1, "embedding_length_per_layer_input": 2}),
        block(0, SANDWICH, attn(), QK, DENSE, gemma4_experts, ple) +
        block(1, SANDWICH, [attn()[0], attn()[3], QK[0]], DENSE, ple) +
        [("rope_freqs.weight", [1]), ("per_layer_token_embd.weight", [4, V]),
         ("per_layer_model_proj.weight", [E, 4]), ("per_layer_proj_norm.weight", [2])], 2)
    streams = [("altup_router.weight", [E, 4]), ("altup_predict_coef.weight", [4, 16]), ("altup_correct_coef.weight", [4, 4]),
               ("laurel_l.weight", [E, 2]), ("laurel_r.weight", [2, E])] + norms("altup_router_norm", "altup_correct_scale",
                                                                                 "laurel_post_norm")
    family("gemma3n", {
        "attention.sliding_window": 8, "attention.sliding_window_pattern": [False, False], "attention.shared_kv_layers": 1.0,
        "embedding_length_per_layer_input": 2, "altup.num_inputs": 4, "altup.active_idx": 0,
        "activation_sparsity_scale": [1.5, float("-inf")]},
        block(0, SANDWICH, attn(), QK, DENSE, ple[:3], streams) +
        block(1, SANDWICH, [attn()[0], attn()[3], QK[0]], DENSE, ple[:3], streams) +
        [("altup_proj.weight", [E, E, 3]), ("altup_unembd_proj.weight", [E, E, 3]), ("per_layer_token_embd.weight", [4, V]),
         ("per_layer_model_proj.weight", [E, 4]), ("per_layer_proj_norm.weight", [2])], 2)
    bias = [("attn_q.bias", [H * HD]), ("attn_k.bias", [KV * HD]), ("attn_v.bias", [KV * HD]),
            ("attn_output.bias", [E]), ("attn_sinks.weight", [H]), ("ffn_gate_inp.bias", [X]),
            ("ffn_gate_exps.bias", [FX, X]), ("ffn_up_exps.bias", [FX, X]), ("ffn_down_exps.bias", [E, X])]
    family("gpt-oss", dict(EXPERTS, **{"attention.sliding_window": 8, "rope.scaling.type": "yarn",
                                       "rope.scaling.factor": 32.0}),
           block(0, pre, attn(), bias, MOE) + [("output.weight", [E, V])])
    write("values.gguf", {"general.architecture": "x", "tokenizer.ggml.tokens": ["a", "", "\x1b[2J"],
                          "flags": [True, False], "floats": [1.5, -2.0], "tokenizer.chat_template": "{{ x }}"}, [])


main()
