"""The errors' tree: what the server raises is what the client raises back."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera import errors
from tessera.errors import Conflict, ConnectionFault, Fault, Invalid, NotFound, Problem, from_document

PROBLEMS = [
    errors.Malformed,
    errors.Unauthorized,
    errors.Forbidden,
    errors.NotFound,
    errors.Conflict,
    errors.TooLarge,
    errors.Misdirected,
    errors.Invalid,
    errors.Unavailable,
]


@pytest.mark.parametrize("kind", PROBLEMS)
def test_a_problem_survives_the_wire(kind: type[Problem]) -> None:
    sent = kind("why", errors=[Fault("a[0].b", "must be a string")], extra={"line": 3})
    received = from_document(sent.status, sent.document())
    assert type(received) is kind
    assert received.document() == sent.document()
    assert str(received) == str(sent)


def test_a_document_has_the_standard_members_and_errors_only_when_there_are_some() -> None:
    assert NotFound("no such record").document() == {
        "type": "about:blank",
        "title": "Not Found",
        "status": 404,
        "detail": "no such record",
    }
    assert Invalid("bad", errors=[Fault("a", "m")]).document()["errors"] == [{"path": "a", "message": "m"}]


def test_an_extension_never_replaces_a_standard_member() -> None:
    assert Conflict("why", extra={"status": 200, "conflicts": []}).document()["status"] == 409


def test_the_message_names_status_detail_and_each_fault() -> None:
    problem = Invalid("bad values", errors=[Fault("a", "must be a string"), Fault("b", "is required")])
    assert str(problem) == (
        "422 Unprocessable Entity: bad values\n  a: must be a string\n  b: is required"
    ).replace("Unprocessable Entity", problem.title)


def test_a_refused_batch_lists_its_conflicts() -> None:
    conflicts = [{"index": 1, "current_version": 4}]
    assert Conflict("moved", extra={"conflicts": conflicts}).conflicts == conflicts
    assert Conflict("moved").conflicts == []


def test_an_unknown_status_is_a_plain_problem() -> None:
    problem = from_document(599, None)
    assert (type(problem), problem.status, problem.title) == (Problem, 599, "Problem")
    assert from_document(429, {"detail": "slow down"}).title == "Too Many Requests"


@given(
    st.integers(100, 599),
    st.recursive(
        st.none() | st.integers() | st.text(),
        lambda inner: (
            st.lists(inner) | st.dictionaries(st.sampled_from(["errors", "title", "path", "x"]), inner)
        ),
    ),
)
def test_any_body_makes_a_problem(status: int, document: Any) -> None:
    assert from_document(status, document).document()["status"] == status


def test_an_unreachable_store_is_named_with_what_to_do() -> None:
    fault = ConnectionFault("http://127.0.0.1:1", "connection refused")
    assert "http://127.0.0.1:1" in str(fault)
    assert "tessera serve" in str(fault)
