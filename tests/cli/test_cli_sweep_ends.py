"""`planner sweep` on values that are wrong, and as a process that is stopped."""

import signal
import subprocess
import sys
from pathlib import Path
from time import monotonic, sleep

import pytest


@pytest.mark.parametrize(
    ("over", "said"),
    [
        ("gpu=h100", "--over gpu=\"h100\":1:5: gpu: unknown gpu 'h100'"),
        ("tp=a:b", "--over parallel.tensor=a:b:1:17: parallel.tensor: expected a whole number"),
        ("batch=0", "--over step.decode.batch=0:1:19: step.decode.batch: must be greater than 0"),
        ("backend.flags.max_num_seq=3", "--over backend.flags.max_num_seq=3:1:15: vLLM has no"),
    ],
)
def test_a_wrong_value_is_told_by_the_option_that_has_it(run, deployment, over, said):
    outcome = run("sweep", deployment, "--set", "backend.name=vllm", "--over", over)
    assert outcome.code == 2
    assert said in " ".join(outcome.out.split())


@pytest.mark.parametrize(("sign", "code"), [(signal.SIGINT, 130), (signal.SIGKILL, -9)])
def test_every_row_that_was_planned_outlives_its_process(deployment, hears_ctrl_c, sign, code):
    """Each is planned by itself, so rows come one by one; the sweep that goes on has them all."""
    words = ("sweep", deployment, "--over", "backend.flags.max_num_seqs=1:300:1", "-o", "out.csv")
    command = [sys.executable, "-m", "planner", *words, "--set", "backend.name=vllm"]
    part = Path("out.csv.part")
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        deadline = monotonic() + 300
        while not (part.exists() and part.read_text().count("\n") > 3):
            assert process.poll() is None
            assert monotonic() < deadline
            sleep(0.01)
        process.send_signal(sign)
        _, said = process.communicate(timeout=300)
    assert process.returncode == code
    assert part.exists()
    assert ("rows so far are in out.csv.part" in said) == (sign == signal.SIGINT)
