"""`make run` from outside: a real store, real workers, the real pipeline, and nothing left running."""

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
RUN = [sys.executable, "-m", "examples.main_job"]
SMALL = ["--least", "1", "--judged", "20", "--tasks", "20"]


@pytest.fixture
def environment(tmp_path: Path) -> Iterator[dict[str, str]]:
    """An environment with a home of its own, and a check that all is quiet after."""
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("TESSERA_", "DAGSTER_"))
    }
    yield {**kept, "TESSERA_HOME": str(tmp_path / "home"), "TERM": "dumb", "COLUMNS": "160"}
    assert running_under(tmp_path) == []


def running_under(home: Path) -> list[str]:
    """Command lines of processes whose environment names a home in this folder."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        try:
            if str(home).encode() in (process / "environ").read_bytes():
                found.append((process / "cmdline").read_bytes().replace(b"\0", b" ").decode())
        except OSError:
            continue
    return found


def run(environment: dict[str, str], *arguments: str) -> str:
    done = subprocess.run(
        [*RUN, *arguments], cwd=ROOT, env=environment, capture_output=True, text=True, timeout=290
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def learned(output: str) -> list[list[str]]:
    """The rows of the printed table, as words."""
    return [line.split() for line in output.splitlines() if line.startswith("verb.compress.")]


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_second_run_goes_on_where_the_first_one_stopped(
    environment: dict[str, str], tmp_path: Path
) -> None:
    first = run(environment, *SMALL)
    second = run(environment, *SMALL)

    done = sum(int(row[2]) for row in learned(first))
    assert sum(int(row[2]) for row in learned(second)) == done + 20
    assert f"{done} runs are there from before" in second
    assert re.search(r"demo\.compress:category\+method\s+version 3\s", first)
    assert re.search(r"demo\.compress:category\+method\s+version 4\s", second)
    for said in (first, second):
        assert "methods drawn uniformly, as nothing stands" in said  # too few runs for a verdict that moves
        assert "verdict: keep_baseline" in said
        assert "That is a valid result" in said
        assert re.search(r"this round, by uniform draws +20 ", said)
        assert "What is recalled for the next task" in said
        assert "Lessons that the figures earned" in said
    secret = (tmp_path / "home" / "admin.key").read_text().strip()
    assert secret not in first + second
    assert all(secret.encode() not in file.read_bytes() for file in (tmp_path / "home" / "logs").iterdir())


def stopped_at_work(environment: dict[str, str], tmp_path: Path, number: signal.Signals) -> None:
    """A run that gets a signal once a worker is at work: it says how it ended, and leaves no process."""
    stopped = subprocess.Popen([*RUN, *SMALL], cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True)
    worker = tmp_path / "home" / "logs" / "worker-1.log"
    deadline = time.monotonic() + 240
    while not worker.exists() and stopped.poll() is None and time.monotonic() < deadline:
        time.sleep(0.05)

    stopped.send_signal(number)
    said, _ = stopped.communicate(timeout=120)

    assert stopped.returncode == 128 + number, said
    assert "nothing is left running" in said
    assert running_under(tmp_path) == []


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_run_that_is_stopped_leaves_no_process_and_the_next_one_goes_on(
    environment: dict[str, str], tmp_path: Path
) -> None:
    stopped_at_work(environment, tmp_path, signal.SIGTERM)

    assert learned(run(environment, *SMALL))


@pytest.mark.timeout(600)
def test_ctrl_c_stops_a_run_as_well(environment: dict[str, str], tmp_path: Path) -> None:
    stopped_at_work(environment, tmp_path, signal.SIGINT)


def test_a_folder_that_is_not_absolute_is_refused_in_one_line(environment: dict[str, str]) -> None:
    asked = subprocess.run(
        RUN, cwd=ROOT, env={**environment, "TESSERA_HOME": "here"}, capture_output=True, text=True, timeout=60
    )

    assert asked.returncode == 1
    assert asked.stdout.startswith("failed: ")
    assert "TESSERA_HOME" in asked.stdout
    assert "Traceback" not in asked.stdout + asked.stderr
