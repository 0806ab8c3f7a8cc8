"""Child processes that cannot outlive the program that started them.

A child runs in a process group of its own, so Ctrl-C in a terminal reaches its parent alone, which then stops
the child in order. The child also holds the reading end of a pipe from its parent: when that closes, however
the parent died, the child's whole group is ended. It leaves out restarting: a child that ended stays ended.
"""

import contextlib
import importlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from pathlib import Path

GRACE_SECONDS = 10.0
NICENESS = 5


class Stopped(KeyboardInterrupt):
    """A signal asked this program to end; `status` is what a shell expects of it then."""

    def __init__(self, number: int) -> None:
        self.status = 128 + number
        super().__init__(signal.Signals(number).name)


def start(
    entry: str, *arguments: str, env: Mapping[str, str] | None = None, log: Path | None = None
) -> subprocess.Popen[bytes]:
    """Start `entry` (`module:function`, as in an entry point) in a child Python with that command line.

    `env` is added to the environment. Output goes to `log` when given, else to where ours goes.
    """
    command = [sys.executable, "-m", "pipelines.attached", entry, *arguments]
    with contextlib.ExitStack() as stack:
        out = None
        if log is not None:
            log.parent.mkdir(parents=True, exist_ok=True)
            out = stack.enter_context(log.open("ab"))
        return subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=out,
            stderr=subprocess.STDOUT if out else None,
            env={**os.environ, **(env or {})},
            start_new_session=True,
        )


def stop(child: subprocess.Popen[bytes], grace_seconds: float = GRACE_SECONDS) -> int:
    """Ask the child's group to end, wait, then end for certain what is left; the child's exit status."""
    if child.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child.pid, signal.SIGTERM)
        try:
            child.wait(grace_seconds)
        except subprocess.TimeoutExpired:
            child.kill()
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)  # what the child itself left behind
    if child.stdin is not None:
        child.stdin.close()
    return child.wait()


def wait(child: subprocess.Popen[bytes]) -> int:
    """Wait until the child ends; its exit status. Signals are obeyed meanwhile.

    It looks again and again: polars, imported after `end_on_signals`, has SIGINT restart a system call that
    waits, so that `Popen.wait` would sit through every Ctrl-C.
    """
    while child.poll() is None:
        time.sleep(0.2)
    return child.wait()


@contextlib.contextmanager
def stopping(*children: subprocess.Popen[bytes]) -> Iterator[None]:
    """Stop all `children` on the way out, the last first."""
    try:
        yield
    finally:
        for child in reversed(children):
            stop(child)


def end_on_signals() -> None:
    """Let SIGINT, SIGTERM and SIGHUP end this program through its `finally` blocks, as `Stopped`."""

    def interrupt(number: int, _frame: object) -> None:
        raise Stopped(number)

    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, interrupt)


def step_back() -> None:
    """Let this process and what it starts have the processor after everybody else: what learns can wait.

    Where Linux shares the processor out among sessions first, a process's own niceness counts within its
    session alone; so the session's is set too.
    """
    os.nice(NICENESS)
    with contextlib.suppress(OSError):  # another system, or a Linux that does not group by sessions
        Path("/proc/self/autogroup").write_text(str(NICENESS), "ascii")


def _follow_parent() -> None:
    """Wait until the pipe on standard input closes, then end this process's whole group."""
    with contextlib.suppress(OSError):
        while os.read(0, 4096):
            pass
    os.killpg(os.getpgrp(), signal.SIGTERM)
    time.sleep(GRACE_SECONDS)
    os.killpg(os.getpgrp(), signal.SIGKILL)


def main() -> None:
    """The child's side: watch the parent, then become the program that was asked for."""
    entry, sys.argv = sys.argv[1], sys.argv[1:]
    threading.Thread(target=_follow_parent, name="follow-parent", daemon=True).start()
    module, _, function = entry.partition(":")
    sys.exit(getattr(importlib.import_module(module), function)())


if __name__ == "__main__":
    main()
