"""Who may see and do what, over HTTP (contract, section 3, "Permission")."""

from typing import Any

import httpx
import pytest

from tessera.store import record_lists
from tests.server.calls import claim, claimed, done, enqueue, observations, run, submit, write

pytestmark = pytest.mark.both_databases

ALL = ["read", "work", "write", "admin"]


def _same_404(answer: httpx.Response, absent: httpx.Response) -> None:
    """Refused as if it did not exist, byte for byte and header for header."""
    assert answer.status_code == absent.status_code == 404
    assert answer.content == absent.content
    for name in ("content-type", "content-length", "connection"):
        assert answer.headers.get(name) == absent.headers.get(name)


# Scopes

CALLS = {
    ("POST", "/v1/tasks"): "write",
    ("POST", "/v1/tasks/claim"): "work",
    ("POST", "/v1/tasks/x/heartbeat"): "work",
    ("POST", "/v1/tasks/x/draw"): "work",
    ("POST", "/v1/tasks/x/submit"): "work",
    ("GET", "/v1/tasks/x"): "read",
    ("POST", "/v1/tasks/x/cancel"): "write",
    ("GET", "/v1/executions?queue=q"): "read",
    ("GET", "/v1/executions/pending?queue=q"): "read",
    ("GET", "/v1/executions/x"): "read",
    ("POST", "/v1/executions/recall"): "read",
    ("POST", "/v1/executions/import"): "admin",
    ("GET", "/v1/draws"): "admin",
    ("GET", "/v1/queues"): "read",
    ("POST", "/v1/records"): "write",
    ("GET", "/v1/records"): "read",
    ("GET", "/v1/records/s/k"): "read",
    ("GET", "/v1/records/s/k/versions"): "read",
    ("POST", "/v1/keys"): "admin",
    ("GET", "/v1/keys"): "admin",
    ("DELETE", "/v1/keys/x"): "admin",
    ("GET", "/metrics"): "admin",
}


@pytest.mark.parametrize(
    ("call", "scope"), CALLS.items(), ids=lambda value: " ".join(value) if isinstance(value, tuple) else value
)
def test_each_call_needs_its_scope_and_scopes_do_not_imply_each_other(
    store: Any, call: tuple[str, str], scope: str
) -> None:
    others = [other for other in ALL if other != scope]

    assert store.http_for(others).request(*call).status_code == 403
    assert store.http_for([scope]).request(*call).status_code not in (401, 403)


def test_no_call_is_missing_from_the_table_of_scopes() -> None:
    from tessera.server.calls import CALLS as SERVED

    told = {
        (method, path.partition("?")[0].replace("/x", "/{}").replace("/s/k", "/{}/{}"))
        for method, path in CALLS
    }
    served = {
        (call.method, "/".join("{}" if part.startswith("{") else part for part in call.path.split("/")))
        for call in SERVED
        if call.scope is not None
    }

    assert told == served


# What a request names


def test_a_queue_that_is_named_and_not_granted_is_403_whether_or_not_it_exists(store: Any) -> None:
    run(store.http(), queue="mine")
    http = store.http_for(ALL, ["other"])

    for queue in ("mine", "nowhere"):
        answers = [
            http.post("/v1/tasks", json={"queue": queue, "kind": "k", "brief": {}}),
            http.post("/v1/tasks/claim", json={"queue": queue, "lease_seconds": 5}),
            http.get("/v1/executions", params={"queue": queue}),
            http.get("/v1/executions/pending", params={"queue": queue}),
            http.post(
                "/v1/executions/import",
                json={
                    "queue": queue,
                    "attempts": [
                        {"source": "a", "task_key": "b", "attempt": 1, "kind": "k", "accepted": True}
                    ],
                },
            ),
            write(http, visibility="surface_only", surface={"queue": queue}),
        ]
        assert [answer.status_code for answer in answers] == [403] * len(answers)


def test_a_granted_queue_without_runs_is_an_empty_page(store: Any) -> None:
    page = observations(store.http_for(["read"], ["q"]))

    assert page == {"store_id": store.store_id, "items": [], "next_after": "0", "has_more": False}


@pytest.mark.parametrize(
    ("granted", "queue", "fine"),
    [
        ("*", "anything", True),
        ("team-*", "team-a", True),
        ("team-*", "team-", True),
        ("team-*", "team", False),
        ("team-*", "Team-a", False),
        ("team", "team", True),
        ("team", "team-a", False),
    ],
)
def test_a_queue_is_granted_by_name_or_by_a_prefix(store: Any, granted: str, queue: str, fine: bool) -> None:
    answer = store.http_for(["read"], [granted]).get("/v1/executions", params={"queue": queue})

    assert answer.status_code == (200 if fine else 403)


def test_a_kind_that_is_named_and_not_granted_is_403(store: Any) -> None:
    http = store.http_for(ALL, kinds=["a"])

    answers = [
        http.post("/v1/tasks", json={"queue": "q", "kind": "b", "brief": {}}),
        http.post("/v1/tasks/claim", json={"queue": "q", "kinds": ["a", "b"], "lease_seconds": 5}),
        http.get("/v1/executions", params={"queue": "q", "kind": "b"}),
        http.get("/v1/executions/pending", params={"queue": "q", "kind": "b"}),
        write(http, visibility="surface_only", surface={"queue": "q", "kind": "b"}),
    ]

    assert [answer.status_code for answer in answers] == [403] * len(answers)


def test_a_store_that_is_named_and_not_granted_is_403_whether_or_not_it_exists(store: Any) -> None:
    done(write(store.http(), store="taken"))
    http = store.http_for(ALL, stores=["granted"])

    for name in ("taken", "nowhere"):
        pin = {"store": name, "key": "r", "version": 1}
        answers = [
            http.get(f"/v1/records/{name}/r"),
            http.get(f"/v1/records/{name}/r/versions"),
            http.get("/v1/records", params={"store": name}),
            write(http, store=name),
            http.post("/v1/tasks", json={"queue": "q", "kind": "k", "brief": {}, "pins": [pin]}),
        ]
        assert [answer.status_code for answer in answers] == [403] * len(answers)


# Kinds in what is not named


def test_a_key_with_kinds_sees_and_takes_only_those(store: Any) -> None:
    admin = store.http()
    hidden = run(admin, kind="b")
    seen = run(admin, kind="a")
    enqueue(admin, kind="b", priority=9)
    enqueue(admin, kind="a")
    http = store.http_for(kinds=["a"])

    assert [item["run_id"] for item in observations(http)["items"]] == [seen["run_id"]]
    _same_404(http.get(f"/v1/executions/{hidden['run_id']}"), http.get("/v1/executions/run-999-x"))
    assert done(http.get("/v1/executions/pending?queue=q"))["count"] == 1
    assert claimed(http)["kind"] == "a"
    assert claim(http) is None


# Private tasks


def test_a_private_task_is_offered_to_its_owner_and_to_an_admin_by_id_only(store: Any) -> None:
    owner, other, admin = store.http_for(), store.http_for(), store.http()
    first = enqueue(owner, private=True)
    second = enqueue(owner, private=True)

    assert claim(other) is None
    assert claim(other, task_id=first["task_id"]) is None
    assert claim(admin) is None
    assert claimed(admin, task_id=second["task_id"])["task_id"] == second["task_id"]
    assert claimed(owner)["task_id"] == first["task_id"]


def test_a_private_task_and_its_run_are_for_its_owner_and_admins(store: Any) -> None:
    owner, other, admin = store.http_for(), store.http_for(), store.http()
    receipt = run(owner, private=True)
    task = f"/v1/tasks/{receipt['task_id']}"
    execution = f"/v1/executions/{receipt['run_id']}"

    _same_404(other.get(task), other.get("/v1/tasks/task-999-x"))
    _same_404(other.get(execution), other.get("/v1/executions/run-999-x"))
    assert observations(other)["items"] == []
    assert done(other.get("/v1/executions/pending?queue=q"))["count"] == 0
    assert done(other.get("/v1/queues"))["queues"] == []
    for http in (owner, admin):
        assert http.get(task).status_code == http.get(execution).status_code == 200
        (item,) = observations(http)["items"]
        assert item["server"]["private"] is True
        assert done(http.get("/v1/executions/pending?queue=q"))["count"] == 1
        assert done(http.get("/v1/queues"))["queues"] == ["q"]


def test_an_admin_without_read_or_without_the_queue_reads_nothing(store: Any) -> None:
    receipt = run(store.http_for(), private=True)
    path = f"/v1/executions/{receipt['run_id']}"

    assert store.http_for(["admin"]).get(path).status_code == 403
    assert store.http_for(["admin", "read"], ["other"]).get(path).status_code == 404


# Enqueueing for an owner


def test_an_admin_enqueues_for_an_owner_who_then_has_the_private_task(store: Any) -> None:
    key = store.key()
    owner = store.http(key["secret"])

    task = enqueue(store.http(), private=True, owner_key_id=key["id"])

    assert claimed(owner)["task_id"] == task["task_id"]


def test_owner_key_id_is_for_admins_even_when_it_is_the_callers_own(store: Any) -> None:
    http = store.http_for()
    body = {"queue": "q", "kind": "k", "brief": {}, "owner_key_id": http.headers["x-test-key-id"]}

    assert http.post("/v1/tasks", json=body).status_code == 403


def test_an_owner_that_could_not_be_granted_as_much_is_403_with_the_reason(store: Any) -> None:
    from tessera.store.clock import now, rfc3339

    admin = store.http()
    revoked = store.key()
    admin.delete(f"/v1/keys/{revoked['id']}")
    owners = {
        "unknown": "key_unknown",
        "revoked": revoked["id"],
        "expired": store.key(expires_at=rfc3339(now() - 1000))["id"],
        "queue": store.key(queues=["other"])["id"],
        "kind": store.key(kinds=["other"])["id"],
    }

    for reason, key_id in owners.items():
        body = {"queue": "q", "kind": "k", "brief": {}, "private": True, "owner_key_id": key_id}
        answer = admin.post("/v1/tasks", json=body)
        assert answer.status_code == 403
        assert reason in answer.json()["detail"]


# Records

GRANTS: dict[str, dict[str, Any]] = {
    "writer": {},
    "admin": {"scopes": ALL},
    "reader": {},
    "other store": {"stores": ["elsewhere"]},
    "other queue": {"queues": ["elsewhere"]},
    "kind": {"kinds": ["k"]},
    "other kind": {"kinds": ["elsewhere"]},
}
MATRIX = {
    "private": {"visibility": "private"},
    "surface": {"visibility": "surface_only", "surface": {"queue": "q"}},
    "surface of a kind": {"visibility": "surface_only", "surface": {"queue": "q", "kind": "k"}},
    "shared": {"visibility": "shared"},
}
READERS = {
    "private": {"writer", "admin"},
    "surface": {"writer", "admin", "reader"},
    "surface of a kind": {"writer", "admin", "reader", "kind"},
    "shared": {"writer", "admin", "reader", "other queue", "kind", "other kind"},
}


@pytest.mark.parametrize("form", MATRIX)
def test_who_reads_a_record(store: Any, form: str) -> None:
    keys = {
        name: store.http_for(**{"scopes": ["read", "work", "write"], **grant})
        for name, grant in GRANTS.items()
    }
    done(write(keys["writer"], **MATRIX[form]))
    run_of_it = run(keys["writer"], pins=[{"store": "s", "key": "r", "version": 1}])

    for name, http in keys.items():
        record = http.get("/v1/records/s/r")
        if name == "other store":
            assert record.status_code == 403
            assert done(http.get("/v1/records"))["items"] == []
            continue
        allowed = name in READERS[form]
        listed = done(http.get("/v1/records"))["items"]
        assert (record.status_code == 200) is allowed, name
        assert bool(listed) is allowed, name
        assert (http.get("/v1/records/s/r/versions").status_code == 200) is allowed, name
        if not allowed:
            _same_404(record, http.get("/v1/records/s/absent"))
            _same_404(http.get("/v1/records/s/r?version=1"), http.get("/v1/records/s/absent?version=1"))
            _same_404(http.get("/v1/records/s/r/versions"), http.get("/v1/records/s/absent/versions"))
        # A run that pins it is readable only with it, and with its own queue and kind.
        may_run = allowed and name not in ("other queue", "other kind")
        assert (http.get(f"/v1/executions/{run_of_it['run_id']}").status_code == 200) is may_run, name


def test_a_long_history_that_may_not_be_seen_looks_absent_too(
    store: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(record_lists, "SCAN", 2)  # so that three versions are more than one call looks at
    for version in range(3):
        done(write(store.http(), version=version, visibility="private"))
    other = store.http_for(scopes=["read"])

    for query in ("", "?after=1", "?after=3"):
        _same_404(
            other.get(f"/v1/records/s/r/versions{query}"),
            other.get(f"/v1/records/s/absent/versions{query}"),
        )

    done(write(store.http(), version=3))
    assert done(other.get("/v1/records/s/r/versions"))["has_more"] is True


def test_reading_needs_read_for_pins_too(store: Any) -> None:
    admin = store.http()
    done(write(admin))
    enqueue(admin, pins=[{"store": "s", "key": "r", "version": 1}])

    assert claim(store.http_for(["work"])) is None
    assert claim(store.http_for(["work", "read"])) is not None


def test_no_task_is_offered_to_a_key_that_may_not_read_its_pins(store: Any) -> None:
    admin, http = store.http(), store.http_for()
    done(write(admin, visibility="private"))
    hidden = [enqueue(admin, priority=5, pins=[{"store": "s", "key": "r", "version": 1}]) for _ in range(20)]
    plain = enqueue(admin)

    assert claimed(http)["task_id"] == plain["task_id"]
    assert claim(http) is None
    assert claim(http, task_id=hidden[0]["task_id"]) is None
    assert claimed(admin)["task_id"] == hidden[0]["task_id"]


def test_a_pinned_record_that_may_not_be_read_looks_absent_to_the_enqueuer(store: Any) -> None:
    done(write(store.http(), visibility="private"))
    http = store.http_for()

    def pinned(key: str) -> httpx.Response:
        pins = [{"store": "s", "key": key, "version": 1}]
        return http.post("/v1/tasks", json={"queue": "q", "kind": "k", "brief": {}, "pins": pins})

    _same_404(pinned("r"), pinned("absent"))


def test_a_run_that_pins_a_record_is_private_unless_the_record_is_shared(store: Any) -> None:
    admin = store.http()
    done(write(admin, "open"))
    done(write(admin, "closed", visibility="surface_only", surface={"queue": "q"}))
    run(admin, pins=[{"store": "s", "key": "open", "version": 1}])
    run(
        admin,
        pins=[{"store": "s", "key": "open", "version": 1}, {"store": "s", "key": "closed", "version": 1}],
    )

    assert [item["server"]["private"] for item in observations(admin)["items"]] == [False, True]


def test_pins_are_asked_again_at_each_read(store: Any) -> None:
    admin = store.http()
    done(write(admin))
    receipt = run(admin, pins=[{"store": "s", "key": "r", "version": 1}])
    reader = store.http_for(["read"])
    assert len(observations(reader)["items"]) == 1

    from sqlalchemy import text

    from tessera.store.statements import Statement

    with store.running.store.database.write() as session:
        session.change(Statement(text("DELETE FROM records")))

    assert observations(reader)["items"] == []
    assert reader.get(f"/v1/executions/{receipt['run_id']}").status_code == 404


def test_only_the_writer_or_an_admin_writes_the_next_version_of_a_private_record(store: Any) -> None:
    writer, other, admin = store.http_for(), store.http_for(), store.http()
    done(write(writer, visibility="private"))

    refused = write(other, version=1)
    assert refused.status_code == 409
    assert refused.json()["conflicts"][0]["current_version"] == 1
    assert write(other, version=0).json()["conflicts"][0]["current_version"] == 1
    done(write(admin, version=1, visibility="private"))
    assert write(writer, version=2).status_code == 409  # the newest version is the admin's now
    done(write(admin, version=2, visibility="shared"))
    done(write(other, version=3))


def test_each_version_is_seen_by_its_own_visibility(store: Any) -> None:
    admin, reader = store.http(), store.http_for(["read"])
    done(write(admin, visibility="shared"))
    done(write(admin, version=1, visibility="private"))

    assert reader.get("/v1/records/s/r").status_code == 404
    assert reader.get("/v1/records/s/r?version=1").status_code == 200
    assert [item["version"] for item in done(reader.get("/v1/records/s/r/versions"))["items"]] == [1]
    assert done(reader.get("/v1/records"))["items"] == []


# Keys


def test_a_key_cannot_be_made_to_reach_further_than_its_maker(store: Any) -> None:
    maker = store.http_for(["admin"], ["team-*", "one"], kinds=["a", "b"], stores=["s"])

    def made(**grant: Any) -> int:
        body = {"name": "n", "scopes": ["read"], "queues": ["one"], "kinds": ["a"], "stores": ["s"], **grant}
        return int(maker.post("/v1/keys", json=body).status_code)

    assert made() == 201
    assert made(queues=["team-x", "team-y*", "team-*"]) == 201
    assert made(queues=["two"]) == 403
    assert made(queues=["one*"]) == 403
    assert made(queues=["t*"]) == 403
    assert made(kinds=["c"]) == 403
    assert made(kinds=None) == 403
    assert made(stores=["t"]) == 403
    assert made(stores=None) == 403


def test_a_listed_key_shows_its_grants_and_never_its_secret(store: Any) -> None:
    admin = store.http()
    key = store.key(["read"], ["q"], kinds=["k"], name="reader")

    listed = done(admin.get("/v1/keys"))
    (found,) = [item for item in listed["items"] if item["id"] == key["id"]]

    assert (found["name"], found["scopes"], found["queues"], found["kinds"]) == (
        "reader",
        ["read"],
        ["q"],
        ["k"],
    )
    assert key["secret"] not in str(listed)
    assert done(admin.get("/v1/keys", params={"limit": 1}))["has_more"] is True


def test_revoking_is_told_again_and_an_unknown_key_is_absent(store: Any) -> None:
    admin = store.http()
    key = store.key()

    first = done(admin.delete(f"/v1/keys/{key['id']}"))

    assert done(admin.delete(f"/v1/keys/{key['id']}")) == first
    assert admin.delete("/v1/keys/key_unknown").status_code == 404


def test_a_run_by_a_worker_is_readable_by_the_enqueuer_of_its_private_task_alone(store: Any) -> None:
    owner = store.http_for()
    task = enqueue(owner, private=True)
    admin = store.http()
    receipt = done(submit(admin, claimed(admin, task_id=task["task_id"])))

    assert owner.get(f"/v1/executions/{receipt['run_id']}").status_code == 200
    assert store.http_for().get(f"/v1/executions/{receipt['run_id']}").status_code == 404
