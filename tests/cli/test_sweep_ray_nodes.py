"""Sweeps on a Ray cluster of several nodes, one of which dies."""

import time
from pathlib import Path
from threading import Thread

import pytest

from planner.cli.common.executors import Cluster, answer
from planner.desk.sweep_grid import grid_of
from planner.desk.sweep_tasks import Circumstances, Local
from planner.spec.load import deployments_in

ray = pytest.importorskip("ray", reason="`make sweep-ray` installs it")
pytestmark = [pytest.mark.ray, pytest.mark.slow]
OVER = ("gpu=rtx-4090,l40s,tp=1|2,batch=1:64,context=128|4096",)
PATIENCE_S = 120


def rows(grid, executor):
    return [
        (row.id, dict(row.cells), row.line)
        for piece in grid.pieces(executor)
        for row in map(piece.row, range(piece.count))
    ]


@pytest.fixture
def nodes():
    """Two nodes of one core each, as two machines are; the driver is on the first."""
    from ray.cluster_utils import Cluster as Nodes

    found = Nodes(initialize_head=True, head_node_args={"num_cpus": 1})
    ray.init(address=found.address, log_to_driver=False, logging_level="ERROR")
    yield found
    ray.shutdown()
    found.shutdown()


def test_a_dead_node_loses_nothing(nodes, deployment, tmp_path):
    """The second node takes a task, keeps it, and goes with it: every row is there once."""
    other, there, gone = nodes.add_node(num_cpus=1), tmp_path / "there", tmp_path / "gone"
    nodes.wait_for_nodes()
    home = ray.get_runtime_context().get_node_id()

    def held(shared, task):
        if ray.get_runtime_context().get_node_id() != home:
            there.touch()
            time.sleep(PATIENCE_S)
        return answer(shared, task)

    def kill():
        while not there.exists():
            time.sleep(0.05)
        nodes.remove_node(other, allow_graceful=False)
        gone.touch()

    grid = grid_of(deployments_in(Path(deployment)), (), OVER)
    killer = Thread(target=kill, daemon=True)
    killer.start()
    found = rows(grid, Cluster(Circumstances(), ray, held))
    killer.join(PATIENCE_S)
    assert gone.exists()
    assert [name for name, _, _ in found] == [str(n) for n in range(1, 57)]
    assert found == rows(grid, Local(Circumstances()))
