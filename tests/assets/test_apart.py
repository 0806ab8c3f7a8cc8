"""Code of other packages in a process of its own: whatever it does, its caller goes on."""

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from assets import apart, on_demand, review_ports, specs
from assets.publish import BudgetCrossed
from assets.runner import RunFailed
from learners.contract import LearnerError
from learners.registry import load
from tessera.client import Client
from tessera.errors import NotFound, TesseraError
from tests.assets.learning import found_by_entry_point, install
from tests.assets.odd_learner import ODD
from tests.assets.working import work

AT = ("learn.outputs", f"{ODD}:q")
ROOT = Path(__file__).parents[2]


@pytest.fixture
def ready(admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """The odd learner installed with a second of runtime, and three runs in queue ``q``."""
    found_by_entry_point(tmp_path, monkeypatch)
    install(admin, tmp_path / "pack", ODD, runtime_seconds=1)
    work(admin, "q", "aaf")
    apart.call(load, ODD, seconds=60)  # it is started once, and that is not what a learner's second is for
    return admin


def failed(client: Client, **options: Any) -> Exception:
    """How a run with these options failed."""
    specs.configure(client, ODD, "q", options=options)
    on_demand.enqueue(client, ODD, "q")
    with pytest.raises(TesseraError) as ended:
        on_demand.run_one(client)
    return ended.value


@pytest.mark.parametrize(
    "options",
    [{"seconds": 600}, {"hangs": "in Python"}, {"hangs": "in C, all of the interpreter with it"}],
    ids=str,
)
def test_a_learner_that_hangs_is_stopped_at_its_budget_and_the_next_run_goes_on(
    ready: Client, options: dict[str, Any]
) -> None:
    began = time.monotonic()
    error = failed(ready, **options)
    spent = time.monotonic() - began

    assert isinstance(error, BudgetCrossed)
    assert "odd:counting:v1 crosses its budget of 1 runtime_seconds: 1." in str(error)
    assert spent < 10
    (run,) = ready.iter_observations("learn.runs")
    assert run["server"]["failure_text"] == str(error)
    with pytest.raises(NotFound):
        ready.get_record(*AT)
    ready.cancel(run["server"]["task_id"])
    specs.configure(ready, ODD, "q")
    apart.call(load, ODD, seconds=60)
    on_demand.enqueue(ready, ODD, "q")
    assert on_demand.run_one(ready) is not None
    assert ready.get_record(*AT)["version"] == 1


def test_a_learner_whose_process_ends_fails_its_run_alone(ready: Client) -> None:
    error = failed(ready, ends=True)

    assert "its process ended by itself, with status 7" in str(error)


def test_what_a_learner_raises_is_told_with_the_line_and_without_end(ready: Client) -> None:
    error = failed(ready, raises=5_000_000)

    assert isinstance(error, RunFailed)
    assert str(error).startswith("odd:counting:v1 failed: ValueError: xxx")
    assert len(str(error)) < 5_000
    assert error.__cause__ is not None
    assert "in misbehave" in "".join(error.__cause__.__notes__)


def test_the_process_is_kept_and_what_it_prints_is_no_answer() -> None:
    first = apart.call(os.getpid, seconds=60)
    apart.call(print, "not an answer", seconds=60)
    again = apart.call(os.getpid, seconds=60)

    assert first == again != os.getpid()


def test_it_holds_no_key_of_store_lake_or_history(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("TESSERA_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "DAGSTER_PG_PASSWORD"):
        monkeypatch.setenv(name, "a secret of ours")
    apart._kept.end()

    found = apart.call(_environment, seconds=60)
    apart._kept.end()

    assert "a secret of ours" not in found.values()
    assert found["PATH"] == os.environ["PATH"]


def _environment() -> dict[str, str]:
    return dict(os.environ)


def test_a_refusal_is_a_refusal_here_too() -> None:
    with pytest.raises(TesseraError, match="no learner 'no:such:v1' is installed"):
        apart.call(load, "no:such:v1", seconds=60)


def test_a_port_that_hangs_is_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    info = tmp_path / "slow-1.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: slow\nVersion: 1\n")
    (info / "entry_points.txt").write_text("[tessera.proposers]\nslow = time:sleep\neager = builtins:iter\n")
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setattr(review_ports, "SECONDS", 3.0)
    eager, slow = review_ports.proposer("eager"), review_ports.proposer("slow")

    assert eager is not None
    assert slow is not None
    assert eager("ab") == ["a", "b"]
    with pytest.raises(LearnerError, match="the proposer 'slow' took longer than 3 seconds and was stopped"):
        slow(600)  # type: ignore[arg-type]


def test_the_process_does_not_outlive_a_killed_caller(tmp_path: Path) -> None:
    code = (
        "import os, time; from assets import apart; "
        "print(apart.call(os.getpid, seconds=60), flush=True); apart.call(time.sleep, 600, seconds=1)"
    )
    caller = subprocess.Popen([sys.executable, "-c", code], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    assert caller.stdout is not None
    child = int(caller.stdout.readline())
    caller.send_signal(signal.SIGKILL)
    caller.wait()
    caller.stdout.close()

    idle = time.monotonic() + 10
    with suppress(ProcessLookupError):
        while time.monotonic() < idle:
            os.kill(child, 0)
            time.sleep(0.05)
        os.kill(child, signal.SIGKILL)
        pytest.fail("it was still there after ten seconds")
