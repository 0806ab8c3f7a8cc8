"""The door: what comes through reads back the same, all else is refused with its place, and quickly."""

import json
import math
import time
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tessera.canonical import dumps
from tessera.errors import Invalid, Malformed
from tessera.json_door import MAX_BODY, MAX_FAULTS, loads

SCALAR_TEXT = st.text(st.characters(exclude_categories=("Cs",)))
NUMBERS = st.integers(-(2**53) + 1, 2**53 - 1) | st.floats(-(2.0**53) + 1, 2.0**53 - 1)
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | SCALAR_TEXT,
    lambda inner: st.lists(inner) | st.dictionaries(SCALAR_TEXT, inner),
)


def refusal(data: bytes, kind: type[Malformed] | type[Invalid]) -> Malformed | Invalid:
    with pytest.raises(kind) as caught:
        loads(data)
    return caught.value


def faults(data: bytes) -> list[tuple[str, str]]:
    return [(fault.path, fault.message) for fault in refusal(data, Invalid).errors]


@given(VALUES)
def test_canonical_json_reads_back_the_same(value: Any) -> None:
    assert loads(dumps(value)) == value


@given(VALUES)
def test_what_comes_through_can_be_written_canonically(value: Any) -> None:
    data = json.dumps(value, ensure_ascii=True, indent=1).encode()
    assert dumps(loads(data)) == dumps(value)


PIECES = st.sampled_from(
    [
        *(
            b"[",
            b"]",
            b"{",
            b"}",
            b'"a":',
            b'"b"',
            b",",
            b":",
            b" ",
            b"\n",
            b"1",
            b"-",
            b"tru",
            b"null",
            b'"',
        ),
        *(b"1e999", b"9" * 17, b"9" * 4400, b"\\", b'"\\ud800"', b"\xff"),
        *(b"[" * 150, b"]" * 150, b'{"k":' * 150, b"}" * 150),
    ]
)


def outcome(data: bytes) -> tuple[Any, Malformed | Invalid | None]:
    """The value read, or the refusal; anything else raised fails the test."""
    try:
        return loads(data), None
    except (Malformed, Invalid) as problem:
        return None, problem


@given(st.binary() | st.lists(PIECES, max_size=30).map(b"".join))
@example(b"")
def test_no_bytes_raise_anything_but_the_two_refusals(data: bytes) -> None:
    value, problem = outcome(data)
    if problem is None:
        assert loads(dumps(value)) == value
    else:
        assert 1 <= len(problem.errors) <= MAX_FAULTS
        assert isinstance(problem, Invalid) or min(problem.extra["line"], problem.extra["column"]) >= 1


@given(st.lists(PIECES.filter(lambda piece: piece[0] not in b"]}"), max_size=12).map(b"".join))
@example(b'1,{"a":{},"b":[1,2,"x"]},[],{}')
@example(b'{"a":1,"a":2}')
def test_broken_text_is_told_from_nesting_at_any_depth(middle: bytes) -> None:
    """The same middle under few and under many levels is malformed in both places or in neither."""
    _, few = outcome(b"[" * 10 + middle + b"]" * 10)
    _, many = outcome(b"[" * 400 + middle + b"]" * 400)
    assert isinstance(few, Malformed) == isinstance(many, Malformed) or "duplicate key" in str(few)


@pytest.mark.parametrize(
    ("data", "line", "column"),
    [
        (b"", 1, 1),
        (b"nope", 1, 2),
        (b'{"a": 1,\n "b": x}', 2, 7),
        ('{"é": "éé" x}'.encode(), 1, 12),
        (b'{"a":1}x', 1, 8),
        (b"[1,]", 1, 4),
        (b'["\xff"]', 1, 3),
        (b'["\xed\xa0\x80"]', 1, 3),
        (b"[NaN]", 1, 2),
        (b"[Infinity]", 1, 2),
        (b"[-Infinity]", 1, 3),
        (b'"\\ud800"', 1, 8),
        (b'"\\ude00\\ud83d"', 1, 7),
        (b'{"a":1,"\\u0061":2}', 1, 17),
        (b'[{"a":{"b":1,\n"b":2}}]', 2, 5),
        (b"[01]", 1, 3),
        (b"\xef\xbb\xbf{}", 1, 1),
        (b"[" * 70, 1, 70),
        (b"[" * 300 + b"]" * 299, 1, 599),
        (b"[" * 300 + b'"\xff"', 1, 302),
        (b"\n[" * 300 + b"\nx", 302, 1),
        (b"[" + b"1" * 5000 + b",\n x]", 2, 2),
    ],
)
def test_malformed_json_is_refused_with_line_and_column(data: bytes, line: int, column: int) -> None:
    problem = refusal(data, Malformed)
    assert (problem.status, problem.extra) == (400, {"line": line, "column": column})
    assert problem.detail.endswith(f"at line {line} column {column}")
    assert [fault.path for fault in problem.errors] == [""]


def test_a_quoted_key_of_a_refusal_is_cut() -> None:
    key = b'"' + b"k" * 5000 + b'":1'
    assert len(refusal(b"{" + key + b"," + key + b"}", Malformed).detail) < 300


OVERFLOW, TOO_LARGE = "must not overflow a double", "must be within ±9007199254740991"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"1e999", OVERFLOW),
        (b"-1e999", OVERFLOW),
        (b"1" * 400, OVERFLOW),
        (b"1" * 5000, OVERFLOW),
        (b"-" + b"1" * 5000 + b".5", OVERFLOW),
        (b"1e16", TOO_LARGE),
        (b"1e300", TOO_LARGE),
        (b"9007199254740992", TOO_LARGE),
        (b"-9007199254740992", TOO_LARGE),
        (b"9007199254740993.0", TOO_LARGE),
        (b"0.9007199254740993e16", TOO_LARGE),
        (b"90071992547409920e-1", TOO_LARGE),
        (b"1" * 4310 + b"e-4200", TOO_LARGE),
    ],
)
def test_a_number_out_of_bounds_is_refused_with_its_path(data: bytes, message: str) -> None:
    assert faults(b'{"a": {"b.c": [0, ' + data + b"]}}") == [("a.b.c[1]", message)]


@pytest.mark.parametrize(
    "data",
    [
        *(b"0.1", b"9007199254740991", b"-9007199254740991.0", b"1e-999", b"-0.0", b"1.5e3"),
        *(b"90071992547409910e-1", b"0." + b"1" * 5000, b"1" * 5000 + b"e-5000", b"0e999999999999"),
    ],
)
def test_a_number_within_bounds_comes_through(data: bytes) -> None:
    value = loads(data)
    assert math.isclose(value, float(data), rel_tol=0)


def test_all_faults_are_listed_in_document_order_up_to_a_bound() -> None:
    deep = b'{"a": 1e999, "b": [[' + b"[" * 62 + b"]" * 62 + b"], 1e16]}"
    assert [path for path, _ in faults(deep)] == ["a", "b" + "[0]" * 63, "b[1]"]
    assert len(faults(b"[" + b"1e999," * 1000 + b"0]")) == MAX_FAULTS


def test_a_long_key_above_many_faults_does_not_multiply() -> None:
    data = b'{"' + b"k" * 500_000 + b'":[' + b"1e999," * 1000 + b"0]}"
    assert sum(len(path) for path, _ in faults(data)) < MAX_BODY


def test_the_root_begins_each_path() -> None:
    with pytest.raises(Invalid) as caught:
        loads(b'{"a":[1e999]}', root="attempts[3]")
    assert caught.value.errors[0].path == "attempts[3].a[0]"


def test_64_levels_come_through_and_65_do_not() -> None:
    assert loads(b"[" * 64 + b"]" * 64)
    assert faults(b"[" * 65 + b"]" * 65) == [("[0]" * 64, "must not nest over 64 levels")]


@pytest.mark.parametrize("levels", [66, 198, 200, 202, 100_000])
def test_the_first_container_that_is_too_deep_is_named_at_any_depth(levels: int) -> None:
    data = b'{"x":[[1],{"y":2}],"k":' + b'[0,{"m":' * (levels // 2) + b"1" + b"}]" * (levels // 2) + b"} \n"
    assert faults(data) == [("k" + "[1].m" * 31 + "[1]", "must not nest over 64 levels")]


def test_a_repeated_key_is_named_where_it_stands_not_where_its_value_ends() -> None:
    problem = refusal(b'{"a":1,\n"a":' + b"[\n" * 300 + b"]" * 300 + b"}", Malformed)
    assert problem.extra["line"] == 2


HOSTILE = {
    "arrays": b"[" * (MAX_BODY // 2) + b"]" * (MAX_BODY // 2),
    "unclosed arrays": b"[" * MAX_BODY,
    "objects": b'{"a":' * (MAX_BODY // 6) + b"1" + b"}" * (MAX_BODY // 6),
    "arrays with elements": b"[1,[]," * (MAX_BODY // 8) + b"1" + b"]" * (MAX_BODY // 8),
    "quotes": b"[" * 300 + b'"' + b'\\"' * (MAX_BODY // 2),
    "unclosed escapes": b'"' + b"\\" * MAX_BODY,
    "spaces": b"[" * 300 + b"]" * 300 + b" " * MAX_BODY,
    "spaces inside": b"[" * 300 + b" " * MAX_BODY + b"x",
    "lines": b"\n" * MAX_BODY,
    "digits": b"1" * MAX_BODY,
    "long numbers": b"[" + (b"1" * 4400 + b",") * 230 + b"1]",
    "dots": b"[1" + b".1" * (MAX_BODY // 2),
    "exponents": b'"' + b" 1e" * (MAX_BODY // 3),
    "a misfit": b"1" * 50_000 + b"x",
    "keys": b"{" + b",".join(b'"%d":1e3' % n for n in range(MAX_BODY // 12)) + b"}",
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_body_is_answered_soon(name: str) -> None:
    """Processor time, generous, as machines differ; anything worse than linear takes minutes here."""
    started = time.thread_time()
    outcome(HOSTILE[name])
    assert time.thread_time() - started < 2
