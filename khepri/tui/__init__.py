"""The terminal app: what the user sees of a conversation, and how it is steered.

It reads events and mutates widgets. How answers come about is known below.
"""
