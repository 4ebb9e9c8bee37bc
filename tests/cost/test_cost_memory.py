"""Does it fit: the budget by hand, and a load held against it."""

import dataclasses

import pytest
from cost_engines import BACKEND, engine
from cost_samples import CNN, DEVICE, TINY, graph
from hypothesis import given
from hypothesis import strategies as st

from planner.cost.memory import Budget, budget, fit
from planner.cost.profile import Holding, activation_bytes, live_bytes
from planner.cost.reserve import Reserve
from planner.graph.totals import weights_bytes
from planner.ops.types import Load, SequenceGroup

MODEL = graph(TINY)
WINDOWED = graph(TINY.replace("window: null", "window: 40"))
# K and V of 2 heads of 8 elements in 2 bytes, 3 layers.
PER_TOKEN = 3 * 2 * 2 * 8 * 2
# embedding and LM head 96·64 each; a layer: norm 64, q 64·64, k and v 64·16, o 64·64, MLP 2·64·192.
WEIGHTS = 2 * (2 * 96 * 64 + 3 * (64 + 2 * 64 * 64 + 2 * 64 * 16 + 2 * 64 * 192))


def space(kv_bytes: float, block: int = 16) -> Budget:
    """A budget that leaves that much for KV."""
    return Budget(
        kv_bytes, kv_bytes, 1.0, kv_bytes, 0, 0, 0, 0, graphs_inside=True, kv_block_tokens=block
    )


def reserve(*args, **flags) -> Reserve:
    return Reserve(engine(*args, **flags), DEVICE)


def decode(batch: int, context: int) -> Load:
    return Load((SequenceGroup(batch, 1, context),))


def test_a_profile_steps_peak_is_the_widest_moment_of_a_block():
    # 1000 tokens in 10 sequences. In the MLP `middle` (64), `up` and `activated` (192 each) are alive.
    assert activation_bytes(MODEL, reserve()) == 1000 * (64 + 192 + 192) * 2


def test_a_profile_step_has_exactly_its_tokens_when_they_do_not_divide():
    # 1000 tokens over 7 sequences: six of 143 and one of 142, not seven of 143.
    assert activation_bytes(MODEL, reserve(max_seqs=7)) == 1000 * (64 + 192 + 192) * 2


def test_sampling_holds_sixteen_bit_logits_and_their_fp32_copy():
    # 10 sequences of 1 token: hidden 64 in 2 bytes was let go, logits 96 wide in 2 and 4 bytes,
    # and the next ids in 4.
    head = MODEL.kinds[2]
    assert live_bytes(head, decode(10, 1)) == 10 * (96 * 2 + 96 * 4 + 4)


def test_scores_count_for_nothing_since_engines_profile_with_fused_attention():
    layer = MODEL.kinds[1]
    assert live_bytes(layer, decode(5, 10)) == live_bytes(layer, decode(5, 1000))


def test_a_graph_that_is_no_language_model_has_no_profile_step():
    assert activation_bytes(graph(CNN), reserve()) == 0


def test_the_budget_is_a_share_of_what_cuda_sees_less_everything_held():
    found = budget(MODEL, engine(), DEVICE, None)
    assert found.capacity_bytes == 1.1e6
    assert found.budget_bytes == pytest.approx(0.9 * 1e6)
    assert found.weights_bytes == WEIGHTS == weights_bytes(MODEL)
    assert found.runtime_bytes == 10e3
    assert found.graphs_bytes == 20e3
    activations = 1000 * 448 * 2
    assert found.activations_bytes == activations
    assert found.kv_available_bytes == pytest.approx(900e3 - WEIGHTS - activations - 10e3 - 20e3)


def test_an_own_utilisation_overrides_the_engines():
    assert budget(MODEL, engine(), DEVICE, 0.5).budget_bytes == 0.5e6


def test_graphs_outside_the_budget_take_nothing_from_the_cache():
    inside = budget(MODEL, engine("1.0", max_tokens=100), DEVICE, None)
    outside = budget(MODEL, engine("0.10", max_tokens=100), DEVICE, None)
    assert outside.kv_available_bytes - inside.kv_available_bytes == pytest.approx(20e3)
    # 100 kB of the GPU lie outside the budget; graphs take 20 kB of them.
    assert outside.spare_bytes == pytest.approx(100e3 - 20e3)
    assert inside.spare_bytes == pytest.approx(100e3)


def test_without_graphs_none_are_held():
    assert budget(MODEL, engine(eager=True), DEVICE, None).graphs_bytes == 0


def test_a_static_budget_is_for_weights_and_cache_alone():
    text = BACKEND.replace("memory:\n", "memory:\n  budget: static\n")
    found = budget(MODEL, engine(backend=text, max_tokens=100), DEVICE, None)
    # 10 kB of runtime were held before the share was taken.
    assert found.kv_available_bytes == pytest.approx(0.9 * (1e6 - 10e3) - WEIGHTS)


def test_a_free_budget_is_a_share_of_what_all_else_leaves():
    text = BACKEND.replace("memory:\n", "memory:\n  budget: free\n")
    found = budget(MODEL, engine(backend=text, max_tokens=100), DEVICE, None)
    left = 1e6 - WEIGHTS - 100 * 448 * 2 - 10e3 - 20e3
    assert found.kv_available_bytes == pytest.approx(0.9 * left)


def test_a_sequence_is_held_in_whole_blocks():
    found = fit(MODEL, space(1e9), decode(5, 17))
    assert found.kv_bytes == 5 * 32 * PER_TOKEN
    assert found.kv_bytes_per_token == PER_TOKEN


def test_the_cache_holds_as_many_whole_blocks_as_fit():
    # 100 tokens' worth: six blocks of 16.
    assert fit(MODEL, space(100 * PER_TOKEN), decode(1, 10)).kv_tokens == 96


def test_groups_of_several_lengths_are_added_up():
    load = Load((SequenceGroup(3, 1, 16), SequenceGroup(2, 20, 40)))
    assert fit(MODEL, space(1e9), load).kv_bytes == (3 * 16 + 2 * 48) * PER_TOKEN


def test_a_window_caps_what_a_sequence_holds():
    found = fit(WINDOWED, space(1e6), decode(4, 5000))
    assert found.kv_bytes == 4 * 40 * PER_TOKEN
    # Any number of tokens more costs nothing, so the batch alone is limited.
    assert found.max_batch == int(1e6 // (40 * PER_TOKEN))
    assert found.max_context is None


def test_a_load_that_does_not_fit_says_how_much_is_missing():
    found = fit(MODEL, space(100 * PER_TOKEN), decode(7, 16))
    assert not found.fits
    assert found.missing_bytes == 12 * PER_TOKEN
    assert fit(MODEL, space(112 * PER_TOKEN), decode(7, 16)).fits


def test_a_model_larger_than_the_budget_holds_nothing():
    short = dataclasses.replace(space(1e6), weights_bytes=2e6)
    found = fit(MODEL, short, decode(1, 1))
    assert (found.fits, found.kv_tokens, found.max_batch, found.max_context) == (False, 0, 0, 0)
    assert found.missing_bytes == 1e6 + 16 * PER_TOKEN


def test_what_overruns_the_gpu_outside_the_budget_fits_no_batch():
    short = dataclasses.replace(space(1e6), graphs_bytes=1e5, graphs_inside=False)
    found = fit(MODEL, short, decode(1, 1))
    assert (found.fits, found.missing_bytes) == (False, 1e5)
    assert (found.max_batch, found.max_context, found.kv_tokens) == (0, 0, 0)


def test_a_graph_without_cache_fits_by_its_weights_alone():
    cnn = graph(CNN)
    found = fit(cnn, space(1e6), Load(shapes={"batch": 4}))
    assert (found.fits, found.max_batch, found.max_context) == (True, None, None)


SPACES = st.builds(space, st.integers(0, 10**6), st.sampled_from([1, 16, 32]))
MODELS = st.sampled_from([MODEL, WINDOWED])


@given(MODELS, SPACES, st.integers(1, 400))
def test_the_largest_batch_fits_and_one_more_does_not(model, room, context):
    most = fit(model, room, decode(1, context)).max_batch
    assert not fit(model, room, decode(most + 1, context)).fits
    if most:
        assert fit(model, room, decode(most, context)).fits


@given(SPACES, st.integers(1, 50))
def test_the_longest_context_fits_and_one_more_token_does_not(room, batch):
    longest = fit(MODEL, room, decode(batch, 1)).max_context
    assert longest % room.kv_block_tokens == 0
    assert not fit(MODEL, room, decode(batch, longest + 1)).fits
    if longest:
        assert fit(MODEL, room, decode(batch, longest)).fits


@given(MODELS, SPACES, st.integers(1, 50), st.integers(1, 400))
def test_a_load_fits_or_misses_by_what_it_lacks(model, room, batch, context):
    found = fit(model, room, decode(batch, context))
    assert found.fits == (found.missing_bytes == 0) == (found.max_batch >= batch)
    assert found.fits == (found.max_context is None or found.max_context >= context)
    if not found.fits:
        assert found.missing_bytes == found.kv_bytes - room.kv_available_bytes


@given(SPACES, st.integers(1, 400))
def test_the_tokens_that_fit_are_those_of_one_long_sequence(room, context):
    found = fit(MODEL, room, decode(1, context))
    assert found.kv_tokens == fit(MODEL, room, decode(1, 1)).max_context
    assert found.kv_tokens * PER_TOKEN <= room.kv_available_bytes


def test_a_sampler_that_sorts_holds_more_bytes_for_each_logit():
    # 10 logits rows of 96: 2 bytes and 36 more each; ids 4; the hidden states handed in stay.
    head = MODEL.kinds[2]
    sorting = Holding(layer_inputs=2, sampler_bytes=36)
    assert live_bytes(head, decode(10, 1), sorting) == 10 * (96 * 38 + 4 + 64 * 2)


def test_what_callers_hold_of_a_layers_input_is_added_to_its_peak():
    layer, load = MODEL.kinds[1], decode(7, 1)
    more = live_bytes(layer, load, Holding(layer_inputs=2)) - live_bytes(layer, load)
    assert more == 2 * 7 * 64 * 2


def test_workspaces_come_on_top_of_activations():
    text = BACKEND.replace("memory:\n", "memory:\n  workspace: [{value: 8 kB}]\n")
    assert activation_bytes(MODEL, reserve(backend=text)) == 1000 * 448 * 2 + 8000


def test_a_context_lies_outside_a_whole_budget():
    text = BACKEND.replace("memory:\n", "memory:\n  context: [{value: 30 kB}]\n")
    plain = budget(MODEL, engine(max_tokens=100), DEVICE, None)
    found = budget(MODEL, engine(backend=text, max_tokens=100), DEVICE, None)
    assert found.kv_available_bytes == plain.kv_available_bytes
    assert plain.spare_bytes - found.spare_bytes == pytest.approx(30e3)


def test_a_static_share_is_of_what_context_and_runtime_leave():
    reserves = "memory:\n  budget: static\n  context: [{value: 30 kB}]\n"
    text = BACKEND.replace("memory:\n", reserves)
    found = budget(MODEL, engine(backend=text, max_tokens=100), DEVICE, None)
    assert found.budget_bytes == pytest.approx(0.9 * (1e6 - 30e3 - 10e3))
