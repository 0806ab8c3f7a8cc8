"""How a failure stands in Dagster's history: in so many words, whatever was raised.

Promises that an event holds no text without end, of a learner's error or of a store's answer, and keeps what
led to it where that is short. Leaves out the verb's own failure, which the store bounds.
"""

from collections.abc import Iterator

import dagster as dg

from assets.run_reports import within

MOST_BYTES = 16 << 10


def failure(sentences: str, cause: BaseException | None = None) -> dg.Failure:
    """A failed step, its description cut to 16 KiB; the cause is kept where all its texts are as short."""
    made = dg.Failure(within(sentences, MOST_BYTES))
    if cause is not None and all(len(str(one)) <= MOST_BYTES for one in _chain(cause)):
        made.__cause__ = cause
    made.__suppress_context__ = True
    return made


def _chain(error: BaseException) -> Iterator[BaseException]:
    """An error and what led to it, as a traceback would go through them."""
    seen: list[BaseException] = []
    found: BaseException | None = error
    while found is not None and found not in seen:
        seen.append(found)
        yield found
        found = found.__cause__ or (None if found.__suppress_context__ else found.__context__)
