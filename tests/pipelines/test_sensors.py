"""The threshold sensor over a real store: what it launches, what it holds back, and what it never loses."""

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import lag, pack, run_verbs, runs, specs
from assets.lake import Lake
from assets.partitions import queues
from learners.registry import BUILT_IN
from pipelines import launches, sensors
from pipelines.definitions import definitions
from tessera.client import Client
from tessera.errors import ConnectionFault
from tessera.transport import Backoff
from tests.assets.working import work

SPEC = "path_statistics:wilson-grouping:v1"
WEIGHTS = "routing_weights:beta-bandit:v1"
MEMORY = "memory:minhash-lsh:v1"
Launched = Callable[[dg.RunRequest], dg.ExecuteInProcessResult]


@pytest.fixture
def admin(store: Any, tmp_path: Path) -> Client:
    """A client of a store where the specs are installed and nothing is configured."""
    client: Client = store.client()
    pack.write(tmp_path / "pack")
    specs.install(client, pack.read(tmp_path / "pack"))
    return client


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(str(tmp_path / "lake"))


@pytest.fixture
def history(environment: Any) -> Iterator[dg.DagsterInstance]:
    """A history of its own, and a home of its own."""
    with dg.DagsterInstance.ephemeral() as found:
        yield found


@pytest.fixture
def tick(admin: Client, lake: Lake, history: dg.DagsterInstance) -> Callable[..., dg.SensorResult]:
    """One evaluation of the sensor, as the daemon asks for it; partitions that it asks for are made."""

    def evaluate(
        cursor: str | None = None, client: Client = admin, partitions: bool = True
    ) -> dg.SensorResult:
        context = dg.build_sensor_context(
            instance=history,
            cursor=cursor,
            definitions=definitions(),
            resources={"ticks": client, "lake": lake},
        )
        result = sensors.threshold()(context)
        assert isinstance(result, dg.SensorResult)
        for request in result.dynamic_partitions_requests or () if partitions else ():
            history.add_dynamic_partitions(str(queues.name), list(request.partition_keys))
        return result

    return evaluate


@pytest.fixture
def launched(admin: Client, lake: Lake, history: dg.DagsterInstance) -> Launched:
    """The run of a request, in this process."""

    def launch(request: dg.RunRequest) -> dg.ExecuteInProcessResult:
        job = definitions({"store": admin, "lake": lake}).resolve_job_def(str(request.job_name))
        return job.execute_in_process(
            instance=history,
            partition_key=request.partition_key,
            asset_selection=list(request.asset_selection or ()),
            tags={**request.tags, "dagster/run_key": str(request.run_key)},
            raise_on_error=False,
        )

    return launch


def requests(result: dg.SensorResult) -> list[dg.RunRequest]:
    return list(result.run_requests or ())


def skipped(result: dg.SensorResult) -> str:
    assert not result.run_requests
    assert isinstance(result.skip_reason, dg.SkipReason)
    return str(result.skip_reason.skip_message)


def ended(history: dg.DagsterInstance, request: dg.RunRequest, status: str) -> None:
    """Leave a run of this request in the history, as if the daemon had launched it."""
    job = definitions().resolve_job_def("workspace")
    run = history.create_run_for_job(
        job,
        tags={**request.tags, "dagster/partition": str(request.partition_key)},
        status=dg.DagsterRunStatus.STARTED if status == "STARTED" else None,
    )
    if status == "FAILURE":
        history.report_run_failed(run)
    elif status == "SUCCESS":
        event = dg.DagsterEvent(
            event_type_value=dg.DagsterEventType.RUN_SUCCESS.value, job_name=run.job_name, message="done"
        )
        history.report_dagster_event(event, run.run_id)


def test_work_under_the_trigger_launches_nothing_and_on_it_one_run_with_its_partition(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance, launched: Launched
) -> None:
    """The whole cycle: threshold, run, published noun, nothing more to do, and the next threshold."""
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 31)
    assert skipped(tick()) == "1 queues looked at: no trigger is reached"
    work(admin, "q", "f")
    result = tick()
    (request,) = requests(result)
    assert request.partition_key == "q"
    assert set(request.asset_selection or ()) == {dg.AssetKey("observations"), dg.AssetKey("path_scorecard")}
    assert request.run_key == f"{request.tags[launches.IDENTITY]}:0"
    assert requests(tick()) == [request]  # asked again before it was launched: the same run key

    assert launched(request).success
    record = admin.get_record("learn.outputs", f"{SPEC}:q")
    assert (record["version"], record["body"]["window"]["count"]) == (1, 32)
    assert skipped(tick()) == "1 queues looked at: no trigger is reached"

    work(admin, "q", "a" * 32)
    (second,) = requests(tick())
    assert second.tags[launches.IDENTITY] != request.tags[launches.IDENTITY]


def test_new_queues_become_partitions_together_with_their_run_and_the_next_tick_repairs(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance
) -> None:
    """D16: whatever was made before it died, the next tick asks for the rest."""
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    work(admin, "other", "a")
    first = tick(partitions=False)
    (made,) = first.dynamic_partitions_requests or ()
    assert sorted(made.partition_keys) == ["other", "q"]
    assert [one.partition_key for one in requests(first)] == ["q"]

    repaired = tick()
    assert [one.run_key for one in requests(repaired)] == [one.run_key for one in requests(first)]
    third = tick()
    assert not third.dynamic_partitions_requests
    assert [one.run_key for one in requests(third)] == [one.run_key for one in requests(first)]


def test_a_failed_run_is_tried_again_later_each_time_also_after_the_cursor_was_lost(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance, lake: Lake
) -> None:
    """D01."""
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    (request,) = requests(tick())
    identity = request.tags[launches.IDENTITY]
    waits = []
    for failures in range(1, 4):
        ended(history, request, "FAILURE")
        work(admin, "q", "a")
        assert f"failed {failures} times, tried again in" in skipped(tick(cursor=None))
        minutes = launches.wait_minutes(failures)
        early = sensors.look(admin, lake, history, now=time.time() + minutes * 60 - 30)
        (later,) = sensors.look(admin, lake, history, now=time.time() + minutes * 60 + 1).requests
        assert early.requests == []
        assert later.run_key == f"{identity}:{failures}"
        waits.append(minutes)
    assert waits == [2, 4, 8]
    assert [launches.wait_minutes(n) for n in (5, 6, 7, 5_000)] == [32, 60, 60, 60]


def test_an_identity_in_flight_is_not_launched_again(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance
) -> None:
    """D06."""
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    (request,) = requests(tick())
    job = definitions().resolve_job_def("workspace")
    tags = {**request.tags, "dagster/partition": "q"}
    history.create_run_for_job(job, tags=tags, status=dg.DagsterRunStatus.STARTED)
    assert "a run of its asset is under way" in skipped(tick())


def test_a_dagster_run_that_went_through_without_its_verb_counts_as_failed(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance, lake: Lake
) -> None:
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    (request,) = requests(tick())
    ended(history, request, "SUCCESS")
    assert "failed 1 times, tried again in 2 minutes" in skipped(tick())
    (later,) = sensors.look(admin, lake, history, now=time.time() + 121).requests
    assert later.run_key == f"{request.tags[launches.IDENTITY]}:1"


def test_an_identity_whose_verb_succeeded_is_left_alone(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance
) -> None:
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    (request,) = requests(tick())
    entries = specs.entries_of(admin, "q")
    task = run_verbs.enqueue(admin, runs.prepare(admin, entries[0], entries))
    claimed = run_verbs.claim(admin, task.task_id)
    assert claimed is not None
    admin.submit(task.task_id, claimed["fence"], True)
    ended(history, request, "SUCCESS")
    assert "its verb has succeeded" in skipped(tick())


def test_entries_of_one_asset_share_a_run_and_run_keys_are_unique(
    admin: Client, tick: Callable[..., dg.SensorResult], launched: Launched
) -> None:
    """D02: two subjects pass the threshold in one tick."""
    specs.configure(admin, SPEC, "q")
    specs.configure(admin, SPEC, "q", options={"dimensions": ["method"]})
    specs.configure(admin, SPEC, "r")
    work(admin, "q", "a" * 32)
    work(admin, "r", "a" * 32)
    found = requests(tick())
    assert [one.partition_key for one in found] == ["q", "r"]
    assert len({one.run_key for one in found}) == 2
    assert all(launched(one).success for one in found)
    assert skipped(tick()) == "2 queues looked at: no trigger is reached"
    assert admin.get_record("learn.outputs", f"{SPEC}:q:method")["body"]["window"]["count"] == 32


def test_what_is_due_of_a_queue_for_the_first_time_is_one_run_and_what_failed_runs_alone(
    admin: Client,
    tick: Callable[..., dg.SensorResult],
    history: dg.DagsterInstance,
    lake: Lake,
    launched: Launched,
) -> None:
    for spec, options in ((SPEC, {}), (WEIGHTS, {"dimension": "method"}), (MEMORY, {})):
        specs.configure(admin, spec, "q", options=options)
    work(admin, "q", "a" * 32)

    (together,) = requests(tick())
    assert {key.to_user_string() for key in together.asset_selection or ()} == {
        "observations", "fingerprints", "memory_index", "path_scorecard", "routing_weights"
    }  # fmt: skip

    ended(history, together, "FAILURE")
    assert skipped(tick()).count("failed 1 times, tried again in 2 minutes") == 3
    alone = sensors.look(admin, lake, history, now=time.time() + 121).requests
    assert [one.tags[launches.ASSET] for one in alone] == [
        "path_scorecard",
        "routing_weights",
        "memory_index",
    ]
    assert len({one.run_key for one in alone}) == 3
    assert all(one.run_key == f"{one.tags[launches.IDENTITY]}:1" for one in alone)

    assert all(launched(one).success for one in alone)
    assert skipped(tick()) == "1 queues looked at: no trigger is reached"

    work(admin, "q", "a" * 32)
    (again,) = requests(tick())
    ended(history, again, "STARTED")
    assert skipped(tick()).count("a run of its asset is under way") == 3


def test_a_tick_is_bounded_in_time_and_the_next_goes_on_where_it_ended(
    admin: Client, lake: Lake, history: dg.DagsterInstance
) -> None:
    for queue in ("a", "b", "c"):
        specs.configure(admin, SPEC, queue)
        work(admin, queue, "a" * 32)
    seen, first = [], ""
    for _ in range(3):
        tick = sensors.look(admin, lake, history, first, seconds=-1)
        seen += list(tick.lags)
        first = tick.following
    assert seen == ["a", "b", "c"]
    assert sensors.look(admin, lake, history, "b").lags == {"b": 32, "c": 32, "a": 32}


@pytest.mark.parametrize("cursor", ["not json", "[1]", '{"next": "gone"}', '{"next": 5, "lag_told": "x"}'])
def test_a_cursor_that_is_not_ours_begins_anew(
    admin: Client, tick: Callable[..., dg.SensorResult], cursor: str
) -> None:
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    assert len(requests(tick(cursor=cursor))) == 1


def test_a_store_that_does_not_answer_fails_the_tick_and_the_next_one_loses_nothing(
    admin: Client, tick: Callable[..., dg.SensorResult]
) -> None:
    """D03."""
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    before = tick()
    with (
        Client("http://127.0.0.1:9", "key", backoff=Backoff(tries=1)) as dead,
        pytest.raises(ConnectionFault),
    ):
        tick(cursor=before.cursor, client=dead)
    assert [one.run_key for one in requests(tick(cursor=before.cursor))] == [
        one.run_key for one in requests(before)
    ]


def test_a_config_that_cannot_stand_is_told_and_stops_no_other_queue(
    admin: Client, tick: Callable[..., dg.SensorResult]
) -> None:
    specs.configure(admin, SPEC, "good")
    work(admin, "good", "a" * 32)
    work(admin, "bad", "a" * 32)
    version, body = specs.config(admin)
    bad = {"spec": SPEC, "mode": "active", "queue": "bad", "options": {"dimensions": ["nonsense"]}}
    write = {"store": "learn.specs", "key": "config", "expected_version": version, "tags": []}
    admin.write_records(
        [
            {
                **write,
                "category": "noun.skill_pack",
                "visibility": "shared",
                "body": {**body, "entries": [*body["entries"], bad]},
            }
        ]
    )
    assert [one.partition_key for one in requests(tick())] == ["good"]


def test_a_changed_surface_is_due_although_nothing_is_new(
    admin: Client, tick: Callable[..., dg.SensorResult], launched: Launched
) -> None:
    specs.configure(admin, SPEC, "q")
    work(admin, "q", "a" * 32)
    (request,) = requests(tick())
    assert launched(request).success
    specs.configure(admin, SPEC, "q", surface=True)
    (again,) = requests(tick())
    assert again.tags["tessera/reason"] == "another surface"
    assert launched(again).success
    assert admin.get_record("learn.outputs", f"{SPEC}:q")["visibility"] == "surface_only"


def test_the_lag_of_each_queue_is_told_when_it_changed_with_a_plot_over_time(
    admin: Client, tick: Callable[..., dg.SensorResult], history: dg.DagsterInstance
) -> None:
    work(admin, "q", "aaa")
    first = tick()
    (event,) = first.asset_events
    assert isinstance(event, dg.AssetMaterialization)
    assert event.metadata["runs_behind"].value == 3
    assert "data:image/png;base64," in str(event.metadata["plot"].value)
    history.report_runless_asset_event(event)
    assert tick(cursor=first.cursor).asset_events == []
    long_ago = json.dumps({"next": "", "lag_told": 0})
    assert tick(cursor=long_ago).asset_events == []
    work(admin, "other", "a")
    (event,) = tick(cursor=long_ago).asset_events
    history.report_runless_asset_event(event)
    assert [point["lags"] for point in lag.points(history)] == [{"q": 3}, {"q": 3, "other": 1}]


def test_every_implemented_spec_of_ours_has_a_worker_and_the_lake_that_it_reads() -> None:
    assert set(sensors.workers()) == set(BUILT_IN)
    assert sensors.assets_of("memory:minhash-lsh:v1") == ("observations", "fingerprints", "memory_index")
    assert sensors.assets_of("lessons:review-and-learn:v1") == ("observations", "lessons")
    assert sensors.assets_of("memory:another-package:v3") == ("observations", "other_learners")
