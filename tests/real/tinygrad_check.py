# What the scripts about tinygrad share: groups of cases, and the comparison with numpy.
#
#     from tinygrad_check import case, Checks, main
#
#     @case
#     def softmax(t: Checks):
#         x = t.rng.standard_normal((5, 7))
#         t.close("rows", Tensor(x).softmax(), ...)
#
#     main()       # FILE.py [-v] [--part K/N] [CASE...]: all of them without names; of N parts the Kth, from 0
#
# Each case has random numbers of its own, seeded by its name, so that it is the same alone and among others. A value
# is right within |got - want| <= atol + rtol * |want|; what numpy computes in binary64 is `want`. The tolerances are
# those of the result's type: some ten roundings of it, since tinygrad allows approximate functions and any order of a
# sum. Integers are right or wrong.
import argparse
import os
import sys
import time
import traceback
import zlib

import numpy as np
from tinygrad import Tensor, dtypes

FULL = os.environ.get("TINYGRAD_FULL", "") not in ("", "0")

# relative, absolute
TOLERANCE = {
    dtypes.float64: (1e-12, 1e-12),
    dtypes.float32: (1e-5, 2e-6),
    dtypes.float16: (4e-3, 1e-3),
    dtypes.bfloat16: (3e-2, 1e-2),
}


def bf16(x):
    """The nearest bfloat16 of each element, ties to even, as f32."""
    u = np.asarray(x, dtype=np.float32).view(np.uint32).astype(np.uint64)
    u = (u + 0x7FFF + ((u >> 16) & 1)) & 0xFFFF0000
    return u.astype(np.uint32).view(np.float32)


def rounded(x, dtype):
    """x as the type holds it, in a numpy type that exists."""
    if dtype == dtypes.bfloat16:
        return bf16(x)
    return np.asarray(
        x, dtype={dtypes.float64: np.float64, dtypes.float32: np.float32, dtypes.float16: np.float16}[dtype]
    )


def tensor(x, dtype):
    """A realized tensor of a float type; x is what `rounded` gave."""
    return Tensor(np.ascontiguousarray(x)).cast(dtype).realize()


def values(x):
    """The numbers of a tensor, or of anything that numpy takes."""
    if not isinstance(x, Tensor):
        return np.asarray(x)
    return x.float().numpy() if x.dtype == dtypes.bfloat16 else x.numpy()


class Checks:
    def __init__(self, case_name):
        self.case = case_name
        self.rng = np.random.default_rng(zlib.crc32(case_name.encode()))
        self.n = self.n_bad = 0

    def fail(self, name, why):
        self.n_bad += 1
        print(f"FAIL {self.case}: {name}: {why}", flush=True)

    def true(self, name, ok, why="is not so"):
        self.n += 1
        if not ok:
            self.fail(name, why)

    def equal(self, name, got, want):
        self.n += 1
        got, want = values(got), np.asarray(want)
        if got.shape != want.shape:
            return self.fail(name, f"shape {got.shape}, expected {want.shape}")
        bad = got != want
        if bad.any():
            at = tuple(int(i) for i in np.argwhere(bad)[0])
            self.fail(
                name, f"{int(bad.sum())} of {bad.size} differ, first at {at}: {got[at]!r}, expected {want[at]!r}"
            )

    def close(self, name, got, want, rtol=None, atol=None):
        """Tolerances not given are those of the tensor's type; NaN and infinities are where numpy has them."""
        self.n += 1
        tol = TOLERANCE.get(getattr(got, "dtype", None), TOLERANCE[dtypes.float32])
        rtol, atol = tol[0] if rtol is None else rtol, tol[1] if atol is None else atol
        got, want = values(got).astype(np.float64), np.asarray(want, dtype=np.float64)
        if got.shape != want.shape:
            return self.fail(name, f"shape {got.shape}, expected {want.shape}")
        with np.errstate(invalid="ignore"):
            error = np.where(got == want, 0, np.abs(got - want))
            bad = (np.isnan(got) != np.isnan(want)) | (~np.isnan(want) & ~(error <= atol + rtol * np.abs(want)))
        if bad.any():
            at = np.unravel_index(int(np.argmax(np.where(bad, np.nan_to_num(error, nan=np.inf), -1))), error.shape)
            at = tuple(int(i) for i in at)
            self.fail(
                name,
                f"{int(bad.sum())} of {bad.size} beyond rtol {rtol:g} atol {atol:g}, worst at {at}: "
                f"{got[at]:.9g}, expected {want[at]:.9g}",
            )


cases = {}


def case(f):
    cases[f.__name__] = f
    return f


def main():
    args = argparse.ArgumentParser()
    args.add_argument("-v", action="store_true", help="what each case took")
    args.add_argument("--part", default="0/1")
    args.add_argument("cases", nargs="*")
    args = args.parse_args()
    part, n_parts = map(int, args.part.split("/"))
    names = args.cases or list(cases)[part::n_parts]
    unknown = [n for n in names if n not in cases]
    if unknown:
        sys.exit(f"{sys.argv[0]}: no case {unknown[0]}; there are: {' '.join(cases)}")
    np.seterr(all="ignore")
    n = n_bad = 0
    for name in names:
        t, begin = Checks(name), time.process_time()
        try:
            cases[name](t)
        except Exception as e:  # what the client says of the card, a fault as much as a refusal
            traceback.print_exc()
            t.fail("stopped", f"{type(e).__name__}: {e}")
        if args.v:
            print(f"  {name:24} {t.n:4} checks {time.process_time() - begin:6.2f} s of processor", flush=True)
        n, n_bad = n + t.n, n_bad + t.n_bad
    print(f"{n} checks, {n_bad} failed")
    sys.stdout.flush()
    sys.exit(1 if n_bad or not n else 0)
