"""Gemma 4: two kinds of heads, keys that are values, experts beside a dense MLP; by hand."""

import functools

import pytest

from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")


@functools.cache
def graph_of(name: str, ranks: int = 1) -> ModelGraph:
    """The graph of a catalogue model in bf16."""
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), BF16, ranks)


def attention(hidden: int, heads: int, kv_heads: int, head_dim: int, kv_matrices: int) -> int:
    """Projections, and norms of a head of Q and K; V's norm has no weights."""
    return hidden * head_dim * (2 * heads + kv_matrices * kv_heads) + 2 * head_dim


def test_12b_by_hand():
    """40 layers of 8 KV heads of 256; 8 of one of 512, whose V is their K; four norms each.

    Short of llama.cpp's 11,907,350,576 by 256 frequencies and 48 factors of layers.
    """
    local = attention(3840, 16, 8, 256, 2)
    whole = attention(3840, 16, 1, 512, 1)
    mlp = 3 * 3840 * 15360 + 4 * 3840
    total = 40 * (local + mlp) + 8 * (whole + mlp) + 262144 * 3840 + 3840
    assert totals.parameters(graph_of("gemma-4-12b-it")) == total == 11_907_350_576 - 256 - 48


def test_26b_a4b_by_hand():
    """Seven norms a layer, one more in front of the router; 8 of 128 experts of 704.

    Short of the safetensors' 25,805,936,206 by 30 factors of layers, once the tower is there.
    """
    local = attention(2816, 16, 8, 256, 2)
    whole = attention(2816, 16, 2, 512, 1)
    expert = 3 * 2816 * 704
    rest = 3 * 2816 * 2112 + 2816 * 128 + 128 + 8 * 2816
    total = 25 * local + 5 * whole + 30 * (rest + 128 * expert) + 262144 * 2816 + 2816
    graph = graph_of("gemma-4-26b-a4b-it")
    assert totals.parameters(graph.alone) == total == 25_233_142_046 - 256 - 30
    assert totals.parameters(graph) == 25_805_936_206 - 30
    active = total - 30 * 120 * expert
    assert totals.active_parameters(graph) == active


def test_31b_with_its_tower_is_the_checkpoint():
    """Short of the safetensors' 31,273,088,876 by 60 factors of layers; of llama.cpp's count of
    the text model by them and 256 frequencies.
    """
    graph = graph_of("gemma-4-31b-it")
    assert totals.parameters(graph) == 31_273_088_876 - 60
    assert totals.parameters(graph.alone) == 30_697_345_596 - 256 - 60


@pytest.mark.parametrize(
    ("name", "local", "whole"),
    [
        # layers × (K and V) × KV heads × head_dim × 2 bytes
        ("gemma-4-12b-it", 40 * 2 * 8 * 256 * 2, 8 * 2 * 1 * 512 * 2),
        ("gemma-4-26b-a4b-it", 25 * 2 * 8 * 256 * 2, 5 * 2 * 2 * 512 * 2),
        ("gemma-4-31b-it", 50 * 2 * 16 * 256 * 2, 10 * 2 * 4 * 512 * 2),
    ],
)
def test_keys_and_values_are_both_kept_and_windows_stop_at_1024(name, local, whole):
    """Values are the keys before norm and rotation, so that one cache cannot stand for both."""
    graph = graph_of(name)
    assert totals.kv_bytes_per_token(graph) == local + whole
    assert totals.kv_bytes(graph, 100_000) == 1024 * local + 100_000 * whole


def test_a_single_kv_head_is_kept_on_every_rank():
    """Two ranks halve the local layers' KV, and keep the one global head of 12B twice."""
    graph = graph_of("gemma-4-12b-it", 2)
    assert totals.kv_bytes_per_token(graph) == 40 * 2 * 4 * 256 * 2 + 8 * 2 * 512 * 2
