"""From token bytes to text, a token at a time, without ever showing half a character."""

import codecs

from khepri.engine.backend import Vocabulary


class Detokenizer:
    """Turns the tokens of one generation into text as they come.

    A token may end inside a UTF-8 character; its bytes wait for the next token. Bytes that are no UTF-8 become U+FFFD.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def push(self, token: int) -> str:
        """Return the text that became complete with ``token``; empty inside a character or for a control token."""
        return self._decoder.decode(self._vocabulary.piece(token))

    def flush(self) -> str:
        """Return what is left of an unfinished character, as U+FFFD."""
        return self._decoder.decode(b"", final=True)
