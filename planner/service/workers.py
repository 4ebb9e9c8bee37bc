"""Processes that plan: a limit of time and of memory on each question, and none on the others.

A worker that takes too long, or that its caller gave up, is killed and replaced.
"""

from __future__ import annotations

import asyncio
import contextlib
import multiprocessing
import resource
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.connection import Connection
from time import monotonic
from typing import Any

from planner.service.problems import Refused, busy

_CONTEXT = multiprocessing.get_context("forkserver")
# read once, for all workers that will be
_CONTEXT.set_forkserver_preload(["planner.service.warm"])
_TICK_S = 0.25
"""How soon a cancelled job is noticed."""

Job = Callable[..., Any]
Report = Callable[[Any], None]


class CancelledJobError(Exception):
    """Its caller has given the job up."""


@dataclass(eq=False)
class Ticket:
    """One job: what to call, whom to tell of its progress, and whether it is still wanted."""

    job: Job
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    timeout_s: float
    report: Report = field(default=lambda _: None)
    unwanted: threading.Event = field(default_factory=threading.Event)


class Inline:
    """Does jobs in the thread that asks. Keeps no limits: for tests and tiny machines."""

    restarts = 0

    def do(self, ticket: Ticket) -> Any:
        """The job's result. Raises what it raises, and CancelledJobError."""

        def report(value: Any) -> None:
            if ticket.unwanted.is_set():
                raise CancelledJobError
            ticket.report(value)

        return ticket.job(report, *ticket.arguments, **ticket.options)

    def stop(self) -> None:
        """Nothing to stop."""


class Process:
    """A process that does one job after another; begun with the first."""

    def __init__(self, memory_bytes: int) -> None:
        self._memory_bytes = memory_bytes
        self._process: Any = None
        self._pipe: Connection | None = None
        self.restarts = 0

    def do(self, ticket: Ticket) -> Any:
        """The job's result.

        Raises what it raises, CancelledJobError, and Refused for a job that takes too long or too
        much memory.
        """
        pipe = self._begun()
        deadline = monotonic() + ticket.timeout_s
        try:
            pipe.send((ticket.job, ticket.arguments, ticket.options))
            while True:
                kind, value = self._answer(pipe, ticket, deadline)
                if kind == "progress":
                    ticket.report(value)
                elif kind == "done":
                    return value
                else:
                    raise value
        except (EOFError, BrokenPipeError, ConnectionResetError):
            self._replace()
            raise Refused(422, "this takes more than the service gives", _SMALLER) from None

    def _answer(self, pipe: Connection, ticket: Ticket, deadline: float) -> tuple[str, Any]:
        told = False
        while not told:
            # also where progress comes so often that nobody ever waits for it
            told = pipe.poll(_TICK_S)
            if ticket.unwanted.is_set():
                self._replace()
                raise CancelledJobError
            if monotonic() > deadline:
                self._replace()
                message = f"this takes longer than {ticket.timeout_s:g} s"
                raise Refused(422, message, _SMALLER)
        found: tuple[str, Any] = pipe.recv()
        return found

    def _begun(self) -> Connection:
        if self._process is None or not self._process.is_alive():
            self._pipe, other = _CONTEXT.Pipe()
            self._process = _CONTEXT.Process(
                target=_serve, args=(other, self._memory_bytes), daemon=True
            )
            self._process.start()
            other.close()
        assert self._pipe
        return self._pipe

    def _replace(self) -> None:
        self.restarts += 1
        self.stop()

    def stop(self) -> None:
        """Kill the process; the next job begins another."""
        process, pipe = self._process, self._pipe
        self._process = self._pipe = None
        if process is not None:
            process.kill()
            process.join()
        if pipe is not None:
            pipe.close()


_SMALLER = "ask for less, or ask on the command line"


def _serve(pipe: Connection, memory_bytes: int) -> None:
    """The life of a worker process: until the other end of the pipe is closed."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    resource.setrlimit(resource.RLIMIT_DATA, (memory_bytes, memory_bytes))
    with contextlib.suppress(EOFError, OSError):
        while True:
            job, arguments, options = pipe.recv()
            try:
                answer = ("done", job(partial(_progress, pipe), *arguments, **options))
            except MemoryError:
                return
            except Exception as error:  # noqa: BLE001 - the asking process raises it
                answer = ("failed", error)
            pipe.send(answer)


def _progress(pipe: Connection, value: Any) -> None:
    pipe.send(("progress", value))


class Workers:
    """So many workers, and a queue of bounded length before them."""

    def __init__(self, count: int, waiting: int, memory_bytes: int) -> None:
        self._all: list[Inline | Process] = [Inline()]
        if count:
            self._all = [Process(memory_bytes) for _ in range(count)]
        self._idle: asyncio.Queue[Inline | Process] = asyncio.Queue()
        for worker in self._all:
            self._idle.put_nowait(worker)
        self._threads = ThreadPoolExecutor(len(self._all), "planner-worker")
        self._most = waiting
        self.waiting = 0

    @property
    def running(self) -> int:
        """Jobs that are being done."""
        return len(self._all) - self._idle.qsize()

    @property
    def restarts(self) -> int:
        """Workers that were killed or died."""
        return sum(worker.restarts for worker in self._all)

    async def call(self, job: Job, *arguments: Any, timeout_s: float, **options: Any) -> Any:
        """A job's result. Raises what it raises, and Refused where too many wait already."""
        return await self.do(Ticket(job, arguments, options, timeout_s))

    async def do(self, ticket: Ticket) -> Any:
        """As `call`. Where the caller is cancelled, so is the job."""
        if self.waiting >= self._most:
            raise busy("too many requests wait for a worker")
        self.waiting += 1
        try:
            worker = await self._idle.get()
        finally:
            self.waiting -= 1
        loop = asyncio.get_running_loop()
        doing = loop.run_in_executor(self._threads, worker.do, ticket)
        doing.add_done_callback(lambda _: self._idle.put_nowait(worker))
        try:
            return await asyncio.shield(doing)
        except asyncio.CancelledError:
            ticket.unwanted.set()
            doing.add_done_callback(_seen)
            raise

    def stop(self) -> None:
        """Kill every worker."""
        for worker in self._all:
            worker.stop()
        self._threads.shutdown(wait=False, cancel_futures=True)


def _seen(doing: asyncio.Future[Any]) -> None:
    """Nobody waits for it any more, so nobody is told how it ended."""
    if not doing.cancelled():
        doing.exception()
