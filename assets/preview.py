"""What a run would publish, without publishing it: from the store as it is, or from an exported file alone.

Promises the bytes that the run would write, held against the same budgets and checks. A preview from a file
makes no network call: it knows no state and no surface, and cites the shipped spec as a first installation
would hold it.
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from assets import evidence, runs, specs
from assets.evidence import ExportError, Progress
from assets.publish import Verified
from assets.runs import Prepared
from learners.catalog import OBSERVATION, SPECS
from learners.contract import Citation, Learner, Run, Scope, accept_options
from learners.registry import load
from schemas.specs import STORE
from tessera.canonical import digest
from tessera.client import Client


def from_queue(
    client: Client, name: str, queue: str, options: Mapping[str, Any], progress: Progress | None = None
) -> Verified:
    """The preview of a spec on a queue; with the surface of the config's entry for the same noun, if any."""
    learner = known(name)
    accept_options(learner, options)
    entries = specs.entries_of(client, queue)
    key = learner.state_key(Scope(queue), options)
    entry: dict[str, Any] = {"spec": name, "mode": "active", "queue": queue}
    for one in entries:
        of_queue = one["spec"] == name and "kind" not in one
        if of_queue and learner.state_key(Scope(queue), one["options"]) == key:
            entry = one
    prepared = runs.prepare(client, {**entry, "options": dict(options)}, entries)
    return prepared.work(runs.from_api(client, progress)(prepared))


def from_file(
    path: Path, name: str, options: Mapping[str, Any], progress: Progress | None = None
) -> Verified:
    """The preview of a spec over all that a file holds, which must be of one queue."""
    learner = known(name)
    accept_options(learner, options)
    others = [kind for kind in learner.spec["reads"] if kind != OBSERVATION]
    if others:
        raise ExportError(
            f"{name} reads {', '.join(others)} beside observations, which no export holds: preview it with "
            "--queue"
        )
    rows = evidence.from_file(path, progress)
    found = sorted(rows["queue"].unique().to_list())
    if len(found) != 1:
        held = f"of {len(found)} queues: {', '.join(found[:5])}" if found else "no observation"
        raise ExportError(f"{path} holds {held}; a preview needs an export of one queue")
    run = Run(Citation(STORE, name, 1, digest(learner.spec)), Scope(found[0]), dict(options))
    seen = evidence.of_frame(rows, run.scope, learner.reading(run))
    return Prepared(learner, learner.spec, run).work(seen)


def known(name: str) -> Learner:
    """The learner of a name. Raises SpecError for a shipped spec that is only proposed."""
    return specs.runnable(name, SPECS[name]) if name in SPECS else load(name)
