"""The store's client: `Client` blocks, `AsyncClient` is awaited; otherwise they are twins.

Each method sends the call of the same name of `tessera.calls`, which documents its values. Idempotent calls
are repeated on connection faults and on 429 and 502-504, with backoff and `Retry-After`; a refused write
never is. Errors are those of `tessera.errors`. httpx is loaded when the first client is made, not on import.
"""

import functools
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Concatenate, ParamSpec, Self, TypeVar, get_args

from tessera import calls
from tessera.calls import Call, Json
from tessera.errors import ConnectionFault
from tessera.settings import Settings

if TYPE_CHECKING:
    from tessera.transport import Backoff, Door

P = ParamSpec("P")
T = TypeVar("T")


def _method(describe: Callable[..., Any], perform: Callable[..., Any]) -> Any:
    """`perform`, dressed as a method with the name, documentation and parameters of a description."""
    method = functools.wraps(describe)(perform)
    described = inspect.signature(describe)
    this = inspect.Parameter("self", inspect.Parameter.POSITIONAL_ONLY)
    (returned,) = get_args(described.return_annotation)  # of Call[...]
    method.__signature__ = described.replace(  # type: ignore[attr-defined]
        parameters=[this, *described.parameters.values()], return_annotation=returned
    )
    return method


def _blocking(describe: Callable[P, Call[T]]) -> Callable[Concatenate["Client", P], T]:
    def perform(self: "Client", *args: P.args, **kwargs: P.kwargs) -> T:
        return self._transport.perform(describe(*args, **kwargs))

    return _method(describe, perform)  # type: ignore[no-any-return]


def _awaiting(describe: Callable[P, Call[T]]) -> Callable[Concatenate["AsyncClient", P], Awaitable[T]]:
    async def perform(self: "AsyncClient", *args: P.args, **kwargs: P.kwargs) -> T:
        return await self._transport.perform(describe(*args, **kwargs))

    return _method(describe, perform)  # type: ignore[no-any-return]


def _door(url: str | None, key: str | None, timeout: float, backoff: "Backoff | None") -> "Door":
    """The store's address and key: as given, else from the environment, the key when it is first needed."""
    from tessera.transport import Backoff, Door, usable_key

    if url is None:
        url = Settings.from_environment().url
    if key is None:
        return Door(
            url,
            functools.cache(lambda: Settings.from_environment().require_key()),
            timeout,
            backoff or Backoff(),
        )
    secret = usable_key(key)
    return Door(url, lambda: secret, timeout, backoff or Backoff())


def _onward(url: str, page: Json, after: str) -> str | None:
    try:
        return calls.onward(page, after)
    except calls.UnexpectedAnswerError as error:
        raise ConnectionFault(url, str(error)) from None


class Client:
    """A blocking client of one store, to be used by one program and any number of its threads.

    `url` and `key` default to the settings (TESSERA_URL; TESSERA_KEY, else the admin key of the home).
    `timeout` bounds each wait, in seconds; bulk calls may wait six times as long. `with` closes connections.
    """

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        backoff: "Backoff | None" = None,
    ) -> None:
        from tessera.transport import Blocking

        door = _door(url, key, timeout, backoff)
        self.url = door.url
        self._transport = Blocking(door)

    enqueue = _blocking(calls.enqueue)
    claim = _blocking(calls.claim)
    heartbeat = _blocking(calls.heartbeat)
    draw = _blocking(calls.draw)
    submit = _blocking(calls.submit)
    cancel = _blocking(calls.cancel)
    get_task = _blocking(calls.get_task)
    get_execution = _blocking(calls.get_execution)
    execution_observations = _blocking(calls.execution_observations)
    observation_page = _blocking(calls.observation_page)
    pending = _blocking(calls.pending)
    queues = _blocking(calls.queues)
    recall = _blocking(calls.recall)
    list_draws = _blocking(calls.list_draws)
    import_attempts = _blocking(calls.import_attempts)
    get_record = _blocking(calls.get_record)
    record_versions = _blocking(calls.record_versions)
    list_records = _blocking(calls.list_records)
    write_records = _blocking(calls.write_records)
    create_key = _blocking(calls.create_key)
    list_keys = _blocking(calls.list_keys)
    revoke_key = _blocking(calls.revoke_key)
    whoami = _blocking(calls.whoami)
    health = _blocking(calls.health)

    def iter_observations(
        self, queue: str, *, kind: str | None = None, after: str = "0", store_id: str | None = None
    ) -> Iterator[Json]:
        """Each readable observation after a cursor, in capture order, page by page; ends at the newest."""
        cursor: str | None = after
        while cursor is not None:
            page = self.execution_observations(queue, kind=kind, after=cursor, store_id=store_id)
            yield from page["items"]
            cursor, store_id = _onward(self.url, page, cursor), page.get("store_id", store_id)

    def perform(self, call: Call[T]) -> T:
        """Send a call that is described elsewhere, with this client's key, patience and errors."""
        return self._transport.perform(call)

    def close(self) -> None:
        """Close idle connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"Client({self.url!r})"


class AsyncClient:
    """The awaited twin of `Client`, for one asyncio loop."""

    def __init__(
        self,
        url: str | None = None,
        key: str | None = None,
        *,
        timeout: float = 10.0,
        backoff: "Backoff | None" = None,
    ) -> None:
        from tessera.transport import Awaiting

        door = _door(url, key, timeout, backoff)
        self.url = door.url
        self._transport = Awaiting(door)

    enqueue = _awaiting(calls.enqueue)
    claim = _awaiting(calls.claim)
    heartbeat = _awaiting(calls.heartbeat)
    draw = _awaiting(calls.draw)
    submit = _awaiting(calls.submit)
    cancel = _awaiting(calls.cancel)
    get_task = _awaiting(calls.get_task)
    get_execution = _awaiting(calls.get_execution)
    execution_observations = _awaiting(calls.execution_observations)
    observation_page = _awaiting(calls.observation_page)
    pending = _awaiting(calls.pending)
    queues = _awaiting(calls.queues)
    recall = _awaiting(calls.recall)
    list_draws = _awaiting(calls.list_draws)
    import_attempts = _awaiting(calls.import_attempts)
    get_record = _awaiting(calls.get_record)
    record_versions = _awaiting(calls.record_versions)
    list_records = _awaiting(calls.list_records)
    write_records = _awaiting(calls.write_records)
    create_key = _awaiting(calls.create_key)
    list_keys = _awaiting(calls.list_keys)
    revoke_key = _awaiting(calls.revoke_key)
    whoami = _awaiting(calls.whoami)
    health = _awaiting(calls.health)

    async def iter_observations(
        self, queue: str, *, kind: str | None = None, after: str = "0", store_id: str | None = None
    ) -> AsyncIterator[Json]:
        """Each readable observation after a cursor, in capture order, page by page; ends at the newest."""
        cursor: str | None = after
        while cursor is not None:
            page = await self.execution_observations(queue, kind=kind, after=cursor, store_id=store_id)
            for item in page["items"]:
                yield item
            cursor, store_id = _onward(self.url, page, cursor), page.get("store_id", store_id)

    async def perform(self, call: Call[T]) -> T:
        """Send a call that is described elsewhere, with this client's key, patience and errors."""
        return await self._transport.perform(call)

    async def close(self) -> None:
        """Close idle connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def __repr__(self) -> str:
        return f"AsyncClient({self.url!r})"
