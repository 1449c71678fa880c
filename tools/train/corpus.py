#!/usr/bin/env python3
"""Stories told in conversations, like those that the demo model learned to answer with, as text with its control tokens: what
importance matrices and perplexities of the demo model are measured on (--parse-special). What people say in conversations the model
never learned to predict, so there is little of it.

    python3 corpus.py --seed 7 --n 200 > calibration.txt"""

import argparse
import random

import data

if __name__ == "__main__":
    p = argparse.ArgumentParser(description="stories in conversations, as text")
    p.add_argument("--seed", type=int, required=True, help="other seeds, other stories")
    p.add_argument("--n", type=int, default=200)
    a = p.parse_args()
    r = random.Random(f"corpus {a.seed}")
    for _ in range(a.n):
        ask, told, _ = data.tell_story(r)
        print("".join(t for t, _ in data.render(data.Conv([data.user(ask), data.bot(told)], "story"))), end="")
