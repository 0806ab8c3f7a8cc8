"""Where things live and whom to talk to, read once from the environment.

Promises defaults that work from any folder: everything lies under ``.tessera/`` in the project's root, or
under ``TESSERA_HOME``. A relative path is refused, since it would mean another place in each folder. Creates
nothing.
"""

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tessera.errors import SettingsError

DEFAULT_URL = "http://127.0.0.1:8765"
PART_ROWS = 1_000_000
"""How many runs of a queue are computed at once, by default."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment's answers; ``key`` and ``database_url`` stay out of the repr, as they hold secrets."""

    home: Path
    url: str
    lake: str
    dagster_home: Path
    key: str | None = field(default=None, repr=False)
    database_url: str | None = field(default=None, repr=False)
    part_rows: int = PART_ROWS
    processes: int = 1

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read TESSERA_HOME, _URL, _KEY, _DATABASE_URL, _LAKE, _PART_ROWS and _PROCESSES, and DAGSTER_HOME.

        An empty value counts as unset. Raises SettingsError naming the variable and its value.
        """
        home = _folder(environ, "TESSERA_HOME") or default_home()
        return cls(
            home=home,
            url=_url(environ),
            lake=_lake(environ) or str(home / "lake"),
            dagster_home=_folder(environ, "DAGSTER_HOME") or home / "dagster",
            key=_key(environ),
            database_url=_database_url(environ),
            part_rows=_count(environ, "TESSERA_PART_ROWS", PART_ROWS),
            processes=_count(environ, "TESSERA_PROCESSES", 1),
        )

    @property
    def admin_key_file(self) -> Path:
        """Where the first start of the store leaves the admin secret."""
        return self.home / "admin.key"

    def require_key(self) -> str:
        """The API key to use: TESSERA_KEY, else the admin key of the home.

        Raises SettingsError, saying what to do, when there is neither.
        """
        if self.key is not None:
            return self.key
        try:
            found = self.admin_key_file.read_text("ascii").strip()
        except FileNotFoundError:
            found = ""
        except (OSError, UnicodeDecodeError) as error:
            raise SettingsError(
                f"cannot read the admin key {self.admin_key_file}: {type(error).__name__}. "
                "Set TESSERA_KEY, or make the file readable to you."
            ) from None
        if not found:
            raise SettingsError(
                f"no API key: TESSERA_KEY is not set and {self.admin_key_file} holds none. "
                "Set TESSERA_KEY, or start the store once with `tessera serve`."
            )
        return found


def default_home() -> Path:
    """``.tessera`` in the project's root: the folder above this package, if it is a checkout."""
    root = Path(__file__).resolve().parent.parent
    if not (root / "pyproject.toml").is_file():
        raise SettingsError(
            "tessera runs outside its checkout, so there is no default home. "
            "Set TESSERA_HOME to an absolute folder for the database, keys and lake."
        )
    return root / ".tessera"


def _folder(environ: Mapping[str, str], name: str) -> Path | None:
    value = environ.get(name, "")
    if not value:
        return None
    if "\0" in value or not Path(value).is_absolute():
        raise SettingsError(f"{name} must be an absolute path, not {value!r}")
    return Path(value)


def _lake(environ: Mapping[str, str]) -> str | None:
    value = environ.get("TESSERA_LAKE", "")
    if not value:
        return None
    scheme, separator, rest = value.partition("://")
    if separator and scheme.isalnum() and rest:
        return value
    if "\0" in value or not Path(value).is_absolute():
        raise SettingsError(f"TESSERA_LAKE must be an absolute path or a URL such as s3://…, not {value!r}")
    return value


def _url(environ: Mapping[str, str]) -> str:
    value = environ.get("TESSERA_URL", "") or DEFAULT_URL
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in ("http", "https") or not rest.strip("/"):
        raise SettingsError(f"TESSERA_URL must begin with http:// or https://, not {value!r}")
    return value.rstrip("/")


def _count(environ: Mapping[str, str], name: str, default: int) -> int:
    value = environ.get(name, "")
    if not value:
        return default
    if not (value.isascii() and value.isdigit() and 1 <= len(value) <= 9 and int(value) >= 1):
        raise SettingsError(f"{name} must be a whole number of at least 1, not {value!r}")
    return int(value)


def _key(environ: Mapping[str, str]) -> str | None:
    value = environ.get("TESSERA_KEY", "").strip()
    if not value.isascii() or not value.isprintable():
        raise SettingsError("TESSERA_KEY must be printable ASCII; the value is not shown, as it is a secret")
    return value or None


def _database_url(environ: Mapping[str, str]) -> str | None:
    """The URL of a database; its value is never shown, as it may hold a password."""
    value = environ.get("TESSERA_DATABASE_URL", "")
    if not value:
        return None
    scheme, separator, rest = value.partition("://")
    if not separator or not rest:
        raise SettingsError("TESSERA_DATABASE_URL must be a URL such as postgresql://…; a path is not one")
    if scheme.startswith("sqlite") and not rest.startswith("//"):
        raise SettingsError("TESSERA_DATABASE_URL must name an absolute file: sqlite:////folder/file.db")
    return value
