"""From an exported graph to a model spec: the passes in order, and what they left out."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from planner.errors import UsageError
from planner.importers.exported.activations import join_activations
from planner.importers.exported.attention import join_attention
from planner.importers.exported.emission import Emission
from planner.importers.exported.emit_blocks import EMITTERS
from planner.importers.exported.fused import join_fused
from planner.importers.exported.graph import ALIASES, Graph
from planner.importers.exported.layout import found_layout
from planner.importers.exported.norms import join_norms
from planner.importers.exported.notes import notes_of
from planner.importers.exported.products import join_products
from planner.importers.exported.rope import join_ropes
from planner.importers.exported.shards import with_shards
from planner.importers.exported.spec import Blocks, input_name, sequence_of
from planner.importers.exported.types import Export, Side, Step

_NAMED = 3
"""Steps that a refusal names of each operator."""


_AXES = 12
"""Names of axes that a hint lists."""


@dataclass(frozen=True)
class Options:
    """What no export says."""

    axes: Mapping[str, Side] = field(default_factory=dict)
    """By name of an axis: ``batch``, ``tokens``, or a size."""
    attention: Literal["causal", "both"] | None = None
    """Whether tokens see only earlier ones; by default as the masks tell."""
    last_token: bool = False
    """Whether only the last token of each sequence gets the final product."""


@dataclass(frozen=True)
class Found:
    """A model spec, and what was found out on the way."""

    data: dict[str, Any]
    notes: tuple[str, ...]
    facts: dict[str, Any]


def converted(export: Export, name: str, source: str, options: Options) -> Found:
    """The model spec of an exported graph.

    Raises UsageError with every operator that no node of a plan is for, and for an axis that the
    export does not have.
    """
    _check_axes(export, options.axes)
    emission, outputs, written = emitted(export, source, options)
    blocks, sequence = sequence_of(emission, written)
    data = model_data(emission, blocks, sequence, {"name": name, "title": name, "source": source})
    return Found(data, tuple(notes_of(emission, outputs)), _facts(emission))


def _check_axes(export: Export, axes: Mapping[str, Side]) -> None:
    """Refuse what is said of an axis that no tensor has. Raises UsageError."""
    values = (*(export.values[name] for name in export.inputs if name in export.values),)
    inputs = {side: None for value in values for side in value.sides or () if isinstance(side, str)}
    every = {s for value in export.values.values() for s in value.sides or () if isinstance(s, str)}
    known = every | {word for side in every for word in re.findall(r"[A-Za-z_]\w*", side)}
    for name in axes:
        if name not in known:
            shown = ", ".join(list(inputs)[:_AXES])
            hint = f"its inputs have {shown}" if shown else "all sides of its inputs are numbers"
            raise UsageError(f"--axis {name[:60]}: no axis is called so", hint)


def emitted(
    export: Export, source: str, options: Options
) -> tuple[Emission, list[str], tuple[str, ...]]:
    """The nodes of a plan, the export's outputs, and under which tensors those are known.

    Raises UsageError as `converted` does.
    """
    graph = Graph(export)
    join_products(graph)
    join_norms(graph)
    join_activations(graph)
    join_ropes(graph)
    caches = join_attention(graph) | join_fused(graph)
    _ask(graph, options.attention)
    outputs = _outputs(graph, caches)
    _pair_ropes(graph, _live(graph, outputs))
    if options.last_token:
        outputs = _last_token(graph, outputs)
    emission = Emission(graph, found_layout(graph, options.axes))
    live = _live(graph, outputs)
    emission.run([step for step in graph.ordered() if step.name in live], EMITTERS)
    _refuse(source, emission)
    written = tuple(dict.fromkeys(emission.known(tensor) for tensor in outputs))
    if emission.layout.by_tokens:
        emission.nodes = with_shards(emission.nodes, written)
    return emission, outputs, written


def _ask(graph: Graph, attention: str | None) -> None:
    """Let what the user says of attention hold over what masks tell."""
    if attention is None:
        return
    causal = attention == "causal"
    for step in graph.ordered():
        if step.op == "Attend":
            said = {**step.attributes, "causal": causal, "cached": causal}
            graph.swap([step], replace(step, attributes=said))


def _outputs(graph: Graph, caches: set[str]) -> list[str]:
    """What the model is asked for: not the caches it hands back, nor what follows from sizes."""
    written = {tensor for step in graph.export.steps for tensor in step.outputs}
    for tensor in graph.export.outputs:
        if tensor not in written:
            raise UsageError(f"no node writes the output '{tensor}'")
    held = set(caches)
    for step in graph.ordered():
        if step.op == "Attend":
            held |= set(step.inputs[1:])
    found = [
        tensor
        for tensor in graph.export.outputs
        if graph.is_stream(tensor)
        and tensor not in held
        and graph.source(tensor, ALIASES | {"Expand"}) not in held
    ]
    if not found:
        hint = "all of them are caches, or follow from sizes and weights alone"
        raise UsageError("none of the outputs is computed from the inputs", hint)
    return found


def _live(graph: Graph, outputs: Iterable[str]) -> set[str]:
    """Names of the steps that outputs are computed by."""
    found: set[str] = set()
    waiting = list(outputs)
    while waiting:
        step = graph.maker(waiting.pop())
        if step is not None and step.name not in found:
            found.add(step.name)
            waiting += graph.streams(step)
    return found


def _pair_ropes(graph: Graph, live: set[str]) -> None:
    """One rotation for Q and K of each attention, as engines run it."""
    for step in graph.ordered():
        if step.op != "Attend" or step.name not in live:
            continue
        query, key = (graph.maker(tensor) for tensor in step.inputs[:2])
        if query is None or key is None or query.name == key.name:
            continue
        alike = query.attributes == key.attributes
        alone = all(_read_once(graph, made.outputs[0], live) for made in (query, key))
        if query.op == key.op == "Rope" and alike and alone:
            both = Step(
                "rope", "Rope", (*query.inputs, *key.inputs), (*query.outputs, *key.outputs),
                query.attributes,
            )  # fmt: skip
            graph.swap([query, key], replace(both, name=key.name))


def _read_once(graph: Graph, tensor: str, live: set[str]) -> bool:
    return sum(reader.name in live for reader in graph.readers(tensor)) == 1


def _last_token(graph: Graph, outputs: list[str]) -> list[str]:
    """The last product for the last token of each sequence alone. Raises UsageError without one."""
    ends = []
    for output in outputs:
        tensor = graph.source(output)
        step = graph.maker(tensor)
        if step is None or step.op != "Linear":
            raise UsageError(f"the output '{output}' is no product with weights", "--last-token")
        chosen = f"{step.inputs[0]}.last"
        last = Step(f"{step.name}/select_last", "SelectLast", step.inputs[:1], (chosen,))
        graph.swap([step], last, replace(step, inputs=(chosen, *step.inputs[1:])))
        ends.append(tensor)
    return ends


def _refuse(source: str, emission: Emission) -> None:
    if not emission.refused:
        return
    lines = []
    for what, names in sorted(emission.refused.items(), key=lambda item: -len(item[1])):
        more = ", …" if len(names) > _NAMED else ""
        lines.append(f"  {len(names)} × {what}: {', '.join(names[:_NAMED])}{more}")
    listed = "\n".join(lines)
    raise UsageError(f"{source} has operators that no node of a plan is for:\n{listed}")


def model_data(
    emission: Emission, blocks: Blocks, sequence: list[dict[str, Any]], head: dict[str, Any]
) -> dict[str, Any]:
    """The model spec of nodes that stand in blocks."""
    names = [input_name(tensor) for tensor in emission.inputs]
    if len(set(names)) < len(names):
        names = [*emission.inputs]
    shapes = [list(shape) for shape in emission.inputs.values()]
    data = {"kind": "model", **head, "inputs": dict(zip(names, shapes, strict=True))}
    data["weights"] = _stored(emission)
    if rules := _rules(blocks):
        data["quantization"] = {"modules": rules}
    return {**data, "blocks": blocks.written, "sequence": sequence}


def _stored(emission: Emission) -> str:
    """The format that most of the stored elements have, of those a checkpoint is kept in."""
    elements: Counter[str] = Counter()
    for name, count in emission.taken.items():
        elements[emission.graph.export.weights[name].dtype] += count
    kept = {dtype: n for dtype, n in elements.items() if dtype in {"fp32", "fp16", "bf16"}}
    return max(kept, key=lambda dtype: kept[dtype]) if kept else "fp16"


def _rules(blocks: Blocks) -> list[dict[str, Any]]:
    return [
        {"match": sorted(nodes), "weights": dtype}
        for dtype, nodes in sorted(blocks.formats.items())
    ]


def _facts(emission: Emission) -> dict[str, Any]:
    layout = emission.layout
    rows = {"rows": "tokens of sequences" if layout.by_tokens else "as exported"}
    return {
        "exported_as": emission.graph.export.format,
        "operators": len(emission.graph.export.steps),
        "nodes": len(emission.nodes),
        **rows,
    }
