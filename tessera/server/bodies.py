"""The bodies of the calls, field by field (contract, section 3); bounds that the contract leaves open are
here.
"""

import math
from typing import Any

from tessera import observations, reports
from tessera.errors import Fault
from tessera.server.reported import ATTEMPT, REPORT
from tessera.server.shapes import (
    Anything,
    Choice,
    Fields,
    Flag,
    Items,
    Judged,
    Moment,
    Nullable,
    Object,
    Text,
    Weight,
    Whole,
)
from tessera.store.draws import DIMENSIONS, MAX_ARMS
from tessera.store.permission import SCOPES, VISIBILITIES
from tessera.store.recall import MAX_LIMIT

MAX_SAFE = 2**53 - 1
_NAME = "[A-Za-z0-9._-]{1,64}"
_NAME_MESSAGE = "must be 1 to 64 of A-Z a-z 0-9 . _ -"

NAME = Text(64, pattern=_NAME, message=_NAME_MESSAGE)
"""A queue or a store."""
GRANTED_QUEUE = Text(
    65,
    pattern=r"[A-Za-z0-9._-]{1,64}|[A-Za-z0-9._-]{0,64}\*",
    message="must be a queue, or the beginning of queues followed by *",
)
KIND = Text(64, pattern="[^\x00-\x1f\x7f-\x9f]+", message="must not hold control characters")
KEY = Text(
    512,
    pattern=r"(?!\.{1,2}$)[A-Za-z0-9._:@+=-]+",
    message="must be of A-Z a-z 0-9 . _ : @ + = - and not . or ..",
)
ID = Text(64, pattern="[\x21-\x7e]+", message="must be printable ASCII")
IDEMPOTENCY_KEY = Text(128, characters=True)
FENCE = Whole(1, MAX_SAFE)
LEASE_SECONDS = Whole(1, 86_400)
PIN = Fields({"store": NAME, "key": KEY, "version": Whole(1, MAX_SAFE)})

ENQUEUE = Fields(
    {
        "queue": NAME,
        "kind": KIND,
        "brief": Object(),
        "idempotency_key": IDEMPOTENCY_KEY,
        "private": Flag(),
        "priority": Whole(-100, 100),
        "max_attempts": Whole(1, 100),
        "pins": Items(PIN, 100),
        "owner_key_id": ID,
    },
    optional=("idempotency_key", "private", "priority", "max_attempts", "pins", "owner_key_id"),
)
CLAIM = Fields(
    {
        "queue": NAME,
        "kinds": Items(KIND, 100, least=1),
        "task_id": ID,
        "lease_seconds": LEASE_SECONDS,
    },
    optional=("kinds", "task_id"),
)
HEARTBEAT = Fields({"fence": FENCE, "lease_seconds": LEASE_SECONDS})
SUBMIT = Fields(
    {
        "fence": FENCE,
        "ok": Flag(),
        "output": Anything(),
        "failure": Text(65_536, blank=True),
        "execution_report": Judged(reports.faults, REPORT),
        "idempotency_key": IDEMPOTENCY_KEY,
    },
    optional=("output", "failure", "execution_report", "idempotency_key"),
)
NOTHING = Fields({})


class _Arms:
    """Distinct arms whose weights sum to 1; the sum is judged only when each arm is right."""

    def __init__(self) -> None:
        self._items = Items(Fields({"arm": Text(128), "weight": Weight()}), MAX_ARMS, least=1)

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        before = len(faults)
        arms = self._items.check(value, path, faults)
        if len(faults) > before:
            return arms
        seen: set[str] = set()
        for n, arm in enumerate(arms):
            if arm["arm"] in seen:
                faults.append(Fault(f"{path}[{n}].arm", "must not stand twice"))
            seen.add(arm["arm"])
        if not abs(math.fsum(arm["weight"] for arm in arms) - 1.0) <= 1e-9:
            faults.append(Fault(path, "must have weights that sum to 1 within 1e-9"))
        return arms

    def schema(self) -> dict[str, Any]:
        return {
            **self._items.schema(),
            "description": "Distinct alternatives; their weights sum to 1 within 1e-9.",
        }


DRAW = Fields(
    {"fence": FENCE, "dimension": Choice(DIMENSIONS), "arms": _Arms(), "policy": PIN},
    optional=("policy",),
)
RECALL = Fields(
    {
        "queue": NAME,
        "kind": KIND,
        "brief": Object(),
        "input_digest": Text(64, pattern="[0-9a-f]{64}", message="must be 64 hex digits, lowercase"),
        "limit": Whole(1, MAX_LIMIT),
    },
    optional=("input_digest", "limit"),
)


def _attempt_faults(attempt: Any, path: str) -> list[Fault]:
    return list(observations.attempt_faults(attempt, path))


IMPORT = Fields(
    {
        "queue": NAME,
        "attempts": Items(
            Judged(_attempt_faults, ATTEMPT),
            500,
            least=1,
        ),
    }
)


class _Write:
    """One write of a batch: a surface goes with the visibility surface_only, and with no other."""

    def __init__(self) -> None:
        self._fields = Fields(
            {
                "store": NAME,
                "key": KEY,
                "expected_version": Whole(0, MAX_SAFE - 1),
                "category": KIND,
                "tags": Items(Text(128), 16, distinct=True),
                "body": Object(),
                "visibility": Choice(VISIBILITIES),
                "surface": Nullable(Fields({"queue": NAME, "kind": KIND}, optional=("kind",))),
            },
            optional=("surface",),
        )

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        before = len(faults)
        checked = self._fields.check(value, path, faults)
        if len(faults) > before:
            return checked
        surface = checked.get("surface")
        if checked["visibility"] == "surface_only":
            if surface is None:
                faults.append(Fault(f"{path}.surface", "is required"))
        elif surface is not None:
            faults.append(Fault(f"{path}.surface", "is only for the visibility surface_only"))
        return checked

    def schema(self) -> dict[str, Any]:
        return self._fields.schema()


RECORDS = Fields(
    {"idempotency_key": IDEMPOTENCY_KEY, "writes": Items(_Write(), 1_000, least=1)},
    optional=("idempotency_key",),
)
KEYS = Fields(
    {
        "name": Text(128),
        "scopes": Items(Choice(SCOPES), 4, distinct=True),
        "queues": Items(GRANTED_QUEUE, 100, distinct=True),
        "kinds": Nullable(Items(KIND, 100, least=1, distinct=True)),
        "stores": Nullable(Items(NAME, 100, distinct=True)),
        "expires_at": Nullable(Moment()),
    },
    optional=("kinds", "stores", "expires_at"),
)
