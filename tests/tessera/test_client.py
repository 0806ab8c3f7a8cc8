"""The client against servers that fail: a scripted store over real HTTP, and a proxy that loses answers.

Every claim is made of both twins. What the store itself answers is tested with the real store, in test_cli.py
and in the store's own tests.
"""

import asyncio
import gc
import inspect
import json
import logging
import socket
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from typing import Any

import pytest

from tessera import calls
from tessera.client import AsyncClient, Client
from tessera.errors import (
    Conflict,
    ConnectionFault,
    Invalid,
    Malformed,
    NotFound,
    Problem,
    SettingsError,
    TesseraError,
    Unavailable,
)
from tessera.transport import Backoff, retry_after

KEY = "tsk_9d1c77f0a5b24e0c8e6e5d1f"
QUICK = Backoff(tries=4, first=0.001, longest=0.01)

Scripted = tuple[int, dict[str, str], bytes] | None
Perform = Callable[..., Any]


def said(status: int, body: object, **headers: str) -> Scripted:
    return (
        status,
        {name.replace("_", "-"): value for name, value in headers.items()},
        json.dumps(body).encode(),
    )


def perform_blocking(
    url: str, method: str, *args: Any, backoff: Backoff = QUICK, timeout: float = 5, **named: Any
):
    with Client(url, KEY, backoff=backoff, timeout=timeout) as client:
        answer = getattr(client, method)(*args, **named)
        return list(answer) if method == "iter_observations" else answer


def perform_awaiting(
    url: str, method: str, *args: Any, backoff: Backoff = QUICK, timeout: float = 5, **named: Any
):
    async def perform() -> Any:
        async with AsyncClient(url, KEY, backoff=backoff, timeout=timeout) as client:
            answer = getattr(client, method)(*args, **named)
            return [item async for item in answer] if method == "iter_observations" else await answer

    return asyncio.run(perform())


@pytest.fixture(params=[perform_blocking, perform_awaiting], ids=["blocking", "awaiting"])
def perform(request: pytest.FixtureRequest) -> Perform:
    return request.param


def unused_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


# What is sent


def test_the_twins_have_the_same_methods_with_the_same_parameters():
    def methods(kind: type) -> dict[str, list[str]]:
        return {
            name: list(inspect.signature(member).parameters)
            for name, member in inspect.getmembers(kind, callable)
            if not name.startswith("_")
        }

    assert methods(Client) == methods(AsyncClient)
    described = {
        name
        for name, value in vars(calls).items()
        if inspect.isfunction(value) and value.__module__ == calls.__name__ and name[0] != "_"
    }
    assert described - {"page", "onward"} == set(methods(Client)) - {"close", "iter_observations", "perform"}


def test_a_call_sends_its_key_its_body_and_nothing_that_was_not_given(scripted, perform):
    store = scripted(said(201, {"task_id": "t1"}))

    answer = perform(store.url, "enqueue", "q", "verb.x", {"title": "é"}, idempotency_key="mine")

    assert answer == {"task_id": "t1"}
    (request,) = store.requests
    assert request["line"] == "POST /v1/tasks"
    assert request["headers"]["authorization"] == f"Bearer {KEY}"
    assert request["body"] == {
        "queue": "q",
        "kind": "verb.x",
        "brief": {"title": "é"},
        "idempotency_key": "mine",
    }


def test_a_claim_of_an_empty_queue_is_none(scripted, perform):
    assert perform(scripted((204, {}, b"")).url, "claim", "q") is None


@pytest.mark.parametrize("method", ["enqueue", "submit", "write_records"])
def test_a_write_makes_its_own_idempotency_key_and_another_one_for_the_next_call(scripted, perform, method):
    store = scripted(said(201, {}))
    arguments = {"enqueue": ("q", "k", {}), "submit": ("t", 1, True), "write_records": ([],)}[method]

    perform(store.url, method, *arguments)
    perform(store.url, method, *arguments)

    first, second = (request["body"]["idempotency_key"] for request in store.requests)
    assert len(first) == 32
    assert first != second


@pytest.mark.parametrize("key", ["..", "a/b?c#d", "50%", "m:x@20+1"])
def test_a_record_key_stays_within_its_part_of_the_path(scripted, key):
    store = scripted(said(200, {}))

    perform_blocking(store.url, "get_record", "s", key, 3)

    line = store.requests[0]["line"]
    assert line.startswith("GET /v1/records/s/")
    assert line.endswith("?version=3")
    assert line.count("/") == 4
    assert line.count("?") == 1


def test_an_empty_id_is_refused_before_it_turns_a_call_into_another_one(scripted):
    with pytest.raises(ValueError, match="must not be empty"):
        perform_blocking("http://127.0.0.1:1", "get_task", "")


@pytest.mark.parametrize("brief", [{"x": float("nan")}, {"x": "\ud800"}])
def test_what_is_no_json_is_refused_without_being_sent(scripted, perform, brief):
    store = scripted(said(201, {}))

    with pytest.raises(Malformed, match="not sent"):
        perform(store.url, "enqueue", "q", "k", brief)

    assert store.requests == []


# Pages


def test_iterating_follows_the_cursor_over_empty_pages_and_keeps_to_one_store(scripted, perform):
    store = scripted(
        said(200, {"store_id": "S", "items": [{"run_id": "a"}], "next_after": "3", "has_more": True}),
        said(200, {"store_id": "S", "items": [], "next_after": "9", "has_more": True}),
        said(200, {"store_id": "S", "items": [{"run_id": "b"}], "next_after": "12", "has_more": False}),
    )

    items = perform(store.url, "iter_observations", "q", kind="k")

    assert [item["run_id"] for item in items] == ["a", "b"]
    assert [request["line"] for request in store.requests] == [
        "GET /v1/executions?queue=q&kind=k&after=0&limit=100",
        "GET /v1/executions?queue=q&kind=k&after=3&limit=100&store_id=S",
        "GET /v1/executions?queue=q&kind=k&after=9&limit=100&store_id=S",
    ]


@pytest.mark.parametrize(
    "page",
    [
        {"items": None, "next_after": "3", "has_more": False},
        {"items": [], "next_after": "0", "has_more": True},
        {"items": [], "next_after": None, "has_more": True},
        {"items": []},
    ],
    ids=["null list", "no progress", "no cursor", "no end"],
)
def test_a_page_that_would_loop_or_lose_the_reader_is_refused(scripted, perform, page):
    with pytest.raises(ConnectionFault, match="page"):
        perform(scripted(said(200, page)).url, "iter_observations", "q")


# Repeating


@pytest.mark.parametrize("status", [429, 502, 503, 504])
def test_an_idempotent_call_is_repeated_until_the_store_answers(scripted, perform, status):
    store = scripted(said(status, {}), said(status, {}), said(200, {"queues": ["q"]}))

    answer = perform(store.url, "queues")

    assert answer == {"queues": ["q"]}
    assert len(store.requests) == 3


def test_a_repeat_sends_the_same_body_and_key(scripted, perform):
    store = scripted(said(503, {}), None, said(201, {"task_id": "t"}))

    perform(store.url, "enqueue", "q", "k", {"n": 1})

    bodies = [request["body"] for request in store.requests]
    assert len(bodies) == 3
    assert bodies[0] == bodies[1] == bodies[2]


def test_repeating_ends_and_the_last_refusal_is_raised(scripted, perform):
    store = scripted(said(503, {"title": "Busy", "detail": "the database is locked"}))

    with pytest.raises(Unavailable, match="the database is locked"):
        perform(store.url, "queues")

    assert len(store.requests) == QUICK.tries


@pytest.mark.parametrize("status", [400, 401, 403, 404, 409, 413, 421, 422, 500])
def test_a_refusal_is_raised_at_once(scripted, perform, status):
    store = scripted(said(status, {"detail": "no"}))

    with pytest.raises(Problem) as raised:
        perform(store.url, "write_records", [])

    assert raised.value.status == status
    assert len(store.requests) == 1


def test_a_claim_that_may_have_happened_is_not_made_twice(scripted, perform):
    for answer in (None, said(503, {})):
        store = scripted(answer)
        with pytest.raises(TesseraError):
            perform(store.url, "claim", "q")
        assert len(store.requests) == 1


def test_a_claim_that_the_store_put_off_is_made_again(scripted, perform):
    store = scripted(said(429, {}), said(200, {"task_id": "t"}))

    assert perform(store.url, "claim", "q") == {"task_id": "t"}


def test_retry_after_is_honoured(scripted, perform):
    store = scripted(said(429, {}, Retry_After="1"), said(200, {"queues": []}))
    started = time.monotonic()

    perform(store.url, "queues")

    assert time.monotonic() - started >= 1.0


def test_a_retry_after_beyond_our_patience_is_not_waited_for(scripted, perform):
    store = scripted(said(429, {"detail": "come back tomorrow"}, Retry_After="86400"))

    with pytest.raises(Problem, match="tomorrow"):
        perform(store.url, "queues")

    assert len(store.requests) == 1


def test_retry_after_reads_seconds_dates_and_nonsense():
    def asked(**headers: str) -> float:
        return retry_after(calls.Answer(503, {k.replace("_", "-"): v for k, v in headers.items()}, b""))

    date = "Thu, 29 Oct 2026 10:00:00 GMT"
    assert asked(retry_after="7") == 7
    assert asked(retry_after="Thu, 29 Oct 2026 10:00:30 GMT", date=date) == 30
    assert asked(retry_after="Thu, 29 Oct 2026 09:00:00 GMT", date=date) == 0
    assert asked(retry_after="soon") == asked() == asked(retry_after="-3") == 0
    far = "Mon, 01 Jan 99999999999 00:00:00 GMT"
    assert asked(retry_after=far) == asked(retry_after="Mon, 29 Oct 2001 09:00:00 GMT", date=far) == 0


def test_pauses_grow_up_to_a_bound_and_jitter_takes_at_most_half():
    calm, hasty = (Backoff(first=0.1, longest=1.0, jitter=lambda share=share: share) for share in (1.0, 0.0))

    assert [calm.pause(n) for n in (1, 2, 3, 4, 5, 6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    assert hasty.pause(3) == 0.2


# Errors


def test_a_problem_carries_every_field_of_the_document(scripted, perform):
    conflicts = [{"index": 0, "current_version": 4}]
    document = {
        "type": "about:blank",
        "title": "Conflict",
        "status": 409,
        "detail": "moved",
        "conflicts": conflicts,
    }
    faults = [{"path": "execution_report.model", "message": "must not be blank"}]

    with pytest.raises(Conflict) as conflict:
        perform(scripted(said(409, document)).url, "write_records", [])
    with pytest.raises(Invalid) as invalid:
        perform(scripted(said(422, {"detail": "bad", "errors": faults})).url, "submit", "t", 1, True)

    assert (conflict.value.detail, conflict.value.conflicts) == ("moved", conflicts)
    assert [(fault.path, fault.message) for fault in invalid.value.errors] == [
        ("execution_report.model", "must not be blank")
    ]


def test_an_error_page_of_another_program_still_says_what_was_asked_of_whom(scripted, perform):
    store = scripted((404, {"content-type": "text/html"}, b"<h1>Not Found</h1>"))

    with pytest.raises(NotFound, match=f"GET {store.url}/v1/queues"):
        perform(store.url, "queues")


@pytest.mark.parametrize(
    "answer",
    [(200, {}, b"<html>"), said(200, [1]), said(302, {}, location="https://elsewhere.example")],
    ids=["html", "list", "redirect"],
)
def test_an_address_that_is_no_store_is_named(scripted, perform, answer):
    store = scripted(answer)

    with pytest.raises(ConnectionFault, match="TESSERA_URL") as raised:
        perform(store.url, "queues")

    assert store.url in str(raised.value)


def test_a_store_that_is_down_is_named_with_what_to_do(perform):
    url = f"http://127.0.0.1:{unused_port()}"

    with pytest.raises(ConnectionFault) as raised:
        perform(url, "whoami")

    assert url in str(raised.value)
    assert "tessera serve" in str(raised.value)


def test_a_store_that_never_answers_ends_the_call_in_time(perform):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"http://127.0.0.1:{silent.getsockname()[1]}"
        started = time.monotonic()

        with pytest.raises(ConnectionFault, match=r"not answered within 0.1 s"):
            perform(url, "whoami", timeout=0.1, backoff=Backoff(tries=2, first=0.001))

    assert time.monotonic() - started < 3


def test_an_answer_that_drips_without_end_ends_the_call(perform):
    def drip(listener: socket.socket) -> None:
        connection, _ = listener.accept()
        with connection:
            connection.recv(65536)
            connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 100000\r\n\r\n")
            try:
                while True:
                    connection.sendall(b" ")
                    time.sleep(0.02)
            except OSError:
                pass

    with socket.create_server(("127.0.0.1", 0)) as listener:
        dripping = threading.Thread(target=drip, args=(listener,))
        dripping.start()

        with pytest.raises(ConnectionFault, match="not answered"):
            perform(
                f"http://127.0.0.1:{listener.getsockname()[1]}",
                "whoami",
                timeout=0.1,
                backoff=Backoff(tries=1),
            )
        dripping.join()


@pytest.mark.parametrize(
    "url", ["127.0.0.1:8765", "ftp://host", "http://", "http://h:port", "http://h/?a=b", "http://a b"]
)
def test_a_url_that_is_none_is_refused_when_the_client_is_made(url):
    with pytest.raises(SettingsError, match="URL"):
        Client(url, KEY)


# Lost answers


def test_a_publication_whose_answer_is_lost_is_recognized_as_our_own(scripted, losing, perform):
    first = said(201, {"records": [{"store": "s", "key": "k", "version": 1, "sha256": "d"}]})
    store = scripted(first)
    proxy = losing(store.url)

    answer = perform(proxy.url, "write_records", [{"store": "s", "key": "k", "expected_version": 0}])

    assert answer["records"][0]["version"] == 1
    before, after = store.requests
    assert before["body"] == after["body"]


# Secrets


def test_the_key_is_in_no_repr_log_or_error(scripted, perform, caplog):
    caplog.set_level(logging.DEBUG)
    echo = json.dumps({"detail": f"you sent Authorization: Bearer {KEY}"}).encode()
    page = f"<pre>Authorization: Bearer {KEY}</pre>".encode()
    texts = [repr(Client(scripted(said(200, {})).url, KEY))]
    for answer in ((401, {}, echo), (500, {}, page), said(503, {}), None, (200, {}, page), (500, {}, echo)):
        try:
            perform(scripted(answer).url, "whoami")
        except TesseraError as error:
            texts += [repr(error), str(error), "".join(traceback.format_exception(error)), repr(vars(error))]
    for url in (f"http://127.0.0.1:{unused_port()}", f"http://user:{KEY}@127.0.0.1:1"):
        try:
            perform(url, "whoami")
        except TesseraError as error:
            texts += [repr(error), "".join(traceback.format_exception(error))]

    assert caplog.records  # debug logging was on, and said something
    texts += [record.getMessage() + repr(record.args) for record in caplog.records]
    assert [text for text in texts if KEY in text or KEY[4:] in text] == []
    gc.collect()


@pytest.mark.parametrize("key", ["", "two words", "ключ-секрет", "line\nbreak"])
def test_a_key_that_no_header_can_carry_is_refused_without_showing_it(key):
    with pytest.raises(SettingsError) as raised:
        Client("http://127.0.0.1:1", key)

    assert not key or key not in str(raised.value)


def test_settings_give_the_address_and_the_key(scripted, monkeypatch, tmp_path):
    store = scripted(said(200, {}))
    (tmp_path / "admin.key").write_text("from-the-home\n")
    for name, value in {"TESSERA_URL": store.url, "TESSERA_HOME": str(tmp_path), "TESSERA_KEY": ""}.items():
        monkeypatch.setenv(name, value)

    with Client() as client:
        client.whoami()

    assert store.requests[0]["headers"]["authorization"] == "Bearer from-the-home"


def test_health_needs_no_key(scripted, monkeypatch, tmp_path):
    store = scripted(said(200, {"status": "ok"}))
    monkeypatch.setenv("TESSERA_HOME", str(tmp_path))
    monkeypatch.delenv("TESSERA_KEY", raising=False)

    with Client(store.url) as client:
        client.health()
        with pytest.raises(SettingsError, match="TESSERA_KEY"):
            client.whoami()

    assert "authorization" not in store.requests[0]["headers"]


# Weight


def test_importing_the_client_is_quick_and_brings_nothing_heavy():
    program = (
        "import sys, time\nstarted = time.process_time()\nfrom tessera import Client\n"
        "took = time.process_time() - started\nClient('http://127.0.0.1:1', 'k').close()\n"
        "heavy = 'dagster polars pyarrow numpy typer rich click pygments sqlalchemy fastapi'.split()\n"
        "print(took, *(name for name in heavy if name in sys.modules))"
    )

    ran = [
        subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        ).stdout.split()
        for _ in range(3)
    ]

    assert min(float(took) for took, *_ in ran) < 0.150
    assert [heavy for _, *heavy in ran] == [[], [], []]
