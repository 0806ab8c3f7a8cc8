"""What every learned noun's body begins with, and how its lake table begins.

Promises that bodies of all learners share these fields (contract, section 7), and that each flattened row
says which record version it came from. Leaves out what one learner's noun holds: that is in its own file
here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandera.polars as pa
import polars as pl

from schemas.rules import free, integer, mapping, name
from tessera.checks import Check, text
from tessera.errors import Fault
from tessera.observations import TRAINING_CORPUS

PREFIX: dict[str, Any] = {
    "queue": pl.String(),
    "kind": pl.String(),
    "spec": pl.String(),
    "key": pl.String(),
    "version": pl.Int64(),
    "sha256": pl.String(),
    "cursor": pl.Int64(),
    "use_policy": pl.String(),
}
"""The first columns of a table of learned nouns: scope, `learner:strategy:vN`, the record version, its
cursor.
"""


def between(low: float, high: float) -> Check:
    """A finite number in low..high; a boolean is none."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        if isinstance(value, bool) or not isinstance(value, int | float):
            yield Fault(path, "must be a number")
        elif not low <= value <= high:  # which a NaN is not
            yield Fault(path, f"must be between {low} and {high}")

    return check


def choice(*choices: str) -> Check:
    """One of the texts."""
    return text(128, choices=choices)


def _is_cursor(value: str) -> bool:
    return value.isascii() and value.isdigit() and len(value) <= 19 and int(value) < 2**63


def _is_sha256(value: str) -> bool:
    return len(value) == 64 and set(value) <= set("0123456789abcdef")


CURSOR = text(64, form=(_is_cursor, "must be a decimal integer under 2^63 written as a string"))
SHA256 = text(64, form=(_is_sha256, "must be 64 lowercase hex digits"))
CITATION = mapping({"store": name, "key": text(512), "version": integer(1)})
WINDOW = mapping({"after": CURSOR, "upto": CURSOR, "count": integer(0)})

COMMON: dict[str, Check] = {
    "schema": text(128),
    "learner": name,
    "strategy": name,
    "version": integer(1),
    "spec": mapping({"store": name, "key": text(512), "version": integer(1), "sha256": SHA256}),
    "scope": mapping({"queue": name}, {"kind": text(64)}),
    "options": free,
    "use_policy": mapping({"training_corpus": choice(TRAINING_CORPUS)}),
}
"""The common fields of a body and their rules."""


def prefix(queue: str, version: int, sha256: str, key: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """The first columns' values for one published version of a noun."""
    return {
        "queue": queue,
        "kind": body["scope"].get("kind"),
        "spec": f"{body['learner']}:{body['strategy']}:v{body['version']}",
        "key": key,
        "version": version,
        "sha256": sha256,
        "cursor": int(body["cursor"]),
        "use_policy": body["use_policy"]["training_corpus"],
    }


def model(
    title: str,
    columns: Mapping[str, Any],
    required: tuple[str, ...],
    rules: Mapping[str, pl.Expr] | None = None,
) -> pa.DataFrameSchema:
    """A strict, ordered pandera model of `columns`; `rules` are expressions by column, true or null where
    good.
    """

    def check(expression: pl.Expr) -> Callable[[pa.PolarsData], pl.LazyFrame]:
        return lambda data: data.lazyframe.select(expression.fill_null(True))

    return pa.DataFrameSchema(
        {
            column: pa.Column(
                dtype,
                checks=[pa.Check(check(rules[column]), name=f"{column} is in bounds")]
                if rules and column in rules
                else [],
                nullable=column not in required,
            )
            for column, dtype in columns.items()
        },
        strict=True,
        ordered=True,
        name=title,
    )
