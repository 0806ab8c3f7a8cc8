"""The store that the workspace starts for itself."""

import json
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pipelines import embedded
from tessera import Client
from tessera.errors import SettingsError
from tessera.settings import Settings

ROOT = Path(__file__).parents[2]


def settings(home: Path, **more: str) -> Settings:
    return Settings.from_environment({"TESSERA_HOME": str(home), **more})


@pytest.mark.parametrize(
    ("url", "port"),
    [
        ("https://tessera.example", 443),
        ("http://tessera.example", 80),
        ("https://tessera.example:8443", 8443),
    ],
)
def test_a_store_is_looked_for_at_the_port_that_its_url_means(url: str, port: int) -> None:
    assert embedded.port_of(url) == port


def test_a_store_is_started_where_none_answers_and_closed_whole(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{embedded.free_port(0)}"
    with embedded.store(settings(tmp_path, TESSERA_URL=address)) as found:
        with Client(found.url, found.require_key()) as client:
            assert client.whoami()["scopes"]
        assert found.url == address

    assert {path.name for path in tmp_path.iterdir()} == {"admin.key", "logs", "tessera.db"}


def test_a_store_that_answers_and_knows_the_key_is_used_and_left_alone(store: Any) -> None:
    asked = settings(store.home, TESSERA_URL=store.url)
    with embedded.store(asked) as found:
        assert found == asked

    with Client(store.url, store.admin_key) as client:
        assert client.whoami()["store_id"] == store.store_id


def test_beside_a_store_that_does_not_know_the_key_another_is_started(store: Any, tmp_path: Path) -> None:
    with embedded.store(settings(tmp_path / "other", TESSERA_URL=store.url)) as found:
        assert found.url != store.url
        with Client(found.url, found.require_key()) as client:
            assert client.whoami()["store_id"] != store.store_id


def test_of_two_that_start_a_store_on_one_port_at_once_each_gets_its_own(tmp_path: Path) -> None:
    address = f"http://127.0.0.1:{embedded.free_port(0)}"
    both = threading.Barrier(2)

    def found(name: str) -> tuple[str, str]:
        with embedded.store(settings(tmp_path / name, TESSERA_URL=address)) as found:
            both.wait(60)
            with Client(found.url, found.require_key()) as client:
                return found.url, client.whoami()["store_id"]

    with ThreadPoolExecutor(2) as pool:
        (first, one), (second, other) = pool.map(found, ("here", "there"))

    assert address in {first, second}
    assert first != second
    assert one != other


def test_a_store_elsewhere_that_does_not_answer_is_not_ours_to_start(tmp_path: Path) -> None:
    asked = settings(tmp_path, TESSERA_URL="http://store.invalid:8765")

    with (
        pytest.raises(SettingsError, match=r"no store answers at http://store\.invalid:8765"),
        embedded.store(asked),
    ):
        pass


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT], ids=lambda number: number.name)
def test_the_store_obeys_a_signal_by_closing_its_database(tmp_path: Path, number: signal.Signals) -> None:
    serve = [sys.executable, "-m", "tessera.cli", "serve", "--home", str(tmp_path / "home"), "--port", "0"]
    child = subprocess.Popen(serve, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    assert child.stdout is not None
    with child.stdout:
        while "serves" not in child.stdout.readline():
            assert child.poll() is None
        child.send_signal(number)
        said = child.stdout.read()

    assert child.wait(60) == 0
    assert [json.loads(line)["message"] for line in said.splitlines()] == ["closing"]
    assert {path.name for path in (tmp_path / "home").iterdir()} == {"admin.key", "tessera.db"}
