"""The llama.cpp backend, on llama-cpp-python's low-level API.

The high-level ``Llama`` class is not used: it computes logits for every token, ignores a failed removal and owns its
own idea of a cache. This is the one module of Khepri that imports ``llama_cpp``. It knows tokens, positions and
sequences; it knows neither sampling nor what is worth caching.
"""

import ctypes
from collections import deque
from collections.abc import Sequence
from typing import Any

import llama_cpp as native
import numpy as np

from khepri.engine.backend import Batch, Capabilities, LoadOptions, Logits
from khepri.errors import (
    CancelledError,
    ContextFullError,
    DecodeError,
    KhepriError,
    ModelLoadError,
    OutOfMemoryError,
)

_NO_KV_SLOT = 1
_ABORTED = 2
_ERROR_LEVELS = (3, 4)  # GGML_LOG_LEVEL_WARN is 3 since ggml renumbered its levels; errors are 4.
_MEMORY_WORDS = ("allocate", "out of memory", "failed to mmap", "cannot allocate")


class _NativeLog:
    """Keeps the library's last warnings and errors instead of letting them onto the screen.

    llama.cpp has one log callback for the whole process, and llama-cpp-python installs one that prints to stderr.
    """

    def __init__(self) -> None:
        self.lines: deque[str] = deque(maxlen=20)
        self._callback = native.llama_log_callback(self._append)
        native.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _append(self, level: int, text: bytes, _user_data: object) -> None:
        if level in _ERROR_LEVELS and text.strip():
            self.lines.append(text.decode("utf-8", "replace").strip())

    def last(self) -> str:
        return self.lines[-1] if self.lines else "the library gave no reason"

    def tells_of_memory(self) -> bool:
        return any(word in line.lower() for line in self.lines for word in _MEMORY_WORDS)


_LOG = _NativeLog()


class _AbortFlag:
    """A flag that the native code reads by itself, without Python.

    llama.cpp asks an abort callback between the nodes of a graph, a thousand times a pass. A Python callback would take
    the interpreter lock each time, so the callback is the C library's own ``strlen`` on a two-byte buffer: an empty
    string is false, any other is true.
    """

    def __init__(self) -> None:
        self._buffer = ctypes.create_string_buffer(2)
        self.callback = ctypes.cast(ctypes.CDLL(None).strlen, native.ggml_abort_callback)
        self.data = ctypes.cast(self._buffer, ctypes.c_void_p)

    def set(self, value: bool) -> None:
        self._buffer[0] = b"\x01" if value else b"\x00"

    def is_set(self) -> bool:
        return self._buffer[0] != b"\x00"


class LlamaVocabulary:
    """The tokens of a loaded llama.cpp model; valid until the backend is closed."""

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - an opaque native pointer
        self._vocab = native.llama_model_get_vocab(model)
        self.size: int = native.llama_vocab_n_tokens(self._vocab)
        template = native.llama_model_chat_template(model, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None
        self.begins_with_bos: bool = bool(native.llama_vocab_get_add_bos(self._vocab))
        self.bos_id = _token_or_none(native.llama_vocab_bos(self._vocab))
        self.eos_id = _token_or_none(native.llama_vocab_eos(self._vocab))
        self.end_ids = frozenset(i for i in range(self.size) if native.llama_vocab_is_eog(self._vocab, i))
        self._piece_buffer = ctypes.create_string_buffer(512)

    def tokenize(self, text: str, *, special: bool = False) -> list[int]:
        """Return the canonical token ids of ``text``; see ``Vocabulary.tokenize``."""
        data = text.encode("utf-8", "surrogatepass")
        capacity = len(data) + 8
        tokens = (native.llama_token * capacity)()
        count = native.llama_tokenize(self._vocab, data, len(data), tokens, capacity, False, special)
        if count < 0:
            raise KhepriError(f"the tokenizer needs {-count} tokens for {len(data)} bytes")
        return list(tokens[:count])

    def piece(self, token: int, *, special: bool = False) -> bytes:
        """Return the bytes of one token; see ``Vocabulary.piece``."""
        buffer = ctypes.create_string_buffer(512)
        count = native.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        if count < 0:
            buffer = ctypes.create_string_buffer(-count)
            count = native.llama_token_to_piece(self._vocab, token, buffer, len(buffer), 0, special)
        return buffer.raw[:count]


class LlamaCppBackend:
    """A model and its context in llama.cpp. Owns both; ``close`` frees them.

    Raises:
        ModelLoadError: The library refuses the file or the context parameters.
        OutOfMemoryError: The model or its context does not fit into memory.
    """

    def __init__(self, options: LoadOptions) -> None:
        self._model: Any = None
        self._context: Any = None
        self._batch: Any = None
        self._abort = _AbortFlag()
        _LOG.lines.clear()
        native.llama_backend_init()
        self._load_model(options)
        try:
            self._make_context(options)
        except KhepriError:
            self.close()
            raise
        self._memory = native.llama_get_memory(self._context)
        self._allocate_batch(options.batch_tokens)
        self.vocabulary = LlamaVocabulary(self._model)
        self.capabilities = Capabilities(
            library=f"llama-cpp-python {native.__version__}",
            features=library_features(),
            n_vocab=self.vocabulary.size,
            context_tokens=native.llama_n_ctx(self._context),
            trained_context_tokens=native.llama_model_n_ctx_train(self._model),
            can_remove_tail=not (
                native.llama_model_is_recurrent(self._model) or native.llama_model_is_hybrid(self._model)
            ),
        )
        self._occupied: dict[int, int] = {}

    def _load_model(self, options: LoadOptions) -> None:
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.use_extra_bufts = options.extra_buffers
        path = str(options.model_path)
        self._model = native.llama_model_load_from_file(path.encode(), parameters)
        if not self._model:
            raise self._load_error(f"cannot load the model {path}: {_LOG.last()}")

    def _make_context(self, options: LoadOptions) -> None:
        parameters = native.llama_context_default_params()
        parameters.n_ctx = options.context_tokens
        parameters.n_batch = options.batch_tokens
        parameters.n_ubatch = options.batch_tokens
        parameters.n_seq_max = options.sequences
        parameters.n_threads = options.threads
        parameters.n_threads_batch = options.threads
        parameters.kv_unified = True
        parameters.no_perf = True
        parameters.abort_callback = self._abort.callback
        parameters.abort_callback_data = self._abort.data
        self._context = native.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise self._load_error(
                f"cannot make a context of {options.context_tokens} tokens for {options.model_path}: {_LOG.last()}"
            )

    def _load_error(self, message: str) -> KhepriError:
        if _LOG.tells_of_memory():
            return OutOfMemoryError(message, "choose a smaller model, or lower context_tokens")
        return ModelLoadError(message, "run `khepri doctor`; if the file is damaged, fetch it again")

    def _allocate_batch(self, capacity: int) -> None:
        self._batch = native.llama_batch_init(capacity, 0, 1)
        self._batch_tokens = np.ctypeslib.as_array(self._batch.token, (capacity,))
        self._batch_positions = np.ctypeslib.as_array(self._batch.pos, (capacity,))
        self._batch_logits = np.ctypeslib.as_array(self._batch.logits, (capacity,))
        np.ctypeslib.as_array(self._batch.n_seq_id, (capacity,))[:] = 1
        self._batch_sequences = self._batch.seq_id
        self._capacity = capacity
        self._batch_sequence = -1

    def decode(self, batch: Batch) -> Logits:
        """Evaluate one batch; see ``Backend.decode``."""
        count = len(batch.tokens)
        if not 0 < count <= self._capacity:
            raise DecodeError(f"a batch of {count} tokens does not fit into {self._capacity}")
        self._check_room(batch)
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
        self._check(native.llama_decode(self._context, self._batch), batch)
        rows = count - first_row
        pointer = native.llama_get_logits(self._context)
        return np.ctypeslib.as_array(pointer, (rows, self.capabilities.n_vocab))

    def _check_room(self, batch: Batch) -> None:
        end = batch.position + len(batch.tokens)
        if end > self.capabilities.context_tokens:
            raise self._context_full(end)

    def _context_full(self, needed: int) -> ContextFullError:
        room = self.capabilities.context_tokens
        return ContextFullError(
            f"{needed} tokens do not fit into a context of {room}",
            "ask a shorter question or raise context_tokens",
            needed_tokens=needed,
            context_tokens=room,
        )

    def _check(self, status: int, batch: Batch) -> None:
        if status == 0:
            return
        if status == _ABORTED or self._abort.is_set():
            raise CancelledError("the pass was interrupted")
        if status == _NO_KV_SLOT:
            raise self._context_full(batch.position + len(batch.tokens))
        raise DecodeError(f"llama.cpp failed in a pass (status {status}): {_LOG.last()}", "run `khepri doctor`")

    def interrupt(self) -> None:
        """Abort the running pass at its next graph node; see ``Backend.interrupt``."""
        self._abort.set(True)

    def resume(self) -> None:
        """Allow passes again; see ``Backend.resume``."""
        self._abort.set(False)

    def sequence_length(self, sequence: int) -> int:
        """Return the number of tokens of a sequence; see ``Backend.sequence_length``."""
        return int(native.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        """Remove a range of a sequence; see ``Backend.sequence_remove``."""
        return bool(native.llama_memory_seq_rm(self._memory, sequence, start, end))

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> None:
        """Share a range of a sequence; see ``Backend.sequence_copy``."""
        native.llama_memory_seq_cp(self._memory, source, target, start, end)

    def sequence_state(self, sequence: int) -> bytes:
        """Return the state of a sequence; see ``Backend.sequence_state``."""
        size = native.llama_state_seq_get_size(self._context, sequence)
        buffer = (ctypes.c_uint8 * size)()
        written = native.llama_state_seq_get_data(self._context, buffer, size, sequence)
        return bytes(memoryview(buffer)[:written])

    def restore_sequence(self, sequence: int, state: bytes) -> bool:
        """Fill an empty sequence; see ``Backend.restore_sequence``."""
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        return bool(native.llama_state_seq_set_data(self._context, buffer, len(state), sequence))

    def close(self) -> None:
        """Free the batch, the context and the model, in that order."""
        if self._batch is not None:
            native.llama_batch_free(self._batch)
            self._batch = None
        if self._context:
            native.llama_free(self._context)
            self._context = None
        if self._model:
            native.llama_model_free(self._model)
            self._model = None


def _token_or_none(token: int) -> int | None:
    return token if token >= 0 else None


def library_features() -> tuple[str, ...]:
    """Return the library's CPU features and build options, such as ``AVX2`` or ``REPACK``."""
    listing: str = native.llama_print_system_info().decode("utf-8", "replace")
    pairs: Sequence[str] = listing.replace("CPU :", "").split("|")
    return tuple(pair.split("=")[0].strip() for pair in pairs if pair.strip().endswith("= 1"))


def library_version() -> str:
    """Return the version of llama-cpp-python."""
    return str(native.__version__)
