"""The notebooks in a real browser: exported pages from disk, and a live session while the pipeline runs."""

import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assets import specs
from assets.pull import pull
from pipelines import embedded
from tests.assets.learned import made
from tests.notebooks.conftest import NOTEBOOKS, ROOT, Home, work

CHROMIUM = shutil.which("chromium")
ARGUMENTS = [
    *("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"),
    *("--disable-background-networking", "--disable-component-update", "--disable-sync"),
]
pytestmark = [
    pytest.mark.skipif(CHROMIUM is None, reason="needs chromium; apt install chromium"),
    pytest.mark.xdist_group("notebooks"),  # their home is filled and exported once
]


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    """A browser without a screen, the machine's own."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=ARGUMENTS)
        yield opened
        opened.close()


class Watched:
    """A page of the browser, with every address that it asked for and every error that it met."""

    def __init__(self, browser: Any) -> None:
        self.page = browser.new_page(viewport={"width": 1150, "height": 900})
        self.asked: list[str] = []
        self.errors: list[str] = []
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("websocket", lambda opened: self.asked.append(opened.url))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))


@pytest.fixture
def watched(browser: Any) -> Iterator[Watched]:
    """A new page, closed at the end."""
    opened = Watched(browser)
    yield opened
    opened.page.close()


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda path: path.stem)
def test_an_exported_page_shows_its_plots_and_asks_the_network_for_nothing(
    notebook: Path, exported: tuple[Path, Path], watched: Watched
) -> None:
    address = (exported[0] / f"{notebook.stem}.html").as_uri()

    watched.page.goto(address)

    plots = watched.page.locator("svg[role=img]")
    assert plots.count() > 0
    assert all(plot.bounding_box()["height"] > 40 for plot in plots.all())
    assert watched.page.locator("h1").first.is_visible()
    assert watched.page.title() == notebook.stem.replace("_", " ")
    assert (watched.asked, watched.errors) == ([address], [])


LATER = "later"


@pytest.fixture
def session(home: Home) -> Iterator[str]:
    """The address of a notebook that is open as an app, on a queue of its own of which 24 runs are pulled."""
    work(home.client, LATER, 24)
    pull(home.client, home.lake, LATER)
    specs.configure(home.client, "path_statistics:wilson-grouping:v1", LATER)
    port = embedded.free_port(0)
    app = ["-m", "marimo", "run", str(ROOT / "notebooks" / "one_queue.py"), "--headless", "--no-token"]
    process = subprocess.Popen(
        [sys.executable, *app, "--host", "127.0.0.1", "--port", str(port), "--", "--queue", LATER],
        cwd=home.folder,
        env=home.environment,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        while process.poll() is None and not embedded.listens("127.0.0.1", port):
            time.sleep(0.1)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(30)


def test_an_open_session_and_the_pipeline_do_not_get_in_each_others_way(
    home: Home, session: str, watched: Watched
) -> None:
    page = watched.page
    lag, again = page.get_by_text("up to cursor"), page.get_by_role("button", name="read the lake again")
    before = home.lake.cursor(LATER)
    page.goto(session)
    lag.wait_for(timeout=90_000)
    told = [lag.inner_text()]
    work(home.client, LATER, 12)

    with ThreadPoolExecutor() as beside:
        pipeline = beside.submit(home.run, LATER, "path_scorecard")
        while not pipeline.done():
            again.click()
            time.sleep(1)
            told.append(lag.inner_text(timeout=30_000))
    again.click()
    after = home.lake.cursor(LATER)
    page.get_by_text(f"up to cursor {after}; 0 runs wait").wait_for(timeout=30_000)

    assert made(pipeline.result(), "path_scorecard")["status"] == "published"
    cursors = [int(re.findall(r"cursor (\d+)", text)[0]) for text in told]
    assert cursors == sorted(cursors)
    assert {before} <= {*cursors} <= {before, after}
    assert "lock" not in page.inner_text("body").lower()
    assert page.locator("svg[role=img]").count() == 2
    assert watched.errors == []
    outside = [one for one in watched.asked if not re.match(r"(http|ws)://127\.0\.0\.1:|data:|blob:", one)]
    assert outside == []
