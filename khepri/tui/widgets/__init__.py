"""One widget a file, its style sheet beside it."""
