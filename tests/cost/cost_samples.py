"""Small models, a round device, and random graphs to price."""

from __future__ import annotations

from hypothesis import strategies as st

from planner.cost.types import Device
from planner.graph.build import model_graph
from planner.graph.types import ModelGraph
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.types import ModelSpec
from tests.graph.graph_samples import BF16, FP8, TINY

__all__ = ["BF16", "FP8", "TINY"]

DEVICE = Device(
    name="round",
    title="Round",
    bandwidth_bytes_per_s=1e12,
    matrix_flops_per_s={"bf16": 100e12, "fp8": 200e12},
    vector_flops_per_s=10e12,
    link_bytes_per_s=50e9,
    l2_bytes=32e6,
    visible_bytes=1e6,
    capacity_bytes=1.1e6,
)

CNN = """\
kind: model
name: cnn
title: Convolution, view, projection
inputs: {image: [batch, 3, 8, 8]}
sequence: [{block: cnn}]
blocks:
  cnn:
    name: cnn
    inputs: {image: [batch, 3, 8, 8]}
    nodes:
      conv: {op: conv2d, in: image, out: c, channels: 4, kernel: 3, padding: 1}
      flatten: {op: flatten, in: c, out: flat}
      square: {op: mul, in: [flat, flat], out: squared}
      fc: {op: linear, in: squared, out: y, features: 10}
    outputs: [y]
"""


def graph(text: str, formats: Formats = BF16, ranks: int = 1) -> ModelGraph:
    spec = load_text(text, "m.yaml", "model")
    assert isinstance(spec, ModelSpec)
    return model_graph(spec, spec.blocks, formats, ranks)


@st.composite
def random_models(draw) -> ModelGraph:
    """A block of random wiring that may follow itself: one or two tensors in, as many out."""
    width = draw(st.integers(1, 2))
    names = [f"in{i}" for i in range(width)]
    inputs = ", ".join(f"{name}: [tokens, 8]" for name in names)
    nodes = []
    for number in range(draw(st.integers(2, 7))):
        op = draw(st.sampled_from(["relu", "add", "add", "linear", "rms_norm"]))
        first, second = draw(st.sampled_from(names)), draw(st.sampled_from(names))
        read = f"[{first}, {second}]" if op == "add" else first
        features = ", features: 8" if op == "linear" else ""
        names.append(f"n{number}")
        nodes.append(f"      n{number}: {{op: {op}, in: {read}{features}}}\n")
    made = st.sampled_from(names[width:])
    outputs = draw(st.lists(made, min_size=width, max_size=width, unique=True))
    return graph(
        "kind: model\nname: r\ntitle: R\n"
        f"inputs: {{{inputs}}}\nsequence: [{{block: b, times: 2}}]\nblocks:\n  b:\n    name: b\n"
        f"    inputs: {{{inputs}}}\n    nodes:\n{''.join(nodes)}    outputs: [{', '.join(outputs)}]\n"
    )
