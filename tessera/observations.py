"""Observations: the bounded view of one execution that learners read (contract, section 5).

Promises the item's shape, all keys there and null where unknown, its bounds, and no output or input snapshot
in it. An observation is evidence, never permission to reuse an output. Pure and total over briefs and
failures that are JSON values; leaves out who may read what: that is the store's.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from tessera.attempts import (
    FIELDS,
    MAX_ATTEMPTS,
    AttemptParts,
    attempt_content,
    attempt_faults,
    attempt_identity,
    attempt_parts,
    attempt_task_id,
    normal_attempt,
)
from tessera.canonical import is_blank, scalar_text, utf8, utf16_key
from tessera.fingerprints import input_type

__all__ = [
    "FIELDS",
    "MAX_ATTEMPTS",
    "REPORTING_HINT",
    "SCHEMA",
    "TRAINING_CORPUS",
    "WORDING",
    "AttemptParts",
    "attempt_content",
    "attempt_faults",
    "attempt_identity",
    "attempt_parts",
    "attempt_task_id",
    "brief_view",
    "build_item",
    "failure_text",
    "normal_attempt",
    "report_view",
]

SCHEMA = "execution-observation-v1"
TRAINING_CORPUS = "excluded_by_default"
"""What every item and every learned noun says under ``use_policy.training_corpus``."""
WORDING = ("title", "goal", "problem", "question", "task", "instructions", "description", "contract")
"""The fields of a brief that say what is asked, in the order in which they use up the bound."""
MAX_WORDING = 4096  # code points of all wording together
MAX_LABEL = 128  # bytes of a template, a phrasing, a tag, a key of the shape
MAX_TAGS = 16
MAX_SHAPE = 64
MAX_FAILURE = 2048  # bytes

REPORTING_HINT: dict[str, Any] = {
    "optional": True,
    "how": (
        "If you like, add `execution_report` when you submit. Submitting never requires it, and a field you "
        "leave out costs nothing. Say what you know and leave out the rest."
    ),
    "requested": [
        "summaries.problem",
        "summaries.solution",
        "harness",
        "model",
        "usage",
        "learning.outcome",
        "learning.went_right",
        "learning.went_wrong",
        "learning.next_steps",
        "learning.ideas",
        "learning.types",
        "learning.path",
        "learning.reasoning_summary",
        "learning.duration_seconds",
        "learning.cost",
        "learning.unknowns",
        "learning.advice",
    ],
    "never_include": ["credentials", "raw prompts", "transcripts", "private reasoning"],
    "submit_requires_it": False,
}
"""What a verb may put into its brief under ``reporting``, so that the wish arrives with the claim."""


def brief_view(brief: Any) -> dict[str, Any]:
    """The item's ``brief``: labels, tags, bounded wording, top-level shape and structural type."""
    fields: Mapping[str, Any] = brief if isinstance(brief, dict) else {}
    wording, wording_truncated = _wording(fields)
    shape, shape_truncated = _shape(fields)
    return {
        "template": _label(fields.get("template")),
        "phrasing": _label(fields.get("phrasing")),
        "tags": _tags(fields.get("tags")),
        "wording": wording,
        "wording_truncated": wording_truncated,
        "shape": shape,
        "shape_truncated": shape_truncated,
        "input_type": input_type(brief),
    }


def _label(value: Any) -> str | None:
    if not isinstance(value, str) or is_blank(value) or len(utf8(value)) > MAX_LABEL:
        return None
    return scalar_text(value)


def _tags(value: Any) -> list[str]:
    texts = {scalar_text(tag) for tag in value if isinstance(tag, str)} if isinstance(value, list) else set()
    fitting = [tag for tag in texts if "," not in tag and len(tag.encode()) <= MAX_LABEL]
    return sorted(fitting, key=utf16_key)[:MAX_TAGS]


def _wording(brief: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
    """The wording within the bound: the field that crosses it is cut, or dropped if nothing is left of it."""
    kept: dict[str, str] = {}
    room = MAX_WORDING
    for name in WORDING:
        if not isinstance(brief.get(name), str):
            continue
        text = scalar_text(brief[name])
        if len(text) > room:
            if room:
                kept[name] = text[:room]
            return kept, True
        kept[name] = text
        room -= len(text)
    return kept, False


def _shape(brief: Mapping[str, Any]) -> tuple[dict[str, str], bool]:
    names = {scalar_text(name): name for name in brief}
    fitting = sorted((name for name in names if len(name.encode()) <= MAX_LABEL), key=utf16_key)
    shape = {name: _kind(brief[names[name]]) for name in fitting[:MAX_SHAPE]}
    return shape, len(shape) < len(brief)


def _kind(value: Any) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "num"
        case str():
            return "str"
        case dict():
            return "object"
        case _:
            return "array"


def report_view(report: Mapping[str, Any] | None) -> dict[str, Any] | None:
    """The item's ``report``: the claims as sent, null where unreported; ``learning`` is the block as sent.

    ``model`` is null when none was used and when none was reported: ``model_reported`` tells.
    """
    if report is None:
        return None
    return {
        "summaries": report.get("summaries"),
        "harness": report.get("harness"),
        "model": report.get("model"),
        "model_reported": "model" in report,
        "usage": report.get("usage"),
        "learning": report.get("learning"),
    }


def failure_text(failure: str | None) -> str | None:
    """The first MAX_FAILURE bytes of a failure, cut at a character."""
    return None if failure is None else utf8(failure)[:MAX_FAILURE].decode("utf-8", "ignore")


def build_item(
    *,
    run_id: str,
    cursor: int | str,
    brief: Any,
    input_digest: str | None,
    origin: Literal["live", "imported"],
    private: bool,
    task_id: str,
    kind: str,
    queue: str,
    fence: int,
    lapsed: int,
    key_id: str,
    claimed_at: str | None,
    submitted_at: str | None,
    lease_seconds: int | None,
    result: Literal["accepted", "failed"],
    state_after: str | None,
    failure: str | None,
    receipt_sha256: str | None,
    draws: Sequence[Mapping[str, Any]],
    report: Mapping[str, Any] | None,
) -> dict[str, Any]:
    """One item out of the whole brief, failure and report, and what the server itself observed.

    Times are RFC 3339 UTC texts with milliseconds; draws are ``{dimension, arm, propensity, arms, policy}``.
    """
    return {
        "schema": SCHEMA,
        "run_id": run_id,
        "cursor": str(cursor),
        "brief": brief_view(brief),
        "input_digest": input_digest,
        "server": {
            "origin": origin,
            "private": private,
            "task_id": task_id,
            "kind": kind,
            "queue": queue,
            "fence": fence,
            "lapsed": lapsed,
            "key_id": key_id,
            "claimed_at": claimed_at,
            "submitted_at": submitted_at,
            "lease_seconds": lease_seconds,
            "result": result,
            "state_after": state_after,
            "failure_text": failure_text(failure),
            "receipt_sha256": receipt_sha256,
            "retry": fence > 1,
            "draws": [dict(draw) for draw in draws],
        },
        "report": report_view(report),
        "trust": {"telemetry": "worker_reported"},
        "use_policy": {"training_corpus": TRAINING_CORPUS},
    }
