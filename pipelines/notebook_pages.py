"""What the notebooks share: the store as an analyst meets it, and figures as plain HTML.

Promises that stored text is shown as text, whatever it holds, and that pictures and tables need no script, no
browser state and no network: a page says the same in the editor, as an app and exported. DuckDB gets the
lake's rows through Arrow, in memory, and can reach neither files nor extensions. Leaves out the questions:
each notebook asks its own.
"""

from collections.abc import Mapping, Sequence
from html import escape
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import polars as pl

from assets.lake import Lake
from assets.plots import drawable
from pipelines import embedded
from tessera.advice.index import STORE as INDEX_STORE
from tessera.advice.similar import head_key
from tessera.client import Client
from tessera.errors import Forbidden, NotFound, TesseraError
from tessera.settings import Settings

if TYPE_CHECKING:
    import duckdb
    import marimo

ACCEPTED, FAILED, SMALL_SAMPLE, QUIET = "#1f6feb", "#d1570a", "#9a9a9a", "#c9d4ea"
LOOKS: dict[str, Any] = {
    "background": "white",
    "axis": {"labelFontSize": 12, "titleFontSize": 12},
    "legend": {"labelFontSize": 12, "titleFontSize": 12},
    "header": {"labelFontSize": 13},
}
_TEXT, _WORD = 160, 26
_CELL = "padding:.25rem .45rem;text-align:{};border-bottom:1px solid #d0d7de;vertical-align:top"


def store(settings: Settings) -> Client | None:
    """A client of the store, None when none answers that takes the key. Asks the port first: it is quick."""
    host = urlsplit(settings.url).hostname or embedded.LOOPBACK
    if not embedded.listens(host, embedded.port_of(settings.url)):
        return None
    try:
        client = Client(settings.url, settings.require_key())
        client.whoami()
    except TesseraError:
        return None
    return client


def queues(lake: Lake, asked: Any = None) -> list[str]:
    """The lake's queues, the one that was asked for first."""
    found = lake.queues()
    return sorted(found, key=lambda name: (name != asked, name))


def indexed(client: Client, queue: str) -> bool:
    """Whether the queue has a memory index that the client's key may read."""
    try:
        client.get_record(INDEX_STORE, head_key(queue))
    except (NotFound, Forbidden):
        return False
    return True


def block(html: str) -> "marimo.Html":
    """HTML as a cell shows it, its headings and paragraphs looking like those of text cells."""
    import marimo

    return marimo.Html(f'<div class="markdown prose dark:prose-invert contents">{html}</div>')


def nothing_yet(what: str, where: str, *steps: str) -> str:
    """A page instead of an empty one: what is missing, where it was looked for, and what to do."""
    todo = "".join(f"<li>{step}</li>" for step in steps)
    return f"<h2>{escape(what)}</h2><p>Looked at <code>{escape(where)}</code>.</p><ul>{todo}</ul>"


EMPTY_STEPS = (
    "<code>make run</code> fills the lake once with real work of this machine;",
    "for your own queue, <code>workspace run --queue NAME</code> pulls its runs and learns from them.",
    "Then open this page again.",
)
NO_STORE_STEPS = (
    "<code>make notebook</code> and <code>make notebook-html</code> start this home's store by themselves;",
    "<code>tessera serve</code> starts it alone.",
    "For a store elsewhere set <code>TESSERA_URL</code> and <code>TESSERA_KEY</code>.",
)


def table(columns: Mapping[str, str], rows: Sequence[Mapping[str, Any]], most: int = 40) -> str:
    """An HTML table: `columns` are titles by field, a title that ends in ``#`` is of numbers.

    Unknown is a dash, never 0. Past `most` rows it says how many there are.
    """
    sides = {name: _side(title, [row[name] for row in rows[:most]]) for name, title in columns.items()}
    head = "".join(
        f'<th style="{_CELL.format(sides[name].partition(";")[0])}">{escape(title.removesuffix("#"))}</th>'
        for name, title in columns.items()
    )
    body = "".join(
        "<tr>"
        + "".join(f'<td style="{_CELL.format(sides[name])}">{shown(row[name])}</td>' for name in columns)
        + "</tr>"
        for row in rows[:most]
    )
    rest = f"<p>The first {most} of {len(rows):,} rows.</p>" if len(rows) > most else ""
    style = "border-collapse:collapse;font-size:.9rem;margin:.75rem 0"
    return f'<table style="{style}"><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{rest}'


def _side(title: str, values: Sequence[Any]) -> str:
    """How a column's cells stand: numbers to the right; numbers, names and ids in one line."""
    words = all(len(str(value)) <= _WORD and " " not in str(value) for value in values)
    wrap = ";white-space:nowrap" if words or title.endswith("#") else ""
    return ("right" if title.endswith("#") else "left") + wrap


def shown(value: Any, most: int = _TEXT) -> str:
    """A value as harmless text: unknown is a dash, floats have three digits, texts beyond `most` are cut."""
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.3g}" if abs(value) < 1000 else f"{value:,.0f}"
    if isinstance(value, int):
        return f"{value:,}"
    text = " ".join(str(value).split())
    return escape(text if len(text) <= most else f"{text[: most - 1]}…")


def span(low: float | None, high: float | None) -> str | None:
    """An interval of shares, such as ``83% to 99%``."""
    return None if low is None or high is None else f"{low:.0%} to {high:.0%}"


def picture(chart: Any, description: str) -> str:
    """An altair chart as an SVG in the page, with a description for those who do not see it."""
    import vl_convert

    svg = vl_convert.vegalite_to_svg(drawable(chart.configure(**LOOKS).to_dict()))
    labelled = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(description)}" ', 1)
    return f'<div style="overflow-x:auto;margin:.75rem 0">{labelled}</div>'


def sql(query: str, **tables: pl.DataFrame) -> pl.DataFrame:
    """What DuckDB answers over frames, each a table of its name."""
    with _duckdb() as connection:
        for name, frame in tables.items():
            connection.register(name, frame.to_arrow())
        answer = connection.sql(query).to_arrow_table()
    found = pl.from_arrow(answer)
    if not isinstance(found, pl.DataFrame):
        raise TypeError("DuckDB answered no table")
    return found


def _duckdb() -> "duckdb.DuckDBPyConnection":
    import duckdb

    closed = ("enable_external_access", "autoinstall_known_extensions", "autoload_known_extensions")
    return duckdb.connect(":memory:", config=dict.fromkeys(closed, "false"))
