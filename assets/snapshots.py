"""A Delta table at one version, on a folder or on object storage, and how its rows are read.

Promises that local files are found under any path, that polars asks where deltalake does, and that a fault of
the storage is a LakeError which says what to do and holds no secret. Leaves out writing: see `assets.lake`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow.fs
from deltalake import DeltaTable
from deltalake.exceptions import CommitFailedError, DeltaError
from deltalake.fs import DeltaStorageHandler

from assets import object_storage
from assets.views import LakeConflictError, LakeError


class Snapshot(DeltaTable):
    """A Delta table as it was when it was opened, or as its own last commit left it.

    deltalake gives a local table's own folder percent-encoded, as in a URL, and polars looks for the files
    there as written: with a space or an umlaut in the path it finds none.
    """

    def __init__(self, uri: str, told: Mapping[str, str] | None, version: int | None = None) -> None:
        super().__init__(uri, version=version, storage_options=None if told is None else dict(told))
        self._told = told
        self._marks: dict[tuple[int, str], int | None] = {}

    def file_uris(self, *arguments: Any, **named: Any) -> list[str]:
        """The files, those of a local table as paths of the file system."""
        found = super().file_uris(*arguments, **named)
        scheme, separator, root = self.table_uri.partition("file://")
        if scheme or not separator:
            return found
        return [unquote(root) + file.removeprefix(root) for file in found]

    def transaction_version(self, app_id: str) -> int | None:
        """The application transaction's number; read from the log once a version, which is many requests."""
        at = (int(self.version()), app_id)
        if at not in self._marks:
            with trouble(self.table_uri, "read the log"):
                self._marks[at] = super().transaction_version(app_id)
        return self._marks[at]

    def lazy(self) -> pl.LazyFrame:
        """The rows, to be collected by the lake's `collect`."""
        return pl.scan_delta(self, storage_options=object_storage.reading(self._told))

    def storage(self) -> pyarrow.fs.FileSystem:
        """The table's place as a file system; paths are those of the log."""
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.table_uri, dict(self._told or {})))


@contextmanager
def trouble(location: str, doing: str) -> Iterator[None]:
    """Say what a fault of the storage means for the lake."""
    remote = object_storage.is_remote(location)  # then the cause is left out: it may hold what was signed
    try:
        yield
    except CommitFailedError as error:
        raise LakeConflictError(
            f"another writer of the same rows of the lake at {location} committed first, so this "
            f"one kept nothing; nothing is lost: run it again ({object_storage.bare(error)})"
        ) from None if remote else error
    except (DeltaError, OSError, pl.exceptions.PolarsError) as error:
        said = object_storage.said(error) if remote else f"{object_storage.bare(error)}."
        raise LakeError(
            f"cannot {doing} in the lake at {location}: {said} What was committed before stands; mend the "
            "cause and run again."
        ) from None if remote else error
