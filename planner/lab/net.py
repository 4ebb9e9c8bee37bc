"""Small models in plain torch, written as functions of named weights that their first run makes."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

Run = Callable[..., Any]


@dataclass
class Weights:
    """The stored tensors of a net by name: made on the first run, looked up on later ones."""

    torch: Any
    dtype: Any
    module: Any = None
    made: dict[str, Any] = field(default_factory=dict)

    def __call__(self, name: str, *shape: int) -> Any:
        """The stored tensor of that name: small random numbers."""
        if self.module is not None:
            return getattr(self.module, name)
        if name not in self.made:
            drawn = self.torch.empty(*shape, dtype=self.dtype).uniform_(0.5, 1)
            self.made[name] = drawn / math.sqrt(shape[-1])
        return self.made[name]

    def linear(self, x: Any, name: str, features: int, *, bias: bool = False) -> Any:
        """A projection."""
        weight = self(f"{name}_weight", features, x.shape[-1])
        extra = self(f"{name}_bias", features) if bias else None
        return self.torch.nn.functional.linear(x, weight, extra)

    def embedding(self, ids: Any, name: str, rows: int, features: int) -> Any:
        """Rows of a table."""
        return self.torch.nn.functional.embedding(ids, self(f"{name}_weight", rows, features))

    def rms_norm(self, x: Any, name: str, *, shift: float = 0.0) -> Any:
        """Llama's RMS norm, in FP32 inside; ``shift`` is added to the weight, as Gemma does."""
        wide = x.float()
        wide = wide * self.torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        weight = self(f"{name}_weight", x.shape[-1])
        if shift:
            return (wide * (shift + weight.float())).to(x.dtype)
        return weight * wide.to(x.dtype)

    def layer_norm(self, x: Any, name: str) -> Any:
        """A layer norm with weight and bias."""
        width = x.shape[-1]
        norm = self.torch.nn.functional.layer_norm
        return norm(x, (width,), self(f"{name}_weight", width), self(f"{name}_bias", width))


def module(torch: Any, run: Run, inputs: tuple[Any, ...], dtype: Any) -> Any:
    """A torch module that runs ``run(weights, *inputs)`` on the weights that a first run made."""
    first = Weights(torch, dtype)
    with torch.no_grad():
        run(first, *inputs)

    def forward(self: Any, *given: Any) -> Any:
        return run(Weights(torch, dtype, self), *given)

    made = type("Net", (torch.nn.Module,), {"forward": forward})()
    for name, tensor in first.made.items():
        made.register_parameter(name, torch.nn.Parameter(tensor, requires_grad=False))
    return made.eval()
