"""`tessera export`: the observations of a queue that the key may read, as JSON lines or Parquet.

Promises a whole file or none: it is written beside its place and moved there when it is complete and on the
disk. JSON lines hold the items as the store serves them; Parquet holds the columns of `tessera.cli.parquet`.
"""

import gzip
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from tessera.cli.terminal import Json, Progress, say, say_json, shown
from tessera.client import Client
from tessera.errors import TesseraError


def export(
    queue: Annotated[str, typer.Option(help="The queue whose observations are written.")],
    out: Annotated[Path, typer.Option(help="The file: .jsonl, .jsonl.gz or .parquet.", dir_okay=False)],
    kind: Annotated[str | None, typer.Option(help="Only this kind.")] = None,
    as_json: Json = False,
) -> None:
    """Write a queue's observations into a file, in capture order."""
    form = _form(out)
    if form == "parquet":
        from tessera.cli import parquet

        parquet.require()
    with Client() as client, _atomically(out) as file:
        ahead = client.pending(queue, kind=kind)
        items = client.iter_observations(queue, kind=kind)
        with Progress(f"exporting {queue}", None if ahead["capped"] else ahead["count"]) as progress:
            counted = _counted(items, progress)
            if form == "parquet":
                count = parquet.write(file, counted)
            else:
                count = _write_lines(file, counted, zipped=form == "gz")
    if as_json:
        say_json({"queue": queue, "kind": kind, "out": str(out), "observations": count})
    else:
        say(f"{count:,} observations of {shown(queue)} in {out}")


def _form(out: Path) -> str:
    name = out.name.lower()
    for suffix, form in ((".jsonl", "jsonl"), (".jsonl.gz", "gz"), (".parquet", "parquet")):
        if name.endswith(suffix):
            return form
    raise typer.BadParameter(f"{out.name} ends in none of .jsonl, .jsonl.gz, .parquet", param_hint="'--out'")


def _counted(items: Iterable[dict[str, Any]], progress: Progress) -> Iterator[dict[str, Any]]:
    for count, item in enumerate(items, 1):
        yield item
        progress.at(count)


def _write_lines(file: BinaryIO, items: Iterable[dict[str, Any]], *, zipped: bool) -> int:
    count = 0
    # No name and no time in the gzip header: the same observations give the same file.
    target: Any = gzip.GzipFile(filename="", fileobj=file, mode="wb", mtime=0) if zipped else file
    try:
        for item in items:
            target.write(json.dumps(item, ensure_ascii=False, separators=(",", ":")).encode() + b"\n")
            count += 1
    finally:
        if zipped:
            target.close()
    return count


@contextmanager
def _atomically(path: Path) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when the block ends well, and is gone when it does not."""
    if not path.parent.is_dir():
        raise TesseraError(f"cannot write {path}: {path.parent} is not a folder")
    part = path.with_name(f".{path.name}.{secrets.token_hex(4)}.part")
    try:
        with part.open("xb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        part.unlink(missing_ok=True)
