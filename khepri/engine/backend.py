"""The one seam to native code: load, tokenize, evaluate, and manage sequences in the KV cache.

Everything above it is plain Python and NumPy. Every implementation passes the same conformance suite
(``tests/engine/conformance.py``). Sampling, caching policy and text are not known here.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any, Protocol, Self

import numpy as np
from numpy.typing import NDArray

Logits = NDArray[np.float32]


class BackendName(StrEnum):
    """The native libraries that a model can be run with."""

    LLAMA_CPP = "llama_cpp"
    """llama.cpp, compiled for this machine: runs every model, and exactly where that is asked for."""
    IK_LLAMA = "ik_llama"
    """ik_llama.cpp, compiled ahead: faster where it runs."""


class KvType(StrEnum):
    """Precision of the keys and values in the cache."""

    AUTO = "auto"
    """What the library is fastest with, as far as the model allows it."""
    F16 = "f16"
    """Two bytes each."""
    Q8_0 = "q8_0"
    """About one byte each."""


@dataclass(frozen=True)
class LoadOptions:
    """How a model is loaded and its context is made."""

    model_path: Path
    """The GGUF file."""
    context_tokens: int
    """Most tokens of one sequence."""
    threads: int
    """Threads of a pass; the physical cores are a good number."""
    batch_tokens: int = 128
    """Most tokens of one ``decode`` call, and the grain of progress and cancellation between passes."""
    sequences: int = 1
    """Most sequence ids in use at once."""
    cells: int = 0
    """Cells of the KV cache, shared by all sequences; at least ``context_tokens`` of them are made."""
    extra_buffers: bool = True
    """Allow the library's repacked weight buffers (faster; what crashes on machines with a broken AMX)."""
    kv_type: KvType = KvType.F16
    """Precision of the keys and values."""
    exact: bool = False
    """Choose kernels whose results do not depend on how many tokens a pass evaluates, as far as the library has them;
    whether it has is a question for ``engine/exactness.py``. Counts for the first backend of a process only."""
    backend: BackendName = BackendName.LLAMA_CPP
    """The library."""

    def as_json(self) -> dict[str, object]:
        """Return what JSON can carry to another process."""
        return {**asdict(self), "model_path": str(self.model_path)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> Self:
        """Return what ``as_json`` was made from."""
        return cls(
            **{
                **plain,
                "model_path": Path(plain["model_path"]),
                "backend": BackendName(plain["backend"]),
                "kv_type": KvType(plain["kv_type"]),
            }
        )


@dataclass(frozen=True)
class Capabilities:
    """What a loaded backend can do, declared so that nobody above has to guess."""

    backend: BackendName
    """Which of the libraries it is."""
    library: str
    """Name and version of the native library."""
    features: tuple[str, ...]
    """CPU features and build options that the library reports."""
    n_vocab: int
    """Size of the vocabulary, the width of a row of logits."""
    context_tokens: int
    """Most tokens of one sequence."""
    cells: int
    """Cells of the KV cache, shared by all sequences: one for each token, a shared token counted once."""
    sequences: int
    """Sequence ids, from 0 on."""
    trained_context_tokens: int
    """Context length that the model was trained for."""
    can_remove_tail: bool
    """True if a tail of a sequence can be removed (false for recurrent and hybrid models)."""
    kv_type: KvType = KvType.F16
    """Precision of the keys and values; never ``AUTO``."""
    may_leave_gaps: bool = True
    """True if free cells may lie between used ones, as several sequences leave them; where false, such a cache gives
    wrong logits, and only one sequence that grows and shrinks at its end may be kept."""


@dataclass(frozen=True)
class Batch:
    """Consecutive tokens of one sequence for one pass."""

    tokens: tuple[int, ...]
    """Token ids, at least one and at most ``LoadOptions.batch_tokens``."""
    position: int
    """Position of the first token in its sequence."""
    sequence: int = 0
    """Sequence id."""
    logits_from: int = -1
    """Index in ``tokens`` from which logits are wanted, counted like a Python index; -1 asks for the last token's."""


class Vocabulary(Protocol):
    """The tokens of a loaded model. Pure reads; safe from any thread, and refused once the backend is closed."""

    @property
    def size(self) -> int:
        """Number of tokens."""

    @property
    def chat_template(self) -> str | None:
        """The model's own Jinja chat template, or None if the file carries none."""

    @property
    def begins_with_bos(self) -> bool:
        """True if the model expects a beginning-of-sequence token before every prompt."""

    @property
    def bos_id(self) -> int | None:
        """Id of the beginning-of-sequence token."""

    @property
    def eos_id(self) -> int | None:
        """Id of the end-of-sequence token."""

    @property
    def end_ids(self) -> frozenset[int]:
        """Ids of the model's own end-of-generation set."""

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Return the canonical token ids of ``text``, without a beginning-of-sequence token.

        Args:
            text: Any text; the empty one gives no token.
            special: True reads control tokens such as ``<|im_start|>`` in the text as tokens. Text that comes from
                files or users must be tokenized with False, so that it cannot forge a turn.
        """

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes of one token; control tokens give no bytes unless ``special`` is true.

        Raises:
            KhepriError: There is no such token, or the backend is closed.
        """


class Backend(Protocol):
    """A loaded model with its context. One thread owns it: the one that calls ``decode``.

    Only ``vocabulary`` and ``interrupt`` may be used from other threads.
    """

    @property
    def capabilities(self) -> Capabilities:
        """What this backend can do."""

    @property
    def vocabulary(self) -> Vocabulary:
        """The tokens of the loaded model."""

    def decode(self, batch: Batch) -> Logits:
        """Evaluate ``batch`` and return the logits of its tokens from ``logits_from`` on.

        Returns:
            float32 ``[n_rows, n_vocab]``: a view on the library's own buffer, valid until the next call of any method.

        Raises:
            CancelledError: ``interrupt`` was called; the tokens of the batch may be partly in the cache.
            ContextFullError: The cache has no room; nothing of the batch was evaluated.
            DecodeError: The batch does not continue its sequence, or names a token or a sequence that does not exist:
                nothing was evaluated. Or the pass failed: the tokens of the batch may be partly in the cache.
        """

    def interrupt(self) -> None:
        """Make the running and every later ``decode`` raise ``CancelledError`` until ``resume``. Any thread."""

    def resume(self) -> None:
        """Allow passes again after ``interrupt``. Any thread."""

    def sequence_length(self, sequence: int) -> int:
        """Return the position after the last token of ``sequence`` in the cache: its number of tokens, if it is whole.

        Raises:
            DecodeError: There is no such sequence; so does every method that takes one.
        """

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        """Remove positions ``[start, end)`` of a sequence (``end`` -1: to its end).

        Returns:
            False if the model cannot remove a part, or could not go on from what is left; the sequence is then
            unchanged.
        """

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> bool:
        """Let ``target`` share positions ``[start, end)`` of ``source``. Does not clear ``target``.

        Returns:
            False if the model cannot go on from such a part; ``target`` is then unchanged.
        """

    def sequence_bytes(self, sequence: int) -> int:
        """Return how many bytes ``sequence_state`` would return, at little cost."""

    def sequence_state(self, sequence: int, memory: memoryview | None = None) -> memoryview:
        """Return the keys and values of a sequence as bytes that ``restore_sequence`` takes.

        Args:
            sequence: Sequence id.
            memory: What the bytes are written to and the result is a view on, at least ``sequence_bytes`` long; None
                takes fresh memory, which takes longer.
        """

    def restore_sequence(self, sequence: int, state: bytes | memoryview) -> bool:
        """Fill an empty sequence from ``sequence_state``'s bytes; False if the library refuses them."""

    def close(self) -> None:
        """Free the context and the model. Calling it twice is harmless."""
