"""A proposer that runs any command, so that a model, a script or another program can propose lessons.

Promises that the command is started from a list without a shell, gets JSON on stdin, may take so long and say
so much and no more, holds no key of ours, and leaves no process behind. What it says passes the strict
door here and the driver's validation afterwards. Leaves out trusting it.
"""

import os
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import IO, Any

from assets import apart
from tessera import json_door
from tessera.canonical import dumps
from tessera.errors import Problem, TesseraError

SECONDS = 60.0
OUTPUT_BYTES = 1 << 20
MOST_PROPOSALS = 100
_ERROR_BYTES = 2048


class CommandError(TesseraError):
    """The command did not propose: the sentence says why."""


class CommandProposer:
    """The port: ``summary`` in, proposals out.

    The command reads ``{"summary": text}`` and writes a list of proposals, or ``{"proposals": [...]}``.
    """

    def __init__(
        self, command: Sequence[str], *, seconds: float = SECONDS, output_bytes: int = OUTPUT_BYTES
    ) -> None:
        if isinstance(command, str) or not command:
            raise CommandError("a command is a list of a program and its arguments")
        self._command = list(command)
        self._seconds, self._bytes = seconds, output_bytes

    def __call__(self, summary: str) -> list[Mapping[str, Any]]:
        """What the command proposes. Raises CommandError."""
        name = self._command[0]
        said = self._run(dumps({"summary": summary}))
        try:
            answer = json_door.loads(said)
        except Problem as problem:
            raise CommandError(f"{name} answered what is no JSON: {problem}") from None
        proposals = answer.get("proposals") if isinstance(answer, Mapping) else answer
        if not isinstance(proposals, list):
            raise CommandError(f"{name} answered neither a list of proposals nor an object that has one")
        if len(proposals) > MOST_PROPOSALS:
            raise CommandError(f"{name} made {len(proposals)} proposals; {MOST_PROPOSALS} are the most")
        return proposals

    def _run(self, asked: bytes) -> bytes:
        name = self._command[0]
        pipe = subprocess.PIPE
        try:
            process = subprocess.Popen(
                self._command,
                stdin=pipe,
                stdout=pipe,
                stderr=pipe,
                env=apart.without_secrets(),
                start_new_session=True,
            )
        except OSError as error:
            raise CommandError(f"{name} could not be started: {error}") from None
        talk = _Talk(process, asked, self._bytes)
        try:
            ended = talk.wait(self._seconds)
        finally:
            _end(process)
        if talk.too_much:
            raise CommandError(f"{name} said more than {self._bytes} bytes and was stopped")
        if not ended:
            raise CommandError(f"{name} took longer than {self._seconds:g} seconds and was stopped")
        if process.returncode:
            told = bytes(talk.errors).decode("utf-8", "replace").strip()
            raise CommandError(
                f"{name} ended with status {process.returncode}" + (f": {told}" if told else "")
            )
        return bytes(talk.said)


class _Talk:
    """Both ends of a conversation, each pipe in a thread of its own, so that none can block another."""

    def __init__(self, process: "subprocess.Popen[bytes]", asked: bytes, most: int) -> None:
        self.said, self.errors = bytearray(), bytearray()
        self.too_much = False
        self._process, self._most = process, most
        jobs = ((self._tell, asked), (self._hear, process.stdout), (self._hear_errors, process.stderr))
        self._threads = [
            threading.Thread(target=job, args=(one,), name="a proposer's pipe", daemon=True)
            for job, one in jobs
        ]
        for thread in self._threads:
            thread.start()

    def wait(self, seconds: float) -> bool:
        """Whether the command ended, and everything it said was heard, in time."""
        until = time.monotonic() + seconds
        for thread in self._threads[1:]:
            thread.join(max(0.0, until - time.monotonic()))
            if thread.is_alive() or self.too_much:
                return False
        try:
            self._process.wait(max(0.0, until - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def _tell(self, asked: bytes) -> None:
        assert self._process.stdin is not None  # noqa: S101 - it was made with a pipe
        with suppress(OSError):  # it need not listen
            self._process.stdin.write(asked)
        with suppress(OSError):
            self._process.stdin.close()

    def _hear(self, pipe: IO[bytes]) -> None:
        while part := pipe.read1(1 << 16):  # type: ignore[attr-defined]
            self.said += part
            if len(self.said) > self._most:
                self.too_much = True
                _kill(self._process)
                return

    def _hear_errors(self, pipe: IO[bytes]) -> None:
        while part := pipe.read1(1 << 16):  # type: ignore[attr-defined]
            self.errors += part[: max(0, _ERROR_BYTES - len(self.errors))]


def _kill(process: "subprocess.Popen[bytes]") -> None:
    """Stop the command and what it started; it leads a process group of its own."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return


def _end(process: "subprocess.Popen[bytes]") -> None:
    _kill(process)
    process.wait()
    for pipe in (process.stdout, process.stderr):
        if pipe is not None:
            pipe.close()
