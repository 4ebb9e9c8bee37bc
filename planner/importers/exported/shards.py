"""How tensor parallelism may cut an imported graph: heads, the middle of an MLP, the vocabulary."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from planner.importers.exported.emission import Made

_BETWEEN = frozenset(["silu", "gelu", "relu", "relu2", "sigmoid", "tanh", "mul", "add", "scale"])
"""Steps from element to element that may stand between two projections of an MLP."""
_HEADED = frozenset({"rope", "scale", "rms_norm", "layer_norm"})


def with_shards(nodes: Sequence[Made], outputs: Iterable[str]) -> list[Made]:
    """The nodes, with ``shard`` where the column and the row of a pair are sure."""
    cutter = _Cutter(list(nodes), set(outputs))
    for position, node in enumerate(nodes):
        if node.op == "attention":
            cutter.heads(position)
    for position, node in enumerate(nodes):
        if node.op == "linear":
            cutter.middle(position)
    cutter.vocabulary()
    return cutter.nodes


class _Cutter:
    def __init__(self, nodes: list[Made], outputs: set[str]) -> None:
        self.nodes, self.outputs = nodes, outputs
        self.makers = {tensor: at for at, node in enumerate(nodes) for tensor in node.outputs}
        self.readers: dict[str, list[int]] = {}
        for at, node in enumerate(nodes):
            for tensor in node.inputs:
                self.readers.setdefault(tensor, []).append(at)

    def _say(self, at: int, **said: object) -> None:
        node = self.nodes[at]
        self.nodes[at] = replace(node, attributes={**node.attributes, **said})

    def _free(self, at: int | None) -> bool:
        return (
            at is not None
            and self.nodes[at].op == "linear"
            and "shard" not in self.nodes[at].attributes
        )

    def heads(self, at: int) -> None:
        """Q, K and V by heads, and the projection behind the attention by its inputs."""
        attention = self.nodes[at]
        operands = list(attention.inputs)
        if attention.attributes.get("cached", True):
            write = self.makers[operands[1]]
            operands = [operands[0], *self.nodes[write].inputs]
        sources = [self._projection(t, attention.attributes["head_dim"]) for t in operands]
        behind = self.readers.get(attention.outputs[0], [])
        if len(behind) != 1 or not all(map(self._free, [*sources, *behind])):
            return
        unit = attention.attributes["head_dim"]
        for source, shard in zip(sources, ("column", "kv", "kv"), strict=True):
            self._say(source or 0, shard=shard, unit=unit)
        self._say(behind[0], shard="row")

    def _projection(self, tensor: str, head_dim: int) -> int | None:
        """The projection that gives one of Q, K and V, behind what runs head by head."""
        while (at := self.makers.get(tensor)) is not None:
            node = self.nodes[at]
            if len(self.readers[tensor]) > 1 or node.op not in _HEADED:
                return at if len(self.readers[tensor]) == 1 else None
            if node.op.endswith("norm") and node.attributes.get("size") != head_dim:
                return None
            tensor = node.inputs[node.outputs.index(tensor)]
        return None

    def middle(self, at: int) -> None:
        """The two ends of an MLP: all that lies between them belongs to one rank."""
        if not self._free(at):
            return
        inside: set[int] = set()
        sources: set[int] = set()
        waiting = [self.nodes[at].inputs[0]]
        while waiting:
            tensor = waiting.pop()
            maker = self.makers.get(tensor)
            if maker is None or tensor in self.outputs:
                return
            node = self.nodes[maker]
            if node.op in _BETWEEN and maker not in inside:
                inside.add(maker)
                waiting += node.inputs
            elif self._free(maker):
                sources.add(maker)
            elif maker not in inside:
                return
        if inside and sources and self._closed(inside | sources, at):
            for source in sources:
                self._say(source, shard="column")
            self._say(at, shard="row")

    def _closed(self, region: set[int], end: int) -> bool:
        tensors = (tensor for at in region for tensor in self.nodes[at].outputs)
        return all(r in region | {end} for tensor in tensors for r in self.readers.get(tensor, ()))

    def vocabulary(self) -> None:
        """Logits over the rows of the first table; further tables stay whole on every rank."""
        tables = [at for at, node in enumerate(self.nodes) if node.op == "embedding"]
        for at in tables[1:]:
            self._say(at, shard=False)
        rows = self.nodes[tables[0]].attributes["rows"] if tables else None
        for at, node in enumerate(self.nodes):
            head = node.attributes.get("features") == rows and set(node.outputs) & self.outputs
            if rows and self._free(at) and head:
                self._say(at, shard="vocab", quantizable=False)
