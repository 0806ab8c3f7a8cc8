"""``routing_weights:beta-bandit:v1``: the share of a category's work that each arm of a dimension should get.

Promises one noun a scope and dimension over the newest window, the same bytes for the same runs (contract,
section 10). An arm under the minimum evidence keeps the prior's score, so a new one never starves. Weights
advise and grant nothing. Leaves out choosing (`tessera.advice`) and whether they would do better
(`learners.evaluation`).
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl

from learners.attempts import SOURCES, counted
from learners.catalog import ROUTING_WEIGHTS
from learners.contract import (
    Check,
    Evidence,
    LearnerError,
    Noun,
    OptionsError,
    Outcome,
    Plain,
    Reading,
    Run,
    Scope,
    common_fields,
    output_key,
)
from learners.posterior import EPSILON, MIN_EVIDENCE, Integers, posterior
from learners.routing_weights_checks import CHECKS
from learners.statistics import runs_sha256, text_order
from schemas.routing_weights import BODY_SCHEMA, CATEGORY, MAX_ARM_BYTES, options_faults
from tessera.errors import Fault

NAME = "routing_weights:beta-bandit:v1"
OBSERVATIONAL = (
    "Not every attempt followed a draw: arms saw different inputs, workers and times, so differences between "
    "them are associations, not causal effects."
)
RANDOMIZED = "Every attempt followed a draw by the server: arms differ by chance alone."
NO_ATTEMPTS = "There were no attempts in the window."


@dataclass(frozen=True, slots=True)
class Options:
    """The options, complete. `by` is `category` or `template`; `last` counts observations; `share` is 0 to
    1.
    """

    dimension: str
    by: str = "category"
    epsilon: float = EPSILON
    min_evidence: int = MIN_EVIDENCE
    last: int = 1_000_000
    known_arms: tuple[str, ...] = ()
    baseline: str | None = None
    share: float = 0.0

    @classmethod
    def of(cls, given: Any) -> "Options":
        """Options from a JSON value. Raises OptionsError naming each fault by its path under `options`."""
        faults = options_faults(given)
        if faults:
            raise OptionsError(NAME, faults)
        options = dict(given)
        reserve = options.pop("baseline", None)
        if reserve:
            options |= {"baseline": reserve["arm"], "share": reserve["share"]}
        options["known_arms"] = tuple(options.get("known_arms", ()))
        options |= {name: int(options[name]) for name in ("min_evidence", "last") if name in options}
        return cls(**options)

    @property
    def arms(self) -> list[str]:
        """The arms that every category knows, seen or not."""
        return list(dict.fromkeys([*self.known_arms, *([] if self.baseline is None else [self.baseline])]))


class RoutingWeights(Plain):
    """The learner; its options are those of `Options`, `baseline` being `{arm, share}`."""

    spec: Mapping[str, Any] = ROUTING_WEIGHTS
    checks: Sequence[Check] = CHECKS

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """What is wrong with the options."""
        return options_faults(options, root)

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The weights noun itself, one a scope and dimension."""
        return output_key(self.spec, scope, options["dimension"])

    def reading(self, run: Run) -> Reading:
        """The newest `last` observations, and the columns that this run looks at."""
        options = Options.of(run.options)
        columns = {"cursor", "run_id", "private", "result", "draws", *SOURCES[options.dimension]}
        columns.add("kind" if options.by == "category" else "template")
        return Reading(last=options.last, columns=tuple(sorted(columns)))

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """One noun over the evidence; no observations give a valid one without categories."""
        options = Options.of(run.options)
        rows = run.counted(evidence)
        attempts = counted(rows, options.dimension, options.by)
        label, reason = _label(attempts)
        store, key = self.state_key(run.scope, run.options)
        body = {
            **common_fields(BODY_SCHEMA, self, run),
            "cursor": evidence.upto,
            "dimension": options.dimension,
            "window": {"after": evidence.after, "upto": evidence.upto, "count": rows.height},
            "runs_sha256": runs_sha256(rows),
            "label": label,
            "label_reason": reason,
            "epsilon": options.epsilon,
            "min_evidence": options.min_evidence,
            "baseline": None
            if options.baseline is None
            else {"arm": options.baseline, "share": options.share},
            "categories": _categories(attempts, arm_table(attempts, options)),
        }
        return Outcome(run, evidence, (Noun(store, key, CATEGORY, body),))


LEARNER = RoutingWeights()


def arm_table(attempts: pl.DataFrame, options: Options) -> pl.DataFrame:
    """One row a category and arm, with counts, posterior, score and weight: the columns of the noun's arms.

    `attempts` has `category` and `arm` (text or categorical), `accepted` and `randomized` (Booleans).
    Sorted by UTF-16 code units, null first. Raises LearnerError for an arm's label that no door lets in.
    """
    category, categories = _coded(attempts["category"])
    arm, arms = _coded(attempts["arm"], [None, *options.arms])
    _refuse_long(arms)
    # cells are numbered in the order of the noun; code 0 of an arm is null, which is no arm
    cell = category * len(arms) + arm
    kept = (cell, cell[attempts["accepted"].to_numpy()], cell[attempts["randomized"].to_numpy()])
    known = np.flatnonzero(arms.is_in(options.arms).to_numpy())
    cells, counts = _tallied(kept, (np.arange(len(categories))[:, None] * len(arms) + known).reshape(-1))
    real = cells % len(arms) != 0
    cells, (tried, accepted, randomized) = cells[real], (count[real] for count in counts)
    table = pl.DataFrame(
        {
            "category": categories.gather(cells // len(arms)),
            "arm": arms.gather(cells % len(arms)),
            "accepted": accepted,
            "attempts": tried,
            "randomized": randomized,
        }
    )
    return posterior(table, options.epsilon, options.min_evidence, options.baseline, options.share)


def _coded(texts: pl.Series, more: Sequence[str | None] = ()) -> tuple[Integers, pl.Series]:
    """Each text's place among the distinct ones, and those, sorted, null first; `more` are among them."""
    encoded = texts if texts.dtype == pl.Categorical else texts.cast(pl.Categorical)
    codes = encoded.to_physical().cast(pl.Int64).fill_null(-1).to_numpy()  # which count from 0: −1 is null
    found = np.flatnonzero(np.bincount(codes + 1))
    met = encoded.gather(_last_place(codes + 1)[found]).cast(pl.String)
    missing = pl.Series(list(more), dtype=pl.String).unique()
    labels = pl.concat([met, missing.filter(~missing.is_in(met.implode(), nulls_equal=True))])
    order = text_order(labels).arg_sort(nulls_last=False).to_numpy()
    rank = np.empty(len(order), dtype=np.int64)
    rank[order] = np.arange(len(order))
    lookup = np.zeros(int(found.max(initial=0)) + 1, dtype=np.int64)
    lookup[found] = rank[: len(found)]
    return lookup[codes + 1], labels.gather(order)


def _last_place(codes: Integers) -> Integers:
    """Where each code from 0 on comes last; whatever for one that does not come."""
    place = np.zeros(int(codes.max(initial=0)) + 1, dtype=np.int64)
    place[codes] = np.arange(len(codes))
    return place


def _tallied(kept: Sequence[Integers], more: Integers) -> tuple[Integers, list[Integers]]:
    """The distinct cells of the first array and of `more`, in order, and how often each array holds them."""
    last = max(int(kept[0].max(initial=0)), int(more.max(initial=0)))
    if last <= 4 * len(kept[0]) + 1_000_000:
        counts = [np.bincount(cell, minlength=last + 1) for cell in kept]
        there = counts[0] > 0
        there[more] = True
        cells = np.flatnonzero(there)
        return cells, [count[cells] for count in counts]
    cells = np.unique(np.concatenate([kept[0], more]))
    return cells, [np.bincount(np.searchsorted(cells, cell), minlength=len(cells)) for cell in kept]


def _label(attempts: pl.DataFrame) -> tuple[str, str]:
    if not attempts.height:
        return "observational", NO_ATTEMPTS
    return ("randomized", RANDOMIZED) if attempts["randomized"].all() else ("observational", OBSERVATIONAL)


def _refuse_long(arms: pl.Series) -> None:
    too_long = arms.filter(arms.str.len_bytes() > MAX_ARM_BYTES)
    if len(too_long):
        raise LearnerError(
            f"an observation names an arm of {len(too_long[0].encode())} bytes, {too_long[0][:40]!r}…, where "
            f"{MAX_ARM_BYTES} is the most that a door lets in: rebuild the lake"
        )


_ARM_FIELDS = (
    "arm", "accepted", "failed", "attempts", "randomized", "alpha", "beta",
    "mean", "interval_low", "interval_high", "score", "weight",
)  # fmt: skip


def _categories(attempts: pl.DataFrame, arms: pl.DataFrame) -> list[dict[str, Any]]:
    """The noun's categories, sorted, null first; one where no arm was reported has none."""
    silent = pl.col("arm").is_null()
    unreported = attempts.group_by("category").agg(
        (silent & pl.col("accepted")).sum().cast(pl.Int64).alias("accepted"),
        (silent & ~pl.col("accepted")).sum().cast(pl.Int64).alias("failed"),
    )
    unreported = unreported.sort(text_order(unreported["category"]), nulls_last=False)
    of_category: dict[str | None, list[dict[str, Any]]] = {}
    for category, arm in zip(arms["category"].to_list(), arms.select(_ARM_FIELDS).to_dicts(), strict=True):
        of_category.setdefault(category, []).append(arm)
    return [
        {
            "category": category,
            "arms": of_category.get(category, []),
            "unreported": {"accepted": accepted, "failed": failed},
        }
        for category, accepted, failed in unreported.iter_rows()
    ]
