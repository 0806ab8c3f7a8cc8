"""Time as the store tells it: the server's clock alone, integer milliseconds UTC inside, RFC 3339 outside."""

import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

from tessera.attempts import utc_milliseconds

Clock = Callable[[], int]
"""Gives the present, milliseconds since 1970 UTC."""


def now() -> int:
    """The present by this machine's clock, milliseconds since 1970 UTC."""
    return time.time_ns() // 1_000_000


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
