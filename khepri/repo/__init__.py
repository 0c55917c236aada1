"""Safe reading of a repository. It knows files, not models or tokens."""
