"""Schemathesis over the OpenAPI document that is served: no call answers 5xx, whatever it is sent.

Each operation is called by an admin with cases within what the document says and with cases beyond it, half
of them on a task, a run, a record and a key that are there; every answer must be one that the document
promises. The cases are the same in each run.
"""

import contextlib
from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.errors import Unsatisfiable
from schemathesis import GenerationMode
from schemathesis.checks import (
    content_type_conformance,
    not_a_server_error,
    response_schema_conformance,
    status_code_conformance,
)

from tests.faults.server import Server

CHECKS = [
    not_a_server_error,
    status_code_conformance,
    content_type_conformance,
    response_schema_conformance,
]
EXAMPLES = 12


@pytest.fixture(scope="module")
def known(server: Server) -> dict[str, str]:
    """Path parameters that lead somewhere, by name."""
    with server.caller() as admin:
        admin.enqueue("known", {"n": 1})
        done = admin.claim("known")
        assert done is not None
        run = admin.submit(done, output=[1], execution_report={"summaries": {"problem": "a known problem"}})
        admin.enqueue("known", {"n": 2}, max_attempts=100)
        held = admin.claim("known", lease_seconds=86_400)
        assert held is not None
        write = {
            "store": "known",
            "key": "k",
            "expected_version": 0,
            "category": "noun.eval_run",
            "tags": ["t"],
            "body": {},
            "visibility": "shared",
        }
        assert admin.post("/v1/records", {"writes": [write]}).status_code == 201
        server.key(name="spare")
        keys = admin.get("/v1/keys").json()["items"]
    spare = next(key["id"] for key in keys if key["name"] == "spare")
    return {
        "task_id": held["task_id"],
        "run_id": run.json()["run_id"],
        "store": "known",
        "key": "k",
        "key_id": spare,
    }


def call_at_random(server: Server, operation: Any, mode: GenerationMode, known: dict[str, str]) -> None:
    """Send cases of one operation and check each answer."""
    headers = {"Authorization": f"Bearer {server.admin_secret}"}

    @settings(
        max_examples=EXAMPLES,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(HealthCheck),
    )
    @given(case=operation.as_strategy(generation_mode=mode), there=st.booleans())
    def send(case: Any, there: bool) -> None:
        if there and case.path_parameters:
            case.path_parameters = {name: known[name] for name in case.path_parameters}
        case.call_and_validate(base_url=server.url, headers=headers, checks=CHECKS, timeout=10)

    with contextlib.suppress(Unsatisfiable):  # nothing to do wrong where nothing is taken
        send()


@pytest.mark.parametrize("mode", [GenerationMode.POSITIVE, GenerationMode.NEGATIVE])
def test_every_answer_to_random_calls_is_one_that_the_document_promises(
    server: Server, known: dict[str, str], mode: GenerationMode, subtests: pytest.Subtests
) -> None:
    document = schemathesis.openapi.from_url(f"{server.url}/openapi.json")
    for found in document.get_all_operations():
        operation = found.ok()
        with subtests.test(operation.label):
            call_at_random(server, operation, mode, known)
