"""Held-out models over sequences: scans, recurrences, latent attention, convolutions."""

from __future__ import annotations

from typing import Any

from planner.lab.net import Weights
from planner.lab.nets_decoders import TOKENS, VOCAB, Decoder, gated_mlp, rotated, rotation

_STEPS = 4
"""Of a recurrence that is written out."""


def ssm(w: Weights, x: Any) -> Any:
    """Two blocks of Mamba, the scan over a few tokens written out."""
    torch, f = w.torch, w.torch.nn.functional
    x = x[:, :_STEPS]
    for block in range(2):
        name = f"block{block}"
        h = w.rms_norm(x, f"{name}_norm")
        u, gate = w.linear(h, f"{name}_in", 192).chunk(2, -1)
        kernel = w(f"{name}_conv", 96, 1, 4)
        u = f.conv1d(u.transpose(1, 2), kernel, w(f"{name}_conv_bias", 96), padding=3, groups=96)
        u = f.silu(u[..., :_STEPS].transpose(1, 2))
        low = w.linear(u, f"{name}_dt_in", 8)
        delta = f.softplus(w.linear(low, f"{name}_dt", 96, bias=True))
        write, read = w.linear(u, f"{name}_b", 8), w.linear(u, f"{name}_c", 8)
        decay = torch.exp(delta[..., None] * -torch.exp(w(f"{name}_a_log", 96, 8)))
        drive = (delta * u)[..., None] * write[:, :, None]
        state, seen = drive[:, 0], []
        for step in range(_STEPS):
            if step:
                state = state * decay[:, step] + drive[:, step]
            seen.append((state * read[:, step, None]).sum(-1))
        y = torch.stack(seen, 1) + u * w(f"{name}_skip", 96)
        x = x + w.linear(y * f.silu(gate), f"{name}_out", 64)
    return w.linear(w.rms_norm(x, "norm"), "head", 10)


def gru(w: Weights, x: Any) -> Any:
    """GRU cells over a few tokens, and a weighted sum of what they saw."""
    torch = w.torch
    state = torch.tanh(w.linear(x[:, 0], "start", 64, bias=True))
    seen = []
    for step in range(1, _STEPS):
        now = x[:, step]
        reset, update = (
            torch.sigmoid(
                w.linear(now, f"x_{part}{step}", 64, bias=True)
                + w.linear(state, f"h_{part}{step}", 64, bias=True)
            )
            for part in ("reset", "update")
        )
        new = torch.tanh(
            w.linear(now, f"x_new{step}", 64, bias=True)
            + reset * w.linear(state, f"h_new{step}", 64, bias=True)
        )
        state = (1 - update) * new + update * state
        seen.append(state)
    whole = torch.stack(seen, 1)
    scores = w.linear(torch.tanh(w.linear(whole, "key", 32, bias=True)), "score", 1)
    return w.linear((torch.softmax(scores, 1) * whole).sum(1), "head", 10, bias=True)


def mla(w: Weights, ids: Any) -> Any:
    """A decoder of DeepSeek's: queries and keys through latents, rotated parts apart."""
    torch, f = w.torch, w.torch.nn.functional
    heads, plain, turned, wide = 4, 16, 8, 24
    x, turn = w.embedding(ids, "embed_tokens", VOCAB, 64), rotation(w, turned)
    for layer in range(2):
        name = f"layer{layer}"
        h = w.rms_norm(x, f"{name}_in_norm")
        n, length, _ = h.shape
        low = w.rms_norm(w.linear(h, f"{name}_q_a", 32), f"{name}_q_norm")
        q = w.linear(low, f"{name}_q_b", heads * (plain + turned))
        q = q.view(n, length, heads, plain + turned).transpose(1, 2)
        latent = w.linear(h, f"{name}_kv_a", 32 + turned)
        own, shared = latent.split([32, turned], -1)
        kv = w.linear(w.rms_norm(own, f"{name}_kv_norm"), f"{name}_kv_b", heads * (plain + wide))
        kv = kv.view(n, length, heads, plain + wide).transpose(1, 2)
        k, v = kv.split([plain, wide], -1)
        q_turned = rotated(w, q[..., plain:], turn)
        k_turned = rotated(w, shared[:, None], turn).expand(n, heads, length, turned)
        q, k = torch.cat((q[..., :plain], q_turned), -1), torch.cat((k, k_turned), -1)
        seen = f.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + w.linear(seen.transpose(1, 2).reshape(n, length, heads * wide), f"{name}_o", 64)
        x = x + gated_mlp(w, w.rms_norm(x, f"{name}_mlp_norm"), f"{name}_mlp", Decoder())
    return w.linear(w.rms_norm(x, "norm"), "lm_head", VOCAB)


def conformer(w: Weights, x: Any) -> Any:
    """A block of a Conformer: half an MLP, attention, a gated convolution, half an MLP."""
    f, heads = w.torch.nn.functional, 4

    def half(x: Any, name: str) -> Any:
        wide = f.silu(w.linear(w.layer_norm(x, f"{name}_norm"), f"{name}_a", 256, bias=True))
        return x + 0.5 * w.linear(wide, f"{name}_b", 64, bias=True)

    def attend(x: Any, name: str) -> Any:
        h = w.layer_norm(x, f"{name}_norm")
        q, k, v = (
            w.linear(h, f"{name}_{part}", 64, bias=True).view(-1, TOKENS, heads, 16).transpose(1, 2)
            for part in "qkv"
        )
        seen = f.scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(x.shape)
        return x + w.linear(seen, f"{name}_o", 64, bias=True)

    def convolve(x: Any, name: str) -> Any:
        h = w.linear(w.layer_norm(x, f"{name}_norm"), f"{name}_in", 128, bias=True)
        h = f.glu(h, -1).transpose(1, 2)
        h = f.conv1d(h, w(f"{name}_depthwise", 64, 1, 7), None, padding=3, groups=64)
        held = [w(f"{name}_bn_{part}", 64) for part in ("mean", "var", "scale", "shift")]
        h = f.silu(f.batch_norm(h, *held)).transpose(1, 2)
        return x + w.linear(h, f"{name}_out", 64, bias=True)

    for block in range(2):
        name = f"block{block}"
        x = attend(half(x, f"{name}_first"), f"{name}_attn")
        x = half(convolve(x, f"{name}_conv"), f"{name}_second")
        x = w.layer_norm(x, f"{name}_norm")
    return w.linear(x, "head", VOCAB)
