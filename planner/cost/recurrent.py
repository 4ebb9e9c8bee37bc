"""Kernels that carry a state along each sequence: what they walk and move, and what that takes."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from planner.cost.constants import Constants
from planner.cost.fitted import Fitted
from planner.cost.kernels.recurrent import (
    CHUNKS,
    CONV_PROMPTS,
    CONV_STEPS,
    FLASHINFER,
    MODEL,
    STEPS,
    RecurrentShape,
)
from planner.cost.kernels.types import KernelModel
from planner.cost.parts import Part, moved_bytes
from planner.num import Number, any_nonzero, as_float, ceil_div, is_one, maximum, where
from planner.ops.recurrent import CausalConv1d, LinearAttention
from planner.ops.types import Load, Operator, SequenceGroup, Site, static

_OWN = {"flashinfer": (FLASHINFER,)}
"""Of a kernel that an engine names, what prices its prompts first."""


def is_measured(op: Operator, site: Site) -> bool:
    """Whether tables time an operator's kernels: convolutions, and the delta rule with one decay a
    head (Gated DeltaNet). That of Kimi has one an element of a key.
    """
    if not isinstance(op, LinearAttention):
        return isinstance(op, CausalConv1d)
    gates = [static(tensor.shape[-1]) for tensor in site.inputs[1:]]
    return op.rule == "delta" and all(width == op.heads for width in gates)


def recurrent_part(
    op: Operator,
    site: Site,
    kernel: str | None,
    constants: Constants,
    price: Callable[[KernelModel[Any], Fitted, RecurrentShape], Number],
) -> Part | None:
    """An operator's part of a group; None of kernels that no table times. ``price`` gives the
    seconds of a shape.
    """
    time_s: Number = 0.0
    moved: Number = 0.0
    fitted: Fitted | None = None
    for variants, shape in recurrent_shapes(op, site, kernel):
        fitted = constants.recurrent(variants)
        time_s = time_s + price(MODEL, fitted, shape)
        moved = moved + shape.moved_bytes + shape.handed_bytes
    if fitted is None:
        return None
    return Part("recurrent", time_s - fitted.floor_s, fitted.floor_s, moved, fitted)


def recurrent_shapes(
    op: Operator, site: Site, kernel: str | None
) -> Iterator[tuple[tuple[str, ...], RecurrentShape]]:
    """Prompts, then sequences that decode, where there are any: each is a launch of its own. With
    variants that price it, the kernel's own first. Nothing of kernels that no table times.
    """
    if not isinstance(op, CausalConv1d | LinearAttention) or not is_measured(op, site):
        return
    prompts = [each for each in site.load.groups if not _decodes(each)]
    others = [each for each in site.load.groups if _decodes(each)]
    rule = isinstance(op, LinearAttention)
    chunked = (*_OWN.get(kernel or "", ()), CHUNKS, FLASHINFER)
    for groups, variants in (
        (prompts, chunked if rule else (CONV_PROMPTS,)),
        (others, (STEPS,) if rule else (CONV_STEPS,)),
    ):
        found = [each for each in groups if any_nonzero(each.count * each.new_tokens)]
        if found:
            yield variants, recurrent_shape(op, site, *found)


def recurrent_shape(
    op: CausalConv1d | LinearAttention, site: Site, *groups: SequenceGroup
) -> RecurrentShape:
    """What a kernel does for groups of sequences."""
    here = Site(site.inputs, site.outputs, Load(groups), site.parameters, site.formats)
    work = op.executed(here, None)
    kept = work.weight_bytes + work.cache_read_bytes + work.cache_write_bytes
    heads, chunk = (op.heads, op.chunk) if isinstance(op, LinearAttention) else (1, 1)
    walked = (ceil_div(each.new_tokens, chunk) * where(each.count > 0, 1, 0) for each in groups)
    return RecurrentShape(
        as_float(maximum(*walked)),
        as_float(op.pieces(here)),
        as_float(heads * here.load.sequences),
        moved_bytes(here) + as_float(kept),
        as_float(work.scratch_bytes),
    )


def _decodes(group: SequenceGroup) -> bool:
    return group.verified or is_one(group.new_tokens)
