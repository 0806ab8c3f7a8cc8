"""Observations, their cursor, and executions whole (contract, section 5)."""

import threading
from typing import Any

import pytest

from tessera import canonical
from tests.server.calls import claimed, done, enqueue, observations, run, submit, write

pytestmark = pytest.mark.both_databases

REPORT = {
    "summaries": {"problem": "pack it", "solution": "packed"},
    "harness": "script",
    "model": None,
    "usage": {"total_tokens": 0},
    "learning": {"outcome": "succeeded", "path": {"method": "zstd"}, "duration_seconds": 0.5},
}


def _many(http: Any, count: int, **more: Any) -> list[str]:
    return [run(http, **more)["run_id"] for _ in range(count)]


def _all(http: Any, limit: int, **query: Any) -> list[str]:
    found: list[str] = []
    after = "0"
    for _ in range(1000):
        page = observations(http, after=after, limit=limit, **query)
        found += [item["run_id"] for item in page["items"]]
        after = page["next_after"]
        if not page["has_more"]:
            return found
    raise AssertionError("the pages do not end")


def test_an_item_has_the_whole_shape_with_null_where_unknown(store: Any) -> None:
    http = store.http()
    brief = {"template": "t", "goal": "go", "tags": ["b", "a"], "n": 1, "reporting": {"optional": True}}
    task = enqueue(http, brief=brief)
    receipt = done(
        submit(http, claimed(http, lease_seconds=77), output={"secret": 1}, execution_report=REPORT)
    )

    (item,) = observations(http)["items"]

    assert item == {
        "schema": "execution-observation-v1",
        "run_id": receipt["run_id"],
        "cursor": "1",
        "brief": {
            "template": "t",
            "phrasing": None,
            "tags": ["a", "b"],
            "wording": {"goal": "go"},
            "wording_truncated": False,
            "shape": {"goal": "str", "n": "num", "reporting": "object", "tags": "array", "template": "str"},
            "shape_truncated": False,
            "input_type": '{"goal":str,"n":num,"reporting":{"optional":bool},"tags":[str],"template":str}',
        },
        "input_digest": canonical.digest({"brief": brief, "pins": []}),
        "server": {
            "origin": "live",
            "private": False,
            "task_id": task["task_id"],
            "kind": "k",
            "queue": "q",
            "fence": 1,
            "lapsed": 0,
            "key_id": done(http.get("/v1/whoami"))["id"],
            "claimed_at": item["server"]["claimed_at"],
            "submitted_at": receipt["submitted_at"],
            "lease_seconds": 77,
            "result": "accepted",
            "state_after": "succeeded",
            "failure_text": None,
            "receipt_sha256": receipt["receipt_sha256"],
            "retry": False,
            "draws": [],
        },
        "report": {
            "summaries": REPORT["summaries"],
            "harness": "script",
            "model": None,
            "model_reported": True,
            "usage": {"total_tokens": 0},
            "learning": REPORT["learning"],
        },
        "trust": {"telemetry": "worker_reported"},
        "use_policy": {"training_corpus": "excluded_by_default"},
    }


def test_an_execution_whole_is_its_item_and_what_an_item_leaves_out(store: Any) -> None:
    http = store.http()
    sha256 = done(write(http))["records"][0]["sha256"]
    enqueue(http, brief={"goal": "go"}, pins=[{"store": "s", "key": "r", "version": 1}])
    task = claimed(http)
    failure = "é" * 3000
    receipt = done(submit(http, task, ok=False, output=[1, "a"], failure=failure))

    whole = done(http.get(f"/v1/executions/{receipt['run_id']}"))
    (item,) = observations(http)["items"]

    pins = [{"store": "s", "key": "r", "version": 1, "sha256": sha256}]
    assert task["pins"] == pins
    assert whole == {
        **item,
        "brief_full": {"goal": "go"},
        "pins": pins,
        "output": [1, "a"],
        "failure": failure,
        "receipt": receipt,
    }
    assert item["server"]["failure_text"] == "é" * 1024
    assert item["input_digest"] == canonical.digest({"brief": {"goal": "go"}, "pins": pins})
    assert receipt["output_sha256"] == canonical.digest([1, "a"])
    assert receipt["report_sha256"] is None
    nine = {name: value for name, value in receipt.items() if name != "receipt_sha256"}
    assert receipt["receipt_sha256"] == canonical.digest(nine)


def test_an_output_that_is_not_sent_is_null(store: Any) -> None:
    http = store.http()
    receipt = run(http)

    assert receipt["output_sha256"] is None
    whole = done(http.get(f"/v1/executions/{receipt['run_id']}"))
    assert (whole["output"], whole["failure"], whole["report"]) == (None, None, None)


def test_a_failure_over_64_kib_is_refused(store: Any) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http)

    assert submit(http, task, ok=False, failure="x" * 65_537).status_code == 422
    assert submit(http, task, ok=False, failure="x" * 65_536).status_code == 200


@pytest.mark.parametrize("count", [0, 9, 10, 20])
def test_pages_end_whatever_the_count_and_give_each_run_once(store: Any, count: int) -> None:
    http = store.http()
    runs = _many(http, count)

    assert _all(http, 10) == runs


def test_the_cursor_goes_on_where_the_last_page_ended(store: Any) -> None:
    http = store.http()
    first = _many(http, 3)
    page = observations(http, limit=3)
    assert (page["next_after"], page["has_more"]) == ("3", False)
    empty = observations(http, after="3")
    assert (empty["items"], empty["next_after"], empty["has_more"]) == ([], "3", False)

    later = _many(http, 2)

    assert [item["run_id"] for item in observations(http, after="3")["items"]] == later
    assert _all(http, 2) == first + later


def test_queues_do_not_mix_and_kinds_are_filtered(store: Any) -> None:
    http = store.http()
    a = run(http, queue="a", kind="x")["run_id"]
    b = run(http, queue="b", kind="x")["run_id"]
    c = run(http, queue="a", kind="y")["run_id"]

    assert [item["run_id"] for item in observations(http, "a")["items"]] == [a, c]
    assert [item["run_id"] for item in observations(http, "b")["items"]] == [b]
    assert [item["run_id"] for item in observations(http, "a", kind="y")["items"]] == [c]
    assert observations(http, "a", kind="z")["items"] == []
    assert done(http.get("/v1/queues")) == {"queues": ["a", "b"], "store_id": store.store_id}


def test_runs_that_may_not_be_read_are_skipped_while_the_cursor_moves(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessera.store import executions

    monkeypatch.setattr(executions, "SCAN", 5)
    admin = store.http()
    first = run(admin)["run_id"]
    _many(admin, 11, private=True)
    last = run(admin)["run_id"]
    http = store.http_for(["read"])

    pages = []
    after = "0"
    while True:
        page = observations(http, after=after)
        pages.append((len(page["items"]), page["next_after"], page["has_more"]))
        after = page["next_after"]
        if not page["has_more"]:
            break

    assert pages == [(1, "5", True), (0, "10", True), (1, "13", False)]
    assert _all(http, 100) == [first, last]


def test_a_cursor_past_the_newest_execution_is_422(store: Any) -> None:
    http = store.http()
    _many(http, 2)

    assert observations(http, after="2")["items"] == []
    for path in ("/v1/executions", "/v1/executions/pending"):
        answer = http.get(path, params={"queue": "q", "after": "3"})
        assert answer.status_code == 422
        assert answer.json()["errors"][0]["path"] == "after"


def test_a_number_is_never_used_twice_whatever_is_deleted(store: Any) -> None:
    from sqlalchemy import text

    from tessera.store.statements import Statement

    http = store.http()
    _many(http, 3)
    with store.running.store.database.write() as session:
        for table in ("executions", "execution_details"):
            session.change(Statement(text(f"DELETE FROM {table} WHERE number = 3")))

    run(http)

    assert [item["cursor"] for item in observations(http)["items"]] == ["1", "2", "4"]
    assert [item["cursor"] for item in observations(http, after="3")["items"]] == ["4"]


def test_a_reader_beside_writers_misses_nothing_and_repeats_nothing(store: Any) -> None:
    writers = 4
    each = 25
    ended = threading.Event()

    def work(name: str) -> None:
        http = store.http()
        for _ in range(each):
            task = enqueue(http, queue=name)
            done(submit(http, claimed(http, name, task_id=task["task_id"])))

    def read(found: list[str]) -> None:
        http = store.http()
        after = "0"
        while True:
            over = ended.is_set()
            page = observations(http, "w", after=after, limit=7)
            found += [item["run_id"] for item in page["items"]]
            after = page["next_after"]
            if over and not page["has_more"]:
                return

    threads = [threading.Thread(target=work, args=("w",)) for _ in range(writers)]
    found: list[str] = []
    reader = threading.Thread(target=read, args=(found,))
    for thread in (*threads, reader):
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    reader.join()

    assert len(found) == len(set(found)) == writers * each


def test_pending_counts_up_to_its_cap(store: Any) -> None:
    http = store.http()
    _many(http, 5)

    def pending(**query: Any) -> dict[str, Any]:
        return done(http.get("/v1/executions/pending", params={"queue": "q", **query}))

    assert pending() == {"count": 5, "capped": False, "last": "5", "store_id": store.store_id}
    assert pending(after="3") == {"count": 2, "capped": False, "last": "5", "store_id": store.store_id}
    assert pending(cap=3) == {"count": 3, "capped": True, "last": "3", "store_id": store.store_id}
    assert pending(cap=5)["capped"] is False
    assert pending(after="5") == {"count": 0, "capped": False, "last": "5", "store_id": store.store_id}
    assert pending(kind="other")["count"] == 0


@pytest.mark.parametrize("cap", ["0", "10001", "x"])
def test_bounds_of_a_cap(store: Any, cap: str) -> None:
    assert store.http().get("/v1/executions/pending", params={"queue": "q", "cap": cap}).status_code == 422


@pytest.mark.parametrize("path", ["/v1/executions?queue=q", "/v1/executions/pending?queue=q", "/v1/queues?"])
def test_naming_another_store_is_409_that_says_so(store: Any, path: str) -> None:
    http = store.http()

    assert http.get(f"{path}&store_id={store.store_id}").status_code == 200
    answer = http.get(f"{path}&store_id=another")
    assert answer.status_code == 409
    assert "another store" in answer.json()["detail"]
