"""The whole workspace as an operator runs it: store, daemon, sensor and UI, and a kill in the middle."""

import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from assets import pack, specs
from assets.lake import Lake
from pipelines import attached, embedded
from pipelines.instance import instance, prepare
from pipelines.turns import DIED
from tests.assets.working import work

ROOT = Path(__file__).parents[2]
SPEC = "path_statistics:wilson-grouping:v1"
QUEUES = ("files", "mails")
CHROMIUM = "/usr/bin/chromium"
BROWSER = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
MOST_SECONDS = 420.0


@pytest.fixture
def home(store: Any, tmp_path: Path) -> Path:
    """A workspace's home whose specs are installed and whose queues are configured."""
    client = store.client()
    pack.write(tmp_path / "pack")
    specs.install(client, pack.read(tmp_path / "pack"))
    for queue in QUEUES:
        specs.configure(client, SPEC, queue)
    return tmp_path / "workspace"


@contextmanager
def dagster(store: Any, home: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """Dagster's daemon and web server on the workspace; nothing of it is left afterwards."""
    port = embedded.free_port(0)
    kept = {name: "" for name in os.environ if name.startswith(("TESSERA_", "DAGSTER_"))}
    environment = {
        **kept,
        "TESSERA_HOME": str(home),
        "TESSERA_URL": store.url,
        "TESSERA_KEY": store.admin_key,
        "DAGSTER_HOME": str(prepare(home / "dagster")),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "PYTHONPATH": str(ROOT),
    }
    arguments = ["dev", "-m", "tests.pipelines.quick_workspace", "-h", embedded.LOOPBACK, "-p", str(port)]
    child = attached.start("pipelines.ui:dagster", *arguments, env=environment, log=home / "dagster.log")
    try:
        yield child, f"http://{embedded.LOOPBACK}:{port}"
    finally:
        attached.stop(child)
        until(lambda: not alive(home), "all processes have ended")


def alive(home: Path) -> list[int]:
    """The processes whose environment names the home, but for this one."""
    found = []
    for process in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):
            if f"TESSERA_HOME={home}".encode() in (process / "environ").read_bytes():
                found.append(int(process.name))
    return [number for number in found if number != os.getpid()]


def kill_all(home: Path) -> None:
    """What a power cut does to the daemon, the code server and the run under way."""
    for number in alive(home):
        with suppress(ProcessLookupError):
            os.kill(number, signal.SIGKILL)


def until(true: Callable[[], Any], what: str) -> None:
    deadline = time.monotonic() + MOST_SECONDS
    while not true():
        assert time.monotonic() < deadline, f"waited too long until {what}"
        time.sleep(0.02)


def statuses(home: Path) -> list[str]:
    with instance(home / "dagster") as history:
        return [record.dagster_run.status.value for record in history.get_run_records()]


def published(client: Any) -> list[tuple[str, int, int]]:
    """By queue, the scorecard's version and how many runs it counts."""
    found = []
    for item in client.list_records(store="learn.outputs")["items"]:
        record = client.get_record(item["store"], item["key"])
        body = record["body"]
        found.append((body["scope"]["queue"], record["version"], body["window"]["count"]))
    return found


@pytest.mark.slow
@pytest.mark.timeout(1200)  # two starts of the whole of Dagster, a lease to lapse, and a browser
def test_a_daemon_killed_in_mid_run_loses_and_doubles_nothing_and_the_ui_shows_the_plot(
    store: Any, home: Path, tmp_path: Path
) -> None:
    """D05: of a tick's runs one is at work and the others wait, or are, when everything dies."""
    client, lake = store.client(), Lake(str(home / "lake"))
    with dagster(store, home) as (child, _):
        until(lambda: (home / "dagster" / "schedules").exists() or child.poll(), "Dagster has begun")
        for queue in QUEUES:
            work(client, queue, "aaf" * 12)
        until(lambda: any(lake.cursor(queue) for queue in QUEUES), "a run has pulled its queue")
        kill_all(home)
        child.wait()
    at_the_kill = published(client)
    assert len(at_the_kill) < len(QUEUES)

    with dagster(store, home) as (_, url):
        until(lambda: len(published(client)) == len(QUEUES), "every queue has its scorecard")
        until(lambda: set(statuses(home)) <= {"SUCCESS", "FAILURE"}, "no run is under way")
        look_at_the_plot(url, tmp_path)

    assert sorted(published(client)) == [(queue, 1, 36) for queue in QUEUES]
    for queue in QUEUES:
        rows = lake.observations(queue, columns=["run_id"])["run_id"]
        assert (len(rows), rows.n_unique()) == (36, 36)
    verbs = list(client.iter_observations("learn.runs"))
    assert sorted(verb["server"]["result"] for verb in verbs) == ["accepted"] * len(QUEUES)
    with instance(home / "dagster") as history:
        runs = [record.dagster_run for record in history.get_run_records()]
        ended = [run for run in runs if run.status.value == "FAILURE"]
        said = [{entry.message for entry in history.all_logs(run.run_id)} for run in ended]
    keys = [run.tags["dagster/run_key"] for run in runs]
    assert len(keys) == len(set(keys))
    assert len(ended) <= len(QUEUES)
    assert [messages for messages in said if DIED not in messages] == []


def look_at_the_plot(url: str, folder: Path) -> None:
    """Open the scorecard's page as a person would, and the picture in its metadata."""
    if not Path(CHROMIUM).exists():
        pytest.skip(f"the page was not looked at: there is no {CHROMIUM}")
    from playwright.sync_api import sync_playwright

    until(lambda: httpx.get(f"{url}/server_info", timeout=30).status_code == 200, "the web server answers")
    asked: set[str] = set()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=BROWSER)
        page = browser.new_page(viewport={"width": 1500, "height": 1100})
        page.set_default_timeout(MOST_SECONDS * 1000)
        page.on("request", lambda request: asked.add(str(httpx.URL(request.url).host)))
        page.goto(f"{url}/assets/path_scorecard?view=partitions&partition={QUEUES[0]}")
        page.get_by_text(f"learn.outputs/{SPEC}:{QUEUES[0]}").first.wait_for()
        page.get_by_text("[Show Markdown]").first.click()
        picture = page.locator("img[src^='data:image/png']").first
        picture.wait_for()
        assert picture.evaluate("image => image.naturalWidth") > 300
        page.screenshot(path=folder / "scorecard.png")
        browser.close()
    assert asked <= {embedded.LOOPBACK, ""}
