"""What makes an answer of the ``lasting_model`` outlast the test that it is given in."""

from khepri.config import Draft

TOKEN_S = 0.02
"""Seconds that each token takes at least."""
LASTING = {"max_tokens": 7000, "temperature": 1.0, "top_k": 20, "seed": 3, "draft": Draft.OFF}
"""The settings: so many tokens take longer than a test may, and chance keeps the text from going in circles."""
