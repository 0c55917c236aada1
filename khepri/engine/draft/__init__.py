"""Drafters: what may come next, guessed cheaply enough that the target only has to check it."""
