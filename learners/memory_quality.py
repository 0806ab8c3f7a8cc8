"""How good the memory is, measured on real runs: the estimate, the bands, and what recalled runs foretell.

Promises figures over rows of ``schemas.observations`` alone, the same for the same rows and seed, and the
baseline beside each: exact Jaccard overlap beside the estimate, the exact scan beside the bands, the
category's rate beside the recalled runs'. Leaves out reading the lake, and the store's own recall, whose
matches it is given.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from typing import Any

import numpy as np
import numpy.typing as npt
import polars as pl

from learners.fingerprints import exact_fingerprints, observation_signatures
from tessera import fingerprints
from tessera.advice.shapes import LEAST_EQUAL, LEAST_FEATURES

NEAR_DUPLICATE = 0.7
"""Similarity from which two runs count as one family."""
RESAMPLES = 1000
TOP = 10
_BINS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0)
_PARTS = (0.25, 0.5, 0.75)
_MOST_TEXTS = 400

Flags = npt.NDArray[np.bool_]
Matches = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Runs:
    """The runs with enough text to be alike, as arrays, in capture order."""

    frame: pl.DataFrame
    values: npt.NDArray[np.uint32]
    accepted: Flags
    kinds: npt.NDArray[np.int64]
    families: tuple[npt.NDArray[np.int64], ...]
    texts: npt.NDArray[np.int64]

    def __len__(self) -> int:
        return len(self.values)

    def equal(self, position: int) -> npt.NDArray[np.int64]:
        """Of how many positions each run's signature is equal to one's."""
        found: npt.NDArray[np.int64] = np.count_nonzero(self.values == self.values[position], axis=1)
        return found

    def family(self, position: int, equal: npt.NDArray[np.int64]) -> Flags:
        """The runs of one's template, phrasing or exact fingerprint, and its near-duplicates."""
        same = equal >= NEAR_DUPLICATE * fingerprints.VALUES
        for labels in self.families:
            if labels[position] >= 0:
                same |= labels == labels[position]
        return same


def runs_of(frame: pl.DataFrame) -> Runs:
    """The rows that have at least three features beside their category."""
    ordered = frame.sort("cursor")
    ordered = ordered.with_columns(exact_fingerprints(ordered))
    found = observation_signatures(ordered)
    told = found.features >= LEAST_FEATURES
    kept = ordered.filter(pl.Series(told))
    values = found.values[told]
    _, texts = np.unique(values, axis=0, return_inverse=True)
    return Runs(
        kept,
        values,
        (kept["result"] == "accepted").to_numpy(),
        _codes(kept["kind"]),
        tuple(_codes(kept[name]) for name in ("template", "phrasing", "exact")),
        np.asarray(texts, np.int64).reshape(-1),
    )


def _codes(column: pl.Series) -> npt.NDArray[np.int64]:
    """A number a distinct value, −1 for unknown."""
    codes = column.rank("dense").cast(pl.Int64).fill_null(-1)
    return codes.to_numpy()


# --- the estimate and the bands -----------------------------------------------------------------------------


def estimates(runs: Runs) -> list[dict[str, Any]]:
    """By exact Jaccard overlap: the estimate's bias and error, and how often a pair shares a band.

    Pairs of distinct real texts, and of each text with its own beginnings (the middle of the range is rare
    between real texts); once with their categories as recorded and once with one category for all.
    """
    rows = _distinct(runs)
    found = []
    for category in ("as recorded", "one for all"):
        whole = [_features(row, None if category == "as recorded" else "one") for row in rows]
        parts = [_beginnings(features) for features in whole]
        pairs = [(a, b) for a, b in combinations(range(len(whole)), 2)]
        between = [_pair(whole[a], whole[b]) for a, b in pairs]
        within = [_pair(whole[at], part) for at, some in enumerate(parts) for part in some]
        found += _binned(between + within, category)
    return found


def _distinct(runs: Runs) -> list[dict[str, Any]]:
    _, first = np.unique(runs.texts, return_index=True)
    columns = ["kind", "wording", "problem", "types_input", "types_output"]
    chosen = runs.frame[np.sort(first)[:_MOST_TEXTS].tolist()].select(columns)
    return list(chosen.iter_rows(named=True))


def _features(row: Mapping[str, Any], category: str | None) -> tuple[str, ...]:
    wording = [text for text in row["wording"].values() if text is not None]
    given = (row["problem"], row["types_input"], row["types_output"])
    return tuple(fingerprints.features(category or row["kind"], wording, *given))


def _beginnings(features: tuple[str, ...]) -> list[tuple[str, ...]]:
    """The first quarter, half and three quarters of the features, the category first."""
    return [features[: max(2, round(len(features) * share))] for share in _PARTS]


def _pair(one: tuple[str, ...], other: tuple[str, ...]) -> tuple[float, float, bool]:
    """Exact overlap, estimated overlap, and whether a band is shared."""
    a, b = fingerprints.minhash(one), fingerprints.minhash(other)
    both = len(set(one) & set(other))
    exact = both / (len(set(one)) + len(set(other)) - both)
    if a is None or b is None:
        return exact, 0.0, False
    shared = not set(zip(range(4), fingerprints.bands(a), strict=True)).isdisjoint(
        zip(range(4), fingerprints.bands(b), strict=True)
    )
    return exact, fingerprints.similarity(a, b), shared


def _binned(pairs: Sequence[tuple[float, float, bool]], category: str) -> list[dict[str, Any]]:
    if not pairs:
        return []
    exact, estimated, shared = (np.array(column, float) for column in zip(*pairs, strict=True))
    found = []
    for low, high in pairwise(_BINS):
        inside = (exact >= low) & ((exact < high) | (high == 1.0))
        if not inside.any():
            continue
        error, overlap = estimated[inside] - exact[inside], exact[inside]
        found.append(
            {
                "category": category,
                "low": low,
                "high": high,
                "pairs": int(inside.sum()),
                "bias": float(error.mean()),
                "error": float(np.sqrt((error**2).mean())),
                "error_expected": float(np.sqrt((overlap * (1 - overlap) / fingerprints.VALUES).mean())),
                "shared_band": float(shared[inside].mean()),
                "shared_band_expected": float((1 - (1 - overlap**2) ** 4).mean()),
            }
        )
    return found


def bands(runs: Runs, one_of_a_text: bool) -> dict[str, Any]:
    """What the bands find of the exact scan's best ten, and what share of their candidates is alike."""
    places = np.arange(len(runs))
    if one_of_a_text:
        places = np.sort(np.unique(runs.texts, return_index=True)[1])
    values = runs.values[places]
    pairs = values[:, :8].astype(np.uint64)
    keys = pairs[:, 0::2] << np.uint64(32) | pairs[:, 1::2]
    recalls, candidates, alike, passed = [], 0, 0, 0
    for position in range(len(values)):
        equal = np.count_nonzero(values == values[position], axis=1)
        equal[position] = -1
        near = (keys == keys[position]).any(axis=1)
        near[position] = False
        order = np.lexsort((-places, -equal))
        best = [place for place in order[:TOP] if equal[place] >= LEAST_EQUAL]
        candidates += int(near.sum())
        alike += int((equal[near] >= LEAST_EQUAL).sum())
        passed += int((equal >= LEAST_EQUAL).sum())
        if best:
            recalls.append(float(near[best].mean()))
    return {
        "queries": len(values),
        "with_a_match": len(recalls),
        "recall_at_10": float(np.mean(recalls)) if recalls else None,
        "recall_of_all": alike / passed if passed else None,
        "precision": alike / candidates if candidates else None,
    }


# --- what recalled runs foretell ----------------------------------------------------------------------------


def foretelling(runs: Runs, store_matches: Matches | None = None, seed: int = 1) -> list[dict[str, Any]]:
    """How well recalled runs' acceptance predicts a run's own, leaving one out and leaving its family out.

    A Brier score is the mean squared difference to the result, 0 or 1; the category's rate, of the same runs
    left in, is the baseline. ``store_matches`` holds the store's own recall of each run, best first:
    all of it is judged, and its best ten. Intervals are 95%, over resamples of texts, because attempts at one
    text are not independent.
    """
    numbers = {run_id: place for place, run_id in enumerate(runs.frame["run_id"])}
    methods: dict[str, tuple[Matches | None, int | None]] = {"memory": (None, None)}
    if store_matches is not None:
        methods |= {"store, all": (store_matches, None), "store, best ten": (store_matches, TOP)}
    found = []
    for family_out in (False, True):
        for name, (matches, most) in methods.items():
            score = _scored(runs, matches, most, numbers, family_out)
            told = {"method": name, "left_out": "the family" if family_out else "the run itself"}
            found.append({**told, **_summary(runs, score, np.random.default_rng(seed))})
    return found


def _scored(
    runs: Runs, matches: Matches | None, most: int | None, numbers: Mapping[str, int], family_out: bool
) -> npt.NDArray[np.float64]:
    """A row a run: squared error of the recalled runs' rate, of that rate eased, and of the category's."""
    scores = np.full((len(runs), 3), np.nan)
    for position, run_id in enumerate(runs.frame["run_id"]):
        equal = runs.equal(position)
        allowed = np.ones(len(runs), np.bool_)
        if family_out:
            allowed &= ~runs.family(position, equal)
        allowed[position] = False
        like = equal >= LEAST_EQUAL
        exact = runs.families[2]
        if exact[position] >= 0:
            like |= exact == exact[position]
        if matches is not None:
            places = [numbers[other] for other in matches.get(run_id, ()) if other in numbers]
            like = np.zeros(len(runs), np.bool_)
            like[[place for place in places if allowed[place]][:most]] = True
        same_kind = allowed & (runs.kinds == runs.kinds[position])
        found, truth = runs.accepted[allowed & like], float(runs.accepted[position])
        base = float(runs.accepted[same_kind].mean()) if same_kind.any() else 0.5
        scores[position, 2] = (base - truth) ** 2
        if len(found):
            rate, eased = found.mean(), (found.sum() + 2 * base) / (len(found) + 2)
            scores[position, :2] = (rate - truth) ** 2, (eased - truth) ** 2
    return scores


def _summary(runs: Runs, scores: npt.NDArray[np.float64], chance: np.random.Generator) -> dict[str, Any]:
    hit = ~np.isnan(scores[:, 0])
    found: dict[str, Any] = {"queries": len(scores), "hits": int(hit.sum())}
    found["hit_rate"] = found["hits"] / len(scores) if len(scores) else None
    names = ("brier", "brier_eased", "brier_category")
    if not hit.any():
        return {**found, **dict.fromkeys((*names, "gain", "gain_low", "gain_high"))}
    found |= {name: float(scores[hit, column].mean()) for column, name in enumerate(names)}
    gains = scores[hit, 2] - scores[hit, 0]
    low, high = _interval(gains, runs.texts[hit], chance)
    return {**found, "gain": float(gains.mean()), "gain_low": low, "gain_high": high}


def _interval(
    gains: npt.NDArray[np.float64], texts: npt.NDArray[np.int64], chance: np.random.Generator
) -> tuple[float, float]:
    """The 95% bootstrap interval of a mean whose rows come in groups."""
    groups, members = np.unique(texts, return_inverse=True)
    sums, sizes = np.bincount(members, gains), np.bincount(members)
    drawn = chance.integers(len(groups), size=(RESAMPLES, len(groups)))
    means = sums[drawn].sum(axis=1) / sizes[drawn].sum(axis=1)
    low, high = np.quantile(means, (0.025, 0.975))
    return float(low), float(high)
