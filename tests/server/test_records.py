"""Records: compare-and-swap, versions, lists (contract, section 3)."""

import threading
from typing import Any

import pytest

from tessera import canonical
from tests.server.calls import done, write

pytestmark = pytest.mark.both_databases


def _one(key: str, version: int = 0, **more: Any) -> dict[str, Any]:
    return {
        "store": "s",
        "key": key,
        "expected_version": version,
        "category": "noun.eval_run",
        "tags": [],
        "body": {"key": key, "version": version + 1},
        "visibility": "shared",
        **more,
    }


def test_a_record_comes_back_whole_with_its_digest_as_etag(store: Any) -> None:
    http = store.http()
    body = {"b": [1.0, "é", None], "a": {"z": 1e-7, "y": True}}
    surface = {"queue": "q", "kind": "k"}
    answer = write(http, "a:b@2f", body=body, tags=["t", "u"], visibility="surface_only", surface=surface)
    digest = canonical.digest(body)
    assert done(answer, 201) == {"records": [{"store": "s", "key": "a:b@2f", "version": 1, "sha256": digest}]}

    got = http.get("/v1/records/s/a:b@2f")

    record = done(got)
    assert got.headers["etag"] == f'"{digest}"'
    assert record == {
        "store": "s",
        "key": "a:b@2f",
        "version": 1,
        "category": "noun.eval_run",
        "tags": ["t", "u"],
        "visibility": "surface_only",
        "surface": surface,
        "body": body,
        "sha256": digest,
        "created_at": record["created_at"],
        "key_id": done(http.get("/v1/whoami"))["id"],
    }
    unchanged = http.get("/v1/records/s/a:b@2f", headers={"if-none-match": got.headers["etag"]})
    assert unchanged.status_code == 304


def test_versions_are_counted_without_gaps_and_never_rewritten(store: Any) -> None:
    http = store.http()
    for version in range(3):
        done(write(http, version=version))

    for version in range(1, 4):
        record = done(http.get("/v1/records/s/r", params={"version": version}))
        assert (record["version"], record["body"]) == (version, {"n": version})
    assert done(http.get("/v1/records/s/r"))["version"] == 3
    assert http.get("/v1/records/s/r?version=4").status_code == 404
    history = done(http.get("/v1/records/s/r/versions"))
    assert [item["version"] for item in history["items"]] == [1, 2, 3]
    assert (history["next_after"], history["has_more"]) == ("3", False)
    page = done(http.get("/v1/records/s/r/versions", params={"after": "1", "limit": 1}))
    assert ([item["version"] for item in page["items"]], page["has_more"]) == ([2], True)


def test_a_batch_is_all_or_none_and_lists_each_conflict(store: Any) -> None:
    http = store.http()
    done(write(http, "b"))

    answer = http.post(
        "/v1/records", json={"writes": [_one("a"), _one("b"), _one("c", 3), _one("d"), _one("b2", 0)]}
    )

    assert answer.status_code == 409
    assert answer.json()["conflicts"] == [
        {"index": 1, "store": "s", "key": "b", "expected_version": 0, "current_version": 1},
        {"index": 2, "store": "s", "key": "c", "expected_version": 3, "current_version": 0},
    ]
    assert http.get("/v1/records/s/a").status_code == 404


def test_a_key_twice_in_a_batch_is_refused(store: Any) -> None:
    http = store.http()

    answer = http.post("/v1/records", json={"writes": [_one("a"), _one("b"), _one("a", 1)]})

    assert answer.status_code == 422
    assert answer.json()["errors"] == [
        {"path": "writes[2].key", "message": "must not stand twice in a batch"}
    ]
    assert http.get("/v1/records/s/a").status_code == 404


@pytest.mark.parametrize(
    ("field", "value", "path"),
    [
        ("key", "", "key"),
        ("key", ".", "key"),
        ("key", "..", "key"),
        ("key", "a/b", "key"),
        ("key", "é", "key"),
        ("key", "a\n", "key"),
        ("key", "a" * 513, "key"),
        ("store", "a:b", "store"),
        ("expected_version", -1, "expected_version"),
        ("expected_version", "0", "expected_version"),
        ("category", "", "category"),
        ("tags", ["a"] * 17, "tags"),
        ("tags", ["é" * 65], "tags[0]"),
        ("tags", ["a", "b", "a"], "tags[2]"),
        ("tags", "a", "tags"),
        ("body", [], "body"),
        ("visibility", "public", "visibility"),
        ("visibility", "surface_only", "surface"),
        ("surface", {"queue": "q"}, "surface"),
    ],
)
def test_bounds_of_a_write(store: Any, field: str, value: Any, path: str) -> None:
    answer = store.http().post("/v1/records", json={"writes": [_one("fine"), {**_one("a"), field: value}]})

    assert answer.status_code == 422
    assert [error["path"] for error in answer.json()["errors"]] == [f"writes[1].{path}"]


@pytest.mark.parametrize("key", ["...", "a" * 512, "A-Za.z0_9:@+", "facet:strategy:v1:q:kind=verb@20a:m"])
def test_keys_at_their_bounds_are_taken(store: Any, key: str) -> None:
    http = store.http()

    done(write(http, key))

    assert done(http.get(f"/v1/records/s/{key}"))["key"] == key


def test_of_many_writers_of_one_version_one_wins(store: Any) -> None:
    statuses: list[int] = []
    gate = threading.Barrier(8)

    def race() -> None:
        http = store.http()
        gate.wait()
        for version in range(5):
            statuses.append(write(http, version=version).status_code)
            gate.wait()

    threads = [threading.Thread(target=race) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(statuses) == [201] * 5 + [409] * 35
    assert done(store.http().get("/v1/records/s/r"))["version"] == 5


def _keys(http: Any, limit: int = 100, **query: Any) -> list[str]:
    found: list[str] = []
    after = None
    while True:
        at = {} if after is None else {"after": after}
        page = done(http.get("/v1/records", params={"limit": limit, **query, **at}))
        found += [f"{item['store']}/{item['key']}" for item in page["items"]]
        assert all("body" not in item for item in page["items"])
        if not page["has_more"]:
            return found
        after = page["next_after"]


@pytest.mark.parametrize("limit", [1, 2, 100])
def test_lists_give_the_newest_versions_in_order_by_store_prefix_tag_and_category(
    store: Any, limit: int
) -> None:
    http = store.http()
    writes = [
        _one("a", tags=["x"]),
        _one("a:1", tags=["x", "y"]),
        _one("a:1:z"),
        _one("b", tags=["y"], category="noun.other"),
        _one("a:2", store="t", tags=["x"]),
        _one("a+", store="t"),
    ]
    done(http.post("/v1/records", json={"writes": writes}))
    done(http.post("/v1/records", json={"writes": [_one("a", 1, tags=["y"]), _one("a:1:z", 1)]}))

    assert _keys(http, limit) == ["s/a", "s/a:1", "s/a:1:z", "s/b", "t/a+", "t/a:2"]
    assert _keys(http, limit, store="s") == ["s/a", "s/a:1", "s/a:1:z", "s/b"]
    assert _keys(http, limit, store="none") == []
    assert _keys(http, limit, prefix="a:1") == ["s/a:1", "s/a:1:z"]
    assert _keys(http, limit, prefix="a:") == ["s/a:1", "s/a:1:z", "t/a:2"]
    assert _keys(http, limit, store="t", prefix="a:") == ["t/a:2"]
    assert _keys(http, limit, tag="x") == ["s/a:1", "t/a:2"]
    assert _keys(http, limit, tag="y") == ["s/a", "s/a:1", "s/b"]
    assert _keys(http, limit, tag="y", prefix="a", store="s") == ["s/a", "s/a:1"]
    assert _keys(http, limit, category="noun.other") == ["s/b"]
    (newest,) = done(http.get("/v1/records", params={"prefix": "a:1:z"}))["items"]
    assert newest["version"] == 2


def test_a_list_looks_at_a_bounded_number_of_keys_a_call(store: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    from tessera.store import record_lists

    monkeypatch.setattr(record_lists, "SCAN", 3)
    admin = store.http()
    done(admin.post("/v1/records", json={"writes": [_one(f"k{n}", visibility="private") for n in range(8)]}))
    done(write(admin, "z"))
    reader = store.http_for(["read"])

    first = done(reader.get("/v1/records"))

    assert (first["items"], first["next_after"], first["has_more"]) == ([], "s/k2", True)
    assert _keys(reader) == ["s/z"]


@pytest.mark.parametrize("after", ["x", "/", "s/", "/k", "s/a/b", "s/.."])
def test_a_position_that_no_list_gave_is_422(store: Any, after: str) -> None:
    assert store.http().get("/v1/records", params={"after": after}).status_code == 422


def test_a_body_of_megabytes_is_kept_and_served(store: Any) -> None:
    http = store.http()
    body = {"rows": ["x" * 1000] * 8000}

    done(write(http, body=body))

    assert done(http.get("/v1/records/s/r"))["body"] == body
