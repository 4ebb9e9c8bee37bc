"""Kernels that a user timed himself: read, fitted, written, and used in a plan."""

from __future__ import annotations

import numpy as np
import pytest

from planner.calibrate import kernel_csv
from planner.calibrate.devices import gpu_device
from planner.calibrate.families import family
from planner.calibrate.run import run_fit
from planner.calibrate.types import Pick
from planner.cost.kernels.gemm import MODEL, GemmShape
from planner.errors import SpecError
from planner.plan.assemble import assemble
from planner.spec.catalog import Catalog
from planner.spec.load import load_text
from planner.spec.question import ask

HEADER = "family,variant,gpu,engine,version,rows,depth,features,time_us\n"


def write(path, text):
    path.write_text(text)
    return path


def made(path, gpu="rtx-4090", slow=1.0):
    """Two hundred GEMMs that the model itself times, with constants a fit must find again."""
    rng = np.random.default_rng(1)
    values = {c.name: c.start for c in MODEL.variants["bf16"].constants} | {"floor_s": 5e-6}
    values["dram_share"] = 0.7
    lines = []
    for _ in range(200):
        rows, depth, features = (
            int(2 ** rng.uniform(low, high)) for low, high in ((0, 12), (9, 14), (9, 14))
        )
        time_s = MODEL.time_s("bf16", GemmShape(rows, depth, features), gpu_device(gpu), values)
        time_us = float(time_s) * slow * 1e6
        lines.append(f"gemm,bf16,{gpu},vllm,0.26,{rows},{depth},{features},{time_us}\n")
    return write(path, HEADER + "".join(lines))


def test_a_file_of_own_kernels_becomes_rows(tmp_path):
    file = write(tmp_path / "k.csv", HEADER + "gemm,bf16,rtx-4090,vllm,0.26,16,4096,6144,60.5\n")
    (rows,) = kernel_csv.tables(file, family("gemm"), Pick())
    assert (rows.gpu, rows.engine, rows.variant, rows.version) == (
        "rtx-4090",
        "vllm",
        "bf16",
        "0.26",
    )
    assert rows.time_s.tolist() == pytest.approx([60.5e-6])
    assert (rows.shape.rows.tolist(), rows.shape.features.tolist()) == ([16.0], [6144.0])


@pytest.mark.parametrize(
    ("text", "line", "said"),
    [
        ("family,variant,gpu,time_us\n", 1, "column 'engine' is missing"),
        ("family,variant,gpu,engine\n", 1, "column 'time_us' or 'time_s' is missing"),
        (HEADER + "gem,bf16,rtx-4090,vllm,0.26,1,1,1,1\n", 2, "no kernel family 'gem'"),
        (HEADER + "gemm,bf61,rtx-4090,vllm,0.26,1,1,1,1\n", 2, "has no variant 'bf61'"),
        (HEADER + "gemm,bf16,rtx-4090,vllm,0.26,x,1,1,1\n", 2, "column 'rows' needs a number"),
    ],
)
def test_what_is_wrong_with_a_file_is_said_with_its_line(tmp_path, text, line, said):
    file = write(tmp_path / "k.csv", text)
    with pytest.raises(SpecError) as caught:
        list(kernel_csv.tables(file, family("gemm"), Pick()))
    fault = caught.value.faults[0]
    assert fault.where.line == line
    assert said in fault.message


def test_own_kernels_calibrate_a_gpu_nobody_measured(tmp_path):
    """The 4090 borrows from the L40S until its own kernels are fitted: then it is calibrated."""
    out = tmp_path / "mine" / "calibrations"
    out.mkdir(parents=True)
    file = made(tmp_path / "k.csv")
    (cell,) = run_fit(["gemm"], Pick(), out, date="2026-11-30", data=file)
    assert cell.fits[0].errors.median < 0.02
    text = "model: qwen2.5-7b-instruct\ngpu: rtx-4090\nstep: {decode: {batch: 16, context: 4096}}\n"
    deployment = load_text(text, "deploy.yaml")
    before = assemble(ask(deployment, Catalog.standard()))
    after = assemble(ask(deployment, Catalog.standard([tmp_path / "mine"])))
    evidence = (
        {k.nodes: k.evidence for k in before.kernels},
        {k.nodes: k.evidence for k in after.kernels},
    )
    assert (evidence[0]["down_proj",], evidence[1]["down_proj",]) == ("class", "calibrated")
    assert before.plan_id != after.plan_id
