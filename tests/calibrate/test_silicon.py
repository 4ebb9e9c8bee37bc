"""Public serving measurements are read as they stand, and faults of their labels found by rule."""

import hashlib
from dataclasses import replace

import pytest
from silicon_samples import GENERATED, INFERENCEX, cells, read

from planner.calibrate import silicon
from planner.calibrate.silicon import Split
from planner.calibrate.silicon_lint import lint
from planner.errors import UsageError

BLOCKS = "MiniMaxAI/MiniMax-M2.5"


@pytest.fixture
def marks(tmp_path):
    """The marks of some rows, in their order, and how their splits are read."""

    def _marks(*rows):
        return [(each.flags, each.split) for each in lint(read(tmp_path, *rows))]

    return _marks


def split(tensor, data=1, moe_tensor=1, expert=1):
    return Split(tensor, data, moe_tensor, expert)


def labels(tp, dp, moe_tp, moe_ep):
    names = ("tp_size", "attention_dp_size", "moe_tp_size", "moe_ep_size")
    return dict(zip(names, (tp, dp, moe_tp, moe_ep), strict=True))


# --- reading -----------------------------------------------------------------------------------


def test_only_runs_with_one_pool_are_read(tmp_path):
    """Disaggregated rows have two of everything."""
    (row,) = read(tmp_path, cells(id="a"), cells(id="b", mode="disagg"))
    assert (row.id, row.input, row.output, row.batch, row.tpot_ms) == ("a", 1024, 128, 8, 10.0)


def test_a_split_that_is_not_there_is_one_rank(tmp_path):
    """Both nothing and nought stand for it."""
    first, second = read(tmp_path, cells(**labels(2, "", 0, 0)), cells(**labels(2, 0, 1, 1)))
    assert first.split == second.split == split(2)


def test_halves_go_by_the_hash_of_the_id(tmp_path):
    """The last bit of the SHA-1, read as one large number."""
    rows = read(tmp_path, *(cells(id=f"row{n}") for n in range(20)))
    for row in rows:
        number = int(hashlib.sha1(row.id.encode()).hexdigest(), 16)
        assert row.half == ("odd" if number % 2 else "even")
    assert {row.half for row in rows} == {"even", "odd"}


def test_whose_run_it_is_follows_from_the_source(tmp_path):
    """Exports of InferenceX are files of a day, or a dump of its database; others have a path."""
    sources = (INFERENCEX, "db-dump/2026-04-27; config_id=1; silicon_concurrency=8", cells()["id"])
    given = (*sources, GENERATED, cells()["silicon_data_source"])
    rows = read(tmp_path, *(cells(silicon_data_source=source) for source in given))
    families = ["InferenceX", "InferenceX", "other", "aiconfigurator", "other"]
    assert [row.family for row in rows] == families


def test_drafts_that_no_label_tells_are_marked(marks):
    """By the image, which only the drafting scripts have."""
    row = cells(
        backend="trtllm",
        backend_version="1.2.0rc6.post3",
        model_path="deepseek-ai/DeepSeek-R1",
        silicon_data_source=INFERENCEX,
    )
    assert "drafts" in marks(row)[0][0]
    assert "drafts" not in marks({**row, "backend_version": "1.2.0rc6.post2"})[0][0]


def test_of_two_scripts_under_one_image_the_quicker_drafts(marks):
    """dsr1_fp8_b200.sh and its sibling ran on one day; the plain one asks for 64 users at most."""
    same = {
        "backend": "sglang",
        "backend_version": "0.5.9",
        "model_path": "deepseek-ai/DeepSeek-R1",
        "system": "b200_sxm",
        "gemm_quant_mode": "fp8_block",
        "tp_size": 8,
        "moe_tp_size": 8,
        "silicon_data_source": INFERENCEX,
    }
    rows = (
        cells(**same, silicon_tpot_ms=8.6),
        cells(**same, silicon_tpot_ms=5.8),
        cells(**same, batch_size=16),
        cells(**same, batch_size=128),
        cells(**{**same, "system": "h200_sxm"}, batch_size=128),
    )
    found = ["drafts" in flags for flags, _ in marks(*rows)]
    assert found == [False, True, False, True, False]


@pytest.mark.parametrize(
    ("experts", "version", "system", "drafts"),
    [
        (1, "0.5.9", "b200_sxm", True),
        (1, "0.5.9", "b300_sxm", True),
        (4, "0.5.9", "b200_sxm", False),  # pull 804: the plain script shares out experts on four
        (1, "0.5.10.post1", "b300_sxm", False),
        (1, "0.5.9", "h200_sxm", False),
    ],
)
def test_half_a_board_without_expert_ranks_drafts(marks, experts, version, system, drafts):
    """Qwen3.5 in FP8, of InferenceX's pulls 804 and 1027."""
    row = cells(
        backend="sglang",
        backend_version=version,
        model_path="Qwen/Qwen3.5-397B-A17B",
        system=system,
        gemm_quant_mode="fp8_block",
        tp_size=4,
        moe_tp_size=4 // experts,
        moe_ep_size=experts,
        silicon_data_source=INFERENCEX,
    )
    assert ("drafts" in marks(row)[0][0]) == drafts


@pytest.mark.parametrize(
    ("version", "day", "model", "longer"),
    [
        ("0.5.10.post1", "2026-04-17", "deepseek-ai/DeepSeek-V3", True),
        ("0.5.9", "2026-03-25", "deepseek-ai/DeepSeek-V3", False),  # transformers 4
        ("0.5.10.post1", "2026-05-15", "deepseek-ai/DeepSeek-V3", False),  # pull 1381
        ("0.5.10.post1", "2026-04-17", "Qwen/Qwen3.5-397B-A17B", False),
        ("nightly-dev", "2026-04-17", "deepseek-ai/DeepSeek-V3", False),  # says no version
    ],
)
def test_text_that_the_server_splits_otherwise_is_longer(tmp_path, version, day, model, longer):
    """InferenceX's pull 937: 7,140 tokens of the client were 35,921 of the server, so that 1,024
    are 1,024 · 5.031 = 5,151.7.
    """
    row = cells(
        backend="sglang",
        backend_version=version,
        model_path=model,
        silicon_data_source=INFERENCEX,
        day=day,
    )
    (found,) = lint(read(tmp_path, row))
    assert ("tokens" in found.flags) == longer
    assert found.input == (5152 if longer else 1024)


def test_a_missing_column_names_it(tmp_path):
    """Another release may spell its columns otherwise."""
    file = tmp_path / silicon.FILE
    file.write_text("id,mode\na,agg\n", encoding="utf-8")
    with pytest.raises(UsageError, match="has no column silicon_data_source, backend"):
        silicon.read(file)


def test_a_figure_that_is_no_number_names_its_line(tmp_path):
    """The second row of the file is on its third line."""
    with pytest.raises(UsageError, match=r"\.csv:3: .*'fast'"):
        read(tmp_path, cells(), cells(silicon_tpot_ms="fast"))


# --- users -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("batch", "data", "stated", "users", "marked"),
    [
        (8, 1, 8, 8, False),
        (8, 4, 32, 32, False),  # 8 on each of 4 ranks
        (8, 1, 32, 8, True),  # four servers behind one router, 8 users each
        (8, 1, 12, 12, True),  # no whole number of servers: the statement counts
    ],
)
def test_users_are_those_of_one_server(tmp_path, *, batch, data, stated, users, marked):
    """Batch × ranks; where the statement is another number, a mark."""
    row = cells(batch_size=batch, users=stated, **labels(1, data, 1, data))
    (found,) = lint(read(tmp_path, row))
    assert found.row.concurrency == users
    assert ("concurrency" in found.flags) is marked


# --- rules -------------------------------------------------------------------------------------


def test_a_sound_row_has_no_mark(marks):
    """8 GPUs, 8 users."""
    assert marks(cells(**labels(8, 1, 8, 1))) == [((), split(8, moe_tensor=8))]


def test_the_id_says_what_a_product_of_labels_was_made_of(marks):
    """8 GPUs × 8 expert ranks written as 64: the id has tp8_ep8."""
    row = cells(id="m_tp8_ep8_1", silicon_data_source=INFERENCEX, **labels(64, 1, 8, 8))
    assert marks(row) == [(("gpus", "split"), split(8, expert=8))]


def test_an_id_that_agrees_changes_nothing(marks):
    """8 ranks of data-parallel attention are the 8 GPUs that the id states."""
    row = cells(id="m_tp8_ep8_1", silicon_data_source=INFERENCEX, users=64, **labels(1, 8, 1, 8))
    assert marks(row) == [((), split(1, 8, 1, 8))]


def test_labels_like_those_of_an_id_that_contradicts_are_read_alike(marks):
    """4 GPUs are possible, but the same labels were made of 2 × 2 elsewhere."""
    wrong = labels(4, 1, 2, 2)
    known = cells(id="m_tp2_ep2_1", silicon_data_source=INFERENCEX, **wrong)
    silent = cells(id="cfg7", silicon_data_source=INFERENCEX, silicon_tpot_ms=11, **wrong)
    other = cells(id="cfg8", silicon_tpot_ms=12, **wrong)
    assert marks(known, silent, other) == [
        (("split",), split(2, expert=2)),
        (("split",), split(2, expert=2)),
        ((), split(4, moe_tensor=2, expert=2)),
    ]


@pytest.mark.parametrize(
    ("wrong", "meant"),
    [
        (labels(64, 1, 8, 8), split(8, expert=8)),
        (labels(1, 16, 4, 4), split(1, 4, 1, 4)),
        (labels(4, 4, 1, 16), split(1, 4, 1, 4)),
    ],
)
def test_more_gpus_than_a_board_has_are_read_by_their_factors(marks, wrong, meant):
    """16 or 64 GPUs on a board of 8, with no word of it in the id."""
    row = cells(id="cfg1", users=8 * int(wrong["attention_dp_size"]), **wrong)
    assert marks(row) == [(("gpus", "split"), meant)]


def test_more_gpus_than_there_are_and_no_factors_is_only_marked(marks):
    """12 × 1 says nothing of what was meant; a rack of 72 has them."""
    board = cells(**labels(12, 1, 12, 1))
    rack = cells(system="gb200", **labels(12, 1, 12, 1))
    assert [flags for flags, _ in marks(board, rack)] == [("gpus",), ()]


def test_experts_cut_within_a_block_of_scales_are_whole_on_each_rank(marks):
    """1,536 / 8 = 192 is no multiple of 128, 1,536 / 4 = 384 is; NVFP4 has blocks of 16."""
    eight = cells(model_path=BLOCKS, gemm_quant_mode="fp8", **labels(8, 1, 8, 1))
    four = cells(model_path=BLOCKS, gemm_quant_mode="fp8", **labels(4, 1, 4, 1))
    narrow = cells(model_path=BLOCKS, gemm_quant_mode="nvfp4", **labels(8, 1, 8, 1))
    narrow, four = {**narrow, "silicon_tpot_ms": 11}, {**four, "silicon_tpot_ms": 12}
    found = marks(eight, four, narrow)
    assert found[0] == (("blocks",), split(8, expert=8))
    assert [flags for flags, _ in found[1:]] == [(), ()]


def test_of_rows_with_the_same_figures_the_soundest_is_kept(marks):
    """Three exports of one run: the one whose labels need no reading stays."""
    first = cells(id="a_tp8_ep8_1", silicon_data_source=INFERENCEX, **labels(64, 1, 8, 8))
    second = cells(id="b_tp8_ep8_2", silicon_data_source=INFERENCEX, **labels(8, 1, 1, 8))
    third = {**first, "id": "c_tp8_ep8_3", "model_path": "another name"}
    found = [flags for flags, _ in marks(first, second, third)]
    assert found == [("duplicate", "gpus", "split"), (), ("duplicate", "gpus", "split")]


@pytest.mark.parametrize("change", [{"silicon_ttft_ms": 101}, {"isl": 512}, {"system": "b200_sxm"}])
def test_other_figures_lengths_or_gpus_are_no_duplicate(marks, change):
    """One of two figures alone may be the same by chance."""
    assert [flags for flags, _ in marks(cells(), {**cells(), **change})] == [(), ()]


def test_a_spike_stands_above_both_neighbours_in_users(marks):
    """10, 31, 20 ms at 4, 8 and 16 users: 31 > 1.5 × 20. Other systems are no neighbours."""
    rows = [
        cells(batch_size=users, silicon_tpot_ms=tpot)
        for users, tpot in ((4, 10.0), (16, 20.0), (8, 31.0))
    ]
    far = cells(system="h200_sxm", batch_size=8, silicon_tpot_ms=99.0)
    assert [flags for flags, _ in marks(*rows, far)] == [(), (), ("spike",), ()]


def test_a_dip_stands_below_both_neighbours_in_users(marks):
    """10, 6, 12 ms: 6 × 1.5 = 9 < 10."""
    rows = [
        cells(batch_size=users, silicon_tpot_ms=tpot)
        for users, tpot in ((4, 10.0), (8, 6.0), (16, 12.0))
    ]
    assert [flags for flags, _ in marks(*rows)] == [(), ("dip",), ()]


@pytest.mark.parametrize(
    ("change", "mark"),
    [({"batch_size": 1024}, "large-batch"), ({"silicon_tpot_ms": 0}, "impossible")],
)
def test_what_one_row_tells_alone_is_marked(marks, change, mark):
    """1,024 sequences, and a time of nought."""
    assert marks(cells(**change))[0][0] == (mark,)


@pytest.mark.parametrize(
    ("change", "clean"),
    [
        ({}, True),
        ({"batch_size": 1024}, False),
        ({"users": 16}, False),
        (labels(16, 1, 16, 1), False),
        ({"users": 16, **labels(1, 2, 1, 2)}, False),
    ],
)
def test_clean_rows_are_those_peers_are_compared_on(tmp_path, change, clean):
    """Up to 8 GPUs without data-parallel attention, batch = users < 1,024, told once."""
    (found,) = lint(read(tmp_path, cells(**change)))
    assert found.clean is clean
    assert not replace(found, flags=("duplicate",)).clean
