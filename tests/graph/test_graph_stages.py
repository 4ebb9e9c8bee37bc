"""Pipeline stages: where layers go, what is sent, and that nothing is lost."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from planner.graph.build import model_graph
from planner.graph.stages import (
    layer_count,
    layer_counts,
    pipelined,
    stage_graphs,
)
from planner.graph.totals import kv_bytes_per_token, parameters
from planner.ops.collective import Send
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

BF16 = Formats("bf16", "bf16", "bf16", "bf16")


def graph_of(name):
    catalog = Catalog.standard()
    model = catalog.find("model", name)
    return model_graph(model, blocks_of(model, catalog), BF16)


@pytest.mark.parametrize(
    ("layers", "stages", "expected"),
    [
        (32, 4, (8, 8, 8, 8)),
        (61, 2, (31, 30)),  # as vLLM's documentation has it
        (61, 4, (15, 15, 16, 15)),  # likewise
        (30, 4, (7, 8, 8, 7)),
        (31, 4, (8, 8, 8, 7)),
        (5, 5, (1, 1, 1, 1, 1)),
    ],
)
def test_layers_that_do_not_divide_go_ahead_of_the_last_stage(layers, stages, expected):
    assert layer_counts(layers, stages) == expected


@given(st.integers(1, 200), st.integers(1, 64))
def test_stages_hold_all_layers_evenly_and_the_last_one_never_more(layers, stages):
    if stages > layers:
        with pytest.raises(ValueError, match="do not fill"):
            layer_counts(layers, stages)
        return
    counts = layer_counts(layers, stages)
    assert sum(counts) == layers
    assert max(counts) - min(counts) <= 1
    assert counts[-1] == min(counts)


@pytest.mark.parametrize("stages", [1, 2, 3, 4])
@pytest.mark.parametrize("name", ["llama-3.1-8b-instruct", "gemma-2-9b-it", "falcon-7b"])
def test_stages_together_are_the_model(name, stages):
    """Parameters and KV cache add up; only what ties embedding and head together is held twice."""
    graph = graph_of(name)
    parts = stage_graphs(graph, stages)
    assert len(parts) == stages
    assert sum(map(layer_count, parts)) == layer_count(graph)
    assert sum(map(kv_bytes_per_token, parts)) == kv_bytes_per_token(graph)
    assert sum(map(parameters, parts)) == parameters(graph)
    piped = pipelined(graph, stages)
    assert parameters(piped) == parameters(graph)
    sends = [
        node
        for run in piped.sequence
        for node in piped.kinds[run.kind].nodes
        if isinstance(node.op, Send)
    ]
    assert len(sends) == stages - 1


def test_a_send_moves_hidden_states_and_residual():
    """Llama-3.1-8B: 4096 hidden of 2 bytes, twice, for each of 8 tokens."""
    piped = pipelined(graph_of("llama-3.1-8b-instruct"), 2)
    border = piped.kinds[-1]
    load = Load((SequenceGroup(8, 1, 100),))
    (node,) = border.nodes
    work = node.op.work(border.site(node, load))
    assert work.link_bytes == 2 * 4096 * 2 * 8
