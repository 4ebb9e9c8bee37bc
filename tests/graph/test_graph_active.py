"""What of a graph a step runs: phases that do not occur are left out, nothing else is."""

import pytest

from planner.graph import totals
from planner.graph.active import active, idle_symbols
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats, Load, SequenceGroup
from planner.spec.catalog import Catalog
from planner.spec.question import blocks_of

CATALOG = Catalog.standard()
BF16 = Formats("bf16", "bf16", "bf16", "bf16")
FP8 = Formats("fp8", "fp8", "bf16", "bf16")
DECODE = Load((SequenceGroup(4, 1, 100),))
PREFILL = Load((SequenceGroup(2, 64, 64),))
MIXED = Load((*DECODE.groups, *PREFILL.groups))

PROMPTS_ALONE = {"kv_b_proj", "prefill_keys", "prefill_attention"}
DECODE_ALONE = {"q_absorb", "decode_attention", "v_absorb"}


def graph(name: str, formats: Formats = BF16) -> ModelGraph:
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), formats)


def running(whole: ModelGraph, load: Load) -> ModelGraph:
    return active(whole, idle_symbols(whole, load))


def written(part: ModelGraph) -> set[str]:
    """What users called the nodes of all blocks."""
    return {node.composite or node.id for block in part.kinds for node in block.nodes}


@pytest.mark.parametrize(
    ("load", "there", "absent"),
    [
        (DECODE, DECODE_ALONE, PROMPTS_ALONE),
        (PREFILL, PROMPTS_ALONE, DECODE_ALONE),
        (MIXED, DECODE_ALONE | PROMPTS_ALONE, set()),
    ],
)
def test_a_step_runs_the_forms_it_has_sequences_for(load, there, absent):
    names = written(running(graph("deepseek-v2-lite"), load))
    assert there | {"mla_cache_write", "attended", "o_proj"} <= names
    assert not absent & names


def test_what_only_a_missing_form_reads_is_left_out_too():
    """kv_b_proj's input is quantised for it alone; the queries' absorption keeps 16 bits."""
    whole = graph("deepseek-v2-lite", FP8)
    assert "latent.quant" in written(whole)
    assert "latent.quant" in written(running(whole, PREFILL))
    assert "latent.quant" not in written(running(whole, DECODE))


def test_tokens_are_cached_whatever_reads_them_in_this_step():
    """A prompt's latents are expanded from where they are, and read from the cache by later steps."""
    assert "mla_cache_write" in written(running(graph("minicpm3-4b"), PREFILL))


def test_a_graph_without_phases_is_the_same_object():
    for name in ("qwen3-8b", "qwen3-30b-a3b"):
        whole = graph(name)
        assert running(whole, DECODE) is whole
        assert running(whole, PREFILL) is whole


def test_parameters_of_a_form_that_does_not_run_stay():
    """The whole graph counts; the part lacks kv_b_proj's 512 × 16·256 in each of 27 layers."""
    whole = graph("deepseek-v2-lite")
    part = running(whole, DECODE)
    missing = 27 * 512 * 16 * 256
    assert totals.parameters(whole) - totals.parameters(part) == missing


@pytest.mark.parametrize("name", ["deepseek-v2-lite", "deepseek-v3.2", "minicpm3-4b"])
@pytest.mark.parametrize("load", [DECODE, PREFILL, MIXED])
def test_nodes_that_are_left_out_would_have_done_nothing(name, load):
    """FLOPs and bytes of all nodes of the whole graph are those of the nodes that run."""
    whole = graph(name)
    part = running(whole, load)
    for before, after in zip(whole.kinds, part.kinds, strict=True):
        amounts = []
        for block in (before, after):
            sites = [(node.op, block.site(node, load)) for node in block.nodes]
            works = [op.work(site) for op, site in sites]
            moved = [
                (sum(op.input_bytes(s)), sum(t.bytes(load) for t in s.outputs)) for op, s in sites
            ]
            amounts.append(
                (
                    sum(work.matmul_flops for work in works),
                    sum(work.vector_flops for work in works),
                    sum(work.private_bytes for work in works),
                    sum(sum(pair) for pair in moved),
                )
            )
        assert amounts[0] == amounts[1]


def test_an_active_block_is_a_whole_block():
    """Its networkx graph and its nodes agree, and every input has a producer."""
    for block in running(graph("deepseek-v2"), DECODE).kinds:
        assert set(block.graph.nodes) == set(block.by_id)
        made = {*block.inputs, *(name for node in block.nodes for name in node.outputs)}
        assert all(set(node.inputs) <= made for node in block.nodes)
        assert set(block.outputs) <= made == set(block.tensors)
