"""What names mean in a Python repository: modules, classes, calls and texts; every refactoring builds on it."""
