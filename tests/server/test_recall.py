"""Recall, the synchronous baseline: exact input, then shape, then words; only what the key may read."""

from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tessera.canonical import digest
from tessera.store import simhash
from tessera.store.statements import Statement
from tests.server.calls import claimed, done, enqueue, submit, write

PROBLEM = "Compress the log files of one week into an archive that opens fast"
NEAR = "Compress the log files of one month into an archive that opens fast"
FAR = "Translate a poem about the sea from Norwegian"


def kept(http: httpx.Client, brief: dict[str, Any], problem: str | None = None, **more: Any) -> str:
    """A run of a brief; its run_id."""
    enqueue(http, brief=brief, **more)
    report = {} if problem is None else {"execution_report": {"summaries": {"problem": problem}}}
    return str(done(submit(http, claimed(http), **report))["run_id"])


def recall(http: httpx.Client, brief: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
    body = {"queue": "q", "kind": "k", "brief": brief, **more}
    found = done(http.post("/v1/executions/recall", json=body))
    assert found["evidence_only"] is True
    matches: list[dict[str, Any]] = found["matches"]
    return matches


@pytest.fixture
def http(store: Any) -> httpx.Client:
    client: httpx.Client = store.http()
    return client


def test_the_same_input_comes_first_then_the_same_shape_then_like_words(http: httpx.Client) -> None:
    alike = kept(http, {"goal": PROBLEM, "level": 9}, PROBLEM)
    shaped = kept(http, {"goal": FAR}, FAR)
    exact = kept(http, {"goal": PROBLEM}, PROBLEM)
    kept(http, {"goal": FAR, "level": 9}, FAR)

    found = recall(http, {"goal": PROBLEM})

    assert [(match["run_id"], match["via"]) for match in found] == [
        (exact, "exact"),
        (shaped, "shape"),
        (alike, "simhash"),
    ]
    assert [match["distance"] for match in found][::2] == [0, 0]
    assert found[1]["distance"] > 10


def test_a_run_whose_problem_text_is_near_is_found_by_its_words(http: httpx.Client) -> None:
    near = kept(http, {"note": 1}, NEAR)
    kept(http, {"note": 1}, FAR)

    (match,) = recall(http, {"goal": PROBLEM})

    assert (match["run_id"], match["via"]) == (near, "simhash")
    assert 0 < match["distance"] <= 20


def test_among_the_same_input_the_newest_comes_first_and_limit_bounds_them(http: httpx.Client) -> None:
    runs = [kept(http, {"goal": PROBLEM}) for _ in range(12)]

    assert [match["run_id"] for match in recall(http, {"goal": PROBLEM})] == runs[:1:-1]
    assert [match["run_id"] for match in recall(http, {"goal": PROBLEM}, limit=2)] == runs[:9:-1]


def test_the_input_digest_finds_the_same_input_with_pins(http: httpx.Client) -> None:
    done(write(http))
    pinned = kept(http, {"goal": FAR, "n": 1}, pins=[{"store": "s", "key": "r", "version": 1}])
    input_digest = done(http.get(f"/v1/executions/{pinned}"))["input_digest"]

    (match,) = recall(http, {"goal": PROBLEM}, input_digest=input_digest)

    assert match == {"run_id": pinned, "via": "exact", "distance": 0}
    assert recall(http, {"goal": FAR, "n": 1})[0]["via"] == "shape"


def test_without_words_a_distance_is_unknown_and_likeness_finds_nothing(http: httpx.Client) -> None:
    kept(http, {"n": 1})

    (match,) = recall(http, {"n": 2})

    assert (match["via"], match["distance"]) == ("shape", None)
    assert recall(http, {"m": 2}) == []


def test_only_runs_of_the_queue_and_kind_are_found(http: httpx.Client) -> None:
    enqueue(http, "elsewhere", brief={"goal": PROBLEM})
    done(submit(http, claimed(http, "elsewhere")))
    kept(http, {"goal": PROBLEM}, kind="other")

    assert recall(http, {"goal": PROBLEM}) == []


def test_only_what_the_key_may_read_is_found_and_it_takes_no_place(store: Any, http: httpx.Client) -> None:
    owner, other = store.http_for(), store.http_for()
    done(write(owner, visibility="private"))
    open_one = kept(owner, {"goal": PROBLEM}, PROBLEM)
    kept(owner, {"goal": PROBLEM}, PROBLEM, private=True)
    kept(owner, {"goal": PROBLEM}, PROBLEM, pins=[{"store": "s", "key": "r", "version": 1}])

    assert [match["run_id"] for match in recall(other, {"goal": PROBLEM}, limit=1)] == [open_one]
    assert len(recall(other, {"goal": PROBLEM})) == 1
    assert len(recall(owner, {"goal": PROBLEM})) == len(recall(http, {"goal": PROBLEM})) == 3


def bands(store: Any) -> int:
    with store.running.store.database.read() as session:
        return int(session.row(Statement(text("SELECT count(*) FROM simhash_bands")))[0])


def test_an_import_with_problem_text_is_found_by_its_words_and_one_without_is_not(
    store: Any, http: httpx.Client
) -> None:
    attempt = {"source": "a", "attempt": 1, "kind": "k", "accepted": True}
    attempts = [
        {**attempt, "task_key": "near", "problem_text": NEAR, "template": "t"},
        {**attempt, "task_key": "none", "template": "t"},
    ]

    done(http.post("/v1/executions/import", json={"queue": "q", "attempts": attempts}))

    (match,) = recall(http, {"goal": PROBLEM})
    execution = done(http.get(f"/v1/executions/{match['run_id']}"))
    assert match["via"] == "simhash"
    assert execution["brief_full"]["problem"] == NEAR
    assert bands(store) == 8


def test_an_imported_run_has_the_digest_of_its_brief(http: httpx.Client) -> None:
    attempt = {
        "source": "a",
        "task_key": "t",
        "attempt": 1,
        "kind": "k",
        "accepted": True,
        "problem_text": FAR,
    }
    done(http.post("/v1/executions/import", json={"queue": "q", "attempts": [attempt]}))

    (match,) = recall(http, {"problem": FAR})

    assert match["via"] == "exact"
    assert done(http.get(f"/v1/executions/{match['run_id']}"))["input_digest"] == digest(
        {"brief": {"problem": FAR}, "pins": []}
    )


def test_fingerprints_survive_the_databases_signed_numbers() -> None:
    for fingerprint in (0, 1, 2**63 - 1, 2**63, 2**64 - 1):
        kept = simhash.signed(fingerprint)
        assert kept is not None
        assert -(2**63) <= kept < 2**63
        assert simhash.unsigned(kept) == fingerprint


@pytest.mark.parametrize(
    ("more", "path"),
    [
        ({"limit": 0}, "limit"),
        ({"limit": 101}, "limit"),
        ({"limit": True}, "limit"),
        ({"input_digest": "A" * 64}, "input_digest"),
        ({"input_digest": "a" * 63}, "input_digest"),
        ({"brief": "x"}, "brief"),
        ({"embedding": [1]}, "embedding"),
    ],
)
def test_faults_of_a_recall_are_named(http: httpx.Client, more: dict[str, Any], path: str) -> None:
    body = {"queue": "q", "kind": "k", "brief": {}, **more}

    answer = http.post("/v1/executions/recall", json=body)

    assert answer.status_code == 422
    assert [fault["path"] for fault in answer.json()["errors"]] == [path]


def test_the_client_recalls(store: Any, http: httpx.Client) -> None:
    run_id = kept(http, {"goal": PROBLEM})

    found = store.client().recall("q", "k", {"goal": PROBLEM}, limit=1)

    assert found == {"matches": [{"run_id": run_id, "via": "exact", "distance": 0}], "evidence_only": True}
