"""One run of a queue at a time, and what a killed one leaves behind."""

import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import dagster as dg
import pytest

from assets.lake import Lake
from pipelines.instance import instance
from pipelines.resources import lake_of
from pipelines.turns import KEEPER, TurnError, Turns, end_left_behind, left_behind

ROOT = Path(__file__).parents[2]

HOLD = """
import sys, time
from pathlib import Path
from pipelines.turns import Turns
with Turns(Path(sys.argv[1])).take("packing", sys.argv[2]):
    print("held", flush=True)
    time.sleep(60)
"""


@pytest.fixture
def turns(tmp_path: Path) -> Turns:
    return Turns(tmp_path / "turns")


@contextmanager
def holder(folder: Path, run_id: str) -> Iterator[subprocess.Popen[str]]:
    """Another process that has the turn of queue packing."""
    command = [sys.executable, "-c", HOLD, str(folder), run_id]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


def test_the_second_run_of_a_queue_waits_for_the_first_and_another_queues_does_not(turns: Turns) -> None:
    """D13."""
    order, waiting = [], threading.Event()

    def second() -> None:
        with turns.take("packing", "b", told=lambda _: waiting.set()):
            order.append("second")

    with turns.take("packing", "a"):
        thread = threading.Thread(target=second)
        thread.start()
        assert waiting.wait(60)
        with turns.take("sorting", "c"):
            order.append("other queue")
        order.append("first")
    thread.join(60)

    assert order == ["other queue", "first", "second"]


def test_a_run_that_waited_too_long_says_so_and_did_nothing(turns: Turns) -> None:
    with (
        turns.take("packing", "a"),
        pytest.raises(TurnError, match="another run of queue packing"),
        turns.take("packing", "b", patience=0.2),
    ):
        pytest.fail("two runs have the turn")
    assert turns.alive("b") is None


def test_a_killed_process_holds_no_turn_and_its_run_is_ended_as_failed(turns: Turns, tmp_path: Path) -> None:
    with instance(tmp_path / "dagster") as history:
        runs = [
            history.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED, tags={"n": str(number)})
            for number in range(3)
        ]
        killed, living, starting = (run.run_id for run in runs)
        with holder(tmp_path / "turns", killed) as child:
            child.kill()
        with holder(tmp_path / "turns", living):
            assert left_behind(history, turns) == [killed]
            assert end_left_behind(history, turns) == [killed]
            found = [history.get_run_by_id(run_id) for run_id in (killed, living, starting)]
            statuses = [run.status.value for run in found if run is not None]

    assert statuses == ["FAILURE", "STARTED", "STARTED"]
    with turns.take("packing", "next", patience=0.2):
        assert turns.alive("next") is True


def test_a_run_of_another_machine_is_not_ended_for_want_of_its_breath_here(
    turns: Turns, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pipelines.turns.START_SECONDS", -1.0)
    with instance(tmp_path / "dagster") as history:
        keepers = {"there": "another folder's name", "here": turns.name}
        runs = {
            where: history.create_run_for_job(
                nothing, status=dg.DagsterRunStatus.STARTED, tags={KEEPER: keeper}
            ).run_id
            for where, keeper in keepers.items()
        }

        assert left_behind(history, turns) == [runs["here"]]
        monkeypatch.setattr("pipelines.turns.FOREIGN_SECONDS", -1.0)
        assert set(left_behind(history, turns)) == set(runs.values())
    assert Turns(tmp_path / "turns").name == turns.name


def test_a_run_of_no_queue_is_known_to_live_as_well(turns: Turns, tmp_path: Path) -> None:
    """Else one that takes long, such as the lag of many queues, would be taken for dead."""
    seen = []

    @dg.op(required_resource_keys={"lake"})
    def look(context) -> None:  # type: ignore[no-untyped-def]
        seen.append(turns.alive(context.run_id))

    @dg.job(resource_defs={"lake": lake_of(Lake(str(tmp_path / "lake")), turns, print)})
    def looking() -> None:
        look()

    with instance(tmp_path / "dagster") as history:
        ended = looking.execute_in_process(instance=history)

    assert seen == [True]
    assert turns.alive(ended.run_id) is None


@dg.job
def nothing() -> None:
    """A job to have runs of."""
