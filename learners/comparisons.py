"""What scorecards, weights and evaluations say about a group and the rest of its category.

Promises (contract, section 11) one comparison for each category, dimension, value and claim that the
evidence carries: at least 20 attempts on each side, 95% intervals apart. Recurring failure reasons are
compared by the same rule, counting unlisted ones against the claim. Leaves out wording and choosing:
`learners.lesson_proposer`.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from learners.posterior import probability_above
from learners.wilson import wilson
from schemas.evaluation import BODY_SCHEMA as EVALUATION
from schemas.path_scorecard import BODY_SCHEMA as SCORECARD
from schemas.routing_weights import BODY_SCHEMA as WEIGHTS
from tessera.canonical import digest
from tessera.statistics import MOST_FREQUENT

LEAST_ATTEMPTS = 20
MORE, LESS, FAILS, BETTER = "accepted more often", "accepted less often", "fails", "better than what stood"
OPPOSITE = {MORE: LESS, LESS: MORE}

Counts = tuple[float, float]
"""Accepted (or otherwise counted) of attempts."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """One claim and what it rests on: the counts of both sides, and the record that has them.

    `category` is null for a whole queue. `claim` is `MORE`, `LESS`, `BETTER`, or `FAILS` and the reason.
    """

    category: str | None
    dimension: str
    value: str
    claim: str
    group: Counts
    rest: Counts
    label: str
    record: Mapping[str, Any]

    @property
    def key(self) -> str:
        """The lesson's key."""
        return key_of(self.category, self.dimension, self.value, self.claim)

    @property
    def opposite(self) -> str | None:
        """The key of the lesson that cannot stand beside this one."""
        if self.claim not in OPPOSITE:
            return None
        return key_of(self.category, self.dimension, self.value, OPPOSITE[self.claim])

    @property
    def score(self) -> float:
        """P(group > rest), for a warning that it is accepted less often P(group < rest)."""
        above = probability_above(self.group, self.rest)
        return 1 - above if self.claim == LESS else above

    @property
    def gap(self) -> float:
        """How far the two 95% intervals lie apart."""
        low, high = (self.rest, self.group) if self.claim == LESS else (self.group, self.rest)
        return interval(low)[0] - interval(high)[1]


def key_of(category: str | None, dimension: str, value: str, claim: str) -> str:
    """A lesson's key: the first 16 hex digits of the digest of what it is about."""
    return digest({"category": category, "dimension": dimension, "value": value, "claim": claim})[:16]


def interval(counts: Counts) -> tuple[float, float]:
    """The 95% Wilson interval, 0 to 1 of nothing; counts of a weighted estimate are rounded to whole ones."""
    low, high = wilson(round(counts[0]), round(counts[1]))
    return (0.0, 1.0) if low is None or high is None else (low, high)


def comparisons(records: Sequence[Mapping[str, Any]]) -> list[Comparison]:
    """Every claim that the records carry, one a key where two records make it: the better evidence first.

    Randomized before observational, then the newest record, then the most attempts. Of two claims that
    contradict, the one with the better evidence is kept.
    """
    readers = {SCORECARD: _scorecard, WEIGHTS: _weights, EVALUATION: _evaluation}
    found = [
        one
        for record in records
        if record["body"].get("schema") in readers
        for one in readers[record["body"]["schema"]](record)
        if _holds(one)
    ]
    found.sort(key=_rank)
    kept: dict[str, Comparison] = {}
    for one in found:
        if one.key not in kept and one.opposite not in kept:
            kept[one.key] = one
    return list(kept.values())


def _rank(one: Comparison) -> tuple[Any, ...]:
    return (
        one.label != "randomized",
        -int(one.record["body"]["cursor"]),
        -one.group[1],
        one.key,
        one.record["key"],
    )


def _holds(one: Comparison) -> bool:
    return min(one.group[1], one.rest[1]) >= LEAST_ATTEMPTS and one.gap > 0


def _acceptance(
    record: Mapping[str, Any], category: str, dimension: str, counts: Mapping[str | None, Counts], label: str
) -> Iterator[Comparison]:
    """Each known value against the rest, both ways."""
    accepted, attempts = (sum(side) for side in zip(*counts.values(), strict=True))
    for value, group in counts.items():
        if value is None:
            continue
        rest = (accepted - group[0], attempts - group[1])
        for claim in (MORE, LESS):
            yield Comparison(category, dimension, value, claim, group, rest, label, record)


def _scorecard(record: Mapping[str, Any]) -> Iterator[Comparison]:
    body = record["body"]
    names = [name for name in body["dimensions"] if name not in ("category", "queue")]
    by_category: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for group in body["groups"]:
        category = group["dimensions"].get("category", body["scope"].get("kind"))
        if category is not None:
            by_category[category].append(group)
    for category, groups in by_category.items():
        for dimension in names:
            counts: dict[str | None, Counts] = defaultdict(lambda: (0, 0))
            for group in groups:
                value = group["dimensions"][dimension]
                counts[value] = (
                    counts[value][0] + group["accepted"],
                    counts[value][1] + group["attempts"],
                )
            yield from _acceptance(record, category, dimension, counts, body["label"])
            yield from _failures(record, category, dimension, groups)


@dataclass(slots=True)
class _Reasons:
    """How often reasons came up in the groups of one value: at least, and at most."""

    attempts: int = 0
    unlisted: int = 0
    least: Counter[str] = field(default_factory=Counter)
    above: Counter[str] = field(default_factory=Counter)

    def add(self, group: Mapping[str, Any]) -> None:
        listed = {entry["text"]: entry["count"] for entry in group["failure_reasons"]}
        # a full list may leave out reasons that came up as often as its last
        bound = min(listed.values()) if len(listed) >= MOST_FREQUENT else 0
        self.attempts += group["attempts"]
        self.unlisted += bound
        self.least.update(listed)
        self.above.update({reason: count - bound for reason, count in listed.items()})

    def most(self, reason: str) -> int:
        return self.unlisted + self.above[reason]


def _failures(
    record: Mapping[str, Any], category: str, dimension: str, groups: Sequence[Mapping[str, Any]]
) -> Iterator[Comparison]:
    """Each failure reason of each value: counted in the group where it is listed, in the rest as often as
    may be.
    """
    of_value: dict[str | None, _Reasons] = defaultdict(_Reasons)
    for group in groups:
        of_value[group["dimensions"][dimension]].add(group)
    attempts = sum(reasons.attempts for reasons in of_value.values())
    for reason in sorted({reason for reasons in of_value.values() for reason in reasons.least}):
        most = sum(reasons.most(reason) for reasons in of_value.values())
        for value, reasons in of_value.items():
            if value is None or not reasons.least[reason]:
                continue
            inside = (reasons.least[reason], reasons.attempts)
            rest = (most - reasons.most(reason), attempts - reasons.attempts)
            label = record["body"]["label"]
            yield Comparison(category, dimension, value, f"{FAILS}: {reason}", inside, rest, label, record)


def _weights(record: Mapping[str, Any]) -> Iterator[Comparison]:
    body = record["body"]
    for category in body["categories"]:
        if category["category"] is None:
            continue
        silent = category["unreported"]
        counts: dict[str | None, Counts] = {None: (silent["accepted"], silent["accepted"] + silent["failed"])}
        counts |= {arm["arm"]: (arm["accepted"], arm["attempts"]) for arm in category["arms"]}
        yield from _acceptance(record, category["category"], body["dimension"], counts, body["label"])


def _evaluation(record: Mapping[str, Any]) -> Iterator[Comparison]:
    """A candidate judged better, each side counted by its effective sample size."""
    body = record["body"]
    if body["verdict"] != "better" or "lesson" in body or body["candidate"] is None:
        return
    sides = []
    for side in ("candidate", "baseline"):
        share = min(max(body["estimates"]["dr"][side]["estimate"], 0.0), 1.0)
        size = float(body["effective_sample_size"][side])
        sides.append((share * size, size))
    kind = body["scope"].get("kind")
    value = body["candidate"]["key"]
    yield Comparison(kind, body["dimension"], value, BETTER, sides[0], sides[1], "randomized", record)
