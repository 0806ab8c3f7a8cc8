"""Recall against a real store: what it answers, whom it answers, and what it refuses to answer from."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tessera import statistics
from tessera.advice import Cache, IndexFault, recall
from tessera.advice.index import load
from tessera.advice.similar import RecallError, find, head_key, query
from tessera.canonical import digest
from tessera.client import Client
from tests.tessera.advice import indexes

HEAD = "memory:minhash-lsh:v1:q:head"
TEXT = "pack the library tightly with zlib"
ALIKE = "pack the library tightly with lzma"


def done(client: Client, text: str, ok: bool = True, **more: Any) -> dict[str, Any]:
    """A real run of a task with this problem; its observation."""
    client.enqueue("q", "k", {"problem": text}, **more)
    task = client.claim("q")
    assert task is not None
    client.submit(task["task_id"], task["fence"], ok, failure=None if ok else "Timeout after 30s")
    return list(client.iter_observations("q"))[-1]


def indexed(client: Client, texts: list[tuple[str, bool]], **more: Any) -> list[dict[str, Any]]:
    """Real runs and an index of them; their entries."""
    entries = []
    for text, ok in texts:
        item = done(client, text, ok, max_attempts=1)
        exact = query("k", {"problem": text}, input_digest=item["input_digest"]).exact
        told = {"result": item["server"]["result"], "task_id": item["server"]["task_id"], "exact": exact}
        entries.append(indexes.entry(int(item["cursor"]), text, run_id=item["run_id"], **told, **more))
    indexes.publish(client, entries)
    return entries


@pytest.fixture
def client(store: Any) -> Client:
    made: Client = store.client()
    return made


def ask(client: Client, text: str = TEXT, **more: Any) -> dict[str, Any]:
    return recall("q", "k", {"problem": text}, client=client, cache=Cache(), **more)


def test_the_answer_holds_what_the_contract_names(client: Client) -> None:
    entries = indexed(client, [(TEXT, True), ("something else entirely unlike", True), (ALIKE, False)])
    digests = [item["input_digest"] for item in client.iter_observations("q")]

    found = ask(client, input_digest=digests[0])

    assert set(found) == {
        "evidence_only",
        "reuse_requires_validation",
        "advice",
        "index",
        "matches",
        "statistics",
    }
    assert found["evidence_only"] is found["reuse_requires_validation"] is True
    assert found["advice"] == {
        "learner": "memory",
        "strategy": "minhash-lsh",
        "version": 1,
        "store": "learn.outputs",
        "key": HEAD,
        "record_version": 1,
    }
    assert found["index"] == {"cursor": entries[-1]["cursor"], "entries": 3}
    first, second = found["matches"]
    assert (first["run_id"], first["exact"], first["similarity"]) == (entries[0]["run_id"], True, 1.0)
    assert (second["run_id"], second["exact"]) == (entries[2]["run_id"], False)
    assert 0.3 <= second["similarity"] < 1
    assert first["entry"] == entries[0]
    assert first["execution"] == client.get_execution(entries[0]["run_id"])
    assert found["statistics"] == statistics.summary([entries[0], entries[2]])
    assert found["statistics"]["attempts"] == 2
    assert found["statistics"]["acceptance_rate"] == 0.5


def test_the_citation_is_one_that_a_report_may_hold(client: Client) -> None:
    indexed(client, [(TEXT, True)])
    client.enqueue("q", "k", {"problem": TEXT})
    task = client.claim("q")
    assert task is not None

    cited = {"learning": {"advice": [ask(client)["advice"]]}}

    assert client.submit(task["task_id"], task["fence"], True, execution_report=cited)["result"] == "accepted"


def test_only_the_top_are_read_back_and_statistics_count_all(client: Client) -> None:
    entries = indexed(client, [(TEXT, number % 2 == 0) for number in range(5)])

    found = ask(client, limit=2)
    none = ask(client, limit=0)

    assert [match["run_id"] for match in found["matches"]] == [entries[4]["run_id"], entries[3]["run_id"]]
    assert found["statistics"]["attempts"] == none["statistics"]["attempts"] == 5
    assert none["matches"] == []


def test_the_same_question_of_the_same_index_is_counted_once(client: Client) -> None:
    indexed(client, [(TEXT, number % 2 == 0) for number in range(40)])
    cache = Cache()

    def asked(text: str = TEXT, **more: Any) -> dict[str, Any]:
        return recall("q", "k", {"problem": text}, client=client, cache=cache, **more)

    first = asked()
    index = cache.known(client.url, "learn.outputs", HEAD)
    assert index is not None
    [(_, figures)] = index.answers.values()
    again, fewer, other = asked(), asked(limit=1), asked(ALIKE)

    assert first == again == ask(client)
    assert again["statistics"] == figures
    assert again["statistics"] is not figures  # a caller that writes into its answer changes no other's
    assert fewer == {**first, "matches": first["matches"][:1]}
    assert other == ask(client, ALIKE)
    assert len(index.answers) == 2
    for number in range(30):
        asked(f"{TEXT} number{number}")
    assert len(index.answers) == 16
    assert asked() == first


def test_what_may_not_be_read_any_more_is_left_out(store: Any, client: Client) -> None:
    done(client, TEXT, private=True)
    done(client, TEXT)
    items = list(client.iter_observations("q"))
    indexes.publish(
        client, [indexes.entry(int(item["cursor"]), TEXT, run_id=item["run_id"]) for item in items]
    )

    found = ask(store.client(["read"], ["q"]))

    assert [match["run_id"] for match in found["matches"]] == [items[1]["run_id"]]
    assert found["statistics"]["attempts"] == 2


def test_a_draft_report_counts_as_it_will_in_the_index() -> None:
    report = {"summaries": {"problem": "too large"}, "learning": {"types": {"input": "image/png"}}}

    drafted = query("k", {"title": "pack"}, report)

    assert drafted.signature is not None
    assert drafted.signature != query("k", {"title": "pack large"}).signature
    assert query("k", {"title": "pack"}, {"summaries": None, "learning": 7}).signature is None
    assert query("k", ["not", "an", "object"]).signature is None


def test_without_an_index_nothing_is_recalled_and_nothing_is_advised(client: Client) -> None:
    found = ask(client)

    assert found["advice"] is None
    assert (found["index"], found["matches"]) == ({"cursor": "0", "entries": 0}, [])
    assert found["statistics"] == statistics.summary([])
    assert found["statistics"]["acceptance_rate"] is None


def test_a_shadow_never_advises_unless_it_is_asked_as_one(client: Client) -> None:
    indexed(client, [(TEXT, True)])
    entry = {"spec": "memory:minhash-lsh:v1", "mode": "shadow", "queue": "q", "options": {}}
    config = {"schema": "tessera.learner-config.v1", "entries": [entry]}
    client.write_records([{**indexes.write("config", config), "store": "learn.specs"}])

    assert ask(client)["advice"] is None
    assert ask(client, shadow=True)["statistics"]["attempts"] == 1


def test_a_later_run_appears_after_the_next_index_run(client: Client) -> None:
    indexed(client, [(TEXT, True)])
    cache = Cache()
    before = recall("q", "k", {"problem": TEXT}, client=client, cache=cache)
    later = indexes.segment_body([indexes.entry(99, TEXT)])
    pins = client.get_record("learn.outputs", HEAD)["body"]["segments"]
    head = indexes.head_body([*pins, indexes.pin("memory:minhash-lsh:v1:q:seg:000002", later)])
    new = [indexes.write("memory:minhash-lsh:v1:q:seg:000002", later), indexes.write(HEAD, head, 1)]
    client.write_records(new)

    after = recall("q", "k", {"problem": TEXT}, client=client, cache=cache)

    assert (before["index"]["entries"], after["index"]["entries"]) == (1, 2)
    assert after["advice"]["record_version"] == 2


@pytest.mark.parametrize("arguments", [{"limit": -1}, {"exact_limit": -1}])
def test_impossible_limits_are_refused(client: Client, arguments: dict[str, int]) -> None:
    with pytest.raises(RecallError, match="at least 0, not -1"):
        ask(client, **arguments)


# --- an index that cannot be relied on ----------------------------------------------------------------------


def broken(client: Client, change: Any) -> None:
    """An index whose second segment, or head, was changed before it was written."""
    bodies = [indexes.segment_body([indexes.entry(number, TEXT)]) for number in (1, 2)]
    keys = [f"memory:minhash-lsh:v1:q:seg:{number:06d}" for number in (1, 2)]
    pins = [indexes.pin(key, body) for key, body in zip(keys, bodies, strict=True)]
    writes = [indexes.write(key, body) for key, body in zip(keys, bodies, strict=True)]
    writes.append(indexes.write(HEAD, indexes.head_body(pins)))
    change(writes)
    client.write_records(writes)


def other_entries(writes: list[dict[str, Any]]) -> None:
    writes[1]["body"] = indexes.segment_body([indexes.entry(2, TEXT, result="failed")])


def no_segment(writes: list[dict[str, Any]]) -> None:
    del writes[1]


def newer_head(writes: list[dict[str, Any]]) -> None:
    writes[-1]["body"]["schema"] = "tessera.memory-head.v2"


def newer_segment(writes: list[dict[str, Any]]) -> None:
    writes[1]["body"]["schema"] = "tessera.memory-segment.v2"
    writes[-1]["body"]["segments"][1]["sha256"] = digest(writes[1]["body"])


def wrong_count(writes: list[dict[str, Any]]) -> None:
    writes[-1]["body"]["segments"][1]["entries"] = 7
    writes[-1]["body"]["entries"] = 8


def wrong_total(writes: list[dict[str, Any]]) -> None:
    writes[-1]["body"]["entries"] = 3


def no_list(writes: list[dict[str, Any]]) -> None:
    writes[-1]["body"]["segments"] = {"key": 1}


def no_manifest(writes: list[dict[str, Any]]) -> None:
    pin = {**writes[-1]["body"]["segments"][0], "key": "memory:minhash-lsh:v1:q:man:0001"}
    writes[-1]["body"]["manifests"] = [pin]


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (other_entries, "seg:000002 is not what its index pins"),
        (no_segment, "seg:000002 version 1 is pinned by its index, but it is not there"),
        (newer_head, "head version 1 is a tessera.memory-head.v2"),
        (newer_segment, "seg:000002 is a tessera.memory-segment.v2"),
        (wrong_count, "seg:000002 holds 1 entries, its index says 7"),
        (wrong_total, "head says 3 entries, its segments hold 2"),
        (no_list, "head version 1 does not have the shape"),
        (no_manifest, "man:0001 version 1 is pinned by its index, but it is not there"),
    ],
)
def test_an_index_that_is_not_what_it_says_is_an_error_that_names_the_record(
    client: Client, change: Any, named: str
) -> None:
    broken(client, change)

    with pytest.raises(IndexFault) as raised:
        ask(client)

    assert f"learn.outputs/memory:minhash-lsh:v1:q:{named}" in str(raised.value)


def test_a_segment_that_the_key_may_not_read_is_an_error_and_no_partial_answer(
    store: Any, client: Client
) -> None:
    broken(client, lambda writes: writes[1].update(visibility="private"))

    with pytest.raises(IndexFault, match="seg:000002 version 1 is pinned"):
        ask(store.client(["read"], ["q"]))


# --- what is kept -------------------------------------------------------------------------------------------


def test_manifests_hold_the_oldest_segments_of_a_large_index(client: Client) -> None:
    bodies = [indexes.segment_body([indexes.entry(number, TEXT)]) for number in (1, 2, 3)]
    pins = [indexes.pin(f"memory:minhash-lsh:v1:q:seg:{n:06d}", body) for n, body in enumerate(bodies, 1)]
    manifest = {"schema": "tessera.memory-manifest.v1", **indexes.COMMON, "segments": pins[:2]}
    pinned = {**pins[0], "key": "memory:minhash-lsh:v1:q:man:0001", "sha256": digest(manifest)}
    pinned |= {"entries": 2, "last": "2"}
    head = indexes.head_body(pins[2:], entries=3, manifests=[pinned])
    nouns = [(pin["key"], body) for pin, body in zip(pins, bodies, strict=True)]
    client.write_records(
        [indexes.write(key, body) for key, body in [*nouns, (pinned["key"], manifest), (HEAD, head)]]
    )

    index = load(client, HEAD, Cache())

    assert index is not None
    assert [entry["cursor"] for entry in index.read(range(3))] == ["1", "2", "3"]


def test_what_is_kept_on_disk_is_used_by_digest_and_never_trusted(
    client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    indexed(client, [(TEXT, True), (ALIKE, True)])
    folder = tmp_path / "kept"
    first = recall("q", "k", {"problem": TEXT}, client=client, cache=Cache(folder))
    (kept,) = folder.iterdir()
    asked: list[str] = []
    fetch = client.get_record

    def counted(store: str, key: str, version: int | None = None) -> dict[str, Any]:
        asked.append(key)
        return fetch(store, key, version)

    monkeypatch.setattr(client, "get_record", counted)
    second = recall("q", "k", {"problem": TEXT}, client=client, cache=Cache(folder))
    told, asked[:] = list(asked), []
    kept.write_bytes(kept.read_bytes().replace(b"accepted", b"failed00"))
    third = recall("q", "k", {"problem": TEXT}, client=client, cache=Cache(folder))

    assert first == second == third
    assert told == ["config", HEAD]
    assert asked == ["config", HEAD, "memory:minhash-lsh:v1:q:seg:000001"]
    assert folder.stat().st_mode & 0o077 == 0


def test_another_process_without_numpy_gives_the_same_answer(client: Client, store: Any) -> None:
    indexed(client, [(f"{TEXT} number{n % 7} of{n % 5}", n % 3 == 0) for n in range(60)])
    program = (
        "import sys, json\n"
        "sys.modules['numpy'] = None\n"
        "import importlib.util as util\n"
        "find = util.find_spec\n"
        "util.find_spec = lambda name, *rest: None if name == 'numpy' else find(name, *rest)\n"
        "from tessera import Client\n"
        "from tessera.advice import recall\n"
        f"client = Client({store.url!r}, {store.admin_key!r})\n"
        f"print(json.dumps([recall('q', 'k', {{'problem': {TEXT!r}}}, client=client, exact_limit=n)"
        " for n in (0, 200000)]))\n"
    )
    root = Path(__file__).parents[3]

    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        check=True,
    ).stdout

    assert json.loads(said) == [ask(client, exact_limit=limit) for limit in (0, 200_000)]


def test_advice_loads_neither_polars_nor_numpy_until_it_searches() -> None:
    program = (
        "import sys, tessera.advice; print([m for m in ('numpy', 'polars', 'dagster') if m in sys.modules])"
    )
    root = Path(__file__).parents[3]

    said = subprocess.run(
        [sys.executable, "-c", program],
        cwd=root,
        env={"PYTHONPATH": str(root)},
        capture_output=True,
        check=True,
    ).stdout

    assert said == b"[]\n"


def test_an_index_that_grew_run_by_run_answers_as_one_built_at_once(client: Client) -> None:
    entries = [indexes.entry(number, f"{TEXT} {number % 3}", result="failed") for number in range(1, 40)]
    indexes.publish(client, entries, size=3)
    grown = load(client, HEAD, Cache())
    assert grown is not None
    asked = query("k", {"problem": TEXT})

    found = find(grown, asked)

    once = indexes.segments(entries)
    from tessera.advice.search import searcher

    assert found == searcher(once).search(asked.signature, None)
    assert grown.entries == len({entry["run_id"] for entry in grown.read(range(grown.entries))}) == 39


@pytest.mark.parametrize(
    ("kind", "key"),
    [
        (None, HEAD),
        ("verb.a", "memory:minhash-lsh:v1:q:kind=verb.a:head"),
        ("a b/ü", "memory:minhash-lsh:v1:q:kind=a@20b@2f@c3@bc:head"),
    ],
)
def test_the_index_of_a_kind_has_its_own_key(kind: str | None, key: str) -> None:
    assert head_key("q", kind) == key
