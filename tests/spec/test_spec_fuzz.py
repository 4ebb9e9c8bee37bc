"""Whatever text comes in, faults come out, never a traceback."""

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from spec_samples import DEPLOYMENT, GPU, MODEL
from thoroughness import many

from planner.errors import SpecError
from planner.spec.load import load_text

SAMPLES = st.sampled_from([DEPLOYMENT, GPU, MODEL])
SIGNS = list(":-{}[]&*!|>'\"#%@`?,\t\n\r \x00\x85\u2028\ufeff")
WORDS = ["&a ", "*a", "<<: ", "!!", "---\n", ": ", "- ", "null", "1e999", "0x", "- - - "]
PIECES = st.text(max_size=5) | st.sampled_from(SIGNS + WORDS)


def load_or_faults(text):
    """Load, and check what every fault must be."""
    faults = ()
    try:
        load_text(text, "f.yaml")
    except SpecError as error:
        faults = error.faults
        assert faults
    for fault in faults:
        assert fault.message
        assert fault.where.line >= 1 or not text
        assert fault.where.column >= 1
        str(fault).encode()


@st.composite
def mutated(draw):
    """A valid text with a few characters deleted, inserted or replaced, or lines swapped."""
    text = draw(SAMPLES)
    for _ in range(draw(st.integers(1, 4))):
        start = draw(st.integers(0, len(text)))
        stop = min(len(text), start + draw(st.integers(0, 6)))
        piece = draw(PIECES) if draw(st.booleans()) else ""
        text = text[:start] + piece + text[stop:]
        if draw(st.booleans()):
            lines = text.split("\n")
            one, two = draw(st.integers(0, len(lines) - 1)), draw(st.integers(0, len(lines) - 1))
            lines[one], lines[two] = lines[two], lines[one]
            text = "\n".join(lines)
    return text


@settings(max_examples=many(80, 400), deadline=None)
@given(mutated())
def test_a_mutated_text_is_loaded_or_refused(text):
    load_or_faults(text)


@settings(max_examples=many(50, 200), deadline=None)
@given(mutated(), st.binary(min_size=1, max_size=4), st.integers(0, 500))
def test_stray_bytes_are_refused(text, stray, position):
    raw = text.encode("utf-8", "surrogatepass")
    load_or_faults(raw[:position] + stray + raw[position:])


@settings(max_examples=many(50, 200), deadline=None)
@given(st.text() | st.binary())
def test_noise_is_refused(text):
    load_or_faults(text)


@settings(max_examples=many(50, 200), deadline=None)
@given(st.lists(PIECES, max_size=40))
def test_yaml_signs_in_any_order_are_refused(pieces):
    load_or_faults("".join(pieces))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text("ab1 :'", max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text("ab", min_size=1, max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


def flow(value):
    """A value as a YAML flow text."""
    if isinstance(value, list):
        return f"[{', '.join(map(flow, value))}]"
    if isinstance(value, dict):
        return "{" + ", ".join(f"{key}: {flow(inner)}" for key, inner in value.items()) + "}"
    if isinstance(value, str):
        return "'" + value.replace("'", "''") + "'"
    return "null" if value is None else str(value).lower()


@settings(max_examples=many(80, 400), deadline=None)
@given(SAMPLES, st.data())
def test_any_value_in_any_field_is_loaded_or_refused(text, data):
    lines = [n for n, line in enumerate(text.split("\n")) if ": " in line]
    chosen = data.draw(st.sampled_from(lines))
    changed = text.split("\n")
    head = changed[chosen].split(": ")[0]
    changed[chosen] = f"{head}: {flow(data.draw(VALUES))}"
    load_or_faults("\n".join(changed))


@pytest.mark.parametrize("sample", [DEPLOYMENT, GPU, MODEL])
def test_every_prefix_of_a_text_is_loaded_or_refused(sample):
    for length in range(len(sample)):
        load_or_faults(sample[:length])
