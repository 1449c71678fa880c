#!/usr/bin/env python3
"""Writes the trained model as a GGUF file (version 3), without any GGUF library.

    python3 export_gguf.py --out DIR --gguf zinc-demo-f16.gguf [--type f16|f32]

Layout: ggml-org/ggml docs/gguf.md; names and shapes of the qwen35moe architecture as llama.cpp reads them."""

import argparse
import struct

import numpy as np
import torch

import vocab
from model import Config

TEMPLATE = """{%- if tools %}
    {{- '<|im_start|>system\\n# Tools\\n\\nYou have access to the following functions:\\n\\n<tools>' }}
    {%- for tool in tools %}{{- '\\n' + (tool | tojson) }}{%- endfor %}
    {{- TAIL }}
    {%- if messages[0].role == 'system' and messages[0].content | trim %}{{- '\\n\\n' + messages[0].content | trim }}{%- endif %}
    {{- '<|im_end|>\\n' }}
{%- elif messages[0].role == 'system' %}
    {{- '<|im_start|>system\\n' + messages[0].content | trim + '<|im_end|>\\n' }}
{%- endif %}
{%- set ns = namespace(last=0) %}
{%- for m in messages %}
    {%- if m.role == 'user' and not (m.content | trim).startswith('<tool_response>') %}{%- set ns.last = loop.index0 %}{%- endif %}
{%- endfor %}
{%- for m in messages %}
    {%- if m.role == 'user' %}
        {{- '<|im_start|>user\\n' + m.content | trim + '<|im_end|>\\n' }}
    {%- elif m.role == 'assistant' %}
        {%- set text = (m.content or '') | string %}
        {%- set reasoning = m.reasoning_content if m.reasoning_content is string else '' %}
        {%- if not reasoning and '</think>' in text %}
            {%- set reasoning = text.split('</think>')[0].split('<think>')[-1] %}
            {%- set text = text.split('</think>')[-1] %}
        {%- endif %}
        {%- set text = text | trim %}
        {{- '<|im_start|>assistant\\n' }}
        {%- if loop.index0 > ns.last %}{{- '<think>\\n' + reasoning | trim + '\\n</think>\\n\\n' }}{%- endif %}
        {{- text }}
        {%- for call in m.tool_calls or [] %}
            {%- set call = call.function if call.function is defined else call %}
            {{- ('\\n\\n' if loop.first and text else '' if loop.first else '\\n') + '<tool_call>\\n<function=' + call.name + '>\\n' }}
            {%- for k, v in call.arguments | items %}
                {{- '<parameter=' + k + '>\\n' + (v | tojson if v is mapping or (v is sequence and v is not string) else v | string) + '\\n</parameter>\\n' }}
            {%- endfor %}
            {{- '</function>\\n</tool_call>' }}
        {%- endfor %}
        {{- '<|im_end|>\\n' }}
    {%- elif m.role == 'tool' %}
        {%- if loop.first or messages[loop.index0 - 1].role != 'tool' %}{{- '<|im_start|>user' }}{%- endif %}
        {{- '\\n<tool_response>\\n' + m.content | trim + '\\n</tool_response>' }}
        {%- if loop.last or messages[loop.index0 + 1].role != 'tool' %}{{- '<|im_end|>\\n' }}{%- endif %}
    {%- endif %}
{%- endfor %}
{%- if add_generation_prompt %}
    {{- '<|im_start|>assistant\\n<think>\\n' + ('' if enable_thinking is defined and enable_thinking else '\\n</think>\\n\\n') }}
{%- endif %}"""

U32, F32T, BOOL, STR, ARR, I32 = 4, 6, 7, 8, 9, 5
GGML = {"f32": 0, "f16": 1}


def s(b):
    b = b.encode() if isinstance(b, str) else b
    return struct.pack("<Q", len(b)) + b


def value(t, v):
    return {U32: lambda: struct.pack("<I", v), I32: lambda: struct.pack("<i", v), F32T: lambda: struct.pack("<f", v),
            BOOL: lambda: struct.pack("<B", v), STR: lambda: s(v)}[t]()


def kv(key, t, v):
    if isinstance(v, list):
        return s(key) + struct.pack("<IIQ", ARR, t, len(v)) + b"".join(value(t, x) for x in v)
    return s(key) + struct.pack("<I", t) + value(t, v)


def metadata(c, tokens, merges):
    import data
    n = len(tokens)
    types = [3 if t in vocab.SPECIAL else 4 if t in vocab.MARKERS else 5 if t.startswith("[UNUSED_") else 1 for t in tokens]
    a = "qwen35moe."
    quoted = "'" + data.TOOL_TAIL.replace("\n", "\\n") + "'"
    return [
        kv("general.architecture", STR, "qwen35moe"), kv("general.name", STR, "zinc demo"), kv("general.license", STR, "mit"),
        kv("general.description", STR, "A very small model that the zinc project trained on text written by a program."),
        kv("general.alignment", U32, 32), kv(a + "block_count", U32, c.layers), kv(a + "context_length", U32, c.context),
        kv(a + "embedding_length", U32, c.d), kv(a + "feed_forward_length", U32, 0),
        kv(a + "attention.head_count", U32, c.heads), kv(a + "attention.head_count_kv", U32, c.kv_heads),
        kv(a + "attention.key_length", U32, c.head_dim), kv(a + "attention.value_length", U32, c.head_dim),
        kv(a + "attention.layer_norm_rms_epsilon", F32T, c.eps), kv(a + "rope.freq_base", F32T, c.rope_base),
        kv(a + "rope.dimension_count", U32, c.rot), kv(a + "rope.dimension_sections", I32, [3, 3, 2, 0]),
        kv(a + "full_attention_interval", U32, c.interval), kv(a + "expert_count", U32, c.experts),
        kv(a + "expert_used_count", U32, c.used), kv(a + "expert_feed_forward_length", U32, c.ff),
        kv(a + "expert_shared_feed_forward_length", U32, c.ff_shared), kv(a + "ssm.conv_kernel", U32, c.conv),
        kv(a + "ssm.state_size", U32, c.gdn_dim), kv(a + "ssm.group_count", U32, c.n_k), kv(a + "ssm.time_step_rank", U32, c.n_v),
        kv(a + "ssm.inner_size", U32, c.n_v * c.gdn_dim), kv("tokenizer.ggml.model", STR, "gpt2"),
        kv("tokenizer.ggml.pre", STR, "qwen35"), kv("tokenizer.ggml.tokens", STR, tokens), kv("tokenizer.ggml.token_type", I32, types),
        kv("tokenizer.ggml.merges", STR, merges), kv("tokenizer.ggml.eos_token_id", U32, tokens.index("<|im_end|>")),
        kv("tokenizer.ggml.padding_token_id", U32, tokens.index("<|endoftext|>")),
        kv("tokenizer.ggml.add_bos_token", BOOL, False), kv("tokenizer.chat_template", STR, TEMPLATE.replace("TAIL", quoted)),
        kv("general.sampling.temp", F32T, 0.3),
    ]


def tensors(m, c):
    """(name, array, quantisable) in file order."""
    yield "token_embd.weight", m["embed"], True
    yield "output_norm.weight", m["norm"], False
    for i in range(c.layers):
        b, mix, f = f"blk.{i}.", f"mixers.{i}.", f"ffns.{i}."
        yield b + "attn_norm.weight", m[f"norm1.{i}"], False
        yield b + "post_attention_norm.weight", m[f"norm2.{i}"], False
        if (i + 1) % c.interval == 0:
            for g, n in (("attn_q", "q"), ("attn_k", "k"), ("attn_v", "v"), ("attn_output", "o")):
                yield b + g + ".weight", m[mix + n], True
            yield b + "attn_q_norm.weight", m[mix + "q_norm"], False
            yield b + "attn_k_norm.weight", m[mix + "k_norm"], False
        else:
            yield b + "attn_qkv.weight", m[mix + "qkv"], True
            yield b + "attn_gate.weight", m[mix + "z"], True
            yield b + "ssm_beta.weight", m[mix + "beta"], False
            yield b + "ssm_alpha.weight", m[mix + "alpha"], False
            yield b + "ssm_conv1d.weight", m[mix + "conv"], False
            yield b + "ssm_dt.bias", m[mix + "dt"], False
            yield b + "ssm_a", -np.exp(m[mix + "a_log"]), False
            yield b + "ssm_norm.weight", m[mix + "norm"], False
            yield b + "ssm_out.weight", m[mix + "out"], True
        yield b + "ffn_gate_inp.weight", m[f + "router"], False
        yield b + "ffn_gate_exps.weight", m[f + "gate"].reshape(c.experts, c.ff, c.d), True
        yield b + "ffn_up_exps.weight", m[f + "up"].reshape(c.experts, c.ff, c.d), True
        yield b + "ffn_down_exps.weight", m[f + "down"], True
        yield b + "ffn_gate_inp_shexp.weight", m[f + "s_router"], False
        yield b + "ffn_gate_shexp.weight", m[f + "s_gate"], True
        yield b + "ffn_up_shexp.weight", m[f + "s_up"], True
        yield b + "ffn_down_shexp.weight", m[f + "s_down"], True


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--gguf", required=True)
    ap.add_argument("--type", default="f16", choices=list(GGML))
    a = ap.parse_args()
    c = Config()
    m = {k: v.float().numpy() for k, v in torch.load(a.out + "/state.pt", map_location="cpu")["model"].items()}
    tokens, merges = vocab.tables(a.out + "/tokenizer.json", c.vocab)
    assert len(tokens) == c.vocab, (len(tokens), c.vocab)
    kvs = metadata(c, tokens, merges) + [kv("general.file_type", U32, {"f32": 0, "f16": 1}[a.type])]
    head, blobs, off = b"", [], 0
    for name, x, quant in tensors(m, c):
        t = a.type if quant else "f32"
        raw = np.ascontiguousarray(x.astype(np.float16 if t == "f16" else np.float32)).tobytes()
        raw += b"\0" * (-len(raw) % 32)
        head += s(name) + struct.pack("<I", x.ndim) + b"".join(struct.pack("<Q", d) for d in x.shape[::-1]) + struct.pack("<IQ", GGML[t], off)
        blobs.append(raw)
        off += len(raw)
    h = b"GGUF" + struct.pack("<IQQ", 3, len(blobs), len(kvs)) + b"".join(kvs) + head
    with open(a.gguf, "wb") as f:
        f.write(h + b"\0" * (-len(h) % 32))
        for b in blobs:
            f.write(b)
    print(f"{a.gguf}: {len(blobs)} tensors, {off / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
