"""The engine of a deployment: its version, its flags, and the facts that conditions ask."""

import pytest
from cost_engines import BACKEND, BF16, GPU, engine

from planner.cost.engine import resolve
from planner.errors import SpecError
from planner.spec.load import load_text


@pytest.mark.parametrize(
    ("asked", "used", "described"),
    [
        (None, "1.0", True),
        ("1.0", "1.0", True),
        ("1.0.3", "1.0", True),
        ("0.10", "0.10", True),
        ("0.10.2", "0.10", True),
        ("0.9.0", "0.9", True),
        ("0.12", "0.10", False),
        ("1.5", "1.0", False),
        ("2.0", "1.0", False),
        ("0.8", "0.9", False),
    ],
)
def test_the_nearest_described_version_stands_in_and_says_so(asked, used, described):
    found = engine(asked)
    assert found.version == found.facts["version"] == used
    assert (found.notes == ()) == described
    if not described:
        [note] = found.notes
        assert note == (
            f"Small engine {asked} is not described: its nearest described version {used} stands in "
            "(described: 0.9, 0.10, 1.0)"
        )


def test_defaults_follow_the_version_and_flags_override_them():
    assert engine("0.9").flags["max_seqs"] == 20
    assert engine("1.0").flags["max_seqs"] == 10
    assert engine("0.9", max_seqs=7).flags["max_seqs"] == 7


def test_whole_flags_are_what_expressions_can_count_with():
    assert engine(eager=True).whole_flags == {
        "max_tokens": 1000,
        "max_seqs": 10,
        "verified": 1,  # tokens of each sequence in a decode step
    }
    assert engine(max_seqs=0).whole_flags == {"max_tokens": 1000, "verified": 1}


def test_turning_flags_leaves_the_engine_as_it_was():
    before = engine()
    after = before.with_flags({"eager": True})
    assert (before.flags["eager"], after.flags["eager"]) == (False, True)
    assert after.spec is before.spec
    assert before.with_flags({"eager": True}) is after
    assert before.with_flags({"eager": 1}).flags["eager"] == 1
    assert before.with_flags({"eager": 1}) is not after


def test_facts_tell_gpu_formats_and_step():
    facts = engine().facts
    assert facts["gpu"] == "round"
    assert facts["memory_gib"] == pytest.approx(1e6 / 2**30)
    assert facts["tensor"] == 1
    assert facts["kv_cache"] == "bf16"
    assert facts["step"] == "decode"
    assert facts["peer_to_peer"] is False  # no link described


@pytest.mark.parametrize(
    ("flags", "sentence"),
    [
        (
            "max_token: 5",
            "Small engine has no described flag 'max_token' (did you mean 'max_tokens'?)",
        ),
        (
            "zzz: 5",
            "Small engine has no described flag 'zzz' (known: max_tokens, max_seqs, eager, share, mode)",
        ),
        ("max_tokens: many", "expected a value of type int, got 'many'"),
        ("max_tokens: true", "expected a value of type int, got True"),
        ("max_tokens: -1", "must not be negative, got -1"),
        ("eager: 1", "expected a value of type bool, got 1"),
        ("mode: ful", "expected one of full, piecewise, none; got 'ful' (did you mean 'full'?)"),
    ],
)
def test_a_flag_that_cannot_be_is_refused_at_its_place(flags, sentence):
    text = f"model: m\ngpu: g\nbackend:\n  name: small\n  flags:\n    {flags}\nstep: {{decode: {{batch: 1, context: 1}}}}\n"
    deployment = load_text(text, "d.yaml", "deployment")
    with pytest.raises(SpecError) as error:
        resolve(deployment, load_text(BACKEND, "b.yaml"), load_text(GPU, "g.yaml"), BF16, "decode")
    [fault] = error.value.faults
    assert str(fault).splitlines()[0].startswith("d.yaml:6:")
    assert str(fault).splitlines()[0].endswith(sentence)


def test_a_share_may_be_written_as_a_whole_number():
    assert engine(share=1).flags["share"] == 1
