"""Operators of a trace of a CPU: nested calls, of which those that compute are taken.

``aten::linear`` calls ``aten::t``, ``aten::matmul`` and that ``aten::mm``: the last computes, the
others only lead to it. An operator that computes counts whole, with what it calls; what leads to it
gives its own time to the first operator that it reaches. So no time counts twice. A view or an
allocation that leads to nothing is no operator here: it is time between them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from planner.importers.trace import Span

_LEADS = re.compile(
    r"aten::((_?unsafe_)?view(_as)?|as_strided|t|transpose|permute|_?reshape(_alias)?|expand(_as)?"
    r"|slice|select|narrow|(un)?squeeze|split(_with_sizes)?|chunk|unbind|(un)?flatten|alias|movedim"
    r"|detach_?|lift_fresh|resolve_(conj|neg)|result_type|empty(_like|_strided)?|new_empty\w*"
    r"|resize_|item|_local_scalar_dense|is_nonzero|to|_to_copy|type_as|contiguous"
    r"|linear|matmul|outer|scaled_dot_product_attention)|(?!.*cpp_fused)[^:]*"
)
"""Views, allocations, and operators that only choose others. A name without a namespace is a range
of the program or a double, but for the kernels that Inductor writes in C++."""


_DEEPEST = 200
"""Calls within calls that are looked into; what lies deeper is time of the one around it."""


@dataclass
class _Call:
    span: Span
    inside: list[_Call] = field(default_factory=list)


def operators(spans: Sequence[Span]) -> tuple[Span, ...]:
    """The operators that compute, of the thread with the most time in them, in order."""
    threads: dict[str, list[Span]] = {}
    for one in spans:
        threads.setdefault(one.lane, []).append(one)
    found = [
        tuple(operator for call in _nested(thread) for operator in _computing(call))
        for thread in threads.values()
    ]
    return max(found, key=lambda some: sum(one.length_s for one in some), default=())


def _computing(call: _Call) -> Iterator[Span]:
    whole = call.span
    if _LEADS.fullmatch(whole.name) is None:
        yield whole
        return
    reached = [operator for inner in call.inside for operator in _computing(inner)]
    own_s = max(0.0, whole.length_s - sum(one.length_s for one in reached))
    for at, one in enumerate(reached):
        more_s = 0.0 if at else own_s
        yield Span(one.name, one.start_s, one.length_s + more_s, one.lane)


def _nested(thread: Sequence[Span]) -> list[_Call]:
    """Calls that no other call contains, with those they contain."""
    outermost: list[_Call] = []
    around: list[_Call] = []
    for one in sorted(thread, key=lambda one: (one.start_s, -one.length_s)):
        while around and around[-1].span.end_s <= one.start_s:
            around.pop()
        if len(around) == _DEEPEST:
            continue
        call = _Call(one)
        (around[-1].inside if around else outermost).append(call)
        around.append(call)
    return outermost
