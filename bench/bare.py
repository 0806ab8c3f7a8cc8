"""What the store is measured beside: the rows that its calls write, written by bare SQL.

On a file of the store's schema, set up as the store sets it up, one durable transaction a call. Left out is
all that makes them right: reading, judging, JSON, digests, permission.
"""

import sqlite3
from pathlib import Path

from tessera.store.opening import open_store


class Bare:
    """SQLite alone, on a file of the store's schema and set up as the store sets it up."""

    def __init__(self, folder: Path) -> None:
        open_store(folder).database.close()
        self._connection = sqlite3.connect(folder / "tessera.db", isolation_level=None)
        for pragma in ("journal_mode=WAL", "synchronous=FULL"):
            self._connection.execute(f"PRAGMA {pragma}").fetchall()
        self._number = 0

    def tasks(self, count: int) -> range:
        """Numbers of as many claimed tasks, made."""
        first = self._number + 1
        self._number += count
        numbers = range(first, first + count)
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO tasks VALUES (?, ?, 'bench', 'verb.pack', 'claimed', 1, 0, 3, 0, '', ?, NULL, 0, ?, "
            "1, ?, 1, 3600, 3600001)",
            [(number, _ID, _ID, _DIGEST, _ID) for number in numbers],
        )
        self._connection.execute("COMMIT")
        return numbers

    def submit(self, number: int, item: bytes, *, bands: bool) -> None:
        """What a submit writes."""
        run = self._connection.execute
        run("BEGIN IMMEDIATE")
        run("UPDATE tasks SET state = 'succeeded', submitted = 1 WHERE number = ?", (number,))
        run("UPDATE counters SET value = value + 1 WHERE name = 'executions'")
        run(
            "INSERT INTO executions (number, token, queue, kind, audience, pinned, input_digest, input_type, "
            "item) VALUES (?, ?, 'bench', 'verb.pack', '', 0, ?, ?, ?)",
            (number, _ID, _DIGEST, '{"goal":str,"template":str}', item),
        )
        run(
            "INSERT INTO execution_details (number, task, output, receipt) VALUES (?, ?, ?, ?)",
            (number, number, b'{"bytes":4711}', _RECEIPT),
        )
        if bands:
            rows = [(band, 17 * band, number) for band in range(8)]
            self._connection.executemany(
                "INSERT INTO simhash_bands VALUES ('bench', 'verb.pack', ?, ?, ?)", rows
            )
        run("COMMIT")

    def records(self, keys: list[str], body: bytes) -> None:
        """What a batch of new records with one tag writes."""
        self._connection.execute("BEGIN IMMEDIATE")
        self._connection.executemany(
            "INSERT INTO records VALUES ('bench', ?, 1, 'noun.eval_run', '[\"queue:bench\"]', 'private', "
            "NULL, NULL, ?, 1, ?, ?)",
            [(key, _DIGEST, _ID, body) for key in keys],
        )
        self._connection.executemany(
            "INSERT INTO record_tags VALUES ('queue:bench', 'bench', ?)", [(key,) for key in keys]
        )
        self._connection.execute("COMMIT")

    def close(self) -> None:
        """Close it."""
        self._connection.close()


_ID = "0123456789abcdef"
_DIGEST = "ab" * 32
_RECEIPT = b"r" * 420
