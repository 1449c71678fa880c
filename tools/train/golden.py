#!/usr/bin/env python3
"""Golden vectors: the greedy tokens and logits that Hugging Face transformers computes from the same GGUF files.

    python3 golden.py --mkmodel build/mkmodel --demo models/zinc-demo.gguf --out tests/golden [NAME...]

A model's tensors are read from its GGUF file, put back into the checkpoint layout of transformers' own classes (what
llama.cpp's converter re-ordered is undone here) and run in float32. NAME.txt gets the prompts and the greedy tokens,
NAME.f32 the logits of some steps; doc/golden.md describes both and the rules. Needs torch and transformers 5."""

import argparse
import hashlib
import os
import random
import subprocess
import sys
import tempfile
import traceback

import numpy as np
import torch
import transformers

from gguf_read import Gguf

STEPS = 32                      # greedy tokens per prompt
LENGTHS = (3, 20, 45, 90, 200)  # prompts of the tiny models
MARGIN = 2e-3                   # least distance of the best two logits, over the rms of the row
STORY_MARGIN = 1e-4             # the demo: how a story begins is a choice among equals
TINY = ["llama", "llama3", "llama-moe", "mistral3", "qwen2", "qwen3", "qwen3moe", "qwen3next", "qwen35", "qwen35moe", "gemma3",
        "gemma3n", "gemma4", "gemma4-moe", "gemma4-e", "gpt-oss"]
OPTIONS = "--type Q8_0 --no-vocab"


# ---- from the file's layout to transformers' ------------------------------------------------------------------------


class Source:
    """A file's keys below its architecture's name, and its tensors; remembers which were taken."""

    def __init__(self, path):
        self.f = Gguf(path)
        self.arch = self.f.meta["general.architecture"]
        self.left = set(self.f.tensors)
        self.head_dim, self.n_head = self.key("attention.key_length"), self.key("attention.head_count")

    def key(self, name, default=None):
        return self.f.meta.get(f"{self.arch}.{name}", default)

    def has(self, name):
        return name in self.f.tensors

    def __call__(self, name):
        self.left.discard(name)
        return torch.from_numpy(self.f.array(name).copy())


def pairs_to_halves(w, n_head):
    """llama's q and k rows: the converter made rotated pairs adjacent, (i, i + d/2) -> (2i, 2i + 1)."""
    return w.reshape(n_head, -1, 2, w.shape[-1]).transpose(1, 2).reshape(w.shape)


def attention(t, b, p, out):
    for name, hf in (("attn_q", "q_proj"), ("attn_k", "k_proj"), ("attn_v", "v_proj"), ("attn_output", "o_proj")):
        for part in ("weight", "bias"):
            if t.has(f"{b}{name}.{part}"):
                w = t(f"{b}{name}.{part}")
                if t.arch in ("llama", "mistral3") and name in ("attn_q", "attn_k"):
                    w = pairs_to_halves(w, t.n_head if name == "attn_q" else t.key("attention.head_count_kv"))
                out[f"{p}self_attn.{hf}.{part}"] = w
    for n in "qk":
        if t.has(f"{b}attn_{n}_norm.weight"):
            out[f"{p}self_attn.{n}_norm.weight"] = t(f"{b}attn_{n}_norm.weight")


def dense_ffn(t, b, p, out, suffix=""):
    for n in ("gate", "up", "down"):
        out[f"{p}{n}_proj.weight"] = t(f"{b}ffn_{n}{suffix}.weight")


def experts(t, b, p, out):
    out[p + "gate.weight"] = t(b + "ffn_gate_inp.weight")
    out[p + "experts.gate_up_proj"] = torch.cat([t(b + "ffn_gate_exps.weight"), t(b + "ffn_up_exps.weight")], 1)
    out[p + "experts.down_proj"] = t(b + "ffn_down_exps.weight")
    if t.has(b + "ffn_gate_inp_shexp.weight"):
        out[p + "shared_expert_gate.weight"] = t(b + "ffn_gate_inp_shexp.weight").reshape(1, -1)
        dense_ffn(t, b, p + "shared_expert.", out, "_shexp")


def norms(t, b, p, out, names):
    for name, hf in names:
        out[f"{p}{hf}.weight"] = t(f"{b}{name}.weight")


def plus_one(out):
    """These classes multiply by 1 + weight, the file holds the sum. Not so the DeltaNet's own norm."""
    for k in out:
        if k.endswith("norm.weight") and "linear_attn" not in k:
            out[k] = out[k] - 1


def plain_layer(t, b, p, out):
    norms(t, b, p, out, (("attn_norm", "input_layernorm"), ("ffn_norm", "post_attention_layernorm")))
    attention(t, b, p, out)
    (experts if t.has(b + "ffn_gate_inp.weight") else dense_ffn)(t, b, p + "mlp.", out)


def delta_net(t, b, p, out):
    n_k, n_v, d = t.key("ssm.group_count"), t.key("ssm.time_step_rank"), t.key("ssm.state_size")
    r, kd = n_v // n_k, n_k * d
    qkv, z, conv = t(b + "attn_qkv.weight"), t(b + "attn_gate.weight"), t(b + "ssm_conv1d.weight")
    small = {n: t(b + n) for n in ("ssm_a", "ssm_dt.bias")}
    o = t(b + "ssm_out.weight")
    if t.arch == "qwen3next":  # one matrix, by k-head: its q, k, r v-heads, r z-heads
        q, k, v = qkv.split([kd, kd, n_v * d])
        rows = [x.reshape(n_k, -1, x.shape[-1]) for x in (q, k, v, z)]
        out[p + "in_proj_qkvz.weight"] = torch.cat(rows, 1).reshape(-1, qkv.shape[-1])
        out[p + "in_proj_ba.weight"] = t(b + "ssm_ba.weight")
    else:  # the file's v-head h reads k-head h % n_k, transformers' reads h // r
        order = torch.tensor([h % r * n_k + h // r for h in range(n_v)])
        heads = lambda x: x.reshape(n_v, d, -1)[order].reshape(x.shape)
        tail = lambda x: torch.cat([x[:2 * kd], heads(x[2 * kd:])])
        qkv, conv, z = tail(qkv), tail(conv), heads(z)
        small = {n: x[order] for n, x in small.items()}
        o = o.reshape(-1, n_v, d)[:, order].reshape(o.shape)
        out[p + "in_proj_qkv.weight"], out[p + "in_proj_z.weight"] = qkv, z
        for n, hf in (("ssm_beta", "in_proj_b"), ("ssm_alpha", "in_proj_a")):
            out[f"{p}{hf}.weight"] = t(f"{b}{n}.weight")[order]
    out[p + "conv1d.weight"] = conv.unsqueeze(1)
    out[p + "A_log"], out[p + "dt_bias"] = torch.log(-small["ssm_a"]), small["ssm_dt.bias"]
    out[p + "norm.weight"], out[p + "out_proj.weight"] = t(b + "ssm_norm.weight"), o


def hybrid_layer(t, b, p, out):
    norms(t, b, p, out, (("attn_norm", "input_layernorm"), ("post_attention_norm", "post_attention_layernorm")))
    if t.has(b + "attn_qkv.weight"):
        delta_net(t, b, p + "linear_attn.", out)
    else:  # attn_q: per head the query rows, then the gate rows, as in q_proj
        attention(t, b, p, out)
    (experts if t.has(b + "ffn_gate_inp.weight") else dense_ffn)(t, b, p + "mlp.", out)


GEMMA_NORMS = (("attn_norm", "input_layernorm"), ("post_attention_norm", "post_attention_layernorm"),
               ("ffn_norm", "pre_feedforward_layernorm"), ("post_ffw_norm", "post_feedforward_layernorm"))


def gemma_layer(t, b, p, out):
    norms(t, b, p, out, GEMMA_NORMS)
    attention(t, b, p, out)
    dense_ffn(t, b, p + "mlp.", out)
    if t.arch == "gemma4":
        out[p + "layer_scalar"] = t(b + "layer_output_scale.weight")
    if t.has(b + "inp_gate.weight"):
        norms(t, b, p, out, (("inp_gate", "per_layer_input_gate"), ("proj", "per_layer_projection"),
                             ("post_norm", "post_per_layer_input_norm")))
    if t.has(b + "ffn_gate_inp.weight"):
        norms(t, b, p, out, (("post_ffw_norm_1", "post_feedforward_layernorm_1"),
                             ("pre_ffw_norm_2", "pre_feedforward_layernorm_2"),
                             ("post_ffw_norm_2", "post_feedforward_layernorm_2")))
        out[p + "router.proj.weight"] = t(b + "ffn_gate_inp.weight")
        out[p + "router.scale"] = t(b + "ffn_gate_inp.scale")
        out[p + "router.per_expert_scale"] = t(b + "ffn_down_exps.scale")
        out[p + "experts.gate_up_proj"] = t(b + "ffn_gate_up_exps.weight")
        out[p + "experts.down_proj"] = t(b + "ffn_down_exps.weight")


def gemma3n_layer(t, b, p, out):
    gemma_layer(t, b, p, out)
    norms(t, b, p + "altup.", out, (("altup_router", "modality_router"), ("altup_router_norm", "router_norm"),
                                    ("altup_predict_coef", "prediction_coefs"), ("altup_correct_coef", "correction_coefs")))
    out[p + "altup.correct_output_scale"] = t(b + "altup_correct_scale.weight")
    norms(t, b, p + "laurel.", out, (("laurel_l", "linear_left"), ("laurel_r", "linear_right"), ("laurel_post_norm", "post_laurel_norm")))


def gpt_oss_layer(t, b, p, out):
    """The experts' matrices are transposed there, gate and up rows alternate."""
    norms(t, b, p, out, (("attn_norm", "input_layernorm"), ("post_attention_norm", "post_attention_layernorm")))
    attention(t, b, p, out)
    out[p + "self_attn.sinks"] = t(b + "attn_sinks.weight")
    for part in ("weight", "bias"):
        out[f"{p}mlp.router.{part}"] = t(f"{b}ffn_gate_inp.{part}")
    gate, up, down = (t(f"{b}ffn_{n}_exps.weight") for n in ("gate", "up", "down"))
    n, ff, d = gate.shape
    out[p + "mlp.experts.gate_up_proj"] = torch.stack([gate, up], 2).reshape(n, 2 * ff, d).transpose(1, 2).contiguous()
    out[p + "mlp.experts.down_proj"] = down.transpose(1, 2).contiguous()
    gate, up, down = (t(f"{b}ffn_{n}_exps.bias") for n in ("gate", "up", "down"))
    out[p + "mlp.experts.gate_up_proj_bias"] = torch.stack([gate, up], 2).flatten(1)
    out[p + "mlp.experts.down_proj_bias"] = down


def base_config(t, n_vocab, tied):
    c = dict(vocab_size=n_vocab, hidden_size=t.key("embedding_length"), num_hidden_layers=t.key("block_count"),
             num_attention_heads=t.n_head, num_key_value_heads=t.key("attention.head_count_kv"), head_dim=t.head_dim,
             rms_norm_eps=t.key("attention.layer_norm_rms_epsilon"), max_position_embeddings=131072,
             tie_word_embeddings=tied, pad_token_id=None, bos_token_id=None, eos_token_id=None,
             rope_parameters={"rope_type": "default", "rope_theta": t.key("rope.freq_base")})
    if t.key("feed_forward_length"):
        c["intermediate_size"] = t.key("feed_forward_length")
    if t.key("expert_count"):
        c.update(num_experts=t.key("expert_count"), num_experts_per_tok=t.key("expert_used_count"))
        c["moe_intermediate_size"] = t.key("expert_feed_forward_length")
    return c


def family(t, n_vocab, tied):
    """(class name, arguments of its configuration, function that maps a layer, are norms stored less one)"""
    c = base_config(t, n_vocab, tied)
    rope = c["rope_parameters"]
    if t.arch == "llama":
        if t.has("rope_freqs.weight"):
            rope.update(rope_type="llama3", factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
                        original_max_position_embeddings=8192)
        if not t.key("expert_count"):
            return "LlamaForCausalLM", c, plain_layer, False
        c.update(num_local_experts=c.pop("num_experts"), sliding_window=None)
        c.pop("moe_intermediate_size")
        return "MixtralForCausalLM", c, plain_layer, False
    if t.arch == "mistral3":
        # yarn_log_multiplier 1: mscale over mscale_all_dim is 1; truncate: as with gpt-oss
        rope.update(rope_type="yarn", factor=t.key("rope.scaling.factor"), beta_fast=32.0, beta_slow=1.0, mscale=1.0,
                    mscale_all_dim=t.key("rope.scaling.yarn_log_multiplier"), truncate=True,
                    original_max_position_embeddings=t.key("rope.scaling.original_context_length"),
                    llama_4_scaling_beta=t.key("attention.temperature_scale"))
        return "Ministral3ForCausalLM", c, plain_layer, False
    if t.arch == "qwen2":
        return "Qwen2ForCausalLM", c, plain_layer, False
    if t.arch == "qwen3":
        return "Qwen3ForCausalLM", c, plain_layer, False
    if t.arch == "qwen3moe":
        c.update(norm_topk_prob=True, decoder_sparse_step=1, mlp_only_layers=[])
        return "Qwen3MoeForCausalLM", c, plain_layer, False
    if t.arch in ("qwen3next", "qwen35", "qwen35moe"):
        rope["partial_rotary_factor"] = t.key("rope.dimension_count") / t.head_dim
        if t.key("rope.dimension_sections"):
            rope.update(mrope_section=t.key("rope.dimension_sections")[:3], mrope_interleaved=True)
        every = t.key("full_attention_interval")
        c.update(linear_conv_kernel_dim=t.key("ssm.conv_kernel"), linear_key_head_dim=t.key("ssm.state_size"),
                 linear_value_head_dim=t.key("ssm.inner_size") // t.key("ssm.time_step_rank"),
                 linear_num_key_heads=t.key("ssm.group_count"), linear_num_value_heads=t.key("ssm.time_step_rank"),
                 layer_types=["full_attention" if (i + 1) % every == 0 else "linear_attention"
                              for i in range(t.key("block_count"))])
        if t.key("expert_count"):
            c["shared_expert_intermediate_size"] = t.key("expert_shared_feed_forward_length")
        if t.arch == "qwen3next":
            c["norm_topk_prob"] = True
        name = {"qwen3next": "Qwen3Next", "qwen35": "Qwen3_5", "qwen35moe": "Qwen3_5Moe"}[t.arch]
        return name + "ForCausalLM", c, hybrid_layer, True
    if t.arch == "gemma3":
        full = dict(rope, rope_type="linear", factor=t.key("rope.scaling.factor"))
        c.update(sliding_window=t.key("attention.sliding_window"), query_pre_attn_scalar=t.head_dim,
                 rope_parameters={"full_attention": full, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})
        return "Gemma3ForCausalLM", c, gemma_layer, True
    if t.arch == "gemma3n":
        sliding = t.key("attention.sliding_window_pattern")
        cdf = torch.distributions.normal.Normal(0, 1).cdf  # the file has the quantiles; -inf is 0's
        c.update(sliding_window=t.key("attention.sliding_window"), vocab_size_per_layer_input=n_vocab, altup_correct_scale=True,
                 hidden_size_per_layer_input=t.key("embedding_length_per_layer_input"), final_logit_softcapping=30.0,
                 altup_active_idx=t.key("altup.active_idx"), altup_num_inputs=t.key("altup.num_inputs"),
                 num_kv_shared_layers=int(t.key("attention.shared_kv_layers")), laurel_rank=len(t("blk.0.laurel_l.weight")),
                 activation_sparsity_pattern=[float(cdf(torch.tensor(float(s)))) for s in t.key("activation_sparsity_scale")],
                 layer_types=["sliding_attention" if s else "full_attention" for s in sliding],
                 rope_parameters={"full_attention": rope, "sliding_attention": {"rope_type": "default", "rope_theta": 1e4}})
        return "Gemma3nForCausalLM", c, gemma3n_layer, False
    if t.arch == "gemma4":
        sliding = t.key("attention.sliding_window_pattern")
        kv = t.key("attention.head_count_kv")
        full = {"rope_type": "proportional", "partial_rotary_factor": 0.25, "rope_theta": t.key("rope.freq_base")}
        local = {"rope_type": "default", "rope_theta": t.key("rope.freq_base_swa")}
        full_layer = sliding.index(False)
        c.update(sliding_window=t.key("attention.sliding_window"), head_dim=t.key("attention.key_length_swa"),
                 global_head_dim=t.head_dim, num_key_value_heads=kv[sliding.index(True)],
                 attention_k_eq_v=not t.has(f"blk.{full_layer}.attn_v.weight"), num_global_key_value_heads=kv[full_layer],
                 hidden_size_per_layer_input=t.key("embedding_length_per_layer_input"),
                 num_kv_shared_layers=t.key("attention.shared_kv_layers"),
                 layer_types=["sliding_attention" if s else "full_attention" for s in sliding],
                 final_logit_softcapping=t.key("final_logit_softcapping"), vocab_size_per_layer_input=n_vocab,
                 rope_parameters={"full_attention": full, "sliding_attention": local})
        width = t.key("feed_forward_length")
        if isinstance(width, list):  # the layers that share keys are twice as wide
            c.update(intermediate_size=width[0], use_double_wide_mlp=width[-1] == 2 * width[0])
        if t.key("expert_count"):
            c.update(enable_moe_block=True, top_k_experts=c.pop("num_experts_per_tok"))
        return "Gemma4ForCausalLM", c, gemma_layer, False
    if t.arch == "gpt-oss":
        # truncate: llama.cpp rounds the ramp's bounds, and so does zinc; the released configuration does not
        rope.update(rope_type="yarn", factor=t.key("rope.scaling.factor"), beta_fast=32.0, beta_slow=1.0, truncate=True,
                    original_max_position_embeddings=t.key("rope.scaling.original_context_length"))
        c.update(num_local_experts=c.pop("num_experts"), intermediate_size=c.pop("moe_intermediate_size"),
                 sliding_window=t.key("attention.sliding_window"))
        return "GptOssForCausalLM", c, gpt_oss_layer, False
    raise ValueError(f"no mapping for {t.arch}")


def check_rope_freqs(t, model):
    """The file's table of divisors against transformers' frequencies, which come from the configuration."""
    divisor = t("rope_freqs.weight").double()
    rope = model.model.rotary_emb
    got = (rope.full_attention_inv_freq if t.arch == "gemma4" else rope.inv_freq).double().cpu()
    want = t.key("rope.freq_base") ** (-torch.arange(len(divisor)).double() / len(divisor)) / divisor
    if not torch.allclose(got, want, rtol=1e-5, atol=1e-20):
        raise ValueError(f"rope_freqs: {got} instead of {want}")


def load(path, device):
    t = Source(path)
    tied = not t.has("output.weight")
    embed = t("token_embd.weight")
    name, args, layer, less_one = family(t, embed.shape[0], tied)
    cls = getattr(transformers, name)
    config = cls.config_class(**args)
    config._attn_implementation = config._experts_implementation = "eager"
    model = cls(config).float().eval().to(device)
    out = {"model.embed_tokens.weight": embed, "lm_head.weight": embed if tied else t("output.weight"),
           "model.norm.weight": t("output_norm.weight")}
    for gguf, hf in (("token_embd", "embed_tokens_per_layer"), ("model_proj", "per_layer_model_projection"),
                     ("proj_norm", "per_layer_projection_norm")):
        if t.has(f"per_layer_{gguf}.weight"):
            out[f"model.{hf}.weight"] = t(f"per_layer_{gguf}.weight")
    for gguf, hf in (("altup_proj", "altup_projections"), ("altup_unembd_proj", "altup_unembed_projections")):
        if t.has(f"{gguf}.weight"):
            out.update({f"model.{hf}.{i}.weight": w for i, w in enumerate(t(f"{gguf}.weight"))})
    for i in range(t.key("block_count")):
        layer(t, f"blk.{i}.", f"model.layers.{i}.", out)
    if less_one:
        plus_one(out)
    model.load_state_dict(out, strict=True)
    if t.has("rope_freqs.weight"):
        check_rope_freqs(t, model)
    if t.left:
        raise ValueError(f"{path}: not mapped: {sorted(t.left)}")
    c = model.config
    print(f"  {name}: attention {c._attn_implementation}, experts {getattr(c, '_experts_implementation', None)}", flush=True)
    if c._attn_implementation != "eager":
        raise ValueError("attention is not the eager one")
    return t, model


# ---- prompts --------------------------------------------------------------------------------------------------------


def random_prompts(name, n_vocab):
    """Several of each length: the first whose tokens are all clearly chosen is taken."""
    r = random.Random("golden " + name)
    return [[r.randrange(n_vocab) for _ in range(n)] for n in LENGTHS for _ in range(4)]


def demo_texts():
    """[(task, texts)]: twenty prompts; of several texts the first whose tokens are all clearly chosen is taken."""
    import data
    r = random.Random("golden demo")
    text = lambda c: "".join(p for p, _ in data.render(c, generation=True))
    ask = lambda q, think=None: text(data.Conv([data.user(q)], "golden", think=think))
    for task in ("add_2digit", "add_2digit", "subtract", "multiply", "sort_5", "reverse", "count", "copy", "recall_100",
                 "tool_call", "tool_answer", "think_add_3digit"):
        yield task, [text(data.heldout(task, r)[0])]
    yield "recall_1000", [text(data.Conv(data.recall(r, chars=3000).messages[:-1], "golden"))]
    for c, _ in r.sample(data.facts_eval(), 2):
        yield "fact", [text(c)]
    for hero in ("owl", "fox"):  # a story may go on in several ways
        yield "story", [ask(f"Tell me a story about {q}.") for q in
                        (f"an {hero} called Pip" if hero == "owl" else f"a {hero} called Rose", f"the {hero}",
                         f"a little {hero}", f"a {hero} and a boat", f"a brave {hero}", f"a {hero} and a key",
                         *(f"{'an' if hero == 'owl' else 'a'} {hero} called {n}" for n in
                           "Anna Ben Clara David Emma Felix Grace Henry Ivy Jack Kate Leo Mia Noah Paul Rosa Sam Tess".split()))]
    yield "chat", [ask("Hello!")]
    yield "chat", [ask("Who are you?")]
    yield "think", [ask("What is 27 + 48?", True)]


def demo_prompts(f):
    """[(number, task, text, ids)], tokenised by the tokenizers library from the file's own vocabulary."""
    from tokenizers import Regex, Tokenizer, models, pre_tokenizers
    import vocab
    tokens = f.meta["tokenizer.ggml.tokens"]
    merges = [tuple(m.split(" ")) for m in f.meta["tokenizer.ggml.merges"]]
    tok = Tokenizer(models.BPE({s: i for i, s in enumerate(tokens)}, merges))
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(vocab.SPLIT), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.add_special_tokens(vocab.SPECIAL)
    tok.add_tokens(vocab.MARKERS)
    return [(k, task, text, tok.encode(text, add_special_tokens=False).ids)
            for k, (task, texts) in enumerate(demo_texts()) for text in texts]


# ---- the run --------------------------------------------------------------------------------------------------------


@torch.no_grad()
def greedy(model, prompts, stop, device):
    """Per prompt (tokens, [tokens, n_vocab] logits): the growing sequences go through the model as a whole each time,
    one batch, zeros on the right. Nothing here looks to the right, and there is no cache to get wrong."""
    out = [[] for _ in prompts]
    rows = [[] for _ in prompts]
    for _ in range(STEPS):
        live = [i for i, o in enumerate(out) if not o or o[-1] not in stop]
        if not live:
            break
        seqs = [prompts[i] + out[i] for i in live]
        ids = torch.zeros(len(live), max(map(len, seqs)), dtype=torch.long)
        for r, s in enumerate(seqs):
            ids[r, :len(s)] = torch.tensor(s)
        logits = model(input_ids=ids.to(device), use_cache=False).logits
        last = logits[torch.arange(len(live)), torch.tensor([len(s) - 1 for s in seqs])].float().cpu().numpy()
        for i, row in zip(live, last):
            out[i].append(int(row.argmax()))
            rows[i].append(row)
    return [(o, np.stack(r)) for o, r in zip(out, rows)]


def margin(logits):
    top = np.sort(logits, 1)[:, -2:]
    return float(((top[:, 1] - top[:, 0]) / np.sqrt((logits.astype(np.float64) ** 2).mean(1))).min())


def write(out, name, source, path, n_vocab, runs):
    """runs: [(comment, prompt, tokens, logits, steps whose logits are kept)]"""
    digest = hashlib.sha256(open(path, "rb").read()).hexdigest()
    with open(f"{out}/{name}.txt", "w") as f, open(f"{out}/{name}.f32", "wb") as g:
        f.write(f"# tools/train/golden.py: transformers {transformers.__version__}, torch {torch.__version__}, float32\n")
        f.write(f"{source}\nsha256 {digest}\nvocab {n_vocab}\n")
        for comment, prompt, tokens, logits, steps in runs:
            f.write(f"\n# {comment}, margin {margin(logits):.3f}\nprompt {','.join(map(str, prompt))}\n"
                    f"steps {' '.join(map(str, steps))}\ngreedy {' '.join(map(str, tokens))}\n")
            g.write(np.ascontiguousarray(logits[steps], "<f4").tobytes())


def states(model, prompt, path, device):
    """The residual stream in front of every layer, for finding where a difference begins."""
    with torch.no_grad():
        h = model(input_ids=torch.tensor([prompt], device=device), use_cache=False, output_hidden_states=True).hidden_states
    np.save(path, torch.cat(h).float().cpu().numpy())


def tiny(a, name, device):
    with tempfile.TemporaryDirectory() as tmp:
        path = f"{tmp}/{name}.gguf"
        subprocess.run([a.mkmodel, f"tiny-{name}", path, *OPTIONS.split()], check=True, stdout=subprocess.DEVNULL,
                       stderr=subprocess.DEVNULL)
        t, model = load(path, device)
        n_vocab = model.config.vocab_size
        prompts = random_prompts(name, n_vocab)
        results = greedy(model, prompts, (), device)
        runs = []
        for n in LENGTHS:
            mine = [i for i, p in enumerate(prompts) if len(p) == n and margin(results[i][1]) >= MARGIN]
            if not mine:
                raise ValueError(f"no prompt of {n} tokens is clear enough")
            runs.append((f"{n} random tokens", prompts[mine[0]], *results[mine[0]], [0, STEPS - 1]))
        write(a.out, "tiny-" + name, f"make tiny-{name} {OPTIONS}", path, n_vocab, runs)
        if a.states:
            states(model, runs[1][1], f"{a.states}/{name}.npy", device)


def demo(a, device):
    t, model = load(a.demo, device)
    tokens = t.f.meta["tokenizer.ggml.tokens"]
    stop = {t.f.meta["tokenizer.ggml.eos_token_id"], tokens.index("<|endoftext|>")}
    prompts = demo_prompts(t.f)
    runs = []
    for (k, task, text, ids), (got, logits) in zip(prompts, greedy(model, [p[-1] for p in prompts], stop, device)):
        if len(runs) == k and margin(logits) >= (STORY_MARGIN if task == "story" else MARGIN):
            runs.append((task, ids, got, logits, [0] if k % 4 else [0, len(got) - 1]))
    if len(runs) <= prompts[-1][0]:
        raise ValueError(f"prompt {len(runs)} of the demo is not clear enough")
    write(a.out, "zinc-demo", "file models/zinc-demo.gguf", a.demo, len(tokens), runs)


def main():
    ap = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    ap.add_argument("--mkmodel", default="build/mkmodel")
    ap.add_argument("--demo", default="models/zinc-demo.gguf")
    ap.add_argument("--out", default="tests/golden")
    ap.add_argument("--states", metavar="DIR", help="also write the hidden states of one prompt of each tiny model")
    ap.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    ap.add_argument("names", nargs="*", help="only these: " + " ".join(["zinc-demo"] + TINY))
    a = ap.parse_args()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.set_float32_matmul_precision("highest")
    for d in filter(None, (a.out, a.states)):
        os.makedirs(d, exist_ok=True)
    failed = []
    for name in a.names or ["zinc-demo"] + TINY:
        print(name, flush=True)
        try:
            demo(a, a.device) if name == "zinc-demo" else tiny(a, name, a.device)
        except Exception:  # the others are still worth having
            traceback.print_exc(limit=-3)
            failed.append(name)
    if failed:
        sys.exit("failed: " + " ".join(failed))


if __name__ == "__main__":
    main()
