"""Draws, and what recall finds runs by: their input digest, their input's shape, their words."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects import postgresql

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def _text(name: str, nullable: bool = False, primary_key: bool = False) -> "sa.Column[Any]":
    kind = sa.Text().with_variant(postgresql.TEXT(collation="C"), "postgresql")
    return sa.Column(name, kind, nullable=nullable, primary_key=primary_key)


def _whole(name: str, nullable: bool = False, primary_key: bool = False) -> "sa.Column[Any]":
    kind = sa.BigInteger().with_variant(sa.Integer(), "sqlite")
    return sa.Column(name, kind, nullable=nullable, primary_key=primary_key, autoincrement=False)


def upgrade() -> None:
    """Add a table, a column and two indexes; what is there stays as it is."""
    op.create_table(
        "draws",
        _whole("task", primary_key=True),
        _whole("submitted", primary_key=True),
        _text("dimension", primary_key=True),
        _whole("fence"),
        _text("arm"),
        sa.Column("propensity", sa.Double().with_variant(sa.REAL(), "sqlite"), nullable=False),
        _text("arms"),
        _text("policy", nullable=True),
        sqlite_with_rowid=False,
        sqlite_strict=True,
    )
    op.add_column("executions", _whole("simhash", nullable=True))
    op.create_index(
        "executions_by_input",
        "executions",
        ["queue", "kind", "input_digest", "number"],
        sqlite_where=sa.text("input_digest IS NOT NULL"),
        postgresql_where=sa.text("input_digest IS NOT NULL"),
    )
    op.create_index("executions_by_shape", "executions", ["queue", "kind", "input_type", "number"])


def downgrade() -> None:
    """Draws are evidence: they are not thrown away."""
    raise NotImplementedError("a store keeps what it recorded")
