"""The public shapes of the memory index, by name: what its learner writes and what recall reads (section 8);
and how the key of any learned noun names its scope (section 7).

Promises one place for each name and bound that both sides hold to. Leaves out reading and writing.
"""

SPEC = "memory:minhash-lsh:v1"
"""The spec key of the strategy that these shapes belong to."""

SEGMENT = "tessera.memory-segment.v1"
MANIFEST = "tessera.memory-manifest.v1"
HEAD = "tessera.memory-head.v1"

SEGMENT_ENTRIES = 128
"""Entries of a segment at most."""
PINNED_SEGMENTS = 256
"""Segments that a head pins itself at most, and that a manifest pins exactly."""
ENTRY_BYTES = 4096
"""An entry's bound, as canonical JSON."""

LEAST_FEATURES = 3
"""With fewer features beside the category a run has no signature in the index and matches only exactly."""
LEAST_EQUAL = 10
"""Equal positions of two signatures below which they are not alike: similarity 0.3 of 32 is 9.6."""
EXACT_LIMIT = 200_000
"""Entries up to which recall scans every one."""

ENTRY_FIELDS = (
    "run_id",
    "cursor",
    "kind",
    "template",
    "exact",
    "minhash",
    "result",
    "retry",
    "task_id",
    "worker_outcome",
    "failure_reason",
    "problems",
    "server_duration_seconds",
    "total_tokens",
    "reported_duration_seconds",
    "cost",
)
PIN_FIELDS = ("key", "version", "sha256", "entries", "first", "last")

_PLAIN = frozenset(b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def in_key(queue: str, kind: str | None = None) -> str:
    """A scope as keys write it: ``<queue>`` or ``<queue>:kind=<kind>``, the kind escaped."""
    return queue if kind is None else f"{queue}:kind={''.join(map(_escaped, kind.encode()))}"


def _escaped(byte: int) -> str:
    return chr(byte) if byte in _PLAIN else f"@{byte:02x}"
