"""A reader with a cursor meets each run once, whatever times are equal, commits late and last pages full."""

import threading

import pytest

from tests.faults.server import Caller, Server

pytestmark = pytest.mark.both_databases


def attempts(source: str, count: int) -> list[dict[str, object]]:
    return [
        {
            "source": source,
            "task_key": f"task {number}",
            "attempt": 1,
            "kind": "verb.test",
            "accepted": number % 2 == 0,
            "failure_text": None if number % 2 == 0 else "no",
            "started_at": "2025-01-01T00:00:00Z",
        }
        for number in range(count)
    ]


def bring(server: Server, queue: str, source: str, count: int) -> None:
    with server.caller() as admin:
        answer = admin.post("/v1/executions/import", {"queue": queue, "attempts": attempts(source, count)})
        assert answer.status_code in (200, 201), answer.text


def test_runs_of_one_identical_time_are_each_met_once(server: Server, caller: Caller, name: str) -> None:
    bring(server, name, "first", 250)
    first = caller.walk(name)
    bring(server, name, "second", 50)

    second = caller.walk(name, after=first[-1]["cursor"])

    assert len(first) == 250
    assert len(second) == 50
    assert len({item["run_id"] for item in first + second}) == 300


def test_a_reader_beside_many_writers_skips_no_run_and_repeats_none(
    server: Server, caller: Caller, name: str
) -> None:
    def submit_some() -> None:
        with server.caller(secret) as worker:
            for _ in range(40):
                worker.enqueue(name, {"problem": "one of many"})
                task = worker.claim(name)
                assert task is not None
                assert worker.submit(task).status_code in (200, 201)

    secret = server.key()
    writers = [threading.Thread(target=submit_some) for _ in range(4)]
    writers += [threading.Thread(target=bring, args=(server, name, f"source {n}", 400)) for n in range(2)]
    for writer in writers:
        writer.start()
    met: list[str] = []
    after = "0"
    working = True
    while working:
        working = any(writer.is_alive() for writer in writers)  # asked before the last look
        page = caller.get("/v1/executions", queue=name, after=after, limit=17).json()
        met += [item["run_id"] for item in page["items"]]
        after = page["next_after"]
        working = working or page["has_more"]

    assert len(met) == len(set(met)) == 4 * 40 + 2 * 400
    assert met == [item["run_id"] for item in caller.walk(name)]


@pytest.mark.parametrize("count", [0, 1, 99, 100, 101, 200])
def test_a_walk_ends_at_any_multiple_of_the_page_size(
    server: Server, caller: Caller, name: str, count: int
) -> None:
    if count:
        bring(server, name, "source", count)
    pages = []
    after = "0"
    while not pages or pages[-1]["has_more"]:
        pages.append(caller.get("/v1/executions", queue=name, after=after, limit=100).json())
        after = pages[-1]["next_after"]

    assert len(pages) <= count // 100 + 1
    assert len({item["run_id"] for page in pages for item in page["items"]}) == count
    closing = caller.get("/v1/executions", queue=name, after=after, limit=100).json()
    assert closing == {**closing, "items": [], "next_after": after, "has_more": False}
