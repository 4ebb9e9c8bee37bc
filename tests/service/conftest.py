"""A real server in a thread of this process, and clients of it."""

from __future__ import annotations

import httpx
import pytest
from service_examples import STATIC, post_plan, served, settings


@pytest.fixture(scope="session")
def address(tmp_path_factory):
    """A service without tokens that plans in threads; tests share it and its store."""
    db = tmp_path_factory.mktemp("service") / "plans.db"
    with served(settings(db)) as found:
        yield found


@pytest.fixture(scope="session")
def client(address):
    with httpx.Client(base_url=address, timeout=60) as found:
        yield found


@pytest.fixture(scope="session")
def plan(client):
    """A stored plan of 128 output tokens, to which runs can belong."""
    return post_plan(client, STATIC).json()
