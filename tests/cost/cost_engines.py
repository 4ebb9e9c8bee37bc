"""A small engine of round figures."""

from planner.cost.engine import Engine, resolve
from planner.ops.types import Formats
from planner.spec.load import load_text

BF16 = Formats(weights="bf16", matmul="bf16", activations="bf16", kv_cache="bf16")

GPU = """\
kind: gpu
name: round
title: Round
vendor: nvidia
architecture: ada
memory: {type: HBM, capacity: 1.1 MB, visible: 1 MB, bandwidth: 1 TB/s}
matrix: {bf16: 100 TFLOP/s}
vector: 10 TFLOP/s
"""

BACKEND = """\
kind: backend
name: small
title: Small engine
versions: ["0.9", "0.10", "1.0"]
flags:
  max_tokens: {type: int, about: tokens of a step, default: [{value: 1000}]}
  max_seqs: {type: int, about: sequences of a step, default: [{when: {version: "< 0.10"}, value: 20}, {value: 10}]}
  eager: {type: bool, about: no graphs, default: [{value: false}]}
  share: {type: float, about: a share, default: [{value: 0.5}]}
  mode: {type: str, about: a mode, default: [{value: full}], choices: [full, piecewise, none]}
capture:
  modes: [{mode: none}]
host:
  launch: [{value: 5 us}]
  replay: [{value: 5 us}]
  kernel: [{value: 1 us}]
  graph_node: [{value: 1 us}]
memory:
  utilization: [{value: 0.9}]
  runtime: [{value: 10 kB}]
  graphs: [{when: {flag.eager: true}, value: 0 B}, {value: 20 kB}]
  graphs_inside: [{when: {version: "< 1.0"}, value: false}, {value: true}]
  profile_tokens: [{value: max_tokens}]
  profile_sequences: [{value: max_seqs}]
  kv_block: 16
"""


def engine(version: str | None = None, backend: str = BACKEND, **flags) -> Engine:
    deployment = load_text(DEPLOYMENT, "d.yaml", "deployment")
    asked = deployment.backend.model_copy(update={"version": version, "flags": flags})
    deployment = deployment.model_copy(update={"backend": asked})
    spec, gpu = load_text(backend, "b.yaml", "backend"), load_text(GPU, "g.yaml", "gpu")
    return resolve(deployment, spec, gpu, BF16, "decode")


DEPLOYMENT = """\
model: tiny
gpu: round
backend: {name: small}
step: {decode: {batch: 1, context: 1}}
"""
