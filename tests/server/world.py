"""A store with one of everything, and a key of each kind: what the permission matrix is asked of.

The owner's things are in queue ``q``, kind ``k`` and store ``s``; queue ``lists`` holds exactly one run, a
private one of the owner's that pins a shared record of the store ``s`` and followed a draw.
"""

import itertools
from dataclasses import dataclass, field
from typing import Any

import httpx

from tessera.store.clock import now, rfc3339

WORKER = ("read", "work", "write")
ALL = (*WORKER, "admin")
KEYS: dict[str, dict[str, Any] | None] = {
    "no key": None,
    "unknown": None,
    "revoked": {"scopes": ALL},
    "expired": {"scopes": ALL},
    "read": {"scopes": ("read",)},
    "work": {"scopes": ("work",)},
    "write": {"scopes": ("write",)},
    "admin scope": {"scopes": ("admin",)},
    "other queue": {"scopes": WORKER, "queues": ("elsewhere",)},
    "other kind": {"scopes": WORKER, "kinds": ("elsewhere",)},
    "other store": {"scopes": WORKER, "stores": ("elsewhere",)},
    "owner": {"scopes": WORKER},
    "non-owner": {"scopes": WORKER},
    "admin": {"scopes": ALL},
    "admin elsewhere": {"scopes": ALL, "queues": ("elsewhere",)},
}
ARMS = [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.5}]
BRIEF = {"goal": "pack the logs of the week"}
PIN = {"store": "s", "key": "shared", "version": 1}


@dataclass
class Asked:
    """A call's arguments: path values, query, body."""

    path: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)
    body: dict[str, Any] | None = None


class World:
    """Makes fresh things of the owner's, so that no cell of the matrix meets another's traces."""

    def __init__(self, store: Any) -> None:
        self.store = store
        self.headers = {name: self._header(name, grant) for name, grant in KEYS.items()}
        self.http = httpx.Client(base_url=store.url, timeout=30)
        self._numbers = itertools.count(1)
        self.record("shared", visibility="shared")
        self.record("mine")
        self.record("surface", visibility="surface_only", surface={"queue": "q", "kind": "k"})
        self.run_id = self._run()

    def close(self) -> None:
        """Close the connection."""
        self.http.close()

    def _header(self, name: str, grant: dict[str, Any] | None) -> dict[str, str]:
        if grant is None:
            return {} if name == "no key" else {"authorization": "Bearer tsk_unknown"}
        more = {"expires_at": rfc3339(now() - 1000)} if name == "expired" else {}
        key = self.store.key(name=name, **{"queues": ("*",), **grant, **more})
        if name == "revoked":
            assert self.store.http().delete(f"/v1/keys/{key['id']}").status_code == 200
        return {"authorization": f"Bearer {key['secret']}"}

    def name(self) -> str:
        """A name that nothing has."""
        return f"n{next(self._numbers)}"

    def owner(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """A call of the owner's that must go well."""
        answer = self.http.post(path, json=body, headers=self.headers["owner"])
        assert answer.is_success, answer.text
        made: dict[str, Any] = answer.json()
        return made

    def record(self, key: str, **more: Any) -> dict[str, Any]:
        """The owner's record, private unless told otherwise."""
        return self.owner("/v1/records", {"writes": [self.write(key, **more)]})

    def write(self, key: str, **more: Any) -> dict[str, Any]:
        """One write."""
        return {
            "store": "s",
            "key": key,
            "expected_version": 0,
            "category": "noun.x",
            "tags": [],
            "body": {},
            "visibility": "private",
            **more,
        }

    def task(self, queue: str = "q") -> str:
        """A private task of the owner's, with a pin."""
        body = {"queue": queue, "kind": "k", "brief": BRIEF, "private": True, "pins": [PIN]}
        return str(self.owner("/v1/tasks", body)["task_id"])

    def held(self, queue: str = "q") -> str:
        """The same, claimed by the owner under fence 1."""
        task_id = self.task(queue)
        self.owner("/v1/tasks/claim", {"queue": queue, "task_id": task_id, "lease_seconds": 600})
        return task_id

    def spare_key(self) -> str:
        """A key that nobody needs."""
        return str(self.store.key(name="spare")["id"])

    def _run(self) -> str:
        path = f"/v1/tasks/{self.held('lists')}"
        self.owner(f"{path}/draw", {"fence": 1, "dimension": "model", "arms": ARMS})
        return str(self.owner(f"{path}/submit", {"fence": 1, "ok": True})["run_id"])
