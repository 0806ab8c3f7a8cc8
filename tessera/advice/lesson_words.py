"""How a lesson says what it is about: what its learner writes and what the consumer reads.

Promises one place for both. Leaves out reading and writing.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

ALL = "all"
"""The arm of the dimension `lesson` that holds nothing back."""

WARNING = "Warning: "
ANYWHERE = "Over all categories"
_OF_CATEGORY = "In "
_KEY = re.compile(r"[A-Za-z0-9._:@+-]{1,64}")


def judgeable(key: Any) -> bool:
    """Whether a lesson of this key can be judged: its evaluation is a noun under the key."""
    return isinstance(key, str) and key != ALL and _KEY.fullmatch(key) is not None


def opening(category: str | None) -> str:
    """How the text of a lesson that was earned begins: with its category, quoted as JSON."""
    return ANYWHERE if category is None else f"{_OF_CATEGORY}{json.dumps(category, ensure_ascii=False)}"


def category_of(entry: Mapping[str, Any]) -> str | None:
    """The category that an earned lesson is about; None for one of all categories, and one that was given."""
    text = entry["text"].removeprefix(WARNING)
    if not entry.get("support") or not text.startswith(_OF_CATEGORY):
        return None
    try:
        category, _ = json.JSONDecoder().raw_decode(text, len(_OF_CATEGORY))
    except ValueError:
        return None
    return category if isinstance(category, str) else None
