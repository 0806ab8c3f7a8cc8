"""The short form of ``python -m tests.faults.kills``."""

import time
from pathlib import Path

import pytest

from tests.faults.kills import rounds
from tests.faults.server import Server, until


def test_a_first_start_that_is_killed_can_be_repeated(tmp_path: Path) -> None:
    """Killed as soon as the database file is there, then its log, then the admin's key."""
    server = Server(tmp_path / "home")
    for sign, wait in (("tessera.db", 0.0), ("tessera.db-wal", 0.02), ("admin.key", 0.0)):
        server.start(wait=False)
        assert until((server.home / sign).exists, seconds=60, pause=0.0005)
        time.sleep(wait)
        server.kill()

    with server, server.caller() as admin:
        assert admin.get("/v1/whoami").json()["name"] == "admin"
        assert len(admin.get("/v1/keys").json()["items"]) == 1


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_killed_store_lost_nothing_and_doubled_nothing(
    tmp_path: Path, kind: str, request: pytest.FixtureRequest
) -> None:
    url = None if kind == "sqlite" else request.getfixturevalue("postgres").new_database()
    with Server(tmp_path / "home", database_url=url) as server:
        found = rounds(server, seconds=0, kills_a_round=3, seed=20_260_101)
    print(found.summary())
    assert found.sentences == []
    assert found.counts["kills"] == 3
    assert found.counts["acknowledged"] > 100
