"""Products with their sums over ranks as one kernel, against kernels that were measured.

Llama-3.1-70B's o_proj and down_proj on 8 ranks, that is (tokens, 8192, 1024 or 3584): FlagTree's
GEMM with all-reduce on 8 H800 (flagos-ai/FlagTree pull 861, milliseconds fused and one after
another). A product of (tokens, 7168, 1536): FlashInfer's on 8 B300 (vllm-project/vllm pull 52687,
microseconds), from where several waves of tiles run on.
"""

from __future__ import annotations

from functools import cache

import pytest

from planner.plan.assemble import step_load
from planner.plan.prepare import prepare
from planner.plan.solve import solve_ideal, solve_step
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import Question, ask

CATALOG = Catalog.standard()
H800 = {
    (1024, "o_proj"): (0.2116, 0.2703),
    (1024, "down_proj"): (0.2462, 0.3205),
    (2048, "o_proj"): (0.3378, 0.4517),
    (2048, "down_proj"): (0.3739, 0.5786),
    (8192, "o_proj"): (1.1642, 1.4001),
    (8192, "down_proj"): (1.1931, 1.8684),
    (16384, "o_proj"): (2.2514, 2.7189),
    (16384, "down_proj"): (2.2778, 3.6280),
}
B300 = {1024: (99.4, 133.9), 2048: (140.1, 195.7), 4096: (213.1, 319.6), 8192: (359.5, 481.6)}
MOST_OFF = 0.2
"""Of the ratio of both times."""
PRODUCT = """\
kind: model
name: one
title: One product
dims: {hidden: 7168, between: 12288}
sequence: [{block: first}, {block: product, times: 2}]
blocks:
  first:
    name: first
    inputs: {ids: [tokens]}
    nodes:
      embed: {op: embedding, in: ids, out: x, rows: 1024, features: hidden}
    outputs: [x]
  product:
    name: product
    inputs: {x: [tokens, hidden]}
    nodes:
      up: {op: linear, in: x, out: h, features: between, shard: column}
      act: {op: relu, in: h, out: a}
      down_proj: {op: linear, in: a, out: y, features: hidden, shard: row}
    outputs: [y]
"""


def asked(gpu: str, tokens: int) -> Question:
    """A prompt of Llama-3.1-70B on 8 ranks."""
    text = (
        f"model: llama-3.1-70b-instruct\ngpu: {gpu}\nparallel: {{tensor: 8}}\n"
        f"backend: {{name: vllm}}\nstep: {{prefill: {{batch: 1, tokens: {tokens}}}}}\n"
    )
    return ask(load_text(text, "deploy.yaml"), CATALOG)


def with_product(gpu: str, tokens: int) -> Question:
    """The same of a model of one product."""
    spec, question = load_text(PRODUCT, "m.yaml", "model"), asked(gpu, tokens)
    return Question(question.deployment, spec, spec.blocks, question.gpu, question.backend)


@cache
def times(question: Question) -> dict[frozenset[str], float]:
    """Seconds of every group of a layer, as a node of a graph."""
    prepared = prepare(question)
    solved = solve_step(prepared, step_load(question.deployment))
    solve_ideal(solved)
    problem = solved.solver.problem("ideal", solved.decision.mode)
    found = {}
    for number, slot in enumerate(problem.layout.slots):
        if slot.kinds == (1,):
            priced = problem.priced(number)
            nodes = frozenset(name for _, name in slot.group.nodes)
            found[nodes] = priced.estimate.core_s + priced.floor_s(solved.fixed, in_graph=True)
    return found


def ratio(question: Question, product: str) -> float:
    """Of one kernel to one after another."""
    found, reduce = times(question), f"{product}.all_reduce"
    apart = found[frozenset([product])] + found[frozenset([reduce])]
    return found[frozenset([product, reduce])] / apart


@pytest.mark.parametrize(("tokens", "product"), H800)
def test_fused_sums_on_h800(tokens, product):
    fused, apart = H800[tokens, product]
    found = ratio(asked("h800-sxm", tokens), product)
    assert found == pytest.approx(fused / apart, rel=MOST_OFF)


@pytest.mark.parametrize("tokens", B300)
def test_fused_sums_on_b300(tokens):
    fused, apart = B300[tokens]
    found = ratio(with_product("b300-sxm", tokens), "down_proj")
    assert found == pytest.approx(fused / apart, rel=MOST_OFF)
