"""Worker processes: what they may take, and what becomes of jobs that nobody wants."""

from __future__ import annotations

import asyncio
import os
import pickle
import signal
import time

import pytest

from planner.errors import Fault, SpecError, UsageError, Where
from planner.importers import ImportRefused
from planner.service.problems import Refused
from planner.service.workers import CancelledJobError, Ticket, Workers


def double(report, number):
    report(number)
    return 2 * number


def process_id(report):
    return os.getpid()


def sleep(report, seconds):
    time.sleep(seconds)


def until(report, there):
    while not there.exists():
        time.sleep(0.01)


def gather(report, count):
    return len(bytearray(count))


def chatter(report):
    """Tells of its progress all the time, and never ends."""
    while True:
        report(0)


def die(report):
    os.kill(os.getpid(), signal.SIGKILL)


def refuse(report, error):
    raise error


async def become(asked):
    """Wait until it is so."""
    async with asyncio.timeout(60):
        while not asked():  # noqa: ASYNC110 - nothing tells of it
            await asyncio.sleep(0.01)


@pytest.fixture(scope="module")
def loop():
    with asyncio.Runner() as found:
        yield found


@pytest.fixture(scope="module")
def workers(loop):
    """One process of 512 MiB, before which two may wait."""
    found = Workers(1, 2, 2**29)
    yield found
    found.stop()


@pytest.fixture
def run(loop, workers):
    """Does one job."""
    return lambda job, *rest, timeout_s=60: loop.run(workers.call(job, *rest, timeout_s=timeout_s))


def test_a_job_runs_in_another_process_and_tells_of_its_progress(loop, run, workers):
    told = []

    async def both():
        first = await workers.do(Ticket(double, (21,), {}, 60, told.append))
        return first, await workers.call(process_id, timeout_s=60)

    found, process = loop.run(both())
    assert (found, told) == (42, [21])
    assert process != os.getpid()
    assert run(process_id) == process


@pytest.mark.parametrize(
    "error",
    [
        SpecError([Fault(Where("f", 2, 3), "wrong", "a hint", "text")]),
        UsageError("wrong", "a hint"),
        ImportRefused(Where("f", 1, 1), "wrong", "a hint"),
        Refused(422, "wrong", "a hint"),
    ],
)
def test_errors_of_the_input_come_back_whole(loop, run, workers, error):
    with pytest.raises(type(error)) as raised:
        run(refuse, error)
    assert str(raised.value) == str(error)
    assert vars(raised.value) == vars(error)
    assert str(pickle.loads(pickle.dumps(error))) == str(error)


@pytest.mark.parametrize(
    ("job", "timeout_s"),
    [((sleep, 60), 0.3), ((chatter,), 0.3), ((gather, 2**31), 60), ((die,), 60)],
)
def test_a_job_that_takes_too_much_is_refused_and_its_worker_replaced(
    loop, run, workers, job, timeout_s
):
    before, restarts = run(process_id), workers.restarts
    with pytest.raises(Refused) as refused:
        run(*job, timeout_s=timeout_s)
    assert refused.value.status_code == 422
    assert workers.restarts == restarts + 1
    assert run(process_id) != before


def test_a_job_whose_caller_is_gone_is_stopped(loop, run, workers):
    """And its worker with it: another does the next."""
    before = run(process_id)

    async def given_up():
        job = asyncio.create_task(workers.call(sleep, 600, timeout_s=600))
        await become(lambda: workers.running)
        job.cancel()
        with pytest.raises(asyncio.CancelledError):
            await job
        return await workers.call(double, 1, timeout_s=60)

    assert loop.run(given_up()) == 2
    assert run(process_id) != before


def test_more_than_may_wait_are_told_to_come_again(loop, run, workers, tmp_path):
    """One runs until it may end, two wait, the fourth is refused."""
    end = tmp_path / "end"

    async def four():
        jobs = [asyncio.create_task(workers.call(until, end, timeout_s=60)) for _ in range(3)]
        await become(lambda: (workers.running, workers.waiting) == (1, 2))
        with pytest.raises(Refused) as refused:
            await workers.call(until, end, timeout_s=60)
        end.touch()
        await asyncio.gather(*jobs)
        return refused.value

    refused = loop.run(four())
    assert refused.status_code == 429
    assert refused.headers == {"Retry-After": "1"}


def test_without_processes_jobs_run_in_a_thread(loop):
    async def inline():
        workers = Workers(0, 2, 0)
        ticket = Ticket(double, (1,), {}, 60)
        ticket.unwanted.set()
        with pytest.raises(CancelledJobError):
            await workers.do(ticket)
        return await workers.call(process_id, timeout_s=60)

    assert loop.run(inline()) == os.getpid()
