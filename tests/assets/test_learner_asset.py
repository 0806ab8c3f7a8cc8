"""The shared shape of the learners' assets: each is the worker of its verbs."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from assets import on_demand, run_verbs, runs, specs
from assets.pull import pull
from learners.contract import Evidence, Outcome, Reading, Run
from learners.path_statistics import LEARNER, PathStatistics
from schemas.specs import RUNS_QUEUE
from tessera.client import Client
from tests.assets.learned import Workspace, checks, failure, made, materialized
from tests.assets.learning import Dying
from tests.assets.working import work

NAME = "path_statistics:wilson-grouping:v1"
AT = ("learn.outputs", f"{NAME}:q")


@pytest.fixture
def worked(workspace: Workspace) -> Workspace:
    """Four runs of queue ``q`` in store and lake, and a scorecard switched on."""
    work(workspace.client, "q", "aaaf")
    pull(workspace.client, workspace.lake, "q")
    specs.configure(workspace.client, NAME, "q")
    return workspace


def learner_runs(client: Client) -> list[dict[str, Any]]:
    return list(client.iter_observations(RUNS_QUEUE))


def test_a_materialization_is_a_verb_that_succeeded(worked: Workspace) -> None:
    told = made(worked.materialize("path_scorecard"), "path_scorecard")

    (run,) = learner_runs(worked.client)
    assert told["status"] == "published"
    assert told["records"][0]["verbs"] == [run["server"]["task_id"]]
    assert (run["server"]["result"], run["server"]["private"]) == ("accepted", True)


def test_a_run_that_learner_enqueue_made_is_found_and_done(worked: Workspace) -> None:
    (asked,) = on_demand.enqueue(worked.client, NAME, "q")
    assert asked.task is not None

    told = made(worked.materialize("path_scorecard"), "path_scorecard")

    assert told["records"][0]["verbs"] == [asked.task.task_id]
    assert on_demand.run_one(worked.client) is None


def test_run_one_reads_the_api_and_gives_the_bytes_that_the_asset_gives(worked: Workspace) -> None:
    specs.configure(worked.client, NAME, "q", options={"dimensions": ["method", "tagset"]})
    on_demand.enqueue(worked.client, NAME, "q")
    first, second = on_demand.run_one(worked.client), on_demand.run_one(worked.client)
    assert first is not None
    assert second is not None
    by_api = {one["key"]: one["sha256"] for ended in (first, second) for one in ended.records}
    entries = specs.entries_of(worked.client, "q")
    prepared = [runs.prepare(worked.client, entry, entries) for entry in entries]

    by_lake = [one.work(runs.from_lake(worked.lake)(one)).outcome.nouns[0] for one in prepared]

    assert {noun.key: noun.sha256() for noun in by_lake} == by_api


def test_nothing_new_enqueues_no_run_and_shows_what_stands(worked: Workspace) -> None:
    first = made(worked.materialize("path_scorecard"), "path_scorecard")

    again = worked.materialize("path_scorecard")

    told = made(again, "path_scorecard")
    assert (told["status"], told["data_version"]) == ("unchanged", first["data_version"])
    assert told["records"][0]["verbs"] == []
    assert checks(again) == {}
    assert len(learner_runs(worked.client)) == 1


def test_a_new_run_in_the_store_is_learned_from_once_it_is_in_the_lake(worked: Workspace) -> None:
    worked.materialize("path_scorecard")
    work(worked.client, "q", "a")

    before = made(worked.materialize("path_scorecard"), "path_scorecard")
    pull(worked.client, worked.lake, "q")
    after = made(worked.materialize("path_scorecard"), "path_scorecard")

    assert (before["status"], before["runs"]) == ("unchanged", 4)
    assert (after["status"], after["runs"], after["record_version"]) == ("published", 5, 2)


def test_a_run_killed_before_its_submit_is_ended_by_the_next_and_the_table_is_whole(
    worked: Workspace, store: Any
) -> None:
    with Dying(store.url, store.admin_key) as dying:
        assert not worked.materialize("path_scorecard", client=dying).success
    assert worked.lake.version("scorecards") is None

    told = made(worked.materialize("path_scorecard"), "path_scorecard")

    record = worked.client.get_record(*AT)
    assert record["version"] == 1
    assert told["data_version"] == record["sha256"]
    assert worked.lake.scan("scorecards").collect()["sha256"].unique().to_list() == [record["sha256"]]


def test_a_run_that_another_worker_holds_fails_the_asset_and_is_named(
    worked: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    (asked,) = on_demand.enqueue(worked.client, NAME, "q")
    assert asked.task is not None
    worked.client.claim(RUNS_QUEUE, task_id=asked.task.task_id, lease_seconds=300)
    monkeypatch.setattr(run_verbs.claim, "__defaults__", (0.0,))

    result = worked.materialize("path_scorecard")

    assert not result.success
    assert f"run {asked.task.task_id} is leased to another worker" in failure(result)


def test_one_entry_that_fails_stops_no_other_and_nothing_is_materialized(
    worked: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs.configure(worked.client, NAME, "q", options={"dimensions": ["method"]})
    wrong = replace(
        LEARNER.checks[1],
        find=lambda outcome: [] if outcome.run.options else [f"{outcome.nouns[0].key}: 3 of 4"],
    )
    monkeypatch.setattr(PathStatistics, "checks", [LEARNER.checks[0], wrong, *LEARNER.checks[2:]])

    result = worked.materialize("path_scorecard")

    submitted = sorted(run["server"]["result"] for run in learner_runs(worked.client))
    assert not result.success
    assert submitted == ["accepted", "failed"]
    assert materialized(result) == []
    assert checks(result)["counts_add_up"] is False
    assert "counts_add_up: path_statistics:wilson-grouping:v1:q: 3 of 4" in failure(result)
    assert worked.client.get_record("learn.outputs", f"{NAME}:q:method")["version"] == 1


def test_a_spec_that_is_not_installed_is_named_and_the_other_learners_go_on(workspace: Workspace) -> None:
    work(workspace.client, "q", "aaf")
    pull(workspace.client, workspace.lake, "q")
    specs.configure(workspace.client, "routing_weights:beta-bandit:v1", "q", options={"dimension": "method"})
    specs.configure(workspace.client, NAME, "q")
    held = workspace.client.get_record("learn.specs", NAME)
    written = {name: held[name] for name in ("store", "key", "category", "tags", "visibility")}
    broken = {**held["body"], "status": "proposed"}
    workspace.client.write_records([{**written, "expected_version": 1, "body": broken}])

    result = workspace.materialize("path_scorecard", "routing_weights")

    assert not result.success
    assert materialized(result) == ["routing_weights"]
    assert f"spec {NAME} is proposed" in failure(result)


def test_a_scope_that_failed_three_times_goes_on(worked: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(PathStatistics, "learn", lambda *_: 1 / 0)
        failed = [worked.materialize("path_scorecard").success for _ in range(3)]

    told = made(worked.materialize("path_scorecard"), "path_scorecard")

    tasks = {run["server"]["task_id"] for run in learner_runs(worked.client)}
    assert failed == [False, False, False]
    assert (told["status"], told["record_version"]) == ("published", 1)
    assert len(tasks) == 2


class Stepwise(PathStatistics):
    """Goes on from its state, two runs at a time."""

    def reading(self, run: Run) -> Reading:
        """What lies after the state's cursor."""
        after = "0" if run.state is None or run.restart else run.state["body"]["cursor"]
        return Reading(after=after, limit=2)

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """The scorecard of two runs."""
        return super().learn(run, evidence)


def test_a_learner_that_goes_on_from_its_state_runs_until_the_lakes_cursor_is_reached(
    worked: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(PathStatistics, "reading", Stepwise.reading)
    work(worked.client, "q", "a")
    pull(worked.client, worked.lake, "q")

    told = made(worked.materialize("path_scorecard"), "path_scorecard")

    assert (told["record_version"], told["runs"]) == (3, 1)
    assert told["cursor"] == str(worked.lake.cursor("q"))
    assert len(told["records"][0]["verbs"]) == 3


def test_another_surface_makes_the_run_start_anew_and_switching_off_leaves_the_noun(
    worked: Workspace, store: Any
) -> None:
    work(worked.client, "q", "f", private=True)
    pull(worked.client, worked.lake, "q")
    alone = made(worked.materialize("path_scorecard"), "path_scorecard")
    specs.configure(worked.client, NAME, "q", surface=True)

    shown = made(worked.materialize("path_scorecard"), "path_scorecard")
    specs.configure(worked.client, NAME, "q", mode="off")
    off = worked.materialize("path_scorecard")

    assert (alone["runs"], shown["runs"]) == (5, 4)
    assert shown["status"] == "published"
    assert off.success
    assert materialized(off) == []
    assert store.client(["read"], ["q"]).get_record(*AT)["version"] == 2


def test_a_lake_of_another_key_is_refused_before_anything_is_enqueued(worked: Workspace, store: Any) -> None:
    other = store.client(["read", "work", "write"], ["*"])

    result = worked.materialize("path_scorecard", client=other)

    assert not result.success
    assert "workspace rebuild --queue q" in failure(result)
    assert learner_runs(worked.client) == []


def test_the_drawing_library_is_not_loaded_by_the_definitions(tmp_path: Path) -> None:
    import subprocess
    import sys

    code = "import sys, pipelines.definitions as d; assert 'altair' not in sys.modules, 'altair'"
    ended = subprocess.run(
        [sys.executable, "-c", code], cwd=Path(__file__).parents[2], capture_output=True, text=True
    )

    assert ended.returncode == 0, ended.stderr
