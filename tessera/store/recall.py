"""Recall, the synchronous baseline: runs of the same input, then of the same shape, then alike in words.

Promises only runs that the key may read, each once and under the closest way it was found; it looks at no
more than SCAN runs a way. Likeness is lexical (SimHash, of the wording and the problem text); the result is
evidence, never permission to reuse an output. Leaves out statistics: the memory learner's recall has them.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select

from tessera import canonical, fingerprints, observations
from tessera.store import ids, simhash
from tessera.store.database import Session
from tessera.store.permission import Caller, require_kinds, require_queue
from tessera.store.reader import Reader, Scope
from tessera.store.schema import executions, simhash_bands
from tessera.store.statements import Statement

SCAN = 2_000
DEFAULT_LIMIT = 10
MAX_LIMIT = 100
MAX_DISTANCE = 20
"""Bits of 64 by which a run found by its words may differ; unrelated texts differ in 32 ± 4."""

_COLUMNS = (
    executions.c.number,
    executions.c.token,
    executions.c.audience,
    executions.c.pinned,
    executions.c.simhash,
)
_OF_KIND = (executions.c.queue == bindparam("queue"), executions.c.kind == bindparam("kind"))
_BY_INPUT = Statement(
    select(*_COLUMNS)
    .where(*_OF_KIND, executions.c.input_digest == bindparam("input_digest"))
    .order_by(executions.c.number.desc())
    .limit(bindparam("limit"))
)
_BY_SHAPE = Statement(
    select(*_COLUMNS)
    .where(*_OF_KIND, executions.c.input_type == bindparam("input_type"))
    .order_by(executions.c.number.desc())
    .limit(bindparam("limit"))
)
_BY_BAND = Statement(
    select(*_COLUMNS)
    .select_from(simhash_bands.join(executions, executions.c.number == simhash_bands.c.number))
    .where(
        simhash_bands.c.queue == bindparam("queue"),
        simhash_bands.c.kind == bindparam("kind"),
        simhash_bands.c.band == bindparam("band"),
        simhash_bands.c.value == bindparam("value"),
    )
    .order_by(simhash_bands.c.number.desc())
    .limit(bindparam("limit"))
)


class _Found(NamedTuple):
    """A run found, whether or not the key may read it."""

    number: int
    token: str
    audience: str
    pinned: int
    simhash: int | None


def recall(session: Session, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
    """Runs like a brief, closest way first: ``{matches: [{run_id, via, distance}], evidence_only: true}``.

    ``distance`` is the number of SimHash bits, 0 to 64, in which the words differ; 0 for the same input, null
    where one side has no words to compare. A brief without ``input_digest`` is taken as one without pins.
    """
    require_queue(caller, request["queue"])
    require_kinds(caller, (request["kind"],))
    reader = Reader(session, caller, Scope(request["queue"], request["kind"], 0))
    limit = request.get("limit", DEFAULT_LIMIT)
    matches: dict[int, dict[str, Any]] = {}
    for via, found, distance in _candidates(session, request):
        if len(matches) == limit:
            break
        if found.number not in matches and reader.readable(
            found.number, request["kind"], found.audience, found.pinned
        ):
            run_id = ids.make("run", found.number, found.token)
            matches[found.number] = {"run_id": run_id, "via": via, "distance": distance}
    return {"matches": list(matches.values()), "evidence_only": True}


def _candidates(session: Session, request: dict[str, Any]) -> Iterator[tuple[str, _Found, int | None]]:
    """What may match, in the order of preference; a run can come again by a further way."""
    brief = request["brief"]
    scope = {"queue": request["queue"], "kind": request["kind"]}
    words = "\n".join(observations.brief_view(brief)["wording"].values())
    fingerprint = simhash.simhash(fingerprints.words(words))
    digest = request.get("input_digest") or canonical.digest({"brief": brief, "pins": []})
    for row in session.rows(_BY_INPUT, **scope, input_digest=digest, limit=SCAN):
        yield "exact", _Found(*row), 0
    input_type = fingerprints.input_type(brief)
    shaped = [_Found(*row) for row in session.rows(_BY_SHAPE, **scope, input_type=input_type, limit=SCAN)]
    yield from _nearest_first("shape", shaped, fingerprint)
    if fingerprint is None:
        return
    alike: dict[int, _Found] = {}
    for band, value in enumerate(simhash.bands(fingerprint)):
        rows = session.rows(_BY_BAND, **scope, band=band, value=value, limit=SCAN // simhash.BANDS)
        alike.update((row[0], _Found(*row)) for row in rows)
    for via, found, distance in _nearest_first("simhash", list(alike.values()), fingerprint):
        if distance is not None and distance <= MAX_DISTANCE:
            yield via, found, distance


def _nearest_first(
    via: str, found: list[_Found], fingerprint: int | None
) -> Iterator[tuple[str, _Found, int | None]]:
    """By distance, unknown ones last, then newest."""
    measured = [(simhash.distance(fingerprint, simhash.unsigned(each.simhash)), each) for each in found]
    measured.sort(key=lambda pair: (pair[0] is None, pair[0] or 0, -pair[1].number))
    for distance, each in measured:
        yield via, each, distance
