"""What a streaming kernel walks row by row."""

from __future__ import annotations

from collections.abc import Iterable

from planner.graph.types import Node
from planner.ops.attention import KvCacheWrite
from planner.ops.indexer import IndexCacheWrite
from planner.ops.mla import MlaCacheWrite
from planner.ops.recurrent import Stateful
from planner.ops.types import Site


def rows(nodes: Iterable[tuple[Node, Site]]) -> float:
    """Rows of the first node's input or output, whichever has more; of a state, its pieces.

    A look-up reads one list of ids and writes a row for each; sampling reads rows and writes ids.
    """
    listed = list(nodes)
    node, site = listed[0]
    if isinstance(node.op, KvCacheWrite | MlaCacheWrite | IndexCacheWrite):
        return float(site.load.tokens)
    shapes = [site.inputs[0].shape, *(tensor.shape for tensor in site.outputs)]
    counts = [float(site.load.elements(shape[:-1])) for shape in shapes]
    counts += [float(n.op.pieces(s)) for n, s in listed if isinstance(n.op, Stateful)]
    return max(counts)
