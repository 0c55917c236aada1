"""Replacing code by its structure, in every language that has a grammar."""
