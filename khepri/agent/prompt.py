"""The append-only prompt: token ids that only ever grow.

Turn N+1's ids begin with turn N's. What the model generated is kept as the ids it generated, never as text tokenized
again. Only frames are read for control tokens; the text of files and users is not.
"""

from collections.abc import Sequence

from khepri.agent.chat_template import ChatFrames, chat_frames
from khepri.agent.protocol import CALL_END, TRIGGER
from khepri.engine.backend import Vocabulary


class Prompt:
    """One conversation as token ids, in the model's own chat format."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        self._frames: ChatFrames = chat_frames(vocabulary)
        self._ids: list[int] = []
        self._stable_tokens = 0

    def fork(self) -> "Prompt":
        """Return a conversation that begins like this one and goes on by itself."""
        other = Prompt(self._vocabulary)
        other._ids = list(self._ids)
        other._stable_tokens = self._stable_tokens
        return other

    @property
    def ids(self) -> tuple[int, ...]:
        """All token ids so far."""
        return tuple(self._ids)

    @property
    def stable_tokens(self) -> int:
        """Ids that every conversation under this preamble begins with."""
        return self._stable_tokens

    def __len__(self) -> int:
        return len(self._ids)

    def count_tokens(self, text: str) -> int:
        """Return the exact number of tokens of ``text`` as message content."""
        return len(self._vocabulary.tokenize(text))

    def open(self, system: str, user: str) -> None:
        """Begin the conversation with the preamble and the first message, and open the assistant's turn."""
        assert not self._ids, "a conversation begins once"
        if self._vocabulary.begins_with_bos and self._vocabulary.bos_id is not None:
            bos = self._vocabulary.piece(self._vocabulary.bos_id, special=True).decode("utf-8", "replace")
            if not self._frames.before_system.startswith(bos):
                self._ids.append(self._vocabulary.bos_id)
        self._frame(self._frames.before_system)
        self._content(system)
        self._frame(self._frames.system_to_user)
        self._stable_tokens = len(self._ids)
        self._content(user)
        self._frame(self._frames.user_to_reply)

    def restore(self, ids: Sequence[int], stable_tokens: int = 0) -> None:
        """Begin with the ids of a conversation from before, the model's last turn still open."""
        assert not self._ids, "a conversation begins once"
        self._ids.extend(ids)
        self._stable_tokens = stable_tokens

    def say(self, text: str) -> None:
        """Put a text into the assistant's turn that was generated under another prompt."""
        self._content(text)

    def reply(self, tokens: Sequence[int]) -> None:
        """Append what the model generated, without its end-of-generation token: the next frame writes that."""
        ends = self._vocabulary.end_ids
        self._ids.extend(tokens[:-1] if tokens and tokens[-1] in ends else tokens)

    def write_call(self, call: str) -> None:
        """Put a complete tool call, as JSON, into the assistant's turn."""
        self._frame(f"{TRIGGER}\n")
        self._content(call)
        self._frame(f"\n{CALL_END}\n")

    def follow(self, user: str) -> None:
        """End the assistant's turn, append the next message and open the assistant's turn again."""
        self._frame(self._frames.reply_to_user)
        self._content(user)
        self._frame(self._frames.user_to_reply)

    def follow_cost(self, user: str) -> int:
        """Return how many tokens ``follow(user)`` would add."""
        frames = self._frames.reply_to_user, self._frames.user_to_reply
        return sum(len(self._vocabulary.tokenize(f, special=True)) for f in frames) + self.count_tokens(user)

    def _frame(self, text: str) -> None:
        self._ids.extend(self._vocabulary.tokenize(text, special=True))

    def _content(self, text: str) -> None:
        self._ids.extend(self._vocabulary.tokenize(text))
