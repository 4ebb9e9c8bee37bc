"""Two groupings compared, by hand."""

from hypothesis import given
from hypothesis import strategies as st

from planner.fusion.agreement import Counts, contracted, counted, homes, judged, reached


def test_a_kernel_that_adds_nothing_new_only_repeats():
    """add is in kernels 0 and 2; norm's statistics in 0, its end in 1."""
    found = homes([["add", "mean"], ["scale"], ["add"]], {"a": ["add"], "n": ["mean", "scale"]})
    assert found.first == {"a": (0,), "n": (0, 1)}
    assert found.again == {"a": (2,), "n": ()}


def test_operators_left_out_hand_their_edges_on():
    """a feeds a view that feeds b and c; the view is no operator of the comparison."""
    edges = [("a", "view"), ("view", "b"), ("view", "c"), ("b", "c")]
    assert contracted(edges, ["view"]) == (("a", "b"), ("a", "c"), ("b", "c"))


def test_what_passes_on_is_looked_through():
    """a feeds b, which passes on to c; c keeps what it reads from d."""
    edges = [("a", "b"), ("b", "c"), ("c", "d")]
    assert reached(edges, "a", {"b"}) == {"b", "c"}
    assert reached(edges, "a", ()) == {"b"}


def test_each_edge_is_fused_by_both_by_one_or_by_neither():
    """Theirs {a, b} {c, d}, and kernel 1 computes a again; ours {a, b, c} {d}."""
    theirs = homes([["a", "b"], ["c", "d", "a"]], {name: [name] for name in "abcd"})
    ours = {"a": 0, "b": 0, "c": 0, "d": 1}
    edges = [("a", "b"), ("b", "c"), ("c", "d"), ("a", "d")]
    alone = judged(edges, ours, theirs)
    assert list(alone.values()) == ["both", "ours", "theirs", "neither"]
    told = judged(edges, ours, theirs, again=[("a", "d")])
    assert told["a", "d"] == "both"
    assert judged(edges, ours, theirs, again=[])["a", "d"] == "theirs"


def test_precision_recall_and_f1_by_hand():
    """8 of both, 2 of ours alone, 4 of theirs alone: 8/10, 8/12, and 16/22."""
    counts = Counts(both=8, ours=2, theirs=4, neither=7)
    assert counts.precision == 0.8
    assert counts.recall == 8 / 12
    assert counts.f1 == 16 / 22
    assert (counts + counts).f1 == 32 / 44


def test_nothing_to_fuse_is_agreement():
    assert Counts(neither=3).f1 == 1


@given(st.lists(st.integers(0, 3), min_size=2, max_size=6))
def test_a_grouping_agrees_with_itself(kernels):
    names = [f"n{place}" for place in range(len(kernels))]
    ours = dict(zip(names, kernels, strict=True))
    held = [[name for name in names if ours[name] == kernel] for kernel in range(4)]
    theirs = homes(held, {name: [name] for name in names})
    edges = [(a, b) for place, a in enumerate(names) for b in names[place + 1 :]]
    found = counted(judged(edges, ours, theirs).values())
    assert (found.ours, found.theirs, found.f1) == (0, 0, 1)
