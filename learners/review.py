"""Review and learn: proposals pass a gate into a bounded memory, and each ends in one of three places.

Promises (contract, section 11): `applied`, `rejected` (the gate said no) and `failed` (the memory could not)
are never confused; an error of proposer or gate, or a malformed proposal, stops the step and carries what
happened so far; the driver deduplicates nothing, the memory does. Leaves out where proposals come from and
where memories are kept: proposer, gate and memory are plain ports.
"""

import copy
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from schemas.rules import mapping
from tessera.canonical import dumps, is_blank
from tessera.checks import Check, number, text
from tessera.errors import Fault, TesseraError

DEFAULT_THRESHOLD = 0.7
JOINER = "\n\u00a7\n"
BUDGETS: dict[str, int] = {"memory": 2200, "user": 1375}
"""Code points a target's entries may take, joined by `JOINER`."""

Proposal = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a gate decided, and why; a refusal is a verdict, not an error."""

    approved: bool
    reason: str


@dataclass(slots=True)
class LearnOutcome:
    """Where each proposal ended: `applied` holds proposals, the others `{proposal, reason}`, in order."""

    applied: list[Proposal] = field(default_factory=list)
    rejected: list[dict[str, Any]] = field(default_factory=list)
    failed: list[dict[str, Any]] = field(default_factory=list)


class ReviewError(TesseraError):
    """The step stopped: `outcome` is what happened before, `proposal` the one at fault.

    What was applied before stays applied. `proposal` is None when the proposer itself failed; `faults` names
    what is wrong with a malformed proposal.
    """

    def __init__(
        self, message: str, outcome: LearnOutcome, proposal: Any = None, faults: Sequence[Fault] = ()
    ) -> None:
        self.outcome = outcome
        self.proposal = proposal
        self.faults = tuple(faults)
        super().__init__("\n".join([message, *(f"  {fault.path}: {fault.message}" for fault in self.faults)]))


class MemoryRefused(TesseraError):  # noqa: N818 - the contract names it
    """The memory did not do what an approved proposal asks; `reason` says why."""

    def __init__(self, reason: str) -> None:
        self.reason = reason
        super().__init__(reason)


class Memory(Protocol):
    """A memory: `apply` does what the operation says, or raises."""

    def apply(self, target: str, op: Mapping[str, Any]) -> None: ...


Proposer = Callable[[str], Sequence[Mapping[str, Any]]]
Gate = Callable[[Proposal], Verdict]


def review_and_learn(summary: str, proposer: Proposer, gate: Gate, memory: Memory) -> LearnOutcome:
    """One step: propose from `summary`, and pass each proposal in order through `gate` into `memory`.

    Raises ReviewError for an error of proposer or gate and for a malformed proposal. Anything that the memory
    raises puts the proposal under `failed`, and the step goes on.
    """
    outcome = LearnOutcome()
    if is_blank(summary):
        return outcome
    for raw in _proposed(summary, proposer, outcome):
        faults = proposal_faults(raw)
        if faults:
            raise ReviewError("a proposal is malformed", outcome, raw, faults)
        proposal: Proposal = copy.deepcopy(dict(raw))
        verdict = _judged(proposal, gate, outcome)
        if not verdict.approved:
            outcome.rejected.append({"proposal": proposal, "reason": verdict.reason})
            continue
        try:
            memory.apply(proposal["target"], copy.deepcopy(proposal["op"]))
        except Exception as error:  # the contract: any error of the memory counts as a refusal
            reason = error.reason if isinstance(error, MemoryRefused) else _told(error)
            outcome.failed.append({"proposal": proposal, "reason": reason})
            continue
        outcome.applied.append(proposal)
    return outcome


def _proposed(summary: str, proposer: Proposer, outcome: LearnOutcome) -> list[Any]:
    try:
        proposed: object = proposer(summary)
        listed = (
            list(proposed)
            if isinstance(proposed, Iterable) and not isinstance(proposed, str | Mapping)
            else None
        )
    except Exception as error:
        raise ReviewError(f"the proposer failed: {_told(error)}", outcome) from error
    if listed is None:
        raise ReviewError(
            f"the proposer answered {type(proposed).__name__}, not a list of proposals", outcome
        )
    return listed


def _judged(proposal: Proposal, gate: Gate, outcome: LearnOutcome) -> Verdict:
    try:
        verdict: object = gate(copy.deepcopy(proposal))
    except Exception as error:
        raise ReviewError(f"the gate failed: {_told(error)}", outcome, proposal) from error
    if not isinstance(verdict, Verdict):
        raise ReviewError(f"the gate answered {type(verdict).__name__}, not a Verdict", outcome, proposal)
    return verdict


def _told(error: Exception) -> str:
    return str(error) or type(error).__name__


# What a proposal looks like. It comes from a model or another program and is not trusted.

_TEXT = text(1 << 20)
_OPS: dict[str, tuple[dict[str, Check], dict[str, Check]]] = {
    "add": ({"text": _TEXT}, {"key": _TEXT}),
    "replace": ({"match": _TEXT, "text": _TEXT}, {}),
    "remove": ({"match": _TEXT}, {}),
}
_ACTION = text(64, choices=tuple(_OPS))


def _op(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, Mapping):
        yield Fault(path, "must be an object")
    elif "action" not in value:
        yield Fault(f"{path}.action", "is required")
    else:
        faults = list(_ACTION(value["action"], f"{path}.action"))
        required, optional = ({}, {}) if faults else _OPS[value["action"]]
        yield from faults or mapping({"action": _ACTION, **required}, optional)(value, path)


_PROPOSAL = mapping(
    {"target": text(64, choices=tuple(BUDGETS)), "op": _op, "score": number(1)}, {"rationale": _TEXT}
)


def proposal_faults(proposal: Any) -> list[Fault]:
    """Everything wrong with a proposal, empty when it is well-formed; total. Paths lie within it."""
    op = proposal.get("op") if isinstance(proposal, Mapping) else None
    for path, value in (("", proposal), ("op", op)):
        if isinstance(value, Mapping) and not all(isinstance(name, str) for name in value):
            return [Fault(path, "must have names that are strings")]
    return list(_PROPOSAL(proposal, ""))


def score_threshold_gate(min: float = DEFAULT_THRESHOLD) -> Gate:
    """The conservative gate: approved when the score is at least `min`, the bound itself included. Total."""

    def gate(proposal: Mapping[str, Any]) -> Verdict:
        score = proposal.get("score") if isinstance(proposal, Mapping) else None
        said, bound = _number(score), _number(min)
        if isinstance(score, int | float) and not isinstance(score, bool) and score >= min:
            return Verdict(True, f"score {said} ≥ threshold {bound}")
        return Verdict(False, f"score {said} < threshold {bound} (learn only from validated wins)")

    return gate


def _number(value: Any) -> str:
    """A number as canonical JSON writes it (`0.7`, `1`), anything else as Python shows it."""
    try:
        return dumps(value).decode()
    except Exception:
        return repr(value)


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry of a memory: its text, and the key that later figures replace it by, if it has one."""

    text: str
    key: str | None = None


class BoundedMemory:
    """The in-process memory: short texts under a budget of code points, without duplicates.

    Each refusal is a MemoryRefused whose reason says what did not fit; a refused operation changes nothing.
    """

    def __init__(self, entries: Mapping[str, Iterable[Entry]] | None = None) -> None:
        self._entries: dict[str, list[Entry]] = {
            target: list((entries or {}).get(target, ())) for target in BUDGETS
        }

    def entries(self, target: str) -> list[str]:
        """The texts of a target, in order."""
        return [entry.text for entry in self._of(target)]

    def keyed(self, target: str) -> list[Entry]:
        """The entries of a target with their keys, in order."""
        return list(self._of(target))

    def apply(self, target: str, op: Mapping[str, Any]) -> None:
        """Add, replace or remove one entry of a target; what is there already is a successful no-op."""
        match op:
            case {"action": "add", "text": str(text)}:
                self._add(target, text, op.get("key"))
            case {"action": "replace", "match": str(match), "text": str(text)}:
                self._replace(target, match, text)
            case {"action": "remove", "match": str(match)}:
                found = self._only(target, match)
                self._entries[target].pop(found)
            case _:
                raise MemoryRefused("not an operation: add, replace and remove are")

    def _add(self, target: str, text: str, key: str | None) -> None:
        entries = self._of(target)
        if any(entry.text == text for entry in entries):
            return
        place = next(
            (i for i, entry in enumerate(entries) if key is not None and entry.key == key), len(entries)
        )
        self._keep(target, [*entries[:place], Entry(text, key), *entries[place + 1 :]])

    def _replace(self, target: str, match: str, text: str) -> None:
        entries = self._of(target)
        there = any(entry.text == text for entry in entries)
        if there and not any(match in entry.text for entry in entries):
            return  # the same replacement was made before
        place = self._only(target, match)
        if there and entries[place].text != text:
            self._entries[target].pop(place)  # its replacement stands already: nothing is written twice
            return
        self._keep(target, [*entries[:place], Entry(text, entries[place].key), *entries[place + 1 :]])

    def _only(self, target: str, match: str) -> int:
        places = [i for i, entry in enumerate(self._of(target)) if match in entry.text]
        if not places:
            raise MemoryRefused(f"no match: {_number(match)} lies in no entry of {target}")
        if len(places) > 1:
            raise MemoryRefused(
                f"ambiguous match: {_number(match)} lies in {len(places)} entries of {target}"
            )
        return places[0]

    def _keep(self, target: str, entries: list[Entry]) -> None:
        size = budget_used(entry.text for entry in entries)
        if size > BUDGETS[target]:
            raise MemoryRefused(f"over budget: {size} of {BUDGETS[target]} code points of {target}")
        self._entries[target] = entries

    def _of(self, target: str) -> list[Entry]:
        if target not in self._entries:
            raise MemoryRefused(f"no such target: {_number(target)}; targets are {', '.join(BUDGETS)}")
        return self._entries[target]


def budget_used(texts: Iterable[str]) -> int:
    """Code points of `texts` joined by `JOINER`."""
    return len(JOINER.join(texts))
