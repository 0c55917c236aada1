"""What the libraries of the llama.cpp family have in common: one backend on the C API that they share.

llama.cpp and its forks decode batches of tokens into a cache of cells that sequences share. How a library is found, how
a model is loaded and a context made differs, and is the business of its own module; so is everything that one of them
names or does otherwise, which it puts right in its ``NativeApi``. Sampling and caching policy are not known here.
"""

import ctypes
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any, Protocol, TypeAlias

import numpy as np

from khepri.engine.backend import Batch, Capabilities, Logits
from khepri.errors import CancelledError, ContextFullError, DecodeError, KhepriError, ModelLoadError, OutOfMemoryError

NO_KV_SLOT = 1
"""Status of a pass for which the cache has no room; nothing was evaluated."""
ABORTED = 2
"""Status of a pass that the abort callback ended."""

_MARK = "\x02"  # In no word of any vocabulary, so that it stays a token of its own.
_ERROR_LEVEL = 4  # As ggml numbers its levels now; the comment in llama_cpp/_logger.py shows older numbers.
_MEMORY_WORDS = ("allocate", "bad_alloc", "insufficient memory", "out of memory")


Pointer: TypeAlias = Any
"""A native pointer, or a structure by value: opaque here."""


class NativeApi(Protocol):
    """The C functions that a backend calls, under the names and in the shape that llama.cpp has them in now."""

    def llama_model_get_vocab(self, model: Pointer, /) -> Pointer:
        """Return the model's vocabulary, which lives as long as it."""

    def llama_model_chat_template(self, model: Pointer, name: bytes | None, /) -> bytes | None:
        """Return the chat template of that name; None asks for the default one."""

    def llama_vocab_n_tokens(self, vocab: Pointer, /) -> int:
        """Return the number of tokens."""

    def llama_vocab_bos(self, vocab: Pointer, /) -> int:
        """Return the token that begins a text; negative if there is none."""

    def llama_vocab_eos(self, vocab: Pointer, /) -> int:
        """Return the token that ends a text; negative if there is none."""

    def llama_vocab_get_add_bos(self, vocab: Pointer, /) -> bool:
        """Tell if a prompt has to begin with that token."""

    def llama_vocab_is_eog(self, vocab: Pointer, token: int, /) -> bool:
        """Tell if a token ends a generation."""

    def llama_tokenize(
        self, vocab: Pointer, text: bytes, size: int, tokens: Pointer, capacity: int, add: bool, parse: bool, /
    ) -> int:
        """Write the tokens of a text; return how many, or minus how many there would be."""

    def llama_token_to_piece(
        self, vocab: Pointer, token: int, buffer: Pointer, size: int, strip: int, special: bool, /
    ) -> int:
        """Write the text of a token; return its bytes, or minus how many there would be."""

    def llama_batch_init(self, tokens: int, embedding: int, sequences: int, /) -> Pointer:
        """Return a batch with room for so many tokens."""

    def llama_batch_free(self, batch: Pointer, /) -> None:
        """Free a batch."""

    def llama_decode(self, context: Pointer, batch: Pointer, /) -> int:
        """Evaluate a batch; return a status, 0 for success."""

    def llama_get_logits(self, context: Pointer, /) -> Pointer:
        """Return the logits of the last batch, once they are there."""

    def llama_get_memory(self, context: Pointer, /) -> Pointer:
        """Return the cache of a context."""

    def llama_memory_seq_pos_max(self, memory: Pointer, sequence: int, /) -> int:
        """Return the last position of a sequence; -1 if it is empty."""

    def llama_memory_seq_rm(self, memory: Pointer, sequence: int, start: int, end: int, /) -> bool:
        """Remove positions ``[start, end)`` of a sequence; False if that cannot be done."""

    def llama_memory_seq_cp(self, memory: Pointer, source: int, target: int, start: int, end: int, /) -> None:
        """Let a sequence share positions ``[start, end)`` of another."""

    def llama_state_seq_get_size(self, context: Pointer, sequence: int, /) -> int:
        """Return how many bytes the state of a sequence takes."""

    def llama_state_seq_get_data(self, context: Pointer, buffer: Pointer, size: int, sequence: int, /) -> int:
        """Write the state of a sequence; return its bytes."""

    def llama_state_seq_set_data(self, context: Pointer, buffer: Pointer, size: int, sequence: int, /) -> int:
        """Read the state of a sequence; return how many bytes were used, 0 if it was refused."""


class NativeLog:
    """Keeps a library's errors instead of letting them onto the screen. A library has one log for the whole process.

    The library may call it from any of its threads.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=20)

    def append(self, level: int, text: bytes, _user_data: object) -> None:
        """Take in a line: what the library's log callback calls."""
        if level == _ERROR_LEVEL and text.strip():
            self._lines.append(text.decode("utf-8", "replace").strip())

    def clear(self) -> None:
        """Forget what was said."""
        self._lines.clear()

    def reason(self) -> str:
        """Return the first error since ``clear``: the ones after it only say that something failed."""
        return next(iter(self._lines.copy()), "the library gave no reason")

    def load_error(self, message: str) -> KhepriError:
        """Return the error for a load that failed as ``message`` says, for the reason that the library gave."""
        if any(word in line.lower() for line in self._lines.copy() for word in _MEMORY_WORDS):
            return OutOfMemoryError(message, "choose a smaller model, or lower context_tokens")
        return ModelLoadError(message, "run `khepri doctor`; if the file is damaged, fetch it again")


class AbortFlag:
    """A flag that the native code reads by itself, without Python.

    The libraries ask an abort callback between the nodes of a graph, a thousand times a pass. A Python callback would
    take the interpreter lock each time, so the callback is the C library's own ``strlen`` on a two-byte buffer: an
    empty string is false, any other is true.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self.callback = ctypes.CDLL(None).strlen
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self, value: bool) -> None:
        """Raise the flag, or take it down."""
        self._buffer[0] = b"\x01" if value else b"\x00"

    def is_set(self) -> bool:
        """Tell if it is raised."""
        return self._buffer[0] != b"\x00"


class NativeVocabulary:
    """The tokens of a loaded model. Any thread.

    The library frees them with the model, so a lock keeps the readers and ``close`` apart: whoever reads too late gets
    an error instead of freed memory.
    """

    def __init__(self, api: NativeApi, model: Pointer) -> None:
        self._api = api
        self._lock = threading.Lock()
        self._vocab: Pointer = api.llama_model_get_vocab(model)
        self.size: int = api.llama_vocab_n_tokens(self._vocab)
        template = api.llama_model_chat_template(model, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None
        self.begins_with_bos: bool = bool(api.llama_vocab_get_add_bos(self._vocab))
        self.bos_id = _token_or_none(api.llama_vocab_bos(self._vocab))
        self.eos_id = _token_or_none(api.llama_vocab_eos(self._vocab))
        self.end_ids = frozenset(i for i in range(self.size) if api.llama_vocab_is_eog(self._vocab, i))
        mark = self._tokenize(_MARK, special=False)
        self._mark = mark if b"".join(map(self.piece, mark)) == b" " + _MARK.encode() else []

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Return the canonical token ids of ``text``; see ``Vocabulary.tokenize``.

        SentencePiece vocabularies put a space before every text. It would stand between any two texts that are put
        together, and no grammar allows it, so that it is drawn to a mark instead and dropped with it.

        Raises:
            KhepriError: The backend is closed.
        """
        if self._mark and text:
            tokens = self._tokenize(_MARK + text, special=special)
            if tokens[: len(self._mark)] == self._mark:
                return tokens[len(self._mark) :]
        return self._tokenize(text, special=special)

    def _tokenize(self, text: str, *, special: bool) -> list[int]:
        data = text.encode("utf-8", "surrogatepass")
        capacity = len(data) + 8
        tokens = (ctypes.c_int32 * capacity)()
        with self._lock:
            count = self._api.llama_tokenize(self._open(), data, len(data), tokens, capacity, False, special)
        if count < 0:
            raise KhepriError(f"the tokenizer needs {-count} tokens for {len(data)} bytes")
        return list(tokens[:count])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes of one token; see ``Vocabulary.piece``.

        Raises:
            KhepriError: The backend is closed, or has no such token.
        """
        if not 0 <= token < self.size:
            raise KhepriError(f"there is no token {token} among the model's {self.size}")
        buffer = ctypes.create_string_buffer(64)
        with self._lock:
            count = self._api.llama_token_to_piece(self._open(), token, buffer, len(buffer), 0, special)
            if count < 0:
                buffer = ctypes.create_string_buffer(-count)
                count = self._api.llama_token_to_piece(self._open(), token, buffer, len(buffer), 0, special)
        return buffer.raw[:count]

    def close(self) -> None:
        """Refuse every further read; waits for the running one."""
        with self._lock:
            self._vocab = None

    def _open(self) -> Pointer:
        if self._vocab is None:
            raise KhepriError("the engine is closed")
        return self._vocab


class NativeBackend:
    """A model and its context in a library of the family. Owns both; ``close`` frees them.

    A subclass loads the model in its constructor: it fills ``_owned``, makes the context with the abort flag in it, and
    calls ``_take_over``.
    """

    capabilities: Capabilities
    """What it can do."""
    vocabulary: NativeVocabulary
    """The tokens of the model."""

    def __init__(self, api: NativeApi, log: NativeLog, sequences: int) -> None:
        self._api = api
        self._log = log
        self._sequences = sequences
        self._owned = ExitStack()
        self._is_open = True
        self._abort = AbortFlag()

    def _take_over(self, context: Pointer, batch_tokens: int, capabilities: Capabilities) -> None:
        """Start to work with a context, in passes of at most ``batch_tokens``."""
        self.capabilities = capabilities
        self._context = context
        self._memory = self._api.llama_get_memory(context)
        self._batch = self._api.llama_batch_init(batch_tokens, 0, 1)
        self._owned.callback(self._api.llama_batch_free, self._batch)
        self._batch_tokens = np.ctypeslib.as_array(self._batch.token, (batch_tokens,))
        self._batch_positions = np.ctypeslib.as_array(self._batch.pos, (batch_tokens,))
        self._batch_logits = np.ctypeslib.as_array(self._batch.logits, (batch_tokens,))
        np.ctypeslib.as_array(self._batch.n_seq_id, (batch_tokens,))[:] = 1
        self._batch_sequences = self._batch.seq_id
        self._capacity = batch_tokens
        self._batch_sequence = -1

    def decode(self, batch: Batch) -> Logits:
        """Evaluate one batch; see ``Backend.decode``."""
        self._refuse_misfit(batch)
        if self._abort.is_set():
            raise CancelledError("the pass was interrupted")
        return self._evaluate(batch)

    def _evaluate(self, batch: Batch) -> Logits:
        first_row = self._fill(batch)
        self._log.clear()
        self._check(self._api.llama_decode(self._context, self._batch), batch)
        pointer = self._api.llama_get_logits(self._context)
        return np.ctypeslib.as_array(pointer, (len(batch.tokens) - first_row, self.capabilities.n_vocab))

    def _fill(self, batch: Batch) -> int:
        """Write ``batch`` into the library's own; return the first token whose logits are wanted."""
        count = len(batch.tokens)
        self._batch.n_tokens = count
        self._batch_tokens[:count] = batch.tokens
        self._batch_positions[:count] = np.arange(batch.position, batch.position + count)
        first_row = batch.logits_from % count
        self._batch_logits[:first_row] = 0
        self._batch_logits[first_row:count] = 1
        if self._batch_sequence != batch.sequence:
            for index in range(self._capacity):
                self._batch_sequences[index][0] = batch.sequence
            self._batch_sequence = batch.sequence
        return first_row

    def _refuse_misfit(self, batch: Batch) -> None:
        """Refuse what the library would misread, or answer by ending the process."""
        count, held = len(batch.tokens), self.sequence_length(batch.sequence)
        if not 0 < count <= self._capacity:
            raise DecodeError(f"a batch of {count} tokens does not fit into {self._capacity}")
        if not -count <= batch.logits_from < count:
            raise DecodeError(f"logits are asked from token {batch.logits_from} of {count}")
        if not 0 <= min(batch.tokens) <= max(batch.tokens) < self.vocabulary.size:
            raise DecodeError(f"a token is not one of the {self.vocabulary.size} of the vocabulary")
        if batch.position != held:
            raise DecodeError(f"a batch starts at position {batch.position}, but its sequence ends at {held}")
        if held + count > self.capabilities.context_tokens:
            raise self._context_full(held + count)

    def _context_full(self, needed: int) -> ContextFullError:
        room = self.capabilities.context_tokens
        return ContextFullError(
            f"{needed} tokens do not fit into what is free of a context of {room}",
            "ask a shorter question or raise context_tokens",
            needed_tokens=needed,
            context_tokens=room,
        )

    def _check(self, status: int, batch: Batch) -> None:
        # Not every library says in the status that a pass was aborted; and one that failed after it, for what reason.
        if status == ABORTED or self._abort.is_set():
            raise CancelledError("the pass was interrupted")
        if status == NO_KV_SLOT:
            raise self._context_full(batch.position + len(batch.tokens))
        if status != 0:
            raise DecodeError(f"the library failed in a pass (status {status}): {self._log.reason()}", _ASK_DOCTOR)

    def interrupt(self) -> None:
        """Abort the running pass at its next graph node; see ``Backend.interrupt``."""
        self._abort.set(True)

    def resume(self) -> None:
        """Allow passes again; see ``Backend.resume``."""
        self._abort.set(False)

    def sequence_length(self, sequence: int) -> int:
        """Return where a sequence ends; see ``Backend.sequence_length``."""
        self._refuse_stranger(sequence)
        return int(self._api.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        """Remove a range of a sequence; see ``Backend.sequence_remove``."""
        self._refuse_stranger(sequence)
        if start > 0 and not self._can_go_on_from(sequence, start):
            return False
        return bool(self._api.llama_memory_seq_rm(self._memory, sequence, start, end))

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> bool:
        """Share a range of a sequence; see ``Backend.sequence_copy``."""
        self._refuse_stranger(source)
        self._refuse_stranger(target)
        if not self._can_go_on_from(source, end):
            return False
        self._api.llama_memory_seq_cp(self._memory, source, target, start, end)
        return True

    def _can_go_on_from(self, sequence: int, position: int) -> bool:
        """Tell if the cache holds all that a token at ``position`` of a sequence would attend to."""
        return self.capabilities.can_remove_tail or position >= self.sequence_length(sequence)

    def sequence_bytes(self, sequence: int) -> int:
        """Return the size of a sequence's state; see ``Backend.sequence_bytes``."""
        self._refuse_stranger(sequence)
        return self._api.llama_state_seq_get_size(self._context, sequence)

    def sequence_state(self, sequence: int, memory: memoryview | None = None) -> memoryview:
        """Return the state of a sequence; see ``Backend.sequence_state``."""
        return self._state_after(0, sequence, memory)

    def _state_after(self, head: int, sequence: int, memory: memoryview | None) -> memoryview:
        """Return so many bytes for a subclass to fill, and the state of a sequence after them."""
        self._refuse_stranger(sequence)
        size = self._api.llama_state_seq_get_size(self._context, sequence)
        memory = memoryview(bytearray(head + size)) if memory is None else memory
        buffer = (ctypes.c_uint8 * size).from_buffer(memory, head)
        written = self._api.llama_state_seq_get_data(self._context, buffer, size, sequence)
        return memory[: head + written]

    def restore_sequence(self, sequence: int, state: bytes | memoryview) -> bool:
        """Fill an empty sequence; see ``Backend.restore_sequence``."""
        self._refuse_stranger(sequence)
        size = len(state)
        self._log.clear()
        if size and self._api.llama_state_seq_set_data(self._context, _pointer_to(state), size, sequence) == size:
            return True
        self.sequence_remove(sequence, 0)
        return False

    def _refuse_stranger(self, sequence: int) -> None:
        """Refuse a sequence that was not asked for: the library ends the process over some of them."""
        if not self._is_open:
            raise DecodeError("the model is closed")
        if not 0 <= sequence < self._sequences:
            raise DecodeError(f"there is no sequence {sequence} among {self._sequences}")

    def close(self) -> None:
        """Free the batch, the context and the model, in that order."""
        self._is_open = False
        self._owned.close()


_ASK_DOCTOR = "run `khepri doctor`"


def _pointer_to(data: bytes | memoryview) -> Pointer:
    """Return a pointer to bytes that are only read, and are not copied."""
    return np.frombuffer(data, dtype=np.uint8).ctypes.data_as(ctypes.POINTER(ctypes.c_uint8))


def _token_or_none(token: int) -> int | None:
    return token if token >= 0 else None


def named_features(listing: bytes) -> tuple[str, ...]:
    """Return what a library's system information says is on, such as ``AVX2`` or ``REPACK``."""
    text = listing.decode("utf-8", "replace").replace("CPU :", "")
    pairs: Sequence[str] = text.split("|")
    return tuple(pair.split("=")[0].strip() for pair in pairs if pair.strip().endswith("= 1"))
