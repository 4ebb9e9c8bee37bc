"""A real server in a thread of this process, and clients of it."""

from __future__ import annotations

import threading
from contextlib import contextmanager

import httpx
import pytest
from service_examples import settings

from planner.service.serve import opened, server_of


@contextmanager
def served(chosen):
    """The base address of a service that runs meanwhile."""
    ready = threading.Event()
    server = server_of(chosen, ready.set)
    listening = opened("127.0.0.1", 0)
    address = f"http://127.0.0.1:{listening.getsockname()[1]}"
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]})
    thread.start()
    assert ready.wait(30)
    try:
        yield address
    finally:
        server.should_exit = True
        thread.join(30)
        listening.close()


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """A service without tokens that plans in threads; tests share it and its store."""
    db = tmp_path_factory.mktemp("service") / "plans.db"
    with served(settings(db)) as found:
        yield found


@pytest.fixture(scope="session")
def client(address):
    with httpx.Client(base_url=address, timeout=30) as found:
        yield found


@pytest.fixture(scope="session")
def plan(client):
    """A stored plan of 128 output tokens, to which runs can belong."""
    from service_examples import STATIC, post_plan

    return post_plan(client, STATIC).json()
