"""The benchmark table: peers side by side on the same work in the same run."""
