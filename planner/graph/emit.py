"""Emits the nodes of one block in order: sharded, quantised, composites expanded, shaped."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property

import networkx as nx

from planner.errors import Fault
from planner.graph.attributes import make_operator
from planner.graph.cut_blocks import check_cut
from planner.graph.names import Names, shape_of
from planner.graph.order import reads, writes
from planner.graph.repeated import repeated
from planner.graph.sequence import joined, needs_rows
from planner.graph.types import Block, Node
from planner.ops.collective import RowGather
from planner.ops.context_attention import over_context
from planner.ops.context_prompts import over_prompts
from planner.ops.pointwise import Quantize
from planner.ops.types import ExpertLayout, Formats, Operator, Spread, Tensor, show_shape
from planner.registry import nearest
from planner.spec.origin import Origin
from planner.spec.types import BlockSpec

FormatsOf = Callable[[str, str, Operator], tuple[Operator, Formats]]
"""From a node's name, its operator's and the operator: the operator, and the formats it runs in."""


@dataclass
class Emitter:
    """Builds one kind of block. Faults are collected; a node that fails ends the block."""

    spec: BlockSpec
    names: Names
    inputs: tuple[Tensor, ...]
    formats: Formats
    """Of the block's tensors, and of nodes without formats of their own."""
    layout: ExpertLayout
    faults: list[Fault]
    choose: FormatsOf | None = None
    """What each node runs in, where that differs."""
    _own: dict[str, Formats] = field(default_factory=dict)
    _nodes: list[Node] = field(default_factory=list)
    _tensors: dict[str, Tensor] = field(default_factory=dict)
    _same: dict[str, str] = field(default_factory=dict)
    """Per tensor that is another one under a new name: that one's name."""
    _narrowed: dict[tuple[str, str], str] = field(default_factory=dict)
    """Per tensor that GEMMs read narrower, and format: the name of its quantised copy."""

    def block(self, label: str, order: tuple[str, ...]) -> Block | None:
        """The finished block, or None where faults were added."""
        before = len(self.faults)
        self._tensors = {tensor.name: tensor for tensor in self.inputs}
        operators = {name: self._operator(name) for name in order}
        if len(self.faults) > before:
            return None
        for name in order:
            op = operators[name]
            if op is None or not self._emit(name, op):
                return None
        self._check_declared()
        if len(self.faults) > before:
            return None
        return Block(
            label,
            tuple(self._nodes),
            self._tensors,
            tuple(tensor.name for tensor in self.inputs),
            self._known(self.spec.outputs),
            _as_networkx(self._nodes, self._tensors),
            self.formats,
        )

    def _origin(self, name: str) -> Origin:
        return self.spec.origin.at("nodes", name)

    def _operator(self, name: str) -> Operator | None:
        spec = self.spec.nodes[name]
        op = make_operator(spec, self._origin(name), self.names, self.faults)
        if op is not None and self.choose is not None:
            op, self._own[name] = self.choose(name, spec.op, op)
        return op

    def _formats(self, name: str) -> Formats:
        """Those of the node as written that a node is, is a part of, or was added for."""
        return self._own.get(name) or self._own.get(name.split(".", maxsplit=1)[0], self.formats)

    def _emit(self, name: str, op: Operator) -> bool:
        node = self.spec.nodes[name]
        inputs, outputs = self._known(reads(node)), writes(name, node)
        fewest, most = op.arity
        if not fewest <= len(inputs) <= most:
            wanted = str(fewest) if fewest == most else f"{fewest} to {most}"
            return self._fail(
                name, f"operator '{node.op}' reads {wanted} tensors, got {len(inputs)}"
            )
        try:
            inputs = self._whole_rows(name, op, inputs)
            spread = op.spread(self._layout(name))
            spread = over_prompts(over_context(spread, self.layout), self.layout)
            if spread.op and self.layout.tensor > 1:
                shapes = tuple(self._tensors[each].shape for each in self._known(inputs))
                check_cut(spread.op, shapes, self._formats(name))
            self._place(name, node.op, spread, inputs, outputs)
        except ValueError as error:
            return self._fail(name, str(error))
        return True

    def _layout(self, name: str) -> ExpertLayout:
        """Over how many ranks a node is cut: nodes that a context group repeats, over fewer."""
        layout = self.layout
        if layout.context == 1 or layout.queries == "gather" or name not in self._repeated:
            return layout
        return replace(layout, tensor=layout.tensor // layout.context)

    @cached_property
    def _repeated(self) -> frozenset[str]:
        return repeated(self.spec)

    def _known(self, tensors: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(self._same.get(tensor, tensor) for tensor in tensors)

    def _fail(self, name: str, message: str) -> bool:
        self.faults.append(self._origin(name).fault(f"node '{name}': {message}", key=True))
        return False

    def _place(
        self,
        name: str,
        op_name: str,
        spread: Spread,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
    ) -> None:
        """The node, between what brings its inputs and what takes its output."""
        steps: list[tuple[str, str, Operator]] = []
        if spread.op:
            inputs = tuple(self._quantized(tensor, spread.op, name) for tensor in inputs)
        if spread.before:
            steps.append((f"{name}.dispatch", "moe_dispatch", spread.before))
        if spread.op:
            steps.append((name, op_name, spread.op))
        if spread.after:
            steps.append((f"{name}.combine", "moe_combine", spread.after))
        if spread.collective:
            kind, op = joined(spread.collective, self.layout)
            steps.append((f"{name}.{kind}", kind, op))
        if not steps:
            self._same[outputs[0]] = inputs[0]
            return
        for own, kind_name, op in steps[:-1]:
            written: tuple[str, ...] = (f"{outputs[0]}.partial",)
            if op is spread.before:
                written = tuple(f"{tensor}.gathered" for tensor in inputs)
            elif op is spread.after:
                written = (f"{outputs[0]}.combined",)
            self._add(own, kind_name, op, inputs, written)
            inputs = written
        own, kind_name, op = steps[-1]
        self._add(own, kind_name, op, inputs, outputs)

    def _whole_rows(self, name: str, op: Operator, read: tuple[str, ...]) -> tuple[str, ...]:
        """Tensors with the rows that an operator needs, by gathers that all its readers share."""
        shapes = [self._tensors[tensor].shape for tensor in read]
        found = list(read)
        for position, tensor in enumerate(read):
            if needs_rows(shapes[position], op, shapes, self.layout):
                whole = found[position] = f"{tensor}.all_gather"
                if whole not in self._tensors:
                    gather = RowGather(self.layout.tensor)
                    self._add(whole, "all_gather", gather, (tensor,), (whole,), near=name)
        return tuple(found)

    def _quantized(self, tensor: str, op: Operator, name: str) -> str:
        """The GEMM input in the matmul format, by a node that all its readers share."""
        formats, read = self._formats(name), self._tensors[tensor]
        if read.handle or op.quantizes:
            return tensor
        if op.matmul_format(formats) in {read.dtype, formats.activations}:
            return tensor
        narrow = Quantize().output_dtype((), formats)
        if (tensor, narrow) not in self._narrowed:
            first = not any(quantized == tensor for quantized, _ in self._narrowed)
            copy = f"{tensor}.quant" if first else f"{tensor}.quant.{narrow}"
            self._add(copy, "quantize", Quantize(), (tensor,), (copy,), near=name)
            self._narrowed[tensor, narrow] = copy
        return self._narrowed[tensor, narrow]

    def _add(
        self,
        name: str,
        op_name: str,
        op: Operator,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
        *,
        near: str | None = None,
        composite: str | None = None,
    ) -> None:
        parts, formats = op.parts(), self._formats(near or name)
        tensors = tuple(self._tensors[tensor] for tensor in inputs)
        shapes = op.shapes(tuple(tensor.shape for tensor in tensors))
        if len(shapes) != len(outputs):
            raise ValueError(
                f"'{op_name}' writes {len(shapes)} tensors, but {len(outputs)} are named"
            )
        if parts:
            self._expand(name, op_name, op, inputs, outputs)
            return
        dtype = op.output_dtype(tensors, formats)
        self._check_free(name, outputs)
        for output, shape in zip(outputs, shapes, strict=True):
            self._tensors[output] = Tensor(output, shape, dtype, op.handles())
        parameters = op.parameters(tuple(tensor.shape for tensor in tensors), formats)
        self._nodes.append(
            Node(
                name,
                op_name,
                op,
                inputs,
                outputs,
                parameters,
                op.matmul_format(formats),
                composite,
                formats,
                self._origin(near or composite or name.split(".", maxsplit=1)[0]),
            )
        )

    def _check_free(self, name: str, outputs: tuple[str, ...]) -> None:
        """Refuse a name that the planner gave to something it added, as in ``attention.scores``."""
        taken = [tensor for tensor in outputs if tensor in self._tensors]
        if name in {node.id for node in self._nodes}:
            taken.append(name)
        if taken:
            raise ValueError(f"the name '{taken[0]}' is given to two things; rename yours")

    def _expand(
        self,
        name: str,
        op_name: str,
        op: Operator,
        inputs: tuple[str, ...],
        outputs: tuple[str, ...],
    ) -> None:
        parts = op.parts()
        for position, part in enumerate(parts):
            read = tuple(
                inputs[source] if isinstance(source, int) else f"{name}.{source}"
                for source in part.inputs
            )
            last = position == len(parts) - 1
            written = outputs if last else (f"{name}.{part.name}",)
            own = f"{name}.{part.name}"
            kind = part.kind or f"{op_name}.{part.name}"
            composite: str | None = name
            if not op.one_kernel:
                composite = own.rpartition(".")[0] if "." in part.name else None
            self._add(own, kind, part.op, read, written, near=name, composite=composite)

    @property
    def _whole(self) -> bool:
        return self.layout.tensor == self.layout.experts == 1

    def _check_declared(self) -> None:
        for name, sides in self.spec.shapes.items():
            origin = self.spec.origin.at("shapes", name)
            tensor = self._tensors.get(name)
            if tensor is None:
                guess = nearest(name, self._tensors)
                hint = f"did you mean '{guess}'?" if guess else None
                self.faults.append(origin.fault(f"no tensor is named '{name}'", hint, key=True))
                continue
            before = len(self.faults)
            declared = shape_of(sides, self.names, origin, self.faults)
            if len(self.faults) == before and declared != tensor.shape and self._whole:
                self.faults.append(
                    origin.fault(
                        f"'{name}' is declared {show_shape(declared)}, but its producer writes "
                        f"{show_shape(tensor.shape)}"
                    )
                )


def _as_networkx(nodes: list[Node], tensors: dict[str, Tensor]) -> nx.MultiDiGraph[str]:
    graph: nx.MultiDiGraph[str] = nx.MultiDiGraph()
    producers: dict[str, str] = {}
    for node in nodes:
        graph.add_node(node.id, node=node)
        for name in node.inputs:
            if name in producers:
                graph.add_edge(producers[name], node.id, key=name, tensor=tensors[name])
        producers |= dict.fromkeys(node.outputs, node.id)
    return graph
