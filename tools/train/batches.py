"""Packed batches from the generator: workers write conversations, tokenise them and fill rows without padding."""

import random

import numpy as np
import torch
from torch.utils.data import DataLoader, IterableDataset, get_worker_info

import data
import vocab


class Packed(IterableDataset):
    """Yields (tokens, positions, targets) int32 [rows, length]; targets are -1 where nothing is to be learned.
    Every `long_every`-th batch holds long conversations, in rows of `long_length`."""

    def __init__(self, seed, tok_path, rows, length, long_rows, long_length, long_every):
        self.args = seed, tok_path, rows, length, long_rows, long_length, long_every

    def __iter__(self):
        seed, path, rows, length, lrows, llength, every = self.args
        w = get_worker_info()
        r = random.Random(seed * 1000 + (w.id if w else 0))
        self.tok = vocab.load(path, 0)
        self.end = self.tok.token_to_id("<|endoftext|>")
        i = w.id if w else 0
        while True:
            long = i % every == every - 1
            yield self.batch(r, lrows if long else rows, llength if long else length, long)
            i += 1

    def conversations(self, r, long):
        while True:
            convs = [data.render(data.conversation(r, long=long and r.random() < 0.7)) for _ in range(256 if not long else 32)]
            pieces = [p for c in convs for p in c]
            ids = self.tok.encode_batch_fast([t for t, _ in pieces], add_special_tokens=False)
            it = iter(ids)
            for c in convs:
                toks, trained = [], []
                for _, tr in c:
                    e = next(it).ids
                    toks += e
                    trained += [tr] * len(e)
                yield toks + [self.end], trained + [False]

    def batch(self, r, rows, length, long):
        tokens = np.full((rows, length + 1), self.end, np.int32)
        pos = np.zeros((rows, length + 1), np.int32)
        learn = np.zeros((rows, length + 1), bool)
        src = self.conversations(r, long)
        for i in range(rows):
            n = 0
            while n < length + 1:
                t, m = next(src)
                k = min(len(t), length + 1 - n)
                if k < len(t) and n and k < 64:
                    pos[i, n:] = np.arange(k)
                    break
                tokens[i, n:n + k], learn[i, n:n + k], pos[i, n:n + k] = t[:k], m[:k], np.arange(k)
                n += k
        target = np.where(learn[:, 1:] & (pos[:, 1:] > 0), tokens[:, 1:], -1)
        return torch.from_numpy(tokens[:, :-1].copy()), torch.from_numpy(pos[:, :-1].copy()), torch.from_numpy(target)


def loader(seed, tok_path, rows, length, long_rows, long_length, long_every, workers):
    ds = Packed(seed, tok_path, rows, length, long_rows, long_length, long_every)
    return DataLoader(ds, batch_size=None, num_workers=workers, prefetch_factor=4, pin_memory=True)
