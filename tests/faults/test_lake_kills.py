"""The crash promise on S3, the short form: the long one is `python -m tests.faults.lake_kills --kills 60`."""

from tests.faults.lake_kills import ORDERS, Kills
from tests.object_store import ObjectStore


def test_a_pull_killed_at_its_writes_loses_and_doubles_nothing_on_s3(s3: ObjectStore) -> None:
    kills = Kills(s3, seed=11)
    for _ in range(4):
        kills.round()
    assert kills.faults == []
    assert kills.counts["kills"] >= 2
    assert set(kills.counts) & set(ORDERS)
