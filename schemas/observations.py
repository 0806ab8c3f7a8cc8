"""The lake's `observations` table: one row an execution observation, each column typed even when all null.

Promises that an item of the store (contract, section 5) and a row of the lake say the same, and that a value
of another type or out of its bounds is named by its path in the item. Leaves out reading pages
(`schemas.pages`) and writing (`assets.lake`).
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

import pandera.polars as pa
import polars as pl

from schemas.observation_columns import COLUMNS, ITEM_SCHEMA, PATHS, SCHEMA, Column
from tessera import canonical
from tessera.errors import Fault
from tessera.reports import MAX_COUNT, MAX_SECONDS, OUTCOMES

__all__ = [
    "COLUMNS",
    "ITEM_SCHEMA",
    "PATHS",
    "RULES",
    "SCHEMA",
    "Column",
    "MisfitError",
    "Observations",
    "broken_rules",
    "frame",
    "frame_of_rows",
    "row",
    "shape_text",
]


def _between(name: str, low: float, high: float) -> tuple[str, str, pl.Expr]:
    # a NaN is not between anything: polars orders it above every number
    return name, f"must be between {low} and {high}", pl.col(name).is_between(low, high)


def _among(name: str, choices: Sequence[str]) -> tuple[str, str, pl.Expr]:
    return name, f"must be one of {', '.join(choices)}", pl.col(name).is_in(list(choices))


_propensities = pl.col("draws").list.eval(pl.element().struct.field("propensity").is_between(0, 1))
# column, message, and the expression that is true (or null: unknown) where the value is good
RULES: tuple[tuple[str, str, pl.Expr], ...] = (
    ("cursor", "must be at least 1", pl.col("cursor") >= 1),
    _among("origin", ("live", "imported")),
    ("fence", "must be at least 1", pl.col("fence") >= 1),
    ("lapsed", "must be at least 0", pl.col("lapsed") >= 0),
    _between("lease_seconds", 1, 86400),
    _among("result", ("accepted", "failed")),
    _among("state_after", ("queued", "claimed", "succeeded", "failed", "cancelled")),
    _between("input_tokens", 0, MAX_COUNT),
    _between("output_tokens", 0, MAX_COUNT),
    _between("total_tokens", 0, MAX_COUNT),
    _among("worker_outcome", OUTCOMES),
    _between("reported_duration_seconds", 0, MAX_SECONDS),
    _between("cost_amount", 0, MAX_COUNT),
    ("cost_currency", "must be three letters A-Z", pl.col("cost_currency").str.contains(r"\A[A-Z]{3}\z")),
    ("draws", "must have propensities between 0 and 1", _propensities.list.all()),
)


def _check(expression: pl.Expr, message: str) -> pa.Check:
    def holds(data: pa.PolarsData) -> pl.LazyFrame:
        return data.lazyframe.select(expression.fill_null(True))

    return pa.Check(holds, name=message, error=message)


Observations = pa.DataFrameSchema(
    {
        column.name: pa.Column(
            column.dtype,
            checks=[
                _check(expression, message) for name, message, expression in RULES if name == column.name
            ],
            nullable=column.nullable,
        )
        for column in COLUMNS
    },
    strict=True,
    ordered=True,
    name="observations",
)


class MisfitError(ValueError):
    """Items that are no observations; `faults` holds each with its item's position."""

    def __init__(self, faults: Sequence[tuple[int, Fault]]) -> None:
        self.faults = tuple(faults)
        first = "; ".join(f"item {index}: {bad.path} {bad.message}" for index, bad in self.faults[:5])
        super().__init__(f"{len(self.faults)} values do not fit: {first}")


def row(item: Any) -> tuple[dict[str, Any], list[Fault]]:
    """The item's values by column, in Python's types, and each value that is absent or of another type.

    A value at fault is null in the row.
    """
    faults: list[Fault] = []
    if not isinstance(item, dict):
        return dict.fromkeys(SCHEMA), [Fault("", "must be an object")]
    if item.get("schema") != ITEM_SCHEMA:
        faults.append(Fault("schema", f"must be {ITEM_SCHEMA}"))
    values: dict[str, Any] = {}
    for column in COLUMNS:
        before = len(faults)
        value = _value(item, column, faults)
        if value is None and not column.nullable and len(faults) == before:
            faults.append(Fault(column.path, "is required"))
        values[column.name] = value
    return values, faults


def _value(item: dict[str, Any], column: Column, faults: list[Fault]) -> Any:
    value = _reach(item, column.path, faults)
    match column.name:
        case "cursor":
            return _cursor(value, faults)
        case "shape":
            return _shape(value, faults)
        case "has_report":
            return value is not None
        case "model_reported" if not isinstance(item.get("report"), dict):
            return False
        case _:
            return _fit(value, column.dtype, column.path, faults)


def frame(items: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Items of `GET /v1/executions` as a frame with the columns of `SCHEMA`, in order.

    Types are checked (`MisfitError` names every misfit); bounds are left to `Observations.validate`.
    """
    pairs = [row(item) for item in items]
    faults = [(index, bad) for index, (_, bads) in enumerate(pairs) for bad in bads]
    if faults:
        raise MisfitError(faults)
    return frame_of_rows([values for values, _ in pairs])


def frame_of_rows(rows: Sequence[dict[str, Any]]) -> pl.DataFrame:
    """Rows as `row` makes them, as a frame with the columns of `SCHEMA`."""
    return pl.DataFrame(
        [pl.Series(name, [values[name] for values in rows], dtype=dtype) for name, dtype in SCHEMA.items()]
    )


def broken_rules(rows: pl.DataFrame) -> dict[int, list[Fault]]:
    """By row number, each bound of `RULES` that the row breaks; an unknown value breaks none."""
    held = rows.select(
        expression.fill_null(True).alias(str(i)) for i, (_, _, expression) in enumerate(RULES)
    ).with_row_index("row")
    broken: dict[int, list[Fault]] = {}
    for number, *holds in held.filter(~pl.all_horizontal(pl.exclude("row"))).iter_rows():
        broken[number] = [
            Fault(PATHS[name], message)
            for (name, message, _), good in zip(RULES, holds, strict=True)
            if not good
        ]
    return broken


def _reach(item: dict[str, Any], path: str, faults: list[Fault]) -> Any:
    value: Any = item
    walked: list[str] = []
    for name in path.split("."):
        if value is None:
            return None
        if not isinstance(value, dict):
            bad = Fault(".".join(walked), "must be an object")
            if bad not in faults:
                faults.append(bad)
            return None
        value = value.get(name)
        walked.append(name)
    return value


def _cursor(value: Any, faults: list[Fault]) -> int | None:
    if value is None:
        return None
    if isinstance(value, str) and re.fullmatch(r"[0-9]{1,19}", value) and int(value) < 2**63:
        return int(value)
    faults.append(Fault("cursor", "must be a decimal integer under 2^63 written as a string"))
    return None


def _shape(value: Any, faults: list[Fault]) -> str | None:
    if value is None:
        return None
    if not isinstance(value, dict) or not all(isinstance(entry, str) for entry in value.values()):
        faults.append(Fault("brief.shape", "must be an object of strings"))
        return None
    try:
        return shape_text(value)
    except ValueError:
        faults.append(Fault("brief.shape", "must be valid Unicode"))
        return None


def shape_text(shape: dict[str, str]) -> str:
    """A brief's shape as canonical JSON text: free keys stay text, so no file's schema depends on them."""
    return canonical.dumps(shape).decode()


def _fit(value: Any, dtype: Any, path: str, faults: list[Fault]) -> Any:
    if value is None:
        return None
    match dtype:
        case pl.String() if isinstance(value, str):
            if canonical.is_scalar_text(value):
                return canonical.scalar_text(value)
            faults.append(Fault(path, "must be valid Unicode"))
            return None
        case pl.Boolean() if isinstance(value, bool):
            return value
        case pl.Int64() if _is_integral(value):
            return int(value)
        case pl.Float64() if isinstance(value, int | float) and not isinstance(value, bool):
            return float(value)
        case pl.Datetime():
            return _time(value, path, faults)
        case pl.List() if isinstance(value, list):
            return [_fit(entry, dtype.inner, f"{path}[{i}]", faults) for i, entry in enumerate(value)]
        case pl.Struct() if isinstance(value, dict):
            return {
                field.name: _fit(value.get(field.name), field.dtype, f"{path}.{field.name}", faults)
                for field in dtype.fields
            }
    faults.append(Fault(path, f"must be {_WANTED[type(dtype)]}"))
    return None


_WANTED: dict[type[pl.DataType], str] = {
    pl.String: "a string",
    pl.Boolean: "a boolean",
    pl.Int64: "an integer",
    pl.Float64: "a number",
    pl.List: "an array",
    pl.Struct: "an object",
}
_RFC3339 = re.compile(r"\d{4}-\d\d-\d\d[Tt ]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d)")


def _is_integral(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
    return whole and -(2**63) <= value < 2**63


def _time(value: Any, path: str, faults: list[Fault]) -> datetime | None:
    if isinstance(value, str) and _RFC3339.fullmatch(value):
        try:
            return datetime.fromisoformat(value.upper()).astimezone(UTC)
        except (ValueError, OverflowError):
            pass
    faults.append(Fault(path, "must be an RFC 3339 time with a zone"))
    return None
