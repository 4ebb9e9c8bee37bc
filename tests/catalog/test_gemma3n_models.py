"""Gemma 3n: streams of AltUp, embeddings of each layer, caches that layers share; by hand."""

import functools

import pytest

from planner.errors import SpecError
from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.program import program
from planner.graph.stages import stage_graphs
from planner.graph.types import Block, ModelGraph
from planner.ops.attention import AttentionScores
from planner.ops.types import ExpertLayout, Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")

HIDDEN, VOCAB, OWN_VOCAB, OWN = 2048, 262_400, 262_144, 256
TOKEN = 2 * 2 * 256 * 2
"""Bytes of a token in one layer: K and V, 2 heads of 256, 2 bytes."""


@functools.cache
def graph_of(name: str, ranks: int = 1) -> ModelGraph:
    """The graph of a catalogue model in bf16."""
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), BF16, ranks)


def kind(graph: ModelGraph, label: str) -> Block:
    """The one kind of block with a label."""
    (block,) = (block for block in graph.kinds if block.label == label)
    return block


def layer(intermediate: int) -> int:
    """Parameters of one layer, whether or not it keeps keys of its own."""
    attention = HIDDEN * 256 * (8 + 2 + 2 + 8) + 2 * 256  # q, k, v, o; norms of Q and K heads
    mlp = 3 * HIDDEN * intermediate
    altup = HIDDEN * 4 + 4 * 16 + 4 * 4 + 2 * HIDDEN  # router, coefficients, its norm, a scale
    laurel = 2 * HIDDEN * 64 + HIDDEN
    own_input = 2 * HIDDEN * OWN + HIDDEN
    return attention + mlp + altup + laurel + own_input + 4 * HIDDEN


def tables(layers: int) -> int:
    """The two tables of embeddings."""
    return VOCAB * HIDDEN + OWN_VOCAB * layers * OWN


def total(layers: int, intermediate: int) -> int:
    """Parameters of the text model: six projections of streams, one of the layers' inputs."""
    around = HIDDEN * layers * OWN + OWN + 6 * HIDDEN * HIDDEN + HIDDEN
    return layers * layer(intermediate) + tables(layers) + around


def sound_and_embedders() -> int:
    """Parameters of the audio tower, and of what brings images and sound to the text's width."""
    width = 1536
    feed_forward = 2 * width * 4 * width + 2 * width
    attention = 5 * width * width + 2 * width + width // 8  # q, k, v, positions, out; a scale
    convolution = width * 2 * width + width * width + 5 * width + 2 * width
    conformer = 12 * (2 * feed_forward + attention + convolution + width)
    stem = 9 * 128 + 128 + 9 * 128 * 32 + 32 + 32 * 32 * width
    embedders = sum(128 * side + 2 * side + side * HIDDEN for side in (2048, width))
    return conformer + stem + embedders


@pytest.mark.parametrize(
    ("name", "layers", "intermediate", "checkpoint"),
    [
        ("gemma-3n-e2b-it", 30, 8192, 5_439_438_272),
        ("gemma-3n-e4b-it", 35, 16384, 7_849_978_192),
    ],
)
def test_the_text_model_is_the_checkpoint_without_its_towers(
    name, layers, intermediate, checkpoint
):
    """What is left of either is MobileNetV5-300M, of which KerasHub counts 294.28 million."""
    graph = graph_of(name)
    assert totals.parameters(graph) == total(layers, intermediate)
    vision = checkpoint - totals.parameters(graph) - sound_and_embedders()
    assert vision == pytest.approx(294.28e6, rel=1e-3)


@pytest.mark.parametrize(
    ("name", "layers", "effective"),
    [("gemma-3n-e2b-it", 30, 1.91e9), ("gemma-3n-e4b-it", 35, 4e9)],
)
def test_the_effective_parameters_are_those_outside_the_tables(name, layers, effective):
    """Google's 1.91 billion of E2B, and about 4 of E4B."""
    assert totals.parameters(graph_of(name)) - tables(layers) == pytest.approx(effective, rel=5e-3)


@pytest.mark.parametrize("name", ["gemma-3n-e2b-it", "gemma-3n-e4b-it"])
def test_twenty_layers_keep_a_cache_and_sixteen_of_them_a_window(name):
    """30 − 10 and 35 − 15 layers own one; every fifth of them keeps all tokens."""
    graph = graph_of(name)
    assert totals.kv_bytes_per_token(graph) == 20 * TOKEN == 40_960
    assert totals.kv_bytes(graph, 32_768) == (16 * 512 + 4 * 32_768) * TOKEN


def test_layers_run_in_the_order_of_the_configuration():
    """Ten sparse layers, ten that keep caches, fifteen that read them; four local, one global."""
    graph = graph_of("gemma-3n-e4b-it")
    found = [(graph.kinds[run.kind].label, run.times) for run in graph.sequence][1:-1]
    of_each = [(name, 2 if name != "shared" else 3) for name in ("sparse", "", "shared")]
    wanted = []
    for name, cycles in of_each:
        start = f"{name}-" if name else ""
        wanted += [(f"{start}local", 4), (f"{start}global", 1)] * cycles
    assert found == wanted


def test_a_layer_that_shares_reads_as_much_and_writes_nothing():
    """1000 cached tokens: 512 of a local layer, 1000 of a global one, each half for K and for V."""
    graph = graph_of("gemma-3n-e2b-it")
    load = Load((SequenceGroup(1, 1, 1000),))
    for label, tokens in (("shared-local", 512), ("shared-global", 1000)):
        block = kind(graph, label)
        works = [node.op.work(block.site(node, load)) for node in block.nodes]
        assert sum(work.cache_read_bytes for work in works) == tokens * TOKEN
        assert sum(work.cache_write_bytes for work in works) == 0
    owner = kind(graph, "local")
    writes = [node.op.work(owner.site(node, load)).cache_write_bytes for node in owner.nodes]
    assert sum(writes) == TOKEN


def test_the_work_of_altup_and_of_a_sparse_gate():
    """For one token: 4 × 4 products and sums over 2048, and 6 FLOPs an element of the gate."""
    block = kind(graph_of("gemma-3n-e2b-it"), "sparse-local")
    load = Load((SequenceGroup(1, 1, 1),))
    flops = {
        name: block.by_id[name].op.work(block.site(block.by_id[name], load)).vector_flops
        for name in ("predict", "correct", "sparsify")
    }
    assert flops == {"predict": 2 * 4 * 4 * 2048, "correct": 4 * 4 * 2048, "sparsify": 6 * 8192}


def test_two_ranks_halve_the_cache_and_keep_the_streams_whole():
    """Each rank has one KV head; AltUp and the layers' own inputs are on both."""
    graph = graph_of("gemma-3n-e2b-it", 2)
    assert totals.kv_bytes_per_token(graph) == 20 * TOKEN / 2
    block = kind(graph, "shared-global")
    assert block.by_id["modality_router"].parameters[0].elements == 2048 * 4
    assert block.by_id["per_layer_gate"].parameters[0].elements == 2048 * 256
    (scores,) = (node.op for node in block.nodes if isinstance(node.op, AttentionScores))
    assert (scores.shape.heads, scores.shape.kv_heads, scores.shape.shared) == (4, 1, True)


def test_shared_caches_are_not_cut_into_stages_or_spread_over_ranks():
    """The cache that is read may be on another stage; the lab names what it can't run."""
    graph = graph_of("gemma-3n-e2b-it")
    with pytest.raises(ValueError, match="another layer's cache"):
        stage_graphs(graph, 2)
    model = CATALOG.find("model", "gemma-3n-e2b-it")
    layout = ExpertLayout(tensor=2, context=2)
    with pytest.raises(SpecError, match="not spread over ranks"):
        model_graph(model, blocks_of(model, CATALOG), BF16, layout=layout)
    blocks = {block["label"]: block["nodes"] for block in program(graph, 1, 100)["blocks"]}
    assert "attention over another layer's cache" in {n["op"] for n in blocks["shared-local"]}
