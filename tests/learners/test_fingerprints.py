"""The batch form of MinHash gives the scalar form's values, whatever the text and the chunks."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners import fingerprints as batch
from tessera import fingerprints as scalar
from tessera.canonical import scalar_text

Row = tuple[str, str | None, str | None, str | None, str | None, str | None]


def column(values: list[str | None]) -> pl.Series:
    """As the lake holds them: UTF-8, so a lone half came in as the replacement character."""
    return pl.Series([None if value is None else scalar_text(value) for value in values], dtype=pl.String)


def batched(rows: list[Row]) -> batch.Signatures:
    category, title, goal, problem, given_type, wanted = (column([row[k] for row in rows]) for k in range(6))
    return batch.signatures(category, [title, goal], problem, given_type, wanted)


def assert_same(rows: list[Row]) -> None:
    found = batched(rows)
    for position, (category, title, goal, problem, given_type, wanted) in enumerate(rows):
        wording = [text for text in (title, goal) if text is not None]
        features = scalar.features(category, wording, problem, given_type, wanted)
        expected = scalar.minhash(features)
        assert found.known[position] == (expected is not None)
        assert tuple(found.values[position].tolist()) == (expected or (0,) * 32)
        assert found.features[position] == len(features) - 1


WORDS = st.sampled_from(["The", "the", "a", "É", "é", "x1", "\U0001f600", "naïve", "w", "word", "ti", "1"])
TEXT = st.text(st.characters()) | st.lists(WORDS).map(" ".join) | st.lists(WORDS).map("-\n".join)
ROWS = st.lists(st.tuples(TEXT, *[st.none() | TEXT] * 5), max_size=12)


@settings(deadline=None)  # it measures the machine
@given(ROWS)
def test_any_text_has_the_scalar_forms_values(rows: list[Row]) -> None:
    assert_same(rows)


@settings(deadline=None)
@given(ROWS, st.integers(1, 40))
def test_chunks_do_not_show(rows: list[Row], size: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(batch, "CHUNK_BYTES", size)
        patch.setattr(batch, "_BLOCK_ROWS", 1 + size % 3)
        assert_same(rows)


@pytest.mark.parametrize("count", [511, 512, 513, 2000])
def test_only_the_first_512_words_count(count: int) -> None:
    numbers = [f"n{n}" for n in range(count)]
    many, backwards = " ".join(numbers * 2), " ".join(numbers[::-1])
    assert_same([("k", many, "x y", None, None, None), ("k", "z1", None, backwards, many, many)] * 2)


def test_no_rows_have_no_signatures() -> None:
    found = batched([])
    assert (found.values.shape, len(found.known), len(found.features)) == ((0, 32), 0, 0)
    assert found.frame().height == 0


def test_rows_without_evidence_are_unknown_and_null() -> None:
    found = batched([("k", "the of", None, " ", "", None), ("k", None, None, None, None, None)])
    assert not found.known.any()
    assert not found.features.any()
    assert found.frame()["minhash"].null_count() == 2


def test_the_vectors_hold_for_a_column(request: pytest.FixtureRequest) -> None:
    file = Path(request.config.rootpath).parent / "shared" / "vectors" / "minhash.json"
    if not file.is_file():
        pytest.skip("the public vectors are not beside this checkout")
    cases: list[dict[str, Any]] = json.loads(file.read_text())
    width = max(len(case["wording"]) for case in cases)
    wording = [column([(case["wording"] + [None] * width)[k] for case in cases]) for k in range(width)]
    rest = [column([case[name] for case in cases]) for name in ("problem", "input_sig", "output_sig")]
    found = batch.signatures(column([case["category"] for case in cases]), wording, *rest)
    for position, case in enumerate(cases):
        expected = None if case["minhash"] is None else case["minhash"]
        assert (found.values[position].tolist() if found.known[position] else None) == expected
        assert found.features[position] == len(case["features"]) - 1


def test_the_frame_holds_typed_arrays() -> None:
    frame = batched([("k", "word", None, None, None, None), ("k", None, None, None, None, None)]).frame()
    assert frame.schema == {"minhash": pl.Array(pl.UInt32, 32), "features": pl.Int64}
    assert frame["minhash"].null_count() == 1
    assert frame["minhash"][0].to_list() == list(scalar.minhash(["c:k", "w:word"]) or ())


def test_rows_of_the_observations_table_are_read_by_name() -> None:
    frame = pl.DataFrame(
        {
            "kind": ["k"],
            "wording": [{"title": "alpha", "goal": None}],
            "problem": ["beta"],
            "types_input": ["video/mp4"],
            "types_output": pl.Series([None], dtype=pl.String),
        },
        schema_overrides={"wording": pl.Struct({"title": pl.String, "goal": pl.String})},
    )
    expected = scalar.minhash(scalar.features("k", ["alpha"], "beta", "video/mp4"))
    assert tuple(np.asarray(batch.observation_signatures(frame).values[0]).tolist()) == expected
