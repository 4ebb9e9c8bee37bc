"""The ledger of attention: by hand, and against the graph's own bytes."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from planner.cost.annotate import annotate
from planner.cost.kernel import border, kernel_work
from planner.cost.types import device
from planner.errors import UsageError
from planner.graph.build import model_graph
from planner.graph.window import Window
from planner.ops.heads import Heads
from planner.ops.types import Formats, Load, SequenceGroup, Tiling
from planner.plan.attention_ledger import attention_ledger, ledger_row
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
HEADS = Heads(4, 2, 8)


def test_bytes_by_hand():
    """Four query and two key-value heads of 8 in 16 bit; 4 new tokens over 6 keys in tiles of 2.

    Q and O: 2 · 4 · 4 · 8 · 2 = 512. K and V of a token: 2 · 2 · 8 · 2 = 64. Of each of the
    4 · 4 · 6 = 96 pairs 4 · 4 + 2 · 2 = 20 bytes move. Tile rows see 4 and 6 keys. Partial outputs of 3 parts:
    2 · 4 · 4 · 9 · 4 · 3 = 3,456.
    """
    row = ledger_row(HEADS, 4, 6, 2, 3)
    assert row.resident_bytes == 512 + 6 * 64
    assert row.apart_bytes == 512 + 6 * 64 + 96 * 20
    assert row.reread_bytes == 512 + (4 + 6) * 64
    assert row.split_bytes == 512 + 6 * 64 + 3456
    assert row.flops == 4 * 4 * 8 * (3 + 4 + 5 + 6)


@given(st.integers(1, 300), st.integers(0, 300), st.integers(1, 130), st.integers(2, 40))
@settings(max_examples=40)
def test_what_moves_more(new, before, tile, splits):
    """Reading again moves no less than reading once, smaller tiles no less than larger ones, and
    one tile row reads once."""
    row = ledger_row(HEADS, new, new + before, tile, splits)
    assert row.resident_bytes <= row.reread_bytes
    assert row.resident_bytes < row.split_bytes
    assert row.resident_bytes < row.apart_bytes
    assert ledger_row(HEADS, new, new + before, new, 1).reread_bytes == row.resident_bytes
    assert ledger_row(HEADS, new, new + before, 2 * tile, 1).reread_bytes <= row.reread_bytes


@pytest.mark.parametrize(("new", "keys"), [(700, 700), (100, 1000), (1, 500)])
def test_the_graph_counts_as_many(new, keys):
    """Attention of a layer of Qwen2.5-0.5B: its four parts apart, and as one kernel with an L2 for
    everything and for nothing."""
    model = CATALOG.find("model", "qwen2.5-0.5b-instruct")
    graph = model_graph(model, blocks_of(model, CATALOG), Formats("bf16", "bf16", "bf16", "bf16"))
    block = next(kind for kind in graph.kinds if "attention" in kind.composites)
    target = device(CATALOG.find("gpu", "h100-sxm"))
    costs = annotate(block, Load((SequenceGroup(1, new, keys),)), target)
    names = [part.id for part in block.composites["attention"]]

    def moved(parts, tiling=None):
        found = border(Window(block), frozenset((0, part) for part in parts))
        return kernel_work(found, (costs,), target, tiling).hbm_bytes

    row = ledger_row(Heads(14, 2, 64), new, keys, 64, 1)
    assert sum(moved([name]) for name in names) == row.apart_bytes
    assert moved(names, Tiling(64, 1e12)) == row.resident_bytes
    assert moved(names, Tiling(64, 0.0)) == row.reread_bytes


def ledger(model, *gpus):
    spec = CATALOG.find("model", model)
    return attention_ledger(
        spec,
        blocks_of(spec, CATALOG),
        [CATALOG.find("gpu", gpu) for gpu in gpus],
        lengths=(1024,),
        tiles=(64,),
        splits=8,
    )


def test_where_attention_apart_is_out_of_reach():
    """Llama-3.1-8B on an H100: 20 bytes a pair and head at 3.35 TB/s against 2 · 128 causal FLOPs
    at 989.4 TFLOP/s, 23.1 times; a layer's 218.1 M weights multiplied, 436.2 MFLOP a token in 0.441
    us, against 32 · 20 bytes in 0.191 ns a pair: 2,308 tokens. Two tensors of scores, 256 bytes a
    pair, in 85.1 - 16.1 GB: some 16,400 tokens.
    """
    (found,) = ledger("llama-3.1-8b-instruct", "h100-sxm").gpus
    assert found.slower_than_fused == pytest.approx(20 / 3.35e12 / (256 / 989.4e12), rel=1e-3)
    assert found.slower_than_layer == pytest.approx(2308, abs=2)
    assert found.largest == pytest.approx(16_400, rel=0.01)
    assert found.weights_fit


def test_a_model_without_such_attention_is_refused():
    with pytest.raises(UsageError, match="no attention over all keys"):
        ledger("mamba-2.8b")
