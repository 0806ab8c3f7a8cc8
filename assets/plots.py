"""Plots for a materialization's metadata: small pictures, drawn without a browser or the network.

Promises a bounded size and no figure that is not in the noun: unknown is left out, never drawn as 0. The
drawing library is loaded only when something is drawn: it takes as long to load as a command to run.
"""

import base64
import re
import struct
import zlib
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

MOST_GROUPS = 20
MOST_ARMS = 40
MOST_PANELS = 6
MOST_LINES = 12
LARGEST_PNG = 200_000
_LABEL = 60
_NOT_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_PAIRS = re.compile("[\U00010000-\U0010ffff]")
_NEVER_CUT = 10  # code points that fit wherever a text stands
_LINES = re.compile("[\n\r\u2028\u2029]")
_SIGNATURE = 8  # bytes before the first chunk


def label(dimensions: Mapping[str, str | None]) -> str:
    """A group's dimensions in one line; an absent value is a dash, a declared absence ``none``."""
    if not dimensions:
        return "all"
    shown = ("–" if value is None else value or "none" for value in dimensions.values())
    text = " · ".join(shown)
    return text if len(text) <= _LABEL else f"{text[: _LABEL - 1]}…"


def intervals(groups: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """A PNG of acceptance rates with their 95% intervals, the groups with most attempts first."""
    import altair as alt

    shown = [group for group in groups if group["attempts"]][:MOST_GROUPS]
    rows = pl.DataFrame(
        {
            "position": list(range(len(shown))),
            "group": [
                f"{position + 1}. {label(group['dimensions'])} ({group['attempts']})"
                for position, group in enumerate(shown)
            ],
            "rate": [group["acceptance_rate"] for group in shown],
            "low": [group["wilson_low"] for group in shown],
            "high": [group["wilson_high"] for group in shown],
            "sample": ["under 5 attempts" if group["small"] else "5 attempts or more" for group in shown],
        },
        schema_overrides={"rate": pl.Float64, "low": pl.Float64, "high": pl.Float64},
    )
    base = alt.Chart(alt.InlineData(values=rows.to_dicts())).encode(
        y=_rows_in_order("group"),
        color=alt.Color(
            "sample:N",
            title=None,
            scale=alt.Scale(domain=["5 attempts or more", "under 5 attempts"], range=["#1f6feb", "#9a9a9a"]),
            legend=alt.Legend(orient="bottom"),
        ),
    )
    scale = alt.Scale(domain=[0, 1])
    lines = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=scale, title="accepted, with 95% Wilson interval"), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("rate:Q", scale=scale))
    chart = (lines + points).properties(title=title, width=420, height=alt.Step(18))
    return png(chart)


def posteriors(categories: Sequence[Mapping[str, Any]], title: str) -> bytes:
    """A PNG of routing weights: each arm's posterior mean with its 95% interval, and its weight."""
    import altair as alt

    rows: list[dict[str, Any]] = []
    for category in categories:
        for arm in category["arms"]:
            if len(rows) < MOST_ARMS:
                dimensions = {"category": category["category"], "arm": arm["arm"]}
                rows.append(
                    {
                        "position": len(rows),
                        "arm": f"{len(rows) + 1}. {label(dimensions)} ({arm['attempts']})",
                        "low": arm["interval_low"],
                        "high": arm["interval_high"],
                        **{name: arm[name] for name in ("mean", "weight")},
                    }
                )
    base = alt.Chart(alt.InlineData(values=rows)).encode(y=_rows_in_order("arm"))
    x = alt.Scale(domain=[0, 1])
    colour = alt.Scale(domain=["posterior, 95%", "weight"], range=["#1f6feb", "#d1570a"])
    legend = alt.Legend(orient="bottom")

    def kind(name: str) -> Any:
        return alt.Color("kind:N", title=None, scale=colour, legend=legend), f"'{name}'"

    (posterior, is_posterior), (weight, is_weight) = kind("posterior, 95%"), kind("weight")
    of_posterior = base.transform_calculate(kind=is_posterior)
    lines = of_posterior.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", scale=x, title="acceptance, and share of the work"), x2="high:Q", color=posterior
    )
    means = of_posterior.mark_point(filled=True, size=60, opacity=1).encode(
        x=alt.X("mean:Q", scale=x), color=posterior
    )
    of_weight = base.transform_calculate(kind=is_weight)
    weights = of_weight.mark_tick(thickness=3, size=14).encode(x=alt.X("weight:Q", scale=x), color=weight)
    return png((lines + means + weights).properties(title=title, width=420, height=alt.Step(18)))


def estimates(spans: Sequence[tuple[str, str, Mapping[str, Any]]], title: str) -> bytes:
    """A PNG of estimates with their intervals; each is a name, a kind and ``{estimate, low, high}``."""
    import altair as alt

    rows = [
        {"position": place, "estimate": name, "kind": kind, "value": one.get("estimate")}
        | {end: one[end] for end in ("low", "high")}
        for place, (name, kind, one) in enumerate(spans)
        if one["low"] is not None
    ]
    base = alt.Chart(alt.InlineData(values=rows)).encode(
        y=_rows_in_order("estimate"),
        color=alt.Color("kind:N", title=None, legend=alt.Legend(orient="bottom")),
    )
    lines = base.mark_rule(strokeWidth=2).encode(
        x=alt.X("low:Q", title="acceptance, with its interval"), x2="high:Q"
    )
    points = base.mark_point(filled=True, size=60, opacity=1).encode(x="value:Q")
    zero = alt.Chart(alt.InlineData(values=[{"at": 0}])).mark_rule(strokeDash=[4, 4]).encode(x="at:Q")
    return png((zero + lines + points).properties(title=title, width=420, height=alt.Step(18)))


def bars(values: Sequence[tuple[str, float]], what: str, amount: str) -> bytes:
    """A PNG with one bar a value, in their order."""
    import altair as alt

    rows = [{"position": place, what: name, amount: value} for place, (name, value) in enumerate(values)]
    order = alt.EncodingSortField(field="position", order="ascending")
    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar(color="#1f6feb")
    axes = chart.encode(x=alt.X(f"{what}:N", sort=order), y=alt.Y(f"{amount}:Q"))
    return png(axes.properties(width=420, height=160))


def _rows_in_order(name: str) -> Any:
    """The vertical axis: one line a row, in the order of ``position``."""
    import altair as alt

    order = alt.EncodingSortField(field="position", order="ascending")
    return alt.Y(f"{name}:N", sort=order, title=None, axis=alt.Axis(labelLimit=420))


def png(chart: Any) -> bytes:
    """An altair chart as a PNG."""
    import vl_convert

    return packed(bytes(vl_convert.vegalite_to_png(drawable(chart.to_dict()), scale=1)))


def drawable(spec: Any) -> Any:
    """A chart's document that can be drawn, whatever workers call their methods.

    What XML has no character for becomes U+FFFD: a NUL in a label would end this process, not the drawing
    alone. So does what takes two UTF-16 units in a long text, which Vega may cut between them; and the end of
    a line a space, since an order of names that hold one is no expression of Vega's.
    """
    if isinstance(spec, str):
        text = _NOT_XML.sub("\ufffd", _LINES.sub(" ", spec))
        return text if len(text) <= _NEVER_CUT else _PAIRS.sub("\ufffd", text)
    if isinstance(spec, Mapping):
        return {name: drawable(value) for name, value in spec.items()}
    return [drawable(value) for value in spec] if isinstance(spec, list | tuple) else spec


def packed(picture: bytes) -> bytes:
    """The same PNG, several times smaller: the drawing library compresses for speed, and Dagster keeps each
    picture three times. Pixels and all other chunks stay as they are (PNG, third edition, sections 5 and 10).
    """
    made, pixels, place = [picture[:_SIGNATURE]], b"", _SIGNATURE
    while place < len(picture):
        (size,) = struct.unpack_from(">I", picture, place)
        chunk, place = picture[place : place + 12 + size], place + 12 + size
        kind, content = chunk[4:8], chunk[8:-4]
        if kind == b"IDAT":
            pixels += content
        elif kind == b"IEND":
            made += [_chunk(b"IDAT", zlib.compress(zlib.decompress(pixels), 9)), chunk]
        else:
            made.append(chunk)
    return b"".join(made)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def inline(picture: bytes, description: str) -> str:
    """A PNG as an image in markdown, or a sentence instead of one that would be too large to keep."""
    if len(picture) > LARGEST_PNG:
        return f"The plot of {description} is {len(picture)} bytes and was left out."
    return f"![{description}](data:image/png;base64,{base64.b64encode(picture).decode()})"


def ranked(values: Sequence[tuple[str, float]], amount: str) -> bytes:
    """A PNG with one horizontal bar a value, in their order, its name beside it."""
    import altair as alt

    rows = [
        {"position": place, "name": f"{place + 1}. {label({'': name})}", "value": value}
        for place, (name, value) in enumerate(values[:MOST_GROUPS])
    ]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_bar(color="#1f6feb")
    chart = chart.encode(y=_rows_in_order("name"), x=alt.X("value:Q", title=amount))
    return png(chart.properties(width=420, height=alt.Step(18)))


def lines(series: Sequence[tuple[float, str, float]], title: str) -> bytes:
    """A PNG of values over time: each point is seconds since 1970, the name of its line, and the value."""
    import altair as alt

    names = list(dict.fromkeys(name for _, name, _ in series))[:MOST_LINES]
    rows = [{"at": at * 1000, "name": name, "value": value} for at, name, value in series if name in names]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(point=True, interpolate="step-after")
    chart = chart.encode(
        x=alt.X("at:T", title=None, scale=alt.Scale(type="utc")),
        y=alt.Y("value:Q", title=title, scale=alt.Scale(type="symlog", domainMin=0)),
        color=alt.Color("name:N", title=None, legend=alt.Legend(orient="bottom", columns=3)),
    )
    return png(chart.properties(width=480, height=200))


def over_versions(weights: Sequence[tuple[int, str, str, float]], title: str) -> bytes:
    """A PNG of weights from version to version, a panel a category: version, category, arm, weight."""
    import altair as alt

    categories = list(dict.fromkeys(category for _, category, _, _ in weights))[:MOST_PANELS]
    arms = list(dict.fromkeys(arm for _, _, arm, _ in weights))[:MOST_LINES]
    rows = [
        {"version": version, "category": category, "arm": arm, "weight": weight}
        for version, category, arm, weight in weights
        if category in categories and arm in arms
    ]
    chart = alt.Chart(alt.InlineData(values=rows)).mark_line(point=True)
    chart = chart.encode(
        x=alt.X("version:O", axis=alt.Axis(labelAngle=0, labelOverlap=True)),
        y=alt.Y("weight:Q", scale=alt.Scale(domainMin=0)),
        color=alt.Color(
            "arm:N",
            title=None,
            sort=arms,
            scale=alt.Scale(scheme="tableau20" if len(arms) > 10 else "tableau10"),
            legend=alt.Legend(orient="bottom", columns=5),
        ),
    )
    panels = chart.properties(width=230, height=120).facet(
        alt.Facet("category:N", title=None, sort=categories), columns=2
    )
    return png(panels.properties(title=title))
