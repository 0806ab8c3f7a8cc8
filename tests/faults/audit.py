"""Compares what a store holds with what a fleet was told: nothing lost, nothing doubled, nothing half there.

Everything is read over HTTP. Each deed is looked for; what is expensive to look at (the whole run, its task)
is looked at for every deed that broke off and for a sample of the others.
"""

import itertools
import random
import time
from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from tessera import canonical
from tests.faults.fleet import LEASE_SECONDS, STORE, Fleet
from tests.faults.ledger import Deed, Findings
from tests.faults.server import Caller, Server

SAMPLE = 100


def audit(server: Server, fleet: Fleet, seed: int) -> Findings:
    """Everything wrong with one finished round, and its counts."""
    findings = Findings(wrong=list(fleet.ledger.unexpected))
    for deed in fleet.ledger.deeds.values():
        findings.counts[deed.outcome] += 1
        findings.counts["broke off"] += bool(deed.broken)
    with server.caller(fleet.secret) as caller:
        drained = _drain(caller, fleet.queue)
        items = caller.walk(fleet.queue)
        _order(fleet, items, findings)
        _submits(caller, fleet, items, findings, random.Random(seed))
        _imports(fleet, items, findings)
        _enqueues(caller, fleet, items, drained, findings)
        _batches(caller, fleet, findings)
    return findings


def _drain(caller: Caller, queue: str) -> list[dict[str, Any]]:
    """Claim whatever is left, also what was leased to workers that never heard of it."""
    tasks: list[dict[str, Any]] = []
    patience = time.monotonic() + LEASE_SECONDS + 0.5
    while True:
        task = caller.claim(queue, lease_seconds=3600)
        if task is not None:
            tasks.append(task)
        elif time.monotonic() > patience:
            return tasks
        else:
            time.sleep(0.05)


def _order(fleet: Fleet, items: list[dict[str, Any]], findings: Findings) -> None:
    cursors = [int(item["cursor"]) for item in items]
    if any(later <= earlier for earlier, later in itertools.pairwise(cursors)):
        findings.wrong.append("cursors do not rise")
    for run_id, times in Counter(item["run_id"] for item in items).items():
        if times > 1:
            findings.doubled.append(f"run {run_id} is listed {times} times")
    met = fleet.ledger.met
    if met != items[: len(met)]:
        at = next((n for n, (a, b) in enumerate(zip(met, items, strict=False)) if a != b), len(items))
        findings.lost.append(
            f"a reader walking along met other items than stand there now, from item {at} on"
        )


def _matched(
    kind: str, fleet: Fleet, found: dict[str, list[Any]], findings: Findings
) -> Iterable[tuple[Deed, Any]]:
    """Each deed with the one thing found under its token; complains about every other number of things."""
    for deed in fleet.ledger.of(kind):
        things = found.pop(deed.token, [])
        if len(things) > 1:
            findings.doubled.append(f"{kind} {deed.token} is there {len(things)} times")
        elif not things and deed.outcome == "acknowledged":
            findings.lost.append(f"{kind} {deed.token} was acknowledged: {deed.answer}")
        elif things and deed.outcome == "refused":
            findings.wrong.append(f"{kind} {deed.token} was refused, yet it is there: {deed.refusal}")
        elif things:
            findings.counts["in doubt and found"] += deed.outcome == "in doubt"
            yield deed, things[0]
    for token in found:
        findings.wrong.append(f"{kind} {token} is there, but nobody sent it")


def _submits(
    caller: Caller, fleet: Fleet, items: list[dict[str, Any]], findings: Findings, chance: random.Random
) -> None:
    live = [item for item in items if item["server"]["origin"] == "live"]
    found: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for item in live:
        found[item["report"]["harness"]].append(item)
    for fence, times in Counter(
        (item["server"]["task_id"], item["server"]["fence"]) for item in live
    ).items():
        if times > 1:
            findings.doubled.append(f"{times} runs of fence {fence}")
    matched = list(_matched("submit", fleet, found, findings))
    sample = {deed.token for deed, _ in chance.sample(matched, min(SAMPLE, len(matched)))}
    for deed, item in matched:
        drawn = None if deed.answer is None else deed.answer.pop("drawn", None)
        recorded = [{"arm": d["arm"], "propensity": d["propensity"]} for d in item["server"]["draws"]]
        if drawn is not None and drawn not in recorded:
            findings.lost.append(f"draw {drawn} of submit {deed.token}: the item has {recorded}")
        if deed.broken or deed.token in sample:
            _run(caller, deed, item, findings)


def _run(caller: Caller, deed: Deed, item: dict[str, Any], findings: Findings) -> None:
    """One run whole: its item, details, receipt and task belong together."""
    answer = caller.get(f"/v1/executions/{item['run_id']}")
    if answer.status_code != 200:
        findings.halved.append(f"submit {deed.token}: listed, but get_execution says {answer.text}")
        return
    run = answer.json()
    receipt = dict(run["receipt"] or {})
    digest = receipt.pop("receipt_sha256", None)
    task = caller.get(f"/v1/tasks/{item['server']['task_id']}").json()
    claims = {
        "output": run["output"] == deed.body["output"],
        "failure": run["failure"] == deed.body.get("failure"),
        "brief": run["brief_full"].get("template") == item["brief"]["template"],
        "item": all(run[name] == value for name, value in item.items()),
        "receipt digest": digest == canonical.digest(receipt) == item["server"]["receipt_sha256"],
        "report digest": receipt.get("report_sha256") == canonical.digest(deed.body["execution_report"]),
        "receipt as answered": deed.answer is None or deed.answer == run["receipt"],
        "task's state": task.get("state") == "succeeded" or not deed.body["ok"],
        "task's fence": task.get("fence", 0) >= deed.body["fence"],
    }
    if wrong := [name for name, holds in claims.items() if not holds]:
        findings.halved.append(
            f"submit {deed.token}: {', '.join(wrong)} do not fit: {run} {task} {deed.answer}"
        )


def _imports(fleet: Fleet, items: list[dict[str, Any]], findings: Findings) -> None:
    counts = Counter(item["brief"]["template"] for item in items if item["server"]["origin"] == "imported")
    for deed in fleet.ledger.of("import"):
        due, there = len(deed.body["attempts"]), counts.pop(deed.token, 0)
        if there > due:
            findings.doubled.append(f"import {deed.token}: {there} runs of {due} attempts")
        elif 0 < there < due:
            findings.halved.append(f"import {deed.token}: {there} of {due} attempts")
        elif not there and deed.outcome == "acknowledged":
            findings.lost.append(f"import {deed.token}")
    findings.wrong += [f"import {token} is there, but nobody sent it" for token in counts]


def _enqueues(
    caller: Caller,
    fleet: Fleet,
    items: list[dict[str, Any]],
    drained: list[dict[str, Any]],
    findings: Findings,
) -> None:
    found: dict[str, set[str]] = defaultdict(set)
    for item in items:
        if item["server"]["origin"] == "live":
            found[item["brief"]["template"]].add(item["server"]["task_id"])
    for task in drained:
        found[task["brief"]["template"]].add(task["task_id"])
    cancelled = {}
    for deed in fleet.ledger.of("cancel"):
        path = deed.path.removesuffix("/cancel")
        answer = caller.get(path)
        gone = answer.status_code == 200 and answer.json()["state"] == "cancelled"
        cancelled[path.rpartition("/")[2]] = gone
        if deed.outcome == "acknowledged" and not gone:
            findings.lost.append(f"cancel {deed.token}: {answer.text}")
    for deed in fleet.ledger.of("enqueue"):  # a cancelled task is neither offered nor run
        if deed.answer is not None and cancelled.get(deed.answer["task_id"]):
            found[deed.token].add(deed.answer["task_id"])
    listed = {token: list(ids) for token, ids in found.items()}
    for deed, task_id in _matched("enqueue", fleet, listed, findings):
        if deed.answer is not None and deed.answer["task_id"] != task_id:
            findings.doubled.append(
                f"enqueue {deed.token} was answered {deed.answer}, yet {task_id} is there"
            )


def _batches(caller: Caller, fleet: Fleet, findings: Findings) -> None:
    newest = _newest(caller, fleet.queue)
    found: dict[str, dict[str, tuple[int, str]]] = defaultdict(dict)
    for key, version in newest.items():
        for number in range(1, version + 1):
            answer = caller.get(f"/v1/records/{STORE}/{key}", version=number)
            if answer.status_code != 200:
                findings.lost.append(f"version {number} of {key}, whose newest is {version}: {answer.text}")
                continue
            record = answer.json()
            token = record["body"]["token"]
            if key in found[token]:
                findings.doubled.append(
                    f"batch {token}: versions {found[token][key][0]} and {number} of {key}"
                )
            found[token][key] = (number, record["sha256"])
            if canonical.digest(record["body"]) != record["sha256"]:
                findings.wrong.append(f"version {number} of {key} has another digest than its body")
        if caller.get(f"/v1/records/{STORE}/{key}", version=version + 1).status_code != 404:
            findings.wrong.append(f"{key} has a version after its newest, {version}")
    for deed in fleet.ledger.of("batch"):
        _batch(deed, found.pop(deed.token, {}), findings)
    findings.wrong += [f"batch {token} is there, but nobody sent it" for token in found]


def _newest(caller: Caller, round_: str) -> dict[str, int]:
    """Newest versions by key, as listed by prefix and by tag alike."""
    listed: list[dict[str, int]] = []
    for query in ({"prefix": f"{round_}."}, {"tag": round_}):
        answer = caller.get("/v1/records", store=STORE, limit=100, **query)
        assert answer.status_code == 200, answer.text
        assert not answer.json()["has_more"]
        listed.append({item["key"]: item["version"] for item in answer.json()["items"]})
    assert listed[0] == listed[1], f"listed by prefix {listed[0]}, by tag {listed[1]}"
    return listed[0]


def _batch(deed: Deed, there: dict[str, tuple[int, str]], findings: Findings) -> None:
    due = {
        write["key"]: (write["expected_version"] + 1, canonical.digest(write["body"]))
        for write in deed.body["writes"]
    }
    if deed.answer is not None:
        answered = {r["key"]: (r["version"], r["sha256"]) for r in deed.answer["records"]}
        if answered != due:
            findings.wrong.append(f"batch {deed.token} was answered {answered}, due {due}")
    if not there:
        if deed.outcome == "acknowledged":
            findings.lost.append(f"batch {deed.token}")
    elif there != due:
        findings.halved.append(f"batch {deed.token}: {there}, due {due}")
    elif deed.outcome == "refused":
        findings.wrong.append(f"batch {deed.token} was refused, yet it is there: {deed.refusal}")
    elif deed.outcome == "in doubt":
        findings.counts["in doubt and found"] += 1
