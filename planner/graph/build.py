"""From a model spec to its graph on one rank: names resolved, operators made, blocks wired."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import groupby

from planner.errors import Fault, SpecError
from planner.graph.emit import Emitter
from planner.graph.modules import FormatsError, Modules, Scheme
from planner.graph.names import Names, model_names, shape_of
from planner.graph.order import ordered
from planner.graph.sequence import with_rows_of
from planner.graph.types import Block, ModelGraph, Run
from planner.ops.types import ExpertLayout, Formats, Tensor, show_shape
from planner.spec.origin import Origin
from planner.spec.types import BlockCycle, BlockSpec, BlockUse, EncoderSpec, ModelSpec

IDS_DTYPE = "fp32"
"""Width of token ids: engines pass 32-bit integers."""


def model_graph(
    model: ModelSpec,
    blocks: Mapping[str, BlockSpec],
    formats: Formats | Scheme,
    ranks: int = 1,
    layout: ExpertLayout | None = None,
) -> ModelGraph:
    """Build the graph of a model on one of ``ranks`` tensor-parallel ranks, or of a ``layout``.

    The graph of its encoder, if it has one, hangs on it.

    ``blocks`` are all that its sequence names (``planner.spec.question.blocks_of``). ``formats``
    are those of all nodes, or a scheme that knows each node's.

    Raises SpecError with every fault found in the model or its blocks, and FormatsError for rules
    of the scheme that mean nothing in the model and for formats that the engine does not run.
    """
    layout = layout or ExpertLayout(ranks)
    modules = Modules(Scheme(formats) if isinstance(formats, Formats) else formats)
    builder = _built(model, blocks, modules, layout)
    graph, encoder = builder.graph, model.encoder
    if encoder is not None:
        taken = frozenset(block.label for block in graph.kinds)
        alone = replace(layout, sequence=False)
        tower = _built(tower_of(model, encoder), blocks, modules, alone, taken).graph
        tokens, items = encoder.tokens, encoder.items
        graph = replace(graph, encoder=tower, encoder_tokens=tokens, encoder_items=items)
    if refused := dict.fromkeys(modules.faults(builder.layers)):
        raise FormatsError(refused)
    return graph


def _built(
    model: ModelSpec,
    blocks: Mapping[str, BlockSpec],
    modules: Modules,
    layout: ExpertLayout,
    taken: frozenset[str] = frozenset(),
) -> _Builder:
    builder = _Builder(model, blocks, modules, layout, model_names(model), taken)
    builder.run()
    if builder.faults:
        raise SpecError(dict.fromkeys(builder.faults))
    return builder


def tower_of(model: ModelSpec, encoder: EncoderSpec) -> ModelSpec:
    """A model's encoder as a model of its own: its dims and options ahead of the model's."""
    made = model.model_copy(
        update={
            "dims": {**model.dims, **encoder.dims},
            "options": {**model.options, **encoder.options},
            "inputs": encoder.inputs,
            "sequence": encoder.sequence,
            "encoder": None,
        }
    )
    made.remember(encoder.origin)
    return made


def told(error: SpecError, model: ModelSpec) -> SpecError:
    """The same faults at the model, whose sizes do not suit blocks that stand in other files."""
    place = model.origin
    inside = {place.document.file, Origin.unknown().document.file}
    faults = []
    for fault in error.faults:
        if fault.where.file in inside:
            faults.append(fault)
        else:
            message = f"{model.title} does not build: {fault.message}"
            faults.append(place.fault(message, f"at {fault.where}"))
    return SpecError(dict.fromkeys(faults))


@dataclass
class _Builder:
    """Walks the sequence once, building each kind of block where it first occurs."""

    model: ModelSpec
    blocks: Mapping[str, BlockSpec]
    modules: Modules
    layout: ExpertLayout
    names: Names
    taken: frozenset[str] = frozenset()
    """Labels of blocks built before, which these must not bear."""

    @property
    def formats(self) -> Formats:
        return self.modules.scheme.formats

    @property
    def graph(self) -> ModelGraph:
        """What was built."""
        kinds, runs = tuple(self.kinds), _merged(self.runs)
        ranks, context = self.layout.tensor, self.layout.context
        return ModelGraph(self.model.name, kinds, runs, self.formats, ranks, context=context)

    def run(self) -> None:
        self.faults: list[Fault] = []
        self.kinds: list[Block] = []
        self.runs: list[Run] = []
        self._built: dict[object, int] = {}
        self.layers = 0
        incoming = self._model_inputs()
        for use, origin in _uses(self.model):
            for times, layered in self._stretches(use, origin, incoming):
                kind = self._kind(use, origin, incoming, layered)
                if kind is None:
                    return
                self.runs.append(Run(kind, times))
                block = self.kinds[kind]
                outgoing = tuple(block.tensors[name] for name in block.outputs)
                if use.times > 1:
                    self._check_fit(block, outgoing, origin, "itself")
                incoming = outgoing

    def _stretches(
        self, use: BlockUse, origin: Origin, incoming: tuple[Tensor, ...]
    ) -> Iterator[tuple[int, tuple[int, ...]]]:
        """How often a block runs, cut where other rules for layers begin to hold."""
        scheme = self.modules.scheme
        if not (scheme.by_layer and self._is_layer(use, origin, incoming)):
            yield use.times, ()
            return
        first, self.layers = self.layers, self.layers + use.times
        numbers = range(first, self.layers)
        for layered, group in groupby(numbers, key=scheme.layered):
            yield len(tuple(group)), layered

    def _is_layer(self, use: BlockUse, origin: Origin, incoming: tuple[Tensor, ...]) -> bool:
        """A layer hands on what it takes: tensors of the same shapes."""
        block = self._block(self.blocks[use.block], use, origin, incoming, ())
        if block is None:
            return False
        taken = [block.tensors[name].shape for name in block.inputs]
        return taken == [block.tensors[name].shape for name in block.outputs]

    def _model_inputs(self) -> tuple[Tensor, ...]:
        tensors = []
        for name, sides in self.model.inputs.items():
            shape = shape_of(sides, self.names, self.model.origin.at("inputs", name), self.faults)
            dtype = IDS_DTYPE if len(shape) == 1 else self.formats.activations
            tensors.append(Tensor(name, shape, dtype))
        return tuple(tensors)

    def _kind(
        self,
        use: BlockUse,
        origin: Origin,
        incoming: tuple[Tensor, ...],
        layered: tuple[int, ...],
    ) -> int | None:
        key = (use.block, use.label, tuple(sorted(use.given.items(), key=str)), layered)
        if key not in self._built:
            block = self._block(self.blocks[use.block], use, origin, incoming, layered)
            if block is None:
                return None
            self._built[key] = len(self.kinds)
            self.kinds.append(block)
        kind = self._built[key]
        fits = self._check_fit(self.kinds[kind], incoming, origin, "the block before it")
        return kind if fits else None

    def _block(
        self,
        spec: BlockSpec,
        use: BlockUse,
        origin: Origin,
        incoming: tuple[Tensor, ...],
        layered: tuple[int, ...],
    ) -> Block | None:
        before = len(self.faults)
        names = self.names.within(spec, use, origin, self.faults)
        nodes = ordered(spec, self.faults)
        if len(self.faults) > before:
            return None
        dtypes = [tensor.dtype for tensor in incoming]
        dtypes += [self.formats.activations] * len(spec.inputs)
        inputs = tuple(
            Tensor(name, shape_of(sides, names, spec.origin.at("inputs", name), self.faults), dtype)
            for (name, sides), dtype in zip(spec.inputs.items(), dtypes, strict=False)
        )
        if self.layout.sequence and len(inputs) == len(incoming):
            inputs = tuple(map(with_rows_of, inputs, incoming))
        label = use.label or spec.name
        choose = partial(self.modules.at, label, layered)
        emitter = Emitter(spec, names, inputs, self.formats, self.layout, self.faults, choose)
        return emitter.block(self._label(label), nodes)

    def _label(self, wanted: str) -> str:
        """The label, numbered where another kind has it: kinds are told apart by label."""
        taken = {block.label for block in self.kinds} | self.taken
        label, number = wanted, 2
        while label in taken:
            label, number = f"{wanted}-{number}", number + 1
        return label

    def _check_fit(
        self, block: Block, incoming: tuple[Tensor, ...], origin: Origin, before: str
    ) -> bool:
        wanted = tuple(block.tensors[name] for name in block.inputs)
        place = origin.at("block")
        if len(wanted) != len(incoming):
            self.faults.append(
                place.fault(
                    f"block '{block.label}' takes {len(wanted)} tensors, but {before} hands over "
                    f"{len(incoming)}"
                )
            )
            return False
        for want, have in zip(wanted, incoming, strict=True):
            if want.shape != have.shape:
                self.faults.append(
                    place.fault(
                        f"block '{block.label}' takes '{want.name}' as {show_shape(want.shape)}, "
                        f"but {before} hands over '{have.name}' as {show_shape(have.shape)}"
                    )
                )
                return False
        return True


def _uses(model: ModelSpec) -> Iterator[tuple[BlockUse, Origin]]:
    for position, item in enumerate(model.sequence):
        origin = model.origin.at("sequence", position)
        if isinstance(item, BlockCycle):
            for _ in range(item.repeat):
                for inner, use in enumerate(item.blocks):
                    yield use, origin.at("blocks", inner)
        else:
            yield item, origin


def _merged(runs: list[Run]) -> tuple[Run, ...]:
    merged: list[Run] = []
    for run in runs:
        if merged and merged[-1].kind == run.kind:
            merged[-1] = Run(run.kind, merged[-1].times + run.times)
        else:
            merged.append(run)
    return tuple(merged)
