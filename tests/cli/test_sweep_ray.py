"""Sweeps on a real Ray cluster of this machine: the same rows, whichever worker dies."""

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from planner.cli.common.executors import Cluster, answer
from planner.desk.sweep_grid import grid_of
from planner.desk.sweep_tasks import Circumstances, Local
from planner.spec.load import deployments_in

ray = pytest.importorskip("ray", reason="`make sweep-ray` installs it")
pytestmark = [pytest.mark.ray, pytest.mark.slow]
OVER = ("gpu=rtx-4090,l40s,tp=1|2|5,batch=1:64,context=128|4096",)


def rows(grid, executor):
    return [
        (row.id, dict(row.cells), row.line)
        for piece in grid.pieces(executor)
        for row in map(piece.row, range(piece.count))
    ]


@pytest.fixture(scope="module")
def cluster():
    """Two workers of one core each."""
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    yield ray
    ray.shutdown()


def test_a_cluster_answers_as_this_process_does(cluster, deployment):
    """Six deployments of 14 rows each, those that cannot split among them."""
    grid = grid_of(deployments_in(Path(deployment)), (), OVER)
    expected = rows(grid, Local(Circumstances()))
    assert len(expected) == 84
    assert rows(grid, Cluster(Circumstances(), cluster)) == expected


def test_a_killed_worker_loses_nothing(cluster, deployment, tmp_path):
    """Every deployment kills the first worker that takes it, without a word."""
    marks = tmp_path / "marks"
    marks.mkdir()

    def deadly(shared, task):
        name = task.deployment.gpu + str(task.deployment.parallel.tensor) if task.deployment else ""
        mark = marks / name
        if name and not mark.exists():
            mark.touch()
            os.kill(os.getpid(), signal.SIGKILL)
        return answer(shared, task)

    grid = grid_of(deployments_in(Path(deployment)), (), OVER)
    found = rows(grid, Cluster(Circumstances(), cluster, deadly))
    assert len(list(marks.iterdir())) == 6
    assert found == rows(grid, Local(Circumstances()))


def test_the_command_runs_on_the_cluster(cluster, run, deployment):
    words = ("sweep", deployment, "--over", "batch=1:64", "--json")
    assert run(*words, "--executor", "ray").out == run(*words).out


def test_another_process_joins_the_cluster_of_its_address(cluster, run, deployment, monkeypatch):
    """As on another machine: RAY_ADDRESS names the cluster, whose two cores it sees."""
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(sys.path))
    monkeypatch.setenv("RAY_ADDRESS", cluster.get_runtime_context().gcs_address)
    words = ("sweep", deployment, "--over", "batch=1:8", "--json")
    code = f"""
import ray
from planner.cli.common import executors
close = ray.shutdown
ray.shutdown = lambda: (print(ray.cluster_resources()["CPU"]), close())
from planner.cli.main import main
main({(*words, "--executor", "ray")!r})
"""
    found = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    cores, _, document = found.stdout.partition("\n")
    assert float(cores) == 2
    assert document == run(*words).out
