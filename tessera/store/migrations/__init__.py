"""The schema's history, one file a step, for SQLite and PostgreSQL alike; applied when a store opens."""
