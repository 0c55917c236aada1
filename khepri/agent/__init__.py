"""The agent: prompt, protocol, loop and session. It speaks upward in events and downward in token ids."""
