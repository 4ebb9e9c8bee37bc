"""Further small models, written when the rules for Inductor stood: nothing was fitted to them."""

from __future__ import annotations

from typing import Any

from planner.lab.net import Weights
from planner.lab.nets_decoders import TOKENS, VOCAB, Decoder, attention, gated_mlp, rotation


def phi(w: Weights, ids: Any) -> Any:
    """Attention and MLP side by side behind one layer norm, as in Phi and GPT-J."""
    of = Decoder(kv_heads=4)
    x, turn = w.embedding(ids, "embed_tokens", VOCAB, of.hidden), rotation(w, of.head_dim)
    for layer in range(2):
        name = f"layer{layer}"
        h = w.layer_norm(x, f"{name}_norm")
        wide = w.torch.nn.functional.gelu(w.linear(h, f"{name}_fc1", 160, bias=True))
        seen = attention(w, h, f"{name}_attn", of, turn)
        x = x + seen + w.linear(wide, f"{name}_fc2", of.hidden, bias=True)
    return w.linear(w.layer_norm(x, "norm"), "lm_head", VOCAB, bias=True)


def olmo2(w: Weights, ids: Any) -> Any:
    """Norms behind attention and MLP alone, in front of the residual sums."""
    of = Decoder()
    x, turn = w.embedding(ids, "embed_tokens", VOCAB, of.hidden), rotation(w, of.head_dim)
    for layer in range(2):
        name = f"layer{layer}"
        x = x + w.rms_norm(attention(w, x, f"{name}_attn", of, turn), f"{name}_attn_norm")
        x = x + w.rms_norm(gated_mlp(w, x, f"{name}_mlp", of), f"{name}_mlp_norm")
    return w.linear(w.rms_norm(x, "norm"), "lm_head", VOCAB)


def mixer(w: Weights, image: Any) -> Any:
    """An MLP-Mixer: an MLP over patches, then one over channels."""
    f = w.torch.nn.functional
    x = f.conv2d(image, w("patch_weight", 48, 3, 8, 8), w("patch_bias", 48), stride=8)
    x = x.flatten(2).transpose(1, 2)
    for layer in range(2):
        name = f"layer{layer}"
        y = w.layer_norm(x, f"{name}_norm1").transpose(1, 2)
        y = w.linear(f.gelu(w.linear(y, f"{name}_a", 32, bias=True)), f"{name}_b", 16, bias=True)
        x = x + y.transpose(1, 2)
        y = w.layer_norm(x, f"{name}_norm2")
        y = f.gelu(w.linear(y, f"{name}_c", 96, bias=True))
        x = x + w.linear(y, f"{name}_d", 48, bias=True)
    return w.linear(w.layer_norm(x, "norm").mean(1), "head", 10, bias=True)


def diffusion(w: Weights, image: Any) -> Any:
    """Two residual blocks of a diffusion model: group norms, SiLU, a shift for each channel."""
    f = w.torch.nn.functional
    x = f.conv2d(image, w("stem", 32, 3, 3, 3), w("stem_bias", 32), padding=1)
    for block in range(2):
        name = f"block{block}"
        y = f.silu(f.group_norm(x, 8, w(f"{name}_n1", 32), w(f"{name}_n1_bias", 32)))
        y = f.conv2d(y, w(f"{name}_c1", 32, 32, 3, 3), w(f"{name}_c1_bias", 32), padding=1)
        y = y + w(f"{name}_time", 1, 32, 1, 1)
        y = f.silu(f.group_norm(y, 8, w(f"{name}_n2", 32), w(f"{name}_n2_bias", 32)))
        x = x + f.conv2d(y, w(f"{name}_c2", 32, 32, 3, 3), w(f"{name}_c2_bias", 32), padding=1)
    return f.conv2d(f.silu(x), w("end", 3, 32, 3, 3), w("end_bias", 3), padding=1)


def lstm(w: Weights, x: Any) -> Any:
    """Three LSTM cells, one behind the other: many readers of few results."""
    torch = w.torch
    state = torch.tanh(w.linear(x, "start", 64, bias=True))
    memory = torch.tanh(w.linear(x, "start_memory", 64, bias=True))
    for step in range(3):
        gates = [
            w.linear(x, f"x{part}{step}", 64, bias=True) + w.linear(state, f"h{part}{step}", 64)
            for part in ("in", "forget", "new", "out")
        ]
        taken, kept, new, out = gates
        memory = torch.sigmoid(kept) * memory + torch.sigmoid(taken) * torch.tanh(new)
        state = torch.sigmoid(out) * torch.tanh(memory)
    return w.linear(state * memory, "head", 10, bias=True)


def t5(w: Weights, ids: Any) -> Any:
    """An encoder of T5 1.1: RMS norms, attention both ways, a gated GELU."""
    f, heads = w.torch.nn.functional, 4
    x = w.embedding(ids, "shared", VOCAB, 64)
    for layer in range(2):
        name = f"layer{layer}"
        h = w.rms_norm(x, f"{name}_norm1")
        q, k, v = (
            w.linear(h, f"{name}_{part}", 64).view(-1, TOKENS, heads, 16).transpose(1, 2)
            for part in "qkv"
        )
        seen = f.scaled_dot_product_attention(q, k, v)
        x = x + w.linear(seen.transpose(1, 2).reshape(x.shape), f"{name}_o", 64)
        x = x + gated_mlp(
            w, w.rms_norm(x, f"{name}_norm2"), f"{name}_mlp", Decoder(activation="gelu")
        )
    return w.rms_norm(x, "norm")
