"""The execution report and the past attempt as JSON Schema, for those who read before they write.

The checks are ``tessera.reports`` and ``tessera.attempts``. Their bounds in UTF-8 bytes are told here in
characters, so a text beyond ASCII may fit here and be refused there.
"""

from typing import Any

from tessera.reports import OUTCOMES

Json = dict[str, Any]


def _text(limit: int) -> Json:
    return {"type": "string", "minLength": 1, "maxLength": limit}


def _number(high: int, kind: str = "number") -> Json:
    return {"type": kind, "minimum": 0, "maximum": high}


def _texts(purpose: str) -> Json:
    return {"type": "array", "maxItems": 8, "items": _text(512), "description": purpose}


def _object(required: tuple[str, ...] = (), /, **members: Json) -> Json:
    return {
        "type": "object",
        "properties": members,
        "required": list(required),
        "additionalProperties": False,
    }


def _or_null(schema: Json) -> Json:
    return {"anyOf": [schema, {"type": "null"}]}


_TOKENS = _number(10**12, "integer")
_ORDINAL = {"type": "integer", "minimum": 1}
_COST = _object(
    ("amount", "currency", "source"),
    amount=_number(10**12),
    currency={"type": "string", "pattern": "^[A-Z]{3}$"},
    source=_text(128),
)
_ADVICE = _object(
    ("learner", "strategy", "version", "store", "key", "record_version"),
    learner=_text(256),
    strategy=_text(256),
    version=_ORDINAL,
    store=_text(256),
    key=_text(256),
    record_version=_ORDINAL,
)
LEARNING: Json = {
    **_object(
        outcome={"type": "string", "enum": list(OUTCOMES), "description": "What you yourself call it."},
        went_right=_texts("What worked."),
        went_wrong=_texts("What did not."),
        next_steps=_texts("What should follow."),
        ideas=_texts("What could be tried."),
        types=_object(input=_text(256), output=_text(256)),
        path=_object(shim=_text(128), method=_text(128)),
        reasoning_summary=_text(2048),
        duration_seconds=_or_null(_number(10**9)),
        cost=_or_null(_COST),
        unknowns={
            "type": "array",
            "maxItems": 16,
            "items": _object(("field", "reason"), field=_text(128), reason=_text(512)),
            "description": "What is not known and why; a null cost or duration must be named here.",
        },
        advice={
            "type": "array",
            "maxItems": 8,
            "items": _ADVICE,
            "description": "Citations of the learned records that were followed.",
        },
    ),
    "description": "Optional, as is each field: what others can learn from this run.",
}
REPORT: Json = {
    **_object(
        summaries=_object(problem=_text(4096), solution=_text(4096)),
        harness=_text(128),
        model={**_or_null(_text(128)), "description": "null: no model was used; absent: not told."},
        usage=_object(input_tokens=_TOKENS, output_tokens=_TOKENS, total_tokens=_TOKENS),
        learning=LEARNING,
    ),
    "description": "Optional: how the run went, as the worker tells it; at most 32,768 bytes in all.",
}
_LABELS = ("template", "phrasing", "shim", "method", "harness", "model")
ATTEMPT: Json = {
    **_object(
        ("source", "task_key", "attempt", "kind", "accepted"),
        source=_text(128),
        task_key=_text(512),
        attempt=_ORDINAL,
        kind=_text(64),
        problem_text=_or_null({"type": "string"}),
        **{name: _or_null(_text(128)) for name in _LABELS},
        accepted={"type": "boolean"},
        failure_text=_or_null({"type": "string", "maxLength": 2048}),
        outcome=_or_null({"type": "string", "enum": list(OUTCOMES)}),
        input_tokens=_or_null(_TOKENS),
        output_tokens=_or_null(_TOKENS),
        cost_amount=_or_null(_number(10**12)),
        cost_currency=_or_null({"type": "string", "pattern": "^[A-Z]{3}$"}),
        duration_seconds=_or_null(_number(10**9)),
        started_at=_or_null({"type": "string", "format": "date-time"}),
    ),
    "description": "One past attempt at a task; missing keys are read as null.",
}
