"""What the store asks of a database: transactions as blocks, and statements inside them.

Promises, of every database: a write is one transaction, whole or not at all, on disk before its block ends;
a read is one short transaction over one snapshot; a change that does not hit exactly the row it expects
raises; what the database refuses for now is Unavailable (503), never an error of its driver. Leaves out how:
``sqlite`` and ``postgresql`` say so.
"""

import random
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, TypeVar

from tessera.errors import TesseraError, Unavailable
from tessera.store.statements import Statement

T = TypeVar("T")

BUSY_SECONDS = 10.0
"""How long a write waits for others, or is tried again, before it gives up with 503."""
_PAUSE, _LONGEST_PAUSE = 0.001, 0.05


class Stale(TesseraError):  # noqa: N818 - it says what the row is
    """A change met another version, state or fence than it named; nothing of its transaction is kept."""


class Again(Stale):
    """Another transaction came between, or the connection broke before the commit was asked for: nothing is
    kept, and the same work may go well when it is done anew.
    """


class Busy(TesseraError):  # noqa: N818 - it says what the store is
    """Another writes at the moment, and the caller would not wait."""


class Over(Unavailable):
    """The database ended the transaction by itself; nothing of it is kept."""


class Session(ABC):
    """One transaction: runs statements, and knows the time at which it began (``now``, milliseconds)."""

    __slots__ = ("now",)

    def __init__(self, now: int) -> None:
        self.now = now

    @property
    @abstractmethod
    def rows_written(self) -> int:
        """Table rows inserted, changed or deleted so far."""

    @abstractmethod
    def part(self) -> AbstractContextManager[None]:
        """A part of the transaction that is undone alone when its block raises; Over when it cannot be."""

    @abstractmethod
    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""

    @abstractmethod
    def row(self, statement: Statement, **values: Any) -> tuple[Any, ...] | None:
        """The first row of a query, None when there is none."""

    @abstractmethod
    def row_of_each(self, statement: Statement, values: list[dict[str, Any]]) -> list[tuple[Any, ...] | None]:
        """The first row of a query for each set of values, in their order."""

    @abstractmethod
    def change(self, statement: Statement, **values: Any) -> None:
        """A write that must hit exactly one row; raises Stale otherwise."""

    @abstractmethod
    def insert(self, statement: Statement, **values: Any) -> int:
        """Insert one row; its number where the database gives it."""

    @abstractmethod
    def insert_all(self, statement: Statement, rows: list[dict[str, Any]]) -> None:
        """Insert rows of one table."""


class Database(ABC):
    """An open database with the schema in place. ``close`` it when done."""

    prompt: bool
    """Whether a short transaction that need not wait takes less time than giving it to another thread."""
    writers: int
    """How many threads that write are of use."""

    @abstractmethod
    def write(self, *, wait: bool = True, snapshot: bool = False) -> AbstractContextManager[Session]:
        """One transaction that may write; committed when the block ends, rolled back when it raises.

        Unavailable when its turn does not come within BUSY_SECONDS; Busy at once without ``wait``. With
        ``snapshot`` all its reads are of one moment. Whoever writes beside others runs it by ``settled``.
        """

    @abstractmethod
    def read(self) -> AbstractContextManager[Session]:
        """One short transaction over one snapshot; never held while an answer is on its way."""

    @abstractmethod
    def close(self) -> None:
        """Close every connection."""

    @abstractmethod
    def sizes(self) -> tuple[int, int | None]:
        """Bytes of the tables and indexes, and of the write-ahead log where it belongs to the store alone."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where the database is, without secrets."""


def settled(work: Callable[[], T]) -> T:
    """The result of ``work``, which is one transaction, done anew as long as others come between.

    Unavailable when they still do after BUSY_SECONDS.
    """
    deadline = time.monotonic() + BUSY_SECONDS
    pause = _PAUSE
    while True:
        try:
            return work()
        except Again as met:
            if time.monotonic() + pause > deadline:
                raise Unavailable(
                    "others keep changing what the request changes; try again", extra={"retry_after": 1}
                ) from met
        time.sleep(random.uniform(0.0, pause))  # noqa: S311 - so that two who met do not meet again
        pause = min(2 * pause, _LONGEST_PAUSE)
