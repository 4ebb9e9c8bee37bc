"""From a kernel of a solved step back to the terms that its row follows from."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Iterator, Sequence

from planner.capture.solve import Kernel
from planner.capture.work import tiling_of
from planner.cost.adjust import MeasuredEstimator
from planner.cost.estimate import CalibratedEstimator
from planner.cost.estimator import Estimator, roofline_s
from planner.cost.fitted import Asked
from planner.cost.types import NodeCost
from planner.errors import UsageError
from planner.ops.dims import static
from planner.ops.types import Tensor, Tiling
from planner.plan.explained import ConstantTerm, Explained, ModelTerm, NodeTerm, TensorTerm
from planner.plan.solve import SolvedStep
from planner.plan.types import KernelRow
from planner.registry import nearest


def named(rows: Sequence[KernelRow], word: str) -> tuple[KernelRow, ...]:
    """Rows that a word names, the costliest first: a kernel, the engine's name of one, a node, or
    ``BLOCK/NODE``; all nodes of one, as ``BLOCK/NODE+NODE``, name it alone. Raises UsageError for a
    word that names none.
    """
    whole = [row for row in rows if word == label(row)]
    if whole:
        return tuple(whole)
    found = [row for row in rows if word.lower() in map(str.lower, names(row))]
    if not found:
        known = list(dict.fromkeys(name for row in rows for name in names(row)))
        near = nearest(word[:80], known) or nearest(word[:80].lower(), known)
        hint = f"did you mean {near!r}?" if near else f"as in {', '.join(known[:6])}"
        raise UsageError(f"the plan has no kernel or node {word[:80]!r}", hint)
    return tuple(sorted(found, key=lambda row: -row.share))


def label(row: KernelRow) -> str:
    """A row by its block and all its nodes."""
    return f"{row.block}/{'+'.join(row.nodes)}"


def names(row: KernelRow) -> tuple[str, ...]:
    """All that a row is called by."""
    parts = (node.rpartition(".")[0] for node in row.nodes)
    nodes = dict.fromkeys([*row.nodes, *filter(None, parts)])
    return (row.name, row.engine_name, *nodes, *(f"{row.block}/{node}" for node in nodes))


def explain(solved: SolvedStep, row: KernelRow) -> Explained:
    """The terms of a row that `kernel_rows` made of the same step."""
    kernel = _kernel(solved, row)
    work, device = kernel.work, solved.solver.prepared.device
    modelled, efficiency = _unwrapped(solved.solver.estimator, kernel)
    estimate = solved.solver.estimator.estimate(kernel.asked)
    models = tuple(_models(modelled, kernel))
    plain_s = float(modelled.estimate(kernel.asked).core_s)
    counted_s = sum(term.counted_s for term in models)
    fixed, starts = solved.fixed, kernel.group.launches
    held = (starts if estimate.chain else 1) if starts else 0
    return Explained(
        row,
        device.title,
        device.bandwidth_bytes_per_s,
        device.vector_flops_per_s,
        device.link_bytes_per_s,
        tuple(_nodes(kernel, tiling_of(kernel.group, device))),
        tuple(_tensors(kernel)) if work.hbm_bytes else (),
        float(work.matmul_s),
        float(work.vector_s),
        float(work.memory_s),
        float(work.network_s),
        float(roofline_s(work)),
        models,
        plain_s - counted_s if models and plain_s > roofline_s(work) else 0.0,
        efficiency,
        float(estimate.core_s),
        estimate.floor_s,
        starts,
        fixed.graph_node_s if kernel.in_graph else fixed.kernel_s,
        held * fixed.graph_node_s,
        fixed.collective_s if work.link_bytes else 0.0,
        kernel.time.fixed_s,
        kernel.launch_s,
        float(kernel.time.time_s),
        _optional(kernel.time.log_low),
        _optional(kernel.time.log_high),
        float(solved.chosen.timeline.busy_s),
    )


def _optional(value: float | None) -> float | None:
    return None if value is None else float(value)


def _kernel(solved: SolvedStep, row: KernelRow) -> Kernel:
    return next(
        kernel
        for run in solved.chosen.runs
        for kernel in run.kernels
        if (run.block.label, kernel.group.name) == (row.block, row.name)
        and tuple(name for _, name in kernel.group.border.nodes) == row.nodes
    )


def _unwrapped(estimator: Estimator, kernel: Kernel) -> tuple[Estimator, float | None]:
    """What prices kernels before whole runs correct it, and by how much they do."""
    if not isinstance(estimator, MeasuredEstimator):
        return estimator, None
    family = estimator.modelled.estimate(kernel.asked).family
    return estimator.modelled, estimator.efficiency.get(family)


def _nodes(kernel: Kernel, tiling: Tiling | None) -> Iterator[NodeTerm]:
    for cost in _costs(kernel):
        node, work = cost.node, cost.executed(tiling)
        flops = work.matmul_flops if node.op.matrix else work.vector_flops
        yield NodeTerm(
            node.id,
            node.op_name,
            " ".join((inspect.getdoc(type(node.op)) or node.op.about).split()),
            _arithmetic(cost, float(flops)),
            float(work.matmul_flops),
            node.matmul_dtype if node.op.matrix else None,
            cost.peak_flops_per_s,
            float(work.vector_flops),
            float(work.weight_bytes),
            float(work.cache_read_bytes + work.cache_write_bytes),
            float(work.scratch_bytes),
            float(work.link_bytes),
        )


def _costs(kernel: Kernel) -> Iterator[NodeCost]:
    for offset, name in kernel.group.border.nodes:
        yield kernel.asked.costs[offset].nodes[name]


def _arithmetic(cost: NodeCost, flops: float) -> str:
    """FLOPs of an element of the output, times its sides; of a product 2 × its depth."""
    site = cost.site
    elements = sum(float(site.load.elements(out.shape)) for out in site.outputs if not out.handle)
    each = flops / elements if elements else 0.0
    if not each or each != int(each):
        return ""
    sides = _sides(site.outputs[0], cost) if len(site.outputs) == 1 else f"{elements:,.0f}"
    last = site.inputs[0].shape[-1] if site.inputs else None
    depth = static(last) if last is not None and not last.symbols else 0
    return f"2 × {depth:,} × {sides}" if each == 2 * depth else f"{each:,.0f} × {sides}"


def _sides(tensor: Tensor, cost: NodeCost) -> str:
    return " × ".join(f"{float(cost.site.load.elements((side,))):,.0f}" for side in tensor.shape)


def _tensors(kernel: Kernel) -> Iterator[TensorTerm]:
    """Each tensor that crosses the border once, by the reader that needs most of it."""
    edge, costs = kernel.group.border, kernel.asked.costs
    for readers in edge.reads:  # most handles only order nodes
        sizes = [(costs[key[0]].nodes[key[1]], position) for key, position in readers]
        cost, position = max(sizes, key=lambda each: float(each[0].input_bytes[each[1]]))
        tensor, size = cost.site.inputs[position], float(cost.input_bytes[position])
        if size or not tensor.handle:
            yield _tensor(cost, tensor, "read", size)
    for (offset, name), position in edge.writes:
        cost = costs[offset].nodes[name]
        tensor, size = cost.site.outputs[position], float(cost.output_bytes[position])
        if size or not tensor.handle:
            yield _tensor(cost, tensor, "written", size)


def _tensor(cost: NodeCost, tensor: Tensor, way: str, size: float) -> TensorTerm:
    return TensorTerm(tensor.name, way, _sides(tensor, cost), tensor.dtype, size)


def _models(estimator: Estimator, kernel: Kernel) -> Iterator[ModelTerm]:
    if isinstance(estimator, CalibratedEstimator):
        yield from map(_model, estimator.asked(kernel.asked))


def _model(asked: Asked) -> ModelTerm:
    fitted, model = asked.fitted, asked.model
    counted_s = -asked.time_s if asked.taken_off else asked.time_s - fitted.floor_s
    return ModelTerm(
        model.family,
        fitted.variant,
        _formula(model.time_s),
        {name: float(value) for name, value in vars(asked.shape).items() if _is_number(value)},
        tuple(
            ConstantTerm(each.name, fitted.values[each.name], each.unit, each.meaning)
            for each in model.variants[fitted.variant].constants
        ),
        fitted.source,
        fitted.gpu,
        fitted.evidence,
        asked.time_s,
        fitted.floor_s,
        counted_s,
    )


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) or hasattr(value, "__float__")


def _formula(function: object) -> str:
    """The indented lines of the module that a formula is in: where the code says it in full."""
    module = sys.modules[getattr(function, "__module__", __name__)]
    lines = inspect.cleandoc(module.__doc__ or "").splitlines()
    indented = [line.strip() for line in lines if line.startswith("    ")]
    return "\n".join(indented) or lines[0]
