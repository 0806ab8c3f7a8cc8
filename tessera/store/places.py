"""Where a store's database is: the file that its settings name, or none when it is another database's URL.

Needs nothing but the standard library.
"""

from pathlib import Path
from urllib.parse import unquote

FILE = "tessera.db"
"""The SQLite file in the home."""


def sqlite_file(home: Path | None, database_url: str | None) -> Path | None:
    """The SQLite file that a URL names, the one in the home without a URL; None for none."""
    if database_url is None:
        return None if home is None else home / FILE
    if database_url.startswith("sqlite:"):
        return Path("/" + unquote(database_url.partition("://")[2].lstrip("/")))
    return None
