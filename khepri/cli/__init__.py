"""The command line: commands, rendering of events, exit codes. Nothing heavy is imported at the top of a module."""
