"""Statistics computed in parts: merged, they are those of all rows at once, to the byte."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import parts
from learners.contract import (
    Citation,
    Evidence,
    InParts,
    LearnerError,
    Outcome,
    Parted,
    Run,
    Scope,
    run_checks,
)
from learners.path_statistics import DEFAULT_DIMENSIONS, DIMENSIONS, EXAMPLES, LEARNER
from learners.statistics import Pinned, run_ids
from schemas.observations import SCHEMA
from tessera.canonical import dumps

SPEC = Citation("learn.specs", "path_statistics:wilson-grouping:v1", 1, "0" * 64)
START = datetime(2026, 1, 1, tzinfo=UTC)
WORDS = (None, "a", "b", "\ufb01", "\U0001f600", "Disk 7 full", "disk 8  FULL")
NUMBERS = (None, 0.0, -0.0, 0.1, 0.2, 0.3, 1e12, float("nan"))


def rows_of(drawn: Sequence[Any]) -> pl.DataFrame:
    """Rows of the observations table, cursors with gaps; what was not drawn is null."""
    made = [dict.fromkeys(SCHEMA) | values for values in drawn]
    for number, row in enumerate(made, 1):
        row |= {"cursor": number * 3, "run_id": f"run-{number}", "claimed_at": START, "queue": "q"}
        held = row.pop("held")
        row["submitted_at"] = None if held is None else START + timedelta(microseconds=held)
    return pl.DataFrame(
        [pl.Series(name, [row[name] for row in made], dtype=dtype) for name, dtype in SCHEMA.items()]
    )


word, number = st.sampled_from(WORDS), st.sampled_from(NUMBERS)
draw = st.fixed_dictionaries({"dimension": st.sampled_from(["shim", "lesson"]), "arm": st.just("x")})
row = st.fixed_dictionaries(
    {
        "kind": st.sampled_from(["verb.a", "verb.b"]),
        "result": st.sampled_from(["accepted", "failed"]),
        "retry": st.booleans(),
        "private": st.booleans(),
        "model_reported": st.booleans(),
        "origin": st.sampled_from(["live", "imported"]),
        "task_id": st.sampled_from(["t1", "t2", "t3"]),
        "worker_outcome": st.sampled_from([None, "blocked", "succeeded"]),
        "went_wrong": st.none() | st.lists(word, max_size=3),
        "tags": st.lists(st.sampled_from(["x", "y"]), unique=True),
        "draws": st.lists(draw, max_size=1),
        "held": st.sampled_from([None, 0, 1, 3, 1_500_000]),
        "total_tokens": st.sampled_from([None, 1, 2, 10**12]),
        "input_tokens": st.sampled_from([None, 5]),
        "output_tokens": st.sampled_from([None, 7]),
        "reported_duration_seconds": number,
        "cost_amount": number,
        "cost_currency": st.sampled_from([None, "EUR", "USD"]),
        **dict.fromkeys(("template", "phrasing", "shim", "method", "model", "failure_text"), word),
    }
)
frames = st.lists(row, max_size=24).map(rows_of)
dimensions = st.lists(st.sampled_from(DIMENSIONS), unique=True, max_size=3)


def cut(frame: pl.DataFrame, at: Sequence[int]) -> list[pl.DataFrame]:
    """The frame in parts, some maybe empty."""
    ends = [0, *sorted(place % (frame.height + 1) for place in at), frame.height]
    return [frame.slice(start, end - start) for start, end in pairwise(ends)]


def in_parts(
    frame: pl.DataFrame, cuts: Sequence[pl.DataFrame], options: dict[str, Any], chance: Any
) -> Outcome:
    """The outcome of parts that are merged in any order, and by twos or threes before."""
    run = Run(SPEC, Scope("q"), options, surface={"queue": "q"})
    pinned = Pinned()
    for rows in cuts:
        kept = run.countable(rows)
        pinned.add(kept.height, run_ids(kept["run_id"]))
    partials = [LEARNER.partial(run, run.countable(rows)) for rows in cuts]
    chance.shuffle(partials)
    while len(partials) > 1 and chance.random() < 0.7:
        some = [partials.pop() for _ in range(min(len(partials), chance.randint(2, 3)))]
        partials.insert(chance.randrange(len(partials) + 1), parts.merge(some, EXAMPLES))
    whole = parts.merge(partials, EXAMPLES)
    upto = str(frame["cursor"].max() or 0)
    evidence = Parted(frame.height, "0", upto, lambda columns: (rows.select(columns) for rows in cuts))
    return LEARNER.merged(run, evidence, pinned, whole)


@settings(max_examples=40, deadline=None)
@given(frames, dimensions, st.lists(st.integers(0, 24), max_size=6), st.randoms(use_true_random=False))
def test_any_parts_in_any_order_give_the_bytes_of_all_rows_at_once(
    frame: pl.DataFrame, by: list[str], at: list[int], chance: random.Random
) -> None:
    options = {"dimensions": by}
    run = Run(SPEC, Scope("q"), options, surface={"queue": "q"})

    merged = in_parts(frame, cut(frame, at), options, chance)

    at_once = LEARNER.learn(run, Evidence(frame))
    assert [dumps(noun.body) for noun in merged.nouns] == [dumps(noun.body) for noun in at_once.nouns]
    assert all(result.passed for result in run_checks(LEARNER, merged))


@settings(max_examples=20, deadline=None)
@given(frames, st.lists(st.integers(0, 24), max_size=4), st.randoms(use_true_random=False))
def test_merging_is_associative_and_takes_any_order(
    frame: pl.DataFrame, at: list[int], chance: random.Random
) -> None:
    run = Run(SPEC, Scope("q"), {})
    partials = [LEARNER.partial(run, rows) for rows in cut(frame, at)]
    whole = LEARNER.partial(run, frame)

    first, rest = partials[:1], partials[1:]
    nested = parts.merge([*first, parts.merge(rest, EXAMPLES)], EXAMPLES) if rest else whole
    shuffled = parts.merge(chance.sample(partials, len(partials)), EXAMPLES)

    for merged in (nested, shuffled, parts.merge([whole], EXAMPLES)):
        assert merged.groups.equals(whole.groups)
        assert merged.examples.sort("cursor").equals(whole.examples.sort("cursor"))
        assert all(merged.tallies[name].equals(whole.tallies[name]) for name in parts.TALLIES)


@pytest.mark.parametrize(("values", "median"), [((1, 2, 2, 9), 2.0), ((1, 2, 3, 9), 2.5), ((7,), 7.0)])
def test_a_median_is_counted_to_across_the_ranges_of_a_tally(values: tuple[int, ...], median: float) -> None:
    """As when the tallies of many parts are read a range of values at a time."""

    class InRanges(parts.Partial):
        def ranges(self, name: str) -> list[pl.DataFrame]:
            """Each distinct value is a range of its own."""
            return self.tallies[name].partition_by("value", maintain_order=True) or [self.tallies[name]]

    said = {
        "result": "accepted",
        "retry": False,
        "model_reported": False,
        "origin": "live",
        "kind": "k",
        "held": None,
    }
    frame = rows_of([{**said, "task_id": f"t{value}", "total_tokens": value} for value in values])
    whole = LEARNER.partial(Run(SPEC, Scope("q"), {}), frame)

    (group,) = parts.figures(InRanges(whole.groups, whole.examples, whole.tallies))

    assert group["median_total_tokens"] == median
    assert (group["attempts"], group["distinct_tasks"]) == (len(values), len(set(values)))


def test_a_part_is_no_larger_for_rows_that_say_the_same() -> None:
    said = {
        "result": "accepted",
        "retry": False,
        "model_reported": False,
        "origin": "live",
        "kind": "k",
        "held": 7,
    }
    run = Run(SPEC, Scope("q"), {})

    sizes = [
        {
            name: tally.height
            for name, tally in LEARNER.partial(run, rows_of([{**said, "task_id": "t"}] * n)).tallies.items()
        }
        for n in (1, 500)
    ]

    assert sizes[0] == sizes[1]


def test_no_group_is_written_in_fewer_bytes_than_are_reckoned_with() -> None:
    (least,) = LEARNER.learn(Run(SPEC, Scope("q"), {"dimensions": []}), Evidence(rows_of([]))).nouns

    assert len(dumps(least.body["groups"][0])) >= LEARNER.group_bytes


def test_a_window_in_parts_has_no_frame_to_be_read_by_mistake() -> None:
    assert isinstance(LEARNER, InParts)
    with pytest.raises(LearnerError, match="7 observations was read in parts"):
        _ = Parted(7, "0", "9", lambda columns: iter(())).frame
    assert set(DEFAULT_DIMENSIONS) <= set(DIMENSIONS)
