"""``memory:minhash-lsh:v1``: an index of what became of past runs, to be found by likeness and by equality.

Promises immutable segments of at most 128 entries, a head that pins them, and a run whose cost is in
proportion to what is new (contract, section 8); the same bytes for the same runs. Entries hold fingerprints,
outcomes and normalized reasons: no output and no wording. Leaves out recall, which is the consumer's.
"""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import polars as pl

from learners import statistics
from learners.catalog import MEMORY
from learners.contract import (
    Check,
    Evidence,
    LearnerError,
    Noun,
    Outcome,
    Plain,
    Reading,
    Run,
    Scope,
    common_fields,
    output_key,
)
from learners.fingerprints import exact_fingerprints, observation_signatures
from learners.memory_checks import CHECKS
from schemas.memory import (
    CATEGORY,
    ENTRY_BYTES,
    HEAD,
    MANIFEST,
    PINNED_SEGMENTS,
    SCHEME,
    SEGMENT,
    SEGMENT_ENTRIES,
)
from tessera.advice.shapes import LEAST_FEATURES
from tessera.canonical import dumps
from tessera.statistics import failure_reason

COLUMNS = (
    "cursor",
    "run_id",
    "private",
    "kind",
    "template",
    "wording",
    "problem",
    "types_input",
    "types_output",
    "input_type",
    "input_digest",
    "result",
    "retry",
    "task_id",
    "worker_outcome",
    "failure_text",
    "went_wrong",
    "claimed_at",
    "submitted_at",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "reported_duration_seconds",
    "cost_amount",
    "cost_currency",
    "cost_source",
)
"""The columns of ``schemas.observations`` that a run reads."""


@dataclass(frozen=True, slots=True)
class _Pinned:
    """What the head of before says: where it stands, what it pins, and the number of its newest segment."""

    cursor: str = "0"
    entries: int = 0
    segments: tuple[Mapping[str, Any], ...] = ()
    manifests: tuple[Mapping[str, Any], ...] = ()
    number: int = 0


class Memory(Plain):
    """The learner. It takes no options, and no records beside the head, which pins all that a run needs."""

    spec: Mapping[str, Any] = MEMORY
    checks: Sequence[Check] = CHECKS

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The head."""
        return output_key(self.spec, scope, "head")

    def reading(self, run: Run) -> Reading:
        """What was captured after the head's cursor, up to the budget."""
        return Reading(after=_before(run).cursor, limit=self.spec["budget"]["observations"], columns=COLUMNS)

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """New segments for what was read, a manifest when the head pins too many, and the next head."""
        before = _before(run)
        made = _counted(run, evidence)
        # after a restart without an entry an empty segment keeps the numbers going: the head pins none older
        chunks = [made[at : at + SEGMENT_ENTRIES] for at in range(0, len(made), SEGMENT_ENTRIES)]
        if not chunks and not before.segments and before.number:
            chunks = [[]]
        nouns = [
            self._noun(run, f"seg:{before.number + place:06d}", SEGMENT, {"scheme": SCHEME, "entries": chunk})
            for place, chunk in enumerate(chunks, 1)
        ]
        pins = [*before.segments, *(_segment_pin(noun, evidence.upto) for noun in nouns)]
        manifests = list(before.manifests)
        while len(pins) > PINNED_SEGMENTS:
            oldest, pins = pins[:PINNED_SEGMENTS], pins[PINNED_SEGMENTS:]
            # numbered by its newest segment, so that no two of a scope are the same, restarts or not
            number = _number(oldest[-1]["key"]) // PINNED_SEGMENTS
            manifest = self._noun(run, f"man:{number:04d}", MANIFEST, {"segments": oldest})
            nouns.append(manifest)
            manifests.append(_pin(manifest, sum(pin["entries"] for pin in oldest), oldest[0], oldest[-1]))
        fields = {
            "cursor": evidence.upto,
            "entries": before.entries + len(made),
            "segments": pins,
            "manifests": manifests,
        }
        return Outcome(run, evidence, (*nouns, self._noun(run, "head", HEAD, fields)))

    def of_rows(self, rows: pl.DataFrame) -> list[dict[str, Any]]:
        """Their entries."""
        return entries(rows)

    def _noun(self, run: Run, suffix: str, schema: str, fields: Mapping[str, Any]) -> Noun:
        store, key = output_key(self.spec, run.scope, suffix)
        return Noun(store, key, CATEGORY, {**common_fields(schema, self, run), **fields})


LEARNER = Memory()


def _counted(run: Run, evidence: Evidence) -> list[dict[str, Any]]:
    """The entries of the rows that count, made now unless they were made before."""
    rows = run.counted(evidence)
    if evidence.made is None:
        return entries(rows)
    kept = set(map(str, rows["cursor"]))
    return [entry for entry in evidence.made if entry["cursor"] in kept]


def entries(frame: pl.DataFrame) -> list[dict[str, Any]]:
    """The entries of rows of ``schemas.observations`` (at least ``COLUMNS``), in the rows' order."""
    found = observation_signatures(frame)
    measured = statistics.measured(frame).with_columns(
        exact_fingerprints(frame), found.encoded(), pl.Series("features", found.features)
    )
    return [_entry(row) for row in measured.iter_rows(named=True)]


def _entry(row: Mapping[str, Any]) -> dict[str, Any]:
    cost = None
    if row["cost_amount"] is not None:
        cost = {name: row[f"cost_{name}"] for name in ("amount", "currency", "source")}
    told = row["features"] >= LEAST_FEATURES
    entry = {
        "run_id": row["run_id"],
        "cursor": str(row["cursor"]),
        "kind": row["kind"],
        "template": row["template"],
        "exact": row["exact"],
        "minhash": base64.b64encode(row["minhash"]).decode("ascii") if told else None,
        "result": row["result"],
        "retry": row["retry"],
        "task_id": row["task_id"],
        "worker_outcome": row["worker_outcome"],
        "failure_reason": failure_reason(row["failure_text"]),
        "problems": [failure_reason(text) for text in row["went_wrong"] or ()],
        "server_duration_seconds": row["server_duration_seconds"],
        "total_tokens": row["tokens"],
        "reported_duration_seconds": row["reported_duration_seconds"],
        "cost": cost,
    }
    while entry["problems"] and len(dumps(entry)) > ENTRY_BYTES:
        entry["problems"].pop()
    return entry


def _before(run: Run) -> _Pinned:
    """What the run goes on from; after a restart only the numbering."""
    if run.state is None:
        return _Pinned()
    body = run.state["body"]
    if body.get("schema") != HEAD:
        raise LearnerError(
            f"{run.state['store']}/{run.state['key']} is a {body.get('schema')}; this software continues "
            f"{HEAD}. Nothing was published; run the version that wrote it."
        )
    number = _number(body["segments"][-1]["key"]) if body["segments"] else 0
    if run.restart:
        return _Pinned(number=number)
    return _Pinned(body["cursor"], body["entries"], tuple(body["segments"]), tuple(body["manifests"]), number)


def _number(key: str) -> int:
    return int(key.rpartition(":")[2])


def _segment_pin(noun: Noun, upto: str) -> dict[str, Any]:
    held = noun.body["entries"]
    nothing = {"cursor": upto}
    first, last = (held[0], held[-1]) if held else (nothing, nothing)
    ends = [{"first": end["cursor"], "last": end["cursor"]} for end in (first, last)]
    return _pin(noun, len(held), ends[0], ends[1])


def _pin(noun: Noun, count: int, first: Mapping[str, Any], last: Mapping[str, Any]) -> dict[str, Any]:
    """A pin of a noun that is version 1 for ever, with the cursors of its first and last entries."""
    return {
        "key": noun.key,
        "version": 1,
        "sha256": noun.sha256(),
        "entries": count,
        "first": first["first"],
        "last": last["last"],
    }
