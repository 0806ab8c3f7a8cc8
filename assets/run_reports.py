"""What a learner run reports of itself when it is submitted: a report like any worker's.

Promises `model: null`, zero tokens and a cost that is null with its reason, within the bounds of section 4.
Leaves out what the store observes by itself.
"""

from collections.abc import Mapping
from typing import Any

NO_COST = "computed on the machine of the run, where nothing is charged by the run"
_LINE = 512
_LABEL = 128


def report(
    brief: Any, seconds: float, status: str | None, failure: str | None, model_calls: int = 0
) -> dict[str, Any]:
    """The execution report of a run that took ``seconds``; ``status`` is null when it failed.

    A learner that called models knows which and for how many tokens; here that stays unreported.
    """
    learning: dict[str, Any] = {
        "outcome": {"published": "succeeded", "superseded": "no_change"}.get(status or "", "failed"),
        "path": {"method": within(method(brief), _LABEL)},
        "duration_seconds": round(seconds, 3),
        "cost": None,
        "unknowns": [{"field": "cost", "reason": NO_COST}],
    }
    if status == "superseded":
        learning["went_right"] = ["the state had moved on: nothing was left to do"]
    if failure is not None:
        learning["went_wrong"] = [within(failure.strip() or "failed without a word", _LINE)]
    none = {"model": None, "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}}
    return {"harness": "learner", **({} if model_calls else none), "learning": learning}


def method(brief: Any) -> str:
    """The spec's key, as far as a brief that may be anything names one."""
    spec = brief.get("spec") if isinstance(brief, Mapping) else None
    key = spec.get("key") if isinstance(spec, Mapping) else None
    return key if isinstance(key, str) and key.strip() else "not a learner run"


def within(text: str, size: int) -> str:
    """The text in at most ``size`` UTF-8 bytes, cut at a character; it ends in … when it was cut."""
    data = text.encode("utf-8", "replace")
    if len(data) <= size:
        return data.decode()
    return data[: size - 3].decode("utf-8", "ignore") + "…"
