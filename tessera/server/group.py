"""Short writes that arrive together are made in one transaction and wait for the disk once.

Promises each writer what a transaction of its own would: all of its work or none of it, whatever becomes of
the others, and its answer only after the commit. A lone write waits for nobody. Runs on the event loop, for a
database whose short transactions take less time than giving them to another thread.
"""

import asyncio
from collections.abc import Callable
from typing import Any, TypeVar

from tessera.store.database import Database, Over, Session

T = TypeVar("T")
MOST = 64
"""Writes in one transaction: more would keep readers waiting."""

_Work = Callable[[Session], Any]
_Outcome = tuple[Any, Exception | None]


class Group:
    """Writes that wait for the next transaction."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._waiting: list[tuple[_Work, asyncio.Future[Any]]] = []

    async def run(self, work: Callable[[Session], T]) -> T:
        """Do ``work`` in the next transaction; its result once that is committed, or what it raised.

        Raises Busy when another process or thread writes at the moment.
        """
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        if not self._waiting:
            loop.call_soon(self._flush, loop)  # after the requests that have arrived by now
        self._waiting.append((work, future))
        return await future

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        batch, self._waiting = self._waiting[:MOST], self._waiting[MOST:]
        if self._waiting:
            loop.call_soon(self._flush, loop)
        outcomes = self._commit([work for work, _ in batch])
        for (_, future), (result, error) in zip(batch, outcomes, strict=True):
            if future.cancelled():
                continue
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

    def _commit(self, works: list[_Work]) -> list[_Outcome]:
        """What becomes of each; when the commit fails, the same of all."""
        try:
            with self._database.write(wait=False) as session:
                if len(works) == 1:
                    return [(works[0](session), None)]
                return [_part(session, work) for work in works]
        except Over as error:  # by what one of them asked for; nothing is kept
            return [(None, error)] if len(works) == 1 else [self._commit([work])[0] for work in works]
        except Exception as error:
            return [(None, error) for _ in works]


def _part(session: Session, work: _Work) -> _Outcome:
    try:
        with session.part():
            return work(session), None
    except Over:
        raise
    except Exception as error:
        return None, error
