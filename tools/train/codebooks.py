#!/usr/bin/env python3
"""Writes kernels/codebooks.inc: the codebooks of the IQ types, which are part of the GGUF format.

    python3 -m venv v && v/bin/pip install gguf==0.19.0 && v/bin/python tools/train/codebooks.py >kernels/codebooks.inc

They were chosen by search when the types were made, so no formula gives them. Source: the tables that the format's own
Python package publishes (gguf, MIT licence). tests/peer/ggml_types.c holds what they decode to against ggml's C tables."""
import hashlib

from gguf import quants

BOOKS = [  # name here, class there, bits of an element, elements of an entry, macro that makes words of it
    ('iq2_xxs', quants.IQ2_XXS, 2, 8, 'IQ2'),
    ('iq2_xs', quants.IQ2_XS, 2, 8, 'IQ2'),
    ('iq2_s', quants.IQ2_S, 2, 8, 'IQ2'),
    ('iq1', quants.IQ1_S, 2, 8, 'IQ1'),
    ('iq3_xxs', quants.IQ3_XXS, 3, 4, 'IQ3_XXS'),
    ('iq3_s', quants.IQ3_S, 3, 4, 'IQ3_S'),
]


def entries(cls, bits, n):
    cls.init_grid()
    codes = {v: i for i, v in enumerate(cls.grid_map)}
    for row in cls.grid.reshape(-1, n):
        yield sum(codes[v] << bits * i for i, v in enumerate(row.tolist()))


print('/* kernels/codebooks.inc: the codebooks of the IQ types, an entry a number: element i in bits 2 i and up of eight, or\n'
      ' * 3 i and up of four, as an index of values (kernels/codebooks.c). Made by tools/train/codebooks.py, which names the\n'
      ' * source; sum: the first half of the SHA-256 of the entries as 16-bit little-endian numbers. */')
for name, cls, bits, n, macro in BOOKS:
    book = list(entries(cls, bits, n))
    sha = hashlib.sha256(b''.join(v.to_bytes(2, 'little') for v in book)).hexdigest()[:32]
    print(f'BOOK({name}, {len(book)}, /* sum {sha} */')
    per = 110 // len(f'{macro}(0x0000) ')
    for i in range(0, len(book), per):
        print('     ' + ' '.join(f'{macro}(0x{v:04x})' for v in book[i:i + per]) + (')' if i + per >= len(book) else ''))
