"""The store for a person who has none running: `tessera serve` on the home, for as long as it is needed.

`store` uses the store at the settings' URL when one answers there and knows the key; otherwise it starts one
under the home and stops it on the way out. It binds to this machine alone and leaves no process behind.
"""

import contextlib
import socket
import subprocess
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import urlsplit

from pipelines import attached
from tessera import Client
from tessera.errors import ConnectionFault, SettingsError, TesseraError
from tessera.settings import Settings

LOOPBACK = "127.0.0.1"
START_SECONDS = 60.0


@contextlib.contextmanager
def store(settings: Settings) -> Iterator[Settings]:
    """Settings whose URL answers, as long as the block runs. Raises TesseraError when no store can be had.

    They are those given, with another URL where the given one's port is taken by somebody else.
    """
    address = urlsplit(settings.url)
    log = settings.home / "logs" / "store.log"
    for wanted in (port_of(settings.url), 0):
        if _knows_us(settings):
            yield settings
            return
        if address.hostname not in {LOOPBACK, "localhost", "::1"}:
            raise SettingsError(f"no store answers at {settings.url}. Start it there, or unset TESSERA_URL.")
        port = free_port(wanted)
        ours = replace(settings, url=f"http://{LOOPBACK}:{port}")
        child = serve(settings.home, port, log)
        with attached.stopping(child):
            try:
                await_start(ours, child, str(log))
            except TesseraError:
                if wanted and child.poll() is not None and listens(LOOPBACK, port):
                    continue  # somebody took the port after we had looked
                raise
            yield ours
            return


def serve(home: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    """Start `tessera serve` on a home, for this machine alone; `await_start` says when it answers."""
    asked = ("serve", "--home", str(home), "--host", LOOPBACK, "--port", str(port))
    return attached.start("tessera.cli:main", *asked, log=log)


def _knows_us(settings: Settings) -> bool:
    """Whether a store answers at the URL and takes our key. Asks the port first: the client is patient."""
    if not listens(urlsplit(settings.url).hostname or LOOPBACK, port_of(settings.url)):
        return False
    try:
        with Client(settings.url, settings.require_key(), timeout=2.0) as client:
            client.whoami()
    except TesseraError:
        return False
    return True


def port_of(url: str) -> int:
    """The port that a URL names or means."""
    address = urlsplit(url)
    return address.port or (443 if address.scheme == "https" else 80)


def listens(host: str, port: int) -> bool:
    """Whether anybody accepts connections there."""
    try:
        socket.create_connection((host, port), timeout=2.0).close()
    except OSError:
        return False
    return True


def free_port(wanted: int) -> int:
    """`wanted` if nobody listens there, else any free port of this machine."""
    for port in (wanted, 0):
        with socket.socket() as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            with contextlib.suppress(OSError):
                probe.bind((LOOPBACK, port))
                found: int = probe.getsockname()[1]
                return found
    raise SettingsError(f"no free port on {LOOPBACK}")


def await_start(settings: Settings, child: subprocess.Popen[bytes], log: str) -> None:
    """Wait until a store that was started answers. Raises TesseraError when it ended or is not heard of."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if child.poll() is not None:
            raise TesseraError(
                f"the store ended with status {child.returncode} while starting; its last words are in {log}"
            )
        if _knows_us(settings):
            return
        time.sleep(0.1)
    raise ConnectionFault(settings.url, f"no answer within {START_SECONDS:.0f} s of its start; see {log}")
