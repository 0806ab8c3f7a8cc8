"""SQL only: database, records, tasks, executions, keys."""
