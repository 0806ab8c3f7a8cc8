"""What happened to a set of attempts, in numbers: the outcome statistics that scorecards and recall share.

Promises the scalar definition of each figure: exact medians (the mean of the middle two), Wilson intervals
that say 0 and 1 where nothing or everything was accepted, and unknown as ``None``, never 0. Pure, and total
but for impossible counts. Leaves out speed: ``learners.statistics`` gives the same figures of columns, to the
bit.
"""

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from tessera.canonical import scalar_text, utf16_key

Z95 = 1.959963984540054
"""The standard normal quantile of a two-sided 95% interval."""

MOST_FREQUENT = 10
"""How many failure reasons and problems a summary names."""

REASON_POINTS = 160
"""The bound of a normalized failure reason, in code points."""

_ASCII_LOWER = {code: code + 32 for code in range(ord("A"), ord("Z") + 1)}
_HEX_RUN = re.compile("[0-9a-f]{8,}")
_DIGIT_RUN = re.compile("[0-9]+")
_BLANK_RUN = re.compile("[\t-\r ]+")


def wilson_interval(accepted: int, attempts: int) -> tuple[float | None, float | None]:
    """The 95% Wilson score interval of a proportion, as ``(low, high)`` within 0..1; E. B. Wilson, 1927.

    ``(None, None)`` without attempts: no evidence is not certainty. The low end is exactly 0 when nothing was
    accepted, the high end exactly 1 when everything was. Raises ValueError for counts that cannot be.
    """
    for count in (accepted, attempts):
        if isinstance(count, bool) or not isinstance(count, int):
            raise ValueError(f"counts must be integers, not {count!r}")
    if not 0 <= accepted <= attempts:
        raise ValueError(f"impossible counts: {accepted} accepted of {attempts} attempts")
    if attempts == 0:
        return None, None
    n, k = float(attempts), float(accepted)
    square = Z95 * Z95
    middle = k + square / 2.0
    spread = Z95 * math.sqrt(k * (n - k) / n + square / 4.0)
    low = 0.0 if accepted == 0 else max(0.0, (middle - spread) / (n + square))
    high = 1.0 if accepted == attempts else min(1.0, (middle + spread) / (n + square))
    return low, high


def failure_reason(text: str | None) -> str | None:
    """A failure text without what differs from run to run, so that like failures count as one.

    A–Z lowercased, runs of 8 or more hex digits and runs of digits each ``#``, blanks one space, trimmed, at
    most 160 code points. ``None`` stays ``None``.
    """
    if text is None:
        return None
    reason = _HEX_RUN.sub("#", scalar_text(text).translate(_ASCII_LOWER))
    reason = _BLANK_RUN.sub(" ", _DIGIT_RUN.sub("#", reason))
    return reason.strip(" ")[:REASON_POINTS].strip(" ")


def total_tokens(usage: Mapping[str, Any] | None) -> int | None:
    """The reported total, else input + output when both are known, else ``None``."""
    usage = usage or {}
    total, sent, received = (usage.get(f"{name}_tokens") for name in ("total", "input", "output"))
    if total is not None:
        return int(total)
    return None if sent is None or received is None else int(sent) + int(received)


def median(values: Iterable[float | None]) -> float | None:
    """The median of the known values, the mean of the middle two when they are even; ``None`` without any."""
    known = sorted(value for value in values if value is not None and not math.isnan(value))
    if not known:
        return None
    return (known[(len(known) - 1) // 2] + known[len(known) // 2]) / 2


def most_frequent(texts: Iterable[str | None], limit: int = MOST_FREQUENT) -> list[dict[str, Any]]:
    """``[{"text", "count"}]``, most frequent first, then by text; unknown texts are left out."""
    counts = Counter(text for text in texts if text is not None)
    ranked = sorted(counts.items(), key=lambda item: (-item[1], utf16_key(item[0])))
    return [{"text": text, "count": count} for text, count in ranked[:limit]]


def summary(entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The outcome statistics of ``entries``, shaped as those of the memory index (contract, section 8).

    Read of each entry: ``result, retry, task_id, worker_outcome, failure_reason, problems,
    server_duration_seconds, total_tokens, reported_duration_seconds, cost``.
    """
    attempts = len(entries)
    accepted = sum(entry["result"] == "accepted" for entry in entries)
    low, high = wilson_interval(accepted, attempts)
    costs: dict[str, list[float]] = defaultdict(list)
    for entry in entries:
        if (cost := entry["cost"]) is not None:
            costs[cost["currency"]].append(cost["amount"])
    outcomes = Counter(entry["worker_outcome"] for entry in entries if entry["worker_outcome"] is not None)
    return {
        "attempts": attempts,
        "accepted": accepted,
        "acceptance_rate": accepted / attempts if attempts else None,
        "wilson_low": low,
        "wilson_high": high,
        "distinct_tasks": len({entry["task_id"] for entry in entries}),
        "retried": sum(bool(entry["retry"]) for entry in entries),
        "median_server_duration_seconds": median(entry["server_duration_seconds"] for entry in entries),
        "median_total_tokens": median(entry["total_tokens"] for entry in entries),
        "median_reported_duration_seconds": median(entry["reported_duration_seconds"] for entry in entries),
        "median_cost": {currency: median(amounts) for currency, amounts in costs.items()},
        "worker_outcomes": dict(outcomes),
        "failure_reasons": most_frequent(entry["failure_reason"] for entry in entries),
        "problems": most_frequent(problem for entry in entries for problem in entry["problems"]),
    }
