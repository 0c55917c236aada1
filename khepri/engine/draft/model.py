"""The model drafter: a smaller model of the same vocabulary writes ahead.

It owns a backend of its own, whose cache it keeps in step with the committed tokens. It reads only the last part of a
long prompt: what it does not see costs acceptance, never correctness. Constraints are not known to it: a token that one
forbids is refused by the target like any other.
"""

from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from khepri.engine.backend import Backend, Batch, Logits, Vocabulary
from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.request import DrafterName, Request, SamplingParams
from khepri.engine.sampling import Distribution, draw, transform
from khepri.errors import ModelLoadError

_WINDOW_TOKENS: Final = 64
_MOST_UNUSED_TOKENS: Final = 128
"""Vocabularies of one family may be padded to different sizes; llama.cpp admits as much."""


class ModelDrafter(Drafter):
    """Drafts with a smaller model. The engine's thread; ``close`` frees the model."""

    def __init__(self, backend: Backend, target: Vocabulary, batch_tokens: int, clock: Callable[[], float]) -> None:
        """Take over ``backend`` and time a pass of it.

        Args:
            backend: The smaller model, with an empty cache.
            target: The vocabulary of the model that verifies.
            batch_tokens: Most tokens of one pass.
            clock: Monotonic seconds.

        Raises:
            ModelLoadError: The two vocabularies differ; ``backend`` is closed.
        """
        difference = _difference(backend.vocabulary, target)
        if difference:
            backend.close()
            raise ModelLoadError(
                f"the draft model does not share the vocabulary of the target: {difference}",
                "choose a smaller model of the same family, or use --draft suffix",
            )
        self._backend = backend
        self._batch_tokens = batch_tokens
        self._tokens: list[int] = []
        self._prompt_tokens = 0
        self._evaluated: list[int] = []
        self._known_tokens = min(backend.vocabulary.size, target.size)
        self._sampling = SamplingParams()
        self._random = np.random.default_rng(0)
        self._row_ms = self._time_row(clock)

    @property
    def name(self) -> DrafterName:
        """Who this is."""
        return DrafterName.MODEL

    @property
    def is_costly(self) -> bool:
        """True: a drafted token takes a pass of the smaller model."""
        return True

    @property
    def setup_ms(self) -> float:
        """What reading the tokens that the cache lacks takes before the next draft's own passes."""
        return (len(self._tokens) - self._begin() - self._in_step() - 1) * self._row_ms

    def start(self, request: Request) -> None:
        """Begin a generation; only the part of the prompt that the cache lacks is evaluated, with the first draft."""
        self._tokens = list(request.prompt)
        self._prompt_tokens = len(self._tokens)
        self._sampling = request.sampling
        seed = request.sampling.seed
        self._random = np.random.default_rng(None if seed is None else seed + 1)

    def commit(self, tokens: Sequence[int]) -> None:
        """Note tokens that the generation has really produced; costs nothing until the next draft."""
        self._tokens.extend(tokens)

    def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
        """Write at most ``limit`` tokens ahead, under the request's sampling parameters.

        None if the smaller model's context has no room.

        Raises:
            CancelledError: The drafter was interrupted.
            DecodeError: The smaller model failed.
        """
        row = self._catch_up()[-1]
        limit = min(limit, self._backend.capabilities.context_tokens - len(self._evaluated))
        tokens: list[int] = []
        distributions: list[Distribution] = []
        while True:
            q = transform(row[: self._known_tokens], self._sampling)
            tokens.append(draw(q, self._random))
            distributions.append(q)
            if len(tokens) == limit or tokens[-1] in self._backend.vocabulary.end_ids:
                break
            row = self._evaluate([tokens[-1]])[-1]
        is_certain = self._sampling.temperature == 0.0
        return Draft(tuple(tokens), self.name, distributions=None if is_certain else tuple(distributions))

    def interrupt(self) -> None:
        """Make the running and every later draft raise ``CancelledError`` until ``resume``. Any thread."""
        self._backend.interrupt()

    def resume(self) -> None:
        """Allow drafts again after ``interrupt``. Any thread."""
        self._backend.resume()

    def close(self) -> None:
        """Free the smaller model. Calling it twice is harmless."""
        self._backend.close()

    def _time_row(self, clock: Callable[[], float]) -> float:
        """Return what a token of a prefill takes in milliseconds; leaves the cache empty."""
        rows = min(self._batch_tokens, 32)
        for _ in range(2):  # the first pass touches the weights for the first time
            started_s = clock()
            self._backend.decode(Batch((0,) * rows, 0))
            ms = (clock() - started_s) * 1000
            self._backend.sequence_remove(0, 0)
        return ms / rows

    def _begin(self) -> int:
        """Return where in the text the cache begins.

        It begins a window before the reply and stays there, as every move reads the window anew, until the context is
        nearly full.
        """
        first = max(0, self._prompt_tokens - _WINDOW_TOKENS)
        room = self._backend.capabilities.context_tokens // 2
        return first + max(0, (len(self._tokens) - first) // room - 1) * room

    def _in_step(self) -> int:
        """Return how many of the cached tokens are those of the text, the last token of the text left out."""
        wanted = self._tokens[self._begin() : -1]
        pairs = zip(self._evaluated, wanted, strict=False)
        return next(
            (index for index, (held, token) in enumerate(pairs) if held != token),
            min(len(self._evaluated), len(wanted)),
        )

    def _catch_up(self) -> Logits:
        """Bring the cache in step with the committed tokens; return the logits after the last of them."""
        same = self._in_step()
        if not self._backend.sequence_remove(0, same):
            self._backend.sequence_remove(0, 0)
            same = 0
        del self._evaluated[same:]
        return self._evaluate(self._tokens[self._begin() + same :])

    def _evaluate(self, tokens: list[int]) -> Logits:
        for start in range(0, len(tokens), self._batch_tokens):
            chunk = tokens[start : start + self._batch_tokens]
            rows = self._backend.decode(Batch(tuple(chunk), len(self._evaluated)))
            self._evaluated.extend(chunk)
        return rows


def _difference(draft: Vocabulary, target: Vocabulary) -> str:
    """Return in words where the two vocabularies differ first; empty if they are the same but for unused tokens."""
    if abs(draft.size - target.size) > _MOST_UNUSED_TOKENS:
        return f"it has {draft.size} tokens and the target {target.size}"
    if draft.end_ids != target.end_ids:
        return "their end-of-generation tokens differ"
    for token in range(min(draft.size, target.size)):
        ours, theirs = draft.piece(token, special=True), target.piece(token, special=True)
        if ours != theirs:
            return f"token {token} is {ours!r} in it and {theirs!r} in the target"
    return ""
