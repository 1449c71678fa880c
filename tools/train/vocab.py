"""The demo model's vocabulary: byte-level BPE over the generated text, with Qwen3.5's pre-tokenizer."""

import json
import os
import random

from tokenizers import Regex, Tokenizer, decoders, models, pre_tokenizers, trainers

import data

SPECIAL = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]                                                 # control
MARKERS = ["<think>", "</think>", "<tool_call>", "</tool_call>", "<tool_response>", "</tool_response>"]  # user-defined
SPLIT = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def build(size, path, seed=7, chars=24_000_000):
    r = random.Random(seed)
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(SPLIT), "isolated"),
                                                 pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()

    def texts():
        n = 0
        while n < chars:
            t = "".join(p for p, _ in data.render(data.conversation(r)))
            for s in SPECIAL + MARKERS:
                t = t.replace(s, "\n")
            n += len(t)
            yield t
    tok.train_from_iterator(texts(), trainers.BpeTrainer(vocab_size=size - len(SPECIAL) - len(MARKERS), show_progress=False,
                                                         initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    tok.add_special_tokens(SPECIAL)
    tok.add_tokens(MARKERS)
    tok.save(path)
    return tok


def load(path, size):
    return Tokenizer.from_file(path) if os.path.exists(path) else build(size, path)


def tables(path, size):
    """(tokens, merges) as GGUF stores them: byte-level text, ids in order; merges as 'left right'."""
    j = json.load(open(path))
    vocab = dict(j["model"]["vocab"])
    for t in j["added_tokens"]:
        vocab[t["content"]] = t["id"]
    tokens = [t for t, _ in sorted(vocab.items(), key=lambda kv: kv[1])]
    tokens += [f"[UNUSED_{i}]" for i in range(size - len(tokens))]
    merges = [m if isinstance(m, str) else " ".join(m) for m in j["model"]["merges"]]
    return tokens, merges
