"""The runs that a config asks for: each entry of a scope with its pinned spec, its options and its state.

Promises that what fixes a run is read in one place: an asset, a preview and a runner prepare it alike, and
all tell the same way whether it has anything to do. Leaves out the verb around a run (`assets.run_verbs`) and
doing it (`assets.runner`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assets import apart, evidence, review_ports, specs, windows
from assets.lake import Lake
from assets.publish import BudgetCrossed, Verified, judged, read_state, same_surface, verified
from learners.contract import (
    Citation,
    Evidence,
    FollowsRecords,
    InParts,
    Learner,
    Outcome,
    Reading,
    Run,
    Scope,
    Wanted,
    accept_options,
    name_of,
    over_observations,
)
from learners.registry import BUILT_IN
from learners.strangers import learn_by_name
from schemas.specs import RUN_SCHEMA, run_faults, run_identity
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import NotFound, TesseraError, listed
from tessera.observations import REPORTING_HINT

Later = Callable[[Scope, str], bool]
"""Whether a readable observation of a scope lies after a cursor."""


class RunError(TesseraError):
    """A run that cannot be made or done; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may begin: its learner, the body of its spec noun, and everything but its evidence."""

    learner: Learner
    spec: Mapping[str, Any]
    run: Run

    @property
    def name(self) -> str:
        """The spec's key."""
        return name_of(self.learner)

    @property
    def ours(self) -> bool:
        """Whether the learner is one of ours; another package's is called in a process of its own."""
        return self.name in BUILT_IN

    @property
    def state_version(self) -> int:
        """The version of the state noun, 0 while there is none that the key may read."""
        return 0 if self.run.state is None else int(self.run.state["version"])

    def brief(self) -> dict[str, Any]:
        """The brief of the run's verb, `tessera.learner-run.v1`."""
        store, key = self.learner.state_key(self.run.scope, self.run.options)
        return {
            "schema": RUN_SCHEMA,
            "spec": self.run.spec.body(),
            "scope": self.run.scope.body(),
            "options": dict(self.run.options),
            "state": {"store": store, "key": key, "version": self.state_version},
            "reporting": REPORTING_HINT,
        }

    def reading(self) -> Reading:
        """What the run reads; one that goes on from its state takes at most the spec's budget at once."""
        reading, most = self.learner.reading(self.run), int(self.spec["budget"]["observations"])
        if reading.last is not None:
            return reading
        return replace(reading, limit=most if reading.limit is None else min(most, reading.limit))

    def due(self, later: Later) -> str | None:
        """Why the run is to be enqueued, in a few words; None when it has nothing to do."""
        state = self.run.state
        cursor = "0" if state is None else cursor_of(state)
        if isinstance(self.learner, FollowsRecords):
            reach = self.learner.reach(self.run)
            if reach is None:
                return None
            new = state is None or int(reach) > int(cursor)
        else:
            new = later(self.run.scope, cursor)
        if new:
            return "new observations"
        return None if state is None else self._changed(state["body"])

    def _changed(self, body: Mapping[str, Any]) -> str | None:
        if self.run.restart:
            return "another surface"
        if body.get("spec") != self.run.spec.body():
            return "another spec"
        return "other options" if digest(body.get("options")) != digest(self.run.options) else None

    def work(self, seen: Evidence, seconds: float | None = None) -> Verified:
        """The outcome of the run over what was read, held against the spec's budgets and all checks.

        A learner of another package is stopped after so many ``seconds``, by default those of its spec, and
        TimeOver raised; ours go through rows once and are held against the clock by whoever runs them.
        """
        if self.ours:
            return verified(self.learner, self.learn(seen), self.spec)
        limit = float(self.spec["budget"]["runtime_seconds"]) if seconds is None else seconds
        asked = (self.name, self.spec, self.run, seen)
        nouns, calls, crossed, results = apart.call(learn_by_name, *asked, seconds=limit)
        return judged(self.learner, Outcome(self.run, seen, nouns, calls), crossed, results)

    def learn(self, seen: Evidence) -> Outcome:
        """What one of our own learners makes of what was read, at once or in parts."""
        if isinstance(seen, windows.Window) and isinstance(self.learner, InParts):
            crossed = over_observations(self.spec, seen.rows)
            if crossed is not None:
                raise BudgetCrossed(f"{crossed}; nothing was published")
            most = int(self.spec["budget"]["output_bytes"])
            return seen.learn(self.learner, self.run, self.reading().columns, most)
        return self.learner.learn(self.run, seen)


def from_lake(lake: Lake) -> Callable[[Prepared], Evidence]:
    """Reads a run's observations from the lake; a window of several parts is read as it is learned from."""

    def read(prepared: Prepared) -> Evidence:
        scope, reading = prepared.run.scope, prepared.reading()
        if prepared.ours and isinstance(prepared.learner, InParts) and reading.last is not None:
            cut = windows.cut(lake, lake.open("observations"), scope, last=reading.last)
            if cut is not None:
                return windows.Window(cut)
        return evidence.from_lake(lake, scope, reading)

    return read


def from_api(client: Client, progress: evidence.Progress | None = None) -> Callable[[Prepared], Evidence]:
    """Reads a run's observations from the store."""
    return lambda prepared: evidence.from_api(client, prepared.run.scope, prepared.reading(), progress)


def later_in_lake(lake: Lake) -> Later:
    """Asks the lake."""

    def later(scope: Scope, cursor: str) -> bool:
        rows = lake.observations(scope.queue, kind=scope.kind, after=int(cursor), first=1, columns=["cursor"])
        return bool(rows.height)

    return later


def later_in_store(client: Client) -> Later:
    """Asks the store."""

    def later(scope: Scope, cursor: str) -> bool:
        return bool(client.pending(scope.queue, kind=scope.kind, after=cursor, cap=1)["count"])

    return later


def cursor_of(state: Mapping[str, Any]) -> str:
    """The cursor of a state noun. Raises RunError when it is none."""
    cursor = state["body"].get("cursor")
    if not isinstance(cursor, str) or not cursor.isascii() or not cursor.isdigit():
        raise RunError(
            f"{state['store']}/{state['key']} version {state['version']} is no learner's state: it has no "
            "cursor. Write the last version that a run published again, or use another queue."
        )
    return cursor


def identity(brief: Mapping[str, Any]) -> str:
    """The identity of the run of a brief."""
    return run_identity(brief["spec"], brief["scope"], brief["options"], brief["state"])


def prepare(client: Client, entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]] = ()) -> Prepared:
    """The run of one config entry, its spec, state and records read from the store now."""
    citation, body = specs.installed(client, entry["spec"])
    return _prepared(client, citation, body, entry, entries, ask=False)


def of_brief(client: Client, brief: Mapping[str, Any]) -> Prepared:
    """The run of a claimed brief, everything it names read again.

    Raises RunError for a brief that is none, that pins another spec than the one installed, that no config
    entry asks for any more, or that names another state than its own; SpecError for a spec that never runs.
    """
    faults = run_faults(brief)
    if faults:
        raise RunError(f"this is not the brief of a learner run: {listed(faults[:5])}")
    name = brief["spec"]["key"]
    installed, body = specs.installed(client, name)
    pinned = Citation(**brief["spec"])
    if pinned.sha256 != installed.sha256:
        raise RunError(
            f"the run pins spec {name} version {pinned.version} ({pinned.sha256[:12]}…), but version "
            f"{installed.version} ({installed.sha256[:12]}…) is installed: enqueue the run anew"
        )
    specs.runnable(name, body)
    scope = Scope(**brief["scope"])
    entries = specs.entries_of(client, scope.queue)
    entry = _entry(entries, name, scope, brief["options"])
    prepared = _prepared(client, pinned, body, entry, entries, ask=True)
    own = prepared.brief()["state"]
    if (own["store"], own["key"]) != (brief["state"]["store"], brief["state"]["key"]):
        raise RunError(f"the brief names the state {brief['state']['key']}, but the run's is {own['key']}")
    return prepared


def _entry(
    entries: Sequence[Mapping[str, Any]], name: str, scope: Scope, options: Mapping[str, Any]
) -> Mapping[str, Any]:
    """The config's entry that asks for a run; it says the mode and the surface."""
    for entry in entries:
        same_scope = (entry["queue"], entry.get("kind")) == (scope.queue, scope.kind)
        if entry["spec"] == name and same_scope and digest(entry["options"]) == digest(options):
            return entry
    of_kind = "" if scope.kind is None else f" --kind {scope.kind}"
    raise RunError(
        f"no config entry runs {name} on queue {scope.queue} with these options any more: "
        f"`learner configure {name} --queue {scope.queue}{of_kind}` adds one"
    )


def _prepared(
    client: Client,
    citation: Citation,
    body: Mapping[str, Any],
    entry: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    *,
    ask: bool,
) -> Prepared:
    """``ask`` says whether a gate that waits for a person may put its questions: only a run does."""
    learner = specs.runnable(entry["spec"], body)
    accept_options(learner, entry["options"])
    learner = review_ports.bound(learner, client, entry, ask=ask)
    scope = Scope(entry["queue"], entry.get("kind"))
    surface = entry.get("surface")
    state = read_state(client, *learner.state_key(scope, entry["options"]))
    run = Run(
        spec=citation,
        scope=scope,
        options=dict(entry["options"]),
        surface=surface,
        mode=entry["mode"],
        state=state,
        restart=state is not None and not same_surface(state.get("surface"), surface),
        entries=tuple(entries),
    )
    return Prepared(learner, body, with_records(client, learner, run))


def with_records(client: Client, learner: Learner, run: Run) -> Run:
    """The run with the records that its learner wants, those that the key may read."""
    found: list[dict[str, Any]] = []
    for want in learner.wanted(run):
        found += _wanted(client, want)
    return replace(run, records=tuple(found))


def _wanted(client: Client, want: Wanted) -> list[dict[str, Any]]:
    if want.key is not None:
        try:
            return [client.get_record(want.store, want.key, want.version)]
        except NotFound:
            return []
    records: list[dict[str, Any]] = []
    after: str | None = None
    while True:
        page = client.list_records(store=want.store, tag=want.tag, prefix=want.prefix, after=after)
        keys = [item["key"] for item in page["items"]]
        records += [record for key in keys for record in _wanted(client, Wanted(want.store, key))]
        if not page["has_more"]:
            return records
        after = page["next_after"]
