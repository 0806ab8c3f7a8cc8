"""A child never outlives its parent, however the parent ends."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from pipelines import attached

ROOT = Path(__file__).parents[2]


def is_running(pid: int) -> bool:
    """Whether a process is there and not merely waiting to be collected."""
    try:
        os.kill(pid, 0)
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except ProcessLookupError:
        return False
    except FileNotFoundError:
        return not Path("/proc/self").exists()  # without /proc: it took the signal, so it is there
    return state != "Z"


def ended_within(seconds: float, pid: int) -> bool:
    deadline = time.monotonic() + seconds
    while is_running(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    return not is_running(pid)


def start_sleeper(log: Path | None = None) -> subprocess.Popen[bytes]:
    return attached.start("tests_sleeper:main", env={"PYTHONPATH": os.environ["PYTHONPATH"]}, log=log)


@pytest.fixture
def sleeper(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An importable program that starts a child of its own and sleeps; the file of their ids."""
    pids = tmp_path / "pids"
    (tmp_path / "tests_sleeper.py").write_text(
        "import os, subprocess, sys, time\n"
        "def main():\n"
        "    own = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"    open({str(pids)!r} + '.new', 'w').write(f'{{os.getpid()}} {{own.pid}}')\n"
        f"    os.rename({str(pids)!r} + '.new', {str(pids)!r})\n"
        "    time.sleep(60)\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    return pids


def wait_for(pids: Path) -> list[int]:
    deadline = time.monotonic() + 20
    while not pids.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    return [int(pid) for pid in pids.read_text().split()]


def test_stop_ends_the_child_and_the_children_it_started(sleeper: Path) -> None:
    child = start_sleeper()
    running = wait_for(sleeper)

    status = attached.stop(child)

    assert status == -signal.SIGTERM
    assert all(ended_within(5, pid) for pid in running)


def test_the_family_ends_when_its_parent_is_killed(sleeper: Path) -> None:
    program = "from pipelines import attached\nattached.start('tests_sleeper:main').wait()"
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT)
    running = wait_for(sleeper)

    parent.kill()
    parent.wait()

    assert all(ended_within(5, pid) for pid in running)


def test_ctrl_c_ends_the_wait_for_a_child_though_polars_has_a_hand_in_the_signal(sleeper: Path) -> None:
    program = (
        "from pipelines import attached\n"
        "attached.end_on_signals()\n"
        "import polars\n"
        "child = attached.start('tests_sleeper:main')\n"
        "with attached.stopping(child):\n"
        "    attached.wait(child)\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program], cwd=ROOT, stderr=subprocess.DEVNULL)
    running = wait_for(sleeper)

    parent.send_signal(signal.SIGINT)

    assert ended_within(15, parent.pid)
    assert all(ended_within(5, pid) for pid in running)
    assert parent.wait() != 0


def test_an_error_on_the_way_stops_every_child(sleeper: Path) -> None:
    child = start_sleeper()
    running = wait_for(sleeper)

    with pytest.raises(RuntimeError, match="on the way"), attached.stopping(child):
        raise RuntimeError("on the way")

    assert all(ended_within(5, pid) for pid in running)


def test_the_exit_status_and_the_words_of_a_child_are_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "tests_talker.py").write_text(
        "import sys\ndef main():\n    print('arguments', sys.argv[1:])\n    return 3\n"
    )
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(tmp_path), str(ROOT)]))
    log = tmp_path / "logs" / "talker.log"

    child = attached.start("tests_talker:main", "one", "two words", log=log)
    status = child.wait(60)
    attached.stop(child)

    assert status == 3
    assert log.read_text() == "arguments ['one', 'two words']\n"
