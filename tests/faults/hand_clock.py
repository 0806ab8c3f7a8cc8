"""``tessera serve`` under a clock that a test moves, stops and starts by hand.

    python -m tests.faults.hand_clock FILE serve --home …

FILE holds two little-endian integers, nanoseconds, read at each look at the clock: how far the server is
ahead of the machine, and the moment at which its clock stands still (0 = it runs). Timeouts, which run on the
monotonic clock in seconds, are not bent.
"""

import mmap
import struct
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

_PAIR = struct.Struct("<qq")


class HandClock:
    """The test's end of the clock."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.path.write_bytes(_PAIR.pack(0, 0))

    @property
    def launcher(self) -> tuple[str, ...]:
        """For ``Server(launcher=…)``."""
        return ("-m", "tests.faults.hand_clock", str(self.path))

    def move(self, seconds: float) -> None:
        """Set the server's clock forward, or back when negative."""
        ahead, stopped = self._read()
        nanoseconds = int(seconds * 1e9)
        if stopped:
            self._write(ahead, stopped + nanoseconds)
        else:
            self._write(ahead + nanoseconds, 0)

    @contextmanager
    def stopped(self) -> Iterator[None]:
        """No time passes but by ``move``; afterwards the clock runs on from there."""
        ahead, _ = self._read()
        self._write(ahead, time.time_ns() + ahead)
        try:
            yield
        finally:
            self._write(self._read()[1] - time.time_ns(), 0)

    def _read(self) -> tuple[int, int]:
        ahead, stopped = _PAIR.unpack(self.path.read_bytes())
        return int(ahead), int(stopped)

    def _write(self, ahead: int, stopped: int) -> None:
        with self.path.open("r+b") as file:  # in place: the server has these bytes mapped
            file.write(_PAIR.pack(ahead, stopped))


def main() -> None:
    """Bend ``time.time_ns``, ``time.time`` and ``time.monotonic_ns``, then be ``tessera``."""
    with Path(sys.argv[1]).open("rb") as file:
        shared = mmap.mmap(file.fileno(), _PAIR.size, access=mmap.ACCESS_READ)
    real = time.time_ns

    def bent() -> int:
        ahead, stopped = _PAIR.unpack(shared[:])
        return int(stopped or real() + ahead)

    time.time_ns = bent
    time.monotonic_ns = bent  # the pace at which the store's time goes on: it stands still with the clock
    time.time = lambda: bent() / 1e9
    del sys.argv[1]
    from tessera.cli import main as tessera

    tessera()


if __name__ == "__main__":
    main()
