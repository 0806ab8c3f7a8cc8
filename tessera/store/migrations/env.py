"""Alembic's entry: runs the steps on the connection that the opening store hands over."""

from alembic import context

from tessera.store.schema import metadata

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=metadata,
    transactional_ddl=True,
)
with context.begin_transaction():
    context.run_migrations()
