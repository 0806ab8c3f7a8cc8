"""What every learned noun's body begins with, and how its lake table begins.

Promises that bodies of all learners share these fields (contract, section 7), and that each flattened row
says which record version it came from. Leaves out what one learner's noun holds: that is in its own file
here.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pandera.polars as pa
import polars as pl

from schemas.rules import Rule, choice, free, integer, mapping, name, text
from tessera.errors import Fault

USE_POLICY = "excluded_by_default"

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


def nullable(rule: Rule) -> Rule:
    """Null, or what `rule` says."""

    def judged(value: Any, path: str) -> Iterator[Fault]:
        if value is not None:
            yield from rule(value, path)

    return judged


def cursor_rule(value: Any, path: str) -> Iterator[Fault]:
    """A cursor: a decimal integer under 2^63 written as a string."""
    if not isinstance(value, str):
        yield Fault(path, "must be a string")
    elif not (value.isascii() and value.isdigit() and len(value) <= 19 and int(value) < 2**63):
        yield Fault(path, "must be a decimal integer under 2^63 written as a string")


def sha256_rule(value: Any, path: str) -> Iterator[Fault]:
    """A digest: 64 lowercase hex digits."""
    if not isinstance(value, str):
        yield Fault(path, "must be a string")
    elif len(value) != 64 or not set(value) <= set("0123456789abcdef"):
        yield Fault(path, "must be 64 lowercase hex digits")


CITATION = mapping({"store": name(), "key": text(512), "version": integer(1)})
WINDOW = mapping({"after": cursor_rule, "upto": cursor_rule, "count": integer(0)})

COMMON: dict[str, Rule] = {
    "schema": text(128),
    "learner": name(),
    "strategy": name(),
    "version": integer(1),
    "spec": mapping({"store": name(), "key": text(512), "version": integer(1), "sha256": sha256_rule}),
    "scope": mapping({"queue": name()}, {"kind": text(64)}),
    "options": free,
    "use_policy": mapping({"training_corpus": choice(USE_POLICY)}),
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
