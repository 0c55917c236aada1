"""Renaming a Python name, whatever it names, everywhere it is meant."""
