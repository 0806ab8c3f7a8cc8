"""A lake on S3: commits that nobody overwrites, outages that leave nothing half, faults that say why."""

import re
import threading
import time
from collections import Counter

import httpx
import polars as pl
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials

from assets import fingerprints, object_storage
from assets.lake import Lake
from assets.pull import pull
from assets.rebuild import rebuild
from assets.spread import Processes, Spread
from assets.upkeep import damaged
from assets.views import LakeConflictError, LakeError, View
from assets.writer import Writer
from schemas.observations import frame
from tessera.errors import SettingsError
from tests.object_store import BUCKET, REGION
from tests.observation_items import observation

HURRIED = {"retry_timeout": "1s", "timeout": "1s"}
WRONG = "wrOng-Secret/0123456789+abcdef"


@pytest.fixture
def location(s3, request):
    return f"s3://{BUCKET}/{request.node.name[:40].strip('_[]')}-{time.time_ns()}"


@pytest.fixture
def hurried(location):
    """The lake, by a client that gives up soon."""
    return Lake(location, HURRIED)


def runs(*cursors, **changes):
    return [observation(cursor, **changes) for cursor in cursors]


def cursors(lake, queue="packing"):
    return lake.observations(queue, columns=["cursor"])["cursor"].to_list()


def commits(asked, table="observations"):
    """The puts under a version's name: version and status each."""
    log = re.compile(rf"/{table}/_delta_log/0*(\d+)\.json$")
    return [
        (int(found[1]), one["status"])
        for one in asked
        if one["method"] == "PUT" and (found := log.search(one["key"]))
    ]


def signed_put(s3, key, body):
    """A conditional put as any client sends it; its status."""
    request = AWSRequest("PUT", f"{s3.url}/{BUCKET}/{key}", {"If-None-Match": "*"}, body)
    SigV4Auth(Credentials(s3.access_key, s3.secret), "s3", REGION).add_auth(request)
    return httpx.put(request.url, content=body, headers=dict(request.headers)).status_code


def test_the_server_of_these_tests_takes_one_of_many_conditional_puts_at_once(s3):
    """Else the tests below would show nothing."""
    answered, start = [], threading.Barrier(12)

    def put(number):
        start.wait()
        answered.append((signed_put(s3, "once", b"%d" % number), number))

    writers = [threading.Thread(target=put, args=(number,)) for number in range(12)]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    won = [number for status, number in answered if status == 200]
    assert Counter(status for status, _ in answered) == {200: 1, 412: 11}
    assert s3.read("once") == b"%d" % won[0]


@pytest.mark.parametrize(
    "unsafe", [{}, {"AWS_S3_ALLOW_UNSAFE_RENAME": "true", "AWS_CONDITIONAL_PUT": "disabled"}]
)
def test_every_commit_is_put_only_if_nobody_was_first(s3, lake, pages, client, monkeypatch, unsafe):
    for name, value in unsafe.items():
        monkeypatch.setenv(name, value)
    pages.items = [observation(1, server__fence=0), *runs(2, 3)]
    pull(client, lake, "packing")
    rebuild(client, lake, "packing")
    puts = [one for one in s3.asked() if one["method"] == "PUT" and one["key"].endswith(".json")]
    assert len(puts) > 5
    assert {one["condition"] for one in puts} == {"*"}


@pytest.mark.parametrize("first", [{}, {"server__fence": 0}], ids=["a run", "no observation"])
def test_a_storage_that_ignores_the_condition_is_refused_before_a_lake_is_made(
    s3, lake, pages, client, first
):
    pages.items = runs(1, **first)
    s3.order(method="PUT", careless=True)
    with pytest.raises(LakeError, match=r"lose runs\. Nothing was made"):
        pull(client, lake, "packing")
    assert s3.objects(lake.location.removeprefix(f"s3://{BUCKET}/")) == []
    s3.calm()
    assert pull(client, lake, "packing").read == 1
    assert not [key for key in s3.objects() if key.endswith("probe")]


def test_of_two_commits_of_one_version_one_wins_and_the_other_queue_goes_behind_it(s3, lake, pages):
    view = View.of(pages.whoami)
    Writer(lake, "packing", view).append(frame(runs(1)), 1)
    slow, fast = Writer(lake, "slow", view), Writer(lake, "fast", view)
    s3.asked()
    s3.order(method="PUT", key="/observations/_delta_log/", hold="before")
    late = threading.Thread(target=slow.append, args=(frame(runs(2, server__queue="slow")), 2), daemon=True)
    late.start()
    assert s3.await_held()
    fast.append(frame(runs(3, server__queue="fast")), 3)
    s3.calm()
    late.join()
    assert sorted(commits(s3.asked())) == [(2, 200), (2, 412), (3, 200)]
    assert (cursors(lake, "slow"), cursors(lake, "fast")) == ([2], [3])


def test_of_two_commits_of_one_queue_only_one_is_kept_and_the_other_says_so(s3, lake, pages):
    view = View.of(pages.whoami)
    Writer(lake, "packing", view).append(frame(runs(1)), 1)
    slow, fast = Writer(lake, "packing", view), Writer(lake, "packing", view)
    refused = []

    def lose():
        try:
            slow.append(frame(runs(2)), 2)
        except LakeConflictError as error:
            refused.append(str(error))

    s3.asked()
    s3.order(method="PUT", key="/observations/_delta_log/", hold="before")
    late = threading.Thread(target=lose)
    late.start()
    assert s3.await_held()
    fast.append(frame(runs(2)), 2)
    s3.calm()
    late.join()
    assert sorted(commits(s3.asked())) == [(2, 200), (2, 412)]
    assert [words for words in refused if "run it again" in words]
    assert cursors(lake) == [1, 2]


def test_many_writers_at_once_win_each_version_exactly_once(s3, lake, pages):
    view = View.of(pages.whoami)
    Writer(lake, "packing", view).append(frame(runs(1)), 1)
    s3.asked()

    def write(queue):
        for cursor in (2, 3, 4):
            Writer(Lake(lake.location), queue, view).append(frame(runs(cursor, server__queue=queue)), cursor)

    names = [f"q{number}" for number in range(4)]
    writers = [threading.Thread(target=write, args=(name,)) for name in names]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    won = [version for version, status in commits(s3.asked()) if status == 200]
    assert sorted(won) == list(range(2, 14))
    assert [cursors(lake, name) for name in names] == [[2, 3, 4]] * 4


def test_a_lake_made_by_two_at_once_is_made_once(s3, lake, pages):
    view = View.of(pages.whoami)
    s3.order(method="PUT", key="/observations/_delta_log/", hold="before")
    late = threading.Thread(
        target=Writer(lake, "slow", view).append, args=(frame(runs(2, server__queue="slow")), 2)
    )
    late.start()
    assert s3.await_held()
    Writer(Lake(lake.location), "fast", view).append(frame(runs(3, server__queue="fast")), 3)
    s3.calm()
    late.join()
    assert sorted(commits(s3.asked()))[:3] == [(0, 200), (0, 412), (1, 200)]
    assert (cursors(lake, "slow"), cursors(lake, "fast")) == ([2], [3])


def test_a_storage_that_stumbles_is_asked_again(s3, lake, pages, client):
    pages.items = runs(*range(1, 20))
    for method in ("GET", "PUT"):
        s3.order(method=method, key=f"/{BUCKET}", status=503, code="SlowDown", times=2)
    assert pull(client, lake, "packing").rows == 19
    assert cursors(lake) == list(range(1, 20))


@pytest.mark.parametrize("method", ["GET", "PUT"])
@pytest.mark.parametrize("order", [{"status": 503, "code": "SlowDown"}, {"seconds": 3}], ids=["503", "slow"])
def test_a_storage_that_stays_down_keeps_nothing_half_and_the_next_pull_goes_on(
    s3, lake, hurried, pages, client, method, order
):
    pages.items = runs(1, 2)
    pull(client, lake, "packing")
    pages.items = runs(1, 2, 3)
    s3.order(method=method, **order)
    began = time.monotonic()
    with pytest.raises(LakeError, match=r"try later|does not answer"):
        pull(client, hurried, "packing")
    assert time.monotonic() - began < 15
    s3.calm()
    assert cursors(lake) == [1, 2]
    pull(client, lake, "packing")
    assert cursors(lake) == [1, 2, 3]


def test_a_commit_that_was_done_and_answered_as_failed_is_neither_lost_nor_doubled(s3, lake, pages, client):
    pages.items = runs(1, 2)
    pull(client, lake, "packing")
    pages.items = runs(1, 2, 3)
    s3.order(method="PUT", key="/observations/_delta_log/", status=500, done=True, times=1)
    with pytest.raises(LakeConflictError, match="run it again"):
        pull(client, lake, "packing")
    pull(client, lake, "packing")
    assert (cursors(lake), lake.cursor("packing")) == ([1, 2, 3], 3)


@pytest.mark.parametrize(
    ("changes", "elsewhere", "says"),
    [
        ({"AWS_SECRET_ACCESS_KEY": WRONG}, None, "SignatureDoesNotMatch.*credentials are wrong.*{key}"),
        (
            {"AWS_ACCESS_KEY_ID": "AKIAUNKNOWN"},
            None,
            "InvalidAccessKeyId.*credentials are wrong.*AKIAUNKNOWN",
        ),
        ({"AWS_SESSION_TOKEN": WRONG}, None, "AWS_ACCESS_KEY_ID"),
        (
            {},
            "s3://no-such-bucket/lake",
            "no-such-bucket.*does not exist there: make it, or correct TESSERA_LAKE",
        ),
        ({"AWS_ENDPOINT_URL_S3": "http://127.0.0.1:9"}, None, r"127\.0\.0\.1:9.*does not answer"),
    ],
    ids=["secret", "key", "token", "bucket", "endpoint"],
)
def test_a_storage_that_cannot_be_used_is_named_with_what_to_do_and_without_a_secret(
    s3, location, client, pages, monkeypatch, changes, elsewhere, says
):
    pages.items = runs(1)
    for name, value in changes.items():
        monkeypatch.setenv(name, value)
    with pytest.raises(LakeError, match=says.format(key=s3.access_key)) as caught:
        pull(client, Lake(elsewhere or location, HURRIED), "packing")
    told = "".join(map(str, (caught.value, caught.value.__cause__)))
    assert s3.secret not in told
    assert WRONG not in told
    assert "\x1b" not in told


def test_what_a_service_says_was_signed_is_not_told(s3):
    answer = (
        "403 Forbidden: <?xml version='1.0'?><Error><Code>SignatureDoesNotMatch</Code><Message>No match."
        f"</Message><CanonicalRequest>GET x-amz-security-token:{WRONG}</CanonicalRequest></Error>"
    )
    assert object_storage.said(OSError(answer)).startswith(
        "403 Forbidden: SignatureDoesNotMatch: No match. The cred"
    )
    assert WRONG not in object_storage.said(OSError(f"broken at {WRONG}"), {"AWS_SESSION_TOKEN": WRONG})


@pytest.mark.parametrize(
    ("environ", "says"),
    [
        (
            {"AWS_ENDPOINT_URL": "http://s3.local"},
            "AWS_ENDPOINT_URL is http://s3.local, which is not encrypted",
        ),
        ({"AWS_ENDPOINT_URL": "https://me:hush@s3.local"}, "AWS_ENDPOINT_URL holds a name or password"),
        ({"AWS_ENDPOINT_URL_S3": "s3.local:9000"}, "AWS_ENDPOINT_URL_S3 must be a URL"),
    ],
)
def test_an_endpoint_that_would_not_do_is_refused_by_name(environ, says):
    with pytest.raises(SettingsError, match=says) as caught:
        object_storage.options("s3://bucket/lake", environ)
    assert "hush" not in str(caught.value)


def test_the_endpoint_for_s3_goes_before_the_one_for_all():
    environ = {
        "AWS_ENDPOINT_URL": "https://all",
        "AWS_ENDPOINT_URL_S3": "https://s3",
        "AWS_DEFAULT_REGION": "r",
    }
    told = object_storage.options("s3://bucket/lake", environ)
    assert told is not None
    assert (told["aws_endpoint_url"], told["aws_region"]) == ("https://s3", "r")
    assert object_storage.options("/a/folder", {"AWS_ENDPOINT_URL": "http://refused"}) is None


def test_no_credential_is_in_what_the_lake_holds(s3, lake, pages, client):
    pages.items = runs(1)
    pull(client, lake, "packing")
    held = f"{vars(lake)}{vars(lake.open('observations'))}"
    written = b"".join(map(s3.read, s3.objects(lake.location.removeprefix(f"s3://{BUCKET}/"))))
    assert s3.secret not in held
    assert s3.secret.encode() not in written


def test_a_deleted_object_is_named_and_a_rebuild_mends_it(s3, lake, pages, client):
    pages.items = runs(1, 2)
    pull(client, lake, "packing")
    place = lake.location.removeprefix(f"s3://{BUCKET}/")
    gone = next(key for key in s3.objects(f"{place}/observations/queue=packing/"))
    assert damaged(lake.open("observations")) == []
    s3.delete(gone)
    assert damaged(lake.open("observations")) == [("packing", f"the file s3://{BUCKET}/{gone} is gone")]
    with pytest.raises(LakeError, match=gone.rpartition("/")[2]):
        cursors(lake)
    assert rebuild(client, lake, "packing").rows == 2
    assert cursors(lake) == [1, 2]


def test_a_read_of_an_object_that_does_not_come_ends_too(s3, lake, hurried, pages, client):
    pages.items = runs(1)
    pull(client, lake, "packing")
    s3.order(key=".parquet", seconds=5)
    began = time.monotonic()
    with pytest.raises(LakeError, match="does not answer"):
        cursors(hurried)
    assert time.monotonic() - began < 5


def test_looking_at_files_of_a_storage_that_is_down_finds_no_damage(s3, lake, hurried, pages, client):
    pages.items = runs(1)
    pull(client, lake, "packing")
    table = hurried.open("observations")
    s3.order(status=503)
    with pytest.raises(LakeError, match="try later"):
        damaged(table)


def test_opening_a_table_costs_bounded_requests_however_many_commits_it_has(s3, lake, pages):
    writer = Writer(lake, "packing", View.of(pages.whoami))
    for cursor in range(1, 20):
        writer.append(frame(runs(cursor)), cursor)
    s3.asked()
    table = lake.open("observations")
    assert len(s3.asked()) <= 12 + 2 * 10
    assert pl.scan_delta(table).select(pl.len()).collect().item() == 19


def test_a_large_queue_is_fingerprinted_by_processes_in_parts_as_at_once(location):
    lake = Lake(location, spread=Spread(40, Processes(2)))
    Writer(lake, "packing", View("store", "key", ("read",), None, None)).append(
        frame(runs(*range(1, 101))), 100
    )

    done = fingerprints.refresh(lake, "packing")

    found = lake.collect(lake.scan("fingerprints").sort("cursor"))
    assert (done.rows_added, done.cursor) == (100, 100)
    assert found.equals(fingerprints.fingerprinted(lake.observations("packing", columns=fingerprints.READ)))


def test_a_person_who_stops_parts_while_the_storage_is_away_is_told_of_the_files_that_are_left(s3, hurried):
    def stopped(function, items):
        yield function(next(iter(items)))
        s3.order(key="parts-", status=503, code="SlowDown", times=1000)
        raise KeyboardInterrupt

    hurried.spread = Spread(40, stopped)
    view = View("store", "key", ("read",), None, None)
    Writer(hurried, "packing", view).append(frame(runs(*range(1, 101))), 100)

    with pytest.raises(KeyboardInterrupt) as ended:
        fingerprints.refresh(hurried, "packing")

    s3.calm()
    (note,) = ended.value.__notes__
    assert "`workspace compact` removes them when they are a day old" in note
