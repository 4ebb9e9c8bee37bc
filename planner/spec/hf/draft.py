"""A model as it is read from a config: what its spec will hold, and where each part was said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from planner.spec.hf.fields import MOST_LAYERS, Config
from planner.spec.hf.layers import Use, folded
from planner.spec.origin import Path
from planner.spec.types import Scalar


@dataclass
class Draft:
    """The fields of a model spec. Readers fill it; `planner.spec.hf.convert` makes it a spec."""

    config: Config
    dims: dict[str, int] = field(default_factory=dict)
    options: dict[str, Scalar] = field(default_factory=dict)
    inputs: dict[str, list[str]] = field(default_factory=dict)
    """What enters the first block; empty for token ids alone."""
    sequence: list[dict[str, Any]] = field(default_factory=list)
    max_context: int | None = None
    notes: list[str] = field(default_factory=list)
    """What the spec cannot say, for the reader."""
    places: dict[Path, Path] = field(default_factory=dict)
    """Paths of the spec, and the paths of the config they were read at."""

    def dim(self, name: str, key: str, default: int, **bounds: int) -> int:
        """Read a dim from a field of the config."""
        value = self.config.count(key, default, **bounds)
        self.put(name, value, key)
        return value

    def put(self, name: str, value: int, key: str) -> None:
        """Set a dim that follows from a field of the config."""
        self.dims[name] = value
        self.places["dims", name] = self.config.place(key)

    def option(self, name: str, value: Scalar, default: Scalar) -> None:
        """Set an option of the blocks where it is not their default."""
        if value != default:
            self.options[name] = value

    def layers(self, key: str, default: int) -> int:
        """How many layers there are."""
        self.places["sequence",] = self.config.place(key)
        return self.config.count(key, default, most=MOST_LAYERS)

    def tied(self, default: bool) -> None:
        """Whether the LM head is the embedding."""
        if self.config.flag("tie_word_embeddings", default):
            self.options["tied"] = True

    def spans(self, block: str, spans: list[int | None]) -> list[Use]:
        """Layers of one block by their windows, which count as none beyond the longest context."""
        most = self.max_context
        short = [None if span is None or (most and span >= most) else span for span in spans]
        if len(set(short)) > 1:
            return [
                Use(block, "local", (("window", span),)) if span else Use(block, "global")
                for span in short
            ]
        if short and short[0]:
            self.options["window"] = short[0]
        return [Use(block)] * len(short)

    def run(self, embedding: str, layers: Iterable[Use], head: str) -> None:
        """The sequence: an embedding, decoder layers, the LM head."""
        self.sequence = [{"block": embedding}, *folded(list(layers)), {"block": head}]


def attention(draft: Draft, heads: int, kv_heads: int | None, head_dim: int | None = None) -> None:
    """Dims of grouped-query attention; the arguments are transformers' defaults.

    Without ``num_key_value_heads`` every head has keys of its own, and a head is
    ``hidden_size / num_attention_heads`` wide where ``head_dim`` does not say otherwise.
    """
    config = draft.config
    count = draft.dim("heads", "num_attention_heads", heads)
    draft.dim("kv_heads", "num_key_value_heads", count if kv_heads is None else kv_heads)
    widths(draft, config.maybe("head_dim", head_dim))


def widths(draft: Draft, head_dim: int | None) -> None:
    """Check that heads divide, and set the width of one."""
    hidden, heads, kv_heads = (draft.dims[name] for name in ("hidden", "heads", "kv_heads"))
    config = draft.config
    told = bool(config.faults)  # a figure that stands in for a faulty one fits nothing
    if heads % kv_heads and not told:
        config.refuse(
            str(draft.places["dims", "kv_heads"][-1]),
            f"{kv_heads} KV heads cannot serve {heads} query heads evenly",
        )
    if head_dim is None and hidden % heads and not told:
        config.refuse(
            str(draft.places["dims", "hidden"][-1]),
            f"{hidden} is not divisible by {heads} heads",
            "give head_dim",
        )
    draft.put("head_dim", head_dim or max(1, hidden // heads), "head_dim")
