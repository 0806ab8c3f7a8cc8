"""JSON as the store keeps and serves it: compact, in UTF-8.

Its encoder is made once, since making it costs as much as a short text.
"""

import json
from typing import Any

_encode = json.JSONEncoder(ensure_ascii=False, separators=(",", ":")).encode


def compact(value: Any) -> bytes:
    """Compact JSON in UTF-8."""
    return _encode(value).encode()
