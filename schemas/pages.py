"""Pages of observations, from the bytes that the store sends to typed rows, without a Python object a row.

Promises that a page read fast gives the frame that `schemas.observations.frame` gives for its items, to the
bit: what the fast reader cannot take to the letter it leaves to the exact one, which names each fault. Leaves
out asking for pages and writing rows.
"""

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj

from schemas.observations import (
    COLUMNS,
    ITEM_SCHEMA,
    PATHS,
    SCHEMA,
    broken_rules,
    frame_of_rows,
    row,
    shape_text,
)
from tessera.errors import Fault, TesseraError

_CURSOR = re.compile(r"[0-9]{1,19}")
_ZULU = r"\A[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-5][0-9]\.[0-9]{3}Z\z"
_SHAPE = b'"shape":'
_TIMES = tuple(column.name for column in COLUMNS if isinstance(column.dtype, pl.Datetime))
_REQUIRED = tuple(column.name for column in COLUMNS if not column.nullable)


class PageError(TesseraError):
    """A page that is no page: nothing of it is kept, and the cursor stays before it."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """What surrounds a page's items; `next_after` is the cursor to go on from."""

    store_id: str
    next_after: int
    has_more: bool


@dataclass(frozen=True, slots=True)
class Misfit:
    """An item that is no observation: what it is called, why not, and its JSON text."""

    cursor: int | None
    run_id: str | None
    faults: tuple[Fault, ...]
    item: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page's rows, of the types of `SCHEMA`, and the items that have none."""

    rows: pl.DataFrame
    misfits: tuple[Misfit, ...] = field(default=())


def envelope(body: bytes) -> Envelope:
    """The page's envelope, read without its items. Raises PageError naming what is wrong."""
    start, end = body.find(b"["), body.rfind(b"]")
    outside: Any = None
    if 0 <= start < end:
        try:
            outside = json.loads(body[: start + 1] + body[end:])
        except ValueError:
            outside = None
    if not isinstance(outside, dict) or outside.get("items") != []:
        outside = _object(body)
    if not isinstance(outside.get("items"), list):
        raise PageError(f"a page of the store has no list of items but {outside.get('items')!r:.80}")
    store_id, after, more = outside.get("store_id"), outside.get("next_after"), outside.get("has_more")
    if not isinstance(store_id, str) or not isinstance(more, bool):
        raise PageError(f"a page of the store has store_id {store_id!r:.80} and has_more {more!r:.80}")
    if not isinstance(after, str) or not _CURSOR.fullmatch(after) or int(after) >= 2**63:
        raise PageError(f"a page of the store has next_after {after!r:.80}, which is no cursor")
    return Envelope(store_id, int(after), more)


def read(bodies: Sequence[bytes], queue: str | None = None) -> Page:
    """Rows and misfits of adjacent pages, in order: fast where every item is good, else item by item.

    An item of another queue than the one asked for is a misfit. A handful of pages at once costs half of what
    they cost one by one.
    """
    try:
        rows = read_fast(bodies)
        if not broken_rules(rows) and (queue is None or (rows["queue"] == queue).all()):
            return Page(rows)
    except (pa.ArrowException, pl.exceptions.PolarsError, UnicodeDecodeError, _NotToTheLetter):
        pass
    pages = [_exact(bodies[0], queue)] if len(bodies) == 1 else [read([body], queue) for body in bodies]
    return Page(
        pl.concat([page.rows for page in pages]), tuple(bad for page in pages for bad in page.misfits)
    )


class _NotToTheLetter(Exception):  # noqa: N818 - never leaves this module
    """The fast reader will not vouch for this page."""


def _object(body: bytes) -> dict[str, Any]:
    try:
        page = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise PageError(f"a page of the store is not JSON: {error}") from None
    if not isinstance(page, dict):
        raise PageError("a page of the store is not an object")
    return page


def _exact(body: bytes, queue: str | None) -> Page:
    items = _object(body)["items"]
    pairs = [row(item) for item in items]
    broken = broken_rules(frame_of_rows([values for values, _ in pairs]))
    good, misfits = [], []
    for number, (values, faults) in enumerate(pairs):
        faults = [*faults, *broken.get(number, [])]
        if queue is not None and values["queue"] not in (None, queue):
            faults.append(Fault("server.queue", f"must be {queue}, the queue asked for"))
        if faults:
            misfits.append(Misfit(values["cursor"], values["run_id"], tuple(faults), _text(items[number])))
        else:
            good.append(values)
    return Page(frame_of_rows(good), tuple(misfits))


def _text(item: Any) -> str:
    return json.dumps(item, sort_keys=True, separators=(",", ":"))


def read_fast(bodies: Sequence[bytes]) -> pl.DataFrame:
    """Rows of adjacent pages whose every item fits to the letter; raises for any other."""
    body = b"\n".join(bodies)
    if not body.isascii():
        body.decode()
    table = pj.read_json(
        pa.BufferReader(body),
        read_options=pj.ReadOptions(use_threads=False, block_size=len(body) + 1),
        parse_options=pj.ParseOptions(explicit_schema=_PAGE, unexpected_field_behavior="ignore"),
    )
    items = table.column("items").combine_chunks().flatten()
    if len(items) == 0:
        return frame_of_rows([])
    if (
        items.null_count
        or not pc.all(pc.equal(_reach(items, "schema"), ITEM_SCHEMA), skip_nulls=False).as_py()
    ):
        raise _NotToTheLetter
    reported = pc.is_valid(_reach(items, "report"))
    plain = [column for column in COLUMNS if column.name not in ("shape", "has_report", "model_reported")]
    frame = pl.DataFrame(
        pl.from_arrow(pa.table({column.name: _reach(items, column.path) for column in plain})),
    ).with_columns(
        pl.Series("shape", _shapes(body, _reach(items, "brief.shape")), dtype=pl.String()),
        pl.Series("has_report", pl.from_arrow(reported)),
        pl.Series(
            "model_reported", pl.from_arrow(_declared(reported, _reach(items, PATHS["model_reported"])))
        ),
    )
    _vouch(frame)
    return frame.with_columns(
        pl.col("cursor").cast(pl.Int64()),
        pl.col(_TIMES).str.to_datetime("%Y-%m-%dT%H:%M:%S%.3fZ", time_unit="us").dt.replace_time_zone("UTC"),
    ).select(list(SCHEMA))


def _reach(items: Any, path: str) -> Any:
    return pc.struct_field(items, path.split("."))


def _declared(reported: Any, model_reported: Any) -> Any:
    return pc.if_else(reported, model_reported, pa.scalar(False))


def _vouch(frame: pl.DataFrame) -> None:
    """Raise unless every text that is parsed here stands in the one form that both readers take alike."""
    good = frame.select(
        pl.col("cursor").str.contains(r"\A[0-9]{1,19}\z").all(),
        pl.col(_TIMES).str.contains(_ZULU).all(),
    )
    if not all(good.row(0)) or any(frame[name].null_count() for name in _REQUIRED):
        raise _NotToTheLetter


def _shapes(body: bytes, objects: Any) -> list[str]:
    """Each item's shape as canonical text, cut out of the page's bytes.

    A quote that is not escaped can begin `"shape":` only where a key does, and only the brief's own is
    followed by an object: inside a shape the values are strings. A doubt leaves the page to the exact reader.
    """
    texts = [_shape_at(part) for part in body.split(_SHAPE)[1:] if part.startswith(b"{")]
    if objects.null_count or len(texts) != len(objects):
        raise _NotToTheLetter
    return texts


def _shape_at(part: bytes) -> str:
    text = part[: part.find(b"}") + 1]
    try:
        return _canonical(text)
    except ValueError:  # a key may hold a brace: find the object's true end
        pass
    try:
        shape, _ = json.JSONDecoder().raw_decode(part.decode())
    except ValueError:
        raise _NotToTheLetter from None
    return _checked(shape)


@lru_cache(maxsize=4096)
def _canonical(text: bytes) -> str:
    return _checked(json.loads(text))


def _checked(shape: Any) -> str:
    if not isinstance(shape, dict) or not all(isinstance(entry, str) for entry in shape.values()):
        raise _NotToTheLetter
    try:
        return shape_text(shape)
    except ValueError:
        raise _NotToTheLetter from None


def _arrow(dtype: Any) -> pa.DataType:
    match dtype:
        case dict():
            return pa.struct([(name, _arrow(inner)) for name, inner in dtype.items()])
        case pl.List():
            return pa.list_(_arrow(dtype.inner))
        case pl.Struct():
            return pa.struct([(inner.name, _arrow(inner.dtype)) for inner in dtype.fields])
        case pl.Int64():
            return pa.int64()
        case pl.Float64():
            return pa.float64()
        case pl.Boolean():
            return pa.bool_()
        case _:
            return pa.string()


def _page_schema() -> pa.Schema:
    """An item as the tree of its columns' paths; the shape only as an object, its keys being free."""
    tree: dict[str, Any] = {"schema": pl.String()}
    for column in COLUMNS:
        *parents, leaf = column.path.split(".")
        node = tree
        for parent in parents:
            node = node.setdefault(parent, {})
        if leaf not in node:
            node[leaf] = {"shape": {}, "cursor": pl.String(), "report": {}}.get(leaf, column.dtype)
    return pa.schema([("items", pa.list_(_arrow(tree)))])


_PAGE = _page_schema()
