"""A lake in an empty folder, and a stand-in store to fill it from."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.lake import Lake
from tessera.client import Client
from tessera.transport import Backoff
from tests.assets.learned import Workspace
from tests.assets.learning import install
from tests.page_store import PageStore


@pytest.fixture
def lake(location: str) -> Lake:
    """A lake where nothing is yet."""
    return Lake(location)


@pytest.fixture
def pages() -> Iterator[PageStore]:
    """A stand-in store without runs."""
    with PageStore() as store:
        yield store


@pytest.fixture
def client(pages: PageStore) -> Iterator[Client]:
    """A client of the stand-in that gives up soon."""
    with Client(pages.url, "secret", timeout=2, backoff=Backoff(tries=2, first=0.01)) as found:
        yield found


@pytest.fixture
def admin(store: Any) -> Iterator[Client]:
    """A client of a real store, with its admin key."""
    with Client(store.url, store.admin_key) as found:
        yield found


@pytest.fixture
def workspace(admin: Client, tmp_path: Path) -> Iterator[Workspace]:
    """A real store with every spec installed, an empty lake, a history."""
    install(admin, tmp_path / "pack")
    with dg.DagsterInstance.ephemeral() as instance:
        yield Workspace(admin, tmp_path, instance)
