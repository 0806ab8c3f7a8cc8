"""The awaited twins: the same answers as the blocking ones, and a loop that goes on meanwhile."""

import asyncio
import inspect
import time
from typing import Any

import pytest

import tessera.advice
from tessera.advice import AdviceFault, Cache, awaited, choose, lessons, recall
from tessera.client import AsyncClient, Client
from tests.tessera.advice import indexes
from tests.tessera.advice.learned import (
    LESSONS,
    WEIGHTS,
    claimed,
    configure,
    drawn,
    entry,
    lesson,
    lessons_body,
    weights_body,
    write,
)

ARMS = ["zlib", "lzma"]


@pytest.fixture
def client(store: Any) -> Client:
    """A store with weights that advise, a lesson, and an index of one run."""
    made: Client = store.client()
    configure(made, entry(WEIGHTS, gate="evidence"), entry(LESSONS))
    write(made, "learn.outputs", f"{WEIGHTS}:q:method", weights_body({"zlib": 0.9, "lzma": 0.1}))
    told = lesson("a" * 16, 'In "verb.a", method "x" is accepted more often: 90 of 100.')
    write(made, "learn.memory", f"{LESSONS}:q:memory", lessons_body(told))
    run = claimed(made, {"problem": "pack the library tightly"})
    made.submit(run["task_id"], run["fence"], True)
    (item,) = made.iter_observations("q")
    known = {"run_id": item["run_id"], "task_id": item["server"]["task_id"]}
    indexes.publish(made, [indexes.entry(int(item["cursor"]), "pack the library tightly", **known)])
    return made


def test_the_three_answer_what_the_blocking_ones_answer(client: Client, store: Any) -> None:
    task = claimed(client)
    brief = {"problem": "pack the library tightly"}

    async def ask() -> tuple[Any, Any, Any, Any]:
        asked = AsyncClient(store.url, store.admin_key)
        async with asked:
            return await asyncio.gather(
                awaited.choose(task, "method", ARMS, client=asked),
                awaited.choose(task, "method", ARMS, explicit="zstd", client=asked),
                awaited.lessons(task, client=asked),
                awaited.recall("q", "verb.a", brief, client=asked, cache=Cache()),
            )

    choice, explicit, told, found = asyncio.run(ask())

    assert explicit == ("zstd", None)
    assert choice == choose(task, "method", ARMS, client=client)  # the recorded coin
    assert told == lessons(task, client=client)
    assert found == recall("q", "verb.a", brief, client=client, cache=Cache())
    assert len(found["matches"]) == 1
    assert {draw["dimension"] for draw in drawn(client, task)} == {"method", "lesson"}


def test_a_refusal_is_raised_where_it_is_awaited(client: Client, store: Any) -> None:
    async def ask() -> None:
        async with AsyncClient(store.url, store.admin_key) as asked:
            await awaited.choose(claimed(client), "method", [], client=asked)

    with pytest.raises(AdviceFault, match="at least one name"):
        asyncio.run(ask())


def test_the_loop_goes_on_while_a_search_computes(
    client: Client, store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    ticks: list[float] = []
    monkeypatch.setattr(awaited.lesson_texts, "lessons", lambda *_, **__: time.sleep(0.5))

    async def ask() -> None:
        waiting = asyncio.ensure_future(awaited.lessons({"queue": "q"}))
        while not waiting.done():
            ticks.append(time.monotonic())
            await asyncio.sleep(0.01)

    asyncio.run(ask())

    assert len(ticks) > 5


def test_each_of_the_three_has_its_twin() -> None:
    functions = {name for name in tessera.advice.__all__ if inspect.isfunction(getattr(tessera.advice, name))}

    assert functions == {name for name in functions if inspect.iscoroutinefunction(getattr(awaited, name))}
