"""Adding, removing and renaming the parameters of a Python function, with its calls."""
