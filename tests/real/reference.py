#!/usr/bin/env python3
"""tests/real/reference.py: what the released model says by somebody else's arithmetic. Makes tests/real/golden/.

    make && python3 -m venv build/real/reference
    build/real/reference/bin/pip install torch==2.13.0 transformers==5.0.0 gguf==0.19.0
    build/real/reference/bin/python tests/real/reference.py

transformers' LlamaForCausalLM in float32 is filled with the dequantised weights of the GGUF file, by the package gguf: no
line of zinc's takes part but the tokenizer, which other tests hold to its own references. Every prompt of
tests/real/prompts is continued greedily by 128 tokens; a token that ends an answer is taken like any other. Prompts that
begin with <|im_start|> are first held to the file's own chat template: what jinja2 renders from their messages must be
the prompt.

The tokens come from decoding in batches with a cache; their logits from one pass over prompt and answer, without a
cache, without padding. The two must choose alike, else it stops.

golden/tokens.txt   a line for each prompt: name, number of its ids, their cksum (of the ids separated by spaces, as
                    zinc tokenize prints them), then the 128 ids chosen, separated by commas
golden/logits.bin   for each of them 128 records, 148 bytes, little-endian:
                        f32      sum of the squares of the row of logits
                        u16[8]   the ids of the largest logits, descending
                        f32[8]   their logits
                        f32[24]  the logits of one id of each 24th of the vocabulary, k = 0..23:
                                 n_vocab / 24 * k + (193 * record + 811 * k) % (n_vocab / 24)
tests/peer/compare_logits.c reads both.
"""
import glob
import os
import re
import struct
import subprocess
import sys
import time

import gguf
import jinja2
import numpy as np
import torch
import transformers

STEPS, TOP, SAMPLES, BATCH = 128, 8, 24, 20
MODEL = "build/real/SmolLM2-135M-Instruct.Q4_1.gguf"
LICENCE, LICENCE_BYTES = "/usr/share/common-licenses/GPL-3", 28216


def load(path):
    reader = gguf.GGUFReader(path)
    meta = {name: field.contents() for name, field in reader.fields.items()}
    arch = meta["general.architecture"]
    assert arch == "llama", arch
    n_embd, n_head = meta["llama.embedding_length"], meta["llama.attention.head_count"]
    n_kv, n_layer = meta["llama.attention.head_count_kv"], meta["llama.block_count"]
    config = transformers.LlamaConfig(
        vocab_size=len(meta["tokenizer.ggml.tokens"]), hidden_size=n_embd, num_attention_heads=n_head,
        num_key_value_heads=n_kv, num_hidden_layers=n_layer, intermediate_size=meta["llama.feed_forward_length"],
        max_position_embeddings=meta["llama.context_length"], rms_norm_eps=meta["llama.attention.layer_norm_rms_epsilon"],
        rope_parameters={"rope_type": "default", "rope_theta": meta["llama.rope.freq_base"]}, tie_word_embeddings=True,
        attn_implementation="sdpa", dtype="float32")
    model = transformers.LlamaForCausalLM(config).float().eval()
    names = {"token_embd": "model.embed_tokens", "output_norm": "model.norm", "attn_norm": "input_layernorm",
             "ffn_norm": "post_attention_layernorm", "attn_q": "self_attn.q_proj", "attn_k": "self_attn.k_proj",
             "attn_v": "self_attn.v_proj", "attn_output": "self_attn.o_proj", "ffn_gate": "mlp.gate_proj",
             "ffn_up": "mlp.up_proj", "ffn_down": "mlp.down_proj"}
    state = {}
    for t in reader.tensors:
        parts = t.name.removesuffix(".weight").split(".")
        w = gguf.dequantize(t.data, t.tensor_type).astype(np.float32).reshape([int(d) for d in reversed(t.shape)])
        heads = {"attn_q": n_head, "attn_k": n_kv}.get(parts[-1])
        if heads:  # the file has the two halves of a rotated pair side by side, transformers half a head apart
            w = w.reshape(heads, w.shape[0] // heads // 2, 2, w.shape[1]).swapaxes(1, 2).reshape(w.shape)
        prefix = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
        state[prefix + names[parts[-1]] + ".weight"] = torch.from_numpy(w.copy())
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert set(missing) <= {"lm_head.weight"} and not unexpected, (missing, unexpected)
    model.tie_weights()
    assert model.lm_head.weight.data_ptr() == model.model.embed_tokens.weight.data_ptr()
    return model, meta["tokenizer.chat_template"]


def read_prompts(template):
    texts = {"long-01-licence": open(LICENCE, "rb").read()[:LICENCE_BYTES]}
    for path in glob.glob("tests/real/prompts/*.txt"):
        texts[os.path.basename(path)[:-4]] = open(path, "rb").read()
    render = jinja2.Environment(trim_blocks=True, lstrip_blocks=True).from_string(template)
    for name, text in sorted(texts.items()):
        if text.startswith(b"<|im_start|>"):
            turns = re.findall(r"<\|im_start\|>(\w+)\n(.*?)<\|im_end\|>\n", text.decode(), re.S)
            messages = [{"role": r, "content": t} for r, t in turns]
            assert render.render(messages=messages, add_generation_prompt=True) == text.decode(), name
        out = subprocess.run(["build/zinc", "tokenize", "-m", MODEL], input=text, capture_output=True, check=True).stdout
        yield name, [int(i) for i in out.split()], subprocess.run(["cksum"], input=out, capture_output=True).stdout


def decode(model, prompts):
    """Greedy tokens of several prompts at once: padded on the left, the padding masked out."""
    longest = max(len(p) for p in prompts)
    ids = torch.tensor([[0] * (longest - len(p)) + p for p in prompts])
    mask = torch.tensor([[0] * (longest - len(p)) + [1] * len(p) for p in prompts])
    out = model.generate(ids, attention_mask=mask, do_sample=False, max_new_tokens=STEPS, eos_token_id=None, pad_token_id=0)
    return out[:, longest:].tolist()


def record(row, index):
    n = len(row) // SAMPLES
    top = np.argsort(-row, kind="stable")[:TOP]
    sample = [n * k + (193 * index + 811 * k) % n for k in range(SAMPLES)]
    square = float(np.sum(row.astype(np.float64) ** 2))
    return struct.pack(f"<f{TOP}H{TOP}f{SAMPLES}f", square, *top, *row[top], *row[sample])


def main():
    torch.set_grad_enabled(False)
    start = time.time()
    model, template = load(MODEL)
    prompts = sorted(read_prompts(template))
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i][1]))
    answers = {}
    while order:
        n = BATCH if len(prompts[order[0]][1]) < 1000 else 1
        batch = [i for i in order[:n] if n == 1 or len(prompts[i][1]) < 1000]
        order = order[len(batch):]
        for i, tokens in zip(batch, decode(model, [prompts[i][1] for i in batch])):
            answers[i] = tokens
        print(f"{time.time() - start:.0f} s: {len(answers)} of {len(prompts)} continued", file=sys.stderr, flush=True)
    lines, records, least, differ = [], [], [], 0
    for i, (name, ids, cksum) in enumerate(prompts):
        rows = model(torch.tensor([ids + answers[i]]), logits_to_keep=STEPS + 1).logits[0, :-1].numpy()
        for step in range(STEPS):
            best = np.argsort(-rows[step], kind="stable")[:2]
            gap = float(rows[step][best[0]] - rows[step][best[1]])
            least.append((gap, name, step))
            if best[0] != answers[i][step]:
                print(f"{name}: step {step}: decoded {answers[i][step]}, in one pass {best[0]}, gap {gap:.2g}",
                      file=sys.stderr)
                differ += 1
            records.append(record(rows[step], len(records)))
        lines.append(f"{name} {len(ids)} {cksum.split()[0].decode()} {','.join(map(str, answers[i]))}\n")
        print(f"{time.time() - start:.0f} s: {name}: {len(ids)} ids", file=sys.stderr, flush=True)
    if differ:
        sys.exit("two ways of evaluating choose differently: nothing was written")
    os.makedirs("tests/real/golden", exist_ok=True)
    open("tests/real/golden/tokens.txt", "w").writelines(lines)
    open("tests/real/golden/logits.bin", "wb").write(b"".join(records))
    print("smallest gaps between the two best:", *(f"{g:.2g} ({n} {s})" for g, n, s in sorted(least)[:6]))


main()
