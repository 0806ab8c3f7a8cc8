"""The pull: each run once, whatever the store sends and wherever the pull ends."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import duckdb
import polars as pl
import pytest

from assets.lake import Lake
from assets.pull import pull
from assets.views import LakeConflictError, LakeError, View
from assets.writer import Writer
from schemas.observations import SCHEMA, frame
from schemas.pages import PageError
from tessera.errors import ConnectionFault, Problem
from tests.observation_items import observation

ROOT = Path(__file__).resolve().parents[2]


def runs(*cursors, **changes):
    return [observation(cursor, **changes) for cursor in cursors]


def cursors(lake, queue="packing"):
    return lake.observations(queue, columns=["cursor"])["cursor"].to_list()


@pytest.mark.both_lakes
def test_a_pull_brings_every_run_once_and_the_next_only_what_is_new(lake, pages, client):
    """L01: equal times do not matter, the position is the insertion number."""
    pages.items = runs(*range(1, 251))
    first = pull(client, lake, "packing")
    pages.items = runs(*range(1, 301))
    second = pull(client, lake, "packing")
    assert (first.rows, second.rows, second.cursor) == (250, 50, 300)
    assert cursors(lake) == list(range(1, 301))


@pytest.mark.parametrize("count", [1, 99, 100, 101, 200])
def test_any_number_of_runs_ends_the_pull_without_a_repeat(lake, pages, client, count):
    """L06: exact multiples of the page size too."""
    pages.items = runs(*range(1, count + 1))
    assert pull(client, lake, "packing").rows == count
    assert cursors(lake) == list(range(1, count + 1))
    assert pages.pages_served <= count // 100 + 1


@pytest.mark.both_lakes
def test_nothing_to_read_writes_nothing(lake, pages, client):
    """P13: no part without rows."""
    result = pull(client, lake, "packing")
    assert (result.rows, result.cursor, result.version) == (0, 0, None)
    assert lake.version("observations") is None
    assert lake.observations("packing").schema == pl.Schema(SCHEMA)


def test_the_cursor_moves_over_runs_that_may_not_be_read(lake, pages, client):
    pages.newest = 4000
    assert pull(client, lake, "packing").cursor == 4000
    assert lake.cursor("packing") == 4000
    version = lake.version("observations")
    assert pull(client, lake, "packing").commits == 0
    assert lake.version("observations") == version
    assert lake.observations("packing").is_empty()


@pytest.mark.parametrize("queue", ["..", "_delta_log", "null", "1e5", "--json", "q" * 64])
def test_a_queue_may_have_any_name(lake, pages, client, queue):
    pages.items = runs(1, 2, server__queue=queue)
    pull(client, lake, queue)
    assert cursors(lake, queue) == [1, 2]
    assert lake.count("observations", queue) == 2


def test_but_one_that_means_no_queue_in_a_table_is_refused_and_nothing_kept(lake, pages, client):
    name = "__HIVE_DEFAULT_PARTITION__"
    pages.items = runs(1, 2, server__queue=name)
    with pytest.raises(LakeError, match=f"cannot hold a queue named {name}"):
        pull(client, lake, name)
    assert lake.version("observations") is None


def test_a_pull_commits_in_batches_of_bounded_size(lake, pages, client):
    pages.items = runs(*range(1, 1001))
    result = pull(client, lake, "packing", page_size=20, commit_rows=300)
    assert 2 <= result.commits <= 4
    assert cursors(lake) == list(range(1, 1001))


def test_a_null_list_on_the_last_page_is_refused_and_the_rest_was_kept(lake, pages, client):
    """L06."""
    pages.items = runs(*range(1, 201))
    pages.spoil = lambda page: page if page["has_more"] else {**page, "items": None}
    with pytest.raises(PageError, match="no list of items but None"):
        pull(client, lake, "packing", commit_rows=100)
    pages.spoil = None
    pull(client, lake, "packing")
    assert cursors(lake) == list(range(1, 201))


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda page: {**page, "has_more": True, "next_after": "0"}, "read for ever"),
        (lambda page: {**page, "items": page["items"] * 2}, "repeats a run"),
        (lambda page: {**page, "items": page["items"][::-1]}, "out of order"),
        (lambda page: {**page, "next_after": "1"}, "out of order"),
        (lambda page: {**page, "store_id": "store_2"}, "the store changed"),
        (lambda page: b"[1", "not JSON"),
    ],
)
def test_a_page_that_cannot_be_right_is_refused_and_nothing_kept(lake, pages, client, spoil, says):
    pages.items = runs(1, 2, 3)
    pages.spoil = spoil
    with pytest.raises(PageError, match=says):
        pull(client, lake, "packing")
    assert lake.version("observations") is None


@pytest.mark.both_lakes
def test_bad_items_go_to_quarantine_with_reasons_and_the_counts_add_up(lake, pages, client):
    """P14, P15: ten rows with different faults, one with two, one missing a column."""
    missing = observation(11)
    del missing["server"]["result"]
    bad = [
        observation(1, server__fence="x"),
        observation(2, server__lapsed=-1),
        observation(3, server__draws=[{"propensity": 1.7}]),
        observation(4, report__learning__duration_seconds=-3),
        observation(5, report__learning__cost={"amount": 1, "currency": "usd", "source": "s"}),
        observation(6, server__queue="elsewhere"),
        observation(7, server__claimed_at="2026-01-02T03:04:05"),
        observation(8, report=[]),
        observation(9, schema="v9"),
        observation(10, server__fence=0, server__lapsed="no"),
        missing,
    ]
    pages.items = bad + runs(*range(12, 200))
    result = pull(client, lake, "packing")
    rejected = lake.scan("quarantine").sort("cursor").collect()
    assert (result.rows, result.quarantined) == (188, 11)
    assert cursors(lake) == list(range(12, 200))
    assert rejected["run_id"].to_list() == [f"run_{i}" for i in range(1, 12)]
    assert [[fault["path"] for fault in faults] for faults in rejected["faults"].to_list()] == [
        ["server.fence"],
        ["server.lapsed"],
        ["server.draws"],
        ["report.learning.duration_seconds"],
        ["report.learning.cost.currency"],
        ["server.queue"],
        ["server.claimed_at"],
        ["report"],
        ["schema"],
        ["server.lapsed", "server.fence"],
        ["server.result"],
    ]


def test_all_values_are_readable_whichever_part_was_written_first(lake, pages, client):
    """P01, P03, P06: the declared schema, not a part's content, decides; read by polars and by DuckDB."""
    pages.items = runs(1, report=None, server__draws=[], brief__tags=[])
    pull(client, lake, "packing")
    pages.items += runs(2, report__learning__cost={"source": "s", "amount": 2, "currency": "EUR"})
    pages.items += runs(3, report__learning__cost={"currency": "USD", "amount": 1, "source": "s"})
    pull(client, lake, "packing")
    parts = sorted(Path(lake.location).glob("observations/queue=packing/*.parquet"))
    for order in (parts, parts[::-1]):
        mine = pl.read_parquet(order).sort("cursor")
        paths = [str(part) for part in order]
        theirs = duckdb.sql(
            f"select cost_amount, cost_currency from read_parquet({paths}) order by cursor"
        ).fetchall()
        assert mine["cost_amount"].to_list() == [None, 2.0, 1.0]
        assert theirs == [(None, None), (2.0, "EUR"), (1.0, "USD")]
    assert lake.observations("packing").schema == pl.Schema(SCHEMA)


def test_the_state_of_a_pull_does_not_grow_with_what_was_pulled(lake, pages, client):
    """L12: the saved position is one number, however many runs share a time."""
    pages.items = runs(*range(1, 2001))
    for upto in range(200, 2001, 200):
        pages.items = runs(*range(1, upto + 1))
        pull(client, lake, "packing")
    log = Path(lake.location, "observations", "_delta_log")
    _made, *commits = (entry.stat().st_size for entry in sorted(log.glob("*.json")))
    assert len(commits) == 10
    assert max(commits) < 5000
    assert cursors(lake) == list(range(1, 2001))


@pytest.mark.both_lakes
def test_the_cursor_survives_the_logs_checkpoint(lake, pages, client):
    pages.items = runs(1)
    pull(client, lake, "packing")
    table = lake.open("observations")
    table.create_checkpoint()
    table.cleanup_metadata()
    assert lake.cursor("packing") == 1
    assert pull(client, lake, "packing").rows == 0


def test_a_store_that_fails_once_is_asked_again(lake, pages, client):
    pages.items = runs(*range(1, 150))
    answers = iter([503, None, 503])
    pages.spoil = lambda page: next(answers, None)
    assert pull(client, lake, "packing").rows == 149


@pytest.mark.parametrize("trouble", ["500", "timeout", "gone"])
def test_a_store_that_is_down_leaves_the_lake_as_it_was_and_the_next_pull_goes_on(
    lake, pages, client, trouble
):
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")
    pages.items = runs(*range(1, 400))
    served = iter([None])
    if trouble == "500":
        pages.spoil = lambda page: next(served, 500)
    elif trouble == "timeout":
        pages.delay = 3
    else:
        pages.spoil = lambda page: next(served, b"")
    with pytest.raises((ConnectionFault, Problem, PageError)):
        pull(client, lake, "packing")
    assert cursors(lake) == list(range(1, 11))
    pages.spoil, pages.delay = None, 0.0
    pull(client, lake, "packing")
    assert cursors(lake) == list(range(1, 400))


@pytest.mark.both_lakes
def test_of_two_pulls_at_once_one_ends_cleanly_and_no_run_is_doubled(lake, pages, client):
    pages.items = runs(1, 2)
    view = View.of(pages.whoami)
    slow = Writer(lake, "packing", view)
    pull(client, lake, "packing")
    with pytest.raises(LakeConflictError, match="run it again"):
        slow.append(frame(runs(1, 2)), 2)
    assert cursors(lake) == [1, 2]


@pytest.mark.both_lakes
def test_a_second_pull_that_began_after_the_first_batch_is_noticed_at_the_next(lake, pages, client):
    view = View.of(pages.whoami)
    one = Writer(lake, "packing", view)
    one.append(frame(runs(1)), 1)
    two = Writer(lake, "packing", view)
    two.append(frame(runs(2)), 2)
    with pytest.raises(LakeConflictError):
        one.append(frame(runs(2)), 2)
    assert cursors(lake) == [1, 2]


@pytest.mark.both_lakes
def test_pulls_of_different_queues_do_not_disturb_each_other(lake, pages):
    view = View.of(pages.whoami)
    one, two = Writer(lake, "packing", view), Writer(lake, "other", view)
    one.append(frame(runs(1)), 1)
    two.append(frame(runs(5, server__queue="other")), 5)
    one.append(frame(runs(2)), 2)
    assert (cursors(lake), cursors(lake, "other")) == ([1, 2], [5])
    assert lake.queues() == ["other", "packing"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write read-only folders")
def test_a_folder_that_cannot_be_written_loses_nothing(lake, pages, client):
    """L08."""
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")
    pages.items = runs(*range(1, 21))
    folder = Path(lake.location, "observations", "queue=packing")
    folder.chmod(0o500)
    with pytest.raises(LakeError, match="mend the cause"):
        pull(client, lake, "packing")
    folder.chmod(0o700)
    assert lake.cursor("packing") == 10
    pull(client, lake, "packing")
    assert cursors(lake) == list(range(1, 21))


def test_a_write_that_fails_leaves_the_cursor_at_the_last_durable_batch(lake, pages, client):
    """L08, by a log that cannot take the commit's name."""
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")
    pages.items = runs(*range(1, 21))
    folder = Path(lake.location, "observations", "queue=packing")
    folder.rename(folder.with_name("aside"))
    folder.write_text("in the way")
    with pytest.raises(LakeError, match="mend the cause"):
        pull(client, lake, "packing")
    folder.unlink()
    folder.with_name("aside").rename(folder)
    assert lake.cursor("packing") == 10
    pull(client, lake, "packing")
    assert cursors(lake) == list(range(1, 21))


DYING = """
import json, os, signal, sys
from assets.lake import Lake
from assets.pull import pull
from assets.writer import Writer
from tessera.client import Client

class Dying(Lake):
    def append(self, table, rows, transactions):
        name = table.metadata().name
        die(f"before {name}")
        super().append(table, rows, transactions)
        die(f"after {name}")

counts = {}
def die(here):
    counts[here] = counts.get(here, 0) + 1
    if f"{here} {counts[here]}" == point:
        os.kill(os.getpid(), signal.SIGKILL)

# all is loaded once, and nothing of it is at work yet when a process of its own is made for each pull
for line in sys.stdin:
    url, location, point, batch = json.loads(line)
    child = os.fork()
    if child == 0:
        pull(Client(url, "secret"), Dying(location), "packing", commit_rows=batch)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


@pytest.fixture(scope="module")
def dying():
    """`dying(url, location, point, batch)`: a pull in a process that is killed there; how it ended."""
    command = [sys.executable, "-c", DYING]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True}
    with subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, **pipes) as process:

        def pulled(*asked):
            process.stdin.write(json.dumps(asked) + "\n")
            process.stdin.flush()
            return int(process.stdout.readline())

        yield pulled


@pytest.mark.xdist_group("dying pulls")  # one process loads what all of them need
@pytest.mark.parametrize(
    "point",
    [
        "before views 1",
        "after views 1",
        "before quarantine 1",
        "after quarantine 1",
        "before observations 1",
        "after observations 1",
        "after quarantine 2",
        "before observations 2",
        "after observations 2",
    ],
)
def test_a_pull_killed_at_any_point_neither_loses_nor_repeats_a_run(lake, pages, client, dying, point):
    pages.items = [observation(i, **({"server__fence": 0} if i % 50 == 0 else {})) for i in range(1, 1701)]
    assert dying(pages.url, lake.location, point, 800) == -signal.SIGKILL
    again = Lake(lake.location)
    pull(client, again, "packing")
    rejected = again.scan("quarantine").select("cursor").collect()["cursor"].sort().to_list()
    assert rejected == list(range(50, 1701, 50))
    assert cursors(again) == [i for i in range(1, 1701) if i % 50]
