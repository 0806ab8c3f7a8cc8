"""The nouns of recurring work: a schedule, and how far it has come.

Promises that each fault of a body is found and named by its path, in the words of the store's own messages.
Leaves out when a window is due (`pipelines.planning`) and enqueuing it (`pipelines.schedules`).

Source: the contract, section 13. A schedule's windows are `window_seconds` wide and tile time without end;
its cadence says when those that have closed are enqueued. `enabled: false` pauses it.
"""

import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any

from croniter import croniter

from schemas.rules import free, integer, mapping, name
from tessera.checks import Check, array, nullable, text
from tessera.errors import Fault

STORE = "learn.schedules"
SCHEMA = "tessera.schedule.v1"
PROGRESS_SCHEMA = "tessera.schedule-progress.v1"
CATEGORY = "noun.skill_pack"
PROGRESS_CATEGORY = "noun.eval_run"
PROGRESS = "progress:"
"""What the key of a schedule's progress noun begins with; a schedule's own key does not."""

LONGEST_WINDOW = 366 * 86_400
MOST = 1_000
# croniter draws an R at random, each time anew, and takes a range of one value, such as 9-9, for all of them
_NO_TIME = re.compile(r"(?<![a-z])[rh](?![a-z])|\b0*(\w+?)-0*\1\b", re.IGNORECASE)
_SOME_DAY = 946_684_800.0  # 2000-01-01, so that the answer does not depend on today


def progress_key(key: str) -> str:
    """The key of the noun that says how far a schedule has come."""
    return f"{PROGRESS}{key}"


def faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with a schedule noun's body; empty when it is fine."""
    return list(_SCHEDULE(body, root))


def progress_faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with the body of a progress noun; empty when it is fine."""
    return list(_PROGRESS(body, root))


def _cron(value: Any, path: str) -> Iterator[Fault]:
    found = list(text(256)(value, path))
    yield from found
    if not found and not _comes_round(value):
        yield Fault(path, "must be a cron expression of five fields: minute hour day month weekday, in UTC")


def _comes_round(cron: str) -> bool:
    """Whether it has five fields and names a time that there is: February has no 30th."""
    if len(cron.split()) != 5 or _NO_TIME.search(cron):
        return False
    try:
        return bool(croniter(cron, _SOME_DAY).get_next() > _SOME_DAY)
    except (ValueError, KeyError):  # croniter's own errors are such
        return False


def _cadence(value: Any, path: str) -> Iterator[Fault]:
    ways: dict[str, Check] = {"cron": _cron, "every_seconds": integer(1, LONGEST_WINDOW)}
    found = list(mapping({}, ways)(value, path))
    yield from found
    if not found and len(value) != 1:
        yield Fault(path, f"must have exactly one of {', '.join(ways)}")


def _flag(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, bool):
        yield Fault(path, "must be true or false")


def _moment(value: Any, path: str) -> Iterator[Fault]:
    try:
        known = datetime.fromisoformat(value).tzinfo is not None
    except (TypeError, ValueError):
        known = False
    if not known:
        yield Fault(path, "must be an RFC 3339 time with a zone")


_SCHEDULE = mapping(
    {
        "schema": text(128, choices=(SCHEMA,)),
        "target": mapping({"queue": name, "kind": text(64), "brief": free}),
        "cadence": _cadence,
        "window_seconds": integer(1, LONGEST_WINDOW),
        "owner_key_id": text(64),
        "max_outstanding": integer(1, MOST),
        "max_catch_up": integer(1, MOST),
    },
    {
        "pins": array(64, mapping({"store": name, "key": text(512), "version": integer(1)})),
        "enabled": _flag,
    },
)

_PROGRESS = mapping(
    {
        "schema": text(128, choices=(PROGRESS_SCHEMA,)),
        "schedule": text(512),
        "done": nullable(_moment),
        "enqueued": integer(0),
        "outstanding": array(
            MOST,
            mapping(
                {
                    "version": integer(1),
                    "start": _moment,
                    "end": _moment,
                    "task_id": nullable(text(64)),
                }
            ),
        ),
        "skips": array(
            MOST,
            mapping(
                {"at": _moment, "version": integer(1), "reason": text(65_536, may_be_blank=True)},
                {"again_at": _moment},
            ),
        ),
    }
)
