"""The llama.cpp backend, on llama-cpp-python's low-level API.

The high-level ``Llama`` class is not used: it computes logits for every token, ignores a failed removal and owns its
own idea of a cache. This is the one module of Khepri that imports ``llama_cpp``. It knows tokens, positions and
sequences; it knows neither sampling nor what is worth caching.
"""

import ctypes
import os
import threading
from collections import deque
from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

import llama_cpp as native
import numpy as np

from khepri.engine.backend import Batch, Capabilities, KvType, LoadOptions, Logits
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
_MARK = "\x02"  # In no word of any vocabulary, so that it stays a token of its own.
_ERROR_LEVEL = 4  # As ggml numbers its levels now; the comment in llama_cpp/_logger.py shows older numbers.
_KV_TYPES = {KvType.F16: native.GGML_TYPE_F16, KvType.Q8_0: native.GGML_TYPE_Q8_0}
_MEMORY_WORDS = ("allocate", "bad_alloc", "insufficient memory", "out of memory")


class _NativeLog:
    """Keeps the library's errors instead of letting them onto the screen.

    llama.cpp has one log callback for the whole process, and llama-cpp-python installs one that prints to stderr. The
    library may call it from any of its threads.
    """

    def __init__(self) -> None:
        self._lines: deque[str] = deque(maxlen=20)
        self._callback = native.llama_log_callback(self._append)
        native.llama_log_set(self._callback, ctypes.c_void_p(0))

    def _append(self, level: int, text: bytes, _user_data: object) -> None:
        if level == _ERROR_LEVEL and text.strip():
            self._lines.append(text.decode("utf-8", "replace").strip())

    def clear(self) -> None:
        self._lines.clear()

    def reason(self) -> str:
        """Return the first error since ``clear``: the ones after it only say that something failed."""
        return next(iter(self._lines.copy()), "the library gave no reason")

    def tells_of_memory(self) -> bool:
        return any(word in line.lower() for line in self._lines.copy() for word in _MEMORY_WORDS)


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
    """The tokens of a loaded llama.cpp model. Any thread.

    The library frees them with the model, so a lock keeps the readers and ``close`` apart: whoever reads too late gets
    an error instead of freed memory.
    """

    def __init__(self, model: Any) -> None:  # noqa: ANN401 - an opaque native pointer
        self._lock = threading.Lock()
        self._vocab: Any = native.llama_model_get_vocab(model)
        self.size: int = native.llama_vocab_n_tokens(self._vocab)
        template = native.llama_model_chat_template(model, None)
        self.chat_template: str | None = template.decode("utf-8", "replace") if template else None
        self.begins_with_bos: bool = bool(native.llama_vocab_get_add_bos(self._vocab))
        self.bos_id = _token_or_none(native.llama_vocab_bos(self._vocab))
        self.eos_id = _token_or_none(native.llama_vocab_eos(self._vocab))
        self.end_ids = frozenset(i for i in range(self.size) if native.llama_vocab_is_eog(self._vocab, i))
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
        tokens = (native.llama_token * capacity)()
        with self._lock:
            count = native.llama_tokenize(self._open(), data, len(data), tokens, capacity, False, special)
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
            count = native.llama_token_to_piece(self._open(), token, buffer, len(buffer), 0, special)
            if count < 0:
                buffer = ctypes.create_string_buffer(-count)
                count = native.llama_token_to_piece(self._open(), token, buffer, len(buffer), 0, special)
        return buffer.raw[:count]

    def close(self) -> None:
        """Refuse every further read; waits for the running one."""
        with self._lock:
            self._vocab = None

    def _open(self) -> Any:  # noqa: ANN401 - an opaque native pointer
        if self._vocab is None:
            raise KhepriError("the engine is closed")
        return self._vocab


class LlamaCppBackend:
    """A model and its context in llama.cpp. Owns both; ``close`` frees them.

    Raises:
        ModelLoadError: The library refuses the file or the context parameters.
        OutOfMemoryError: The model or its context does not fit into memory.
    """

    def __init__(self, options: LoadOptions) -> None:
        self._owned = ExitStack()
        self._is_open = True
        self._sequences = options.sequences
        self._abort = _AbortFlag()
        if options.exact:
            os.environ["GGML_CPU_TILED_MM"] = "0"  # The library reads it once, at its first multiplication.
        _LOG.clear()
        native.llama_backend_init()
        try:
            self._load(options)
        except BaseException:
            self.close()
            raise

    def _load(self, options: LoadOptions) -> None:
        self._load_model(options)
        self.vocabulary = LlamaVocabulary(self._model)
        self._owned.callback(self.vocabulary.close)
        self._make_context(options)
        self._memory = native.llama_get_memory(self._context)
        self._allocate_batch(options.batch_tokens)
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

    def _load_model(self, options: LoadOptions) -> None:
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.use_extra_bufts = options.extra_buffers
        self._model = native.llama_model_load_from_file(os.fsencode(options.model_path), parameters)
        if not self._model:
            raise self._load_error(f"cannot load the model {options.model_path}: {_LOG.reason()}")
        self._owned.callback(native.llama_model_free, self._model)

    def _make_context(self, options: LoadOptions) -> None:
        parameters = native.llama_context_default_params()
        parameters.n_ctx = options.context_tokens
        parameters.n_batch = options.batch_tokens
        parameters.n_ubatch = options.batch_tokens
        parameters.n_seq_max = options.sequences
        parameters.n_threads = options.threads
        parameters.n_threads_batch = options.threads
        parameters.kv_unified = True
        parameters.swa_full = True  # A cache that keeps only the sliding window cannot take back a removed tail.
        parameters.no_perf = True
        parameters.type_k = parameters.type_v = _KV_TYPES[options.kv_type]
        if options.exact or options.kv_type is not KvType.F16:  # the library cannot quantize values without it
            parameters.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED
        parameters.abort_callback = self._abort.callback
        parameters.abort_callback_data = self._abort.data
        self._context = native.llama_init_from_model(self._model, parameters)
        if not self._context:
            raise self._load_error(
                f"cannot make a context of {options.context_tokens} tokens for {options.model_path}: {_LOG.reason()}"
            )
        self._owned.callback(native.llama_free, self._context)

    def _load_error(self, message: str) -> KhepriError:
        if _LOG.tells_of_memory():
            return OutOfMemoryError(message, "choose a smaller model, or lower context_tokens")
        return ModelLoadError(message, "run `khepri doctor`; if the file is damaged, fetch it again")

    def _allocate_batch(self, capacity: int) -> None:
        self._batch = native.llama_batch_init(capacity, 0, 1)
        self._owned.callback(native.llama_batch_free, self._batch)
        self._batch_tokens = np.ctypeslib.as_array(self._batch.token, (capacity,))
        self._batch_positions = np.ctypeslib.as_array(self._batch.pos, (capacity,))
        self._batch_logits = np.ctypeslib.as_array(self._batch.logits, (capacity,))
        np.ctypeslib.as_array(self._batch.n_seq_id, (capacity,))[:] = 1
        self._batch_sequences = self._batch.seq_id
        self._capacity = capacity
        self._batch_sequence = -1

    def decode(self, batch: Batch) -> Logits:
        """Evaluate one batch; see ``Backend.decode``."""
        self._refuse_misfit(batch)
        if self._abort.is_set():
            raise CancelledError("the pass was interrupted")
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
        _LOG.clear()
        self._check(native.llama_decode(self._context, self._batch), batch)
        rows = count - first_row
        pointer = native.llama_get_logits(self._context)
        return np.ctypeslib.as_array(pointer, (rows, self.capabilities.n_vocab))

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
        if status == 0:
            return
        if status == _ABORTED or self._abort.is_set():
            raise CancelledError("the pass was interrupted")
        if status == _NO_KV_SLOT:
            raise self._context_full(batch.position + len(batch.tokens))
        raise DecodeError(f"llama.cpp failed in a pass (status {status}): {_LOG.reason()}", "run `khepri doctor`")

    def interrupt(self) -> None:
        """Abort the running pass at its next graph node; see ``Backend.interrupt``."""
        self._abort.set(True)

    def resume(self) -> None:
        """Allow passes again; see ``Backend.resume``."""
        self._abort.set(False)

    def sequence_length(self, sequence: int) -> int:
        """Return where a sequence ends; see ``Backend.sequence_length``."""
        self._refuse_stranger(sequence)
        return int(native.llama_memory_seq_pos_max(self._memory, sequence)) + 1

    def sequence_remove(self, sequence: int, start: int, end: int = -1) -> bool:
        """Remove a range of a sequence; see ``Backend.sequence_remove``."""
        self._refuse_stranger(sequence)
        return bool(native.llama_memory_seq_rm(self._memory, sequence, start, end))

    def sequence_copy(self, source: int, target: int, start: int, end: int) -> None:
        """Share a range of a sequence; see ``Backend.sequence_copy``."""
        self._refuse_stranger(source)
        self._refuse_stranger(target)
        native.llama_memory_seq_cp(self._memory, source, target, start, end)

    def sequence_state(self, sequence: int) -> bytes:
        """Return the state of a sequence; see ``Backend.sequence_state``."""
        self._refuse_stranger(sequence)
        size = native.llama_state_seq_get_size(self._context, sequence)
        buffer = (ctypes.c_uint8 * size)()
        written = native.llama_state_seq_get_data(self._context, buffer, size, sequence)
        return bytes(memoryview(buffer)[:written])

    def restore_sequence(self, sequence: int, state: bytes) -> bool:
        """Fill an empty sequence; see ``Backend.restore_sequence``."""
        self._refuse_stranger(sequence)
        buffer = (ctypes.c_uint8 * len(state)).from_buffer_copy(state)
        _LOG.clear()
        if native.llama_state_seq_set_data(self._context, buffer, len(state), sequence) == len(state) > 0:
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
