"""One file a table: its pandera model and its nouns' shapes."""
