"""The soak in short: everything real, a few seconds of it, and every run counted."""

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from bench.soak import findings, past, picture, run, stage
from bench.soak.run import Plan
from tessera.client import Client
from tessera.server.serve import Running
from tessera.settings import Settings


def silent(_what: str, _done: float, _total: float | None) -> None:
    """No bar."""


def test_a_soak_stays_in_its_folder_whatever_the_environment_says(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TESSERA_HOME", "TESSERA_URL", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")  # what the soak sets is put back
    monkeypatch.setenv("TESSERA_DASK", "tcp://our-cluster:8786")
    monkeypatch.setenv("TESSERA_LAKE", "s3://our-bucket/lake")

    settings = stage.settings_of(tmp_path)

    assert (settings.lake, settings.dask) == (str(tmp_path / "lake"), None)
    assert Settings.from_environment().dask is None


@pytest.mark.slow
def test_a_short_soak_beside_old_observations_loses_none_and_doubles_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TESSERA_HOME", "TESSERA_URL", "TESSERA_KEY", "DAGSTER_HOME"):
        monkeypatch.setenv(name, "")  # what the soak sets is put back
    plan = Plan(seconds=6, rate=1_200, old=2_000, queues=1, live=1, processes=2)
    home, out = tmp_path / "home", tmp_path / "out"

    run.prepare(home, plan, silent)
    ran = run.soak(home, plan, out, silent)
    found = findings.of(out, ran)

    counts = ran["counts"]
    assert (counts["acknowledged"], counts["lost"], counts["doubled"]) == (plan.count, 0, 0)
    assert counts["store"] == counts["lake_rows"] == counts["lake_runs"] == plan.count
    assert ran["whole_queues"] == [
        {"queue": "soak.00", "store": 2_120, "lake_rows": 2_120, "lake_runs": 2_120}
    ]
    assert findings.passed(found)
    assert found["errors"] == {}
    assert {"store", "daemon", "load"} <= found["cpu_share"].keys()
    assert found["lag"].keys() == {"lake", *(spec for spec, _ in stage.LEARNERS)}
    assert picture.draw(out, ran["begin"], "short").startswith("<svg")


def test_copies_of_a_block_are_what_the_import_made_under_other_ids(tmp_path: Path) -> None:
    home, queues = tmp_path / "home", ["soak.00", "soak.01"]
    with Running(home) as running:
        running.start()
        with Client(running.url, (home / "admin.key").read_text("ascii").strip()) as admin:
            past.import_blocks(admin, queues, size=20)

    past.multiply(home / "tessera.db", queues, 70)

    with Running(home) as running:
        running.start()
        with Client(running.url, (home / "admin.key").read_text("ascii").strip()) as admin:
            items = [list(admin.iter_observations(queue)) for queue in queues]
            whole = admin.get_execution(items[1][69]["run_id"])
            again = admin.import_attempts(queues[0], [past.attempt(number) for number in range(20)])
    assert again == {"imported": 0, "already_there": 20}
    assert whole["cursor"] == items[1][69]["cursor"]
    for found in items:
        assert len({item["run_id"] for item in found}) == len({task_of(item) for item in found}) == 70
        assert all(stripped(item) == stripped(found[at % 20]) for at, item in enumerate(found))
    with sqlite3.connect(home / "tessera.db") as database:
        assert database.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert database.execute("SELECT count(*) FROM simhash_bands").fetchone() == (8 * 140,)
        values = (
            "SELECT group_concat(value) FROM (SELECT value FROM simhash_bands WHERE number = ? ORDER BY band)"
        )
        first, copy = (int(items[0][at]["cursor"]) for at in (3, 23))
        assert database.execute(values, (first,)).fetchone() == database.execute(values, (copy,)).fetchone()


def task_of(item: dict[str, Any]) -> str:
    """The task of an observation."""
    return str(item["server"]["task_id"])


def stripped(item: dict[str, Any]) -> dict[str, Any]:
    """An observation without what names it."""
    return {**item, "run_id": "", "cursor": "", "server": {**item["server"], "task_id": ""}}
