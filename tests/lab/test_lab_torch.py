"""The lab with torch, for real, on this CPU: small sizes, little time. `make lab` installs torch."""

import importlib.util
import json
import subprocess
import sys
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

import planner
from planner.graph.build import model_graph
from planner.graph.program import program
from planner.importers import read as read_run
from planner.lab import collective, job, launch, machine, run
from planner.lab.bench import Bench
from planner.lab.cold import Pool
from planner.lab.job import Job
from planner.lab.journal import NAME, Journal, read
from planner.lab.laps import WANTED
from planner.lab.launch import launched
from planner.lab.step import TRACE, Step
from planner.lab.timing import CpuStopwatch
from planner.ops.types import Formats
from planner.spec.load import load_text
from planner.spec.question import blocks_of

pytestmark = [
    pytest.mark.torch,
    pytest.mark.skipif(
        importlib.util.find_spec("torch") is None, reason="torch is not installed; `make lab` does"
    ),
]

TINY = """\
kind: model
name: tiny
title: Tiny
dims: {hidden: 32, heads: 4, kv_heads: 2, head_dim: 8, intermediate: 48, vocab: 96}
options: {qkv_bias: true, tied: true}
weights: bf16
sequence:
  - {block: embedding}
  - {block: decoder-swiglu, times: 2, label: layer}
  - {block: lm-head}
"""


@pytest.fixture
def step_program():
    """A decoder of two layers as the lab's program: batch 3, context 5."""
    from planner.spec.catalog import Catalog

    model = load_text(TINY.encode(), "tiny.yaml", "model")
    formats = Formats("bf16", "bf16", "bf16", "bf16")
    return program(model_graph(model, blocks_of(model, Catalog.standard()), formats), 3, 5)


@pytest.fixture
def tiny_job(step_program):
    """A job of a second."""
    context = {"model": "tiny", "step.decode.batch": 3, "step.decode.context": 5}
    shapes = ((32, 32, True), (32, 48, False))
    return Job("cpu", "bf16", shapes, ((4, 2, 8),), 32, step_program, context, (1, 8), 1.0)


@pytest.fixture
def bench(tiny_job, tmp_path):
    """The job's surroundings in FP32, so that results can be checked."""
    torch = machine.require_torch()
    torch.manual_seed(7)
    from dataclasses import replace

    exact = replace(tiny_job, dtype="fp32")
    found = machine.machine(torch, "cpu")
    journal = Journal(tmp_path / "bench", exact, found)
    pool = Pool(torch, torch.float32, "cpu")
    return Bench(torch, exact, found, CpuStopwatch(), journal, lambda _line: None, pool)


def test_the_step_computes_what_its_graph_says(bench, step_program):
    """Against NumPy, operator by operator, from the very weights that the step owns."""
    step = Step(bench, step_program)
    with bench.torch.inference_mode():
        (ids,) = step.run()
    assert ids.shape == (3,)
    assert ids.tolist() == reference(step, step_program)


def reference(step, said):
    """Greedy next tokens by plain arithmetic in double precision."""
    values = [np.zeros(3, int)]
    for block, nodes in step._blocks:
        at_hand = dict(zip(block["inputs"], values, strict=True))
        for node, function in nodes:
            owned = {
                name: cell.cell_contents
                for name, cell in zip(
                    function.__code__.co_freevars, function.__closure__ or (), strict=True
                )
            }
            inputs = [at_hand[name] for name in node["in"]]
            found = REFERENCE[node["op"]](node, owned, inputs, said)
            at_hand.update(zip(node["out"], found, strict=True))
        values = [at_hand[name] for name in block["outputs"]]
    return values[0].tolist()


def array(tensor):
    return tensor.double().numpy()


def linear(_node, owned, inputs, _said):
    out = inputs[0] @ array(owned["weight"]).T
    return (out if owned["bias"] is None else out + array(owned["bias"]),)


def rms_norm(_node, owned, inputs, _said):
    x = inputs[0]
    return (x / np.sqrt((x**2).mean(-1, keepdims=True) + 1e-6) * array(owned["weight"]),)


def rope(node, _owned, inputs, said):
    half = node["head_dim"] // 2
    angle = (said["context"] - 1) * 10_000.0 ** (-np.arange(half) / half)
    turned = []
    for x in inputs:
        heads = x.reshape(3, -1, node["head_dim"])
        a, b = heads[..., :half], heads[..., half:]
        both = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
        turned.append(np.concatenate(both, -1).reshape(x.shape))
    return tuple(turned)


def kv_cache_write(node, owned, inputs, _said):
    caches = [array(owned[name]).copy() for name in ("keys", "values")]
    for cache, new in zip(caches, inputs, strict=True):
        cache[:, :, -1] = new.reshape(3, node["kv_heads"], node["head_dim"])
    return (tuple(caches),)


def attention(node, _owned, inputs, _said):
    query = inputs[0].reshape(3, node["heads"], node["head_dim"])
    group = node["heads"] // node["kv_heads"]
    keys, values = (np.repeat(each, group, 1) for each in inputs[1])
    scores = np.einsum("bhd,bhtd->bht", query, keys) / np.sqrt(node["head_dim"])
    share = np.exp(scores - scores.max(-1, keepdims=True))
    share /= share.sum(-1, keepdims=True)
    return (np.einsum("bht,bhtd->bhd", share, values).reshape(3, -1),)


REFERENCE = {
    "embedding": lambda _n, owned, inputs, _s: (array(owned["weight"])[inputs[0]],),
    "linear": linear,
    "rms_norm": rms_norm,
    "rope": rope,
    "kv_cache_write": kv_cache_write,
    "attention": attention,
    "add": lambda _n, _o, inputs, _s: (inputs[0] + inputs[1],),
    "mul": lambda _n, _o, inputs, _s: (inputs[0] * inputs[1],),
    "silu": lambda _n, _o, inputs, _s: (inputs[0] / (1 + np.exp(-inputs[0])),),
    "select_last": lambda _n, _o, inputs, _s: (inputs[0],),
    "sampling": lambda _n, _o, inputs, _s: (inputs[0].argmax(-1),),
}


def test_cold_operands_lie_apart_and_are_not_zero(bench):
    """Three groups of a 2 × 5 and a 70: six stretches of memory, each on a line of its own."""
    groups = bench.pool.cut(3, (2, 5), (70,))
    places = sorted((t.data_ptr(), t.numel() * 4) for group in groups for t in group)
    assert [tuple(t.shape) for t in groups[0]] == [(2, 5), (70,)]
    assert all(a + size <= b for (a, size), (b, _) in pairwise(places))
    assert all(t.abs().max() > 0 for group in groups for t in group)
    larger = bench.pool.cut(1, (3 * 2**20,))[0][0]  # more than the block of numbers that repeats
    assert larger[-1] != 0


def test_kernels_of_a_call_are_counted_without_views(bench):
    """t() and view() look at the same memory; linear with a bias is one product, add one kernel."""
    torch = bench.torch
    x, weight, bias = bench.random(3, 4), bench.random(5, 4), bench.random(5)

    def call():
        y = torch.nn.functional.linear(x.view(3, 4), weight, bias)
        y.view(5, 3).t().add_(1)

    assert launched(call) == 2


def test_a_kernel_of_a_step_takes_longer_to_call_than_one_of_a_loop(bench):
    """Python runs between the kernels of a step: microseconds, and parts of a second where a
    machine is busy.
    """
    (point,) = launch.measure(bench, 0.2)
    assert 0 < point.values["launch_s"] < 0.1
    assert 0 < point.values["call_s"] < 0.1


def test_a_lab_run_measures_everything_and_goes_on_where_it_was(tiny_job, tmp_path):
    """Every kind of point is there; a second run measures nothing again."""
    run.run(tiny_job, tmp_path, force=True)
    _, points = read(tmp_path / NAME)
    kinds = {point.kind for point in points}
    assert kinds == {"sentinel", "launch", "stream", "gemm", "vector", "attention", "step"}
    assert all(v > 0 for p in points for k, v in p.values.items() if k in {"median_s", "launch_s"})
    laps = {point.lap for point in points}
    assert laps == set(range(len(laps)))
    assert len(laps) >= WANTED
    before = (tmp_path / NAME).read_bytes()
    run.run(tiny_job, tmp_path, force=True)
    assert (tmp_path / NAME).read_bytes() == before


def test_what_it_leaves_is_a_run_and_a_trace_that_can_be_recorded(tiny_job, tmp_path):
    run.run(tiny_job, tmp_path, force=True)
    (step,) = read_run((tmp_path / run.RUN).read_bytes(), run.RUN)
    assert len(step.samples["step"]) >= 3
    assert step.context["model"] == "tiny"
    (trace,) = read_run((tmp_path / TRACE).read_bytes(), TRACE)
    names = {kernel.name for kernel in trace.kernels}
    assert {"aten::addmm", "aten::mm"} & names
    assert trace.metrics[0].name == "step"


def test_a_busy_machine_is_refused_unless_told_otherwise(tiny_job, tmp_path, monkeypatch):
    monkeypatch.setattr(run, "disturbance", lambda _device: "other processes use 80% of the CPU")
    with pytest.raises(run.LabRefused, match="not free"):
        run.run(tiny_job, tmp_path)
    notes = run.run(tiny_job, tmp_path, force=True)
    assert "other processes use 80%" in notes[0]
    written = json.loads((tmp_path / run.RUN).read_text())
    assert written["notes"][0] == notes[0]


def test_processes_reduce_together(bench):
    """Two of them by gloo: a time for each size, longer than nothing."""
    points = list(collective.over(bench, 2, (4096, 65536), 0.4))
    assert [point.sizes for point in points] == [
        {"bytes": 4096, "ranks": 2},
        {"bytes": 65536, "ranks": 2},
    ]
    assert all(point.values["median_s"] > 0 for point in points)


ALONE = """\
import sys
from itertools import pairwise
class Only:
    def find_spec(self, name, path=None, target=None):
        hidden = {"pydantic", "yaml", "sqlalchemy", "click", "rich", "scipy"}
        if name.split(".")[0] in hidden or name.startswith(("planner.spec", "planner.plan")):
            raise ModuleNotFoundError(f"{name} is not in this image")
sys.meta_path.insert(0, Only())
sys.argv = ["planner.lab", *sys.argv[1:]]
import runpy
runpy.run_module("planner.lab", run_name="__main__")
"""


def test_the_lab_runs_where_there_is_torch_and_numpy_alone(tiny_job, tmp_path):
    file = tmp_path / "job.json"
    file.write_text(job.to_json(tiny_job))
    root = Path(planner.__file__).parents[1]
    words = [sys.executable, "-c", ALONE, str(file), str(tmp_path / "out"), "--force"]
    done = subprocess.run(words, capture_output=True, text=True, cwd=root, check=False)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "out" / run.RUN).exists()
