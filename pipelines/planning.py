"""Which windows of a schedule are due. Pure: seconds since 1970 UTC in, windows out, no clock.

Promises that windows follow one another without gap or overlap, from version to version, whatever the cadence
was meanwhile: a window begins where the last one enqueued ended. Leaves out who asks and what is enqueued.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from croniter import croniter


@dataclass(frozen=True, slots=True)
class Plan:
    """What a tick is to do: ``windows`` as (start, end), oldest first; ``held`` why the rest waits."""

    windows: tuple[tuple[int, int], ...]
    due: int
    held: str | None = None


def plan(body: Mapping[str, Any], done: int, outstanding: int, now: int) -> Plan:
    """The windows to enqueue now, of a schedule whose windows are enqueued up to ``done``.

    A window is due once it has ended and the cadence has come round since. Of those due, the oldest, at most
    ``max_catch_up`` in one tick, and as many as leave no more than ``max_outstanding`` tasks outstanding.
    """
    width = int(body["window_seconds"])
    due = max(0, (last_round(body["cadence"], now) - done) // width)
    room = max(0, int(body["max_outstanding"]) - outstanding)
    count = min(due, int(body["max_catch_up"]), room)
    held = None
    if room < min(due, int(body["max_catch_up"])):
        held = f"{outstanding + count} tasks are outstanding, the cap is {body['max_outstanding']}"
    elif count < due:
        held = f"{due} windows are due, {body['max_catch_up']} are caught up in one tick"
    return Plan(tuple((done + n * width, done + (n + 1) * width) for n in range(count)), due, held)


def first_start(body: Mapping[str, Any], created: int) -> int:
    """Where the first window of a new schedule begins: the one under way when the noun was written.

    Counted from 1970, so that hours and days begin where clocks in UTC show them.
    """
    width = int(body["window_seconds"])
    return created // width * width


def last_round(cadence: Mapping[str, Any], now: int) -> int:
    """The newest time at or before ``now`` that the cadence names."""
    if "every_seconds" in cadence:
        every = int(cadence["every_seconds"])
        return now // every * every
    after = datetime.fromtimestamp(now + 1, UTC)
    return int(croniter(cadence["cron"], after).get_prev(datetime).timestamp())


def written(moment: int) -> str:
    """Seconds since 1970 as RFC 3339, as windows are named."""
    return datetime.fromtimestamp(moment, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def read(moment: str) -> int:
    """RFC 3339 in UTC, with or without fractions, as whole seconds since 1970."""
    return int(datetime.fromisoformat(moment.replace("Z", "+00:00")).timestamp())
