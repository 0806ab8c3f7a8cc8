"""The consumer's side of learning: recall. Reads learned nouns by their public shapes.

Promises what the store's own answers do not: evidence over many runs, verified against digests. Needs nothing
but the client; numpy makes it fast where it is installed.
"""

from tessera.advice.index import Cache, IndexFault
from tessera.advice.similar import recall

__all__ = ["Cache", "IndexFault", "recall"]
