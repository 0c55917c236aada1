"""llama-cpp-python's own plain generation: what Khepri's speed is compared with, and nothing else.

This is the one other module that imports ``llama_cpp``. Here its high-level ``Llama`` class is wanted, which
``llama_cpp.py`` has reasons to avoid: a baseline that ran through Khepri's own backend would share its faults and its
merits, and a user without Khepri would have this one. Both log callback and environment come from the other module.
"""

import os
import time
from collections.abc import Callable, Collection
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from llama_cpp import Llama

from khepri.engine.backend import LoadOptions
from khepri.engine.backends import llama_cpp as _sets_the_log  # noqa: F401 - imported for what it does
from khepri.errors import DecodeError, ModelLoadError


@dataclass(frozen=True)
class PlainGeneration:
    """What the library generated and when."""

    tokens: tuple[int, ...]
    """Generated token ids in order, the end-of-generation token included when there was one."""
    ttft_ms: float
    """Time from the call to the first token: the evaluation of what was new in the prompt, and one choice."""
    gaps_ms: tuple[float, ...]
    """Time from each token to the next, one fewer than there are tokens."""


class LlamaCppPlain:
    """A model in the library's high-level class. Owns it; ``close`` frees it. One thread.

    Raises:
        ModelLoadError: The library refuses the file or the context parameters.
    """

    def __init__(self, options: LoadOptions, clock: Callable[[], float] = time.perf_counter) -> None:
        """Load the model with the settings that ``LlamaCppBackend`` would take from ``options``."""
        self._clock = clock
        try:
            self._llama = _Llama(options)
        except ValueError as error:
            raise ModelLoadError(f"llama-cpp-python cannot load {options.model_path}: {error}") from error

    def generate(self, prompt: Collection[int], max_tokens: int, end_ids: Collection[int]) -> PlainGeneration:
        """Continue ``prompt`` greedily; what it shares with the call before is not evaluated again.

        Args:
            prompt: Token ids, at least one.
            max_tokens: Most tokens, at least one.
            end_ids: Tokens that end it.

        Raises:
            DecodeError: The library failed.
        """
        tokens: list[int] = []
        times_s = [self._clock()]
        try:
            for token in self._llama.generate(list(prompt), temp=0.0, top_k=1, repeat_penalty=1.0):
                times_s.append(self._clock())
                tokens.append(token)
                if token in end_ids or len(tokens) == max_tokens:
                    break
        except RuntimeError as error:
            raise DecodeError(f"llama-cpp-python failed in a pass: {error}", "run `khepri doctor`") from error
        gaps_ms = [1000 * (later - earlier) for earlier, later in pairwise(times_s)]
        return PlainGeneration(tuple(tokens), gaps_ms[0], tuple(gaps_ms[1:]))

    def close(self) -> None:
        """Free the model. Calling it twice is harmless."""
        self._llama.close()


class _Llama(Llama):
    """The library's class, with the one setting of the load that its constructor does not offer."""

    def __init__(self, options: LoadOptions) -> None:
        self._extra_buffers = options.extra_buffers
        super().__init__(
            os.fspath(options.model_path),
            n_ctx=options.context_tokens,
            n_batch=options.batch_tokens,
            n_ubatch=options.batch_tokens,
            n_threads=options.threads,
            n_threads_batch=options.threads,
            no_perf=True,
            verbose=False,
        )

    @property
    def model_params(self) -> Any:  # noqa: ANN401 - a structure of the library
        return self._parameters

    @model_params.setter
    def model_params(self, parameters: Any) -> None:  # noqa: ANN401 - a structure of the library
        parameters.use_extra_bufts = self._extra_buffers
        self._parameters = parameters
