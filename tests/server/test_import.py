"""Past attempts (contract, sections 3 and 5)."""

import gzip
import json
import time
from pathlib import Path
from typing import Any

import pytest

from tests.server.calls import done, observations

pytestmark = pytest.mark.both_databases

DATA = Path(__file__).parents[3] / "shared" / "data"
ATTEMPT: dict[str, Any] = {
    "source": "lab",
    "task_key": "t1",
    "attempt": 2,
    "kind": "fix",
    "problem_text": "The parser fails on empty input",
    "template": "plain",
    "phrasing": None,
    "shim": None,
    "method": "patch",
    "harness": "h",
    "model": "m",
    "accepted": False,
    "failure_text": "tests failed",
    "outcome": "failed",
    "input_tokens": 10,
    "output_tokens": None,
    "cost_amount": 0.5,
    "cost_currency": "USD",
    "duration_seconds": 12.5,
    "started_at": "2026-01-02T03:04:05+01:00",
}


def _take(http: Any, *attempts: dict[str, Any], queue: str = "q") -> Any:
    return http.post("/v1/executions/import", json={"queue": queue, "attempts": list(attempts)})


def test_an_attempt_becomes_an_observation(store: Any) -> None:
    http = store.http()

    assert done(_take(http, ATTEMPT)) == {"imported": 1, "already_there": 0}

    (item,) = observations(http)["items"]
    server = item["server"]
    assert item["brief"]["wording"] == {"problem": "The parser fails on empty input"}
    assert (server["origin"], server["fence"], server["retry"], server["lapsed"]) == ("imported", 2, True, 0)
    assert server["claimed_at"] == "2026-01-02T02:04:05.000Z"
    assert server["submitted_at"] is server["lease_seconds"] is server["state_after"] is None
    assert server["receipt_sha256"] is None
    assert server["draws"] == []
    assert server["private"] is False
    assert server["key_id"] == done(http.get("/v1/whoami"))["id"]
    assert item["report"]["learning"]["cost"] == {"amount": 0.5, "currency": "USD", "source": "lab"}
    whole = done(http.get(f"/v1/executions/{item['run_id']}"))
    assert whole["brief_full"] == {"problem": "The parser fails on empty input", "template": "plain"}
    assert (whole["output"], whole["receipt"], whole["pins"]) == (None, None, [])
    assert whole["failure"] == "tests failed"


def test_the_same_attempt_again_is_a_no_op_and_identity_is_within_the_queue(store: Any) -> None:
    http = store.http()
    done(_take(http, ATTEMPT))
    spelled = {**ATTEMPT, "started_at": "2026-01-02T02:04:05Z"}

    assert done(_take(http, spelled, {**ATTEMPT, "attempt": 3})) == {"imported": 1, "already_there": 1}
    assert done(_take(http, ATTEMPT, ATTEMPT, queue="other")) == {"imported": 1, "already_there": 1}
    assert len(observations(http)["items"]) == 2
    first, second = (observations(http, queue)["items"][0]["server"]["task_id"] for queue in ("q", "other"))
    assert first != second
    assert len({item["server"]["task_id"] for item in observations(http)["items"]}) == 1


def test_other_content_under_an_identity_is_a_conflict_and_nothing_is_written(store: Any) -> None:
    http = store.http()
    done(_take(http, ATTEMPT))

    answer = _take(http, {**ATTEMPT, "attempt": 9}, {**ATTEMPT, "cost_amount": 0.6})

    assert answer.status_code == 409
    assert [conflict["index"] for conflict in answer.json()["conflicts"]] == [1]
    assert len(observations(http)["items"]) == 1


def test_two_contents_of_one_identity_in_one_call_are_a_conflict(store: Any) -> None:
    answer = _take(store.http(), ATTEMPT, {**ATTEMPT, "accepted": True})

    assert answer.status_code == 409
    assert [conflict["index"] for conflict in answer.json()["conflicts"]] == [1]


def test_faults_are_named_with_their_path_and_nothing_is_written(store: Any) -> None:
    http = store.http()

    answer = _take(http, ATTEMPT, {**ATTEMPT, "accepted": 1, "cost_currency": "usd", "color": "blue"})

    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == [
        "attempts[1].accepted",
        "attempts[1].cost_currency",
        "attempts[1].color",
    ]
    assert observations(http)["items"] == []


def test_a_call_takes_one_to_500_attempts(store: Any) -> None:
    http = store.http()

    assert _take(http).status_code == 422
    assert _take(http, *({**ATTEMPT, "attempt": n + 1} for n in range(501))).status_code == 422
    assert done(_take(http, *({**ATTEMPT, "attempt": n + 1} for n in range(500))))["imported"] == 500


def test_a_kind_that_is_not_granted_is_403(store: Any) -> None:
    http = store.http_for(["admin"], kinds=["other"])

    assert _take(http, ATTEMPT).status_code == 403


def test_real_records_import_twice_without_doubling(store: Any) -> None:
    if not DATA.is_dir():
        pytest.skip("the shared folder is absent")
    with gzip.open(DATA / "swebench_verified_paths.jsonl.gz", "rt") as file:
        attempts = [json.loads(line) for line in file]
    http = store.http()
    begun = time.monotonic()

    for expected in ("imported", "already_there"):
        counted = 0
        for at in range(0, len(attempts), 500):
            answer = done(_take(http, *attempts[at : at + 500]))
            counted += answer[expected]
        assert counted == len(attempts) == 2680

    assert done(http.get("/v1/executions/pending", params={"queue": "q"}))["count"] == 2680
    accepted = 0
    after = "0"
    while True:
        page = observations(http, after=after)
        accepted += sum(item["server"]["result"] == "accepted" for item in page["items"])
        after = page["next_after"]
        if not page["has_more"]:
            break
    assert accepted == 1959
    assert time.monotonic() - begun < 60
