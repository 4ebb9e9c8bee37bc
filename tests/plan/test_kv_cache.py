"""KV cache of published models, where estimates from the parameter count or hidden/heads fail."""

import pytest

from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

CATALOG = Catalog.standard()
GIB = 2**30


def plan(model: str, context: int, tensor: int = 1):
    text = (
        f"model: {model}\ngpu: h100-sxm\nparallel: {{tensor: {tensor}}}\n"
        f"step: {{decode: {{batch: 1, context: {context}}}}}\n"
    )
    return assemble(ask(load_text(text, "deploy.yaml"), CATALOG))


def test_heads_of_128_where_hidden_over_heads_is_64():
    """Qwen3-0.6B: 28 layers × 8 KV heads × 128 × (K and V) × 2 bytes; 4.375 GiB at 40,960."""
    memory = plan("qwen3-0.6b", 40_960).memory
    assert memory.kv_bytes_per_token == 28 * 8 * 128 * 2 * 2 == 114_688
    assert memory.kv_bytes == 40_960 * 114_688 == 4.375 * GIB


def test_local_layers_keep_their_window_and_global_ones_everything():
    """Gemma 3 27B: 52 of 62 layers look back 1,024, 10 over all; each 16 × 128 × 2 × 2 a token."""
    layer = 16 * 128 * 2 * 2
    expected = 10 * layer * 131_072 + 52 * layer * 1024
    assert expected == 10.40625 * GIB
    assert plan("gemma-3-27b-it", 131_072).memory.kv_bytes == expected


@pytest.mark.parametrize("context", [4096, 8192, 32_768])
def test_the_cache_of_windows_alone_stops_growing(context):
    """Mistral 7B v0.1: all 32 layers look back 4,096."""
    assert plan("mistral-7b-v0.1", context).memory.kv_bytes == 32 * 8 * 128 * 2 * 2 * 4096


def test_fourteen_heads_split_over_two_gpus_and_not_four():
    """Qwen2.5-0.5B."""
    assert plan("qwen2.5-0.5b-instruct", 128, tensor=2).memory.kv_bytes_per_token == 24 * 64 * 4
    with pytest.raises(SpecError, match="14 heads of 64 do not divide over 4") as caught:
        plan("qwen2.5-0.5b-instruct", 128, tensor=4)
    assert (caught.value.faults[0].where.line, caught.value.faults[0].where.column) == (3, 20)
