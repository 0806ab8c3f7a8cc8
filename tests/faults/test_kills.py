"""The short form of ``python -m tests.faults.kills``."""

from pathlib import Path

from tests.faults.kills import rounds
from tests.faults.server import Server


def test_a_killed_store_lost_nothing_and_doubled_nothing(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as server:
        found = rounds(server, seconds=0, kills_a_round=4, seed=20_260_101)
    print(found.summary())
    assert found.sentences == []
    assert found.counts["kills"] == 4
    assert found.counts["acknowledged"] > 100
