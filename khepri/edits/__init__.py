"""Changing files: what a change is, how it is made, guarded, written and taken back; no model, no screen."""
