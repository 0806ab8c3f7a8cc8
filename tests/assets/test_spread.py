"""Processes that compute parts, and those that die of it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assets.spread import Processes, SpreadError
from tests.assets.dying import dies, dies_once, refuses


def test_a_part_whose_process_died_is_computed_again_and_results_stay_in_order(tmp_path: Path) -> None:
    tasks = [(number, str(tmp_path / "died")) for number in range(6)]

    found = list(Processes(2)(dies_once, tasks))

    assert (tmp_path / "died").exists()
    assert found == list(range(6))


def test_a_part_that_kills_each_process_ends_the_work_and_says_so() -> None:
    found = []

    with pytest.raises(SpreadError, match=r"died 3 times at the same place, so nothing was published"):
        found.extend(Processes(1)(dies, range(4)))

    assert found == [0, 1]


def test_what_the_function_raises_is_raised_here() -> None:
    with pytest.raises(ValueError, match="two"):
        list(Processes(1)(refuses, range(4)))


def gone(pid: int) -> bool:
    """Whether a process has ended, within half a minute."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if Path(f"/proc/{pid}/stat").exists() and Path(f"/proc/{pid}/stat").read_text().split()[2] == "Z":
            return True
        time.sleep(0.05)
    return False


def test_processes_end_with_a_parent_that_is_killed(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    with subprocess.Popen([sys.executable, "-m", "tests.assets.dying", str(told)]) as parent:
        until = time.monotonic() + 60
        while not (told.exists() and told.read_text("ascii")) and time.monotonic() < until:
            time.sleep(0.05)
        parent.kill()

    assert gone(int(told.read_text("ascii")))
