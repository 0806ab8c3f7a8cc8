"""A check that fails lets nothing be published, by whichever path, and the last good version stays."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import on_demand, pack, specs
from assets.lake import Lake
from assets.partitions import queues
from learners.contract import Evidence, Outcome, Run
from learners.path_statistics import PathStatistics
from pipelines.definitions import definitions
from tessera.client import Client
from tessera.errors import TesseraError
from tests.assets.working import work

SCORECARD, WEIGHTS = "path_statistics:wilson-grouping:v1", "routing_weights:beta-bandit:v1"


@pytest.fixture
def admin(store: Any, tmp_path: Path) -> Client:
    """A store with specs, two learners on queue `q`, and five runs there."""
    client: Client = store.client()
    pack.write(tmp_path / "pack")
    specs.install(client, pack.read(tmp_path / "pack"))
    specs.configure(client, SCORECARD, "q")
    specs.configure(client, WEIGHTS, "q", options={"dimension": "method"})
    work(client, "q", "aaaff")
    return client


@pytest.fixture
def run(
    admin: Client, tmp_path: Path, environment: Any
) -> Iterator[Callable[..., dg.ExecuteInProcessResult]]:
    """A run of the workspace's job on `q`, whole or of some assets, in one history."""
    lake = Lake(str(tmp_path / "lake"))
    job = definitions({"store": admin, "lake": lake}).resolve_job_def("workspace")
    with dg.DagsterInstance.ephemeral() as history:
        history.add_dynamic_partitions(str(queues.name), ["q"])

        def execute(*selected: str) -> dg.ExecuteInProcessResult:
            keys = [dg.AssetKey(name) for name in selected] or None
            return job.execute_in_process(
                instance=history, partition_key="q", asset_selection=keys, raise_on_error=False
            )

        yield execute


def spoil(monkeypatch: pytest.MonkeyPatch) -> None:
    """From here on the scorecard's lower bound is above its upper one."""
    learn = PathStatistics.learn

    def wrong(self: PathStatistics, run: Run, evidence: Evidence) -> Outcome:
        outcome = learn(self, run, evidence)
        group = outcome.nouns[0].body["groups"][0]
        group["wilson_low"], group["wilson_high"] = 0.9, 0.1
        return outcome

    monkeypatch.setattr(PathStatistics, "learn", wrong)


def versions(admin: Client, spec: str) -> list[int]:
    return [item["version"] for item in admin.list_records(store="learn.outputs", prefix=spec)["items"]]


def failed_checks(result: dg.ExecuteInProcessResult) -> set[str]:
    return {one.check_name for one in result.get_asset_check_evaluations() if not one.passed}


@pytest.mark.parametrize("path", ["job", "asset alone", "by hand"])
def test_nothing_is_published_by_any_path_and_the_last_good_version_stays(
    admin: Client,
    run: Callable[..., dg.ExecuteInProcessResult],
    monkeypatch: pytest.MonkeyPatch,
    path: str,
) -> None:
    """D07."""
    assert run().success
    good = admin.get_record("learn.outputs", f"{SCORECARD}:q")
    work(admin, "q", "aa")
    assert run("observations").success
    spoil(monkeypatch)

    if path == "by hand":
        on_demand.enqueue(admin, SCORECARD, "q")
        with pytest.raises(TesseraError, match="nothing was published"):
            on_demand.run_one(admin)
    else:
        result = run() if path == "job" else run("path_scorecard")
        assert not result.success
        assert result.asset_materializations_for_node("path_scorecard") == []
        assert failed_checks(result)
        (verb,) = [
            item for item in admin.iter_observations("learn.runs") if item["server"]["result"] == "failed"
        ]
        assert "nothing was published" in verb["server"]["failure_text"]
        assert "0.9" in verb["server"]["failure_text"]

    assert admin.get_record("learn.outputs", f"{SCORECARD}:q") == good


def test_siblings_of_a_failed_asset_finish_and_what_follows_from_it_is_absent(
    admin: Client, run: Callable[..., dg.ExecuteInProcessResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D08."""
    spoil(monkeypatch)
    result = run()
    made = {event.asset_key.to_user_string() for event in result.get_asset_materialization_events()}
    assert not result.success
    assert "routing_weights" in made
    assert "path_scorecard" not in made
    assert "lessons" not in made
    assert (versions(admin, SCORECARD), versions(admin, WEIGHTS)) == ([], [1])


def test_an_entry_that_fails_stops_no_other_entry_of_its_asset_and_each_batch_is_whole(
    admin: Client, run: Callable[..., dg.ExecuteInProcessResult], monkeypatch: pytest.MonkeyPatch
) -> None:
    """D08: the entry by method passes, the default one does not."""
    specs.configure(admin, SCORECARD, "q", options={"dimensions": ["method"]})
    learn = PathStatistics.learn

    def wrong(self: PathStatistics, run: Run, evidence: Evidence) -> Outcome:
        outcome = learn(self, run, evidence)
        if not run.options:
            outcome.nouns[0].body["groups"][0]["wilson_low"] = 2.0
        return outcome

    monkeypatch.setattr(PathStatistics, "learn", wrong)
    result = run("observations", "path_scorecard")
    assert not result.success
    keys = [item["key"] for item in admin.list_records(store="learn.outputs")["items"]]
    assert keys == [f"{SCORECARD}:q:method"]
