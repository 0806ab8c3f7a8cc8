"""Search finds what the definition finds, in either form and in any order."""

import random
from array import array
from concurrent.futures import ThreadPoolExecutor
from struct import unpack_from
from threading import Barrier

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tessera import fingerprints
from tessera.advice import segments as read
from tessera.advice.columns import Columns
from tessera.advice.search import Found, Plain, searcher
from tessera.advice.segments import EXACT_BYTES, SIGNATURE_BYTES, IndexFault, Segment
from tessera.advice.similar import query
from tessera.canonical import digest
from tests.tessera.advice.indexes import entry, segment_body, segments

WORDS = ["pack", "library", "tight", "zlib", "lzma", "fast", "slow", "wide", "tall", "file", "code", "tree"]
TEXTS = st.lists(st.sampled_from(WORDS), max_size=9).map(" ".join)
EXACTS = st.sampled_from([None, "a" * 64, "b" * 64, "a" * 63 + "c"])


def asked(text: str, kind: str = "k") -> tuple[int, ...] | None:
    return query(kind, {"problem": text}).signature


@settings(deadline=None)  # it measures the machine
@given(
    st.lists(st.tuples(TEXTS, EXACTS), max_size=40),
    TEXTS,
    EXACTS,
    st.sampled_from([0, 5, 200_000]),
    st.integers(1, 9),
)
def test_both_forms_find_the_same_in_the_same_order(
    runs: list[tuple[str, str | None]], text: str, exact: str | None, limit: int, size: int
) -> None:
    held = segments([entry(7 * n + 3, words, exact=equal) for n, (words, equal) in enumerate(runs)], size)

    assert Columns(held).search(asked(text), exact, limit) == Plain(held).search(asked(text), exact, limit)


@settings(deadline=None)
@given(st.lists(TEXTS, max_size=30), TEXTS)
def test_the_exact_scan_finds_every_entry_that_the_scalar_similarity_finds(
    runs: list[str], text: str
) -> None:
    held = [entry(n, words) for n, words in enumerate(runs, 1)]
    signature = asked(text)

    found = Columns(segments(held)).search(signature, None)

    expected = {
        position
        for position, one in enumerate(held)
        if signature is not None
        and one["minhash"] is not None
        and fingerprints.similarity(signature, fingerprints.decode_signature(one["minhash"])) >= 0.3
    }
    assert set(found.positions) == expected


def test_exact_ones_come_first_then_likeness_then_the_newest() -> None:
    text = "pack library tight zlib fast wide"
    held = segments(
        [
            entry(1, "unrelated words entirely alone", exact="a" * 64),
            entry(2, text),
            entry(3, text),
            entry(4, "pack library tight zlib fast tall"),
            entry(5, "", exact="a" * 64),
        ]
    )

    found = searcher(held).search(asked(text), "a" * 64)

    assert found.positions[:4] == [0, 4, 2, 1]
    assert found.exact[:4] == [True, True, False, False]
    assert found.similarity(1) is None
    assert [found.similarity(rank) for rank in (2, 3)] == [1.0, 1.0]
    assert 0.3 <= (found.similarity(4) or 0) < 1


def test_above_the_limit_only_bands_and_exact_fingerprints_lead_to_an_entry() -> None:
    base = fingerprints.minhash(["c:k", "w:a1", "w:b1", "w:c1"]) or ()
    near = (0, *base[1:2], 0, *base[3:4], 0, *base[5:6], 0, *base[7:])  # 28 of 32 equal, no band shared
    encoded = fingerprints.encode_signature(near)
    held = segments([entry(1, minhash=encoded), entry(2, minhash=encoded, exact="a" * 64)])

    for form in (Columns(held), Plain(held)):
        assert form.search(base, None, 2).positions == [1, 0]
        assert form.search(base, None, 1) == Found([], [], [])
        assert form.search(base, "a" * 64, 1) == Found([1], [True], [28])


def test_empty_texts_and_single_words_are_like_nothing_but_their_equals() -> None:
    texts = ["", "   ", "cat", "dog", "cat", "\U0001f600", "a long text about packing the library tightly"]
    digests = {text: digest({"text": text}) for text in texts}
    held = segments([entry(n, text, exact=digests[text]) for n, text in enumerate(texts, 1)])
    search = searcher(held).search

    assert all(search(asked(text), None).positions == [] for text in texts[:6])
    assert search(asked("cat"), digests["cat"]).positions == [4, 2]
    assert search(asked("dog"), digests["dog"]).positions == [3]
    assert search(asked(""), digests[""]).positions == [0]


def test_likeness_is_judged_pair_by_pair_and_never_handed_on() -> None:
    words = [f"n{number}" for number in range(60)]
    a, b, c = (" ".join(words[start : start + 24]) for start in (0, 12, 24))
    held = segments([entry(1, a), entry(2, b), entry(3, c)])

    found = searcher(held).search(asked(a), None)

    assert found.positions[0] == 0
    assert 1 in found.positions
    assert 2 not in found.positions  # like b, which is like a, and itself nothing like a


def test_the_order_of_capture_changes_no_likeness() -> None:
    texts = [" ".join(random.Random(seed).sample(WORDS, 6)) for seed in range(60)]
    orders = [texts, texts[::-1], random.Random(1).sample(texts, len(texts))]

    found = []
    for order in orders:
        hits = searcher(segments([entry(n, text) for n, text in enumerate(order, 1)])).search(
            asked(texts[0]), None
        )
        found.append(
            sorted((order[place], equal) for place, equal in zip(hits.positions, hits.equal, strict=True))
        )

    assert found[0] == found[1] == found[2]


def test_two_pairs_of_twins_stay_two_pairs() -> None:
    one, other = "pack library tight zlib lzma", "tree code file tall wide"
    held = segments([entry(1, one), entry(2, other), entry(3, one), entry(4, other)])
    search = searcher(held).search

    assert search(asked(one), None).positions == [2, 0]
    assert search(asked(other), None).positions == [3, 1]


def test_no_entries_have_nothing_to_find() -> None:
    assert Columns([]).search(asked("pack library tight"), "a" * 64) == Found([], [], [])
    assert Plain([]).search(None, None) == Found([], [], [])


def test_a_number_that_python_writes_otherwise_is_digested_as_rfc_8785_has_it() -> None:
    held = entry(1, cost={"amount": 1e-7, "currency": "EUR", "source": "s"}, server_duration_seconds=1e21)
    body = segment_body([entry(2), held], options={"entries": [], "\u20ac": "\x7f\u2028"})

    segment = read.of_body("seg", body, digest(body))

    assert [segment.entry(place) for place in (0, 1)] == body["entries"]
    assert read.of_text("seg", segment.text, segment.sha256) == segment
    assert read.of_text("seg", segment.text + b" ", segment.sha256) is None


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"scheme": "tessera.minhash.v2"}, r"signatures of tessera\.minhash\.v2; this software compares"),
        ({"schema": "tessera.memory-segment.v2"}, r"is a tessera\.memory-segment\.v2"),
        ({"entries": [entry(1, minhash="AAAA")]}, r"entries\[0\] holds 3 bytes where 128 belong"),
        ({"entries": [{"run_id": "run-1"}]}, r"entries\[0\] has no cursor"),
        ({"entries": [entry(1, exact="zz")]}, r"entries\[0\]"),
        ({"entries": [7]}, r"entries\[0\]"),
        ({"entries": [entry(n) for n in range(1, 130)]}, "129 entries"),
    ],
)
def test_a_segment_of_another_scheme_or_shape_is_refused_by_name(
    change: dict[str, object], told: str
) -> None:
    body = {**segment_body([entry(1)]), **change}

    with pytest.raises(IndexFault, match=rf"^learn/seg.*{told}"):
        read.of_body("learn/seg", body, digest(body))


@pytest.mark.parametrize("form", [Columns, Plain])
def test_threads_that_ask_a_new_index_at_once_each_find_what_is_there(form: type[Columns | Plain]) -> None:
    size, threads = 20_000, 8
    signatures = random.Random(1).randbytes(size * SIGNATURE_BYTES)
    held = Segment(
        "",
        signatures,
        b"\1" * size,
        bytes(size * EXACT_BYTES),
        array("q", range(size)),
        b"",
        array("Q"),
        array("Q"),
    )
    search, together = form([held]), Barrier(threads)

    def ask(thread: int) -> list[list[int]]:
        places = range(thread, size, size // 10)
        asked = [unpack_from(f">{fingerprints.VALUES}I", signatures, at * SIGNATURE_BYTES) for at in places]
        together.wait()
        return [search.search(signature, None, exact_limit=0).positions for signature in asked]

    with ThreadPoolExecutor(threads) as pool:
        found = list(pool.map(ask, range(threads)))

    assert found == [[[at] for at in range(thread, size, size // 10)] for thread in range(threads)]
