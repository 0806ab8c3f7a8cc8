"""One server, or one a database, for the tests of this folder that only talk to it; each takes names and keys
of its own.
"""

import itertools
from collections.abc import Callable, Iterator

import pytest

from tests.faults.hand_clock import HandClock
from tests.faults.server import Caller, Server
from tests.postgres import Postgres

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def clock(tmp_path_factory: pytest.TempPathFactory) -> HandClock:
    """The shared server's clock; tests may move it."""
    return HandClock(tmp_path_factory.mktemp("clock") / "offset")


@pytest.fixture(scope="session")
def database_url(request: pytest.FixtureRequest) -> str | None:
    """None for a SQLite file in the home; an empty PostgreSQL database, the same for the tests after it."""
    if getattr(request, "param", "sqlite") == "sqlite":
        return None
    postgres: Postgres = request.getfixturevalue("postgres")
    return postgres.new_database()


@pytest.fixture(scope="session")
def server(
    tmp_path_factory: pytest.TempPathFactory, clock: HandClock, database_url: str | None
) -> Iterator[Server]:
    """A running server that no test of this folder may stop or starve."""
    home = tmp_path_factory.mktemp("store") / "home"
    with Server(home, database_url=database_url, launcher=clock.launcher) as running:
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
