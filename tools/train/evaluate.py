#!/usr/bin/env python3
"""Exact-match accuracy by task on held-out prompts, greedy.   python3 evaluate.py --out DIR [--n 200]

Writes DIR/eval.md and DIR/eval.json. The prompts: heldout.py."""

import argparse
import json

import torch
import torch._dynamo

import data
import heldout
import vocab
from model import CHUNK, Model

SHOW = ["Hello!", "What is 27 + 48?", "Tell me a story about an owl called Pip.", "What is the capital of Norway?", "Sort these numbers: 44, 7, 91, 3, 60",
        "My cat is called Pepper. What is my cat called?", "Reverse this list: moon, tree, key, bell", "Who are you?"]


@torch.no_grad()
def generate(model, tok, prompts, n_new, dtype=torch.float32):
    """Greedy continuations of token lists, batched by re-running the growing prefix: no cache to get wrong."""
    stop = tok.token_to_id("<|im_end|>")
    out = [[] for _ in prompts]
    order = sorted(range(len(prompts)), key=lambda i: len(prompts[i]))
    per = 32 if len(prompts[order[-1]]) > 1024 else 256
    for b in range(0, len(order), per):
        idx = order[b:b + per]
        live = set(idx)
        for _ in range(n_new):
            seqs = [prompts[i] + out[i] for i in idx]
            T = -(-max(map(len, seqs)) // CHUNK) * CHUNK
            t = torch.zeros(len(idx), T, dtype=torch.int32)
            for r, s in enumerate(seqs):
                t[r, :len(s)] = torch.tensor(s, dtype=torch.int32)
            pos = torch.arange(T, dtype=torch.int32).expand(len(idx), T)
            logits, _ = model(t.cuda(), pos.cuda(), dtype)
            best = logits[torch.arange(len(idx)), torch.tensor([len(s) - 1 for s in seqs])].float().argmax(-1).tolist()
            for r, i in enumerate(idx):
                if i in live:
                    if best[r] == stop:
                        live.discard(i)
                    else:
                        out[i].append(best[r])
            if not live:
                break
    return out


def prompt_ids(tok, conv):
    return [i for t, _ in data.render(conv, generation=True) for i in tok.encode(t, add_special_tokens=False).ids]


def answer(text):
    return text.split("</think>")[-1].strip()


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--n", type=int, default=200)
    a = ap.parse_args()
    torch._dynamo.config.disable = True  # too many shapes to compile for
    tok = vocab.load(a.out + "/tokenizer.json", 0)
    items = list(heldout.suite(a.n))
    torch.backends.cuda.matmul.allow_tf32 = False
    model = Model().cuda().eval()
    model.load_state_dict(torch.load(a.out + "/state.pt", map_location="cuda")["model"])
    right, total, wrong = {}, {}, {}
    for task in data.EVAL:
        mine = [(c, w) for t, c, w in items if t == task]
        ids = [prompt_ids(tok, c) for c, _ in mine]
        got = generate(model, tok, ids, 96 if "think" in task or "tool" in task else 64)
        for (c, w), g, p in zip(mine, got, ids):
            text = answer(tok.decode(g, skip_special_tokens=False))
            total[task] = total.get(task, 0) + 1
            right[task] = right.get(task, 0) + (text == w)
            if text != w:
                wrong.setdefault(task, []).append((c.messages[-1]["content"][-100:], w, text))
    rows = [(t, right[t], total[t]) for t in data.EVAL]
    with open(a.out + "/eval.md", "w") as f:
        f.write("| task | right | of | % |\n|---|---|---|---|\n")
        for t, r, n in rows:
            f.write(f"| {t} | {r} | {n} | {100 * r / n:.1f} |\n")
    json.dump({t: [r, n] for t, r, n in rows}, open(a.out + "/eval.json", "w"))
    print(open(a.out + "/eval.md").read())
    for t, w in wrong.items():
        for q, want, got in w[:2]:
            print(f"[{t}] {q!r}\n   want {want!r}\n   got  {got!r}")
    ids = [prompt_ids(tok, data.Conv([data.user(q)], "show")) for q in SHOW]
    for q, g in zip(SHOW, generate(model, tok, ids, 200)):
        print("---", q, "\n", tok.decode(g, skip_special_tokens=False))


if __name__ == "__main__":
    main()
