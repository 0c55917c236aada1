"""The decode loop and everything that makes it fast. It knows tokens, not repositories."""
