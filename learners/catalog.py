"""Every learner spec that the project ships: those that run, and those that are proposed.

Promises bodies that a spec noun can hold as they stand. `implemented` is said only of a learner whose code is
here; a proposed spec is a design that never runs. Leaves out third parties: their specs come with their code.
"""

from collections.abc import Mapping
from typing import Any

from schemas.specs import OUTPUTS, SPEC_SCHEMA, spec_key

OBSERVATION = "execution_observation"
"""The kind of the observations that the store has; what else a spec reads are nouns, by their schema."""


def spec_body(
    facet: str,
    strategy: str,
    *,
    status: str = "proposed",
    reads: tuple[str, ...] = (OBSERVATION,),
    writes: tuple[tuple[str, str, str], ...],
    trigger: Mapping[str, Any],
    observations: int,
    runtime_seconds: int = 600,
    output_bytes: int = 1 << 20,
    evaluation: tuple[str, str, str, int],
    visibility: str = "surface_only",
    verb: Mapping[str, Any],
) -> dict[str, Any]:
    """The body of a spec noun. ``writes`` are ``(schema, category, store)``, ``evaluation`` is ``(baseline,
    metric, method, minimum evidence)``; it is deterministic, so its budget has no model call.
    """
    baseline, metric, method, minimum_evidence = evaluation
    return {
        "schema": SPEC_SCHEMA,
        "learner": facet,
        "strategy": strategy,
        "version": 1,
        "status": status,
        "reads": list(reads),
        "writes": [
            {"schema": schema, "category": category, "store": store} for schema, category, store in writes
        ],
        "trigger": dict(trigger),
        "budget": {
            "observations": observations,
            "runtime_seconds": runtime_seconds,
            "output_bytes": output_bytes,
            "model_calls": 0,
        },
        "evaluation": {
            "baseline": baseline,
            "metric": metric,
            "method": method,
            "minimum_evidence": minimum_evidence,
            "keep_baseline_valid": True,
        },
        "consumers": {"visibility": visibility, "advice_only": True},
        "verb": dict(verb),
    }


_INGEST = {"category": "verb.ingest"}
_BENCHMARK = {"category": "verb.benchmark_harness"}
_NEWEST = {"new_observations": 32}

PATH_STATISTICS = spec_body(
    "path_statistics",
    "wilson-grouping",
    status="implemented",
    writes=(("tessera.path-scorecard.v1", "noun.eval_run", OUTPUTS),),
    trigger=_NEWEST,
    observations=1_000_000,
    output_bytes=8 << 20,
    evaluation=(
        "no scorecard: paths are chosen as before",
        "acceptance rate of runs that cite the scorecard",
        "compare runs that cite a version in learning.advice with runs of the same category that cite none",
        100,
    ),
    verb={**_BENCHMARK, "runner": "learners.path_statistics"},
)

MEMORY = spec_body(
    "memory",
    "minhash-lsh",
    status="implemented",
    writes=(
        ("tessera.memory-segment.v1", "noun.eval_run", OUTPUTS),
        ("tessera.memory-manifest.v1", "noun.eval_run", OUTPUTS),
        ("tessera.memory-head.v1", "noun.eval_run", OUTPUTS),
    ),
    trigger=_NEWEST,
    observations=2_000,
    output_bytes=16 << 20,
    evaluation=(
        "recall_execution, the store's own synchronous recall",
        "share of recalled runs that the next attempt could use, and how often it was then accepted",
        "recall the same held-out briefs by both, judged without knowing which found what",
        100,
    ),
    verb={**_INGEST, "runner": "learners.memory"},
)

ROUTING_WEIGHTS = spec_body(
    "routing_weights",
    "beta-bandit",
    status="implemented",
    writes=(("tessera.routing-weights.v1", "noun.reflex_procedure", OUTPUTS),),
    trigger=_NEWEST,
    observations=1_000_000,
    output_bytes=8 << 20,
    evaluation=(
        "uniform choice, or the weights version that stands",
        "acceptance rate",
        "off-policy estimates on randomized draws captured after both versions' windows",
        100,
    ),
    verb={**_BENCHMARK, "runner": "learners.routing_weights"},
)

EVALUATION = spec_body(
    "evaluation",
    "off-policy",
    status="implemented",
    reads=(OBSERVATION, "tessera.routing-weights.v1"),
    writes=(("tessera.evaluation.v1", "noun.eval_run", OUTPUTS),),
    trigger=_NEWEST,
    observations=1_000_000,
    evaluation=(
        "the on-policy mean of the policy that ran",
        "coverage of the intervals, and false verdicts under continuous peeking",
        "simulated policies of known value",
        100,
    ),
    verb={**_BENCHMARK, "runner": "learners.evaluation"},
)

LESSONS = spec_body(
    "lessons",
    "review-and-learn",
    status="implemented",
    reads=("tessera.path-scorecard.v1", "tessera.routing-weights.v1", "tessera.evaluation.v1"),
    writes=(("tessera.lessons.v1", "noun.reflex_procedure", "learn.memory"),),
    trigger=_NEWEST,
    observations=1_000_000,
    output_bytes=1 << 16,
    evaluation=(
        "no lessons",
        "acceptance rate of runs with the lesson against runs from which a draw held it back",
        "off-policy estimates on draws of the dimension lesson",
        100,
    ),
    verb={**_BENCHMARK, "runner": "learners.lessons"},
)

PHRASING = spec_body(
    "phrasing",
    "acceptance-by-phrasing",
    reads=(OBSERVATION, "tessera.path-scorecard.v1"),
    writes=(("tessera.phrasing-advice.v1", "noun.prompt_shim", OUTPUTS),),
    trigger={"on_demand": True},
    observations=100_000,
    evaluation=(
        "the current phrasing",
        "acceptance rate",
        "new wordings assigned in the shadow of the current one, by draw",
        100,
    ),
    verb=_BENCHMARK,
)

SEARCHABILITY = spec_body(
    "searchability",
    "findability",
    reads=("search_observation", OBSERVATION),
    writes=(("tessera.findability-proposals.v1", "noun.seed_hypothesis", OUTPUTS),),
    trigger={"on_demand": True},
    observations=100_000,
    evaluation=(
        "tags and descriptions as they are",
        "rank of the noun later used",
        "held-out queries, ranked with and without the proposals; search observations are not recorded yet",
        100,
    ),
    verb=_BENCHMARK,
)

SHIM = spec_body(
    "shim",
    "injection-uplift",
    writes=(("tessera.shim-scorecard.v1", "noun.prompt_shim", OUTPUTS),),
    trigger={"on_demand": True},
    observations=100_000,
    evaluation=(
        "runs without the shim",
        "difference of acceptance rates",
        "runs with and without the shim, matched within a template",
        100,
    ),
    verb=_BENCHMARK,
)

DECOMPOSITION = spec_body(
    "decomposition",
    "split-pattern",
    reads=(OBSERVATION, "task_graph_observation"),
    writes=(("tessera.split-patterns.v1", "noun.reflex_procedure", OUTPUTS),),
    trigger={"on_demand": True},
    observations=100_000,
    evaluation=(
        "the task undivided",
        "the parent's acceptance, its children's attempts and the wall time",
        "parents of one template, divided and not; task graph observations are not exposed yet",
        100,
    ),
    verb=_BENCHMARK,
)

PREFERENCE = spec_body(
    "preference",
    "pairwise-choice",
    reads=("choice_observation",),
    writes=(("tessera.preference-profile.v1", "noun.eval_run", OUTPUTS),),
    trigger={"on_demand": True},
    observations=10_000,
    evaluation=(
        "no profile",
        "agreement with choices made later",
        "held-out later choices of the same person; deliberate choices are not recorded yet",
        50,
    ),
    visibility="private",
    verb=_BENCHMARK,
)

TRAINING_EXPORT = spec_body(
    "training_export",
    "rights-cleared-export",
    reads=(OBSERVATION, "execution_run"),
    writes=(("tessera.dataset-manifest.v1", "noun.benchmark_suite", OUTPUTS),),
    trigger={"on_demand": True},
    observations=100_000,
    evaluation=(
        "the unchanged base model",
        "score on frozen holdouts split by family",
        "each adapter against its unchanged base, near-duplicates kept on one side of the split",
        500,
    ),
    visibility="private",
    verb=_BENCHMARK,
)

SPECS: dict[str, dict[str, Any]] = {
    spec_key(spec["learner"], spec["strategy"], spec["version"]): spec
    for spec in (
        MEMORY,
        PATH_STATISTICS,
        ROUTING_WEIGHTS,
        EVALUATION,
        LESSONS,
        PHRASING,
        SEARCHABILITY,
        SHIM,
        DECOMPOSITION,
        PREFERENCE,
        TRAINING_EXPORT,
    )
}
"""Spec key → body of the spec noun."""
