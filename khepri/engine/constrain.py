"""Holds tool calls to their grammar with llguidance.

A constraint sleeps while the model writes free text and wakes when the trigger of a call appears; from then on only
tokens that the grammar allows may follow. What a tool is, is not known here: a grammar is text.

References:
    llguidance, https://github.com/guidance-ai/llguidance (Lark dialect, masks, forced tokens).
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

import llguidance
import numpy as np
from numpy.typing import NDArray

from khepri.engine.backend import Vocabulary
from khepri.engine.request import ToolCallGrammar
from khepri.errors import KhepriError

_FOLLOWERS = 16
"""So many of the tokens that may follow are asked whether they would be joined with the one before."""


class _TokenizerSource:
    """A vocabulary in the shape that llguidance's ``TokenizerWrapper`` reads."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        end_ids = vocabulary.end_ids if vocabulary.eos_id is None else vocabulary.end_ids | {vocabulary.eos_id}
        if not end_ids:
            raise KhepriError("the model has no end-of-generation token, so that its tool calls cannot be constrained")
        self.eos_token_id = min(end_ids) if vocabulary.eos_id is None else vocabulary.eos_id
        self.bos_token_id = vocabulary.bos_id
        # A file may declare an end token as ordinary text; as text, it could end the generation inside a string.
        self.tokens = [b"" if token in end_ids else vocabulary.piece(token) for token in range(vocabulary.size)]
        self.special_token_ids = [token for token, piece in enumerate(self.tokens) if not piece]

    def __call__(self, text: bytes | str) -> list[int]:
        return self._vocabulary.tokenize(text if isinstance(text, str) else text.decode("utf-8", "replace"))


class GrammarCompiler:
    """Makes constraints for one vocabulary. Building it costs up to a second; it is safe to build in any thread.

    Raises:
        KhepriError: The vocabulary has no end-of-generation token, or its engine is closed.
    """

    def __init__(self, vocabulary: Vocabulary) -> None:
        self._vocabulary = vocabulary
        source = _TokenizerSource(vocabulary)
        self._tokenizer = llguidance.LLTokenizer(llguidance.TokenizerWrapper(source), n_vocab=vocabulary.size)
        self._pieces = source.tokens
        self._triggers: dict[str, _Trigger] = {}

    def start(self, grammar: ToolCallGrammar) -> "Constraint":
        """Return a fresh constraint for one generation.

        Raises:
            KhepriError: llguidance refuses the grammar.
        """
        lark = llguidance.LLMatcher.grammar_from_lark(grammar.lark)
        # Above level 0 the library prints its warnings on the terminal.
        matcher = llguidance.LLMatcher(self._tokenizer, lark, log_level=0)
        if matcher.is_error():
            raise KhepriError(f"the tool grammar is refused: {matcher.get_error()}")
        if grammar.trigger not in self._triggers:
            self._triggers[grammar.trigger] = _Trigger(grammar.trigger.encode(), self._pieces)
        return Constraint(grammar, matcher, self._vocabulary, self._triggers[grammar.trigger])


class _Trigger:
    """The text that starts a call, and the tokens that can complete it."""

    def __init__(self, text: bytes, pieces: Sequence[bytes]) -> None:
        self.text = text
        candidates = [(token, piece) for token, piece in enumerate(pieces) if text[-1:] in piece]
        self._completing = [
            np.array([token for token, piece in candidates if piece.startswith(text[said:])], dtype=np.int64)
            for said in range(1, len(text))
        ]
        self._containing = np.array([token for token, piece in candidates if text in piece], dtype=np.int64)

    def completing(self, tail: bytes) -> NDArray[np.int64]:
        """Return the tokens after which the trigger has appeared, if the text so far ends with ``tail``."""
        found = [self._containing]
        found += [ids for said, ids in enumerate(self._completing, start=1) if tail.endswith(self.text[:said])]
        return np.concatenate(found)


@dataclass(frozen=True)
class Completion:
    """A guess at what comes next, as a grammar allows and completes it."""

    tokens: tuple[int, ...]
    """Token ids ``[n]``."""
    certain: tuple[bool, ...] = ()
    """For each of them, whether the grammar leaves no other one there; empty if that is true of none."""


class Constraint:
    """The state of one constrained generation. One thread."""

    def __init__(
        self, grammar: ToolCallGrammar, matcher: llguidance.LLMatcher, vocabulary: Vocabulary, trigger: _Trigger
    ) -> None:
        self._grammar = grammar
        self._matcher = matcher
        self._vocabulary = vocabulary
        self._active = grammar.forced
        self._free_tokens = 0
        self._trigger = trigger
        self._tail = b""
        self._mask = np.zeros((vocabulary.size + 31) // 32, dtype=np.int32)
        self._forced: tuple[int, ...] | None = None

    @property
    def is_active(self) -> bool:
        """True once the trigger has appeared."""
        return self._active

    @property
    def is_complete(self) -> bool:
        """True when the call is complete and the generation must end."""
        return self._active and bool(self._matcher.is_stopped()) and not self._matcher.is_error()

    def forced(self) -> tuple[int, ...]:
        """Return the tokens that must come next, in their canonical tokenization; empty where there is a choice.

        Text that the grammar fixes could be cut into tokens in several ways. Only the canonical one is allowed, whether
        its tokens are committed at once or chosen one by one.
        """
        if self._forced is None:
            is_over = not self._active or self._matcher.is_stopped()
            self._forced = () if is_over else tuple(self._matcher.compute_ff_tokens())
        return self._forced

    def allowed(self) -> NDArray[np.bool_] | None:
        """Return the tokens that the grammar allows next, bool ``[n_vocab]``, or None while the text is free.

        Raises:
            KhepriError: The grammar outgrew the limits of llguidance.
        """
        if not self._active:
            return None
        if forced := self.forced():
            only = np.zeros(self._vocabulary.size, dtype=np.bool_)
            only[forced[0]] = True
            return only
        return self._allowed_now()

    def _allowed_now(self) -> NDArray[np.bool_]:
        self._matcher.unsafe_compute_mask_ptr(self._mask.ctypes.data, self._mask.nbytes)
        if self._matcher.is_error():
            raise KhepriError(f"the tool grammar failed: {self._matcher.get_error()}")
        bits = np.unpackbits(self._mask.view(np.uint8), bitorder="little")
        return bits[: self._vocabulary.size].view(np.bool_)

    def likely(self) -> tuple[int, ...]:
        """Return the tokens of a text that must come next but could be cut otherwise; empty where there is none.

        An opening quote is such a text: no other character may come, but it could be a space and a quote. Asked when
        nothing is forced. Takes some 0.3 ms.
        """
        text = self._matcher.compute_ff_bytes() if self._active and not self._matcher.is_stopped() else b""
        if not text:
            return ()
        tokens = self._vocabulary.tokenize(text.decode("utf-8", "replace"))
        said = self._matcher.try_consume_tokens(tokens)
        is_end_sure = said < len(tokens) or self._stands_alone(tokens[-1])
        self._matcher.rollback(said)
        return tuple(tokens[:said] if is_end_sure else tokens[: said - 1])

    def _stands_alone(self, token: int) -> bool:
        """Tell if ``token``, which was just said, is mostly not joined with what may follow to a longer one."""
        if self._matcher.is_stopped():
            return True
        followers = np.flatnonzero(self._allowed_now())
        begin, some = self._vocabulary.piece(token), followers[:: max(1, len(followers) // _FOLLOWERS)]
        texts = [(begin + self._vocabulary.piece(int(other))).decode("utf-8", "replace") for other in some]
        return 2 * sum(self._vocabulary.tokenize(text)[:1] == [token] for text in texts) > len(texts)

    def complete(self, tokens: Sequence[int], limit: int) -> Completion:
        """Return ``tokens`` as far as the grammar allows them, with what it forces between and after them.

        While the text is free they come back as they are. The state stays as it was. Takes about 0.1 ms a token.

        Args:
            tokens: A guess at what comes next.
            limit: Most tokens to return.
        """
        if not self._active:
            return Completion(tuple(tokens[:limit]))
        said: list[int] = []
        certain: list[bool] = []
        rest = deque(tokens)
        while len(said) < limit and not self._matcher.is_stopped():
            forced = self._matcher.compute_ff_tokens()
            for token in forced:
                if rest and rest.popleft() != token:
                    rest.clear()
            if not forced and not (rest and self._matcher.try_consume_tokens([rest[0]])):
                break
            if forced:
                self._matcher.consume_tokens(forced)
            said += forced or [rest.popleft()]
            certain += [bool(forced)] * (len(forced) or 1)
        self._matcher.rollback(len(said))
        return Completion(tuple(said[:limit]), tuple(certain[:limit]))

    def restrict(self, logits: NDArray[np.float32]) -> NDArray[np.float32]:
        """Return ``logits``, ``[n_vocab]``, with minus infinity for every token that may not come next.

        The row itself comes back when everything may; it is never changed.

        Raises:
            KhepriError: The grammar outgrew the limits of llguidance.
        """
        allowed = self.allowed()
        if allowed is not None:
            return np.where(allowed, logits, np.float32(-np.inf))
        if self._free_tokens < self._grammar.window_tokens:
            return logits
        restricted = logits.copy()
        restricted[self._trigger.completing(self._tail)] = -np.inf
        return restricted

    def commit(self, token: int) -> None:
        """Advance by a generated token.

        Raises:
            KhepriError: The token was not allowed.
        """
        if self._active:
            if not self._matcher.consume_token(token):
                raise KhepriError(f"the constraint refused a token it had allowed: {self._matcher.get_error()}")
            self._forced = self._forced[1:] or None if self._forced else None
            return
        self._free_tokens += 1
        text = self._tail + self._vocabulary.piece(token)
        if self._trigger.text in text:
            self._wake(text.partition(self._trigger.text)[2])
        self._tail = text[max(0, len(text) - len(self._trigger.text) + 1) :]

    def _wake(self, already_said: bytes) -> None:
        """Start the grammar after the trigger; bytes of the same token beyond the trigger count as its beginning."""
        tokens = self._vocabulary.tokenize(already_said.decode("utf-8", "replace")) if already_said else []
        # Asked first, because a matcher that refused a token stays broken.
        if self._matcher.validate_tokens(tokens) == len(tokens):
            self._active = True
            self._forced = None
            self._matcher.consume_tokens(tokens)
