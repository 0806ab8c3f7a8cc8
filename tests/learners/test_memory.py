"""The memory learner, as the contract's section 8 has it."""

import base64
import random
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from learners.contract import Citation, Evidence, LearnerError, Noun, Outcome, Run, Scope, run_checks
from learners.memory import LEARNER, entries
from learners.memory_checks import coverage
from tessera import fingerprints
from tessera.canonical import digest, dumps

Items = Callable[..., dict[str, Any]]
Frame = Callable[..., pl.DataFrame]
SPEC = Citation("learn.specs", "memory:minhash-lsh:v1", 1, "0" * 64)
ROOT = Path(__file__).parents[2]
TEXT = {"wording": {"title": "Pack the library tightly", "problem": "It is too large"}}


def learn(frame: pl.DataFrame, state: dict[str, Any] | None = None, **run: Any) -> Outcome:
    """The outcome of a run on queue ``q`` over rows that follow the state's cursor."""
    scope = run.pop("scope", Scope("q"))
    asked = Run(SPEC, scope, state=state, **run)
    return LEARNER.learn(asked, Evidence(frame, LEARNER.reading(asked).after))


def record(outcome: Outcome, version: int = 1) -> dict[str, Any]:
    """The head as the store would answer it."""
    head = outcome.nouns[-1]
    return {"store": head.store, "key": head.key, "version": version, "body": head.body}


def held(outcome: Outcome) -> list[dict[str, Any]]:
    """The entries of the outcome's segments."""
    return [entry for noun in outcome.nouns[:-1] for entry in noun.body.get("entries", ())]


def failed(outcome: Outcome) -> dict[str, tuple[str, ...]]:
    """The checks that found something, with what."""
    return {result.name: result.rows for result in run_checks(LEARNER, outcome) if not result.passed}


def test_a_run_becomes_one_entry_with_everything_known(item: Items, frame: Frame) -> None:
    learning = {
        "outcome": "partial",
        "went_wrong": ["Disk 7 full", "No\tspace"],
        "duration_seconds": 2,
        "cost": {"amount": 0.5, "currency": "USD", "source": "bill"},
        "types": {"input": "image/png", "output": "video/mp4"},
    }
    usage = {"input_tokens": 10, "output_tokens": 5}
    report = {"learning": learning, "usage": usage, "summaries": {"problem": "too large still"}}
    told = item(7, brief=TEXT, report=report, result="failed", failure_text="Timeout after 30s", retry=True)
    told["input_digest"] = "ab" * 32

    (entry,) = held(learn(frame(told)))

    wording = TEXT["wording"].values()
    features = fingerprints.features("verb.a", wording, "too large still", "image/png", "video/mp4")
    assert entry == {
        "run_id": "run-7",
        "cursor": "7",
        "kind": "verb.a",
        "template": "t1",
        "exact": fingerprints.exact_fingerprint("verb.a", "{}", "ab" * 32),
        "minhash": fingerprints.encode_signature(fingerprints.minhash(features) or ()),
        "result": "failed",
        "retry": True,
        "task_id": "task-7",
        "worker_outcome": "partial",
        "failure_reason": "timeout after #s",
        "problems": ["disk # full", "no space"],
        "server_duration_seconds": 1.5,
        "total_tokens": 15,
        "reported_duration_seconds": 2.0,
        "cost": {"amount": 0.5, "currency": "USD", "source": "bill"},
    }


def test_what_is_unknown_is_null_and_never_0(item: Items, frame: Frame) -> None:
    imported = item(1, brief={"template": None}, origin="imported", submitted_at=None, claimed_at=None)

    (entry,) = held(learn(frame(imported)))

    unknown = {name for name, value in entry.items() if value is None}
    assert unknown == {
        "template",
        "exact",
        "minhash",
        "worker_outcome",
        "failure_reason",
        "server_duration_seconds",
        "total_tokens",
        "reported_duration_seconds",
        "cost",
    }
    assert entry["problems"] == []


@pytest.mark.parametrize(
    ("words", "signed"), [("", False), ("cat", False), ("cat dog", False), ("cat dog ox", True)]
)
def test_with_fewer_than_three_features_a_run_has_no_signature(
    words: str, signed: bool, item: Items, frame: Frame
) -> None:
    (entry,) = held(learn(frame(item(1, brief={"wording": {"title": words}}))))

    assert (entry["minhash"] is not None) is signed


def test_nothing_at_all_is_a_head_that_pins_nothing(frame: Frame) -> None:
    outcome = learn(frame())

    (head,) = outcome.nouns
    assert head.key == "memory:minhash-lsh:v1:q:head"
    assert {name: head.body[name] for name in ("cursor", "entries", "segments", "manifests")} == {
        "cursor": "0",
        "entries": 0,
        "segments": [],
        "manifests": [],
    }
    assert failed(outcome) == {}


@pytest.mark.parametrize(("count", "sizes"), [(1, [1]), (128, [128]), (129, [128, 1]), (300, [128, 128, 44])])
def test_a_segment_holds_at_most_128_entries_and_the_head_pins_each(
    count: int, sizes: list[int], item: Items, frame: Frame
) -> None:
    outcome = learn(frame(*(item(number) for number in range(1, count + 1))))

    *segments, head = outcome.nouns
    assert [len(noun.body["entries"]) for noun in segments] == sizes
    assert [noun.key.rpartition(":seg:")[2] for noun in segments] == ["000001", "000002", "000003"][
        : len(sizes)
    ]
    assert head.body["segments"] == [
        {
            "key": noun.key,
            "version": 1,
            "sha256": digest(noun.body),
            "entries": len(noun.body["entries"]),
            "first": noun.body["entries"][0]["cursor"],
            "last": noun.body["entries"][-1]["cursor"],
        }
        for noun in segments
    ]
    assert head.body["entries"] == count
    assert failed(outcome) == {}


def test_a_kind_stands_in_the_keys_right_after_the_queue(item: Items, frame: Frame) -> None:
    outcome = learn(frame(item(1)), scope=Scope("q", "verb a/b"))

    assert [noun.key for noun in outcome.nouns] == [
        "memory:minhash-lsh:v1:q:kind=verb@20a@2fb:seg:000001",
        "memory:minhash-lsh:v1:q:kind=verb@20a@2fb:head",
    ]


def test_a_run_reads_what_is_after_the_heads_cursor_up_to_the_budget(item: Items, frame: Frame) -> None:
    state = record(learn(frame(item(41))))

    reading = LEARNER.reading(Run(SPEC, Scope("q"), state=state))

    assert (reading.after, reading.limit) == ("41", 2000)


def test_a_later_run_adds_segments_and_leaves_the_old_pins_as_they_are(item: Items, frame: Frame) -> None:
    first = learn(frame(item(3), item(5)))

    second = learn(frame(item(8)), record(first))

    assert [noun.key.rpartition(":")[2] for noun in second.nouns] == ["000002", "head"]
    assert second.nouns[-1].body["segments"][:1] == first.nouns[-1].body["segments"]
    assert second.nouns[-1].body["entries"] == 3
    assert second.nouns[-1].body["cursor"] == "8"
    assert failed(second) == {}


def test_private_runs_move_the_cursor_of_a_surface_and_have_no_entry(item: Items, frame: Frame) -> None:
    outcome = learn(frame(item(1), item(2, private=True)), surface={"queue": "q"})

    assert [entry["run_id"] for entry in held(outcome)] == ["run-1"]
    assert outcome.nouns[-1].body["cursor"] == "2"
    assert failed(outcome) == {}


def many(count: int, start: int = 0) -> dict[str, Any]:
    """A head that pins so many segments of one entry each."""
    pins = [
        {
            "key": f"memory:minhash-lsh:v1:q:seg:{number:06d}",
            "version": 1,
            "sha256": f"{number:064x}",
            "entries": 1,
            "first": str(number),
            "last": str(number),
        }
        for number in range(start + 1, start + count + 1)
    ]
    fields = {"cursor": str(start + count), "entries": count, "segments": pins, "manifests": []}
    body = {**learn_nothing().nouns[-1].body, **fields}
    return {"store": "learn.outputs", "key": "memory:minhash-lsh:v1:q:head", "version": 9, "body": body}


def learn_nothing() -> Outcome:
    from schemas import observations

    return learn(pl.DataFrame(schema=observations.SCHEMA))


def test_beyond_256_segments_the_oldest_256_go_to_a_manifest(item: Items, frame: Frame) -> None:
    full = learn(frame(item(256)), many(255))
    over = learn(frame(item(257)), record(full))

    assert [noun.key.rpartition(":")[2] for noun in full.nouns] == ["000256", "head"]
    _, manifest, head = over.nouns
    assert manifest.key == "memory:minhash-lsh:v1:q:man:0001"
    assert manifest.body["segments"] == full.nouns[-1].body["segments"]
    assert [pin["key"].rpartition(":")[2] for pin in head.body["segments"]] == ["000257"]
    (pin,) = head.body["manifests"]
    assert pin == {
        "key": manifest.key,
        "version": 1,
        "sha256": digest(manifest.body),
        "entries": 256,
        "first": "1",
        "last": "256",
    }
    assert head.body["entries"] == 257
    assert failed(over) == {}


def test_a_changed_surface_starts_anew_under_new_numbers(item: Items, frame: Frame) -> None:
    state = record(learn(frame(item(1), item(2, private=True))))

    anew = learn(frame(item(1), item(2, private=True)), state, surface={"queue": "q"}, restart=True)

    assert [noun.key.rpartition(":")[2] for noun in anew.nouns] == ["000002", "head"]
    assert anew.nouns[-1].body["entries"] == 1
    assert [pin["key"].rpartition(":")[2] for pin in anew.nouns[-1].body["segments"]] == ["000002"]
    assert failed(anew) == {}


def test_a_restart_that_counts_nothing_keeps_the_numbers_going(item: Items, frame: Frame) -> None:
    surface = {"queue": "q"}
    state = record(learn(frame(item(1, private=True))))
    empty = learn(frame(item(1, private=True)), state, surface=surface, restart=True)

    later = learn(frame(item(2)), record(empty), surface=surface)

    assert failed(empty) == {}
    assert empty.nouns[-1].body["entries"] == 0
    assert [noun.key.rpartition(":")[2] for noun in later.nouns] == ["000003", "head"]
    assert failed(later) == {}


def test_manifests_after_a_restart_have_numbers_of_their_own(item: Items, frame: Frame) -> None:
    before = learn(frame(item(300)), many(256))
    anew = learn(frame(item(1)), record(before), restart=True)
    body = {**many(256, 257)["body"], "entries": 256}

    later = learn(frame(item(900)), {**record(anew), "body": body})

    numbers = [
        noun.key.rpartition(":")[2] for one in (before, later) for noun in one.nouns if ":man:" in noun.key
    ]
    assert numbers == ["0001", "0002"]


def test_problems_are_dropped_from_the_end_until_an_entry_has_4096_bytes(item: Items, frame: Frame) -> None:
    wrong = [f"{letter}" + "\U0001f600" * 127 for letter in "stuvwxyz"]
    report = {
        "learning": {"went_wrong": wrong, "cost": {"amount": 1, "currency": "EUR", "source": "\x01" * 128}}
    }
    failure = "\x02" * 2000

    (entry,) = held(learn(frame(item(1, report=report, result="failed", failure_text=failure))))

    assert len(dumps(entry)) <= 4096
    kept = len(entry["problems"])
    assert 0 < kept < 8
    assert entry["problems"] == wrong[:kept]
    assert len(dumps({**entry, "problems": wrong[: kept + 1]})) > 4096


def test_the_bytes_are_the_same_in_any_order_of_rows_and_any_process(
    item: Items, frame: Frame, tmp_path: Path
) -> None:
    rows = frame(*(item(number, brief=TEXT, kind=f"k{number % 3}") for number in range(1, 200)))
    numbers = list(range(rows.height))
    random.Random(5).shuffle(numbers)
    rows[numbers].write_parquet(tmp_path / "rows.parquet")
    program = (
        "import sys, polars\n"
        "from tests.learners.test_memory import learn\n"
        "from tessera.canonical import dumps\n"
        "for noun in learn(polars.read_parquet(sys.argv[1])).nouns: print(dumps(noun.document()).decode())\n"
    )

    said = {
        subprocess.run(
            [sys.executable, "-c", program, str(tmp_path / "rows.parquet")],
            cwd=ROOT,
            env={"PYTHONPATH": str(ROOT), "PYTHONHASHSEED": seed, "POLARS_MAX_THREADS": seed, "PATH": ""},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }

    assert said == {"".join(dumps(noun.document()).decode() + "\n" for noun in learn(rows).nouns)}


def test_several_runs_hold_the_entries_of_one(item: Items, frame: Frame) -> None:
    items = [item(number, brief=TEXT) for number in range(1, 400)]
    once = held(learn(frame(*items)))

    several, state = [], None
    for start in range(0, len(items), 150):
        outcome = learn(frame(*items[start : start + 150]), state)
        several += held(outcome)
        state = record(outcome)

    assert several == once
    assert len({entry["run_id"] for entry in several}) == 399


def test_a_head_of_another_schema_is_refused_by_name(item: Items, frame: Frame) -> None:
    state = record(learn(frame(item(1))))
    newer = {**state, "body": {**state["body"], "schema": "tessera.memory-head.v2"}}

    with pytest.raises(LearnerError, match=r"memory:minhash-lsh:v1:q:head is a tessera\.memory-head\.v2"):
        learn(frame(item(2)), newer)


def test_every_option_is_one_too_many() -> None:
    faults = LEARNER.option_faults({"threshold": 0.5, "b": 1}, "options")

    assert [fault.path for fault in faults] == ["options.b", "options.threshold"]


# --- the checks ---------------------------------------------------------------------------------------------


def spoilt(outcome: Outcome, place: int, **fields: Any) -> Outcome:
    """The outcome with fields of one noun replaced, and the head's pin made to fit where it can."""
    nouns = list(outcome.nouns)
    nouns[place] = replace(nouns[place], body={**nouns[place].body, **fields})
    return replace(outcome, nouns=tuple(nouns))


def repinned(outcome: Outcome, entries: list[dict[str, Any]]) -> Outcome:
    """The first segment with other entries, pinned as what it then is."""
    changed = spoilt(outcome, 0, entries=entries)
    segment = changed.nouns[0]
    pin = {**outcome.nouns[-1].body["segments"][0], "sha256": segment.sha256(), "entries": len(entries)}
    pin |= {"first": entries[0]["cursor"], "last": entries[-1]["cursor"]}
    return spoilt(changed, -1, segments=[pin], entries=len(entries))


@pytest.fixture
def outcome(item: Items, frame: Frame) -> Outcome:
    """A good outcome of two runs."""
    return learn(frame(item(1, brief=TEXT), item(2, brief=TEXT, result="failed", failure_text="No")))


def test_a_pin_with_another_digest_fails_and_names_the_segment(outcome: Outcome) -> None:
    pin = {**outcome.nouns[-1].body["segments"][0], "sha256": "f" * 64}

    found = failed(spoilt(outcome, -1, segments=[pin]))

    assert list(found) == ["pins_verify"]
    assert "seg:000001 is pinned with sha256 ffff" in found["pins_verify"][0]


def test_an_old_pin_that_changed_or_went_fails(outcome: Outcome, item: Items, frame: Frame) -> None:
    later = learn(frame(item(9)), record(outcome))
    old, new = later.nouns[-1].body["segments"]

    gone = failed(spoilt(later, -1, segments=[new]))
    changed = failed(spoilt(later, -1, segments=[{**old, "sha256": "e" * 64}, new]))

    assert any("000001 was pinned before and is no more" in row for row in gone["pins_verify"])
    assert changed["pins_verify"] == (
        "memory:minhash-lsh:v1:q:seg:000001 is pinned otherwise than before, or again",
    )


def test_a_run_without_an_entry_or_with_two_fails_and_is_named(outcome: Outcome) -> None:
    first, second = held(outcome)

    missing = failed(repinned(outcome, [first]))
    twice = failed(repinned(outcome, [first, second, second]))
    backwards = failed(repinned(outcome, [second, first]))

    assert missing == {"every_run_has_one_entry": ("run run-2 at 2 has no entry",)}
    assert (
        twice == backwards == {"every_run_has_one_entry": ("entries are repeated or out of capture order",)}
    )


def test_an_output_or_wording_in_an_entry_fails(outcome: Outcome) -> None:
    first, second = held(outcome)

    more = failed(repinned(outcome, [{**first, "output": {"text": "secret"}}, second]))
    wording = failed(repinned(outcome, [first, {**second, "failure_reason": "pack the library tightly"}]))
    problems = failed(repinned(outcome, [{**first, "problems": ["pack the library"]}, second]))
    signature = failed(repinned(outcome, [{**first, "minhash": base64.b64encode(b"short").decode()}, second]))

    assert all(list(found) == ["no_outputs_and_no_wording"] for found in (more, wording, problems, signature))
    assert "entries[0] has the fields" in more["no_outputs_and_no_wording"][0]


def test_coverage_reports_orphans_and_faults_what_is_missing_or_doubled() -> None:
    def rows(*numbers: int) -> pl.DataFrame:
        return pl.DataFrame({"cursor": numbers, "run_id": [f"run-{number}" for number in numbers]})

    found = coverage(rows(1, 2, 3), rows(2, 2, 3, 7))

    assert (found.missing, found.repeated, found.orphaned) == (("run-1",), ("run-2",), ("run-7",))
    assert found.faults() == [
        "run run-1 was captured before the index's cursor and has no entry",
        "run run-2 has more than one entry",
    ]
    assert coverage(rows(1), rows(1)).faults() == []


def test_the_failure_reasons_of_a_column_of_runs_follow_the_vectors(
    item: Items, frame: Frame, request: pytest.FixtureRequest
) -> None:
    file = Path(request.config.rootpath).parent / "shared" / "vectors" / "failure_reason.json"
    if not file.is_file():
        pytest.skip("the public vectors are not beside this checkout")
    import json

    from tessera.canonical import scalar_text

    cases = json.loads(file.read_text())
    texts = [None if case["text"] is None else scalar_text(case["text"]) for case in cases]
    rows = frame(*(item(number, failure_text=text) for number, text in enumerate(texts, 1)))

    assert [entry["failure_reason"] for entry in entries(rows)] == [case["reason"] for case in cases]


def test_noun_documents_hold_the_spec_the_scope_and_the_use_policy(outcome: Outcome) -> None:
    def common(noun: Noun) -> dict[str, Any]:
        return {
            name: noun.body[name] for name in ("learner", "strategy", "version", "spec", "scope", "options")
        }

    assert {noun.body["schema"] for noun in outcome.nouns} == {
        "tessera.memory-segment.v1",
        "tessera.memory-head.v1",
    }
    assert all(common(noun) == common(outcome.nouns[0]) for noun in outcome.nouns)
    assert all(
        noun.body["use_policy"] == {"training_corpus": "excluded_by_default"} for noun in outcome.nouns
    )
    assert {noun.category for noun in outcome.nouns} == {"noun.eval_run"}
