"""Who answers the tasks of a sweep: this process, or the workers of a Ray cluster."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from planner.desk.sweep_tasks import Circumstances, Executor, Local, Task, Worker
from planner.errors import UsageError
from planner.plan.swept import Line, Swept

RETRIES = 16
"""Workers that may die over one task before the sweep gives up."""
_AHEAD = 2
"""Tasks in flight for each core: none waits for the one before it to be taken."""


@contextmanager
def executor_of(name: str, shared: Circumstances) -> Iterator[Executor]:
    """The executor of a name, as long as it is needed. Raises UsageError where it is missing."""
    if name == "local":
        yield Local(shared)
        return
    try:
        import ray
    except ImportError:
        hint = "pip install 'inference-planner[ray]'"
        raise UsageError("--executor ray needs the package ray", hint) from None
    own = not ray.is_initialized()
    if own:
        ray.init(log_to_driver=False, include_dashboard=False, logging_level="ERROR")
    try:
        yield Cluster(shared, ray)
    finally:
        if own:
            ray.shutdown()


Run = Callable[[Circumstances, Task], Swept | Line]


class Cluster:
    """Tasks on the workers of a Ray cluster. One that a dying worker had is given to another."""

    def __init__(self, shared: Circumstances, ray: Any, run: Run | None = None) -> None:
        self._ray = ray
        self._shared = shared
        self._remote = ray.remote(max_retries=RETRIES)(run or answer)

    def answers(self, tasks: Iterable[Task]) -> Iterator[Swept | Line]:
        """As `Executor.answers`."""
        most = _AHEAD * max(1, int(self._ray.cluster_resources().get("CPU", 1)))
        flying: deque[Any] = deque()
        for task in tasks:
            flying.append(self._remote.remote(self._shared, task))
            if len(flying) >= most:
                yield self._ray.get(flying.popleft())
        while flying:
            yield self._ray.get(flying.popleft())


_workers: dict[Circumstances, Worker] = {}
"""Of a process that runs tasks: what it read of the catalogue serves the next one."""


def answer(shared: Circumstances, task: Task) -> Swept | Line:
    """A task's answer, in whatever process this is."""
    if shared not in _workers:
        _workers[shared] = Worker(shared)
    return _workers[shared].answer(task)
