"""Recall: what happened when runs like this one were tried, from nouns that the consumer can verify.

Promises the result of the contract's section 8, whole or an error: matches are read back under the caller's
own key, statistics count every similar run, failures included, and unknown is null. Evidence only: a match is
no permission to reuse an output, and likeness is of words, not of meaning.
"""

from collections.abc import Mapping
from copy import deepcopy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tessera import fingerprints, statistics
from tessera.advice.index import Cache, Index, load
from tessera.advice.scopes import bound, entries
from tessera.advice.search import Found, searcher
from tessera.advice.shapes import EXACT_LIMIT, LEAST_FEATURES, SPEC, in_key
from tessera.errors import NotFound, TesseraError
from tessera.observations import brief_view

if TYPE_CHECKING:
    from tessera.client import Client

DEFAULT_LIMIT = 10
_ANSWERS = 16  # kept of an index: one is 5 MB when 200,000 runs are alike
_shared = Cache()


class RecallError(TesseraError):
    """A question that recall cannot take: the sentence says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Query:
    """What recall compares: a signature, null with fewer than three features, and an exact fingerprint."""

    signature: tuple[int, ...] | None
    exact: str | None


def query(
    category: str,
    brief: Any,
    report: Mapping[str, Any] | None = None,
    input_digest: str | None = None,
) -> Query:
    """The fingerprints of a run that is about to start, as the index has them of those that ended.

    ``report`` is the draft of an execution report, of which ``summaries.problem`` and ``learning.types`` are
    used; ``input_digest`` is the one that the claim answered.
    """
    view = brief_view(brief)
    problem = _text(report, "summaries", "problem")
    types = [_text(report, "learning", "types", side) for side in ("input", "output")]
    features = fingerprints.features(category, view["wording"].values(), problem, *types)
    enough = len(features) > LEAST_FEATURES
    return Query(
        fingerprints.minhash(features) if enough else None,
        fingerprints.exact_fingerprint(category, view["input_type"], input_digest),
    )


def recall(
    queue: str,
    category: str,
    brief: Any,
    *,
    report: Mapping[str, Any] | None = None,
    input_digest: str | None = None,
    kind: str | None = None,
    limit: int = DEFAULT_LIMIT,
    exact_limit: int = EXACT_LIMIT,
    client: "Client | None" = None,
    cache: Cache | None = None,
    shadow: bool = False,
) -> dict[str, Any]:
    """Runs of a queue that are like the one described, with what became of all of them.

    ``kind`` names the index of one kind of work, where there is one. Without an index that the key may read,
    and for one that is only a shadow unless ``shadow`` is true, ``advice`` is null and nothing matches.
    Raises IndexFault naming the record when the index cannot be relied on.
    """
    if limit < 0 or exact_limit < 0:
        raise RecallError(f"limit and exact_limit must be at least 0, not {min(limit, exact_limit)}")
    asked = query(category, brief, report, input_digest)
    with bound(client) as store:
        return _recalled(store, queue, kind, asked, limit, exact_limit, cache, shadow)


def _recalled(
    client: "Client",
    queue: str,
    kind: str | None,
    asked: Query,
    limit: int,
    exact_limit: int,
    cache: Cache | None,
    shadow: bool,
) -> dict[str, Any]:
    index = None
    if shadow or not _is_shadow(client, queue, kind):
        index = load(client, head_key(queue, kind), _shared if cache is None else cache)
    if index is None:
        return _answer(None, {"cursor": "0", "entries": 0}, [], statistics.summary([]))
    found, figures = _counted(index, asked, exact_limit)
    matches = []
    for rank, entry in enumerate(index.read(found.positions[:limit])):
        try:
            execution = client.get_execution(entry["run_id"])
        except NotFound:  # gone, or no longer this key's to read
            continue
        matches.append(
            {
                "run_id": entry["run_id"],
                "exact": found.exact[rank],
                "similarity": found.similarity(rank),
                "entry": entry,
                "execution": execution,
            }
        )
    about = {"cursor": index.cursor, "entries": index.entries}
    return _answer(index.citation(), about, matches, deepcopy(figures))


def _counted(index: Index, asked: Query, exact_limit: int) -> tuple[Found, dict[str, Any]]:
    """What passes, and what became of all of it.

    A fleet asks the same again and again where its texts repeat, and just there many runs are alike: what was
    counted for a question is kept with this version of the index.
    """
    known: tuple[Found, dict[str, Any]] | None = index.answers.get((asked, exact_limit))
    if known is None:
        found = find(index, asked, exact_limit)
        known = found, statistics.summary(list(index.read(found.positions)))
        index.answers[asked, exact_limit] = known
        if len(index.answers) > _ANSWERS:
            index.answers.popitem(last=False)
    return known


def find(index: Index, asked: Query, exact_limit: int = EXACT_LIMIT, fast: bool | None = None) -> Found:
    """Every entry of an index that passes, best first; with numpy or without, the same."""
    if fast not in index.searchers:
        index.searchers[fast] = searcher(index.segments, fast)
    found: Found = index.searchers[fast].search(asked.signature, asked.exact, exact_limit)
    return found


def head_key(queue: str, kind: str | None = None) -> str:
    """The key of a scope's index: ``memory:minhash-lsh:v1:<queue>[:kind=<kind>]:head``."""
    return f"{SPEC}:{in_key(queue, kind)}:head"


def _is_shadow(client: "Client", queue: str, kind: str | None) -> bool:
    """Whether the config says that this index may not advise; a config that cannot be read says nothing."""
    modes = {
        entry.get("mode")
        for entry in entries(client)
        if (entry.get("spec"), entry.get("queue"), entry.get("kind")) == (SPEC, queue, kind)
    }
    return "shadow" in modes


def _answer(
    advice: dict[str, Any] | None,
    index: dict[str, Any],
    matches: list[dict[str, Any]],
    figures: dict[str, Any],
) -> dict[str, Any]:
    return {
        "evidence_only": True,
        "reuse_requires_validation": True,
        "advice": advice,
        "index": index,
        "matches": matches,
        "statistics": figures,
    }


def _text(report: Any, *path: str) -> str | None:
    """A text of a draft report, None where it has none."""
    for name in path:
        report = report.get(name) if isinstance(report, Mapping) else None
    return report if isinstance(report, str) else None
