"""The first schema: keys, tasks, executions, records, and what they need to be found by."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_ROWS: dict[str, Any] = {"sqlite_strict": True}
_KEYED: dict[str, Any] = {"sqlite_with_rowid": False, "sqlite_strict": True}


def _text(name: str, nullable: bool = False, primary_key: bool = False) -> "sa.Column[Any]":
    kind = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    return sa.Column(name, kind, nullable=nullable, primary_key=primary_key)


def _whole(
    name: str, nullable: bool = False, primary_key: bool = False, numbered: bool = False
) -> "sa.Column[Any]":
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, nullable=nullable, primary_key=primary_key, autoincrement=numbered)


def _bytes(name: str, nullable: bool = False) -> "sa.Column[Any]":
    return sa.Column(name, sa.LargeBinary(), nullable=nullable)


def upgrade() -> None:
    """Make the tables."""
    _identity()
    _tasks()
    _executions()
    _records()


def _identity() -> None:
    op.create_table(
        "meta",
        _text("name", primary_key=True),
        _text("value"),
        **_KEYED,
    )
    op.create_table(
        "counters",
        _text("name", primary_key=True),
        _whole("value"),
        **_KEYED,
    )
    op.create_table(
        "keys",
        _text("id", primary_key=True),
        _text("secret_sha256"),
        _text("name"),
        _text("scopes"),
        _text("queues"),
        _text("kinds", nullable=True),
        _text("stores", nullable=True),
        _whole("created_at"),
        _whole("expires_at", nullable=True),
        _whole("revoked_at", nullable=True),
        **_KEYED,
    )
    op.create_index("keys_by_secret", "keys", ["secret_sha256"], unique=True)
    op.create_table(
        "idempotency",
        _text("key_id", primary_key=True),
        _text("operation", primary_key=True),
        _text("name", primary_key=True),
        _text("digest"),
        _bytes("answer"),
        **_KEYED,
    )


def _tasks() -> None:
    op.create_table(
        "tasks",
        _whole("number", primary_key=True, numbered=True),
        _text("token"),
        _text("queue"),
        _text("kind"),
        _text("state"),
        _whole("fence"),
        _whole("submitted"),
        _whole("max_attempts"),
        _whole("rank"),
        _text("audience"),
        _text("owner_key_id"),
        _text("pins", nullable=True),
        _whole("discreet"),
        _text("input_digest"),
        _whole("created_at"),
        _text("claimed_by", nullable=True),
        _whole("claimed_at", nullable=True),
        _whole("lease_seconds", nullable=True),
        _whole("lease_expires_at", nullable=True),
        **_ROWS,
    )
    op.create_index(
        "tasks_leased",
        "tasks",
        ["queue", "audience", "lease_expires_at", "rank", "number"],
        sqlite_where=sa.text("state = 'claimed' AND fence < max_attempts"),
        postgresql_where=sa.text("state = 'claimed' AND fence < max_attempts"),
    )
    op.create_index(
        "tasks_ready",
        "tasks",
        ["queue", "audience", "rank", "number", "kind", "state"],
        sqlite_where=sa.text("state = 'queued'"),
        postgresql_where=sa.text("state = 'queued'"),
    )
    op.create_table(
        "briefs",
        _whole("task", primary_key=True),
        _bytes("brief"),
        **_ROWS,
    )
    op.create_table(
        "past_claims",
        _whole("task", primary_key=True),
        _whole("fence", primary_key=True),
        _text("key_id"),
        **_KEYED,
    )


def _executions() -> None:
    op.create_table(
        "executions",
        _whole("number", primary_key=True),
        _text("token"),
        _text("queue"),
        _text("kind"),
        _text("audience"),
        _whole("pinned"),
        _text("pins", nullable=True),
        _text("input_digest", nullable=True),
        _text("input_type"),
        _bytes("item"),
        **_ROWS,
    )
    op.create_index("executions_by_queue", "executions", ["queue", "number", "kind", "audience", "pinned"])
    op.create_table(
        "execution_details",
        _whole("number", primary_key=True),
        _whole("task", nullable=True),
        _bytes("brief", nullable=True),
        _bytes("output", nullable=True),
        sa.Column("failure", sa.Text(), nullable=True),
        _bytes("receipt", nullable=True),
        **_ROWS,
    )
    op.create_table(
        "simhash_bands",
        _text("queue", primary_key=True),
        _text("kind", primary_key=True),
        _whole("band", primary_key=True),
        _whole("value", primary_key=True),
        _whole("number", primary_key=True),
        **_KEYED,
    )
    op.create_table(
        "imports",
        _text("queue", primary_key=True),
        _text("identity", primary_key=True),
        _text("content"),
        _whole("number"),
        **_KEYED,
    )


def _records() -> None:
    op.create_table(
        "records",
        _text("store", primary_key=True),
        _text("key", primary_key=True),
        _whole("version", primary_key=True),
        _text("category"),
        _text("tags"),
        _text("visibility"),
        _text("surface_queue", nullable=True),
        _text("surface_kind", nullable=True),
        _text("sha256"),
        _whole("created_at"),
        _text("key_id"),
        _bytes("body"),
        **_KEYED,
    )
    op.create_table(
        "record_tags",
        _text("tag", primary_key=True),
        _text("store", primary_key=True),
        _text("key", primary_key=True),
        **_KEYED,
    )


def downgrade() -> None:
    """A first schema has nothing to go back to."""
    raise NotImplementedError("there is no schema before the first")
