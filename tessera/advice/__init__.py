"""The consumer's side of learning: recall, choose, lessons. Reads learned nouns by their public shapes."""
