"""Model files: where they are, what they are, and how to get them."""
