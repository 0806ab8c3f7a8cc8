"""Where things live and whom to talk to, read once from the environment.

Promises defaults that work from any folder: everything lies under ``.tessera/`` in the project's root, or
under ``TESSERA_HOME``, which is asked for only where something of it is needed. A relative path is refused,
since it would mean another place in each folder. Creates nothing.
"""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tessera.errors import SettingsError

_ROOT = Path(__file__).resolve().parent.parent
DEFAULT_URL = "http://127.0.0.1:8765"
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")
PART_ROWS = 1_000_000
"""How many runs of a queue are computed at once, by default."""


@dataclass(frozen=True, slots=True)
class Settings:
    """The environment's answers; ``key`` and ``database_url`` stay out of the repr, as they hold secrets."""

    url: str
    named_home: Path | None = None
    named_lake: str | None = None
    named_dagster_home: Path | None = None
    key: str | None = field(default=None, repr=False)
    database_url: str | None = field(default=None, repr=False)
    hosts: tuple[str, ...] = ()
    dask: str | None = None
    part_rows: int = PART_ROWS
    processes: int = 1

    @classmethod
    def from_environment(cls, environ: Mapping[str, str] = os.environ) -> "Settings":
        """Read TESSERA_HOME, _URL, _KEY, _DATABASE_URL, _HOSTS, _LAKE, _DASK, _PART_ROWS and _PROCESSES, and
        DAGSTER_HOME.

        An empty value counts as unset. Raises SettingsError naming the variable and its value.
        """
        return cls(
            url=_url(environ),
            named_home=_folder(environ, "TESSERA_HOME"),
            named_lake=_lake(environ),
            named_dagster_home=_folder(environ, "DAGSTER_HOME"),
            key=_key(environ),
            database_url=_database_url(environ),
            hosts=_hosts(environ),
            dask=_dask(environ),
            part_rows=_count(environ, "TESSERA_PART_ROWS", PART_ROWS),
            processes=_count(environ, "TESSERA_PROCESSES", 1),
        )

    @property
    def has_home(self) -> bool:
        """Whether there is a home: a worker that was installed without a checkout needs none."""
        return self.named_home is not None or (_ROOT / "pyproject.toml").is_file()

    @property
    def home(self) -> Path:
        """The folder for everything; SettingsError where none is named and there is no checkout."""
        if not self.has_home:
            raise SettingsError(
                "tessera runs outside its checkout, so there is no default home. "
                "Set TESSERA_HOME to an absolute folder for the database, keys and lake."
            )
        return self.named_home or _ROOT / ".tessera"

    @property
    def lake(self) -> str:
        """Where the tables are: a folder or a URL."""
        return self.named_lake or str(self.home / "lake")

    @property
    def dagster_home(self) -> Path:
        """Dagster's folder."""
        return self.named_dagster_home or self.home / "dagster"

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
        if not self.has_home:
            raise SettingsError(
                "no API key: TESSERA_KEY is not set. Set it to the key of this worker; or, where the store's "
                "home is on this machine, TESSERA_HOME to that folder."
            )
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
    if "://" in value:
        return _bucket(value)
    if "\0" in value or not Path(value).is_absolute():
        raise SettingsError(
            f"TESSERA_LAKE must be an absolute path or a URL such as s3://bucket/prefix, not {value!r}"
        )
    return value


def _bucket(value: str) -> str:
    """A bucket and a prefix. Other characters mean one key to one client and another key to the next."""
    if "@" in value:
        raise SettingsError(
            "TESSERA_LAKE must not hold a name or password; the value is not shown, as it may be a secret. "
            "Give s3://bucket/prefix, and the credentials in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY."
        )
    found = re.fullmatch(r"s3://[A-Za-z0-9][A-Za-z0-9._-]{2,62}((?:/[A-Za-z0-9._-]+)*)/*", value)
    if found is None or {".", ".."} & set(found[1].split("/")):
        raise SettingsError(
            "TESSERA_LAKE must be an absolute path, or s3://bucket/prefix of letters, digits, '.', '_' and "
            f"'-' in each part, not {value!r}"
        )
    return value.rstrip("/")


def _url(environ: Mapping[str, str]) -> str:
    value = environ.get("TESSERA_URL", "") or DEFAULT_URL
    scheme, separator, rest = value.partition("://")
    if not separator or scheme not in ("http", "https") or not rest.strip("/"):
        raise SettingsError(f"TESSERA_URL must begin with http:// or https://, not {value!r}")
    return value.rstrip("/")


def _dask(environ: Mapping[str, str]) -> str | None:
    value = environ.get("TESSERA_DASK", "")
    scheme, separator, rest = value.partition("://")
    if value and (not separator or scheme not in ("tcp", "tls") or ":" not in rest):
        raise SettingsError(
            f"TESSERA_DASK must be a scheduler's address such as tcp://host:8786, not {value!r}"
        )
    return value or None


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


def _hosts(environ: Mapping[str, str]) -> tuple[str, ...]:
    """Names, without scheme or port, that are separated by commas."""
    names = tuple(name.strip() for name in environ.get("TESSERA_HOSTS", "").split(",") if name.strip())
    for name in names:
        if not _HOST.fullmatch(name):
            raise SettingsError(
                f"TESSERA_HOSTS must be host names separated by commas, without scheme or port, not {name!r}"
            )
    return names


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
