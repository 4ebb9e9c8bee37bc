"""A machine with round numbers and constants for tests of kernel models."""

import math

from hypothesis import strategies as st

from planner.cost.types import Device


def machine(link=100e9, l2=10e6):
    """1 TB/s, 100 TFLOP/s in BF16 and twice that in FP8, 100 multiprocessors, 100 GB/s links."""
    return Device(
        name="round",
        title="Round numbers",
        bandwidth_bytes_per_s=1e12,
        matrix_flops_per_s={"bf16": 100e12, "fp8": 200e12},
        vector_flops_per_s=10e12,
        link_bytes_per_s=link,
        l2_bytes=l2,
        visible_bytes=80e9,
        capacity_bytes=80e9,
        multiprocessors=100,
    )


def typical(variant, **given):
    """The starts of a variant's constants, some replaced."""
    return {word.name: word.start for word in variant.constants} | given


@st.composite
def drawn_constants(draw, variant):
    """Any constants within their bounds."""
    values = {}
    for word in variant.constants:
        place = draw(st.floats(math.log(word.low), math.log(word.high)))
        values[word.name] = math.exp(place)
    return values
