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
        shown, differing = _compare_shown(client, recorded, progress)
        if differing:  # work goes on meanwhile: they may have been drawn since
            recorded = _recorded(client, progress)
    mismatches = [
        *(_mismatch(row, "recorded", row["recomputed"]) for row in recorded.values() if not row["agrees"]),
        *(
            _mismatch(row, row["where"], recorded.get(_name(row)))
            for row in differing
            if _differs(row, recorded)
        ),
    ]
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
        found.update({_name(row): row for row in page["items"]})
        progress.at(len(found))
        if not page["has_more"] or page["next_after"] == after:
            return found
        after = page["next_after"]


def _compare_shown(
    client: Client, recorded: dict[tuple[str, int, str], Row], progress: Progress
) -> tuple[int, list[Row]]:
    """How many draws the readable observations show, and those that differ from the recorded ones."""
    count, differing = 0, []
    for queue in client.queues()["queues"] if recorded else ():
        for item in client.iter_observations(queue):
            server = item["server"]
            submitted = server["fence"] - 1 - server["lapsed"]
            about = {"where": f"run {item['run_id']}", "task_id": server["task_id"], "submitted": submitted}
            for draw in server["draws"]:
                count += 1
                progress.at(len(recorded) + count)
                if _differs(row := {**about, **draw}, recorded):
                    differing.append(row)
    return count, differing


def _name(row: Row) -> tuple[str, int, str]:
    return row["task_id"], row["submitted"], row["dimension"]


def _differs(row: Row, recorded: dict[tuple[str, int, str], Row]) -> bool:
    known = recorded.get(_name(row))
    return known is None or any(known[name] != row[name] for name in _MATTERS)


def _mismatch(row: Row, where: str, expected: Row | None) -> Row:
    must = None if expected is None else f"{expected['arm']} at {expected['propensity']}"
    return {"where": where, **{name: row[name] for name in _COLUMNS[1:-1]}, "expected": must}
