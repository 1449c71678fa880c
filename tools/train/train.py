#!/usr/bin/env python3
"""Trains the demo model on one GPU, in resumable slices.

    python3 train.py --out DIR [--minutes 7.5] [--steps 12000]     again and again until it says that it is done

DIR keeps tokenizer.json, state.pt (weights, optimiser, step) and log.csv; curve.png is redrawn after each slice."""

import argparse
import csv
import os
import time

import torch
import torch.nn.functional as F

import batches
import vocab
from model import Config, Model

ROWS, LENGTH, LONG_ROWS, LONG_LENGTH, LONG_EVERY = 64, 1024, 24, 2560, 3


def rate(step, total, peak):
    """Warm-up, a plateau, a linear fall to zero over the last 40 %."""
    return peak * min(1, (step + 1) / 300, max(0.0, (total - step) / (0.4 * total)))


class Stepper:
    """One training step per batch shape, recorded once as a CUDA graph and replayed."""

    def __init__(self, model, opt, params):
        self.model, self.opt, self.params, self.graphs = model, opt, params, {}

    def body(self, t, p, y):
        logits, balance = self.model(t, p)
        loss = F.cross_entropy(logits.view(-1, logits.shape[-1]).float(), y.view(-1).long(), ignore_index=-1)
        (loss + 0.01 * balance).backward()
        torch.nn.utils.clip_grad_norm_(self.params, 1.0, foreach=True)
        self.opt.step()
        self.opt.zero_grad(set_to_none=False)
        return loss.detach()

    def __call__(self, batch):
        key = tuple(batch[0].shape)
        if key not in self.graphs:
            static = [b.cuda() for b in batch]
            side = torch.cuda.Stream()
            side.wait_stream(torch.cuda.current_stream())
            with torch.cuda.stream(side):
                for _ in range(2):
                    self.body(*static)
            torch.cuda.current_stream().wait_stream(side)
            graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(graph):
                loss = self.body(*static)
            self.graphs[key] = graph, static, loss
        graph, static, loss = self.graphs[key]
        for s, b in zip(static, batch):
            s.copy_(b, non_blocking=True)
        graph.replay()
        return loss


def curve(out):
    import matplotlib
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt
    rows = list(csv.reader(open(out + "/log.csv")))
    x, y = [int(r[0]) for r in rows], [float(r[1]) for r in rows]
    plt.figure(figsize=(8, 4.5))
    plt.semilogy(x, y, lw=1)
    plt.xlabel("step (65,536 tokens)")
    plt.ylabel("loss on answers (nats per token)")
    plt.title("zinc demo model: training loss")
    plt.grid(alpha=0.3)
    plt.tight_layout()
    plt.savefig(out + "/curve.png", dpi=100)


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--out", required=True)
    ap.add_argument("--minutes", type=float, default=7.5)
    ap.add_argument("--steps", type=int, default=12000)
    ap.add_argument("--lr", type=float, default=2e-3)
    ap.add_argument("--workers", type=int, default=14)
    ap.add_argument("--seed", type=int, default=1)
    a = ap.parse_args()
    began = time.time()
    os.makedirs(a.out, exist_ok=True)
    os.environ["TOKENIZERS_PARALLELISM"] = "false"
    torch.backends.cuda.matmul.allow_tf32 = True
    torch.manual_seed(a.seed)
    vocab.load(a.out + "/tokenizer.json", Config.vocab)
    model = Model().cuda()
    params = list(model.parameters())
    decay = [p for p in params if p.ndim >= 2]
    lr = torch.tensor(0.0, device="cuda")
    opt = torch.optim.AdamW([{"params": decay, "weight_decay": 0.05}, {"params": [p for p in params if p.ndim < 2], "weight_decay": 0.0}],
                            lr=lr, betas=(0.9, 0.98), capturable=True, fused=True)
    step, state = 0, a.out + "/state.pt"
    for p in params:
        p.grad = torch.zeros_like(p)
    stepper = Stepper(model, opt, params)
    if os.path.exists(state):
        s = torch.load(state, map_location="cuda")
        model.load_state_dict(s["model"])
        opt.load_state_dict(s["opt"])
        for g in opt.param_groups:
            g["lr"] = lr
        step = s["step"]
    print(f"{sum(p.numel() for p in params) / 1e6:.2f} M parameters, from step {step} of {a.steps}", flush=True)
    data = iter(batches.loader(a.seed + step, a.out + "/tokenizer.json", ROWS, LENGTH, LONG_ROWS, LONG_LENGTH, LONG_EVERY, a.workers))
    log = open(a.out + "/log.csv", "a")
    recent, tokens, mark, waited = [], 0, time.time(), 0.0
    while step < a.steps and time.time() - began < a.minutes * 60:
        t0 = time.time()
        batch = next(data)
        waited += time.time() - t0
        lr.fill_(rate(step, a.steps, a.lr))
        loss = stepper(batch)
        tokens += batch[0].numel()
        step += 1
        if step % 20 == 0:
            recent.append(loss.clone())
        if step % 200 == 0:
            mean = torch.stack(recent).mean().item()
            log.write(f"{step},{mean:.5f}\n")
            log.flush()
            print(f"step {step} loss {mean:.4f} {tokens / (time.time() - mark) / 1e3:.0f} k tok/s, waiting for data {100 * waited / (time.time() - mark):.0f} %", flush=True)
            recent, tokens, mark, waited = [], 0, time.time(), 0.0
    torch.save({"model": model.state_dict(), "opt": opt.state_dict(), "step": step}, state + ".tmp")
    os.replace(state + ".tmp", state)
    curve(a.out) if os.path.getsize(a.out + "/log.csv") else None
    print("done" if step >= a.steps else f"stopped at step {step} of {a.steps}: run again to go on", f"{time.time() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
