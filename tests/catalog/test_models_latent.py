"""Models with latent attention: totals, caches and shapes by hand."""

import functools

import pytest

from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
FP8_CACHE = Formats("fp8", "fp8", "bf16", "fp8")

V3_ATTENTION = (
    7168 * 1536 + 1536 + 1536 * 128 * 192  # q_a_proj, its norm, q_b_proj
    + 7168 * 576 + 512 + 512 * 128 * 256  # kv_a_proj_with_mqa, its norm, kv_b_proj
    + 128 * 128 * 7168 + 2 * 7168  # o_proj, the layer's two norms
)  # fmt: skip
V3_EXPERT = 3 * 7168 * 2048
V3_MOE = 257 * V3_EXPERT + 7168 * 256 + 256  # a shared one; the router and its 256 corrections
INDEXER = 1536 * 64 * 128 + 7168 * 128 + 2 * 128 + 7168 * 64


@functools.cache
def graph_of(name: str, formats: Formats = BF16, ranks: int = 1) -> ModelGraph:
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), formats, ranks)


def sequence(name: str) -> list[tuple[str, int]]:
    graph = graph_of(name)
    return [(graph.kinds[run.kind].label, run.times) for run in graph.sequence][1:-1]


# --- parameters --------------------------------------------------------------------------------


def test_deepseek_v3_is_3_dense_and_58_sparse_layers():
    """671,026,404,352 without the routers' corrections, as it is often counted."""
    dense = V3_ATTENTION + 3 * 7168 * 18_432
    total = 3 * dense + 58 * (V3_ATTENTION + V3_MOE) + 2 * 129_280 * 7168 + 7168
    assert total - 58 * 256 == 671_026_404_352
    for name in ("deepseek-v3", "deepseek-r1", "deepseek-v3.1"):
        assert totals.parameters(graph_of(name)) == total
        assert sequence(name) == [("dense", 3), ("layer", 58)]


def test_main_model_and_mtp_module_are_the_checkpoint():
    """684,531,386,000 numbers, 41,540,496 of them scales of FP8 blocks."""
    whole = totals.parameters(graph_of("deepseek-v3"))
    module = totals.parameters(graph_of("deepseek-v3-mtp"))
    assert whole + module == 684_531_386_000 - 41_540_496
    # its own: a layer, the joint projection, three norms; embedding and head are the main model's
    own = V3_ATTENTION + V3_MOE + 2 * 7168 * 7168 + 3 * 7168
    assert module == own + 2 * 129_280 * 7168


def test_the_indexer_of_v32_adds_14_million_a_layer():
    """61 of the main model and one of the MTP module make up the published 685,355,329,792."""
    assert INDEXER == 13_959_424
    v3, v32 = (totals.parameters(graph_of(name)) for name in ("deepseek-v3", "deepseek-v3.2"))
    assert v32 - v3 == 61 * INDEXER
    module = totals.parameters(graph_of("deepseek-v3-mtp")) + INDEXER
    assert v32 + module == 685_355_329_792


def test_v2_lite_has_full_rank_queries_and_two_shared_experts():
    """q_lora_rank is null: a plain q_proj; the shared experts are one MLP of 2 · 1,408."""
    graph = graph_of("deepseek-v2-lite")
    names = {node.id for block in graph.kinds for node in block.nodes}
    assert "q_proj" in names
    assert "q_a_proj" not in names
    attention = 2048 * 16 * 192 + 2048 * 576 + 512 + 512 * 16 * 256 + 16 * 128 * 2048 + 2 * 2048
    dense = attention + 3 * 2048 * 10_944
    sparse = attention + (64 + 2) * 3 * 2048 * 1408 + 2048 * 64
    total = dense + 26 * sparse + 2 * 102_400 * 2048 + 2048
    assert total == 15_706_484_224 == totals.parameters(graph)


def test_kimi_k2_has_half_the_heads_and_half_as_many_experts_again():
    attention = (
        7168 * 1536 + 1536 + 1536 * 64 * 192 + 7168 * 576 + 512 + 512 * 64 * 256
        + 64 * 128 * 7168 + 2 * 7168
    )  # fmt: skip
    dense = attention + 3 * 7168 * 18_432
    sparse = attention + 385 * V3_EXPERT + 7168 * 384 + 384
    total = dense + 60 * sparse + 2 * 163_840 * 7168 + 7168
    assert total == 1_026_408_232_448
    for name in ("kimi-k2-instruct", "kimi-k2-thinking", "kimi-k2.5"):
        assert totals.parameters(graph_of(name).alone) == total


def test_glm_5_and_its_mtp_layer_are_the_checkpoint():
    """753,864,139,008: the MTP layer shares embedding and head, and brings an indexer too."""
    attention = (
        6144 * 2048 + 2048 + 2048 * 64 * 256 + 6144 * 576 + 512 + 512 * 64 * 448
        + 64 * 256 * 6144 + 2 * 6144
    )  # fmt: skip
    indexer = 2048 * 32 * 128 + 6144 * 128 + 2 * 128 + 6144 * 32
    layer = attention + indexer + 257 * 3 * 6144 * 2048 + 6144 * 256 + 256
    total = 3 * (attention + indexer + 3 * 6144 * 12_288) + 75 * layer + 2 * 154_880 * 6144 + 6144
    assert totals.parameters(graph_of("glm-5")) == total
    assert total + layer + 2 * 6144 * 6144 + 3 * 6144 == 753_864_139_008


@pytest.mark.parametrize(
    ("name", "left_out"),
    [
        # tables that the publisher leaves out of active parameters, and the hidden size
        ("deepseek-v2", 1),
        ("deepseek-v2-lite", 1),
        ("deepseek-v3", 1),
        ("deepseek-v3.2", 1),
        ("kimi-k2-instruct", 1),
        ("glm-5", 2),
        ("glm-4.7-flash", 2),
    ],
)
def test_active_parameters_are_those_published(name, left_out):
    """Within the rounding: 37B is 36.6B, and 2.4B is 2.45B, so half of the last digit and a bit."""
    model = CATALOG.find("model", name)
    assert model.published is not None
    published = model.published.active_parameters
    table = int(model.dims["vocab"]) * int(model.dims["hidden"])
    found = totals.active_parameters(graph_of(name)) - left_out * table
    digit = 10**8 if published < 3e9 and published % 10**9 else 10**9
    assert abs(found - published) <= 0.52 * digit


# --- cache -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # layers × (latent and rotated key) × 2 bytes, and 132 bytes of an index key
        ("deepseek-v3", 61 * 576 * 2),
        ("deepseek-r1", 61 * 576 * 2),
        ("deepseek-v2", 60 * 576 * 2),
        ("deepseek-v2-lite", 27 * 576 * 2),
        ("deepseek-v3-mtp", 576 * 2),
        ("kimi-k2.5", 61 * 576 * 2),
        ("glm-4.7-flash", 47 * 576 * 2),
        ("minicpm3-4b", 62 * 288 * 2),
        ("deepseek-v3.2", 61 * (576 * 2 + 132)),
        ("glm-5", 78 * (576 * 2 + 132)),
    ],
)
@pytest.mark.parametrize("ranks", [1, 4])
def test_kv_bytes_of_a_token_on_every_rank(name, by_hand, ranks):
    """70,272 for DeepSeek-V3: not divided by tensor parallelism."""
    assert totals.kv_bytes_per_token(graph_of(name, BF16, ranks)) == by_hand


def test_sparse_models_cache_656_bytes_and_an_index_key_in_fp8():
    assert totals.kv_bytes_per_token(graph_of("deepseek-v3.2", FP8_CACHE)) == 61 * (656 + 132)
    assert totals.kv_bytes_per_token(graph_of("deepseek-v3", FP8_CACHE)) == 61 * 576


def test_kv_of_a_full_context_is_gibibytes_and_not_hundreds():
    """Public estimates that took 64 KV heads for granted: GLM-5 at 202,752, Kimi K2.5 at 262,144."""
    kimi = totals.kv_bytes(graph_of("kimi-k2.5"), 262_144) / 2**30
    assert kimi == pytest.approx(17.16, abs=0.01)
    latents = 78 * 576 * 2 * 202_752 / 2**30
    assert latents == pytest.approx(16.97, abs=0.01)
    indices = 78 * 132 * 202_752 / 2**30
    assert totals.kv_bytes(graph_of("glm-5"), 202_752) / 2**30 == pytest.approx(latents + indices)


def test_heads_are_shared_out_over_eight_ranks():
    """16 heads of 192 and 256 features; the projections to both latents stay whole."""
    (layer,) = (b for b in graph_of("deepseek-v3", BF16, 8).kinds if b.label == "layer")
    assert layer.by_id["q_b_proj"].op.features == 16 * 192
    assert layer.by_id["kv_b_proj"].op.features == 16 * 256
    assert layer.by_id["q_a_proj"].op.features == 1536
    assert layer.by_id["kv_a_proj_with_mqa"].op.features == 576
    sums = [node.id for node in layer.nodes if node.op_name == "all_reduce"]
    assert sums == ["o_proj.all_reduce", "experts_sum.all_reduce"]
