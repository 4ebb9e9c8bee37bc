"""Number formats, of a checkpoint and of a deployment, down to single modules."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Annotated, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from planner.dtypes import DType
from planner.spec.kinds.base import Spec

MODULE_REGEX = "re:"
"""How a module pattern opens that is a regular expression."""


def _pattern(text: str) -> str:
    if text.startswith(MODULE_REGEX):
        try:
            re.compile(text.removeprefix(MODULE_REGEX))
        except re.error as error:
            raise ValueError(f"is no regular expression: {error}") from error
    return text


ModulePattern = Annotated[str, Field(min_length=1, max_length=400), AfterValidator(_pattern)]
"""A node's name (``q_proj``), its block's label (``layer``), or both (``layer.q_proj``). ``*``
matches any run of characters; after ``re:`` stands a regular expression that must match whole."""

_RANGE = re.compile(r"(\d{1,4})(?:\.\.(\d{1,4}))?")


def _text(value: object) -> object:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _range(text: str) -> str:
    found = _RANGE.fullmatch(text)
    if not found or int(found[2] or found[1]) < int(found[1]):
        raise ValueError(f"is no layer number and no range such as 0..2: {text[:80]!r}")
    return text


Layers = Annotated[str, BeforeValidator(_text), AfterValidator(_range)]
"""A layer's number, or the first and the last of some: `0..2`."""


Scales = Literal["token", "tensor"]
"""Of FP8 activations: found anew for each token, or one for all that lies in the checkpoint."""


class ModuleFormats(Spec):
    """Formats of some modules, where they are not the model's. The first that matches counts."""

    match: ModulePattern | tuple[ModulePattern, ...] = Field(
        "*",
        description="Nodes: by name, by label of their block, or `label.name`; `*` matches any"
        " run of characters, after `re:` stands a regular expression",
    )
    layers: Layers | tuple[Layers, ...] | None = Field(
        None,
        description="Only in these layers, as in `0..2` or `[0, 125]`; the first is 0, blocks that"
        " are no layers (embedding, LM head) do not count",
    )
    weights: DType | None = Field(None, description="By default as for the whole model")
    activations: DType | None = Field(
        None,
        description="Operands of the GEMMs; by default as for the whole model, and 16 bit"
        " where `weights` is given",
    )


class Quantization(Spec):
    """How the checkpoint is quantised, as its maker published it."""

    weights: DType | None = Field(
        None, description="Format of the projections' weights; by default that of `weights`"
    )
    activations: DType | None = Field(
        None, description="Operands of the GEMMs; by default 16 bit (weight-only)"
    )
    scales: Scales | None = Field(
        None,
        description="Of FP8 activations: `tensor`, one for all that lies in the checkpoint (as in"
        " NVIDIA's), or `token`, found anew for each token, by default",
    )
    kv_cache: DType | None = Field(None, description="By default 16 bit")
    ignore: tuple[ModulePattern, ...] = Field(
        (), description="Modules left in the model's `weights` format, patterns as `match`"
    )
    modules: tuple[ModuleFormats, ...] = Field(
        (), description="Modules in other formats again, after those of `ignore`"
    )


class Precision(Spec):
    """Formats of weights, of what matrix units read, and of the KV cache."""

    weights: DType | None = Field(None, description="By default the checkpoint's")
    activations: DType | None = Field(
        None, description="Operands of the GEMMs; by default the checkpoint's, else 16 bit"
    )
    scales: Scales | None = Field(
        None,
        description="Of FP8 activations: `tensor`, one for all that lies in the checkpoint, or"
        " `token`, found anew for each token; by default the checkpoint's, else `token`",
    )
    kv_cache: DType | None = Field(
        None, description="By default the checkpoint's, else as the activations' 16 bit"
    )
    modules: tuple[ModuleFormats, ...] | None = Field(
        None, description="Modules in other formats, before those of the checkpoint"
    )


def layer_numbers(layers: str | Iterable[str] | None) -> frozenset[int] | None:
    """The layers meant; None for all."""
    if layers is None:
        return None
    if isinstance(layers, str):
        first, _, last = layers.partition("..")
        return frozenset(range(int(first), int(last or first) + 1))
    return frozenset().union(*(layer_numbers(each) or () for each in layers))
