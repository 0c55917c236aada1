"""What a small model writes: its place in a file, what it may change there, and what it must not leave out."""
