"""What any group of nodes moves, against a ledger that counts every saving one by one."""

import pytest
from cost_samples import CNN, DEVICE, TINY, graph, random_models
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.annotate import annotate
from planner.cost.kernel import border, kernel_work
from planner.graph.window import Window
from planner.ops.types import Load, SequenceGroup, Tensor

STEP = Load((SequenceGroup(3, 1, 5),), {"batch": 3})


def work(window: Window, nodes, load: Load = STEP):
    costs = tuple(
        annotate(found, load, DEVICE) for found in (window.block, window.following) if found
    )
    return kernel_work(border(window, frozenset(nodes)), costs, DEVICE, None)


def alone(window: Window, key, load: Load = STEP) -> float:
    found = window.block if key[0] == 0 else window.following
    return annotate(found, load, DEVICE).nodes[key[1]].hbm_bytes


def tensor(window: Window, key) -> Tensor:
    found = window.block if key[0] == 0 else window.following
    return found.tensors[key[1]]


@given(random_models(), st.booleans(), st.data())
def test_a_group_saves_one_write_and_one_read_per_inner_reader(model, seam, data):
    [layer] = model.kinds
    window = Window(layer, layer if seam else None)
    group = data.draw(st.sets(st.sampled_from(window.keys), min_size=1))
    saved = 0.0
    everything = {t for key in window.keys for t in (*window.inputs(key), *window.outputs(key))}
    for name in everything:
        size = tensor(window, name).bytes(STEP)
        inside = [key for key in window.readers.get(name, ()) if key in group]
        outside = [key for key in window.readers.get(name, ()) if key not in group]
        if window.producer.get(name) in group:
            saved += size * len(inside)
            if not outside and name not in window.escaping:
                saved += size
        elif inside:
            saved += size * (len(inside) - 1)
    assert work(window, group).hbm_bytes == sum(alone(window, key) for key in group) - saved


@given(random_models(), st.data())
def test_a_larger_group_never_moves_more_than_its_halves(model, data):
    window = Window(model.kinds[0], model.kinds[0])
    group = data.draw(st.sets(st.sampled_from(window.keys), min_size=2))
    half = data.draw(st.sets(st.sampled_from(sorted(group)), min_size=1, max_size=len(group) - 1))
    halves = work(window, half).hbm_bytes + work(window, group - half).hbm_bytes
    assert work(window, group).hbm_bytes <= halves


@given(random_models(), st.data())
def test_fusing_changes_no_flops(model, data):
    window = Window(model.kinds[0], model.kinds[0])
    group = data.draw(st.sets(st.sampled_from(window.keys), min_size=1))
    fused, parts = work(window, group), [work(window, {key}) for key in group]
    assert fused.matmul_flops == sum(part.matmul_flops for part in parts)
    assert fused.vector_flops == sum(part.vector_flops for part in parts)


@given(random_models())
def test_a_group_of_one_moves_what_its_node_moves_alone(model):
    window = Window(model.kinds[0], model.kinds[0])
    for key in window.keys:
        assert work(window, {key}).hbm_bytes == alone(window, key)


@given(random_models())
def test_a_border_names_every_tensor_of_the_group_once(model):
    window = Window(model.kinds[0], model.kinds[0])
    group = frozenset(window.keys)
    edge = border(window, group)
    assert edge.nodes == window.keys
    written = [window.outputs(key)[position] for key, position in edge.writes]
    assert sorted([*written, *edge.inside]) == sorted(window.producer)


def test_an_activation_and_its_projection_keep_the_wide_tensor_on_chip():
    layer = graph(TINY).kinds[1]
    window = Window(layer)
    parts = {(0, "up_proj"), (0, "act")}
    # 3 tokens × 192 × 2 B, neither written by up_proj nor read by act.
    assert (
        sum(alone(window, key) for key in parts) - work(window, parts).hbm_bytes == 2 * 3 * 192 * 2
    )


def test_a_residual_that_stays_needed_outside_is_still_written():
    layer = graph(TINY).kinds[1]
    window = Window(layer)
    parts = {(0, "residual"), (0, "up_proj")}
    # `middle` is also read by mlp_residual: one read saved, the write remains.
    assert sum(alone(window, key) for key in parts) - work(window, parts).hbm_bytes == 3 * 64 * 2


def test_siblings_read_a_shared_input_once():
    layer = graph(TINY).kinds[1]
    window = Window(layer)
    parts = {(0, "q_proj"), (0, "k_proj"), (0, "v_proj")}
    assert (
        sum(alone(window, key) for key in parts) - work(window, parts).hbm_bytes == 2 * 3 * 64 * 2
    )


def test_add_and_the_next_blocks_norm_save_one_read_across_the_seam():
    layer = graph(TINY).kinds[1]
    window = Window(layer, layer)
    parts = {(0, "mlp_residual"), (1, "norm")}
    # y is still written, since the next residual add reads it.
    assert sum(alone(window, key) for key in parts) - work(window, parts).hbm_bytes == 3 * 64 * 2


def test_a_view_moves_nothing_and_hides_nothing():
    window = Window(graph(CNN).kinds[0])
    features = 3 * 4 * 8 * 8 * 2  # batch 3, 4 channels of 8 × 8, 2 bytes
    assert alone(window, (0, "flatten")) == 0
    assert work(window, {(0, "flatten")}).hbm_bytes == 0
    assert annotate(window.block, STEP, DEVICE).nodes["flatten"].flops_per_byte == 0
    conv, both = work(window, {(0, "conv")}), work(window, {(0, "conv"), (0, "flatten")})
    assert conv.hbm_bytes == both.hbm_bytes == 3 * 3 * 8 * 8 * 2 + (4 * 3 * 9 + 4) * 2 + features


def test_a_tensor_read_twice_by_one_node_is_read_once():
    window = Window(graph(CNN).kinds[0])
    features = 3 * 4 * 8 * 8 * 2
    assert alone(window, (0, "square")) == work(window, {(0, "square")}).hbm_bytes == 2 * features


def test_each_resource_is_priced_at_its_own_rate():
    layer = graph(TINY, ranks=2).kinds[1]
    window = Window(layer)
    gemm = work(window, {(0, "up_proj")})
    assert gemm.matmul_flops == 2 * 3 * 64 * 96
    assert gemm.matmul_s == pytest.approx(gemm.matmul_flops / 100e12)
    assert gemm.memory_s == pytest.approx(gemm.hbm_bytes / 1e12)
    summed = work(window, {(0, "o_proj.all_reduce")})
    # Two ranks: each sends 2 × 1/2 of 3 × 64 × 2 B over 50 GB/s.
    assert summed.network_s == pytest.approx(384 / 50e9)
    assert summed.vector_s == pytest.approx(3 * 64 / 10e12)


def test_an_fp8_gemm_runs_at_the_fp8_rate():
    from cost_samples import FP8

    layer = graph(TINY, FP8).kinds[1]
    found = annotate(layer, STEP, DEVICE).nodes["up_proj"]
    assert found.peak_flops_per_s == 200e12
    assert found.ridge_flops_per_byte == 200
    # X in FP8, W in FP8, Y in BF16.
    assert found.hbm_bytes == 3 * 64 + 64 * 192 + 3 * 192 * 2
