"""``khepri bench``: how fast a fixed corpus of agent work is decoded, with drafts, without, and by llama.cpp alone."""
