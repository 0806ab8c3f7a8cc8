"""What must hold of a memory index before a run's part of it is published, and of the whole beside its lake.

Promises pure tests that name each row at fault. The ones of a run look at what is new and at how it joins the
old: what was pinned before is checked by its pin, which never changes, not by reading it again. ``coverage``
holds the whole index against the rows that it was made of. Leaves out what follows from a failure.
"""

import base64
import binascii
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from learners.contract import Check, Noun, Outcome
from schemas.memory import (
    ENTRY_BYTES,
    ENTRY_FIELDS,
    HEAD,
    MANIFEST,
    PIN_FIELDS,
    PINNED_SEGMENTS,
    SCHEME,
    SEGMENT,
    SEGMENT_ENTRIES,
)
from tessera.canonical import dumps
from tessera.statistics import failure_reason


@dataclass(frozen=True, slots=True)
class Coverage:
    """How an index and its rows fit: run ids without an entry, with several, and entries without a row."""

    missing: tuple[str, ...]
    repeated: tuple[str, ...]
    orphaned: tuple[str, ...]

    def faults(self) -> list[str]:
        """What is wrong, a sentence a run; entries whose row was taken away are not."""
        found = [
            f"run {run_id} was captured before the index's cursor and has no entry" for run_id in self.missing
        ]
        return found + [f"run {run_id} has more than one entry" for run_id in self.repeated]


def coverage(counted: pl.DataFrame, indexed: pl.DataFrame) -> Coverage:
    """Hold an index's entries against the rows that count up to its cursor; both have ``cursor, run_id``."""
    runs, found = counted.select("cursor", "run_id"), indexed.select("cursor", "run_id")
    on = ["cursor", "run_id"]
    twice = found.filter(pl.col("run_id").is_duplicated()).unique("run_id").sort("cursor")
    return Coverage(
        tuple(runs.join(found, on=on, how="anti").sort("cursor")["run_id"]),
        tuple(twice["run_id"]),
        tuple(found.join(runs, on=on, how="anti").sort("cursor")["run_id"]),
    )


def pins_verify(outcome: Outcome) -> Sequence[str]:
    """Every new noun is pinned once, as what it is; every old pin stands, there or in a new manifest."""
    head = _head(outcome)
    body = head.body
    new = {noun.key: noun for noun in outcome.nouns if noun is not head}
    moved = [pin for noun in _of(outcome, MANIFEST) for pin in noun.body["segments"]]
    pins = [*body["manifests"], *moved, *body["segments"]]
    old = _old_pins(outcome)
    faults = []
    for pin in pins:
        if set(pin) != set(PIN_FIELDS):
            faults.append(f"{head.key} has a pin with the fields {', '.join(pin)}")
        elif pin["key"] in new:
            faults += _misfits(pin, new.pop(pin["key"]))
        elif old.pop(pin["key"], None) != pin:
            faults.append(f"{pin['key']} is pinned otherwise than before, or again")
    faults += [f"{key} is not pinned" for key in new]
    faults += [f"{key} was pinned before and is no more" for key in old]
    if len(body["segments"]) > PINNED_SEGMENTS:
        faults.append(
            f"{head.key} pins {len(body['segments'])} segments, at most {PINNED_SEGMENTS} are allowed"
        )
    held = sum(pin["entries"] for pin in (*body["manifests"], *body["segments"]))
    if held != body["entries"]:
        faults.append(f"{head.key} says {body['entries']} entries, it pins {held}")
    return faults


def every_run_has_one_entry(outcome: Outcome) -> Sequence[str]:
    """The new segments hold the runs that were read and count, each once, in capture order after the old."""
    counted = outcome.run.counted(outcome.evidence)
    expected = list(zip(counted["run_id"], map(str, counted["cursor"]), strict=True))
    given = [(entry["run_id"], entry["cursor"]) for _, entry in _entries(outcome)]
    missing, strange = set(expected) - set(given), set(given) - set(expected)
    faults = [f"run {run_id} at {cursor} has no entry" for run_id, cursor in sorted(missing)]
    faults += [f"the entry of {run_id} at {cursor} is of no run" for run_id, cursor in sorted(strange)]
    if not faults and given != expected:
        faults.append("entries are repeated or out of capture order")
    late = [run_id for run_id, cursor in given if int(cursor) <= int(outcome.evidence.after)]
    return faults + [f"run {run_id} was captured before the head's cursor" for run_id in late]


def no_outputs_and_no_wording(outcome: Outcome) -> Sequence[str]:
    """An entry has its fields and no others, within its bound; its texts are reasons of its run."""
    frame = outcome.run.counted(outcome.evidence)
    said = dict(zip(frame["run_id"], frame.select("failure_text", "went_wrong").iter_rows(), strict=True))
    faults = []
    for where, entry in _entries(outcome):
        failure, wrong = said.get(entry.get("run_id"), (None, None))
        problems = [failure_reason(text) for text in wrong or ()]
        if set(entry) != set(ENTRY_FIELDS):
            faults.append(f"{where} has the fields {', '.join(entry)}")
        elif len(dumps(entry)) > ENTRY_BYTES:
            faults.append(f"{where} is {len(dumps(entry))} bytes, at most {ENTRY_BYTES} are allowed")
        elif entry["failure_reason"] != failure_reason(failure):
            faults.append(f"{where} has a failure reason that is not its run's")
        elif entry["problems"] != problems[: len(entry["problems"])]:
            faults.append(f"{where} has problems that are not its run's")
        elif not _is_signature(entry["minhash"]):
            faults.append(f"{where} has a minhash that is no signature")
    faults += [
        f"{noun.key} has {len(noun.body['entries'])} entries of the scheme {noun.body['scheme']}"
        for noun in _of(outcome, SEGMENT)
        if noun.body["scheme"] != SCHEME or len(noun.body["entries"]) > SEGMENT_ENTRIES
    ]
    return faults


def _of(outcome: Outcome, schema: str) -> list[Noun]:
    return [noun for noun in outcome.nouns if noun.body["schema"] == schema]


def _head(outcome: Outcome) -> Noun:
    return _of(outcome, HEAD)[-1]


def _entries(outcome: Outcome) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for noun in _of(outcome, SEGMENT):
        for position, entry in enumerate(noun.body["entries"]):
            yield f"{noun.key} entries[{position}]", entry


def _old_pins(outcome: Outcome) -> dict[str, Mapping[str, Any]]:
    state = outcome.run.state
    if state is None or outcome.run.restart:
        return {}
    return {pin["key"]: pin for name in ("manifests", "segments") for pin in state["body"][name]}


def _misfits(pin: Mapping[str, Any], noun: Noun) -> Iterator[str]:
    """How a pin differs from the new noun that it names."""
    if noun.body["schema"] == SEGMENT:
        held = [{"entries": 1, "first": one["cursor"], "last": one["cursor"]} for one in noun.body["entries"]]
    else:
        held = noun.body["segments"]
    expected = {"version": 1, "sha256": noun.sha256(), "entries": sum(one["entries"] for one in held)}
    if held:
        expected |= {"first": held[0]["first"], "last": held[-1]["last"]}
    for field, value in expected.items():
        if pin[field] != value:
            yield f"{noun.key} is pinned with {field} {pin[field]}, it has {value}"


def _is_signature(encoded: str | None) -> bool:
    try:
        return encoded is None or len(base64.b64decode(encoded, validate=True)) == 128
    except (ValueError, binascii.Error):
        return False


CHECKS = (
    Check("pins_verify", "every new noun is pinned as what it is, and every old pin stands", pins_verify),
    Check(
        "every_run_has_one_entry", "each run that was read and counts has one entry", every_run_has_one_entry
    ),
    Check(
        "no_outputs_and_no_wording",
        "entries hold their fields alone, within bounds",
        no_outputs_and_no_wording,
    ),
)
