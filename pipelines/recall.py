"""`learner recall`: what happened when runs like this one were tried, by hand.

Promises the result of `tessera.advice.recall`, as tables or as JSON. Stored text is shown as harmless text.
"""

from pathlib import Path
from typing import Annotated, Any

import typer

from tessera.cli.terminal import Json, say, say_json, say_table, shown

_TEXT = 72  # characters of a stored text in a table


def recall(
    queue: Annotated[str, typer.Option("--queue", help="The queue whose index is asked.")],
    category: Annotated[str, typer.Option("--category", help="The kind of work, such as verb.summarize.")],
    text: Annotated[str, typer.Option("--text", help="What the work is about, in the words of its brief.")],
    kind: Annotated[
        str | None, typer.Option("--kind", help="The index of one kind of work, where there is one.")
    ] = None,
    input_digest: Annotated[
        str | None, typer.Option("--input-digest", help="As the claim answered it: finds equal inputs.")
    ] = None,
    limit: Annotated[int, typer.Option("--limit", min=0, max=100, help="Matches to read back.")] = 10,
    cache: Annotated[
        Path | None,
        typer.Option("--cache", help="A folder to keep what was read in, by digest.", file_okay=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Recall runs that are like a text, and what became of them."""
    from tessera.advice import Cache
    from tessera.advice import recall as ask

    found = ask(
        queue,
        category,
        {"problem": text},
        kind=kind,
        input_digest=input_digest,
        limit=limit,
        cache=Cache(cache),
    )
    if as_json:
        say_json(found)
    else:
        _tell(queue, found)


def _tell(queue: str, found: dict[str, Any]) -> None:
    if found["advice"] is None:
        say(f"no memory index of queue {shown(queue)} that this key may read advises: nothing is recalled")
        return
    about, figures = found["index"], found["statistics"]
    say(f"{about['entries']} runs are indexed, up to cursor {about['cursor']}; later ones after its next run")
    if not figures["attempts"]:
        say("none of them is like this text")
        return
    say_table(
        ("run", "likeness#", "result", "kind", "what went wrong"),
        [
            (
                match["run_id"],
                "equal" if match["exact"] else f"{match['similarity']:.2f}",
                match["entry"]["result"],
                match["entry"]["kind"],
                shown(match["entry"]["failure_reason"] or match["entry"]["problems"])[:_TEXT],
            )
            for match in found["matches"]
        ],
    )
    low, high = figures["wilson_low"], figures["wilson_high"]
    say(
        f"{figures['accepted']} of {figures['attempts']} like runs were accepted "
        f"({low:.0%} to {high:.0%}), at {figures['distinct_tasks']} tasks, {figures['retried']} as retries"
    )
    medians = {
        "held for": (figures["median_server_duration_seconds"], "s"),
        "reported duration": (figures["median_reported_duration_seconds"], "s"),
        "tokens": (figures["median_total_tokens"], ""),
        **{f"cost in {name}": (value, "") for name, value in figures["median_cost"].items()},
    }
    known = [f"{name} {value:,.4g}{unit}" for name, (value, unit) in medians.items() if value is not None]
    say("medians: " + ("; ".join(known) or "nothing is known"))
    for reason in figures["failure_reasons"][:3]:
        say(f"  {reason['count']} × {shown(reason['text'])[:_TEXT]}")
    say("evidence only: a like run is no permission to reuse what it made, validate before you do")
