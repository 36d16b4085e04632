"""Which states were visited, and where."""
