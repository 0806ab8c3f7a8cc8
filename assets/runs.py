"""The runs that a config asks for: each entry of a scope with its pinned spec, its options and its state.

Promises that what fixes a run is read in one place: an asset, a preview and a runner prepare it alike. Leaves
out the verb around a run: who claims it and how it is submitted.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from assets import evidence, specs
from assets.lake import Lake
from assets.publish import Verified, read_state, same_surface, verified
from learners.contract import Evidence, Learner, Outcome, Run, Scope, Wanted, accept_options
from tessera.client import Client
from tessera.errors import NotFound


@dataclass(frozen=True, slots=True)
class Prepared:
    """A run that may begin: its learner, the body of its spec noun, and everything but its evidence."""

    learner: Learner
    spec: Mapping[str, Any]
    run: Run

    def read(self, lake: Lake) -> Evidence:
        """What the run wants of the lake."""
        return evidence.from_lake(lake, self.run.scope, self.learner.reading(self.run))

    def learn(self, seen: Evidence) -> Outcome:
        """The outcome of the run over what was read."""
        return self.learner.learn(self.run, seen)

    def verify(self, outcome: Outcome) -> Verified:
        """The outcome, held against the spec's budgets and the learner's checks."""
        return verified(self.learner, outcome, self.spec)


def of_queue(client: Client, name: str, queue: str) -> list[Prepared]:
    """The runs of one spec on a queue that the config activates or shadows, in the config's order."""
    entries = specs.entries_of(client, queue)
    return [prepare(client, entry, entries) for entry in entries if entry["spec"] == name]


def prepare(client: Client, entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]] = ()) -> Prepared:
    """The run of one config entry, its spec, state and records read from the store now."""
    citation, body = specs.installed(client, entry["spec"])
    learner = specs.runnable(entry["spec"], body)
    accept_options(learner, entry["options"])
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
        page = client.list_records(store=want.store, tag=want.tag, after=after)
        keys = [item["key"] for item in page["items"]]
        records += [record for key in keys for record in _wanted(client, Wanted(want.store, key))]
        if not page["has_more"]:
            return records
        after = page["next_after"]
