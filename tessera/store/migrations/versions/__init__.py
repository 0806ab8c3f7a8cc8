"""One module a step; a released step is never edited."""
