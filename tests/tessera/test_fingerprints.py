"""Fingerprints against the public vectors, worked values, and what must hold for any text."""

import hashlib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera import fingerprints as fp

ANY_TEXT = st.text(st.characters())  # lone surrogates included
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
)


def test_input_types_are_those_of_the_vectors(vectors: Any) -> None:
    for case in vectors.cases("input_type"):
        assert fp.input_type(case["brief"]) == case["input_type"]


def test_exact_fingerprints_are_those_of_the_vectors(vectors: Any) -> None:
    for case in vectors.cases("exact"):
        assert (
            fp.exact_fingerprint(case["category"], case["input_type"], case["input_digest"]) == case["exact"]
        )


def test_words_are_those_of_the_vectors(vectors: Any) -> None:
    for case in vectors.cases("words"):
        assert fp.words(case["text"]) == case["words"]


def test_function_words_are_those_of_the_vectors(vectors: Any) -> None:
    assert set(vectors.text("function_words.txt").split()) == fp.FUNCTION_WORDS


def test_signatures_are_those_of_the_vectors(vectors: Any) -> None:
    for case in vectors.cases("minhash"):
        found = fp.features(
            case["category"], case["wording"], case["problem"], case["input_sig"], case["output_sig"]
        )
        signature = fp.minhash(found)
        assert found == case["features"]
        assert signature == (None if case["minhash"] is None else tuple(case["minhash"]))
        if signature is not None:
            assert fp.encode_signature(signature) == case["encoded"]
            assert list(fp.bands(signature)) == case["bands"]


def test_similarities_are_those_of_the_vectors(vectors: Any) -> None:
    for case in vectors.cases("similarity"):
        a, b = fp.decode_signature(case["a"]), fp.decode_signature(case["b"])
        shared = len(set(enumerate(fp.bands(a))) & set(enumerate(fp.bands(b))))
        assert (fp.similarity(a, b), shared) == (case["similarity"], case["shared_bands"])


@given(JSON_VALUES)
def test_any_value_has_a_bounded_type_that_utf8_can_carry(value: Any) -> None:
    assert len(fp.input_type(value).encode()) <= 1024


def test_a_type_stops_at_the_fourth_level() -> None:
    assert fp.input_type({"a": {"b": {"c": {}, "d": [], "e": 1}}}) == '{"a":{"b":{"c":{*},"d":[*],"e":num}}}'


def test_a_long_type_is_hashed() -> None:
    text = '{"' + "k" * 1024 + '":num}'
    assert fp.input_type({"k" * 1024: 1}) == "sha256:" + hashlib.sha256(text.encode()).hexdigest()


def test_keys_of_a_type_sort_by_utf16_code_units() -> None:
    assert fp.input_type({"\ue000": 1, "\U0001f600": 2}) == '{"\U0001f600":num,"\ue000":num}'


def test_a_brief_a_hundred_thousand_levels_deep_has_a_type() -> None:
    brief: Any = 1
    for _ in range(100_000):
        brief = [brief]
    assert fp.input_type(brief) == "[[[[*]]]]"
    while isinstance(brief, list):  # taken apart by hand, as freeing it at once would recurse
        brief = brief.pop()


@given(ANY_TEXT)
def test_words_are_distinct_bounded_and_stable(text: str) -> None:
    found = fp.words(text)
    assert len(found) == len(set(found)) <= 512
    assert fp.words(" ".join(found)) == found
    assert not set(found) & fp.FUNCTION_WORDS


def test_split_halves_are_the_character_they_spell() -> None:
    assert fp.words("a\ud83d" + "\ude00b \ud83d") == ["a\U0001f600b", "\ufffd"]


def test_a_text_without_evidence_has_no_signature() -> None:
    assert fp.minhash(fp.features("verb.summarize", ["the of and", ""], "a b c")) is None
    assert fp.minhash([]) is None


def test_two_one_word_texts_of_a_category_differ() -> None:
    cat, dog = (fp.minhash(fp.features("k", [word])) for word in ("cat", "dog"))
    assert cat is not None
    assert dog is not None
    assert cat != dog
    assert fp.similarity(cat, cat) == 1.0


@given(ANY_TEXT, st.lists(ANY_TEXT, max_size=3), st.none() | ANY_TEXT, st.none() | ANY_TEXT)
def test_any_run_has_features_and_an_order_free_signature(
    category: str, wording: list[str], problem: str | None, signature: str | None
) -> None:
    found = fp.features(category, wording, problem, signature, signature)
    assert fp.minhash(found) == fp.minhash(found[::-1])
    assert len(found) == len(set(found))


@given(st.lists(st.integers(0, 2**32 - 1), min_size=32, max_size=32))
def test_an_encoded_signature_decodes_to_itself(values: list[int]) -> None:
    assert fp.decode_signature(fp.encode_signature(values)) == tuple(values)


@pytest.mark.parametrize("encoded", ["", "AAAA", "!" * 172, "A" * 171, "é"])
def test_what_is_no_signature_is_refused(encoded: str) -> None:
    with pytest.raises(ValueError):
        fp.decode_signature(encoded)


def test_the_overlap_is_estimated_within_its_error() -> None:
    """Jaccard of the feature sets is 101 / 201; the standard error is about 0.09."""
    a = fp.minhash(fp.features("k", [" ".join(f"word{n}" for n in range(150))]))
    b = fp.minhash(fp.features("k", [" ".join(f"word{n}" for n in range(50, 200))]))
    assert a is not None
    assert b is not None
    assert abs(fp.similarity(a, b) - 101 / 201) < 3 * 0.09
