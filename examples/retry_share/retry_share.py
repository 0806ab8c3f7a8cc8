"""``retries:share-of-runs:v1``: how many runs of each kind were retries. Another package's learner."""

import polars as pl

from learners.catalog import spec_body
from learners.contract import Check, Evidence, Noun, Outcome, Plain, Run, common_fields

SCHEMA, CATEGORY = "example.retry-share.v1", "noun.eval_run"


def more_retries_than_runs(outcome: Outcome) -> list[str]:
    """The kinds whose counts cannot be."""
    return [str(one) for one in outcome.nouns[0].body["kinds"] if not 0 <= one["retries"] <= one["runs"]]


class RetryShare(Plain):
    """One noun a scope; it takes no options."""

    spec = spec_body(
        "retries",
        "share-of-runs",
        status="implemented",
        writes=((SCHEMA, CATEGORY, "learn.outputs"),),
        trigger={"new_observations": 32},
        observations=100_000,
        evaluation=("no advice", "share of runs that are retries", "the same scope before and after", 100),
        verb={"category": "verb.benchmark_harness", "runner": "retry_share"},
    )
    checks = (Check("counts_can_be", "no kind has more retries than runs", more_retries_than_runs),)

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """Counts by kind over the newest runs."""
        counts = (
            run.counted(evidence)
            .group_by("kind")
            .agg(pl.len().alias("runs"), pl.col("retry").sum().alias("retries"))
        )
        fields = {"cursor": evidence.upto, "kinds": counts.sort("kind").to_dicts()}
        body = {**common_fields(SCHEMA, self, run), **fields}
        return Outcome(run, evidence, (Noun(*self.state_key(run.scope, run.options), CATEGORY, body),))


LEARNER = RetryShare()
