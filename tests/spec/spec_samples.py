"""Texts that several tests of the spec layer start from. Figures are round, not of any product."""

DEPLOYMENT = """\
name: tiny
model: qwen2.5-7b-instruct
gpu: rtx-4090
parallel: {tensor: 1}
precision:
  weights: bf16
  kv_cache: fp8
backend:
  name: vllm
  version: "0.26"
  flags: {enforce_eager: false, max_num_seqs: 64}
memory: {utilization: 0.9}
step:
  decode:
    batch: 16
    context: 4096
host: {launch: 4.5 us}
price: 0.69 USD/h
"""

GPU = """\
kind: gpu
name: round-gpu
title: Round GPU
about: A machine of round numbers.
sources:
  sheet: a datasheet
vendor: nvidia
architecture: ada
capability: 8.9
memory:
  type: GDDR6X
  capacity: {value: 24 GB, source: sheet}
  visible: 24 GiB
  bandwidth:
    value: 1 TB/s
    source: sheet
    note: round
l2: 72 MiB
multiprocessors: 128
shared_memory: 100 KiB
clock: 2.5 GHz
power: {value: 450 W, source: sheet}
matrix:
  bf16: 160 TFLOP/s
  fp8: {value: 320 TFLOP/s, source: sheet}
vector: 80 TFLOP/s
link:
  type: PCIe4 x16
  bandwidth: 32 GB/s
  peer_to_peer: false
notes:
- one
- two
"""

MODEL = """\
kind: model
name: two-blocks
title: Two blocks
dims:
  hidden: 8
  heads: 2
  head_dim: hidden / heads
options: {bias: true, window: null}
sequence:
  - {block: embedding}
  - repeat: 3
    blocks:
      - block: local
        times: 2
        with: {window: 4}
      - {block: local}
blocks:
  local:
    name: local
    inputs: {x: [tokens, hidden]}
    nodes:
      proj: {op: linear, in: x, out: y, features: hidden * 2}
      sum:
        op: add
        in: [x, y]
    outputs: [sum]
weights: bf16
"""
