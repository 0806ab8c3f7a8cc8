"""Pins: the record versions that a task takes as input, in the order sent, each with its digest.

Whether a key may read them is asked again at each offer and each read; one reader serves one request and
asks the database once for each version.
"""

import hashlib
import json
from typing import Any

from tessera.errors import NotFound
from tessera.store import records
from tessera.store.database import Session
from tessera.store.permission import Caller, RecordFacts, may_read_record, require_stores

Pin = dict[str, Any]
"""``{store, key, version, sha256}``."""


def capture(session: Session, caller: Caller, wanted: list[dict[str, Any]]) -> tuple[list[Pin], bool]:
    """The pins with their digests, and whether one of them is not shared with every reader of its store.

    Forbidden for a store that the caller is not granted, NotFound for a version it may not read.
    """
    require_stores(caller, (pin["store"] for pin in wanted))
    captured: list[Pin] = []
    discreet = False
    for position, pin in enumerate(wanted):
        facts = records.facts(session, pin["store"], pin["key"], pin["version"])
        if facts is None or not may_read_record(caller, facts):
            raise NotFound(f"there is no such record version: pins[{position}]")
        discreet = discreet or facts.visibility != "shared"
        captured.append(
            {
                "store": pin["store"],
                "key": pin["key"],
                "version": pin["version"],
                "sha256": facts.sha256,
            }
        )
    return captured, discreet


UNNAMED = 1
"""What a run with pins was marked with by earlier versions."""


def mark(listed: str | None) -> int:
    """Zero for no pins, else a number of 64 bits, signed, that is the same for the same list alone."""
    if listed is None:
        return 0
    found = int.from_bytes(hashlib.sha256(listed.encode()).digest()[:8], "big", signed=True)
    return found if found not in (0, UNNAMED) else 2


class PinReader:
    """The facts of pinned versions, for one request."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._known: dict[tuple[str, str, int], RecordFacts | None] = {}

    def facts(self, pins: str | None) -> list[RecordFacts | None]:
        """Facts of each pin of a stored list (JSON text, None for no pins)."""
        if pins is None:
            return []
        found = []
        for pin in json.loads(pins):
            name = (pin["store"], pin["key"], pin["version"])
            if name not in self._known:
                self._known[name] = records.facts(self._session, *name)
            found.append(self._known[name])
        return found
