"""A real model that is asked once for each context, for tests that draw many times from it."""

from collections.abc import Sequence

import numpy as np

from khepri.engine.backend import Backend, Batch, Capabilities, Logits, Vocabulary
from khepri.errors import CancelledError


class RememberedBackend:
    """Sequence 0 of a model, with the logits of every context that was ever asked for kept."""

    def __init__(self, model: Backend) -> None:
        self._model = model
        self._rows: dict[tuple[int, ...], Logits] = {}
        self._tokens: list[int] = []
        self._is_interrupted = False

    @property
    def capabilities(self) -> Capabilities:
        return self._model.capabilities

    @property
    def vocabulary(self) -> Vocabulary:
        return self._model.vocabulary

    def row(self, context: Sequence[int]) -> Logits:
        """Return the logits after ``context``, float32 ``[n_vocab]``."""
        key = tuple(context)
        if key not in self._rows:
            self._model.sequence_remove(0, 0)
            self._rows[key] = np.array(self._model.decode(Batch(key, 0))[-1])
        return self._rows[key]

    def decode(self, batch: Batch) -> Logits:
        assert batch.position == len(self._tokens), "a batch continues its sequence"
        if self._is_interrupted:
            raise CancelledError("interrupted")
        self._tokens.extend(batch.tokens)
        first = batch.logits_from % len(batch.tokens)
        ends = range(batch.position + first + 1, len(self._tokens) + 1)
        return np.stack([self.row(self._tokens[:end]) for end in ends])

    def interrupt(self) -> None:
        self._is_interrupted = True

    def resume(self) -> None:
        self._is_interrupted = False

    def sequence_length(self, sequence: int) -> int:
        return len(self._tokens)

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        del self._tokens[start : None if end < 0 else end]
        return True

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> bool:
        raise NotImplementedError("there is one sequence")

    def sequence_bytes(self, sequence: int) -> int:
        raise NotImplementedError("nothing is saved")

    def sequence_state(self, sequence: int, memory: memoryview | None = None) -> memoryview:
        raise NotImplementedError("nothing is saved")

    def restore_sequence(self, sequence: int, state: bytes | memoryview) -> bool:
        raise NotImplementedError("nothing is restored")

    def close(self) -> None:
        self._model.close()
