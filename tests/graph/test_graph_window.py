"""A block and the next as one graph: who reads what, what escapes, and which sets are convex."""

import networkx as nx
from graph_samples import BF16, PIPE, TINY, block, changed, graph
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.types import Block, Node
from planner.graph.window import Window
from planner.ops.pointwise import Quantize
from planner.ops.types import Tensor, as_dim

TWO_IN_TWO_OUT = changed(
    PIPE,
    ("inputs: {x: [batch, hidden]}\nsequence", "inputs: {x: [batch, hidden], r: [batch, hidden]}\nsequence"),
    ("    inputs: {x: [batch, hidden]}\n    nodes", "    inputs: {x: [batch, hidden], r: [batch, hidden]}\n    nodes"),
    ("three: {op: add, in: [x, b], out: y}", "three: {op: add, in: [r, b], out: y}"),
    ("outputs: [y]", "outputs: [b, y]"),
)  # fmt: skip


@st.composite
def windows(draw) -> Window:
    """One or two blocks of random wiring, the second fed by the first."""
    blocks = [_block(draw, f"{label}") for label in "ab"[: draw(st.integers(1, 2))]]
    return Window(*blocks)


def _block(draw, label: str) -> Block:
    names = ["in"]
    nodes = []
    for number in range(draw(st.integers(1, 6))):
        inputs = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        names.append(f"{label}{number}")
        nodes.append(
            Node(names[-1], "quantize", Quantize(), tuple(inputs), (names[-1],), (), "bf16")
        )
    tensors = {name: Tensor(name, (as_dim(1),), "bf16") for name in names}
    graph = nx.MultiDiGraph()
    return Block(label, tuple(nodes), tensors, ("in",), (names[-1],), graph, BF16)


def unrolled(window: Window) -> nx.DiGraph:
    """The window's nodes with an edge from each producer to each reader, found by plain loops."""
    graph = nx.DiGraph()
    written = {}
    for offset, found in enumerate([window.block, window.following]):
        if found is None:
            continue
        before = dict(written)
        for node in found.nodes:
            key = (offset, node.id)
            graph.add_node(key)
            for name in node.inputs:
                source = (
                    before.get(window.block.outputs[0])
                    if offset and name == "in"
                    else written.get(name)
                )
                if source:
                    graph.add_edge(source, key)
            written[node.id] = key
    return graph


@given(windows(), st.data())
def test_a_set_is_convex_when_no_path_leaves_it_and_comes_back(window, data):
    graph = unrolled(window)
    chosen = frozenset(data.draw(st.sets(st.sampled_from(window.keys), min_size=1)))
    outside = set(window.keys) - chosen
    brute = not any(
        any(nx.has_path(graph, start, key) for start in chosen)
        and any(nx.has_path(graph, key, end) for end in chosen)
        for key in outside
    )
    assert window.is_convex(chosen) == brute


@given(windows())
def test_ancestors_and_predecessors_are_those_of_the_unrolled_graph(window):
    graph = unrolled(window)
    assert set(window.keys) == set(graph.nodes)
    for key in window.keys:
        assert window.predecessors[key] == set(graph.predecessors(key))
        assert window.ancestors[key] == nx.ancestors(graph, key)


@given(windows())
def test_every_tensor_of_the_window_is_read_or_escapes(window):
    for tensor, producer in window.producer.items():
        assert producer in window.keys
        assert tensor in window.escaping or window.readers[tensor]
    last = window.following or window.block
    assert (window.keys[-1][0], last.outputs[0]) in window.escaping


def test_the_next_blocks_inputs_go_by_this_blocks_outputs():
    layer = block(TINY, "layer")
    window = Window(layer, layer)
    assert window.inputs((0, "norm")) == ((0, "x"),)
    assert window.inputs((1, "norm")) == ((0, "y"),)
    assert window.producer[0, "y"] == (0, "mlp_residual")
    assert window.readers[0, "y"] == ((1, "norm"), (1, "residual"))
    assert (0, "x") not in window.producer


def test_inputs_and_outputs_pair_up_in_their_order():
    step = block(TWO_IN_TWO_OUT, "step")
    window = Window(step, step)
    # outputs [b, y] become inputs x and r of the next.
    assert window.readers[0, "b"] == ((0, "three"), (1, "one"))
    assert window.readers[0, "y"] == ((1, "three"),)
    assert window.escaping == {(1, "b"), (1, "y")}


def test_what_leaves_a_block_escapes_only_where_nothing_follows():
    layer = block(TINY, "layer")
    assert Window(layer).escaping == {(0, "y")}
    assert Window(layer, layer).escaping == {(1, "y")}


def test_a_result_that_nobody_reads_escapes_too():
    text = changed(PIPE, ("outputs: [y]", "outputs: [b]"))
    assert Window(block(text, "step")).escaping == {(0, "y"), (0, "b")}


def test_a_residual_add_and_the_next_norm_are_convex_across_the_seam():
    layer = block(TINY, "layer")
    window = Window(layer, layer)
    assert window.is_convex(frozenset({(0, "mlp_residual"), (1, "norm")}))
    assert not window.is_convex(frozenset({(0, "residual"), (0, "mlp_residual")}))
    assert not window.is_convex(frozenset({(0, "norm"), (1, "norm")}))


def test_windows_are_needed_for_every_pair_that_occurs():
    found = graph(TINY)
    assert found.pairs == ((0, 1), (1, 1), (1, 2), (2, None))
