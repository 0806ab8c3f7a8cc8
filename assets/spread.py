"""How far the work on one queue is spread: how many rows a part has, and what computes the parts.

Promises results in the order of the parts, a bounded number of them waiting, and that a process which dies
has its part computed again, or ends the run with an error; nothing half. Leaves out what a part computes:
see `assets.windows` and `assets.fingerprints`.
"""

import multiprocessing
import os
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from typing import Any, TypeVar

from assets.views import LakeError
from tessera.settings import PART_ROWS

F = TypeVar("F")
Map = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
"""As the built-in `map`: results in the order of the items. Function, items and results can be pickled."""


class SpreadError(LakeError):
    """A part could not be computed: its process died, again and again."""


@dataclass(frozen=True, slots=True)
class Spread:
    """A window of more than `rows` rows is computed in parts of about as many, by `map`.

    The built-in `map` computes one part after the other in this process, so that memory is bounded by a part.
    """

    rows: int = PART_ROWS
    map: Map = map


def in_order(submit: Callable[[Any], F], items: Iterable[Any], more: int) -> Iterator[F]:
    """The futures of all items in their order; at most so many `more` are under way behind the one given."""
    under_way: deque[F] = deque()
    for item in items:
        under_way.append(submit(item))
        if len(under_way) > more:
            yield under_way.popleft()
    while under_way:  # each let go of as it is given: it holds its result
        yield under_way.popleft()


class Processes:
    """A map over `count` processes of this machine, which end with this one, however it ends."""

    def __init__(self, count: int) -> None:
        self.count = count

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Results in order. Raises what the function raises, SpreadError for a part that kills processes."""
        waiting = deque(items)
        deaths = 0
        while waiting:
            left = len(waiting)
            try:
                yield from self._computed(function, waiting)
            except BrokenProcessPool as error:
                deaths = deaths + 1 if len(waiting) == left else 1
                if deaths == _DEATHS:
                    raise SpreadError(
                        f"a process that computed a part of the queue died {deaths} times at the same place, "
                        "so nothing was published. It may be short of memory: set TESSERA_PART_ROWS lower, "
                        "or TESSERA_PROCESSES to 1."
                    ) from error

    def _computed(self, function: Callable[[Any], Any], waiting: deque[Any]) -> Iterator[Any]:
        """Results of what waits, each taken off once its result is there; a few are under way at once."""
        # started afresh, not forked: a fork of a process with threads, as polars has them, may stand still
        fresh = multiprocessing.get_context("spawn")
        pool = ProcessPoolExecutor(self.count, mp_context=fresh, initializer=begin)
        try:
            computing = in_order(lambda item: pool.submit(function, item), list(waiting), self.count)
            for future in computing:
                result = future.result()
                waiting.popleft()
                yield result
        finally:
            pool.shutdown(cancel_futures=True)


_DEATHS = 3


def begin() -> None:
    """A worker leaves Ctrl-C to its parent, and ends when that is gone."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: Any) -> None:
    parent.join()
    os._exit(1)
