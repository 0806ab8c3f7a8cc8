"""The consumer's side of learning: recall, choose, lessons. Reads learned nouns by their public shapes.

Promises what the store's own answers do not: evidence over many runs, and choices that can be judged
afterwards. Advice is evidence, never permission. Needs nothing but the client; numpy makes recall fast where
it is installed.
"""

from tessera.advice.choosing import Choice, choose
from tessera.advice.index import Cache, IndexFault
from tessera.advice.lesson_texts import Lessons, lessons
from tessera.advice.scopes import AdviceFault
from tessera.advice.similar import recall

__all__ = ["AdviceFault", "Cache", "Choice", "IndexFault", "Lessons", "choose", "lessons", "recall"]
