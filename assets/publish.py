"""The one place where learned nouns are published: checks first, then one compare-and-swap batch.

Promises that nothing is written unless every check and budget holds, that a batch is written whole or not at
all, always with a new version of the state, and that a lost answer is recognized as one's own write. Leaves
out when to run and what to learn: whoever has nothing new does not come here.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from learners.contract import CheckResult, Learner, Noun, Outcome, judgment, name_of
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import Conflict, NotFound, TesseraError

Status = Literal["published", "superseded"]

_ROWS_TOLD, _ROW_CHARACTERS = 5, 500


class PublishError(TesseraError):
    """Nothing was written; the sentence says why and what to do."""


class CheckFailed(PublishError):  # noqa: N818 - the sentence reads as what it is
    """Checks found rows at fault; ``results`` holds those of every check."""

    def __init__(self, spec: str, results: Sequence[CheckResult]) -> None:
        self.results = tuple(results)
        failed = [result for result in results if not result.passed]
        told = [f"{spec}: nothing was published, {len(failed)} of {len(results)} checks failed"]
        for result in failed:
            more = len(result.rows) - _ROWS_TOLD
            rows = [
                *(row[:_ROW_CHARACTERS] for row in result.rows[:_ROWS_TOLD]),
                *([f"and {more} more"] if more > 0 else []),
            ]
            told += [f"  {result.name}: {row}" for row in rows]
        super().__init__("\n".join(told))


class BudgetCrossed(PublishError):  # noqa: N818 - the sentence reads as what it is
    """The run took or made more than its spec allows."""


class UnreadableState(PublishError):  # noqa: N818 - the sentence reads as what it is
    """A noun that the run goes on from exists, but the key at hand may not read it."""

    def __init__(self, store: str, key: str) -> None:
        super().__init__(
            f"{store}/{key} exists but this key may not read it, so nothing was published. Run with the key "
            "that wrote it or an admin's, or give the config entry a surface this key may read."
        )


@dataclass(frozen=True, slots=True)
class Verified:
    """An outcome that passed; only ``verified`` makes one."""

    learner: Learner
    outcome: Outcome
    checks: tuple[CheckResult, ...]


@dataclass(frozen=True, slots=True)
class Publication:
    """How a publication ended, and the records that now hold: ``{store, key, version, sha256}`` each.

    ``superseded`` means that another run had moved the state: nothing was written, and the record is its.
    """

    status: Status
    records: tuple[Mapping[str, Any], ...]


def read_state(client: Client, store: str, key: str) -> dict[str, Any] | None:
    """The newest version of a state noun, ``None`` when there is none that the key may read."""
    try:
        return client.get_record(store, key)
    except NotFound:
        return None


def verified(learner: Learner, outcome: Outcome, spec: Mapping[str, Any] | None = None) -> Verified:
    """Hold an outcome against its budgets (those of ``spec``, the noun's body) and every check."""
    return judged(learner, outcome, *judgment(learner, outcome, learner.spec if spec is None else spec))


def judged(
    learner: Learner, outcome: Outcome, crossed: str | None, results: Sequence[CheckResult]
) -> Verified:
    """What passed its judgment. Raises BudgetCrossed or CheckFailed for what did not."""
    if crossed is not None:
        raise BudgetCrossed(f"{crossed}; nothing was published")
    if not all(result.passed for result in results):
        raise CheckFailed(name_of(learner), results)
    return Verified(learner, outcome, tuple(results))


def publish(client: Client, work: Verified) -> Publication:
    """Write the nouns of a verified outcome in one batch.

    Each replaces the version that the run read of it, as its state or among its records; the others must not
    be there yet.
    """
    run, nouns = work.outcome.run, work.outcome.nouns
    state_at = work.learner.state_key(run.scope, run.options)
    state = next(noun for noun in nouns if (noun.store, noun.key) == state_at)
    versions: dict[tuple[str, str], int] = {}
    for record in run.records:
        at = (record["store"], record["key"])
        versions[at] = max(int(record["version"]), versions.get(at, 0))
    versions[state_at] = 0 if run.state is None else int(run.state["version"])
    tags = [name_of(work.learner), f"queue:{run.scope.queue}"]
    writes = [_write(noun, versions.get((noun.store, noun.key), 0), tags, run.surface) for noun in nouns]
    try:
        # the key follows from the batch, so that a repeat after a lost answer, even by another process, gets
        # the first answer instead of a conflict with itself
        answer = client.write_records(writes, idempotency_key=f"publish:{digest(writes)}")
    except Conflict as conflict:
        return _after_conflict(client, work, state, conflict)
    return Publication("published", tuple(answer["records"]))


def _after_conflict(client: Client, work: Verified, state: Noun, conflict: Conflict) -> Publication:
    """Decide what a refused batch means: our own write, another run's, or a fault."""
    run, nouns = work.outcome.run, work.outcome.nouns
    current = read_state(client, state.store, state.key)
    known = 0 if run.state is None else int(run.state["version"])
    if current is None:
        raise UnreadableState(state.store, state.key) from conflict
    if int(current["version"]) <= known:
        raise _foreign(client, nouns, conflict) from conflict
    if _holds(current, state, run.surface):
        others = [read_state(client, noun.store, noun.key) for noun in nouns]
        if all(
            record and _holds(record, noun, run.surface) for record, noun in zip(others, nouns, strict=True)
        ):
            return Publication("published", tuple(_named(record) for record in others if record))
    return Publication("superseded", (_named(current),))


def _foreign(client: Client, nouns: Sequence[Noun], conflict: Conflict) -> PublishError:
    """What to say when the state stands as it was read, but another noun of the batch does not."""
    places = [int(one["index"]) for one in conflict.conflicts if isinstance(one.get("index"), int)]
    for noun in [nouns[place] for place in places if place < len(nouns)]:
        if read_state(client, noun.store, noun.key) is None:
            return UnreadableState(noun.store, noun.key)
    names = ", ".join(f"{nouns[place].store}/{nouns[place].key}" for place in places if place < len(nouns))
    return PublishError(
        f"{names or 'a noun of the batch'} was written by someone other than a run of this scope, so nothing "
        "was published; the next run reads it anew"
    )


def _holds(record: Mapping[str, Any], noun: Noun, surface: Mapping[str, Any] | None) -> bool:
    """Whether a record is already what would be written."""
    visible = "private" if surface is None else "surface_only"
    same = record["sha256"] == noun.sha256() and record["visibility"] == visible
    return same and same_surface(record.get("surface"), surface)


def same_surface(one: Mapping[str, Any] | None, other: Mapping[str, Any] | None) -> bool:
    """Whether two surfaces show to the same keys; a kind that is null is one that is absent."""

    def known(surface: Mapping[str, Any] | None) -> dict[str, Any]:
        return {name: value for name, value in (surface or {}).items() if value is not None}

    return known(one) == known(other)


def _named(record: Mapping[str, Any]) -> dict[str, Any]:
    return {name: record[name] for name in ("store", "key", "version", "sha256")}


def _write(
    noun: Noun, expected_version: int, tags: Sequence[str], surface: Mapping[str, Any] | None
) -> dict[str, Any]:
    write: dict[str, Any] = {
        "store": noun.store,
        "key": noun.key,
        "expected_version": expected_version,
        "category": noun.category,
        "tags": list(tags),
        "body": noun.body,
        "visibility": "private" if surface is None else "surface_only",
    }
    return write if surface is None else {**write, "surface": dict(surface)}
