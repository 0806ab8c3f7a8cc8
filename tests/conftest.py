"""What every room's tests may use: a real store, served over HTTP from a real SQLite file."""

import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

from tessera.client import Client
from tessera.server.serve import Running
from tessera.store import clock, migrate
from tests.object_store import BUCKET, ObjectStore
from tests.postgres import Postgres, Unusable

_PLACES = itertools.count(1)

if sys.dont_write_bytecode:
    # Tests start hundreds of processes, and each would compile Dagster anew, which takes half of its start.
    # It is kept apart, since whoever forbade it wants none beside the sources.
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(Path(__file__).parents[1] / ".pytest_cache" / "bytecode")
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

PLAIN = False
"""A connection without TLS has no certificate to verify, and loading the machine's takes 40 ms."""


class MovedClock:
    """The machine's clock, moved by as much as a test says; what the server tells time by."""

    def __init__(self) -> None:
        self._moved = 0

    def __call__(self) -> int:
        return clock.now() + self._moved

    def move(self, seconds: float) -> None:
        """Move the server's time on, or back."""
        self._moved += round(seconds * 1000)


class StoreServer:
    """A running server: where it is, its admin key, and HTTP for any key."""

    def __init__(self, running: Running, home: Path, clock: MovedClock) -> None:
        self.url = running.url
        self.home = home
        self.store_id = running.store.store_id
        self.database = home / "tessera.db"
        self.admin_key = (home / "admin.key").read_text("ascii").strip()
        self.clock = clock
        self.running = running
        self._closing: list[Callable[[], None]] = []

    def key(
        self,
        scopes: Sequence[str] = ("read", "work", "write"),
        queues: Sequence[str] = ("*",),
        name: str = "test",
        **more: Any,
    ) -> dict[str, Any]:
        """Make a key; ``{id, secret}``."""
        body = {"name": name, "scopes": list(scopes), "queues": list(queues), **more}
        answer = self.http().post("/v1/keys", json=body)
        assert answer.status_code == 201, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def client(
        self,
        scopes: Sequence[str] | None = None,
        queues: Sequence[str] = ("*",),
        **more: Any,
    ) -> Client:
        """The product's client with a key of its own; with the admin key when no scopes are given."""
        secret = self.admin_key if scopes is None else self.key(scopes, queues, **more)["secret"]
        client = Client(self.url, secret)
        self._closing.append(client.close)
        return client

    def http(self, secret: str | None = None, **headers: str) -> httpx.Client:
        """Bare HTTP with a key, the admin key by default."""
        bearer = {"authorization": f"Bearer {self.admin_key if secret is None else secret}"}
        client = httpx.Client(base_url=self.url, headers={**bearer, **headers}, timeout=30, verify=PLAIN)
        self._closing.append(client.close)
        return client

    def http_for(
        self, scopes: Sequence[str] = ("read", "work", "write"), queues: Sequence[str] = ("*",), **more: Any
    ) -> httpx.Client:
        """Bare HTTP with a new key of these grants; its id is the client's ``headers["x-test-key-id"]``."""
        made = self.key(scopes, queues, **more)
        return self.http(made["secret"], **{"x-test-key-id": made["id"]})

    def close(self) -> None:
        """Close the connections that were handed out."""
        for close in self._closing:
            close()


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """``both_databases`` runs a test on SQLite and PostgreSQL, ``both_lakes`` in a folder and on S3."""
    if "database_url" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_databases"):
        metafunc.parametrize("database_url", ["sqlite", "postgresql"], indirect=True)
    if "location" in metafunc.fixturenames and metafunc.definition.get_closest_marker("both_lakes"):
        metafunc.parametrize("location", ["folder", "s3"], indirect=True)


@pytest.fixture(scope="session")
def s3_server() -> Iterator[ObjectStore]:
    """An S3 server for the session, started when first asked for."""
    with ObjectStore() as server:
        yield server


@pytest.fixture
def s3(s3_server: ObjectStore, monkeypatch: pytest.MonkeyPatch) -> Iterator[ObjectStore]:
    """The S3 server, calm, and this process's environment leading there."""
    for name, value in s3_server.environment().items():
        monkeypatch.setenv(name, value)
    s3_server.asked()
    yield s3_server
    s3_server.calm()


@pytest.fixture
def location(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Where a lake of the test's own may lie: in a folder, or on S3."""
    if getattr(request, "param", "folder") == "folder":
        return str(tmp_path / "lake")
    request.getfixturevalue("s3")
    return f"s3://{BUCKET}/place-{next(_PLACES)}/lake"


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A PostgreSQL server for the session, started when first asked for."""
    try:
        server = Postgres()
    except Unusable as why:
        pytest.skip(str(why))
    with server:
        yield server


@pytest.fixture
def database_url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """None for the SQLite file in the home; an empty PostgreSQL database, the test's own until it ends."""
    if getattr(request, "param", "sqlite") == "sqlite":
        yield None
        return
    server: Postgres = request.getfixturevalue("postgres")
    with server.lent() as url:
        yield url


@pytest.fixture(scope="session")
def schema(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """A SQLite file with the schema in place and nothing in it: made once and copied, which takes no time."""
    path = tmp_path_factory.mktemp("schema") / "tessera.db"
    engine = migrate.sqlite_engine(path)
    migrate.upgrade(engine)
    engine.dispose()
    return path.read_bytes()


@pytest.fixture
def store(tmp_path: Path, database_url: str | None, schema: bytes) -> Iterator[StoreServer]:
    """A store of its own for the test, stopped at its end."""
    moved = MovedClock()
    home = tmp_path / "home"
    if database_url is None and not home.exists():  # the home may be a copy of another test's
        home.mkdir(mode=0o700)
        (home / "tessera.db").touch(mode=0o600)
        (home / "tessera.db").write_bytes(schema)
    with Running(home, database_url=database_url, clock=moved, grace_seconds=1.0) as running:
        running.start()
        server = StoreServer(running, home, moved)
        yield server
        server.close()
