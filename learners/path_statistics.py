"""``path_statistics:wilson-grouping:v1``: how often each path was accepted, with what certainty, cost and
time.

Promises one scorecard a scope over the newest window, the same bytes for the same runs (contract, section 9).
It is observational and says so. Leaves out judging: that one group does better than another is not its claim.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from learners import parts, statistics
from learners.catalog import PATH_STATISTICS
from learners.contract import (
    Check,
    Evidence,
    Noun,
    Outcome,
    Plain,
    Reading,
    Run,
    Scope,
    common_fields,
    output_key,
)
from learners.path_statistics_checks import CHECKS
from schemas.path_scorecard import BODY_SCHEMA, CATEGORY
from schemas.rules import integer
from tessera.canonical import utf16_key
from tessera.errors import Fault

DIMENSIONS = ("category", "template", "phrasing", "shim", "method", "harness", "model", "queue", "tagset")
DEFAULT_DIMENSIONS = ("category", "template", "phrasing", "shim")
DRAWN = ("shim", "method", "harness", "model")
"""The dimensions that a server can draw and a scorecard can group by."""

DEFAULT_LAST = 1_000_000
SMALL = 5
EXAMPLES = 5
GROUP_BYTES = 350
"""No group is written in fewer bytes."""
LABEL = "observational"
LABEL_REASON = (
    "Paths saw different inputs, workers and times, so differences between groups are associations, not "
    "causal effects. Accepted means that a submission was recorded with ok=true, not that anyone else "
    "admitted the result."
)


class PathStatistics(Plain):
    """The learner: options ``dimensions`` (any of ``DIMENSIONS``, in any order) and ``last``."""

    spec: Mapping[str, Any] = PATH_STATISTICS
    checks: Sequence[Check] = CHECKS
    examples = EXAMPLES
    group_bytes = GROUP_BYTES

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """What is wrong with the options."""
        faults: list[Fault] = []
        if "dimensions" in options:
            faults += _dimension_faults(options["dimensions"], f"{root}.dimensions")
        if "last" in options:
            faults += integer(1)(options["last"], f"{root}.last")
        unknown = sorted((key for key in options if key not in ("dimensions", "last")), key=utf16_key)
        return faults + [Fault(f"{root}.{key}", "is not a known field") for key in unknown]

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The scorecard itself. Other than the default dimensions are part of its key."""
        dimensions = dimensions_of(options)
        if dimensions == DEFAULT_DIMENSIONS:
            return output_key(self.spec, scope)
        return output_key(self.spec, scope, "+".join(dimensions))

    def reading(self, run: Run) -> Reading:
        """The newest ``last`` observations, and the columns that this run looks at."""
        dimensions = dimensions_of(run.options)
        columns = {"cursor", "run_id", "private", "origin", *statistics.COLUMNS}
        for dimension in dimensions:
            columns |= _SOURCES[dimension]
        if set(dimensions) & set(DRAWN):
            columns.add("draws")
        return Reading(last=int(run.options.get("last", DEFAULT_LAST)), columns=tuple(sorted(columns)))

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """One scorecard noun over the evidence."""
        counted = run.counted(evidence)
        found = groups(counted, dimensions_of(run.options))
        return self._outcome(run, evidence, counted.height, statistics.runs_sha256(counted), found)

    def partial(self, run: Run, rows: pl.DataFrame) -> parts.Partial:
        """What a part of the window comes to."""
        dimensions = dimensions_of(run.options)
        return parts.partial(_kept(rows, dimensions), _names(dimensions), _COUNTS, EXAMPLES)

    def merged(self, run: Run, evidence: Evidence, pinned: statistics.Pinned, whole: parts.Whole) -> Outcome:
        """The same noun, of merged parts."""
        dimensions = dimensions_of(run.options)
        rows = parts.figures(whole) if pinned.count else []
        found = _ordered(rows, dimensions) if pinned.count else groups(pl.DataFrame(), dimensions)
        return self._outcome(run, evidence, pinned.count, pinned.sha256(), found)

    def _outcome(
        self, run: Run, evidence: Evidence, count: int, sha256: str, found: list[dict[str, Any]]
    ) -> Outcome:
        store, key = self.state_key(run.scope, run.options)
        body = {
            **common_fields(BODY_SCHEMA, self, run),
            "cursor": evidence.upto,
            "dimensions": list(dimensions_of(run.options)),
            "window": {"after": evidence.after, "upto": evidence.upto, "count": count},
            "runs_sha256": sha256,
            "label": LABEL,
            "label_reason": LABEL_REASON,
            "groups": found,
        }
        return Outcome(run, evidence, (Noun(store, key, CATEGORY, body),))


LEARNER = PathStatistics()


def dimensions_of(options: Mapping[str, Any]) -> tuple[str, ...]:
    """The dimensions that good options ask for, in the order of ``DIMENSIONS``."""
    asked = options.get("dimensions", DEFAULT_DIMENSIONS)
    return tuple(dimension for dimension in DIMENSIONS if dimension in asked)


def groups(frame: pl.DataFrame, dimensions: Sequence[str]) -> list[dict[str, Any]]:
    """The groups of a scorecard over ``frame`` (columns of ``schemas.observations``), in their order.

    No dimensions give one overall group, also of nothing.
    """
    if not frame.height:
        return [] if dimensions else [_group(dict(_NOTHING), ())]
    rows = statistics.grouped(_kept(frame, dimensions), _names(dimensions), (*_COUNTS, _NEWEST))
    run_ids = _examples(frame, rows)
    for row in rows:
        row["example_run_ids"] = [run_ids[cursor] for cursor in sorted(row.pop("newest"), reverse=True)]
    return _ordered(rows, dimensions)


def _kept(frame: pl.DataFrame, dimensions: Sequence[str]) -> pl.DataFrame:
    return statistics.measured(frame).with_columns(
        *(_VALUES[dimension].alias(_named(dimension)) for dimension in dimensions),
        _randomized(dimensions).alias("drawn"),
    )


def _ordered(rows: list[dict[str, Any]], dimensions: Sequence[str]) -> list[dict[str, Any]]:
    names = _names(dimensions)
    rows.sort(key=lambda row: (-row["attempts"], [_null_first(row[name]) for name in names]))
    return [_group(row, dimensions) for row in rows]


_SOURCES: dict[str, set[str]] = {
    **{
        dimension: {dimension} for dimension in ("template", "phrasing", "shim", "method", "harness", "queue")
    },
    "category": {"kind"},
    "model": {"model", "model_reported"},
    "tagset": {"tags"},
}
_DECLARED_NONE = pl.when(pl.col("model_reported") & pl.col("model").is_null()).then(pl.lit(""))
_VALUES: dict[str, pl.Expr] = {
    **{
        dimension: pl.col(dimension)
        for dimension in ("template", "phrasing", "shim", "method", "harness", "queue")
    },
    "category": pl.col("kind"),
    "model": _DECLARED_NONE.otherwise(pl.col("model")),
    "tagset": pl.col("tags").list.join(","),
}
_COUNTS = (
    (pl.col("origin") == "imported").sum().cast(pl.Int64).alias("imported"),
    (pl.col("worker_outcome") == "blocked").sum().cast(pl.Int64).alias("blocked"),
    pl.col("drawn").sum().cast(pl.Int64).alias("randomized"),
)
_NEWEST = pl.col("cursor").top_k(EXAMPLES).alias("newest")
_NOTHING: dict[str, Any] = {
    "attempts": 0,
    "accepted": 0,
    "acceptance_rate": None,
    "wilson_low": None,
    "wilson_high": None,
    "distinct_tasks": 0,
    "retried": 0,
    **dict.fromkeys(statistics.MEASURES),
    "median_cost": {},
    "worker_outcomes": {},
    "failure_reasons": [],
    "problems": [],
    "imported": 0,
    "blocked": 0,
    "randomized": 0,
    "example_run_ids": [],
}


def _named(dimension: str) -> str:
    return f"dimension.{dimension}"


def _names(dimensions: Sequence[str]) -> list[str]:
    return [_named(dimension) for dimension in dimensions]


def _group(row: dict[str, Any], dimensions: Sequence[str]) -> dict[str, Any]:
    values = {dimension: row[_named(dimension)] for dimension in dimensions}
    return {"dimensions": values, **{name: row[name] for name in _NOTHING}, "small": row["attempts"] < SMALL}


def _null_first(value: str | None) -> tuple[bool, bytes]:
    return (value is not None, b"" if value is None else utf16_key(value))


def _randomized(dimensions: Sequence[str]) -> pl.Expr:
    """Whether an attempt came after a draw of a grouped dimension."""
    drawn = [dimension for dimension in dimensions if dimension in DRAWN]
    if not drawn:
        return pl.lit(value=False)
    return pl.col("draws").list.eval(pl.element().struct.field("dimension").is_in(drawn)).list.any()


def _examples(frame: pl.DataFrame, rows: Sequence[Mapping[str, Any]]) -> dict[int, str]:
    wanted = pl.Series("cursor", [cursor for row in rows for cursor in row["newest"]], dtype=pl.Int64)
    found = frame.select("cursor", "run_id").filter(pl.col("cursor").is_in(wanted.implode()))
    return dict(found.iter_rows())


def _dimension_faults(value: Any, path: str) -> list[Fault]:
    if not isinstance(value, list | tuple):
        return [Fault(path, "must be an array")]
    faults = []
    for position, dimension in enumerate(value):
        if not isinstance(dimension, str):
            faults.append(Fault(f"{path}[{position}]", "must be a string"))
        elif dimension not in DIMENSIONS:
            faults.append(Fault(f"{path}[{position}]", f"must be one of {', '.join(DIMENSIONS)}"))
        elif dimension in value[:position]:
            faults.append(Fault(f"{path}[{position}]", "must not be named twice"))
    return faults
