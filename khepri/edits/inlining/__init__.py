"""Putting the body of a Python function in the place of its calls."""
