"""A real PostgreSQL server for tests: found on this machine, made in a folder, stopped at the end.

Promises: Debian's layout and the PATH are searched; as root the server runs as another user, since it
refuses root; a free port of 127.0.0.1; each asker gets a database of its own. Writes are not forced to the
disk unless ``durable``: a process that is killed loses nothing by that, only a machine would.
"""

import itertools
import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psycopg

from tessera.store import migrate

START_SECONDS = 60.0
_FAST = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")
# The server's parent: it ends the server when told how, or when the tests are gone, however they went.
KEEPER = """
import select, shutil, subprocess, sys
user, group, home, *command = sys.argv[1:]
who = dict(user=int(user), group=int(group), extra_groups=[]) if user else {}
with subprocess.Popen(command, stdin=subprocess.DEVNULL, cwd="/", **who) as server:
    while server.poll() is None:
        if select.select([sys.stdin], [], [], 0.2)[0]:
            told = sys.stdin.readline()
            server.send_signal(int(told or 3))
            server.wait()
            if not told:
                shutil.rmtree(home, ignore_errors=True)
"""
# Whoever is still connected is sent away, since an open transaction would hold its tables.
_EMPTY = """
DO $$ BEGIN
  PERFORM pg_terminate_backend(pid, 10000) FROM pg_stat_activity
    WHERE datname = current_database() AND pid <> pg_backend_pid();
  EXECUTE (
    SELECT coalesce('TRUNCATE ' || string_agg(oid::regclass::text, ', ') || ' RESTART IDENTITY', 'SELECT 1')
    FROM pg_class
    WHERE relkind = 'r' AND relnamespace = 'public'::regnamespace AND relname <> 'alembic_version'
      AND pg_relation_size(oid) > 0
  );
END $$
"""
_ALWAYS = (
    "listen_addresses=127.0.0.1",
    "unix_socket_directories=",
    "max_connections=200",
    "shared_buffers=64MB",
    "logging_collector=off",
)


class Unusable(Exception):
    """There is no PostgreSQL on this machine, or it does not start."""


class Postgres:
    """A running server. ``new_database`` gives the URL of an empty database."""

    def __init__(self, *, durable: bool = False) -> None:
        self._bin = _found()
        self._as = _unprivileged()
        # Not in a test's folder: those are for root alone.
        self._home = Path(tempfile.mkdtemp(prefix="tessera-postgres-"))
        self._folder = self._home / "data"
        self._log = self._home / "postgres.log"
        self._settings = _ALWAYS if durable else (*_ALWAYS, *_FAST)
        self._numbers = itertools.count(1)
        self._template = ""
        self._given_back: list[str] = []
        self._process: subprocess.Popen[bytes] | None = None
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            self.port = int(probe.getsockname()[1])
        try:
            self._make()
            self.start()
        except BaseException:
            shutil.rmtree(self._home, ignore_errors=True)
            raise

    def url(self, database: str) -> str:
        """A database's URL."""
        return f"postgresql://tessera@127.0.0.1:{self.port}/{database}"

    def new_database(self, *, empty: bool = False) -> str:
        """The URL of a new database, with the schema in place and nothing in it, or quite empty.

        The schema is made once and copied, which takes a tenth of the time.
        """
        name = f"test_{next(self._numbers)}"
        if empty:
            self.execute(f"CREATE DATABASE {name}")
            return self.url(name)
        if not self._template:
            template = self.new_database(empty=True)
            engine = migrate.postgresql_engine(template)
            migrate.upgrade(engine)
            engine.dispose()
            self._template = template.rpartition("/")[2]
        self.execute(f"CREATE DATABASE {name} TEMPLATE {self._template}")
        return self.url(name)

    @contextmanager
    def lent(self) -> Iterator[str]:
        """The URL of a database as ``new_database`` makes it, for one who leaves the schema as it is.

        Another gets it afterwards, emptied: a new one with its 300 files takes ten times as long.
        """
        url = self._given_back.pop() if self._given_back else self.new_database()
        yield url
        self.execute(_EMPTY, url.rpartition("/")[2])
        self._given_back.append(url)

    def execute(self, statement: str, database: str = "postgres") -> list[tuple[Any, ...]]:
        """One statement, outside of a transaction; its rows."""
        with psycopg.connect(self.url(database), autocommit=True) as connection:
            cursor = connection.execute(statement.encode())
            return cursor.fetchall() if cursor.description else []

    def start(self) -> None:
        """Start the server and wait until it answers."""
        (self._folder / "postmaster.pid").unlink(missing_ok=True)
        options = [word for setting in self._settings for word in ("-c", setting)]
        command = [str(self._bin / "postgres"), "-D", str(self._folder), "-p", str(self.port), *options]
        who = [str(self._as.get(name, "")) for name in ("user", "group")]
        keeper = [sys.executable, "-c", KEEPER, *who, str(self._home), *command]
        with self._log.open("ab") as log:
            self._process = subprocess.Popen(
                keeper, stdout=log, stderr=log, stdin=subprocess.PIPE, start_new_session=True
            )
        deadline = time.monotonic() + START_SECONDS
        while True:
            try:
                psycopg.connect(self.url("postgres"), connect_timeout=5).close()
            except psycopg.OperationalError as error:
                ended = self._process.poll() is not None
                if ended or time.monotonic() > deadline:
                    self.stop()
                    raise Unusable(f"PostgreSQL does not start: {self._log.read_text()[-500:]}") from error
                time.sleep(0.05)
            else:
                return

    def stop(self, number: int = signal.SIGQUIT) -> None:
        """End the server at once, as if it crashed, or by another signal of PostgreSQL's."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate(f"{number:d}\n".encode(), timeout=30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        shutil.rmtree(self._home, ignore_errors=True)

    def _make(self) -> None:
        self._folder.mkdir()
        if self._as:
            self._home.chmod(0o755)
            shutil.chown(self._folder, self._as["user"])
        made = subprocess.run(
            [
                str(self._bin / "initdb"), "-D", str(self._folder), "--username=tessera", "--auth=trust",
                "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
            ],
            capture_output=True,
            text=True,
            cwd="/",
            check=False,
            **self._as,
        )  # fmt: skip
        if made.returncode != 0:
            raise Unusable(f"initdb failed: {made.stderr.strip()[-500:]}")


def _found() -> Path:
    """The folder of the server's programs: those on the PATH, else the newest of Debian's."""
    places = [Path(path).resolve().parent for name in ("postgres",) if (path := shutil.which(name))]
    places += sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=_version, reverse=True)
    places += [Path("/usr/local/bin"), Path("/usr/local/pgsql/bin")]
    for place in places:
        if (place / "postgres").exists() and (place / "initdb").exists():
            return place
    raise Unusable("PostgreSQL's programs postgres and initdb are not on this machine")


def _version(path: Path) -> int:
    return int(path.parent.name) if path.parent.name.isdigit() else 0


def _unprivileged() -> dict[str, Any]:
    """For root: the user and group to run as. PostgreSQL refuses to run as root."""
    if os.geteuid() != 0:
        return {}
    for name in ("postgres", "nobody"):
        try:
            user = pwd.getpwnam(name)
        except KeyError:
            continue
        return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
    raise Unusable("PostgreSQL refuses to run as root, and there is no user postgres or nobody")
