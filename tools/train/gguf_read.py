"""Reads a GGUF file (version 3) into numpy, without any GGUF library.

    f = Gguf("model.gguf")
    f.meta["general.architecture"], f.tensors["token_embd.weight"].shape     # (rows, columns): ne reversed
    f.array("token_embd.weight")                                             # float32, dequantised

Layout: ggml-org/ggml docs/gguf.md. Types: F32, F16, BF16 and Q8_0 (blocks of a float16 scale and 32 int8)."""

import collections
import struct

import numpy as np

SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
STRING, ARRAY = 8, 9
TYPES = {0: ("F32", 1, 4), 1: ("F16", 1, 2), 8: ("Q8_0", 32, 34), 30: ("BF16", 1, 2)}  # name, elements, bytes of a block
Tensor = collections.namedtuple("Tensor", "shape type offset")


class Gguf:
    def __init__(self, path):
        self.path, self.data, self.at = path, np.memmap(path, np.uint8, "r"), 0
        magic, version, n_tensors, n_keys = self._unpack("4sIQQ")
        if magic != b"GGUF" or version != 3:
            raise ValueError(f"{path}: expected GGUF version 3, found {magic} version {version}")
        self.meta = {}
        for _ in range(n_keys):
            key = self._string()
            self.meta[key] = self._value(*self._unpack("I"))
        self.tensors = {}
        for _ in range(n_tensors):
            name = self._string()
            ne = self._unpack(f"{self._unpack('I')[0]}Q")
            self.tensors[name] = Tensor(tuple(reversed(ne)), *self._unpack("IQ"))
        align = self.meta.get("general.alignment", 32)
        self.start = -(-self.at // align) * align

    def _unpack(self, form):
        size = struct.calcsize("<" + form)
        out = struct.unpack("<" + form, self.data[self.at:self.at + size].tobytes())
        self.at += size
        return out

    def _string(self):
        n, = self._unpack("Q")
        s = self.data[self.at:self.at + n].tobytes().decode("utf-8", "surrogateescape")
        self.at += n
        return s

    def _value(self, kind):
        if kind == STRING:
            return self._string()
        if kind == ARRAY:
            item, n = self._unpack("IQ")
            return list(self._unpack(f"{n}{SCALARS[item]}")) if item in SCALARS else [self._value(item) for _ in range(n)]
        return self._unpack(SCALARS[kind])[0]

    def array(self, name):
        shape, kind, offset = self.tensors[name]
        if kind not in TYPES:
            raise ValueError(f"{self.path}: tensor '{name}' has type {kind}; F32, F16, BF16 and Q8_0 are read")
        form, per, size = TYPES[kind]
        n = int(np.prod(shape))
        raw = np.array(self.data[self.start + offset:self.start + offset + n // per * size])
        if form == "F32":
            x = raw.view(np.float32)
        elif form == "F16":
            x = raw.view(np.float16).astype(np.float32)
        elif form == "BF16":
            x = (raw.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
        else:
            raw = raw.reshape(-1, 34)
            d = raw[:, :2].copy().view(np.float16).astype(np.float32)
            x = d * raw[:, 2:].view(np.int8).astype(np.float32)
        return x.reshape(shape)
