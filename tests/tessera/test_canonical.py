"""Canonical JSON's worked values, and text functions that take any text."""

import hashlib
from typing import Any

import pytest
import rfc8785
from hypothesis import example, given
from hypothesis import strategies as st

from tessera.canonical import digest, dumps, is_blank, is_scalar_text, scalar_text, utf8, utf16_key

ANY_TEXT = st.text(st.characters())


def test_the_example_of_the_rfc_is_written_as_the_rfc_writes_it() -> None:
    """RFC 8785, section 3.2.2 and 3.2.3."""
    value = {
        "numbers": [333333333.33333329, 1e30, 4.50, 2e-3, 0.000000000000000000000000001],
        "string": "\u20ac$\u000f\u000aA'\u0042\u0022\u005c\\\"/",
        "literals": [None, True, False],
    }
    assert dumps(value) == (
        b'{"literals":[null,true,false],"numbers":[333333333.3333333,1e+30,4.5,0.002,1e-27],'
        b'"string":"\xe2\x82\xac$\\u000f\\nA\'B\\"\\\\\\\\\\"/"}'
    )


def test_keys_sort_by_utf16_code_units() -> None:
    """RFC 8785, section 3.2.3: the emoji comes before U+FB33, though its code point is higher."""
    keys = ["\u20ac", "\r", "\ufb33", "1", "\U0001f600", "\u0080", "\u00f6"]
    assert sorted(keys, key=utf16_key) == ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\U0001f600", "\ufb33"]


def test_a_digest_is_lowercase_hex_sha256_of_canonical_json() -> None:
    assert digest({"b": 1.0, "a": "é"}) == hashlib.sha256('{"a":"é","b":1}'.encode()).hexdigest()


@pytest.mark.parametrize("value", [2**53, float("nan"), float("inf"), "\ud800", {1: 2}, {"a": object()}])
def test_what_jcs_cannot_say_is_a_value_error(value: Any) -> None:
    with pytest.raises(ValueError):
        dumps(value)


ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda held: st.lists(held) | st.tuples(held) | st.dictionaries(ANY_TEXT | st.text("abc_"), held),
)


@given(ANY_JSON)
@example([1e-4, 9.999999999999999e-05, -1e-4, 1e16, 9007199254740991.0, 9007199254740992.0, -0.0, 0.0, 1e22])
@example([123456789012.34567, 5e-324, 0.1, 1.0, -1.5, 1e15 + 0.5, 2.0**53, 2**53 - 1, True, 1])
@example({'\x7f\x00\x1f"\\/\b\f\n\r\t\u2028\u2029': '\x7f\x00\x1f"\\/\b\f\n\r\t\u2028\u2029\ue000'})
@example({"b": 1, "a": {"B": 2, "_": 3, "": 4, "a b": 5}})
def test_whatever_is_said_faster_is_said_as_the_library_says_it(value: Any) -> None:
    try:
        expected = rfc8785.dumps(value)
    except ValueError:
        with pytest.raises(ValueError):
            dumps(value)
    else:
        assert dumps(value) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("plain", "plain"),
        ("\ud83d" + "\ude00", "\U0001f600"),
        ("\ud800", "\ufffd"),
        ("\udc00\ud800", "\ufffd\ufffd"),
        ("a\ud800\ud83d" + "\ude00b", "a\ufffd\U0001f600b"),
    ],
)
def test_lone_halves_count_as_the_replacement_character(text: str, expected: str) -> None:
    assert scalar_text(text) == expected


@given(ANY_TEXT)
def test_any_text_becomes_text_that_utf8_can_carry(text: str) -> None:
    assert utf8(text).decode() == scalar_text(text) == scalar_text(scalar_text(text))
    assert is_scalar_text(text) == (
        "\ufffd" not in scalar_text(text) or scalar_text(text).count("\ufffd") == text.count("\ufffd")
    )


@given(ANY_TEXT)
def test_the_sort_key_orders_as_utf16_code_units_do(text: str) -> None:
    assert [*memoryview(utf16_key(text))[::2]] == [
        unit >> 8 for unit in memoryview(text.encode("utf-16-le", "surrogatepass")).cast("H")
    ]


def test_only_six_characters_are_blank() -> None:
    assert is_blank("")
    assert is_blank("\t\n\x0b\x0c\r ")
    for other in ("\x00", "\x1c", "\x85", "\u00a0", "\u2003", "\u3000", "\ufeff"):
        assert not is_blank(other)
