"""What a run of the main job ends with, in a terminal: what was learned, predicted, and what happened then.

Everything is read back with a key that may only read the queue. Leaves out the work and the pipeline.
"""

import os
import shlex
from pathlib import Path
from typing import Any

from rich.console import Console

from examples import forecast
from examples.inputs import SORTS, briefs
from examples.rounds import EVALUATION, WEIGHTS, History, Prediction, prediction
from examples.scorecard import by_kind_and_method
from tessera import Client
from tessera.advice import lessons, recall

STORE = "learn.outputs"
CARD = "path_statistics:wilson-grouping:v1"
LESSONS_SHOWN = 4


def show(
    console: Console, history: History, found: Prediction | None, since: str, following: int, home: Path
) -> None:
    """Print it all. `found` is what was predicted before the last round, which began after cursor `since`;
    `following` is the number of the queue's next task.
    """
    _scorecard(console, history)
    _forecast(console, history, found, since)
    _recalled(console, history.reader, history.queue, following)
    _lessons(console, history.reader, history.queue)
    _places(console, history, home)


def _scorecard(console: Console, history: History) -> None:
    body = history.reader.get_record(STORE, f"{CARD}:{history.queue}:category+method")["body"]
    runs = body["window"]["count"]
    console.print(f"\n[bold]What was learned[/bold] from {runs} runs: which method fits which input\n")
    console.print(by_kind_and_method(body, console.width))
    console.print(f"label: {body['label']}")


def _forecast(console: Console, history: History, found: Prediction | None, since: str) -> None:
    console.print("\n[bold]What was predicted, and what then happened[/bold]\n")
    if found is None:
        console.print("Nothing was predicted: there were no runs to judge weights on.")
    else:
        window = found.body["window"]
        judged_on = history.after(window["after"], window["upto"])
        console.print(forecast.shown(found, judged_on, history.after(since), console.width))
    now = prediction(history)
    standing = forecast.policy(now.candidate if now is not None and now.stands else None)
    newest = history.noun(EVALUATION)
    if newest is not None and newest["body"]["candidate"] is not None:
        body = newest["body"]
        console.print(
            f"now: weights version {body['candidate']['version']} was judged on {body['rows']} runs, "
            f"{body['verdict']}; the next choices are drawn by: {standing}"
        )


def _recalled(console: Console, reader: Client, queue: str, following: int) -> None:
    """What happened when runs like the next task of the queue were tried."""
    [(kind, brief)] = briefs(following, 1)
    answer = recall(queue, kind, brief, client=reader)
    figures = answer["statistics"]
    console.print(f"\n[bold]What is recalled[/bold] for the next task, {kind}: {brief['title']}\n")
    if not figures["attempts"]:
        console.print("  no run so far is like it")
        return
    console.print(
        f"  {figures['attempts']} runs are like it: {figures['acceptance_rate']:.0%} accepted "
        f"(95% interval {figures['wilson_low']:.0%} to {figures['wilson_high']:.0%})"
    )
    for reason in figures["failure_reasons"][:2]:
        console.print(f"  {reason['count']} failed with: {reason['text']}", markup=False)


def _lessons(console: Console, reader: Client, queue: str) -> None:
    told: dict[str, None] = {}
    for sort in SORTS:
        told |= dict.fromkeys(
            lessons({"queue": queue, "kind": sort.kind}, hold_back=False, client=reader).texts
        )
    console.print(f"\n[bold]Lessons that the figures earned[/bold]: {len(told)}\n")
    for text in list(told)[:LESSONS_SHOWN]:
        console.print(f"  {text}", markup=False)
    if len(told) > LESSONS_SHOWN:
        console.print(f"  … and {len(told) - LESSONS_SHOWN} more")


def _places(console: Console, history: History, folder: Path) -> None:
    queue = history.queue
    card = history.reader.get_record(STORE, f"{CARD}:{queue}:category+method")
    records: list[dict[str, Any] | None] = [card, history.noun(WEIGHTS), history.noun(EVALUATION)]
    console.print("\n[bold]Where it is[/bold]: published in the store, each version kept")
    for record in filter(None, records):
        console.print(
            f"  {record['store']} / {record['key']}  version {record['version']}  "
            f"sha256 {record['sha256'][:12]}…"
        )
    home = os.path.relpath(folder) if folder.is_relative_to(Path.cwd()) else str(folder)
    console.print(
        "\n[bold]How to look at it[/bold]\n"
        "  make ui          the assets, their checks and plots, and the history of this run, in a browser\n"
        "  make notebook    the queue, its paths compared, lessons and recall, in notebooks\n"
        "  make run         one more round, drawn by what stands; the pipeline takes only what is new\n"
        "  .venv/bin/tessera serve, and in another terminal:\n"
        f'  curl -H "Authorization: Bearer $(cat {shlex.quote(f"{home}/admin.key")})" \\\n'
        f"    http://127.0.0.1:8765/v1/records/{STORE}/{card['key']}"
    )
