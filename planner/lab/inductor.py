"""Which operators TorchInductor puts into which kernel, read off its scheduler as it compiles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Literal
from unittest.mock import patch

Rules = Literal["cpp", "triton"]
RULES: tuple[Rules, ...] = ("cpp", "triton")
"""Whose fusion rules: those of C++ for CPUs, or those of Triton, which CUDA takes too."""

VIEWS = frozenset(
    {
        "view",
        "_unsafe_view",
        "reshape",
        "permute",
        "transpose",
        "t",
        "expand",
        "slice",
        "select",
        "squeeze",
        "unsqueeze",
        "alias",
        "as_strided",
        "detach",
        "split",
        "split_with_sizes",
        "unbind",
    }
)
"""Operators that compute nothing."""
_WHOLE = VIEWS - {"slice", "select", "as_strided", "split", "split_with_sizes", "unbind"}
"""Those behind which all elements stand."""
_FUNCTION = re.compile(r"^cpp_fused\w* = async_compile\.cpp", re.MULTILINE)


@dataclass(frozen=True)
class InductorKernel:
    """One kernel of a compiled model."""

    kind: Literal["loops", "extern"]
    """Generated loops, or a call of a library."""
    name: str
    """Of the library's operator; of loops the names of their buffers."""
    origins: tuple[str, ...]
    """Names of the exported graph's nodes that it computes, views left out."""


@dataclass(frozen=True)
class Compiled:
    """A model as Inductor compiled it."""

    rules: Rules
    kernels: tuple[InductorKernel, ...]
    functions: int | None
    """C++ functions that hold the loops, several nests each; None where nothing was generated."""
    error: float | None
    """Largest difference between its output and that of the model uncompiled; None if not run."""
    seconds: float
    """How long it took to compile."""


class _Scheduled(Exception):  # noqa: N818 – no error: what was wanted is known
    """Raised to leave the compiler once kernels are settled."""


def compiled(program: Any, inputs: tuple[Any, ...], rules: Rules) -> Compiled:
    """Compile an exported program and read its kernels.

    ``cpp`` generates the code, builds and runs it; ``triton`` stops after fusion, since what it
    would generate needs a GPU. Raises RuntimeError where the compiler took another graph than the
    exported one.
    """
    import torch

    torch.compiler.reset()
    found: list[InductorKernel] = []
    run = torch.compile(program.module(), backend=_Backend(program), fullgraph=True)
    begun = perf_counter()
    with torch.no_grad(), _settings(rules), _watched(found, leave=rules == "triton"):
        if rules == "triton":
            _scheduled(run, inputs)
            return Compiled(rules, tuple(found), None, None, perf_counter() - begun)
        from torch._inductor.utils import run_and_get_code

        out, sources = run_and_get_code(run, *inputs)
        seconds = perf_counter() - begun
        error = float((out.float() - program.module()(*inputs).float()).abs().max())
    functions = sum(len(_FUNCTION.findall(source)) for source in sources)
    return Compiled(rules, tuple(found), functions, error, seconds)


def _scheduled(run: Any, inputs: tuple[Any, ...]) -> None:
    """Compile up to the point where kernels are settled."""
    from torch._inductor.exc import InductorError

    try:
        run(*inputs)
    except (_Scheduled, InductorError) as error:
        if "_Scheduled" not in f"{type(error).__name__} {error}":
            raise


@contextmanager
def _settings(rules: Rules) -> Iterator[None]:
    """No caches, one process, and the code generator whose rules are asked for."""
    from torch._inductor import config, ir
    from torch._inductor.fx_passes import post_grad

    said = {"force_disable_caches": True, "compile_threads": 1, "cpu_backend": rules}
    if rules == "triton":
        said["force_pointwise_cat"] = True
    with ExitStack() as stack:
        stack.enter_context(config.patch(said))
        if rules == "triton":  # where a device is asked for and not the backend
            stack.enter_context(patch.object(ir, "is_cpu", lambda _: False))
            # its one use there: whether the sum of an addmm is left to loops that read it
            stack.enter_context(patch.object(post_grad, "is_gpu", lambda _: True))
        yield


@contextmanager
def _watched(found: list[InductorKernel], *, leave: bool) -> Iterator[None]:
    from torch._inductor.scheduler import Scheduler

    generate = Scheduler.codegen

    def watch(scheduler: Any) -> Any:
        found.extend(kernels_of(scheduler.nodes))
        if leave:
            raise _Scheduled
        return generate(scheduler)

    with ExitStack() as stack:
        stack.enter_context(patch.object(Scheduler, "codegen", watch))
        yield


@dataclass(frozen=True)
class _Backend:
    """Inductor, for a graph whose nodes are told the names they have in the export."""

    program: Any

    def __call__(self, graph: Any, inputs: Any) -> Any:
        """Compile."""
        from torch._inductor.compile_fx import compile_fx

        for node, name in zip(_calls(graph), _names(self.program, graph), strict=True):
            node.meta["custom"] = {**node.meta.get("custom", {}), "exported": name}
        return compile_fx(graph, inputs)


def _names(program: Any, graph: Any) -> list[str]:
    """Names in the export of a graph's calls. Raises RuntimeError where the graphs differ."""
    ours, theirs = list(_calls(program.graph_module)), list(_calls(graph))
    if [str(node.target) for node in ours] != [str(node.target) for node in theirs]:
        raise RuntimeError("the compiler was given another graph than was exported")
    return [node.name for node in ours]


def _calls(graph: Any) -> Iterator[Any]:
    yield from (
        node
        for node in graph.graph.nodes
        if node.op == "call_function" and "_assert" not in str(node.target)
    )


def kernels_of(nodes: Iterable[Any]) -> Iterator[InductorKernel]:
    """Kernels of a scheduler's nodes after fusion, in order."""
    nodes = list(nodes)
    heads = {
        name: head
        for whole in nodes
        for part in whole.get_nodes()
        for name in part.get_buffer_names()
        if (head := _head(part)) is not None
    }
    calls = {heads[name] for name in _called_buffers(nodes) if name in heads}
    for whole in nodes:
        parts = [part for part in whole.get_nodes() if part.node is not None]
        kinds = {type(part).__name__ for part in parts}
        if kinds == {"NopKernelSchedulerNode"} or _is_output(parts):
            continue
        extern = kinds == {"ExternKernelSchedulerNode"}
        found: dict[str, None] = {}
        for part in parts:
            found |= dict.fromkeys(_extern(part) if extern else _loops(part, heads, calls))
        name = _called(parts[0].node) if extern else whole.get_name()
        yield InductorKernel("extern" if extern else "loops", name, tuple(found))


def _called_buffers(nodes: Iterable[Any]) -> Iterator[str]:
    """Buffers that calls of libraries write."""
    for whole in nodes:
        for part in whole.get_nodes():
            if type(part).__name__ == "ExternKernelSchedulerNode":
                yield from part.get_buffer_names()


def _is_output(parts: list[Any]) -> bool:
    """Whether it only names one of several results of a call."""
    return all(type(part.node).__name__ == "MultiOutput" for part in parts)


def _called(node: Any) -> str:
    return str(getattr(node, "op_overload", None) or node.get_kernel_name())


def _head(part: Any) -> Any:
    """The traced operator whose result a scheduled node is."""
    if part.node is None:
        return None
    if part.node.origin_node is not None:
        return part.node.origin_node
    places = {node: place for node in part.node.get_origins() for place in [_place(node)]}
    return max(places, key=lambda node: places[node]) if places else None


def _place(node: Any) -> int:
    return list(node.graph.nodes).index(node) if node in node.graph.nodes else -1


def _extern(part: Any) -> Iterator[str]:
    head = _head(part)
    return _exported([head] if head is not None else [])


def _loops(part: Any, heads: dict[str, Any], calls: set[Any]) -> Iterator[str]:
    """What loops compute: back from their result to what they read from memory.

    Inductor's own list of origins has more: what went into a reduction that they only read, and of
    copies in front of a call all that the call reads.
    """
    end = _head(part)
    if end is None:
        return iter(())
    inputs = {node.name: node for node in end.graph.nodes if node.op == "placeholder"}
    known = {**inputs, **heads}
    loaded = [known[dep.name] for dep in part.read_writes.reads if dep.name in known]
    read = {node for head in loaded for node in _under_other_sides(head)}
    origins = set(part.node.get_origins()) | {end}
    live = set(read)
    found: dict[Any, None] = {}
    for node in end.graph.nodes:
        ready = node in read or all(each in live for each in node.all_input_nodes)
        if ready and _is_part(node):
            live.add(node)
        elif ready and node in origins and (node is end or node not in read):
            found[node] = None
            live.add(node)
    return _exported(found or ([] if end in calls else [end]))


def _under_other_sides(node: Any) -> Iterator[Any]:
    """An operator, and those that write the same elements in front of it."""
    yield node
    while _name(node) in _WHOLE:
        node = node.args[0]
        yield node


def _name(node: Any) -> str:
    return str(node.target).removeprefix("aten.").split(".")[0]


def _is_part(node: Any) -> bool:
    """Whether a node is one of several results of another, as a mean beside a variance."""
    return "getitem" in str(node.target)


def _exported(nodes: Iterable[Any]) -> Iterator[str]:
    """Names in the export, without those of views."""
    for node in nodes:
        if _name(node) in VIEWS or _is_part(node):
            continue
        yield node.meta.get("custom", {}).get("exported") or f"?{node.name}"
