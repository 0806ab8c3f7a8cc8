"""The asset `lessons`: the few lessons that the figures of a queue have earned, published as a noun.

What is its own: the table `review_outcomes`, one row a proposal of each step, the three outcomes counted and
listed with their reasons, and the lessons in words.
Leaves out the step itself, which is `learners.lessons`.
"""

from collections import Counter
from typing import Any

import dagster as dg
import polars as pl

from assets.lake import Lake
from assets.learner_asset import Shown, Stands
from assets.markdown import table
from assets.runner import Ended
from assets.scope_runs import Stand
from learners.lessons import LEARNER, Learned
from learners.review import BUDGETS, budget_used
from schemas import lessons as schema
from tessera.client import Client

TABLE = "review_outcomes"
_SHOWN, _CHARACTERS = 30, 240


def _figures(stand: Stand) -> dict[str, Any]:
    entries = stand.body["entries"]
    target = stand.body["target"]
    return {
        "lessons": len(entries),
        "code_points": budget_used(entry["text"] for entry in entries),
        "code_points_most": BUDGETS[target],
    }


def _step(client: Client, lake: Lake, stand: Stand, ended: Ended) -> None:
    """Add what became of each proposal of a run, once, to the rows of the queue."""
    if ended.work is None or not isinstance(ended.work.outcome, Learned):
        return
    done, queue = ended.work.outcome.proposals, ended.prepared.run.scope.queue
    body, record = ended.work.outcome.nouns[-1].body, ended.records[-1]
    outcomes = {name: getattr(done, name) for name in schema.OUTCOMES}
    rows = schema.rows(queue, int(record["version"]), record["sha256"], record["key"], body, outcomes)
    held = [schema.table()]
    if lake.version(TABLE) is not None:
        same_step = (pl.col("key") == record["key"]) & (pl.col("version") == record["version"])
        held.append(lake.collect(lake.scan(TABLE).filter((pl.col("queue") == queue) & ~same_step)))
    lake.write_table(TABLE, queue, schema.ReviewOutcomes.validate(pl.concat([*held, rows]), lazy=True))


def _outcomes(lake: Lake, queue: str, stands: Stands) -> dict[str, Any]:
    """How many proposals of the step behind each noun had each outcome, and which, with the reasons."""
    rows = schema.table()
    if lake.version(TABLE) is not None:
        of_step = pl.lit(value=False)
        for stand in stands:
            at = (pl.col("key") == stand.standing["key"]) & (pl.col("version") == stand.standing["version"])
            of_step = of_step | at
        rows = lake.collect(
            lake.scan(TABLE).filter((pl.col("queue") == queue) & of_step).sort("key", "position")
        )
    told: dict[str, Any] = {}
    for name in schema.OUTCOMES:
        mine = rows.filter(pl.col("outcome") == name)
        told[name] = mine.height
        told[f"{name}_proposals"] = dg.MetadataValue.md(_proposals(name, mine))
    return told


def _proposals(outcome: str, rows: pl.DataFrame) -> str:
    if not rows.height:
        return f"Nothing was {outcome} in the step that wrote what stands."
    shown = [
        [
            f"{row['action']} in {row['target']}",
            (row["text"] or row["match"])[:_CHARACTERS],
            f"{row['score']:.3f}",
            (row["reason"] or row["rationale"] or "")[:_CHARACTERS],
        ]
        for row in rows.head(_SHOWN).iter_rows(named=True)
    ]
    made = table(("proposal", "lesson", "score", "reason"), shown, f"{rows.height} {outcome}", _CHARACTERS)
    return made if rows.height <= _SHOWN else f"{made}\n\nand {rows.height - _SHOWN} more in `{TABLE}`"


def _table(stands: Stands) -> str:
    made = []
    for stand in stands:
        rows = [
            [entry["text"], str(len(entry["support"])), (entry["recheck_at"] or "")[:10]]
            for entry in stand.body["entries"]
        ]
        made.append(
            table(("lesson", "records behind it", "recheck"), rows, stand.body["scope"]["queue"], _CHARACTERS)
        )
    return "\n\n".join(made)


def _plot(stands: Stands) -> str:
    """How much of the memory is used, as a line of text: there is no curve in it."""
    lines = []
    for stand in stands:
        figures = _figures(stand)
        share = figures["code_points"] / figures["code_points_most"]
        kinds = Counter("earned" if entry["support"] else "given" for entry in stand.body["entries"])
        told = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items())) or "no lessons"
        lines.append(f"`{'█' * round(20 * share):·<20}` {share:.0%} of the memory is used: {told}")
    return "\n\n".join(lines)


SHOWN = Shown(
    name="lessons",
    learner=LEARNER,
    description="Short lessons earned by figures, retired when they no longer hold.",
    figures=_figures,
    table=_table,
    plot=_plot,
    each=_step,
    more=_outcomes,
    deps=("path_scorecard", "routing_weights", "evaluation"),
)
