# Tensor operations of tinygrad against numpy, on the device that DEV names (test_tinygrad_*.sh runs it on amdsim).
# tinygrad_check.py says what is compared and how close. With TINYGRAD_FULL=1 there are more and larger shapes.
import itertools
import math

import numpy as np
from tinygrad import Context, Tensor, dtypes

from tinygrad_check import FULL, TOLERANCE, bf16, case, main, rounded, tensor, values

INTS = {
    dtypes.int8: np.int8,
    dtypes.int16: np.int16,
    dtypes.int32: np.int32,
    dtypes.int64: np.int64,
    dtypes.uint8: np.uint8,
    dtypes.uint16: np.uint16,
    dtypes.uint32: np.uint32,
    dtypes.uint64: np.uint64,
}


def ints(t, dtype, n, lo=None, hi=None):
    info = np.iinfo(INTS[dtype])
    return t.rng.integers(
        info.min if lo is None else lo, info.max if hi is None else hi, n, dtype=INTS[dtype], endpoint=True
    )


def together(t, what, rows):
    """Rows of name, tensor, what numpy has: one kernel for all, compared one by one, so that a miss has a name."""
    got = Tensor.stack(*[r[1] for r in rows]).numpy()
    for (name, _, want), row in zip(rows, got):
        t.equal(f"{what} {name}", row, want)


@case
def int_arithmetic(t):
    """Every integer type: what wraps around (unsigned), what does not (signed: an overflow is undefined there).

    299 elements are 299 groups of one thread, whose arithmetic the compiler gives to the scalar unit, which knows 32 and
    64 bits; 320 are groups of 32 threads and vector instructions."""
    for n, (dtype, np_type) in itertools.product((299, 320), INTS.items()):
        if n == 299 and np_type().itemsize < 4:
            continue
        half = int(np.iinfo(np_type).max) // 2
        small = int(math.isqrt(half))
        u = dtype in dtypes.uints
        a, b = (ints(t, dtype, n) if u else ints(t, dtype, n, -half, half) for _ in range(2))
        c, d = ints(t, dtype, n, 0 if u else -small, small), ints(t, dtype, n, 1, small)
        s = t.rng.integers(0, np_type().itemsize * 8 - 1, n).astype(np_type)
        A, B, C, D, S = (Tensor(x).realize() for x in (a, b, c, d, s))
        rows = [
            ("add", A + B, a + b),
            ("sub", A - B if u else (A // 2) - (B // 2), a - b if u else (a // 2) - (b // 2)),
            ("mul", C * D, c * d),
            ("floor div", A // D, a // d),
            ("mod", A % D, a % d),
            ("max", A.maximum(B), np.maximum(a, b)),
            ("min", A.minimum(B), np.minimum(a, b)),
            ("and", A & B, a & b),
            ("or", A | B, a | b),
            ("xor", A ^ B, a ^ b),
        ]
        together(t, f"{np_type.__name__} {n}", rows)
        rows = [
            ("not", ~A, ~a),
            ("shr", A >> 3, a >> 3),
            ("shl", A << 2 if u else D << 1, a << 2 if u else d << 1),
            ("trunc div", A.div(D, rounding_mode="trunc"), (np.sign(a) * (abs(a) // d)).astype(np_type)),
            ("lt", (A < B).cast(dtype), (a < b).astype(np_type)),
            ("eq", (C == D).cast(dtype), (c == d).astype(np_type)),
            ("where", (A < B).where(C, D), np.where(a < b, c, d)),
            ("mul add", C * D + C, c * d + c),
            ("fmod", A.fmod(D), np.fmod(a, d)),
            ("shr by lane", A >> S, a >> s),
        ]
        together(t, f"{np_type.__name__} {n}", rows)


@case
def float_arithmetic(t):
    for dtype in (dtypes.float32, dtypes.float16, dtypes.bfloat16, dtypes.float64):
        a, b = (rounded(t.rng.standard_normal(384) * 3, dtype) for _ in range(2))
        A, B = tensor(a, dtype), tensor(b, dtype)
        a, b = a.astype(np.float64), b.astype(np.float64)
        name = str(dtype).removeprefix("dtypes.")
        outs = [
            ("add", A + B, a + b),
            ("sub", A - B, a - b),
            ("mul", A * B, a * b),
            ("div", A / B, a / b),
            ("max", A.maximum(B), np.maximum(a, b)),
            ("min", A.minimum(B), np.minimum(a, b)),
            ("mul add", A * B + A, a * b + a),
            ("abs", A.abs(), abs(a)),
            ("neg", -A, -a),
            ("where", (A > B).where(A, B * 2), np.where(a > b, a, b * 2)),
            ("sqrt", A.abs().sqrt(), np.sqrt(abs(a))),
            ("reciprocal", A.reciprocal(), 1 / a),
        ]
        rtol, atol = TOLERANCE[dtype]
        got = values(Tensor.stack(*[o for _, o, _ in outs]))
        for i, (what, _, want) in enumerate(outs):
            # a * b + a cancels: its error is one of the terms', not of the result
            t.close(f"{name} {what}", got[i], want, rtol, atol if what != "mul add" else rtol * np.abs(a * b).max())
        for what, o, want in [
            ("lt", A < B, a < b),
            ("le", A <= B, a <= b),
            ("gt", A > B, a > b),
            ("ge", A >= B, a >= b),
            ("eq", A == A.maximum(B), a == np.maximum(a, b)),
            ("ne", A != A.minimum(B), a != np.minimum(a, b)),
        ]:
            t.equal(f"{name} {what}", o, want)


UNARY = [  # name, tinygrad's, numpy's, from, to
    ("exp", Tensor.exp, np.exp, -8, 8),
    ("exp2", Tensor.exp2, np.exp2, -12, 12),
    ("log", Tensor.log, np.log, 0.01, 90),
    ("log2", Tensor.log2, np.log2, 0.01, 90),
    ("sin", Tensor.sin, np.sin, -30, 30),
    ("cos", Tensor.cos, np.cos, -30, 30),
    ("tan", Tensor.tan, np.tan, -1.4, 1.4),
    ("asin", Tensor.asin, np.arcsin, -0.99, 0.99),
    ("acos", Tensor.acos, np.arccos, -0.99, 0.99),
    ("atan", Tensor.atan, np.arctan, -9, 9),
    ("sinh", Tensor.sinh, np.sinh, -4, 4),
    ("cosh", Tensor.cosh, np.cosh, -4, 4),
    ("tanh", Tensor.tanh, np.tanh, -6, 6),
    ("asinh", Tensor.asinh, np.arcsinh, 0.1, 9),
    ("acosh", Tensor.acosh, np.arccosh, 1.1, 9),
    ("atanh", Tensor.atanh, np.arctanh, -0.95, 0.95),
    ("sqrt", Tensor.sqrt, np.sqrt, 0, 99),
    ("rsqrt", Tensor.rsqrt, lambda x: 1 / np.sqrt(x), 0.01, 99),
    ("erf", Tensor.erf, np.vectorize(math.erf), -3, 3),
    ("sigmoid", Tensor.sigmoid, lambda x: 1 / (1 + np.exp(-x)), -9, 9),
    ("relu", Tensor.relu, lambda x: np.maximum(x, 0), -5, 5),
    ("silu", Tensor.silu, lambda x: x / (1 + np.exp(-x)), -9, 9),
    ("softplus", Tensor.softplus, lambda x: np.logaddexp(0, x), -9, 9),
    ("gelu", Tensor.gelu, lambda x: 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3))), -5, 5),
    ("elu", Tensor.elu, lambda x: np.where(x > 0, x, np.expm1(x)), -5, 5),
    ("mish", Tensor.mish, lambda x: x * np.tanh(np.logaddexp(0, x)), -5, 5),
    ("leaky_relu", Tensor.leaky_relu, lambda x: np.where(x > 0, x, 0.01 * x), -5, 5),
    ("hardswish", Tensor.hardswish, lambda x: x * np.clip(x + 3, 0, 6) / 6, -5, 5),
    ("square", Tensor.square, np.square, -9, 9),
    ("floor", Tensor.floor, np.floor, -9, 9),
    ("ceil", Tensor.ceil, np.ceil, -9, 9),
    ("trunc", Tensor.trunc, np.trunc, -9, 9),
    ("round", Tensor.round, np.round, -9, 9),
    ("sign", Tensor.sign, np.sign, -9, 9),
    ("pow 3", lambda x: x.pow(3), lambda x: x**3, -4, 4),
    ("pow 1.7", lambda x: x.pow(1.7), lambda x: x**1.7, 0.1, 9),
    ("2 pow", lambda x: 2**x, lambda x: 2.0**x, -9, 9),
    ("clip", lambda x: x.clip(-1, 2), lambda x: np.clip(x, -1, 2), -9, 9),
]


@case
def float_functions(t):
    """Where a value lies on a step (floor, round) the argument keeps away from it; nothing else is excepted."""
    for dtype in (dtypes.float32, dtypes.float16):
        for k in range(0, len(UNARY), 6):
            xs = [rounded(t.rng.uniform(lo, hi, 160), dtype) for _, _, _, lo, hi in UNARY[k : k + 6]]
            got = values(Tensor.stack(*[f(tensor(x, dtype)) for (_, f, _, _, _), x in zip(UNARY[k : k + 6], xs)]))
            for (name, _, ref, _, _), x, y in zip(UNARY[k : k + 6], xs, got):
                rtol, atol = TOLERANCE[dtype]
                if dtype == dtypes.float16:  # the argument's rounding inside: |x f'(x)| of them at most
                    atol, rtol = 4e-3, 2e-2
                elif name in ("asin", "acos", "atan", "erf"):  # polynomials in tinygrad, not of full precision
                    atol = 2e-5
                elif name in ("asinh", "atanh", "softplus", "logaddexp"):
                    atol = 4e-6
                t.close(f"{str(dtype)[7:]} {name}", y, ref(x.astype(np.float64)), rtol, atol)


@case
def float_corners(t):
    """NaN, infinities, zeros, subnormals, the largest numbers; ties of rounding. tinygrad knows < and !=: its >= is
    true of NaN, its relu of NaN is zero, and a cast there and back is no cast unless the middle is stored."""
    x = np.array(
        [
            0.0,
            -0.0,
            1.0,
            -1.0,
            np.inf,
            -np.inf,
            np.nan,
            1e-40,
            -1e-40,
            3.4e38,
            -3.4e38,
            0.5,
            1.5,
            2.5,
            -0.5,
            -1.5,
            -2.5,
            1e-45,
            1.1754944e-38,
            8388608.5,
            4194304.5,
            2147483520.0,
        ],
        dtype=np.float32,
    )
    X = Tensor(x).realize()
    for name, got, want in [
        ("isnan", X.isnan(), np.isnan(x)),
        ("isinf", X.isinf(), np.isinf(x)),
        ("eq self", X == X, x == x),
        ("lt 0", X < 0, x < 0),
        ("ge 0", X >= 0, ~(x < 0)),
        ("ne 1", X != 1, x != 1),
    ]:
        t.equal(name, got, want)
    for name, got, want in [
        ("relu", X.relu(), np.where(x > 0, x, 0)),
        ("round", X.round(), np.round(x)),
        ("floor", X.floor(), np.floor(x)),
        ("ceil", X.ceil(), np.ceil(x)),
        ("trunc", X.trunc(), np.trunc(x)),
        ("half", X * 0.5, x * np.float32(0.5)),
        ("twice", X + X, x + x),
        ("sqrt", X.sqrt(), np.sqrt(x)),
        ("exp2", X.clip(-200, 200).exp2(), np.exp2(np.clip(x, -200, 200))),
        ("abs", X.abs(), abs(x)),
        ("to f16", X.half().realize().float(), x.astype(np.float16).astype(np.float32)),
        ("to f64", X.cast(dtypes.float64), x.astype(np.float64)),
        ("to bf16", X.cast(dtypes.bfloat16), bf16(x)),
    ]:
        t.close(name, got, want, 2e-7, 0)
    # every binary16 there is, to f32 and back, and one step between each pair, which rounds to even
    every = np.arange(65536, dtype=np.uint16).view(np.float16)
    wide = every.astype(np.float32)
    t.equal(
        "f16 to f32",
        Tensor(every).float().bitcast(dtypes.uint32).numpy()[~np.isnan(every)],
        wide.view(np.uint32)[~np.isnan(every)],
    )
    positive = wide[:31744].astype(np.float64)
    ties = ((positive[1:] + positive[:-1]) / 2).astype(np.float32)
    t.equal("ties to f16", Tensor(ties).half().bitcast(dtypes.uint16), ties.astype(np.float16).view(np.uint16))


@case
def casts(t):
    floats = {dtypes.float32: np.float32, dtypes.float16: np.float16, dtypes.float64: np.float64}
    kinds = {**INTS, **floats, dtypes.bool: np.bool_}
    for src, np_src in kinds.items():
        # what every type can hold: 0..100, negative where both can
        x = t.rng.integers(0, 100, 77)
        if src in floats:
            x = x + t.rng.choice([0.0, 0.25, 0.75], 77)
        x = x.astype(np_src)
        X = Tensor(x).realize()
        for dst, np_dst in kinds.items():
            if dst != src and (FULL or t.rng.random() < 0.4):
                t.equal(f"{np_src.__name__} to {np_dst.__name__}", X.cast(dst), x.astype(np_dst))
    wide = t.rng.integers(-(2**62), 2**62, 99)
    for name, x in (
        ("i64", wide),
        ("u64", wide.view(np.uint64)),
        ("i32", wide.astype(np.int32)),
        ("u32", wide.astype(np.uint32)),
    ):
        t.close(f"{name} to f32", Tensor(x).float(), x.astype(np.float32), 1.2e-7, 0)
        t.close(f"{name} to f64", Tensor(x).cast(dtypes.float64), x.astype(np.float64), 0, 0)
        t.equal(f"{name} to i16", Tensor(x).cast(dtypes.int16), x.astype(np.int16))
    big = t.rng.uniform(-(2.0**53), 2.0**53, 99)
    t.equal("f64 to i64", Tensor(big).cast(dtypes.int64), big.astype(np.int64))
    t.equal("f32 bits", Tensor(big.astype(np.float32)).bitcast(dtypes.int32), big.astype(np.float32).view(np.int32))
    t.equal(
        "bytes of u32", Tensor(wide.astype(np.uint32)).bitcast(dtypes.uint8), wide.astype(np.uint32).view(np.uint8)
    )


@case
def reductions(t):
    shapes = [(1025,), (33, 65), (5, 17, 31)] + (
        [(7,), (1 << 18,), (257, 1023), (3, 4, 5, 6)] if FULL else [(20011,)]
    )
    for shape in shapes:
        x = t.rng.uniform(0.5, 1.5, shape).astype(np.float32)
        X, d = Tensor(x).realize(), x.astype(np.float64)
        axes = [None, *range(len(shape)), (0, len(shape) - 1)] if len(shape) > 2 else [None, *range(1, len(shape))]
        for axis in axes:
            t.close(f"sum {shape} {axis}", X.sum(axis), d.sum(axis))
            if len(shape) < 3:
                t.close(f"mean {shape} {axis}", X.mean(axis), d.mean(axis))
                t.equal(f"max {shape} {axis}", X.max(axis), x.max(axis))
                t.equal(f"min {shape} {axis}", X.min(axis), x.min(axis))
                t.equal(f"argmax {shape} {axis}", X.argmax(axis), x.argmax(axis))
            if len(shape) == 2:
                t.close(f"std {shape} {axis}", X.std(axis), d.std(axis, ddof=1), 1e-4, 1e-5)
                t.close(f"logsumexp {shape} {axis}", X.logsumexp(axis), np.log(np.exp(d).sum(axis)))
    x = t.rng.uniform(0.8, 1.2, (6, 50)).astype(np.float32)
    t.close("prod", Tensor(x).prod(1), x.astype(np.float64).prod(1), 1e-5)
    t.close("cumsum", Tensor(x).cumsum(1), x.astype(np.float64).cumsum(1))
    t.close("cumprod", Tensor(x).cumprod(1), x.astype(np.float64).cumprod(1), 2e-5)
    t.close("cumsum 700", Tensor(np.tile(x, 14)).cumsum(1), np.tile(x, 14).astype(np.float64).cumsum(1))
    t.equal("cummax", Tensor(x).cummax(1)[0], np.maximum.accumulate(x, 1))
    b = t.rng.random((19, 43)) < 0.05
    for axis in (None, 0, 1):
        t.equal(f"any {axis}", Tensor(b).any(axis), b.any(axis))
        t.equal(f"all {axis}", Tensor(~b).all(axis), (~b).all(axis))
    for dtype, np_type in INTS.items():
        i = ints(t, dtype, (23, 37), 0, 3)
        t.equal(f"sum {np_type.__name__}", Tensor(i).sum(1).cast(dtypes.int64), i.sum(1).astype(np.int64))
        t.equal(f"max {np_type.__name__}", Tensor(i).max(0), i.max(0))
    h = rounded(t.rng.standard_normal((40, 300)), dtypes.float16)
    t.close("sum f16", Tensor(h).sum(1), h.astype(np.float64).sum(1), 4e-3, 1e-2)
    t.close("norm", (Tensor(h).float() ** 2).sum().sqrt(), np.sqrt((h.astype(np.float64) ** 2).sum()))


@case
def matmul(t):
    """Sums of k products: the tolerance is sqrt(k) roundings of the result, k of them at most."""
    shapes = [(1, 64, 96), (65, 1, 9), (17, 129, 43), (64, 64, 64), (3, 500, 7)]
    if FULL:
        shapes += [(128, 256, 192), (255, 127, 63), (1, 2048, 512), (300, 300, 300)]
    for m, k, n in shapes:
        a, b = t.rng.standard_normal((m, k)), t.rng.standard_normal((k, n))
        for dtype in (dtypes.float32, dtypes.float16) + (
            (dtypes.float64, dtypes.bfloat16) if m == 17 or FULL else ()
        ):
            x, y = rounded(a, dtype), rounded(b, dtype)
            rtol, atol = TOLERANCE[dtype]
            t.close(
                f"{str(dtype)[7:]} {m}x{k}x{n}",
                tensor(x, dtype) @ tensor(y, dtype),
                x.astype(np.float64) @ y.astype(np.float64),
                rtol,
                atol * 4 * math.sqrt(k),
            )
    for dtype, np_type in ((dtypes.int8, np.int8), (dtypes.int32, np.int32), (dtypes.uint8, np.uint8)):
        x, y = ints(t, dtype, (37, 70), 0, 11), ints(t, dtype, (70, 29), 0, 11)
        t.equal(
            f"{np_type.__name__}",
            Tensor(x).matmul(Tensor(y), dtype=dtypes.int32),
            x.astype(np.int32) @ y.astype(np.int32),
        )
    x, y = t.rng.standard_normal((4, 9, 20)).astype(np.float32), t.rng.standard_normal((4, 20, 11)).astype(
        np.float32
    )
    t.close("batch", Tensor(x) @ Tensor(y), x.astype(np.float64) @ y, 1e-5, 2e-5)
    t.close(
        "transposed",
        Tensor(x).transpose(1, 2).transpose(1, 2) @ Tensor(y[0]),
        x.astype(np.float64) @ y[0],
        1e-5,
        2e-5,
    )
    t.close("vector", Tensor(x[0]) @ Tensor(y[0, :, 0]), x[0].astype(np.float64) @ y[0, :, 0], 1e-5, 2e-5)
    t.close(
        "einsum",
        Tensor.einsum("bij,bjk->ik", Tensor(x), Tensor(y)),
        np.einsum("bij,bjk->ik", x.astype(np.float64), y),
        1e-5,
        4e-5,
    )


@case
def tensor_cores(t):
    """The matrix instructions: every pair of types that the card has, and the same product without them."""
    n_tried = 0
    from tinygrad import Device

    cores = Device[Device.DEFAULT].renderer.tensor_cores
    for core in cores:
        for m, n, k in [(16, 16, 16), (48, 32, 64)] + (
            [(128, 96, 80), (64, 64, 256), (33, 47, 50)] if FULL else []
        ):
            exact = core.dtype_in in dtypes.ints
            if exact:
                x, y = (t.rng.integers(-128, 127, s).astype(np.int8) for s in ((m, k), (k, n)))
                X, Y = Tensor(x).realize(), Tensor(y).realize()
            else:
                x, y = rounded(t.rng.standard_normal((m, k)), core.dtype_in), rounded(
                    t.rng.standard_normal((k, n)), core.dtype_in
                )
                X, Y = tensor(x, core.dtype_in), tensor(y, core.dtype_in)
            want = x.astype(np.float64) @ y.astype(np.float64)
            name = f"{core.dtype_in.name} to {core.dtype_out.name} {m}x{n}x{k}"
            for tc in (1, 0):
                with Context(TC=tc, TC_OPT=2):
                    got = X.matmul(Y, dtype=core.dtype_out)
                    if exact:
                        if tc:  # without them a product of bytes is a byte
                            t.equal(f"{name} TC={tc}", got, want.astype(np.int32))
                    else:
                        # Without them tinygrad rounds each product to the factors' type. With them the sum is rounded
                        # after each four products or two, and to bfloat16 by cutting: always towards zero.
                        eps = 0 if tc else TOLERANCE[core.dtype_in][1] * math.sqrt(k)
                        cut = k / 2 * 2**-8 * np.abs(want).max() if core.dtype_out == dtypes.bfloat16 else 0
                        rtol, atol = TOLERANCE[core.dtype_out]
                        t.close(f"{name} TC={tc}", got, want, rtol, atol * 4 * math.sqrt(k) + 2 * eps + cut)
            n_tried += 1
    t.true("the card has matrix instructions", n_tried >= 6, f"{len(cores)} kinds")


def softmax_of(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


@case
def normalisations(t):
    for shape in ((16, 128), (2, 3, 1025)) + (((3, 7), (5, 333)) if FULL else ()):
        x = t.rng.standard_normal(shape).astype(np.float32) * 4
        d = x.astype(np.float64)
        t.close(f"softmax {shape}", Tensor(x).softmax(), softmax_of(d))
        t.close(f"softmax over 0 {shape}", Tensor(x).softmax(0), softmax_of(d, 0))
        t.close(f"log_softmax {shape}", Tensor(x).log_softmax(), np.log(softmax_of(d)), 1e-5, 1e-5)
        want = (d - d.mean(-1, keepdims=True)) / np.sqrt(d.var(-1, keepdims=True) + 1e-5)
        t.close(f"layernorm {shape}", Tensor(x).layernorm(), want, 1e-4, 1e-5)
        rms = Tensor(x) * (Tensor(x).square().mean(-1, keepdim=True) + 1e-6).rsqrt()
        t.close(f"rmsnorm {shape}", rms, d / np.sqrt((d**2).mean(-1, keepdims=True) + 1e-6))
    h = rounded(t.rng.standard_normal((9, 100)) * 3, dtypes.float16)
    t.close("softmax f16", Tensor(h).softmax(), softmax_of(h.astype(np.float64)))
    q, k, v = (t.rng.standard_normal((2, 3, 19, 16)).astype(np.float32) for _ in range(3))
    scores = q.astype(np.float64) @ k.astype(np.float64).swapaxes(-1, -2) / 4
    t.close(
        "attention",
        Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v)),
        softmax_of(scores) @ v,
        1e-4,
        1e-5,
    )
    masked = np.where(np.tri(19, dtype=bool), scores, -np.inf)
    t.close(
        "causal attention",
        Tensor(q).scaled_dot_product_attention(Tensor(k), Tensor(v), is_causal=True),
        softmax_of(masked) @ v,
        1e-4,
        1e-5,
    )


def conv_of(x, w, stride=1, padding=0, groups=1, dilation=1):
    """Correlation of NCHW with OIHW by its definition."""
    x = np.pad(x, ((0, 0), (0, 0), (padding, padding), (padding, padding)))
    n, c, h, wd = x.shape
    o, ci, kh, kw = w.shape
    oh, ow = (h - dilation * (kh - 1) - 1) // stride + 1, (wd - dilation * (kw - 1) - 1) // stride + 1
    out = np.zeros((n, groups, o // groups, oh, ow))
    for i in range(kh):
        for j in range(kw):
            patch = x[
                :,
                :,
                i * dilation : i * dilation + stride * (oh - 1) + 1 : stride,
                j * dilation : j * dilation + stride * (ow - 1) + 1 : stride,
            ]
            out += np.einsum(
                "ngchw,goc->ngohw",
                patch.reshape(n, groups, ci, oh, ow),
                w[:, :, i, j].reshape(groups, o // groups, ci),
            )
    return out.reshape(n, o, oh, ow)


@case
def convolution(t):
    kinds = [dict(), dict(padding=2, stride=3), dict(groups=2), dict(dilation=2, padding=2)]
    kinds += [dict(stride=2), dict(padding=1), dict(groups=4)] if FULL else []
    for kw in kinds:
        for n, c, h, o, k in [(2, 4, 11, 8, 3)] + ([(1, 8, 17, 12, 5), (1, 4, 9, 4, 1)] if FULL else []):
            x, w = t.rng.standard_normal((n, c, h, h + 2)).astype(np.float32), t.rng.standard_normal(
                (o, c // kw.get("groups", 1), k, k)
            ).astype(np.float32)
            got = Tensor(x).conv2d(Tensor(w), **kw)
            t.close(f"{kw} {h}/{k}", got, conv_of(x.astype(np.float64), w.astype(np.float64), **kw), 1e-5, 5e-5)
    x, w = t.rng.standard_normal((1, 3, 6, 6)).astype(np.float32), t.rng.standard_normal((3, 2, 3, 3)).astype(
        np.float32
    )
    # the transpose is what makes <conv(y), x> = <y, conv_T(x)>
    y = t.rng.standard_normal((1, 2, 8, 8)).astype(np.float32)
    lhs = (conv_of(y.astype(np.float64), w.astype(np.float64)) * x).sum()
    t.close("transposed", (Tensor(x).conv_transpose2d(Tensor(w)) * Tensor(y)).sum(), lhs, 1e-4, 1e-3)
    p = t.rng.standard_normal((2, 3, 12, 10)).astype(np.float32)
    blocks = p.reshape(2, 3, 6, 2, 5, 2)
    t.equal("max_pool2d", Tensor(p).max_pool2d(2), blocks.max((3, 5)))
    t.close("avg_pool2d", Tensor(p).avg_pool2d(2), blocks.astype(np.float64).mean((3, 5)))
    with Context(WINO=1) if FULL else Context():
        x, w = t.rng.standard_normal((1, 4, 10, 10)).astype(np.float32), t.rng.standard_normal((4, 4, 3, 3)).astype(
            np.float32
        )
        t.close(
            "winograd" if FULL else "square",
            Tensor(x).conv2d(Tensor(w)),
            conv_of(x.astype(np.float64), w),
            1e-4,
            1e-4,
        )


@case
def sorting(t):
    for shape, axis in [((37,), 0), ((5, 16), 1)] + (
        [((1,), 0), ((64,), 0), ((21, 4), 0), ((1000,), 0), ((3, 257), 1)] if FULL else []
    ):
        x = t.rng.standard_normal(shape).astype(np.float32)
        for down in (False, True) if FULL else (axis == 0,):
            v, i = Tensor(x).sort(axis, descending=down)
            want = np.sort(x, axis)
            t.equal(f"{shape} {'down' if down else 'up'}", v, np.flip(want, axis) if down else want)
            t.equal(f"indices {shape}", np.take_along_axis(x, i.numpy(), axis), v.numpy())
    i = t.rng.integers(-9, 9, 50).astype(np.int32)
    t.equal("ints, stable", Tensor(i).argsort(), np.argsort(i, kind="stable"))
    x = t.rng.permutation(60).astype(np.float32)
    v, k = Tensor(x).topk(5)
    t.equal("topk", v, np.sort(x)[::-1][:5])
    t.equal("topk indices", k, np.argsort(-x)[:5])


@case
def indexing(t):
    x = t.rng.standard_normal((23, 17)).astype(np.float32)
    X = Tensor(x).realize()
    rows, cols = t.rng.integers(-23, 23, 40), t.rng.integers(0, 17, 40)
    t.equal("rows", X[Tensor(rows)], x[rows])
    t.equal("points", X[Tensor(rows), Tensor(cols)], x[rows, cols])
    t.equal("slices", X[3:20:4, ::-3], x[3:20:4, ::-3])
    t.equal("negative", X[-5:, None, -1], x[-5:, None, -1])
    g = t.rng.integers(0, 23, (11, 17))
    t.equal("gather", X.gather(0, Tensor(g)), np.take_along_axis(x, g, 0))
    where = t.rng.permutation(23)[:11]
    index, src = np.tile(where[:, None], (1, 17)), t.rng.standard_normal((11, 17)).astype(np.float32)
    want = x.copy()
    np.put_along_axis(want, index, src, 0)
    t.equal("scatter", X.scatter(0, Tensor(index), Tensor(src)), want)
    index = t.rng.integers(0, 23, (30, 17))
    src = t.rng.integers(-9, 9, (30, 17)).astype(np.float32)
    want = np.zeros((23, 17), np.float32)
    np.add.at(want, (index, np.arange(17)[None, :].repeat(30, 0)), src)
    t.equal("scatter add", Tensor.zeros(23, 17).scatter_reduce(0, Tensor(index), Tensor(src), "sum"), want)
    t.equal("masked_fill", X.masked_fill(X < 0, -7.0), np.where(x < 0, np.float32(-7), x))
    t.equal("one_hot", Tensor(cols).one_hot(17), np.eye(17)[cols])
    t.equal("embedding", Tensor(cols).one_hot(17).float() @ X.T, x.T[cols])
    Y = X.clone().realize()
    Y[4:9, 2:15:3] = 5.0
    want = x.copy()
    want[4:9, 2:15:3] = 5
    t.equal("assignment", Y, want)
    t.equal("nonzero", Tensor((x > 1).astype(np.int32)).nonzero(), np.argwhere(x > 1))
    t.equal("masked_select", X.masked_select(X > 1), x[x > 1])


@case
def movement(t):
    """Random chains of views on random shapes: exact, because nothing is computed."""
    for n in range(60 if FULL else 10):
        shape = tuple(int(i) for i in t.rng.integers(1, 9, t.rng.integers(1, 5)))
        x = t.rng.integers(-99, 99, shape).astype(np.int32)
        X, steps = Tensor(x).realize(), []
        for _ in range(int(t.rng.integers(2, 6))):
            op = str(t.rng.choice(["permute", "flip", "pad", "shrink", "reshape", "repeat", "roll", "contiguous"]))
            axis = int(t.rng.integers(0, x.ndim))
            if op == "permute":
                order = [int(i) for i in t.rng.permutation(x.ndim)]
                X, x = X.permute(order), x.transpose(order)
            elif op == "flip":
                X, x = X.flip(axis), np.flip(x, axis)
            elif op == "pad":
                pads = [tuple(int(i) for i in t.rng.integers(0, 3, 2)) for _ in range(x.ndim)]
                X, x = X.pad(pads), np.pad(x, pads)
            elif op == "shrink":
                cut = [
                    (
                        int(t.rng.integers(0, (s + 1) // 2)),
                        s - int(t.rng.integers(0, s // 2 + s % 2)) if s > 1 else s,
                    )
                    for s in x.shape
                ]
                X, x = X.shrink(tuple(cut)), x[tuple(slice(a, b) for a, b in cut)]
            elif op == "reshape":
                new = (x.shape[0] * x.shape[1], *x.shape[2:]) if x.ndim > 1 else (1, *x.shape)
                X, x = X.reshape(new), x.reshape(new)
            elif op == "repeat" and x.size < 4000:
                times = [2 if i == axis else 1 for i in range(x.ndim)]
                X, x = X.repeat(*times), np.tile(x, times)
            elif op == "roll":
                X, x = X.roll(3, axis), np.roll(x, 3, axis)
            elif op == "contiguous":
                X = X.contiguous()
            steps.append(op)
        if n % 2:
            t.equal(f"{n}: {shape} {' '.join(steps)}", X + 1, x + 1)
        else:
            t.equal(f"{n}: {shape} {' '.join(steps)}, sum", (X + 1).sum(-1), (x + 1).sum(-1))
    a, b = t.rng.standard_normal((4, 5)).astype(np.float32), t.rng.standard_normal((4, 9)).astype(np.float32)
    t.equal("cat", Tensor(a).cat(Tensor(b), dim=1), np.concatenate([a, b], 1))
    t.equal("tril", Tensor(b).tril(2), np.tril(b, 2))
    t.equal("arange", Tensor.arange(5, 900, 7), np.arange(5, 900, 7))
    t.equal("unfold", Tensor(b).unfold(1, 3, 2), np.lib.stride_tricks.sliding_window_view(b, 3, 1)[:, ::2])


def expression(t, leaves, depth, floats):
    """A random tree over (tensor, array) pairs. Floats stay of the order of one and get no function with a step, so
    that rounding does not grow; integers are u32, which wrap around."""
    if depth == 0 or t.rng.random() < 0.1:
        return leaves[int(t.rng.integers(len(leaves)))]
    a, b = expression(t, leaves, depth - 1, floats), expression(t, leaves, depth - 1, floats)
    k = int(t.rng.integers(8))
    if floats:
        return [
            lambda: ((a[0] + b[0]) * 0.5, (a[1] + b[1]) * 0.5),
            lambda: ((a[0] - b[0]) * 0.5, (a[1] - b[1]) * 0.5),
            lambda: (a[0] * b[0], a[1] * b[1]),
            lambda: (a[0].maximum(b[0]), np.maximum(a[1], b[1])),
            lambda: (a[0].minimum(-b[0]), np.minimum(a[1], -b[1])),
            lambda: (a[0].abs() - 0.5, abs(a[1]) - 0.5),
            lambda: (a[0].tanh(), np.tanh(a[1])),
            lambda: ((a[0].square() + 1).sqrt() - 1, np.sqrt(a[1] ** 2 + 1) - 1),
        ][k]()
    return [
        lambda: (a[0] + b[0], a[1] + b[1]),
        lambda: (a[0] * b[0], a[1] * b[1]),
        lambda: (a[0] ^ b[0], a[1] ^ b[1]),
        lambda: (a[0] & b[0], a[1] & b[1]),
        lambda: (a[0] | b[0], a[1] | b[1]),
        lambda: (a[0] >> 5, a[1] >> np.uint32(5)),
        lambda: ((a[0] < b[0]).where(a[0], b[0] * 3), np.where(a[1] < b[1], a[1], b[1] * np.uint32(3))),
        lambda: (a[0] // (b[0] % 29 + 1), a[1] // (b[1] % np.uint32(29) + np.uint32(1))),
    ][k]()


@case
def random_expressions(t):
    for n in range(120 if FULL else 14):
        shape = tuple(int(i) for i in t.rng.integers(1, 40, t.rng.integers(1, 4)))
        floats = n % 2 == 0
        leaves = []
        for _ in range(3):
            s = tuple(d if t.rng.random() < 0.8 else 1 for d in shape)  # ones are broadcast
            x = (
                t.rng.uniform(-1, 1, s).astype(np.float32)
                if floats
                else t.rng.integers(0, 2**32, s, dtype=np.uint32)
            )
            leaves.append((Tensor(x).realize(), x.astype(np.float64) if floats else x))
        got, want = expression(t, leaves, 5, floats)
        if floats:
            if n % 4:
                t.close(f"{n}: f32 {shape}", got, want, 1e-5, 1e-5)
            else:
                t.close(f"{n}: f32 {shape}, sum", got.sum(-1), want.sum(-1), 1e-5, 1e-4)
        else:
            t.equal(f"{n}: u32 {shape}", got, want)


@case
def random_numbers(t):
    """Threefry is a function of seed and counter: the processor has the same bits, and they are spread evenly."""
    for seed in (0, 1337) if FULL else (1337,):
        rows = []
        for device in (None, "CPU"):
            Tensor.manual_seed(seed)
            rows.append(Tensor.rand(257, device=device).numpy())
        t.equal(f"seed {seed}: the processor's bits", rows[0], rows[1])
    Tensor.manual_seed(7)
    u = Tensor.rand(20000).numpy()
    t.true("uniform: in [0, 1)", u.min() >= 0 and u.max() < 1, f"{u.min()} to {u.max()}")
    t.close("uniform: mean", u.mean(), 0.5, 0, 0.01)
    g = Tensor.randn(20000).numpy()
    t.close("normal: mean", g.mean(), 0, 0, 0.03)
    t.close("normal: deviation", g.std(), 1, 0, 0.03)
    t.equal("randperm", np.sort(Tensor.randperm(97).numpy()), np.arange(97))
    i = Tensor.randint(5000, low=-3, high=4).numpy()
    t.equal("randint: the range", np.unique(i), np.arange(-3, 4))


@case
def training(t):
    """Two layers, cross entropy, SGD: three steps' weights against gradients by hand."""
    x, labels = t.rng.standard_normal((24, 10)).astype(np.float32), t.rng.integers(0, 5, 24)
    w1, w2 = (t.rng.standard_normal((10, 16)) * 0.3).astype(np.float32), (
        t.rng.standard_normal((16, 5)) * 0.3
    ).astype(np.float32)
    from tinygrad.nn.optim import SGD

    W1, W2 = Tensor(w1), Tensor(w2)
    opt = SGD([W1, W2], lr=0.1)
    d1, d2 = w1.astype(np.float64), w2.astype(np.float64)
    with Context(TRAINING=1):
        for step in range(3):
            opt.zero_grad()
            loss = ((Tensor(x) @ W1).tanh() @ W2).sparse_categorical_crossentropy(Tensor(labels))
            loss.backward()
            loss.realize()
            opt.step()
            h = np.tanh(x @ d1)
            p = softmax_of(h @ d2)
            t.close(f"step {step}: loss", loss, -np.log(p[np.arange(24), labels]).mean(), 1e-5, 1e-5)
            p[np.arange(24), labels] -= 1
            g2 = h.T @ (p / 24)
            g1 = x.T @ ((p / 24 @ d2.T) * (1 - h * h))
            d1, d2 = d1 - 0.1 * g1, d2 - 0.1 * g2
            t.close(f"step {step}: first layer", W1, d1, 1e-5, 1e-5)
            t.close(f"step {step}: second layer", W2, d2, 1e-5, 1e-5)


if __name__ == "__main__":
    main()
