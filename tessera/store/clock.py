"""Time as the store tells it: the server's clock alone, integer milliseconds UTC inside, RFC 3339 outside.

Promises that the time of a running store never goes back, whatever is done to the machine's clock: what
lapsed stays so. From where the next start goes on is left to ``opening``.
"""

import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tessera.attempts import utc_milliseconds

Clock = Callable[[], int]
"""Gives the present, milliseconds since 1970 UTC."""


def now() -> int:
    """The present by this machine's clock, milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


def _ticks() -> int:
    """Milliseconds since some moment, by a clock that nobody sets."""
    return time.monotonic_ns() // 1_000_000


class Forward:
    """A clock that never goes back. Where ``wall`` is set back, time goes on from where it was, at its pace.

    Safe to use from any thread.
    """

    def __init__(self, wall: Clock) -> None:
        self._wall = wall
        self._lock = threading.Lock()
        self._newest, self._at = wall(), _ticks()

    def __call__(self) -> int:
        with self._lock:
            at = _ticks()
            self._newest = max(self._wall(), self._newest + max(0, at - self._at))
            self._at = at
            return self._newest

    def not_before(self, moment: int) -> None:
        """Go on from ``moment`` if that is later than the present."""
        with self._lock:
            self._newest = max(self._newest, moment)

    @property
    def ahead(self) -> int:
        """Milliseconds by which the store's time is ahead of the machine's."""
        return self() - self._wall()


def rfc3339(moment: int | None) -> str | None:
    """RFC 3339 UTC with milliseconds and ``Z``; None stays None."""
    if moment is None:
        return None
    time = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=moment)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def milliseconds(text: str) -> int | None:
    """The moment that RFC 3339 text with a zone names, None when it is not such text."""
    utc = utc_milliseconds(text)
    if utc is None:
        return None
    since = datetime.fromisoformat(utc) - datetime(1970, 1, 1, tzinfo=UTC)
    return since // timedelta(milliseconds=1)
