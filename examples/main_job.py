"""The main job on real work, as `make run` does it: store, fleet, pull, learn, publish, and what was learned.

Everything it starts it stops, also when interrupted; what was done until then stays, and the next run goes
on. A fleet on one machine shows that the machinery works, not that a learner improves real work.
"""

import argparse
import os
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from examples import fleet
from examples.scorecard import by_kind_and_method
from examples.worker import QUEUE
from pipelines import attached, embedded
from tessera import Client
from tessera.errors import TesseraError
from tessera.settings import Settings

SPEC = "path_statistics:wilson-grouping:v1"
STORE = "learn.outputs"
DEFAULT_CARD = f"{SPEC}:{QUEUE}"
METHOD_CARD = f"{SPEC}:{QUEUE}:category+method"

console = Console(highlight=False, soft_wrap=True)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 when all was done, 1 when something failed, 128 + the signal when stopped by one."""
    parser = argparse.ArgumentParser(prog="main_job", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--tasks", type=int, default=400, help="how many tasks to enqueue (default 400)")
    parser.add_argument("--workers", type=int, default=2, help="how many worker processes (default 2)")
    chosen = parser.parse_args(arguments)
    attached.end_on_signals()
    started = time.monotonic()
    try:
        settings = Settings.from_environment()
        with embedded.store(settings) as settings:
            run(settings, chosen.tasks, chosen.workers)
    except (TesseraError, OSError) as error:
        console.print(f"[bold]failed:[/bold] {error}")
        return 1
    except attached.Stopped as stopped:
        console.print("stopped; nothing is left running, and the next run goes on from here")
        return stopped.status
    console.print(f"\ndone in {time.monotonic() - started:.0f} s; nothing is left running")
    return 0


def run(settings: Settings, tasks: int, workers: int) -> None:
    """The steps, in order, against the store at `settings.url`."""
    console.print(f"[bold]1 store[/bold]    {settings.url}, its files in {settings.home}")
    with Client(settings.url, settings.require_key()) as admin, fleet.keys(admin) as keys:
        reader = Client(settings.url, keys.reader)
        before, cursor = fleet.finished(reader)
        console.print(f"[bold]2 learner[/bold]  installing the specs; two scorecards for {QUEUE}")
        configure(settings)
        console.print(
            f"[bold]3 work[/bold]     {tasks} tasks on files of this machine, by {workers} workers"
            + (f"; {before} runs are there from before" if before else "")
        )
        fleet.enqueue(Client(settings.url, keys.enqueuer), before, tasks)
        with _bar(tasks) as bar:
            row = bar.add_task("compressing", total=tasks)
            fleet.work(
                settings.url,
                keys.worker,
                workers,
                settings.home / "logs",
                lambda: bar.update(row, completed=fleet.finished(reader, cursor)[0]),
            )
        console.print("[bold]4 pipeline[/bold] pull, check, learn, publish")
        command(settings, "pipelines.workspace:main", "run", "--queue", QUEUE)
        show(settings, reader)


def configure(settings: Settings) -> None:
    """Install the specs and put two scorecards for the queue into the config, both visible to its readers."""
    pack = settings.home / "pack"
    log = settings.home / "logs" / "learner.log"
    entry = ("pipelines.learner:main", "configure", SPEC, "--queue", QUEUE, "--surface")
    command(settings, "pipelines.learner:main", "pack", "--output", str(pack), log=log)
    command(settings, "pipelines.learner:main", "install", str(pack), log=log)
    command(settings, *entry, log=log)
    command(settings, *entry, "--option", 'dimensions=["category","method"]', log=log)


def command(settings: Settings, entry: str, *arguments: str, log: Path | None = None) -> None:
    """Run one of the project's commands against the store, to its end. Raises TesseraError when it fails."""
    child = attached.start(entry, *arguments, env={"TESSERA_URL": settings.url}, log=log)
    with attached.stopping(child):
        status = child.wait()
    if status != 0:
        name = entry.removeprefix("pipelines.").partition(":")[0]
        words = f"; its words are in {log}" if log else ""
        raise TesseraError(f"`{name} {' '.join(arguments)}` ended with status {status}{words}")


def show(settings: Settings, reader: Client) -> None:
    """Print what was learned, read back with a key that may only read this queue, and where it is."""
    cards = [reader.get_record(STORE, key) for key in (DEFAULT_CARD, METHOD_CARD)]
    body = cards[1]["body"]
    count = body["window"]["count"]
    console.print(f"\n[bold]What was learned[/bold] from {count} runs: which method fits which input\n")
    console.print(by_kind_and_method(body, console.width))
    console.print(
        f"\nlabel: {body['label']} ({body['label_reason']})\n"
        "A local fleet shows that the machinery works, not that a learner improves real work."
    )
    console.print("\n[bold]Where it is[/bold]: published in the store, each version kept")
    for card in cards:
        console.print(
            f"  {card['store']} / {card['key']}  version {card['version']}  sha256 {card['sha256'][:12]}…"
        )
    home = os.path.relpath(settings.home) if settings.home.is_relative_to(Path.cwd()) else str(settings.home)
    console.print(
        "\n[bold]How to look at it[/bold]\n"
        "  make ui          the assets, their checks and plots, and the history of this run, in a browser\n"
        "  make notebook    the queue, its paths compared, lessons and recall, in notebooks\n"
        "  make run         more work on the same queue; the pipeline takes only what is new\n"
        f"  .venv/bin/tessera serve, and in another terminal:\n"
        f'  curl -H "Authorization: Bearer $(cat {home}/admin.key)" \\\n'
        f"    http://127.0.0.1:8765/v1/records/{STORE}/{METHOD_CARD}"
    )


def _bar(total: int) -> Progress:
    columns = (
        TextColumn("           {task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    return Progress(*columns, console=console, disable=total == 0 or not console.is_terminal)


if __name__ == "__main__":
    sys.exit(main())
