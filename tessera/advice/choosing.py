"""Choosing among alternatives: what was chosen already stands; else the server draws by what was learned.

Promises (contract, section 10) that an explicit choice is returned unchanged and without a draw, that no
weights move a choice before the config's gate names their version, and that every arm offered can be drawn.
Weights grant nothing. Leaves out learning them, and the coin, which is the server's.
"""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from tessera.advice.scopes import (
    AdviceFault,
    active,
    body_of,
    bound,
    citation,
    entries,
    noun_key,
    pin,
    readable,
    unreliable,
)
from tessera.canonical import is_blank
from tessera.observations import brief_view

if TYPE_CHECKING:
    from tessera.client import Client

WEIGHTS = "tessera.routing-weights.v1"
EVALUATION = "tessera.evaluation.v1"
STORE = "learn.outputs"
EVALUATED_BY = "evaluation:off-policy:v1"
UNKNOWN_SCORE = 0.5
"""The score of an arm that the weights do not know: it never starves."""


class Choice(NamedTuple):
    """What to use, and what to cite for it under ``learning.advice``; null when no weights were followed."""

    arm: str
    advice: dict[str, Any] | None = None


def choose(
    task: Mapping[str, Any],
    dimension: str,
    arms: Sequence[str],
    *,
    explicit: str | None = None,
    provider: str | None = None,
    client: "Client | None" = None,
) -> Choice:
    """Choose one of ``arms`` for a claimed task: ``arm, advice = choose(task, "method", ["zlib", "lzma"])``.

    ``task`` is what the claim answered. ``explicit`` is the caller's own choice, ``provider`` the one that a
    provider imposes, and a nonblank string under the dimension's name in the brief is the brief's; the first
    of them is returned as it is. Else the server draws, once a claim: by the weights that the config's active
    strategy may advise with, else uniformly. Raises AdviceFault for arms that are none and for a noun that
    cannot be relied on, and what the client raises.
    """
    chosen = _chosen(task, dimension, explicit, provider)
    if chosen is not None:
        return Choice(chosen)
    if isinstance(arms, str) or not arms or not all(isinstance(arm, str) for arm in arms):
        raise AdviceFault("arms must be a list of at least one name")
    with bound(client) as store:
        record = policy(store, task, dimension)
        weights, followed = even(len(arms)), None
        if record is not None:
            category = category_of(task, record["body"])
            if _of_category(record["body"], category) is not None:
                weights, followed = shares(record["body"], category, arms), record
        offered = [{"arm": arm, "weight": weight} for arm, weight in zip(arms, weights, strict=True)]
        drawn = store.draw(
            task["task_id"], task["fence"], dimension, offered, None if followed is None else pin(followed)
        )
    return Choice(drawn["arm"], None if followed is None else citation(followed))


def _chosen(
    task: Mapping[str, Any], dimension: str, explicit: str | None, provider: str | None
) -> str | None:
    """The choice that was made already: the caller's, the brief's, the provider's."""
    if explicit is not None:
        return explicit
    brief = task.get("brief")
    named = brief.get(dimension) if isinstance(brief, Mapping) else None
    if isinstance(named, str) and not is_blank(named):
        return named
    return provider


def policy(client: "Client", task: Mapping[str, Any], dimension: str) -> dict[str, Any] | None:
    """The weights version to draw by: that of the active strategy which its gate names; None is uniform."""
    config = entries(client)
    entry = active(config, "routing_weights", task, dimension=dimension)
    if entry is None:
        return None
    key, version = noun_key(entry["spec"], entry, dimension), None
    if entry.get("gate", "evaluation") != "evidence":
        judge = next(
            (
                one["spec"]
                for one in config
                if (one.get("mode"), one.get("queue"), one.get("kind"))
                == ("active", entry["queue"], entry.get("kind"))
                and str(one.get("spec")).startswith("evaluation:")
            ),
            EVALUATED_BY,
        )
        standing = _standing(client, noun_key(judge, entry, dimension))
        if standing is None or (standing.get("store"), standing.get("key")) != (STORE, key):
            return None
        version = standing["version"]
    record = readable(client, STORE, key, version)
    if record is None:
        return None
    _well_formed(record)
    return record


def _standing(client: "Client", key: str) -> Mapping[str, Any] | None:
    """What stands by the newest evaluation noun; None while nothing does."""
    record = readable(client, STORE, key)
    if record is None:
        return None
    standing = body_of(record, EVALUATION).get("standing")
    if standing is not None and not (isinstance(standing, Mapping) and _is_version(standing.get("version"))):
        raise unreliable(record, "what stands is no citation")
    return standing


def category_of(task: Mapping[str, Any], weights: Mapping[str, Any]) -> str | None:
    """The category of the weights that a task falls into: its kind, or its template."""
    if weights["options"].get("by") != "template":
        return str(task["kind"])
    template: str | None = brief_view(task.get("brief"))["template"]
    return template


def even(arms: int) -> list[float]:
    """Uniform weights."""
    return [1 / arms] * arms


def shares(weights: Mapping[str, Any], category: str | None, arms: Sequence[str]) -> list[float]:
    """The weight of each arm offered, by a weights noun's body; uniform for a category that it has not.

    ε/arms + (1 − ε) × score/Σscores over the arms offered, 0.5 for an arm without a score; the baseline's
    share is reserved where its arm is offered.
    """
    found = _of_category(weights, category)
    if found is None:
        return even(len(arms))
    known = {arm["arm"]: arm["score"] for arm in found["arms"]}
    scores = [known.get(arm, UNKNOWN_SCORE) for arm in arms]
    epsilon, total = weights["epsilon"], sum(scores)
    made = [epsilon / len(arms) + (1 - epsilon) * (score / total) for score in scores]
    reserve = weights.get("baseline")
    if reserve is None or reserve["arm"] not in arms:
        return made
    share = reserve["share"]
    return [share * (arm == reserve["arm"]) + (1 - share) * one for arm, one in zip(arms, made, strict=True)]


def _of_category(weights: Mapping[str, Any], category: str | None) -> Mapping[str, Any] | None:
    found: Sequence[Mapping[str, Any]] = weights["categories"]
    return next((one for one in found if one["category"] == category), None)


def _well_formed(record: Mapping[str, Any]) -> None:
    """Raise AdviceFault for weights that cannot be drawn by; what is not drawn by may be anything."""
    body = body_of(record, WEIGHTS)
    try:
        fractions = [body["epsilon"]]
        if body.get("baseline") is not None:
            fractions.append(body["baseline"]["share"])
        named = {
            (one["category"], arm["arm"]): arm["score"] for one in body["categories"] for arm in one["arms"]
        }
        scores = [*named.values()]
        body["options"].get("by")
    except (KeyError, TypeError, AttributeError):
        raise unreliable(record, "it lacks what a draw needs") from None
    if not all(_is_number(one) and 0 <= one <= 1 for one in fractions) or not all(
        _is_number(one) and 0 < one <= 1 for one in scores
    ):
        raise unreliable(record, "its numbers are no shares and scores")


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_version(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1
