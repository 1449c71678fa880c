#!/usr/bin/env python3
"""The held-out prompts of the evaluation, as JSON lines for `zinc eval`.

    python3 heldout.py [--n 40] > ../../models/zinc-demo.eval.jsonl

Sums use operand pairs that training never sees (data.held_pair); lists, codes and names are drawn anew. A line holds
"task", "want" (the exact answer), and "messages" with "think", or "prompt", the rendered text, where tools are in it."""

import argparse
import json
import random

import data


def suite(n, seed=2026):
    """(task, conversation, expected answer); the table of facts is asked whole."""
    for task in data.EVAL:
        if task == "fact":
            yield from ((task, c, w) for c, w in data.facts_eval())
        else:
            r = random.Random(f"{seed}{task}")
            yield from ((task, *data.heldout(task, r)) for _ in range(n))


def line(task, c, want):
    if c.tools:
        return {"task": task, "prompt": "".join(t for t, _ in data.render(c, generation=True)), "want": want}
    return {"task": task, "messages": [{"role": m["role"], "content": m["content"]} for m in c.messages],
            "think": c.think is not None, "want": want}


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--n", type=int, default=40)
    a = ap.parse_args()
    for task, c, want in suite(a.n):
        print(json.dumps(line(task, c, want)))


if __name__ == "__main__":
    main()
