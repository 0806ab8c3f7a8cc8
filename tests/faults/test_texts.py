"""Text of every kind comes back as it was sent, wherever text may stand."""

import pytest

from tests.faults.server import Caller

pytestmark = pytest.mark.both_databases

TEXTS = {
    "NUL": "a\0b",
    "controls": "\x01\x1b\x7f\x85\u2028",
    "astral": "\U0001f600\U0010ffff",
    "noncharacters": "\ufffe\uffff\ufdd0",
    "combining": "e\u0301 \u00e9 \u212b",
    "right to left": "\u202eabc\u202c",
    "markup": "<script>&amp;'\"\\\\%s{}$(`;--",
    "a number": "1e5",
}


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_run_keeps_its_texts(caller: Caller, name: str, text: str) -> None:
    brief = {"title": text, text: text, "template": text, "tags": [text]}
    report = {"summaries": {"problem": text}, "harness": text, "learning": {"ideas": [text]}}
    caller.enqueue(name, brief, idempotency_key=text)
    again = caller.enqueue(name, brief, idempotency_key=text)
    task = caller.claim(name)
    assert task is not None
    receipt = caller.submit(
        task, ok=False, output={text: text}, failure=text, execution_report=report, idempotency_key=text
    )
    run = caller.get(f"/v1/executions/{receipt.json()['run_id']}").json()
    (item,) = caller.walk(name)

    assert again["task_id"] == task["task_id"]
    assert task["brief"] == run["brief_full"] == brief
    assert run["output"] == {text: text}
    assert run["failure"] == item["server"]["failure_text"] == text
    assert item["report"]["summaries"]["problem"] == item["report"]["harness"] == text
    assert item["report"]["learning"] == {"ideas": [text]}
    assert item["brief"]["template"] == item["brief"]["wording"]["title"] == text


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
def test_a_record_keeps_its_texts(caller: Caller, name: str, text: str) -> None:
    write = {
        "store": name,
        "key": "k",
        "expected_version": 0,
        "category": "noun.eval_run",
        "tags": [text],
        "body": {text: text},
        "visibility": "shared",
    }
    assert caller.post("/v1/records", {"writes": [write], "idempotency_key": text}).status_code == 201

    record = caller.get(f"/v1/records/{name}/k").json()
    listed = caller.get("/v1/records", store=name, tag=text).json()["items"]

    assert (record["tags"], record["body"]) == ([text], {text: text})
    assert [item["key"] for item in listed] == ["k"]
