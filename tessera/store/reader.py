"""Which executions of a scope a key may read, walked in capture order.

Promises what ``permission`` decides and nothing else: the database leaves out only what a row itself rules
out, so that a million runs of others cost one scan of an index. Leaves out what is served of a run.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

from sqlalchemy import bindparam, or_, select, text

from tessera.errors import Fault, Invalid
from tessera.store import pins
from tessera.store.database import Session
from tessera.store.permission import Caller, audiences, may_read_run, require_kinds, require_queue
from tessera.store.schema import executions
from tessera.store.statements import Statement

BATCH = 2_000
"""Rows taken from the database at a time."""
_JUDGED = 10_000  # judgements kept: many runs are of one kind, audience and list of pins

_NEWEST = Statement(text("SELECT value FROM counters WHERE name = 'executions'"))
_PINS = Statement(select(executions.c.pins).where(executions.c.number == bindparam("number")))


class Scope(NamedTuple):
    """What a read of observations is about: a queue, one of its kinds or all, behind a cursor."""

    queue: str
    kind: str | None
    after: int

    def check(self, session: Session, caller: Caller) -> None:
        """Forbidden for what is not granted, Invalid for a cursor that no execution has reached."""
        require_queue(caller, self.queue)
        if self.kind is not None:
            require_kinds(caller, (self.kind,))
        newest = session.row(_NEWEST)
        if newest is None or self.after > newest[0]:
            raise Invalid(
                "the cursor lies past the newest execution",
                errors=[Fault("after", "must not be past the newest execution")],
            )


class Reader:
    """Judges which executions of a scope a key may read, and walks them in order."""

    def __init__(self, session: Session, caller: Caller, scope: Scope) -> None:
        self._session = session
        self._caller = caller
        self._scope = scope
        self._pins = pins.PinReader(session)
        self._judged: dict[tuple[str, str, int], bool] = {}

    def walk(self, first: int) -> Iterator[tuple[int, bool]]:
        """All numbers in order, each with whether it is readable; ``first``: how many are likely wanted."""
        for row in self._rows(_query(None, None), {}, first):
            yield row[0], self.readable(*row)

    def numbers(self, first: int) -> Iterator[int]:
        """The readable numbers in order; ``first``: how many are likely wanted."""
        kinds, owners = self._kinds(), audiences(self._caller)
        values: dict[str, Any] = {f"kind_{n}": kind for n, kind in enumerate(kinds or ())}
        values.update({f"audience_{n}": owner for n, owner in enumerate(owners or ())})
        query = _query(None if kinds is None else len(kinds), None if owners is None else len(owners))
        for row in self._rows(query, values, first):
            if self.readable(*row):
                yield row[0]

    def readable(self, number: int, kind: str, audience: str, pinned: int) -> bool:
        """Whether the key may read the run and it is of the scope's kind."""
        what = (kind, audience, pinned)
        known = self._judged.get(what)
        if known is None:
            row = self._session.row(_PINS, number=number) if pinned else None
            facts = self._pins.facts(None if row is None else row[0])
            known = self._scope.kind in (None, kind) and may_read_run(
                self._caller, self._scope.queue, kind, audience, facts
            )
            if pinned != pins.UNNAMED:
                if len(self._judged) == _JUDGED:
                    self._judged.clear()
                self._judged[what] = known
        return known

    def _kinds(self) -> tuple[str, ...] | None:
        """The kinds that may be readable, None for all."""
        if self._scope.kind is not None:
            return (self._scope.kind,)
        return None if self._caller.kinds is None else tuple(sorted(self._caller.kinds))

    def _rows(self, query: Statement, values: dict[str, Any], first: int) -> Iterator[tuple[Any, ...]]:
        after, limit = self._scope.after, first
        while True:
            rows = self._session.rows(query, queue=self._scope.queue, after=after, limit=limit, **values)
            yield from rows
            if len(rows) < limit:
                return
            after, limit = rows[-1][0], BATCH


@lru_cache(maxsize=128)
def _query(kinds: int | None, owners: int | None) -> Statement:
    """Rows of a queue behind a number, of so many kinds and audiences; ``None`` leaves nothing out.

    Answered from an index alone.
    """
    table = executions.c
    query = select(table.number, table.kind, table.audience, table.pinned).where(
        table.queue == bindparam("queue"), table.number > bindparam("after")
    )
    for column, name, count in ((table.kind, "kind", kinds), (table.audience, "audience", owners)):
        if count is not None:
            query = query.where(
                or_(text("1 = 0"), *(column == bindparam(f"{name}_{n}") for n in range(count)))
            )
    return Statement(query.order_by(table.number).limit(bindparam("limit")))
