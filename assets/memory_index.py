"""The asset `memory_index`: a queue's past runs, to be recalled by likeness, published as nouns.

What is its own: the table `memory_entries` in step with the index, and a check of the whole index against the
lake's rows. Leaves out the index itself (`learners.memory`) and recall (`tessera.advice`).
"""

from collections.abc import Sequence
from typing import Any

from assets import memory_entries, plots
from assets.lake import Lake
from assets.learner_asset import Shown, Stands, WholeCheck
from assets.markdown import table
from assets.runner import Ended
from assets.scope_runs import Stand
from assets.upkeep import tidy
from learners.memory import LEARNER
from learners.memory_checks import Coverage
from tessera.client import Client

COVERAGE = "every_row_has_one_entry"
_HEADS = ("key", "version", "mode", "cursor", "entries", "added", "segments", "manifests")
_NEWEST = 40
_LISTED = 20


def _append(client: Client, lake: Lake, stand: Stand, ended: Ended) -> None:
    """Add a run's entries to the table, which a run that starts anew leaves to be read anew."""
    if ended.work is None:
        return
    run, nouns = ended.prepared.run, ended.work.outcome.nouns
    stand.notes["added"] = _added(stand) + run.counted(ended.work.outcome.evidence).height
    head = next(record for record in ended.records if record["key"] == nouns[-1].key)
    if not run.restart:
        memory_entries.append(lake, run.scope.queue, nouns, head, ended.prepared.state_version)


def _keep(client: Client, lake: Lake, queue: str, stands: Stands) -> None:
    """Bring the table in step with what stands, and hold it against the lake's rows."""
    tidy(lake, memory_entries.TABLE, queue)
    heads = {stand.standing["key"]: int(stand.standing["version"]) for stand in stands}
    if not memory_entries.in_step(lake, heads):
        memory_entries.read_anew(client, lake, queue, list(heads))
    for stand in stands:
        run, key = stand.prepared.run, stand.standing["key"]
        stand.notes["fits"] = memory_entries.covered(lake, run.scope, key, stand.body["cursor"], run.surface)


def _fits(stand: Stand) -> Coverage:
    fits: Coverage = stand.notes.get("fits", Coverage((), (), ()))
    return fits


def _added(stand: Stand) -> int:
    return int(stand.notes.get("added", 0))


def _misfits(client: Client, lake: Lake, queue: str, stands: Stands) -> Sequence[str]:
    return [fault for stand in stands for fault in _fits(stand).faults()]


def _orphaned(stands: Stands) -> dict[str, Any]:
    """Entries whose row a rebuild took away: told, and no fault."""
    found = [run_id for stand in stands for run_id in _fits(stand).orphaned]
    return {"entries_without_a_row": len(found), "without_a_row": found[:_LISTED]}


def _figures(stand: Stand) -> dict[str, Any]:
    return {
        "entries": stand.body["entries"],
        "entries_added": _added(stand),
        "runs": stand.runs,
        "segments": len(stand.body["segments"]),
        "manifests": len(stand.body["manifests"]),
        "entries_without_a_row": len(_fits(stand).orphaned),
    }


def _table(stands: Stands) -> str:
    rows = []
    for stand in stands:
        figures, record = _figures(stand), stand.standing
        about = [record["key"], record["version"], stand.prepared.run.mode, stand.body["cursor"]]
        counts = [figures[name] for name in ("entries", "entries_added", "segments", "manifests")]
        rows.append([str(cell) for cell in (*about, *counts)])
    return table(_HEADS, rows)


def _plot(stands: Stands) -> str:
    """How many entries each of the newest pinned segments holds."""
    pins = [pin for stand in stands for pin in stand.body["segments"]]
    bars = [(pin["key"].rpartition(":seg:")[2], pin["entries"]) for pin in pins[-_NEWEST:]]
    return plots.inline(plots.bars(bars, "segment", "entries"), "entries of the newest segments")


SHOWN = Shown(
    name="memory_index",
    learner=LEARNER,
    description="What became of past runs, by equality and by likeness, published as nouns.",
    figures=_figures,
    table=_table,
    plot=_plot,
    keep=_keep,
    each=_append,
    whole=(
        WholeCheck(
            COVERAGE,
            "each counted row of the lake up to the cursor has one entry in the whole index",
            _misfits,
            told=_orphaned,
            remedy=(
                "The index stands as it is; switch the entry's surface off and on, a run after each, to have "
                "it start anew."
            ),
        ),
    ),
    deps=("observations", "fingerprints"),
    kinds=frozenset({"numpy", "deltalake"}),
)
