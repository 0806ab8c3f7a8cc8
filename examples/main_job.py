"""The main job on real work, as `make run` does it: draw, learn, judge, and go by what stands.

Three rounds the first time, then one more each time (`examples.rounds`). Everything it starts it stops, also
when interrupted; what was done until then stays, and the next run goes on. A fleet on one machine shows that
the machinery works, not that a learner improves real work.
"""

import argparse
import logging
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from assets import pack, specs
from examples import findings, fleet, rounds
from examples.compress import METHODS
from examples.inputs import SORTS, candidates
from examples.worker import QUEUE
from pipelines import attached, embedded, workspace
from tessera import Client
from tessera.errors import TesseraError
from tessera.settings import Settings

LEARNERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("path_statistics:wilson-grouping:v1", {}),
    ("path_statistics:wilson-grouping:v1", {"dimensions": ["category", "method"]}),
    ("memory:minhash-lsh:v1", {}),
    (rounds.WEIGHTS, {"dimension": rounds.DIMENSION}),
    (rounds.EVALUATION, {"dimension": rounds.DIMENSION}),
    ("lessons:review-and-learn:v1", {}),
)
"""What is switched on for the queue, with its options; each is shown to the queue's readers."""

console = Console(highlight=False, soft_wrap=True, emoji=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the job; 0 when all was done, 1 when something failed, 128 + the signal when stopped by one.

    While Dagster runs, which keeps the number of the signal to itself, that is 130.
    """
    chosen = _chosen(arguments)
    sizes = rounds.Sizes(chosen.least, chosen.judged, chosen.tasks)
    attached.end_on_signals()
    for library in ("dagster", "sqlalchemy.pool"):  # what they tell in passing; errors come back as outcomes
        logging.getLogger(library).setLevel(logging.CRITICAL)
    started = time.monotonic()
    try:
        settings = Settings.from_environment()
        with (
            embedded.store(settings) as settings,
            Client(settings.url, settings.require_key()) as admin,
            fleet.keys(admin) as keys,
        ):
            Job(settings, admin, keys, chosen.workers).run(sizes)
    except (TesseraError, OSError) as error:
        console.print(f"[bold]failed:[/bold] {escape(str(error))}")
        return 1
    except KeyboardInterrupt as stopped:
        console.print("stopped; nothing is left running, and the next run goes on from here")
        return getattr(stopped, "status", 130)
    console.print(f"\ndone in {time.monotonic() - started:.0f} s; nothing is left running")
    return 0


def _chosen(arguments: Sequence[str] | None) -> argparse.Namespace:
    sizes = rounds.Sizes()
    parser = argparse.ArgumentParser(prog="main_job", description=(__doc__ or "").splitlines()[0])
    for name, default, words in (
        ("--least", sizes.least, "attempts of each sort of input and method before weights are learned"),
        ("--judged", sizes.judged, "runs drawn uniformly after that, to judge the weights on"),
        ("--tasks", sizes.then, "runs of the last round, drawn by what stands"),
        ("--workers", 2, "worker processes"),
    ):
        parser.add_argument(name, type=int, default=default, help=f"{words} (default {default})")
    return parser.parse_args(arguments)


class Job:
    """One run of the job against the store at `settings.url`."""

    def __init__(self, settings: Settings, admin: Client, keys: fleet.Keys, workers: int) -> None:
        self.settings, self.admin, self.keys, self.workers = settings, admin, keys, workers
        self.reader = Client(settings.url, keys.reader)
        self.history = rounds.History(self.reader, QUEUE)
        self.next, self.cursor = fleet.finished(self.reader)

    def run(self, sizes: rounds.Sizes) -> None:
        """The rounds that the queue needs, each followed by the pipeline, and what came of it."""
        home, before = self.settings.home, self.next
        console.print(f"[bold]store[/bold]     {self.settings.url}, its files in {escape(str(home))}")
        console.print(f"[bold]learners[/bold]  installing the specs; {len(LEARNERS)} entries for {QUEUE}")
        configure(self.admin, home / "pack")
        if before:
            console.print(f"[bold]before[/bold]    {before} runs are there from before")
        self.learn(sizes.least)
        self.judge(sizes.judged)
        found = rounds.prediction(self.history)
        standing = found.candidate if found is not None and found.stands else None
        follow = "uniformly, as nothing stands" if standing is None else f"by weights version {standing}"
        since = self.cursor
        self.work("what stands", sizes.then, f"methods drawn {follow}")
        self.pipeline()
        self.history.read()
        findings.show(console, self.history, found, since, self.next, home)

    def learn(self, least: int) -> None:
        """Round one: uniform draws until weights can be learned."""
        kinds = [sort.kind for sort in SORTS if candidates(sort)]
        drawn = False
        while count := rounds.to_learn(self.history, kinds, list(METHODS), least):
            self.work("to learn", count, f"methods drawn uniformly, until each has {least} runs a kind")
            drawn = True
        if drawn or self.history.noun(rounds.WEIGHTS) is None:
            self.pipeline()

    def judge(self, judged: int) -> None:
        """Round two: uniform draws, unless something stands by now, to judge the first weights on."""
        count = rounds.to_judge(self.history, judged)
        if count:
            self.work("to judge", count, "methods drawn uniformly, to judge the weights on")
        evaluated = self.history.noun(rounds.EVALUATION)
        if count or evaluated is None or int(evaluated["body"]["cursor"]) < int(self.cursor):
            self.pipeline()

    def work(self, title: str, count: int, words: str) -> None:
        """Have the fleet do some more tasks. Raises TesseraError when nothing at all came of them."""
        console.print(f"[bold]{'work':<9}[/bold] {count} tasks, {words}")
        with Client(self.settings.url, self.keys.enqueuer) as enqueuer, _bar(count) as bar:
            fleet.enqueue(enqueuer, self.next, count)
            row = bar.add_task(title, total=count)
            fleet.work(
                self.settings.url,
                self.keys.worker,
                self.workers,
                self.settings.home / "logs",
                lambda: bar.update(row, completed=fleet.finished(self.reader, self.cursor)[0]),
            )
        self.next += count
        done, self.cursor = fleet.finished(self.reader, self.cursor)
        if count and not done:
            raise TesseraError(f"none of {count} tasks was done; the workers' words are in logs")

    def pipeline(self) -> None:
        """The whole workspace for the queue, in this process. Raises TesseraError when it fails."""
        began = time.monotonic()
        (outcome,) = workspace.run_all(self.settings, self.admin, [QUEUE])
        if outcome["error"] is not None:
            raise TesseraError(outcome["error"])
        made = outcome["materialized"]
        console.print(
            f"[bold]pipeline[/bold]  {made['observations']['rows_added']} new runs pulled; "
            f"{', '.join(name for name in made if name != 'observations')} "
            f"({time.monotonic() - began:.0f} s)"
        )


def configure(admin: Client, folder: Path) -> None:
    """Install the specs and switch the learners on, each shown to the queue's readers; safe to repeat."""
    pack.write(folder)
    specs.install(admin, pack.read(folder))
    for spec, options in LEARNERS:
        specs.configure(admin, spec, QUEUE, surface=True, options=options)


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
