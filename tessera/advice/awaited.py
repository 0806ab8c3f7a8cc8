"""Recall, choose and lessons for a worker on asyncio: the same three, awaited, with its `AsyncClient`.

Promises the very answers of `tessera.advice`, by the very same code: it runs in a thread beside the loop and
has the loop make its calls to the store, so that neither a wait nor a search of a large index holds the loop
up. A caller that is cancelled is gone at once; the call under way is brought to its end without it.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from tessera.advice import choosing, lesson_texts, similar
from tessera.advice.choosing import Choice
from tessera.advice.lesson_texts import Lessons

if TYPE_CHECKING:
    from tessera.client import AsyncClient

T = TypeVar("T")


async def recall(
    queue: str, category: str, brief: Any, *, client: "AsyncClient | None" = None, **more: Any
) -> dict[str, Any]:
    """`tessera.advice.recall`, with its other arguments."""
    return await _beside(similar.recall, client, queue, category, brief, **more)


async def choose(
    task: Mapping[str, Any],
    dimension: str,
    arms: Sequence[str],
    *,
    client: "AsyncClient | None" = None,
    **more: Any,
) -> Choice:
    """`tessera.advice.choose`, with its other arguments."""
    return await _beside(choosing.choose, client, task, dimension, arms, **more)


async def lessons(task: Mapping[str, Any], *, client: "AsyncClient | None" = None, **more: Any) -> Lessons:
    """`tessera.advice.lessons`, with its other arguments."""
    return await _beside(lesson_texts.lessons, client, task, **more)


async def _beside(
    function: Callable[..., T], client: "AsyncClient | None", *arguments: Any, **named: Any
) -> T:
    """The function in a thread, its client's calls on this loop; without a client it makes one of its own."""
    lent = None if client is None else _Lent(client, asyncio.get_running_loop())
    return await asyncio.to_thread(function, *arguments, client=lent, **named)


class _Lent:
    """An `AsyncClient` as a blocking one, for a thread beside its loop."""

    def __init__(self, client: "AsyncClient", loop: asyncio.AbstractEventLoop) -> None:
        self.url, self._client, self._loop = client.url, client, loop

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._client, name)

        def call(*arguments: Any, **named: Any) -> Any:
            return asyncio.run_coroutine_threadsafe(method(*arguments, **named), self._loop).result()

        return call
