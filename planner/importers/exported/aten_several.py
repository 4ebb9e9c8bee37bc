"""Calls of ATen that read or write several tensors."""

from __future__ import annotations

from collections.abc import Iterator

from planner.importers.exported.call import Call
from planner.importers.exported.types import Step


def join(call: Call) -> Iterator[Step]:
    """Tensors side by side, along a side they have or a new one."""
    yield call.step("Concat", *(call.named(part) for part in call.argument(0)))


def split(call: Call) -> Iterator[Step]:
    """Several tensors of one: each is a step where it is picked."""
    call.parts[call.node.name] = [call.tensor(0)]
    yield from ()


def pick(call: Call) -> Iterator[Step]:
    """One result of a call that has several: a part of a split, else the first."""
    source, position = call.argument(0).name, call.argument(1)
    if source in call.parts:
        yield call.step("Slice", call.parts[source][0])
    elif position == 0:
        yield call.step("Identity", source)
