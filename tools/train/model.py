"""The demo model in PyTorch: Qwen3.5-MoE in miniature, in the parameter layout of the GGUF file (doc/demo-model.md).

Three gated DeltaNet layers, then one of full attention, twice; each followed by a mixture of experts with a shared
expert. DeltaNet runs in its chunked form (chunks of 64), which is the recurrence in matrix products."""

import math

import torch
import torch.nn.functional as F
from torch import nn

CHUNK = 64


class Config:
    vocab, d, layers, interval = 3072, 256, 8, 4
    heads, kv_heads, head_dim, rot, rope_base = 4, 2, 64, 16, 1e6
    n_k, n_v, gdn_dim, conv = 2, 4, 64, 4
    experts, used, ff, ff_shared = 4, 2, 256, 256
    eps, context = 1e-6, 8192

    @property
    def conv_dim(self):
        return (2 * self.n_k + self.n_v) * self.gdn_dim


def linear(n_out, n_in, std=None):
    return nn.Parameter(torch.randn(n_out, n_in) * (std or n_in ** -0.5))


def mm(x, w):
    return F.linear(x, w.to(x.dtype))


def fused(f):
    """Element-wise stretches, compiled into few kernels."""
    return torch.compile(f, dynamic=False)


def rms(x, w, eps):
    x = x.float()
    return x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps) * w


@fused
def rms_to(x, w, eps, dtype: torch.dtype):
    return rms(x, w, eps).to(dtype)


@fused
def heads(m, conv, since1, since2, since3, n_k: int, n_v: int, dim: int, eps: float):
    """The causal convolution (not across documents), SiLU, and q, k, v per v-head [B, n_v, T, dim]; q, k normalised."""
    B, T, _ = m.shape
    acc = m * conv[:, 3]
    for s, since in ((1, since1), (2, since2), (3, since3)):
        acc = acc + F.pad(m, (0, 0, s, 0))[:, :T] * since * conv[:, 3 - s]
    q, k, v = F.silu(acc.float()).split([n_k * dim, n_k * dim, n_v * dim], -1)
    q, k = (t.reshape(B, T, n_k, dim) for t in (q, k))
    q, k = (t * torch.rsqrt((t * t).sum(-1, keepdim=True) + eps) for t in (q, k))
    rep = n_v // n_k
    q, k = (t.repeat(1, 1, rep, 1).transpose(1, 2).contiguous() for t in (q * dim ** -0.5, k))  # v-head h: k-head h % n_k
    return q, k, v.reshape(B, T, n_v, dim).transpose(1, 2).contiguous()


@fused
def gated_norm(o, z, w, eps: float):
    """o [B, H, T, D] f32, z [B, T, H, D]: RMS norm, then the gate."""
    return (rms(o.transpose(1, 2), w, eps) * F.silu(z.float())).to(z.dtype)


@fused
def weighted_swiglu(gate, up, w):
    h = F.silu(gate.float()) * up.float()
    return (h.view(-1, w.shape[-1], h.shape[-1] // w.shape[-1]) * w.unsqueeze(-1)).view(h.shape).to(gate.dtype)


@fused
def swiglu(gate, up):
    return (F.silu(gate.float()) * up.float()).to(gate.dtype)


@fused
def add_shared(x, y, s, r):
    """The shared expert's share, a sigmoid of one product per token."""
    return y + s * torch.sigmoid((x.float() * r).sum(-1, keepdim=True)).to(s.dtype)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        self.q = linear(c.heads * c.head_dim * 2, c.d)  # per head: query rows, then gate rows
        self.k = linear(c.kv_heads * c.head_dim, c.d)
        self.v = linear(c.kv_heads * c.head_dim, c.d)
        self.o = linear(c.d, c.heads * c.head_dim, (2 * c.layers * c.heads * c.head_dim) ** -0.5)
        self.q_norm = nn.Parameter(torch.ones(c.head_dim))
        self.k_norm = nn.Parameter(torch.ones(c.head_dim))

    def forward(self, x, ctx):
        c, (B, T, _) = self.c, x.shape
        q, gate = mm(x, self.q).view(B, T, c.heads, 2, c.head_dim).unbind(3)
        k = mm(x, self.k).view(B, T, c.kv_heads, c.head_dim)
        v = mm(x, self.v).view(B, T, c.kv_heads, c.head_dim)
        q, k = rms(q, self.q_norm, c.eps), rms(k, self.k_norm, c.eps)
        q, k = (rotate(t, ctx["cos"], ctx["sin"]).to(x.dtype).transpose(1, 2) for t in (q, k))
        rep = c.heads // c.kv_heads
        k = k.repeat_interleave(rep, 1)
        v = v.transpose(1, 2).repeat_interleave(rep, 1)
        o = F.scaled_dot_product_attention(q, k, v, attn_mask=ctx["mask"], scale=c.head_dim ** -0.5)
        o = o.transpose(1, 2) * torch.sigmoid(gate.float()).to(x.dtype)
        return mm(o.reshape(B, T, -1), self.o)


def rotate(x, cos, sin):
    """The first `rot` dimensions of a head, pairs (i, i + rot / 2). x [B, T, H, D]."""
    h = cos.shape[-1]
    a, b, rest = x[..., :h], x[..., h:2 * h], x[..., 2 * h:]
    return torch.cat([a * cos - b * sin, a * sin + b * cos, rest], -1)


class DeltaNet(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.c = c
        vd = c.n_v * c.gdn_dim
        self.qkv = linear(c.conv_dim, c.d)
        self.z = linear(vd, c.d)
        self.beta = linear(c.n_v, c.d)
        self.alpha = linear(c.n_v, c.d)
        self.conv = nn.Parameter(torch.randn(c.conv_dim, c.conv) * 0.3)
        self.a_log = nn.Parameter(torch.log(torch.linspace(1, 8, c.n_v)))
        dt = torch.exp(torch.rand(c.n_v) * (math.log(0.1) - math.log(0.001)) + math.log(0.001))
        self.dt = nn.Parameter(dt + torch.log(-torch.expm1(-dt)))
        self.norm = nn.Parameter(torch.ones(c.gdn_dim))
        self.out = linear(c.d, vd, (2 * c.layers * vd) ** -0.5)

    def forward(self, x, ctx):
        c, (B, T, _) = self.c, x.shape
        m = mm(x, self.qkv)
        z = mm(x, self.z).view(B, T, c.n_v, c.gdn_dim)
        beta = torch.sigmoid(mm(x, self.beta).float())
        g = -torch.exp(self.a_log) * F.softplus(mm(x, self.alpha).float() + self.dt)
        g = torch.where(ctx["first"], -20.0, g)  # a new document starts with an empty state
        q, k, v = heads(m, self.conv.to(x.dtype), *ctx["since"], c.n_k, c.n_v, c.gdn_dim, c.eps)
        o = delta_chunks(q, k, v, beta.transpose(1, 2), g.transpose(1, 2))
        return mm(gated_norm(o, z, self.norm, c.eps).reshape(B, T, -1), self.out)


def unit_solve(A, rhs):
    """(I + A)^-1 rhs for strictly lower A [.., 64, 64]: the diagonal blocks of 16 are inverted as products, for they
    are nilpotent, then forward substitution by blocks."""
    b = 16
    eye = torch.eye(b, device=A.device)
    out = []
    for i in range(0, A.shape[-1], b):
        X = -A[..., i:i + b, i:i + b]
        P = eye + X
        for _ in range(3):
            X = X @ X
            P = P + P @ X
        r = rhs[..., i:i + b, :]
        if out:
            r = r - A[..., i:i + b, :i] @ torch.cat(out, -2)
        out.append(P @ r)
    return torch.cat(out, -2)


def delta_chunks(q, k, v, beta, g):
    """q, k, v [B, H, T, D], beta, g [B, H, T]; float32. The chunked gated delta rule."""
    B, H, T, D = q.shape
    N = T // CHUNK
    q, k, v = (t.reshape(B * H, N, CHUNK, D) for t in (q, k, v))
    beta, g = (t.reshape(B * H, N, CHUNK) for t in (beta, g))
    G = g.cumsum(-1)
    lower = torch.ones(CHUNK, CHUNK, dtype=torch.bool, device=q.device).tril()
    decay = torch.exp((G.unsqueeze(-1) - G.unsqueeze(-2)).masked_fill(~lower, -math.inf))
    kb = k * beta.unsqueeze(-1)
    A = (kb @ k.transpose(-1, -2) * decay).tril(-1)
    rhs = torch.cat([v * beta.unsqueeze(-1), kb * torch.exp(G).unsqueeze(-1)], -1)
    u0, w = unit_solve(A, rhs).split(D, -1)
    last = G[..., -1:]
    kd = (k * torch.exp(last - G).unsqueeze(-1)).transpose(-1, -2)
    keep = torch.exp(last).unsqueeze(-1)
    S = q.new_zeros(B * H, D, D)
    states, us = [], []
    for u0_n, w_n, keep_n, kd_n in zip(*(t.unbind(1) for t in (u0, w, keep, kd))):
        u = torch.baddbmm(u0_n, w_n, S, alpha=-1)
        states.append(S)
        us.append(u)
        S = torch.baddbmm(S * keep_n, kd_n, u)
    S, u = torch.stack(states, 1), torch.stack(us, 1)
    o = (q * torch.exp(G).unsqueeze(-1)) @ S + (q @ k.transpose(-1, -2) * decay) @ u
    return o.reshape(B, H, T, D)


class Experts(nn.Module):
    """All experts are computed and weighted (zero for the ones not chosen): the same sum, in two products."""

    def __init__(self, c):
        super().__init__()
        self.c = c
        self.router = linear(c.experts, c.d)
        self.gate = linear(c.experts * c.ff, c.d)
        self.up = linear(c.experts * c.ff, c.d)
        self.down = nn.Parameter(torch.randn(c.experts, c.d, c.ff) * (2 * c.layers * c.ff) ** -0.5)
        self.s_gate, self.s_up = linear(c.ff_shared, c.d), linear(c.ff_shared, c.d)
        self.s_down = linear(c.d, c.ff_shared, (2 * c.layers * c.ff_shared) ** -0.5)
        self.s_router = nn.Parameter(torch.zeros(c.d))

    def forward(self, x, ctx):
        c, shape = self.c, x.shape
        x = x.reshape(-1, c.d)
        p = torch.softmax(F.linear(x.float(), self.router), -1)
        top, ids = p.topk(c.used, -1)
        w = torch.zeros_like(p).scatter(1, ids, top / top.sum(-1, keepdim=True))
        if self.training:
            ctx["balance"].append(c.experts * ((w > 0).float().mean(0) / c.used * p.mean(0)).sum())
        h = weighted_swiglu(mm(x, self.gate), mm(x, self.up), w)
        y = mm(h, self.down.permute(1, 0, 2).reshape(c.d, -1))
        s = mm(swiglu(mm(x, self.s_gate), mm(x, self.s_up)), self.s_down)
        return add_shared(x, y, s, self.s_router).view(shape)


class Model(nn.Module):
    def __init__(self, c=None):
        super().__init__()
        self.c = c = c or Config()
        self.embed = linear(c.vocab, c.d, 0.05)
        self.mixers = nn.ModuleList(Attention(c) if (i + 1) % c.interval == 0 else DeltaNet(c) for i in range(c.layers))
        self.ffns = nn.ModuleList(Experts(c) for _ in range(c.layers))
        self.norm1 = nn.ParameterList(nn.Parameter(torch.ones(c.d)) for _ in range(c.layers))
        self.norm2 = nn.ParameterList(nn.Parameter(torch.ones(c.d)) for _ in range(c.layers))
        self.norm = nn.Parameter(torch.ones(c.d))

    def context(self, pos, dtype):
        """What the layers share. pos [B, T]: the position of each token in its document; documents are packed."""
        B, T = pos.shape
        doc = (pos == 0).cumsum(1)
        freq = self.c.rope_base ** (-torch.arange(0, self.c.rot, 2, device=pos.device).float() / self.c.rot)
        theta = pos.float().unsqueeze(-1) * freq
        mask = (doc.unsqueeze(1) == doc.unsqueeze(2)).tril()
        mask = torch.where(mask, 0.0, -1e4).to(dtype)  # finite: a tile that is masked as a whole must not become NaN
        return {"cos": theta.cos().unsqueeze(2), "sin": theta.sin().unsqueeze(2), "mask": mask.unsqueeze(1),
                "first": (pos == 0).unsqueeze(-1), "since": [(pos >= s).unsqueeze(-1).to(dtype) for s in (1, 2, 3)], "balance": []}

    def forward(self, tokens, pos, dtype=torch.bfloat16):
        ctx = self.context(pos, dtype)
        x = F.embedding(tokens, self.embed)
        for mix, ffn, n1, n2 in zip(self.mixers, self.ffns, self.norm1, self.norm2):
            x = x + mix(rms_to(x, n1, self.c.eps, dtype), ctx)
            x = x + ffn(rms_to(x, n2, self.c.eps, dtype), ctx)
        logits = mm(rms_to(x, self.norm, self.c.eps, dtype), self.embed)
        return logits, sum(ctx["balance"]) / max(1, len(ctx["balance"]))
