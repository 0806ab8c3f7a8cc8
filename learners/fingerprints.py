"""MinHash signatures of whole columns: the batch form of ``tessera.fingerprints``, equal to the bit.

What makes it fast: a column is cut into words at once, as bytes; words are numbered, so that each distinct
one is hashed once; the minimum over each row's words is taken position by position over many rows. Works in
chunks of bounded size, a thread for each core. Pure; numpy and Arrow alone. Leaves out search.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import polars as pl
import pyarrow as pa

from tessera.canonical import dumps
from tessera.fingerprints import DROPPED, EXACT_PROFILE, MAX_WORDS, SCHEME, SEPARATED, VALUES

Values = npt.NDArray[np.uint32]
Counts = npt.NDArray[np.int64]

CHUNK_BYTES = 8 << 20
"""Text that a thread cuts into words at once; memory stays below about twenty times this for each core."""
_BLOCK_ROWS = 2048  # rows whose minima are taken together: their values stay in the cache
_FOLDED = bytes(range(256)).lower().translate(SEPARATED)
_SPACE = ord(" ")
_GOLDEN = 0x9E3779B9


@dataclass(frozen=True, slots=True)
class Signatures:
    """Rows of signatures.

    ``values`` is rows × 32, zero where not ``known``; ``features`` counts those beside the category.
    """

    values: Values
    known: npt.NDArray[np.bool_]
    features: Counts

    def frame(self) -> pl.DataFrame:
        """Columns ``minhash`` (Array of 32 UInt32, null where unknown) and ``features`` (Int64)."""
        values = pl.Series("minhash", self.values, dtype=pl.Array(pl.UInt32, VALUES))
        columns = pl.DataFrame([values, pl.Series("features", self.features)])
        return columns.with_columns(pl.when(pl.Series(self.known)).then(pl.col("minhash")))

    def encoded(self) -> pl.Series:
        """Each signature as its 128 big-endian bytes (Binary), null where unknown."""
        data = pa.py_buffer(self.values.astype(">u4").tobytes())
        fixed = pa.FixedSizeBinaryArray.from_buffers(pa.binary(4 * VALUES), len(self.known), [None, data])
        column = pl.Series("minhash", pl.from_arrow(fixed.cast(pa.large_binary())), dtype=pl.Binary)
        return column.to_frame().select(pl.when(pl.Series(self.known)).then(pl.col("minhash"))).to_series()


def signatures(
    category: pl.Series,
    wording: Sequence[pl.Series],
    problem: pl.Series | None = None,
    types_input: pl.Series | None = None,
    types_output: pl.Series | None = None,
) -> Signatures:
    """The signatures of rows of String columns; a null text is absent, a null category counts as "".

    ``wording`` holds the observation's wording fields in order, one column a field. Each row has the value of
    ``minhash(features(category, wording, problem, input_sig, output_sig))``.
    """
    rows = len(category)
    texts = [*wording] if problem is None else [*wording, problem]
    found = Signatures(
        np.zeros((rows, VALUES), np.uint32), np.zeros(rows, np.bool_), np.zeros(rows, np.int64)
    )
    given = [(b"w:", texts)]
    given += [
        (prefix, [types])
        for prefix, types in ((b"ti:", types_input), (b"to:", types_output))
        if types is not None
    ]

    def fill(part: slice) -> None:
        values, counts = found.values[part], found.features[part]
        values[:] = _of_category(category[part])
        for prefix, columns in given:
            if columns:
                _lower(values, counts, prefix, _joined([column[part] for column in columns]))

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(fill, _chunks([column for _, columns in given for column in columns], rows)):
            pass
    found.known[:] = found.features > 0
    found.values[~found.known] = 0
    return found


def observation_signatures(observations: pl.DataFrame) -> Signatures:
    """The signatures of rows of the ``observations`` table."""
    wording = observations["wording"].struct.unnest().get_columns()
    problem, given, wanted = (observations[name] for name in ("problem", "types_input", "types_output"))
    return signatures(observations["kind"], wording, problem, given, wanted)


def exact_fingerprints(observations: pl.DataFrame) -> pl.Series:
    """``tessera.fingerprints.exact_fingerprint`` of each row of ``observations`` (String, null if unknown).

    A column has few kinds and types of input, so each is written as canonical JSON once.
    """
    begun: dict[str, bytes] = {}
    ended: dict[str, bytes] = {}
    found: list[str | None] = []
    for kind, input_type, digest in observations.select("kind", "input_type", "input_digest").iter_rows():
        if digest is None:
            found.append(None)
            continue
        if kind not in begun:
            begun[kind] = dumps({"category": kind})[:-1] + b',"input_digest":'
        if input_type not in ended:
            rest = {"input_type": input_type, "profile": EXACT_PROFILE}
            ended[input_type] = b"," + dumps(rest)[1:]
        found.append(hashlib.sha256(begun[kind] + dumps(digest) + ended[input_type]).hexdigest())
    return pl.Series("exact", found, dtype=pl.String)


def _chunks(columns: Sequence[pl.Series], rows: int) -> Iterator[slice]:
    """Ranges of rows with at most about CHUNK_BYTES of text in each, at least one row."""
    sizes = np.ones(rows, np.int64)  # a separator a row
    for column in columns:
        sizes += column.str.len_bytes().fill_null(0).to_numpy()
    ends = np.cumsum(sizes)
    start = 0
    while start < rows:
        limit = (ends[start - 1] if start else 0) + CHUNK_BYTES
        stop = max(start + 1, int(np.searchsorted(ends, limit, "right")))
        yield slice(start, stop)
        start = stop


def _joined(columns: Sequence[pl.Series]) -> pl.Series:
    """One text a row, its parts and its end marked by a separator."""
    named = [column.alias(str(position)) for position, column in enumerate(columns)]
    parts = [*(pl.col(column.name) for column in named), pl.lit("")]
    return pl.DataFrame(named).select(pl.concat_str(parts, separator="\n", ignore_nulls=True)).to_series()


def _of_category(category: pl.Series) -> Values:
    encoded = category.fill_null("").to_arrow().cast(pa.large_binary()).dictionary_encode()
    table = _table(b"c:", encoded.dictionary.to_pylist())
    numbers: Counts = encoded.indices.to_numpy()
    return table[numbers]


def _lower(values: Values, counts: Counts, prefix: bytes, texts: pl.Series) -> None:
    """Lower each row's minima by its words under ``prefix``, and count them."""
    rows, ids, dictionary = _words(texts)
    kept = np.fromiter((word not in DROPPED for word in dictionary), np.bool_, len(dictionary))[ids]
    rows, ids = _distinct(rows[kept], ids[kept], len(counts))
    starts = np.searchsorted(rows, np.arange(len(counts) + 1))
    lengths = np.diff(starts)
    counts += lengths
    _minima(values, _table(prefix, dictionary), ids, starts[:-1], lengths)


def _words(texts: pl.Series) -> tuple[Counts, Counts, list[bytes]]:
    """All words of all rows in order: the row of each, its number, and what the numbers stand for."""
    binary = texts.to_arrow().cast(pa.large_binary())
    _, offsets_buffer, data_buffer = binary.buffers()
    offsets = np.frombuffer(offsets_buffer, np.int64)[binary.offset : binary.offset + len(binary) + 1]
    data = data_buffer[int(offsets[0]) : int(offsets[-1])].to_pybytes() if data_buffer else b""
    characters = np.frombuffer(b" " + data.translate(_FOLDED), np.uint8)
    inside = characters != _SPACE
    edges = np.flatnonzero(
        inside[1:] != inside[:-1]
    )  # where words begin and end by turns, as each row ends in a space
    begins, ends = edges[::2], edges[1::2]
    word_offsets = np.zeros(len(begins) + 1, np.int64)
    np.cumsum(ends - begins, out=word_offsets[1:])
    buffers = [None, pa.py_buffer(word_offsets), pa.py_buffer(characters[inside])]
    words = pa.LargeBinaryArray.from_buffers(pa.large_binary(), len(begins), buffers).dictionary_encode()
    first_words = np.searchsorted(begins, offsets - offsets[0])
    rows = np.repeat(np.arange(len(binary)), np.diff(first_words))
    return rows, words.indices.to_numpy().astype(np.int64), words.dictionary.to_pylist()


def _distinct(rows: Counts, ids: Counts, height: int) -> tuple[Counts, Counts]:
    """Each row's words once, sorted by row; of a row with more than MAX_WORDS the first ones alone."""
    crowded = np.bincount(rows, minlength=height) > MAX_WORDS
    if crowded.any():
        among = crowded[rows]
        few = _unique(rows[~among] << 32 | ids[~among])
        many = _first(rows[among], ids[among])
        pairs = np.sort(np.concatenate([few, many]))
    else:
        pairs = _unique(rows << 32 | ids)
    return pairs >> 32, pairs & 0xFFFFFFFF


def _unique(pairs: Counts) -> Counts:
    pairs.sort()
    return pairs[np.concatenate([[True], pairs[1:] != pairs[:-1]])] if len(pairs) else pairs


def _first(rows: Counts, ids: Counts) -> Counts:
    """The first MAX_WORDS distinct words of each row."""
    pairs = rows << 32 | ids
    _, positions = np.unique(pairs, return_index=True)
    pairs = pairs[np.sort(positions)]
    owners = pairs >> 32
    rank = np.arange(len(pairs)) - np.searchsorted(owners, owners)
    kept: Counts = pairs[rank < MAX_WORDS]
    return kept


def _table(prefix: bytes, words: Iterable[bytes]) -> Values:
    """The VALUES hashes of each word under ``prefix``, a row a word."""
    start = SCHEME.encode() + b"\0" + prefix
    sha256 = hashlib.sha256
    digests = b"".join([sha256(start + word).digest() for word in words])
    table = np.tile(np.frombuffer(digests, ">u4").astype(np.uint32).reshape(-1, 8), VALUES // 8)
    table += np.repeat(np.arange(VALUES // 8, dtype=np.uint32) * np.uint32(_GOLDEN), 8)
    table ^= table >> 16
    table *= np.uint32(0x85EBCA6B)
    table ^= table >> 13
    table *= np.uint32(0xC2B2AE35)
    table ^= table >> 16
    return table


def _minima(values: Values, table: Values, ids: Counts, starts: Counts, lengths: Counts) -> None:
    """Lower each row of ``values`` to the least of its rows of ``table``, ``ids[start : start + length]``."""
    order = np.argsort(-lengths, kind="stable")[: np.count_nonzero(lengths)]
    taken = np.empty((_BLOCK_ROWS, VALUES), np.uint32)
    for begin in range(0, len(order), _BLOCK_ROWS):
        rows = order[begin : begin + _BLOCK_ROWS]
        lowest, first, length = values[rows], starts[rows], lengths[rows]
        longer = np.searchsorted(-length, -np.arange(length[0]), "left")  # how many rows have a word there
        for position, height in enumerate(longer.tolist()):
            part = taken[:height]
            np.take(table, ids[first[:height] + position], axis=0, out=part, mode="clip")
            np.minimum(lowest[:height], part, out=lowest[:height])
        values[rows] = lowest
