"""What a learner is: a program that reads a window of observations and says which nouns it would write.

Promises one shape for every strategy, from a scorecard over the newest window to an index that goes on from
its own state, so that the workspace, the command line and a stranger's package run them alike. Leaves out
where observations and records come from and how nouns are published: a learner sees values and returns
values.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import polars as pl

from learners.parts import Partial, Whole
from learners.statistics import Pinned
from schemas.specs import OUTPUTS, USE_POLICY, spec_key
from tessera.advice.shapes import in_key
from tessera.canonical import digest, dumps, utf16_key
from tessera.errors import Fault, TesseraError


class LearnerError(TesseraError):
    """A learner cannot do what was asked of it: the sentence says what, the value, and what to do."""


class OptionsError(LearnerError):
    """Options that a learner refuses; ``faults`` names each by its path."""

    def __init__(self, spec: str, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = [f"options of {spec} are refused", *(f"  {fault.path}: {fault.message}" for fault in faults)]
        super().__init__("\n".join(lines))


@dataclass(frozen=True, slots=True)
class Scope:
    """What a run learns from: one queue, or one kind of work in it."""

    queue: str
    kind: str | None = None

    def body(self) -> dict[str, str]:
        """As nouns and briefs write it."""
        return {"queue": self.queue} if self.kind is None else {"queue": self.queue, "kind": self.kind}

    def in_key(self) -> str:
        """As keys write it: ``<queue>`` or ``<queue>:kind=<kind>``, the kind escaped."""
        return in_key(self.queue, self.kind)


@dataclass(frozen=True, slots=True)
class Citation:
    """A pinned version of a record, with its digest where it is pinned by content."""

    store: str
    key: str
    version: int
    sha256: str

    def body(self) -> dict[str, Any]:
        """As nouns and briefs write it."""
        return {"store": self.store, "key": self.key, "version": self.version, "sha256": self.sha256}


@dataclass(frozen=True, slots=True)
class Noun:
    """A noun that a run would write; its version is the publisher's to know."""

    store: str
    key: str
    category: str
    body: Mapping[str, Any]

    def sha256(self) -> str:
        """The digest under which the store will know the body."""
        return digest(self.body)

    def document(self) -> dict[str, Any]:
        """``{store, key, body}``, as a preview shows it."""
        return {"store": self.store, "key": self.key, "body": self.body}


@dataclass(frozen=True, slots=True)
class Reading:
    """Which observations of the scope a run wants: the newest ``last``, or up to ``limit`` after a cursor."""

    last: int | None = None
    after: str = "0"
    limit: int | None = None
    columns: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Wanted:
    """Records a run reads beside its state: one by key (newest unless versioned), or all that have a tag and
    whose keys begin with a prefix.

    A noun that the run writes beside its state replaces the version that was read of it, so a learner that
    writes such a noun again wants it.
    """

    store: str
    key: str | None = None
    version: int | None = None
    tag: str | None = None
    prefix: str | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What was read: rows of ``schemas.observations`` in any order, and the cursor before the first of them.

    ``after`` is the cursor of the scope's observation before the window, ``"0"`` when there is none. ``upto``
    is that of the last observation read; with no rows it is ``after``. ``made`` is what ``of_rows`` of a
    learner that is ``RowByRow`` made of the frame, where that was done before the run.
    """

    frame: pl.DataFrame
    after: str = "0"
    made: Sequence[Any] | None = None

    @property
    def upto(self) -> str:
        """The cursor of the last observation read."""
        newest = self.frame["cursor"].max()
        return self.after if newest is None else str(newest)

    @property
    def rows(self) -> int:
        """How many observations were read."""
        return self.frame.height

    def pieces(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Some columns of what was read, a bounded number of rows at a time, each before the next."""
        yield self.frame.select(columns)


class Parted(Evidence):
    """A window too large to be read at once: it has no frame, and gives its rows in pieces of capture order.

    ``read`` gives those columns of the window anew, part by part.
    """

    __slots__ = ("_read", "_rows", "_upto")
    _read: Callable[[Sequence[str]], Iterator[pl.DataFrame]]
    _rows: int
    _upto: str

    def __init__(
        self, rows: int, after: str, upto: str, read: Callable[[Sequence[str]], Iterator[pl.DataFrame]]
    ) -> None:
        for name, value in (
            ("after", after),
            ("made", None),
            ("_rows", rows),
            ("_upto", upto),
            ("_read", read),
        ):
            object.__setattr__(self, name, value)

    @property
    def frame(self) -> pl.DataFrame:
        """There is none. Raises LearnerError."""
        raise LearnerError(f"a window of {self._rows} observations was read in parts: take its pieces")

    @property
    def upto(self) -> str:
        """The cursor of the last observation read."""
        return self._upto

    @property
    def rows(self) -> int:
        """How many observations were read."""
        return self._rows

    def pieces(self, columns: Sequence[str]) -> Iterator[pl.DataFrame]:
        """Some columns of the window, read anew."""
        return self._read(columns)


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that fixes a run but its evidence.

    ``state`` and ``records`` are records as the store answers them. ``surface`` leaves private runs out.
    ``restart`` is true when the surface changed and the run starts anew. ``entries`` are the scope's config
    entries, for learners that follow what others have published.
    """

    spec: Citation
    scope: Scope
    options: Mapping[str, Any] = field(default_factory=dict)
    surface: Mapping[str, Any] | None = None
    mode: str = "active"
    state: Mapping[str, Any] | None = None
    restart: bool = False
    records: Sequence[Mapping[str, Any]] = ()
    entries: Sequence[Mapping[str, Any]] = ()

    def counted(self, evidence: Evidence) -> pl.DataFrame:
        """The rows that may be counted, in capture order; no private ones when the output has a surface."""
        return self.countable(evidence.frame)

    def countable(self, frame: pl.DataFrame) -> pl.DataFrame:
        """Of some rows those that may be counted, in capture order."""
        if self.surface is not None:
            frame = frame.filter(~pl.col("private"))
        return frame if frame["cursor"].is_sorted() else frame.sort("cursor")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a run would publish, with what it was made from, so that checks can recompute it.

    ``nouns`` are in writing order; the one with the key of ``state_key`` is the run's state. A learner that
    calls a model says how often; those here never do.
    """

    run: Run
    evidence: Evidence
    nouns: tuple[Noun, ...]
    model_calls: int = 0


@dataclass(frozen=True, slots=True)
class Check:
    """A pure test of an outcome: ``find`` returns the rows at fault, each in words; none when it holds."""

    name: str
    description: str
    find: Callable[[Outcome], Sequence[str]]


@dataclass(frozen=True, slots=True)
class CheckResult:
    """How one check went: the rows at fault, none when it passed."""

    name: str
    rows: tuple[str, ...] = ()

    @property
    def passed(self) -> bool:
        """Whether the check found nothing."""
        return not self.rows


class Learner(Protocol):
    """The swap point. ``spec`` is the body of its spec noun; everything else is a pure function."""

    @property
    def spec(self) -> Mapping[str, Any]:
        """The body of the spec noun, ``tessera.learner-spec.v1``."""

    @property
    def checks(self) -> Sequence[Check]:
        """What must hold of an outcome before any of it is written."""

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """What is wrong with the options, each with its path below ``root``."""

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """Store and key of the noun that is the run's state."""

    def reading(self, run: Run) -> Reading:
        """Which observations to read; ``run.records`` is still empty."""

    def wanted(self, run: Run) -> Sequence[Wanted]:
        """Which records to read beside the state; most learners want none."""

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """The nouns to publish. Same arguments, same bytes."""


@runtime_checkable
class FollowsRecords(Protocol):
    """A learner that learns from what others published, not from observations."""

    def reach(self, run: Run) -> str | None:
        """The cursor that a run would reach by ``run.records``; ``None`` when there is nothing to read."""


@runtime_checkable
class InParts(Protocol):
    """A learner whose window may be read in parts, each anywhere, and whose parts merge exactly.

    ``merged`` gives the bytes that ``learn`` gives over all of the window at once. ``examples`` is how many
    of a group's newest runs are kept, ``group_bytes`` no more than what any group takes in the noun.
    """

    examples: int
    group_bytes: int

    def partial(self, run: Run, rows: pl.DataFrame) -> Partial:
        """What some rows that count come to."""

    def merged(self, run: Run, evidence: Evidence, pinned: Pinned, whole: Whole) -> Outcome:
        """The nouns to publish; ``pinned`` has the window's runs that count, in capture order."""


@runtime_checkable
class RowByRow(Protocol):
    """A learner most of whose work is for each row alone, and may be done ahead of its runs and elsewhere."""

    def of_rows(self, rows: pl.DataFrame) -> Sequence[Any]:
        """What each row comes to, in the rows' order, whatever run will read it."""


class Plain:
    """What most learners answer alike; a learner may inherit it and say only what is its own.

    One noun a scope, no options, no checks, the newest observations up to the spec's budget.
    """

    spec: Mapping[str, Any]
    checks: Sequence[Check] = ()

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """Every option is one too many."""
        return [Fault(f"{root}.{name}", "is not a known field") for name in sorted(options, key=utf16_key)]

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The one noun of the scope."""
        return output_key(self.spec, scope)

    def reading(self, run: Run) -> Reading:
        """As many of the newest observations as the budget has."""
        return Reading(last=int(self.spec["budget"]["observations"]))

    def wanted(self, run: Run) -> Sequence[Wanted]:
        """No records beside the state."""
        return ()


def name_of(learner: Learner) -> str:
    """``learner:strategy:vN``."""
    return spec_key(learner.spec["learner"], learner.spec["strategy"], learner.spec["version"])


def accept_options(learner: Learner, options: Mapping[str, Any]) -> None:
    """Raise ``OptionsError`` when the learner refuses the options."""
    faults = learner.option_faults(options, "options")
    if faults:
        raise OptionsError(name_of(learner), faults)


def output_key(spec: Mapping[str, Any], scope: Scope, *suffixes: str) -> tuple[str, str]:
    """Store and key of an output: ``<learner>:<strategy>:vN:<queue>[:kind=<kind>][:<suffix>…]``."""
    name = spec_key(spec["learner"], spec["strategy"], spec["version"])
    return OUTPUTS, ":".join((name, scope.in_key(), *suffixes))


def common_fields(schema: str, learner: Learner, run: Run) -> dict[str, Any]:
    """The fields that every output begins with (contract, section 7)."""
    return {
        "schema": schema,
        "learner": learner.spec["learner"],
        "strategy": learner.spec["strategy"],
        "version": learner.spec["version"],
        "spec": run.spec.body(),
        "scope": run.scope.body(),
        "options": dict(run.options),
        "use_policy": dict(USE_POLICY),
    }


def run_checks(learner: Learner, outcome: Outcome) -> list[CheckResult]:
    """Every check of the learner on an outcome, in their order."""
    return [CheckResult(check.name, tuple(check.find(outcome))) for check in learner.checks]


def over_observations(spec: Mapping[str, Any], rows: int) -> str | None:
    """A sentence when a run over so many observations crosses the budget of a spec body."""
    return _over(spec, {"observations": rows})


def over_budget(spec: Mapping[str, Any], outcome: Outcome) -> str | None:
    """The first budget of a spec body that an outcome crosses, as a sentence; ``None`` within all of them.

    Runtime is for whoever runs the learner to measure.
    """
    spent = {
        "observations": outcome.evidence.rows,
        "output_bytes": sum(len(dumps(noun.body)) for noun in outcome.nouns),
        "model_calls": outcome.model_calls,
    }
    return _over(spec, spent)


def _over(spec: Mapping[str, Any], spent: Mapping[str, int]) -> str | None:
    whose = spec_key(spec["learner"], spec["strategy"], spec["version"])
    for name, amount in spent.items():
        if amount > spec["budget"][name]:
            return f"{whose} crosses its budget of {spec['budget'][name]} {name}: {amount}"
    return None


def judgment(
    learner: Learner, outcome: Outcome, spec: Mapping[str, Any]
) -> tuple[str | None, list[CheckResult]]:
    """The budget that an outcome crosses, if any, and how each check went, where none is crossed."""
    crossed = over_budget(spec, outcome)
    return crossed, run_checks(learner, outcome) if crossed is None else []
