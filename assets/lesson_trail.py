"""From a lesson to the runs it rests on: each record of its support, verified, and recounted from the lake.

Promises that a record whose body does not have its digest is said to be so, that counts come from the lake's
rows of the very window that the record pins, and that what cannot be followed is said, never left out. Leaves
out judging the lesson: that is the learner's.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import polars as pl

from assets.lake import Lake
from learners import statistics
from learners.comparisons import FAILS, Comparison, comparisons
from learners.path_statistics import groups
from schemas.path_scorecard import BODY_SCHEMA as SCORECARD
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import Forbidden, NotFound

Counts = tuple[int, int]
COLUMNS = tuple(
    dict.fromkeys(
        (
            *("cursor", "run_id", "queue", "kind", "origin", "private", "draws", "tags", "template"),
            *("phrasing", "shim", "method", "harness", "model", "model_reported"),
            *statistics.COLUMNS,
        )
    )
)


@dataclass(frozen=True, slots=True)
class Step:
    """A record of the support. `trouble` says why it could be followed no further; null when it could.

    `counted` is what the lake's rows of the window say of the group, `runs` these rows of the group.
    """

    pin: Mapping[str, Any]
    sha256: str | None = None
    verified: bool = False
    claim: Comparison | None = None
    counted: Counts | None = None
    same_runs: bool = False
    runs: pl.DataFrame | None = None
    trouble: str | None = None


def trail(client: Client, lake: Lake, entry: Mapping[str, Any]) -> list[Step]:
    """One step a record of a lesson's support, in its order."""
    return [_step(client, lake, str(entry["key"]), pin) for pin in entry["support"]]


def _step(client: Client, lake: Lake, lesson: str, pin: Mapping[str, Any]) -> Step:
    try:
        record = client.get_record(pin["store"], pin["key"], pin["version"])
    except (NotFound, Forbidden) as error:
        return Step(pin, trouble=f"this key may not read it, or it is gone: {error}")
    body, sha256 = record["body"], str(record["sha256"])
    verified = digest(body) == sha256
    claim = next((one for one in comparisons([record]) if one.key == lesson), None)
    read = Step(pin, sha256, verified, claim)
    if not verified:
        return _stopped(read, "its body does not have its digest: it cannot be relied on")
    if body.get("schema") != SCORECARD or claim is None:
        return _stopped(read, "its runs are pinned by runs_sha256 alone; only scorecards are recounted here")
    return _recounted(read, claim, body, lake)


def _recounted(read: Step, claim: Comparison, body: Mapping[str, Any], lake: Lake) -> Step:
    window, scope = body["window"], body["scope"]
    rows = lake.observations(
        scope["queue"],
        kind=scope.get("kind"),
        after=int(window["after"]),
        upto=int(window["upto"]),
        columns=COLUMNS,
    )
    if window["count"] < rows.height:  # a noun with a surface leaves out private runs
        rows = rows.filter(~pl.col("private"))
    same = statistics.runs_sha256(rows) == body["runs_sha256"]
    keys = groups(rows, ("category", claim.dimension))
    wanted = {"category": claim.category, claim.dimension: claim.value}
    group = next((one for one in keys if one["dimensions"] == wanted), None)
    mine = _of_value(rows, claim)
    attempts, accepted = (0, 0) if group is None else (group["attempts"], group["accepted"])
    if claim.claim.startswith(FAILS):
        reason = claim.claim.removeprefix(f"{FAILS}: ")
        mine = mine.filter(statistics.failure_reasons(pl.col("failure_text")) == reason)
        accepted = mine.height
    return Step(
        read.pin, read.sha256, read.verified, claim, (accepted, attempts), same, mine.sort("cursor"), None
    )


def _of_value(rows: pl.DataFrame, claim: Comparison) -> pl.DataFrame:
    value = {
        "model": pl.when(pl.col("model_reported") & pl.col("model").is_null())
        .then(pl.lit(""))
        .otherwise(pl.col("model")),
        "tagset": pl.col("tags").list.join(","),
    }.get(claim.dimension)
    named = pl.col(claim.dimension) if value is None else value
    return rows.filter((pl.col("kind") == claim.category) & (named == claim.value))


def _stopped(read: Step, trouble: str) -> Step:
    return Step(read.pin, read.sha256, read.verified, read.claim, trouble=trouble)
