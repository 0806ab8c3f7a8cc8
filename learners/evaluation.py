"""``evaluation:off-policy:v1``: before weights move, would they have done better?

Promises (contract, section 10) that a candidate is judged only on draws captured after the runs it was
learned from, and that what stands is carried from version to version; lessons are judged by the draws that
held them back. Leaves out moving anything: a verdict is advice to whoever chooses.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from learners import candidates
from learners.attempts import SOURCES
from learners.catalog import EVALUATION
from learners.contract import (
    Check,
    Evidence,
    LearnerError,
    Noun,
    Outcome,
    Reading,
    Run,
    Scope,
    Wanted,
    common_fields,
    output_key,
)
from learners.evaluation_checks import CHECKS
from learners.off_policy import ERROR, Floats, alpha_of, compared, supported
from learners.policies import Rows, all_mass_to, mass, rows_of
from learners.statistics import runs_sha256
from learners.wilson import wilson
from schemas.evaluation import BODY_SCHEMA, CATEGORY, LESSON, MAX_CITED, options_faults
from tessera.advice.lesson_words import ALL
from tessera.canonical import utf16_key
from tessera.errors import Fault

LEAST_EVIDENCE = 100
CITED_REASON = (
    "Who followed which advice was not drawn: runs that cite a version differ in more than the version, so "
    "these figures are associations, not causal effects."
)
_COLUMNS = ("cursor", "run_id", "kind", "template", "private", "fence", "lapsed", "result", "draws", "advice")


class Evaluation:
    """The learner. Options: `dimension`; `strategy`, a shadow's, to judge that one instead; `last`,
    observations.
    """

    spec: Mapping[str, Any] = EVALUATION
    checks: Sequence[Check] = CHECKS

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """What is wrong with the options."""
        return options_faults(options, root)

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The evaluation itself, a shadow's apart; the lessons' own nouns hang below the one of all
        lessons.
        """
        shadow = [options["strategy"]] if "strategy" in options else []
        return output_key(self.spec, scope, options["dimension"], *shadow)

    def reading(self, run: Run) -> Reading:
        """The newest `last` observations: which of them are rows depends on the candidate."""
        columns = (*_COLUMNS, *SOURCES.get(run.options["dimension"], ()))
        return Reading(last=int(run.options.get("last", 1_000_000)), columns=tuple(sorted(columns)))

    def wanted(self, run: Run) -> Sequence[Wanted]:
        """The newest noun that may be judged, the pinned versions of candidate and standing, and of lessons
        the nouns that the run writes again.
        """
        state = candidates.previous(run) or {}
        pinned = [state[who] for who in ("candidate", "standing") if state.get(who)]
        store, key = self.state_key(run.scope, run.options)
        again = [Wanted(store, prefix=f"{key}:")] if run.options["dimension"] == LESSON else []
        return [
            *(Wanted(store, key) for store, key in candidates.nouns_of(run)),
            *(Wanted(cited["store"], cited["key"], cited["version"]) for cited in pinned),
            *again,
        ]

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """One noun; for lessons one for each that stands, and the state, which lists all that were judged."""
        counted = run.counted(evidence)
        store, key = self.state_key(run.scope, run.options)
        if run.options["dimension"] != LESSON:
            return Outcome(
                run, evidence, (Noun(store, key, CATEGORY, self._weights(run, evidence, counted)),)
            )
        standing = candidates.standing_lessons(run)
        judged = {
            name: self._lesson(run, evidence, counted, name)
            for name in candidates.lessons_to_judge(run, counted, standing)
        }
        nouns = [
            Noun(store, f"{key}:{name}", CATEGORY, body)
            for name, body in judged.items()
            if standing is None or name in standing
        ]
        state = self._body(run, evidence, None, None, 0)
        state |= self._figures(_no_rows(counted, LESSON), (), 0, run)
        state |= {"cited": cited(counted), "lessons": [_listed(name, body) for name, body in judged.items()]}
        return Outcome(run, evidence, (*nouns, Noun(store, key, CATEGORY, state)))

    def minimum_evidence(self, run: Run) -> int:
        """n₀: the spec's minimum evidence, at least 100, and never changed once the noun exists."""
        if run.state:
            return int(run.state["body"]["minimum_evidence"])
        return max(LEAST_EVIDENCE, int(self.spec["evaluation"]["minimum_evidence"]))

    def _weights(self, run: Run, evidence: Evidence, counted: pl.DataFrame) -> dict[str, Any]:
        dimension = run.options["dimension"]
        candidate, number = candidates.next_candidate(run, self.minimum_evidence(run))
        baseline = candidates.standing(run)
        body = self._body(run, evidence, candidate, baseline, number) | {"cited": cited(counted)}
        if candidate is None:
            return body | self._figures(_no_rows(counted, dimension), (), number, run)
        trial = candidates.body_of(run, candidate)
        other = None if baseline is None else candidates.body_of(run, baseline)
        for one in (trial, *([] if other is None else [other])):
            if one["dimension"] != dimension:
                raise LearnerError(f"weights for {one['dimension']} cannot be judged on draws of {dimension}")
            body["window"]["after"] = str(max(int(body["window"]["after"]), int(one["window"]["upto"])))
        rows = rows_of(
            counted,
            dimension,
            after=int(body["window"]["after"]),
            by=trial["options"].get("by", "category"),
        )
        body |= self._figures(rows, (mass(rows, trial), mass(rows, other)), number, run)
        body["window"]["count"] = body["rows"]
        return body | ({"standing": candidate} if body["verdict"] == "better" else {})

    def _lesson(self, run: Run, evidence: Evidence, counted: pl.DataFrame, lesson: str) -> dict[str, Any]:
        """All lessons against this one held back, on the draws that offered its key."""
        rows = rows_of(counted, LESSON, offering=lesson)
        candidate = candidates.lessons_noun(run, lesson)
        body = self._body(run, evidence, candidate, None, 1) | {"lesson": lesson}
        body |= self._figures(rows, (all_mass_to(rows, ALL), all_mass_to(rows, lesson)), 1, run)
        body["window"]["count"] = body["rows"]
        won = body["verdict"] == "better"
        cites = cited(counted, None if candidate is None else candidate["key"])
        return body | {"standing": candidate if won else None, "compliance": None, "cited": cites}

    def _body(
        self, run: Run, evidence: Evidence, candidate: Any, baseline: Any, number: int
    ) -> dict[str, Any]:
        return {
            **common_fields(BODY_SCHEMA, self, run),
            "cursor": evidence.upto,
            "dimension": run.options["dimension"],
            "window": {"after": evidence.after, "upto": evidence.upto, "count": 0},
            "candidate": candidate,
            "baseline": baseline,
            "standing": baseline,
            "number": number,
            "minimum_evidence": self.minimum_evidence(run),
        }

    def _figures(self, rows: Rows, policies: tuple[Floats, ...], number: int, run: Run) -> dict[str, Any]:
        good = supported(rows.draws, *policies)
        kept = rows.keep(good)
        arms = good.repeat(rows.draws.sizes)
        candidate, baseline = [one[arms] for one in policies] or [kept.draws.weight, kept.draws.weight]
        alpha = alpha_of(number) if number else None
        return {
            "runs_sha256": runs_sha256(kept.frame),
            "alpha": alpha,
            "rows": len(kept.draws),
            "unsupported": len(rows.draws) - len(kept.draws),
            "compliance": kept.frame["followed"].mean(),
            **compared(kept.draws, candidate, baseline, alpha or ERROR, self.minimum_evidence(run)),
        }


LEARNER = Evaluation()


def _enough(body: Mapping[str, Any]) -> bool:
    """Whether a verdict other than `keep_baseline` could have come by now."""
    least = body["minimum_evidence"]
    return bool(body["rows"] >= least and min(body["effective_sample_size"].values()) >= least)


def _listed(lesson: str, body: Mapping[str, Any]) -> dict[str, Any]:
    return {"key": lesson, "enough": _enough(body), "rows": body["rows"], "verdict": body["verdict"]}


def _no_rows(observations: pl.DataFrame, dimension: str) -> Rows:
    return rows_of(observations.clear(), dimension)


def cited(observations: pl.DataFrame, key: str | None = None) -> dict[str, Any]:
    """Per cited record version (of one key, if given): attempts, accepted, Wilson interval. Observational.

    A run that cites a version twice counts once. The 256 versions cited last, in the order of store, key,
    version.
    """
    citing = (
        observations.lazy()
        .filter(pl.col("advice").list.len() > 0)
        .select("cursor", (pl.col("result") == "accepted").alias("accepted"), "advice")
        .explode("advice")
        .unnest("advice")
    )
    if key is not None:
        citing = citing.filter(pl.col("key") == key)
    names = ("store", "key", "record_version")
    counts = (
        citing.unique(["cursor", *names])
        .group_by(names)
        .agg(pl.len().alias("attempts"), pl.col("accepted").sum(), pl.col("cursor").max().alias("last"))
        .sort("last", *names, descending=[True, False, False, False])
        .head(MAX_CITED)
        .collect()
    )
    records = []
    for row in counts.iter_rows(named=True):
        low, high = wilson(row["accepted"], row["attempts"])
        records.append(
            {
                "store": row["store"],
                "key": row["key"],
                "version": row["record_version"],
                "attempts": row["attempts"],
                "accepted": row["accepted"],
                "interval_low": low,
                "interval_high": high,
            }
        )
    records.sort(key=lambda one: (utf16_key(one["store"]), utf16_key(one["key"]), one["version"]))
    return {"label": "observational", "label_reason": CITED_REASON, "records": records}
