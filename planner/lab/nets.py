"""The small models that a compiler is held against, by name."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from planner.lab.net import module
from planner.lab.nets_apart import diffusion, lstm, mixer, olmo2, phi, t5
from planner.lab.nets_decoders import TOKENS, VOCAB, Decoder, decoder
from planner.lab.nets_fresh import dcn, densenet, nerf, pointnet, retnet, rwkv, vae, whisper
from planner.lab.nets_images import dlrm, gmlp, nafnet, unet
from planner.lab.nets_later import (
    deepfm,
    deit,
    edsr,
    granite,
    highway,
    mobilenet,
    nbeats,
    wavenet,
)
from planner.lab.nets_others import bert, cnn, convnext, gpt2, mbconv, mlp_net, vit
from planner.lab.nets_sequence import conformer, gru, mla, ssm

BATCH = 2


@dataclass(frozen=True)
class Net:
    """A small model."""

    run: Callable[..., Any]
    reads: Literal["ids", "rows", "image", "sequence", "clicks"]
    dtype: str = "float32"
    apart: bool = False
    """Whether rules were settled without it."""
    tokens: int = 0
    """Of each sequence, where there are sequences."""


_GEMMA = Decoder(qk_norm=True, shift=1.0, sandwich=True, activation="gelu", kv_heads=1)
_CAPPED = replace(_GEMMA, qk_norm=False, kv_heads=2, capped=True)

NETS: dict[str, Net] = {
    "llama": Net(decoder(Decoder()), "ids", "bfloat16", tokens=TOKENS),
    "qwen3": Net(decoder(Decoder(qk_norm=True)), "ids", "bfloat16", tokens=TOKENS),
    "gemma-3": Net(decoder(_GEMMA), "ids", "bfloat16", tokens=TOKENS),
    "gemma-2": Net(decoder(_CAPPED), "ids", "bfloat16", tokens=TOKENS),
    "moe": Net(decoder(Decoder(experts=8, inner=48)), "ids", tokens=TOKENS),
    "mlp": Net(mlp_net, "rows"),
    "cnn": Net(cnn, "image"),
    "vit": Net(vit, "image", tokens=17),
    "bert": Net(bert, "ids", tokens=TOKENS),
    "gpt-2": Net(gpt2, "ids", tokens=TOKENS),
    "convnext": Net(convnext, "image"),
    "mbconv": Net(mbconv, "image"),
    "phi": Net(phi, "ids", "bfloat16", tokens=TOKENS),
    "olmo-2": Net(olmo2, "ids", "bfloat16", tokens=TOKENS),
    "t5": Net(t5, "ids", tokens=TOKENS),
    "mixer": Net(mixer, "image"),
    "diffusion": Net(diffusion, "image"),
    "lstm": Net(lstm, "rows"),
    "ssm": Net(ssm, "sequence"),
    "unet": Net(unet, "image"),
    "gru": Net(gru, "sequence"),
    "mla": Net(mla, "ids", "bfloat16", tokens=TOKENS),
    "conformer": Net(conformer, "sequence", tokens=TOKENS),
    "nafnet": Net(nafnet, "image"),
    "dlrm": Net(dlrm, "clicks"),
    "gmlp": Net(gmlp, "image"),
    "densenet": Net(densenet, "image"),
    "vae": Net(vae, "image"),
    "nerf": Net(nerf, "rows"),
    "pointnet": Net(pointnet, "sequence"),
    "retnet": Net(retnet, "sequence"),
    "dcn": Net(dcn, "rows"),
    "whisper": Net(whisper, "sequence", tokens=TOKENS),
    "rwkv": Net(rwkv, "sequence"),
    "edsr": Net(edsr, "image", apart=True),
    "wavenet": Net(wavenet, "sequence", apart=True),
    "highway": Net(highway, "rows", apart=True),
    "deepfm": Net(deepfm, "clicks", apart=True),
    "nbeats": Net(nbeats, "rows", apart=True),
    "granite": Net(granite, "ids", "bfloat16", apart=True, tokens=TOKENS),
    "deit": Net(deit, "sequence", apart=True, tokens=TOKENS),
    "mobilenet": Net(mobilenet, "image", apart=True),
}


def net(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A model by name, and inputs for it. Needs torch."""
    import torch

    torch.manual_seed(0)
    asked = NETS[name]
    dtype = getattr(torch, asked.dtype)
    inputs: dict[str, Callable[[], tuple[Any, ...]]] = {
        "ids": lambda: (torch.randint(0, VOCAB, (BATCH, TOKENS)),),
        "rows": lambda: (torch.rand(BATCH * TOKENS, 64, dtype=dtype),),
        "image": lambda: (torch.rand(BATCH, 3, 32, 32, dtype=dtype),),
        "sequence": lambda: (torch.rand(BATCH, TOKENS, 64, dtype=dtype),),
        "clicks": lambda: (
            torch.randint(0, 100, (BATCH * TOKENS, 3)),
            torch.rand(BATCH * TOKENS, 64, dtype=dtype),
        ),
    }
    made = inputs[asked.reads]()
    return module(torch, asked.run, made, dtype), made
