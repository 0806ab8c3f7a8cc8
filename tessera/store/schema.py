"""The tables, once, for SQLite and PostgreSQL.

Every table and index is here because a query needs it: on SQLite each entry is one row written, and rows
written are a promise (contract, section 3, "Write cost"). Small keyed tables are WITHOUT ROWID, so that
the key is the table. What grows large (briefs, outputs) lives apart from what is scanned or rewritten.
Times are integer milliseconds UTC; JSON is kept as the UTF-8 bytes that are served.
"""

from typing import Any

from sqlalchemy import (
    REAL,
    BigInteger,
    Column,
    Double,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    Table,
    Text,
    text,
)
from sqlalchemy.dialects import postgresql

metadata = MetaData()

_name = Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")  # compared byte by byte on both
_whole = BigInteger().with_variant(Integer(), "sqlite")  # SQLite's INTEGER holds 64 bits, and is its rowid
_bytes = LargeBinary()
_real: Any = Double().with_variant(REAL(), "sqlite")
_keyed: dict[str, Any] = {"sqlite_with_rowid": False, "sqlite_strict": True}
_rowid: dict[str, Any] = {"sqlite_strict": True}


def _key(name: str) -> "Column[Any]":
    return Column(name, _name, primary_key=True, nullable=False)


def _number(name: str) -> "Column[Any]":
    return Column(name, _whole, primary_key=True, nullable=False, autoincrement=False)


def _text(name: str, nullable: bool = False) -> "Column[Any]":
    return Column(name, _name, nullable=nullable)


def _int(name: str, nullable: bool = False) -> "Column[Any]":
    return Column(name, _whole, nullable=nullable)


# The store's identity, made with the database and never changed.
meta = Table("meta", metadata, _key("name"), _text("value"), **_keyed)

# The newest number given out, by name. Updating the row inside the writing transaction orders the commits: on
# PostgreSQL its lock is held until the commit, so no number becomes visible after a higher one.
counters = Table("counters", metadata, _key("name"), _int("value"), **_keyed)

keys = Table(
    "keys",
    metadata,
    _key("id"),
    _text("secret_sha256"),
    _text("name"),
    _text("scopes"),
    _text("queues"),
    _text("kinds", nullable=True),
    _text("stores", nullable=True),
    _int("created_at"),
    _int("expires_at", nullable=True),
    _int("revoked_at", nullable=True),
    Index("keys_by_secret", "secret_sha256", unique=True),
    **_keyed,
)

idempotency = Table(
    "idempotency",
    metadata,
    _key("key_id"),
    _key("operation"),
    _key("name"),
    _text("digest"),
    Column("answer", _bytes, nullable=False),
    **_keyed,
)

# ``audience`` is empty for a task that anyone granted may take, else the id of the key whose task it is.
# ``rank`` is the priority negated, so that ascending order is the order of offering.
tasks = Table(
    "tasks",
    metadata,
    Column("number", _whole, primary_key=True, nullable=False, autoincrement=True),
    _text("token"),
    _text("queue"),
    _text("kind"),
    _text("state"),
    _int("fence"),
    _int("submitted"),
    _int("max_attempts"),
    _int("rank"),
    _text("audience"),
    _text("owner_key_id"),
    _text("pins", nullable=True),
    _int("discreet"),
    _text("input_digest"),
    _int("created_at"),
    _text("claimed_by", nullable=True),
    _int("claimed_at", nullable=True),
    _int("lease_seconds", nullable=True),
    _int("lease_expires_at", nullable=True),
    **_rowid,
)
# Covers the walk along a queue past kinds that are not wanted; SQLite asks for the state all the same.
Index(
    "tasks_ready",
    tasks.c.queue,
    tasks.c.audience,
    tasks.c.rank,
    tasks.c.number,
    tasks.c.kind,
    tasks.c.state,
    sqlite_where=text("state = 'queued'"),
    postgresql_where=text("state = 'queued'"),
)
Index(
    "tasks_leased",
    tasks.c.queue,
    tasks.c.audience,
    tasks.c.lease_expires_at,
    tasks.c.rank,
    tasks.c.number,
    sqlite_where=text("state = 'claimed' AND fence < max_attempts"),
    postgresql_where=text("state = 'claimed' AND fence < max_attempts"),
)

# Written once at the enqueue, so that a claim or a submit does not rewrite a large brief.
briefs = Table("briefs", metadata, _number("task"), Column("brief", _bytes, nullable=False), **_rowid)

# Who held the fences that have moved on: the holder of an old fence is told so, anyone else sees nothing.
past_claims = Table("past_claims", metadata, _number("task"), _number("fence"), _text("key_id"), **_keyed)

# The coin as it fell, for a task after so many submitted attempts: found by that, and never rewritten.
draws = Table(
    "draws",
    metadata,
    _number("task"),
    _number("submitted"),
    _key("dimension"),
    _int("fence"),
    _text("arm"),
    Column("propensity", _real, nullable=False),
    _text("arms"),
    _text("policy", nullable=True),
    **_keyed,
)

# ``simhash`` is the fingerprint of a run with problem text, as a signed integer of 64 bits. ``pinned`` is 0
# for a run without pins, else says in a number which list it has, so that permission is judged once a list.
executions = Table(
    "executions",
    metadata,
    Column("number", _whole, primary_key=True, nullable=False, autoincrement=False),
    _text("token"),
    _text("queue"),
    _text("kind"),
    _text("audience"),
    _int("pinned"),
    _text("pins", nullable=True),
    _text("input_digest", nullable=True),
    _text("input_type"),
    Column("item", _bytes, nullable=False),
    _int("simhash", nullable=True),
    **_rowid,
)
# Covers the walk along a queue and its permission test; items are read only for what passes.
Index(
    "executions_by_queue",
    executions.c.queue,
    executions.c.number,
    executions.c.kind,
    executions.c.audience,
    executions.c.pinned,
)
# What recall walks: runs of one input, and runs whose input has one shape, newest first.
Index(
    "executions_by_input",
    executions.c.queue,
    executions.c.kind,
    executions.c.input_digest,
    executions.c.number,
    sqlite_where=text("input_digest IS NOT NULL"),
    postgresql_where=text("input_digest IS NOT NULL"),
)
Index(
    "executions_by_shape",
    executions.c.queue,
    executions.c.kind,
    executions.c.input_type,
    executions.c.number,
)

# What only get_execution reads. ``task`` leads to the brief; an imported run has no task and brings its own.
execution_details = Table(
    "execution_details",
    metadata,
    Column("number", _whole, primary_key=True, nullable=False, autoincrement=False),
    _int("task", nullable=True),
    Column("brief", _bytes, nullable=True),
    Column("output", _bytes, nullable=True),
    Column("failure", Text(), nullable=True),
    Column("receipt", _bytes, nullable=True),
    **_rowid,
)

simhash_bands = Table(
    "simhash_bands",
    metadata,
    _key("queue"),
    _key("kind"),
    _number("band"),
    _number("value"),
    _number("number"),
    **_keyed,
)

imports = Table(
    "imports",
    metadata,
    _key("queue"),
    _key("identity"),
    _text("content"),
    _int("number"),
    **_keyed,
)

records = Table(
    "records",
    metadata,
    _key("store"),
    _key("key"),
    _number("version"),
    _text("category"),
    _text("tags"),
    _text("visibility"),
    _text("surface_queue", nullable=True),
    _text("surface_kind", nullable=True),
    _text("sha256"),
    _int("created_at"),
    _text("key_id"),
    Column("body", _bytes, nullable=False),
    **_keyed,
)

# The tags of each record's newest version.
record_tags = Table("record_tags", metadata, _key("tag"), _key("store"), _key("key"), **_keyed)
