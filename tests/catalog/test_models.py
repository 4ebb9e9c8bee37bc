"""The models that ship: sizes against what their makers publish, caches and shapes by hand."""

import functools
from pathlib import Path

import pytest
from hf_towers import OTHERS

from planner import resources
from planner.errors import SpecError
from planner.graph import totals
from planner.graph.build import model_graph
from planner.graph.types import Block, ModelGraph, Node
from planner.ops.types import Formats, static
from planner.spec import hf
from planner.spec.catalog import Catalog
from planner.spec.load import load_deployment, load_file
from planner.spec.origin import Document
from planner.spec.question import blocks_of
from planner.spec.types import BlockCycle, ModelSpec

CATALOG = Catalog.standard()
BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")
MODELS = CATALOG.names("model")
SPECS = resources.folder("specs")

HEAD_DIM_TRAPS = {
    # q_proj's features by hand: heads × the explicit head_dim, never the hidden size
    "qwen3-0.6b": (16 * 128, 1024),
    "qwen3-4b": (32 * 128, 2560),
    "qwen3-32b": (64 * 128, 5120),
    "mistral-nemo-12b": (32 * 128, 5120),
    "mistral-small-24b": (32 * 128, 5120),
    "gemma-2-9b-it": (16 * 256, 3584),
    "gemma-2-27b-it": (32 * 128, 4608),
    "gemma-3-1b-it": (4 * 256, 1152),
    "gemma-3-27b-it": (32 * 128, 5376),
}

ODD_HEADS = {"falcon-7b": 71, "gpt2-xl": 25, "smollm2-135m": 9, "smollm2-360m": 15}


@functools.cache
def graph_of(name: str, ranks: int = 1) -> ModelGraph:
    """The graph of a catalogue model in bf16."""
    model = CATALOG.find("model", name)
    return model_graph(model, blocks_of(model, CATALOG), BF16, ranks)


def file_graph(name: str) -> ModelGraph:
    """The graph of a model of specs/models."""
    model = load_file(SPECS / "models" / f"{name}.yaml", "model")
    assert isinstance(model, ModelSpec)
    return model_graph(model, blocks_of(model, CATALOG), BF16)


def kind(graph: ModelGraph, label: str) -> Block:
    """The one kind of block with a label."""
    (block,) = (block for block in graph.kinds if block.label == label)
    return block


def node(graph: ModelGraph, name: str) -> Node:
    """The first node of a name, in any block."""
    return next(block.by_id[name] for block in graph.kinds if name in block.by_id)


def width(graph: ModelGraph, name: str) -> int:
    """Last side of what a node writes."""
    for block in graph.kinds:
        if name in block.by_id:
            return static(block.tensors[block.by_id[name].outputs[0]].shape[-1])
    raise AssertionError(name)


def layers(graph: ModelGraph) -> list[tuple[str, int]]:
    """The sequence between embedding and head, as (label, times)."""
    return [(graph.kinds[run.kind].label, run.times) for run in graph.sequence][1:-1]


def blocks_used(model: ModelSpec) -> set[str]:
    """Names of all blocks in a model's sequence."""
    tower = model.encoder.sequence if model.encoder else ()
    uses = [
        use
        for item in (*model.sequence, *tower)
        for use in (item.blocks if isinstance(item, BlockCycle) else (item,))
    ]
    return {use.block for use in uses}


# --- every model -------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODELS)
def test_a_model_has_the_parameters_its_maker_publishes(name):
    """The graph's total is within 0.1 % of the published one."""
    published = CATALOG.find("model", name).published
    assert published is not None
    assert totals.parameters(graph_of(name)) == pytest.approx(published.parameters, rel=1e-3)


@pytest.mark.parametrize("name", MODELS)
def test_a_model_says_where_its_figures_come_from(name):
    """Dims and totals both name their source."""
    model = CATALOG.find("model", name)
    assert model.source.startswith("https://")
    assert model.published is not None
    assert model.published.source


@pytest.mark.parametrize("name", MODELS)
def test_every_option_of_a_model_reaches_one_of_its_blocks(name):
    """An option that no block knows would be silently without effect."""
    model = CATALOG.find("model", name)
    known = {
        option
        for block in blocks_used(model) - model.blocks.keys()
        for option in CATALOG.find("block", block).options
    }
    known |= {option for block in model.blocks.values() for option in block.options}
    assert model.options.keys() <= known


@pytest.mark.parametrize("kind_of_spec", ["model", "block"])
def test_a_file_is_named_as_what_it_holds(kind_of_spec):
    """NAME.yaml holds the spec of that name."""
    assert tuple(spec.name for spec in CATALOG.entries(kind_of_spec)) == CATALOG.names(kind_of_spec)


def test_every_block_is_used_by_a_model():
    """A block that ships is one that some model needs, of the catalogue or of a public config."""
    find = functools.partial(CATALOG.find, "block")
    towers = (hf.model_of(hf.converted(config, Document("a"), find)) for config in OTHERS.values())
    used = set().union(*(blocks_used(model) for model in (*CATALOG.entries("model"), *towers)))
    assert used >= set(CATALOG.names("block"))


# --- parameters by hand ------------------------------------------------------------------------


def test_qwen3_06b_counts_its_tied_embedding_once():
    """28 layers, a 151,936 × 1,024 embedding that is also the LM head, and the last norm."""
    attention = 1024 * 2048 + 2 * 1024 * 1024 + 2048 * 1024 + 2 * 128  # q, k and v, o, qk-norm
    layer = attention + 3 * 1024 * 3072 + 2 * 1024
    total = 28 * layer + 151_936 * 1024 + 1024
    assert total == 596_049_920
    assert totals.parameters(graph_of("qwen3-0.6b")) == total
    (tied,) = node(graph_of("qwen3-0.6b"), "lm_head").parameters
    assert tied.shared
    assert tied.elements == 151_936 * 1024


def test_gemma_3_27b_is_62_layers_and_one_embedding():
    """Local and global layers hold the same weights: 412,898,560 each."""
    total = 62 * 412_898_560 + 262_208 * 5376 + 5376
    assert total == 27_009_346_304
    assert totals.parameters(graph_of("gemma-3-27b-it").alone) == total


def test_gemma_3_is_its_text_model_and_a_vision_tower():
    """SigLIP: 27 layers of 1152, 4,096 positions, 14 × 14 patches; then a norm and a projection."""
    layer = 4 * (1152 * 1152 + 1152) + (1152 * 4304 + 4304) + (4304 * 1152 + 1152) + 4 * 1152
    tower = 27 * layer + (3 * 14 * 14 * 1152 + 1152) + 4096 * 1152 + 2 * 1152
    assert tower == 416_866_032
    for name, hidden, whole in (
        ("gemma-3-4b-it", 2560, 4_300_079_472),
        ("gemma-3-12b-it", 3840, 12_187_325_040),
        ("gemma-3-27b-it", 5376, 27_432_406_640),
    ):
        graph = graph_of(name)
        assert totals.parameters(graph) == whole
        assert totals.parameters(graph.alone) == whole - tower - (1152 * hidden + 1152)


def test_pixtral_is_nemo_behind_24_layers_and_an_adapter():
    """Patches of 16 × 16, layers of 1024 without biases, two linear layers to 5120."""
    layer = 4 * 1024**2 + 3 * 1024 * 4096 + 2 * 1024
    tower = 3 * 16 * 16 * 1024 + 1024 + 24 * layer
    adapter = (1024 * 5120 + 5120) + (5120 * 5120 + 5120)
    nemo = totals.parameters(graph_of("mistral-nemo-12b"))
    assert totals.parameters(graph_of("pixtral-12b").alone) == nemo
    assert totals.parameters(graph_of("pixtral-12b")) == nemo + tower + adapter == 12_682_739_712


def test_qwen25_has_biases_on_q_k_and_v_alone():
    """0.5B: 14 heads and 2 KV heads of 64; biases are as wide as the projections."""
    qkv = 896 * (14 + 2 * 2) * 64 + (14 + 2 * 2) * 64
    layer = qkv + 14 * 64 * 896 + 3 * 896 * 4864 + 2 * 896
    total = 24 * layer + 151_936 * 896 + 896
    assert total == 494_032_768
    assert totals.parameters(graph_of("qwen2.5-0.5b-instruct")) == total


def test_opt_has_a_position_table_of_2050_rows():
    """125M: biases and two layer norms in each layer, token and position tables, a last norm."""
    layer = 4 * (768 * 768 + 768) + (768 * 3072 + 3072) + (3072 * 768 + 768) + 2 * 2 * 768
    total = 12 * layer + 50_272 * 768 + 2050 * 768 + 2 * 768
    assert total == 125_239_296
    assert totals.parameters(graph_of("opt-125m")) == total


def test_falcon_7b_has_one_norm_a_layer_and_no_biases():
    """71 heads and one KV head of 64, an MLP of 4 × hidden, embedding and head tied."""
    layer = 4544 * (71 + 2) * 64 + 4544 * 4544 + 2 * 4544 * 18_176 + 2 * 4544
    total = 32 * layer + 65_024 * 4544 + 2 * 4544
    assert totals.parameters(graph_of("falcon-7b")) == total
    # the repository stores the tied table twice
    assert total + 65_024 * 4544 == 7_217_189_760


def test_a_norm_over_all_of_q_and_k_has_their_width():
    """OLMo 2 7B: q_norm and k_norm own 32 × 128 weights each."""
    graph = graph_of("olmo-2-7b")
    assert [p.elements for p in node(graph, "q_norm").parameters] == [32 * 128]
    assert [p.elements for p in node(graph, "k_norm").parameters] == [32 * 128]


# --- shapes ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", HEAD_DIM_TRAPS)
def test_q_is_as_wide_as_heads_times_the_explicit_head_dim(name):
    """hidden / heads is a trap in these models."""
    wide, hidden = HEAD_DIM_TRAPS[name]
    graph = graph_of(name)
    assert width(graph, "q_proj") == wide != hidden
    assert width(graph, "o_proj") == hidden


def test_gemma_2_alternates_local_and_global_layers():
    """26 layers: the even ones, counted from 0, look back 4,096 keys."""
    assert layers(graph_of("gemma-2-2b-it")) == [("local", 1), ("global", 1)] * 13


def test_gemma_3_has_a_global_layer_after_every_five_local():
    """62 = 10 × 6 + 2: the last two layers are local."""
    cycle = [("local", 5), ("global", 1)]
    assert layers(graph_of("gemma-3-27b-it")) == [*cycle * 10, ("local", 2)]
    assert layers(graph_of("gemma-3-12b-it")) == cycle * 8
    assert layers(graph_of("gemma-3-4b-it")) == [*cycle * 5, ("local", 4)]


def test_rope_turns_three_quarters_of_a_head_of_phi_4_mini():
    """0.75 × 128 = 96 dims; elsewhere the whole head."""
    assert node(graph_of("phi-4-mini-instruct"), "rope").op.rotary == 96
    assert node(graph_of("phi-4"), "rope").op.rotary == 128


def test_granite_scales_embedding_residuals_and_logits():
    """One for the embedding, two a layer, one for the logits: multipliers are no matmuls."""
    graph = graph_of("granite-3.1-8b-instruct")
    scales = sum(
        times * sum(node.op_name == "scale" for node in block.nodes)
        for block, times in zip(graph.kinds, graph.times, strict=True)
    )
    assert scales == 1 + 2 * 40 + 1


def test_attention_and_mlp_of_falcon_read_the_same_norm():
    """7B: one norm feeds both branches; 40B norms each on its own."""
    layer = kind(graph_of("falcon-7b"), "layer").by_id
    assert layer["q_proj"].inputs == layer["fc1"].inputs == layer["input_norm"].outputs
    layer = kind(graph_of("falcon-40b"), "layer").by_id
    assert layer["q_proj"].inputs == layer["input_norm"].outputs
    assert layer["fc1"].inputs == layer["mlp_norm"].outputs


# --- KV cache ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "by_hand"),
    [
        # layers × (K and V) × KV heads × head_dim × 2 bytes
        ("qwen3-0.6b", 28 * 2 * 8 * 128 * 2),
        ("gemma-3-27b-it", 62 * 2 * 16 * 128 * 2),
        ("mistral-7b-v0.1", 32 * 2 * 8 * 128 * 2),
        ("qwen2.5-0.5b-instruct", 24 * 2 * 2 * 64 * 2),
        ("llama-3.1-70b-instruct", 80 * 2 * 8 * 128 * 2),
        ("falcon-7b", 32 * 2 * 1 * 64 * 2),
    ],
)
def test_kv_bytes_of_a_token(name, by_hand):
    """Every layer keeps K and V of its KV heads."""
    assert totals.kv_bytes_per_token(graph_of(name)) == by_hand


def test_the_cache_of_mistral_v01_stops_growing_at_its_window():
    """All 32 layers have a window of 4,096; v0.3 has none."""
    token = 32 * 2 * 8 * 128 * 2
    assert totals.kv_bytes(graph_of("mistral-7b-v0.1"), 32_768) == token * 4096
    assert totals.kv_bytes(graph_of("mistral-7b-v0.3"), 32_768) == token * 32_768


def test_windows_keep_the_cache_of_gemma_3_27b_small():
    """At 131,072 tokens 52 layers keep 1,024 tokens and 10 all: 11.17 GB, not 66.6 GB."""
    layer = 2 * 16 * 128 * 2
    by_hand = 52 * layer * 1024 + 10 * layer * 131_072
    assert by_hand == 11_173_625_856
    assert totals.kv_bytes(graph_of("gemma-3-27b-it"), 131_072) == by_hand


# --- tensor parallelism ------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MODELS if name not in ODD_HEADS])
def test_two_ranks_hold_about_half_of_a_model_each(name):
    """Norms, position tables and KV heads fewer than ranks are held twice, all else is cut."""
    whole = totals.parameters(graph_of(name))
    assert whole / 2 <= totals.parameters(graph_of(name, 2)) < 0.6 * whole


@pytest.mark.parametrize(
    ("name", "ranks"),
    [*((name, 2) for name in ODD_HEADS), ("phi-4", 4), ("qwen2.5-0.5b-instruct", 4)],
)
def test_heads_that_do_not_divide_are_refused(name, ranks):
    """An odd number of heads over 2; 10 KV heads or 14 heads over 4."""
    with pytest.raises(SpecError, match="do not divide"):
        graph_of(name, ranks)


# --- the examples in specs/ --------------------------------------------------------------------


DEPLOYMENTS = [path for path in sorted(SPECS.glob("*.yaml")) if not path.stem.startswith("prices")]


@pytest.mark.parametrize("path", DEPLOYMENTS, ids=lambda path: path.stem)
def test_an_example_names_a_model_and_a_gpu_that_exist(path: Path):
    """Each deployment in specs/ loads, and its model builds on the ranks it asks for."""
    deployment = load_deployment(path)
    assert CATALOG.find("gpu", deployment.gpu, deployment.origin.at("gpu"))
    model = CATALOG.find("model", deployment.model, deployment.origin.at("model"))
    assert model_graph(model, blocks_of(model, CATALOG), BF16, deployment.parallel.tensor).kinds


def test_the_small_cnn_by_hand():
    """Three 3 × 3 convolutions with biases, then 128 · 8 · 8 -> 256 -> 10."""
    convolutions = (3 * 32 * 9 + 32) + (32 * 64 * 9 + 64) + (64 * 128 * 9 + 128)
    linears = (128 * 8 * 8 * 256 + 256) + (256 * 10 + 10)
    assert totals.parameters(file_graph("small-cnn")) == convolutions + linears


def test_the_mlp_by_hand():
    """784 -> 512, twice 512 -> 512, then 512 -> 10, all with biases."""
    by_hand = (784 * 512 + 512) + 2 * (512 * 512 + 512) + (512 * 10 + 10)
    assert totals.parameters(file_graph("mlp")) == by_hand


def test_three_layers_of_one_kind_and_58_of_another():
    """The two kinds share a block and differ in the MLP's width: 8,192 and 5,120."""
    graph = file_graph("three-dense-then-58")
    assert layers(graph) == [("dense", 3), ("stand-in", 58)]
    shared = 2 * 2048 * 2048 + 2 * 2048 * 512 + 2 * 2048
    by_hand = 3 * (shared + 3 * 2048 * 8192) + 58 * (shared + 3 * 2048 * 5120)
    assert totals.parameters(graph) == by_hand + 2 * 65_536 * 2048 + 2048
