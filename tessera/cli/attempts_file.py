"""A file of past attempts, one JSON object a line, plain or gzip: read as often as needed, never held whole.

Promises the number of each line, its JSON through the strict door, and each fault with line and path. Leaves
out what an attempt means: `tessera.observations` judges it.
"""

import gzip
import os
import shutil
import stat
import tempfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

from tessera import json_door
from tessera.errors import Fault, Problem, TesseraError
from tessera.observations import attempt_faults

BATCH_ATTEMPTS = 500
BATCH_BYTES = json_door.MAX_BULK - 4096  # leaves room for the queue and what stands around the attempts
_SLACK = 256  # a line's numbers may be written longer when they are sent
_GZIP = b"\x1f\x8b"


@dataclass(frozen=True, slots=True)
class LineFault:
    """What is wrong in one line, counted from 1. An empty path means the line itself."""

    line: int
    path: str
    message: str

    def document(self) -> dict[str, Any]:
        """The fault for programs."""
        return {"line": self.line, "path": self.path, "message": self.message}


@dataclass(frozen=True, slots=True)
class Batch:
    """Attempts for one call, and the line each stands on."""

    attempts: list[dict[str, Any]]
    lines: list[int]


class AttemptsFile:
    """An open file of attempts. What cannot be read twice (a pipe) is first copied to a temporary file."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._file: BinaryIO = path.open("rb")
        try:
            if not stat.S_ISREG(os.fstat(self._file.fileno()).st_mode):
                self._file = _copied(self._file)
            self.size = os.fstat(self._file.fileno()).st_size
            self._zipped = self._file.read(2) == _GZIP
        except BaseException:
            self._file.close()
            raise

    @property
    def position(self) -> int:
        """How many bytes of the file, as it lies on the disk, have been read."""
        return self._file.tell()

    def checked(self) -> Iterator[tuple[int, Any, list[LineFault]]]:
        """Number, value and faults of each line that is not blank."""
        for number, line in self._lines():
            value, faults = _judged(line)
            found = [LineFault(number, fault.path.removeprefix("."), fault.message) for fault in faults]
            yield number, value, found

    def batches(self) -> Iterator[Batch]:
        """The attempts in calls of at most 500 and 16 MiB. Raises when a line no longer passes the door."""
        batch, size = Batch([], []), 0
        for number, line in self._lines():
            if batch.lines and (
                len(batch.lines) == BATCH_ATTEMPTS or size + len(line) + _SLACK > BATCH_BYTES
            ):
                yield batch
                batch, size = Batch([], []), 0
            try:
                batch.attempts.append(json_door.loads(line))
            except Problem as error:
                raise TesseraError(
                    f"{self.path}:{number}: changed while it was read ({error.detail})"
                ) from None
            batch.lines.append(number)
            size += len(line) + _SLACK
        if batch.lines:
            yield batch

    def _lines(self) -> Iterator[tuple[int, bytes]]:
        """Number and bytes of each line that is not blank; a line that is too long comes cut."""
        self._file.seek(0)
        source: BinaryIO = gzip.GzipFile(fileobj=self._file) if self._zipped else self._file  # type: ignore[assignment]
        number = 0
        try:
            while line := source.readline(BATCH_BYTES + 1):
                number += 1
                rest = line
                while len(rest) > BATCH_BYTES and not rest.endswith(b"\n"):
                    rest = source.readline(BATCH_BYTES + 1)
                if not line.isspace():
                    yield number, line
        except (EOFError, gzip.BadGzipFile, zlib.error) as error:
            raise TesseraError(
                f"{self.path}: the gzip data is damaged after line {number}: {error}"
            ) from None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()


def _copied(source: BinaryIO) -> BinaryIO:
    """A temporary file of the same bytes, gone when it is closed."""
    copy: Any = tempfile.TemporaryFile()  # noqa: SIM115 - it outlives this function
    with source:
        try:
            shutil.copyfileobj(source, copy)
            copy.seek(0)
        except BaseException:
            copy.close()
            raise
    return copy  # type: ignore[no-any-return]


def _judged(line: bytes) -> tuple[Any, list[Fault]]:
    if len(line) + _SLACK > BATCH_BYTES:
        return None, [Fault("", f"must be at most {BATCH_BYTES - _SLACK} bytes")]
    try:
        value = json_door.loads(line)
    except Problem as problem:
        return None, list(problem.errors) or [Fault("", problem.detail)]
    return value, attempt_faults(value, "")
