"""One server for the tests of this folder that only talk to it; each takes names and keys of its own."""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.faults.hand_clock import HandClock
from tests.faults.server import Caller, Server

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> HandClock:
    """The shared server's clock; tests may move it."""
    return HandClock(tmp_path_factory.mktemp("clock") / "offset")


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory, clock: HandClock) -> Iterator[Server]:
    """A running server that no test of this folder may stop or starve."""
    with Server(tmp_path_factory.mktemp("store") / "home", launcher=clock.launcher) as running:
        yield running


@pytest.fixture
def name() -> str:
    """A queue or store that nobody else uses."""
    return f"own.{next(_numbers)}"


@pytest.fixture
def caller(server: Server) -> Iterator[Caller]:
    """A caller with a new key that may read, work and write everywhere."""
    with server.caller(server.key()) as made:
        yield made


@pytest.fixture
def another(server: Server) -> Iterator[Callable[..., Caller]]:
    """Makes more callers, each with a key of its own; grants as in ``Server.key``."""
    made: list[Caller] = []

    def make(**grants: object) -> Caller:
        made.append(server.caller(server.key(**grants)))
        return made[-1]

    yield make
    for one in made:
        one.close()
