"""`tessera draws verify`: the coins of the store thrown again, and compared with what was recorded and shown.

Over HTTP, for an admin: the secret stays in the store, which throws each coin anew. Each observation's draws
are compared with the recorded ones as well, since they are what learners read.
"""

from typing import Any

import typer

from tessera.cli.terminal import Json, Progress, say, say_json, say_table
from tessera.client import Client

app = typer.Typer(help="Draws: verify.", no_args_is_help=True)

Row = dict[str, Any]
_MATTERS = ("arm", "propensity", "arms", "policy")


@app.callback()
def group() -> None:
    """Keeps `verify` a word of its own while it is the only command."""


@app.command()
def verify(as_json: Json = False) -> None:
    """Recompute every draw that the key may read; status 1 when one is not what it must be."""
    with Client() as client, Progress("verifying", None) as progress:
        recorded = _recorded(client, progress)
        mismatches = [
            _mismatch(row, "recorded", row["recomputed"]) for row in recorded.values() if not row["agrees"]
        ]
        shown = _compare_shown(client, recorded, mismatches, progress)
    if as_json:
        say_json({"checked": len(recorded), "shown": shown, "mismatches": mismatches})
    else:
        say(f"{len(recorded):,} draws recomputed, {shown:,} of observations compared")
        if mismatches:
            columns = ("where", "task", "submitted#", "dimension", "arm", "propensity", "must be")
            say_table(columns, [[row[name] for name in _COLUMNS] for row in mismatches])
    if mismatches:
        raise typer.Exit(1)


_COLUMNS = ("where", "task_id", "submitted", "dimension", "arm", "propensity", "expected")


def _recorded(client: Client, progress: Progress) -> dict[tuple[str, int, str], Row]:
    """Every recorded draw, by what there can be only one of."""
    found: dict[tuple[str, int, str], Row] = {}
    after: str | None = None
    while True:
        page = client.list_draws(after=after)
        found.update({(row["task_id"], row["submitted"], row["dimension"]): row for row in page["items"]})
        progress.at(len(found))
        if not page["has_more"] or page["next_after"] == after:
            return found
        after = page["next_after"]


def _compare_shown(
    client: Client, recorded: dict[tuple[str, int, str], Row], mismatches: list[Row], progress: Progress
) -> int:
    """Compare the draws of each readable observation with the recorded ones; how many there were."""
    count = 0
    for queue in client.queues()["queues"] if recorded else ():
        for item in client.iter_observations(queue):
            server = item["server"]
            for draw in server["draws"]:
                count += 1
                progress.at(len(recorded) + count)
                submitted = server["fence"] - 1 - server["lapsed"]
                row = {"task_id": server["task_id"], "submitted": submitted, **draw}
                known = recorded.get((server["task_id"], submitted, draw["dimension"]))
                if known is None or any(known[name] != draw[name] for name in _MATTERS):
                    mismatches.append(_mismatch(row, f"run {item['run_id']}", known))
    return count


def _mismatch(row: Row, where: str, expected: Row | None) -> Row:
    must = None if expected is None else f"{expected['arm']} at {expected['propensity']}"
    return {"where": where, **{name: row[name] for name in _COLUMNS[1:-1]}, "expected": must}
