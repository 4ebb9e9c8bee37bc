"""What is written as YAML is read back as the same data."""

from hypothesis import given
from hypothesis import strategies as st

from planner.spec.source import compose
from planner.spec.write import written

TEXT = st.text(
    st.characters(codec="utf-8", exclude_categories=["Cc", "Cs", "Cn", "Co"]), max_size=20
).filter(lambda text: "\ufeff" not in text and "\ufffe" not in text)
TRICKY = st.sampled_from(
    ["on", "no", "1e5", "0x10", "null", "~", "", "- a", "a: b", "a #b", "?", "0.10", "2026-11-30",
     "*a", "&a", "!a", "%a", "@a", "`a", "{a", "[a", "'a", "true", ".5", "1_000", "a:", "<<", " a"]
)  # fmt: skip
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT
    | TRICKY
)
KEYS = TRICKY | st.from_regex(r"[a-z_]{1,8}", fullmatch=True)
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(KEYS, VALUES, min_size=1, max_size=5), st.lists(TEXT, max_size=2))
def test_written_data_is_read_back_as_it_was(data, comment):
    text = written(data, {"": comment, next(iter(data)): comment, "(after)": comment})
    assert compose(text, "t.yaml")[0] == data


def test_a_spec_is_written_as_people_write_it():
    data = {"kind": "model", "dims": {"hidden": 64}, "sequence": [{"block": "a", "times": 2}]}
    assert written(data, {"": ["from x"], "dims": ["read"], "end": ["last"]}) == (
        "# from x\nkind: model\n# read\ndims: {hidden: 64}\nsequence:\n"
        "  - {block: a, times: 2}\n# last\n"
    )
