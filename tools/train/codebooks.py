#!/usr/bin/env python3
"""Writes kernels/codebooks.inc: the codebooks of the IQ types, which are part of the GGUF format.

    python3 -m venv v && v/bin/pip install gguf==0.19.0 && v/bin/python tools/train/codebooks.py >kernels/codebooks.inc

They were chosen by search when the types were made, so no formula gives them. Source: the tables that the format's own
Python package publishes (gguf, MIT licence). tests/peer/ggml_types.c holds what they decode to against ggml's C tables."""
import hashlib

from gguf import quants

BOOKS = [  # name here, class there, elements of an entry, the byte of a value
    ('iq2_xxs', quants.IQ2_XXS, 8, lambda v: v),
    ('iq2_xs', quants.IQ2_XS, 8, lambda v: v),
    ('iq2_s', quants.IQ2_S, 8, lambda v: v),
    ('iq1', quants.IQ1_S, 8, lambda v: 8 * v + 8),
    ('iq3_xxs', quants.IQ3_XXS, 4, lambda v: v),
    ('iq3_s', quants.IQ3_S, 4, lambda v: v),
]


def words(values):
    packed = bytes(values)
    return [int.from_bytes(packed[i:i + 4], 'little') for i in range(0, len(packed), 4)]


print('/* kernels/codebooks.inc: the codebooks of the IQ types, as words of four bytes (kernels/codebooks.h); an entry of eight\n'
      ' * elements is a row of two. Made by tools/train/codebooks.py, which names the source; sum: the first half of the SHA-256\n'
      ' * of the words, little-endian. Every module of kernels reads this file: words as they are take a compiler no time. */')
for name, cls, n, byte in BOOKS:
    cls.init_grid()
    book = [words(int(byte(v)) for v in row) for row in cls.grid.reshape(-1, n).tolist()]
    sha = hashlib.sha256(b''.join(w.to_bytes(4, 'little') for row in book for w in row)).hexdigest()[:32]
    print(f'BOOK({name}, [{len(book)}]{"[2]" if n == 8 else ""}, /* sum {sha} */')
    texts = [', '.join(f'0x{w:08x}' for w in row) for row in book]
    texts = [f'{{ {t} }}' for t in texts] if n == 8 else texts
    per = 110 // (len(texts[0]) + 2)
    for i in range(0, len(texts), per):
        print('     ' + ', '.join(texts[i:i + per]) + (')' if i + per >= len(texts) else ','))
