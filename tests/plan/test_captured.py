"""The search for capture sizes against plans of single steps."""

from itertools import combinations

import pytest

from planner.errors import UsageError
from planner.plan.assemble import assemble
from planner.plan.captured import _Search, capture_search
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

TEXT = """\
model: qwen2.5-0.5b-instruct
gpu: rtx-4090
backend: {{name: {engine}, version: "{version}", flags: {flags}}}
step: {{decode: {{batch: {batch}, context: 1024}}}}
"""


def question(batch=1, engine="vllm", version="0.26", flags="{}", more=""):
    text = TEXT.format(batch=batch, engine=engine, version=version, flags=flags) + more
    return ask(load_text(text, "test", "deployment"), Catalog.standard())


def step_s(batch, **fields):
    return assemble(question(batch, **fields)).step.time_s


def test_the_engines_list_costs_what_its_plans_take():
    """vLLM pads 3 to 4 and 17 to 24; three steps in four hold 3."""
    found = capture_search(question(), {3: 30, 17: 10})
    expected = 0.75 * step_s(3) + 0.25 * step_s(17)
    assert found.default.step_s == pytest.approx(expected)
    assert found.default.sizes[:6] == (1, 2, 4, 8, 16, 24)
    assert found.default.padding_share == pytest.approx((30 * 1 + 10 * 7) / (30 * 3 + 10 * 17))


def test_batches_with_graphs_of_their_own_lose_nothing():
    found = capture_search(question(), {4: 1, 24: 1})
    assert found.best[-1].sizes == (4, 24)
    assert found.best[-1].loss == pytest.approx(0)
    assert found.exact_s == pytest.approx((step_s(4) + step_s(24)) / 2)
    assert found.uncaptured_s == pytest.approx(
        sum(step_s(batch, flags="{cudagraph_mode: NONE}") for batch in (4, 24)) / 2
    )


def test_each_more_size_gains_and_the_chosen_list_is_no_slower_than_the_engines():
    found = capture_search(question(), dict.fromkeys((1, 5, 9, 11, 13, 30, 50), 1.0))
    costs = [each.step_s for each in found.best]
    assert costs == sorted(costs, reverse=True)
    assert found.chosen.step_s <= found.default.step_s * (1 + 1e-9)
    assert len(found.chosen.sizes) < len(found.default.sizes)
    assert all(each.sizes[-1] >= 50 for each in found.best)
    sizes = ", ".join(map(str, found.chosen.sizes))
    assert found.paste == f"--compilation-config '{{\"cudagraph_capture_sizes\": [{sizes}]}}'"


def test_as_many_sizes_as_were_asked_for():
    found = capture_search(question(), {2: 5, 8: 3, 20: 1}, graphs=2)
    assert len(found.chosen.sizes) == 2


def test_a_batch_beyond_the_engines_list_is_said_to_run_without_a_graph():
    """SGLang captures up to 24 on a card of 24 GiB: 33 runs without, one step in ten."""
    asked = question(engine="sglang", version="0.5.6")
    found = capture_search(asked, {8: 90, 33: 10})
    assert found.default.sizes[-1] == 24
    assert found.default.uncaptured_share == pytest.approx(0.1)
    assert "10.0% of steps hold more, from 33 on" in found.notes[0]
    assert found.chosen.sizes[-1] == 33
    assert found.paste == "--cuda-graph-bs 8 33"


def test_without_padding_a_batch_has_its_own_size_or_none():
    """TensorRT-LLM pads by request only: 33 is not among 1 to 31, 32, 64."""
    found = capture_search(question(engine="tensorrt-llm", version="1.2"), {8: 1, 33: 1})
    eager_s = found.uncaptured_s
    assert found.default.step_s > found.exact_s
    assert found.default.step_s < eager_s
    assert found.paste == "cuda_graph_config: {batch_sizes: [8, 33]}"


def test_versions_have_their_own_lists():
    """V0 captured 8, 16, … up to max_num_seqs, 256; then 67 sizes up to 512, then 51."""
    found = capture_search(question(), {100: 1})
    lists = {each.name: (len(each.sizes), each.sizes[-1]) for each in found.versions}
    assert lists["vLLM 0.6"] == (35, 256)
    assert lists["vLLM 0.8 to 0.10"] == (67, 512)
    assert lists["vLLM 0.12 to 0.26"] == (51, 512)


def test_what_is_not_captured_is_refused():
    with pytest.raises(UsageError):
        capture_search(question(flags="{enforce_eager: true}"), {1: 1})


STAGES = "parallel: {pipeline: 2}\n"


def test_stages_capture_micro_batches_and_all_of_them_pad():
    """Two stages: 5 sequences run as micro-batches of 3, in a size of 4; 1 alone in a size of 1. A
    rank captures the sizes of the engine's list, whole up to 256 sequences and in pieces up to 512.
    """
    found = capture_search(question(more=STAGES), {1: 10, 5: 30})
    expected = (step_s(1, more=STAGES) + 3 * step_s(5, more=STAGES)) / 4
    assert found.default.step_s == pytest.approx(expected)
    assert found.default.padding_share == pytest.approx(30 * 1 / (10 * 1 + 30 * 3))
    assert found.best[-1].sizes == (1, 3)
    assert (found.stages, found.drafts, found.draft) == (2, 0, None)


def test_batches_of_equal_micro_batches_share_a_size():
    """7 and 8 sequences are 4 in each of two stages; 9 and 10 are 5."""
    found = capture_search(question(more=STAGES), {7: 1, 8: 1, 9: 1, 10: 1})
    assert found.best[-1].sizes == (4, 5)
    assert found.best[-1].loss == pytest.approx(0)


NGRAMS = "speculation: {tokens: 4, length: 2}\n"
DRAFT = "speculation: {draft: qwen2.5-0.5b-instruct, tokens: 3, length: 2}\n"


def test_sizes_of_verified_steps_are_whole_sequences():
    """Four drafts: vLLM rounds 1, 2 and 4 up to 5, 8 to 10, 16 to 20, 24 to 25 and 32 to 35; 3
    sequences bring 15 tokens, in a size of 20. Each list of ours holds multiples of 5 too.
    """
    found = capture_search(question(more=NGRAMS), {1: 1, 3: 1})
    assert found.default.sizes[:5] == (5, 10, 20, 25, 35)
    expected = (step_s(1, more=NGRAMS) + step_s(3, more=NGRAMS)) / 2
    assert found.default.step_s == pytest.approx(expected)
    assert found.default.padding_share == pytest.approx(5 / (5 + 15))
    assert found.best[-1].sizes == (5, 15)
    assert "[5, 15]" in (found.paste or "")


def test_before_sizes_were_rounded_a_step_was_padded_within_a_sequence():
    """vLLM 0.10 kept 1, 2, 4, 8, 16: 15 tokens ran in a size of 16."""
    found = capture_search(question(version="0.10", more=NGRAMS), {3: 1})
    assert found.default.sizes[:5] == (1, 2, 4, 8, 16)
    assert found.default.padding_share == pytest.approx(1 / 15)


@pytest.mark.parametrize(("engine", "version"), [("vllm", "0.26"), ("sglang", "0.5.6")])
def test_drafts_replay_sizes_of_the_same_list(engine, version):
    """A step is that which verifies and three of the draft model, as plans add them up."""
    fields = {"engine": engine, "version": version, "more": DRAFT}
    found = capture_search(question(**fields), {2: 1, 7: 1})
    plans = [assemble(question(batch, **fields)).speculation for batch in (2, 7)]
    assert found.default.step_s == pytest.approx(sum(each.step_s for each in plans) / 2)
    assert found.draft == "Qwen2.5-0.5B-Instruct"


def test_sglang_counts_sequences():
    """Its list with drafts holds 1 to 8, then every other one; 9 sequences pad to 10, draft and
    all. A graph for verifying and one for drafting at each size.
    """
    found = capture_search(question(engine="sglang", version="0.5.6", more=DRAFT), {9: 1})
    assert found.default.sizes == (*range(1, 9), *range(10, 25, 2))
    assert found.default.graphs == 2 * 16
    assert found.default.padding_share == pytest.approx(1 / 9)
    assert found.paste == "--cuda-graph-bs 9"


def test_the_best_list_with_drafts_is_the_cheapest_of_all():
    """vLLM's drafts of 2 and 6 sequences need 2 and 6 tokens where verifying needs 8 and 24: every
    list of at most three multiples of 4 up to 24, one by one.
    """
    search = _Search(question(more=DRAFT), {2: 3.0, 6: 1.0})
    sizes = [size for size in search.own if size % 4 == 0]
    assert sizes == list(search.own)
    for most, found in enumerate(search.costs.among(search.own).best(3, whole=True), 1):
        lists = [
            (*each, 24)
            for count in range(most)
            for each in combinations([size for size in sizes if size < 24], count)
        ]
        assert found.cost == pytest.approx(min(search.costs.cost(each) for each in lists))


def test_a_plan_past_the_largest_captured_size_says_what_that_costs():
    """Cases of batches just past the cap: SGLang's 24 on such a card, and 97 of max_num_seqs 100,
    whose whole graphs end at 96."""
    past = assemble(question(25, engine="sglang", version="0.5.6"))
    assert any("25 lies 1 past the largest captured size" in note for note in past.notes)
    inside = assemble(question(24, engine="sglang", version="0.5.6"))
    assert not any("past the largest captured size" in note for note in inside.notes)
    grid = assemble(question(97, flags="{max_num_seqs: 100}"))
    assert any("hold the batch at 96" in note for note in grid.notes)
