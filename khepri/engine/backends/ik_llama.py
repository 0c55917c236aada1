"""The ik_llama.cpp backend: a fork of llama.cpp with faster kernels for processors.

Its passes of a few tokens cost far less than llama.cpp's, which is what speculation lives on; their logits depend on
how wide they are, so that exact decoding is not for this backend. How one works with a loaded model is in
``native.py``. Where the older cache of the fork falls short of llama.cpp's, that is made up for here.
"""

import ctypes
import os
import zlib
from functools import cache
from importlib import metadata
from struct import Struct
from typing import Any

import numpy as np

from khepri.engine.backend import BackendName, Batch, Capabilities, KvType, LoadOptions, Logits
from khepri.engine.backends.ik_llama_api import (
    DISTRIBUTION,
    GGML_TYPE_F16,
    GGML_TYPE_Q8_0,
    LOG_CALLBACK,
    IkLlamaApi,
    find_library,
)
from khepri.engine.backends.native import NativeBackend, NativeLog, NativeVocabulary, Pointer, named_features
from khepri.engine.huge_pages import HugePages
from khepri.errors import ContextFullError, ModelLoadError

_KV_TYPES = {KvType.F16: GGML_TYPE_F16, KvType.Q8_0: GGML_TYPE_Q8_0}
_STATE_HEADER = Struct("<4sIQ")
_QUANTIZED_BLOCK = 32
_STATE_MARK = b"IKS1"

_LOG = NativeLog()
_LOG_CALLBACK = LOG_CALLBACK(_LOG.append)


@cache
def _api() -> Any:  # noqa: ANN401 - its functions are bound when it is opened, as ``NativeApi`` has them and more
    """Open the library, once for the process.

    Raises:
        ModelLoadError: It is not installed, or cannot be opened here.
    """
    library = find_library()
    if library is None:
        raise ModelLoadError(f"{DISTRIBUTION} is not installed", 'install it with: pip install "khepri[fast]"')
    try:
        api: Any = IkLlamaApi(library)
    except OSError as error:
        raise ModelLoadError(f"{DISTRIBUTION} cannot be used on this machine: {error}", _TAKE_OTHER) from error
    api.llama_log_set(_LOG_CALLBACK, None)
    api.llama_backend_init()
    return api


class IkLlamaBackend(NativeBackend):
    """A model and its context in ik_llama.cpp. Owns both; ``close`` frees them.

    Raises:
        ModelLoadError: The library is missing, refuses the file or the context parameters, or exactness is asked for.
        OutOfMemoryError: The model or its context does not fit into memory.
    """

    def __init__(self, options: LoadOptions) -> None:
        if options.exact:
            raise ModelLoadError("ik_llama's logits depend on the width of a pass", _TAKE_OTHER)
        self._native = _api()
        super().__init__(self._native, _LOG, options.sequences)
        _LOG.clear()
        try:
            self._load(options)
        except BaseException:
            self.close()
            raise

    def _load(self, options: LoadOptions) -> None:
        model = self._load_model(options)
        self.vocabulary = NativeVocabulary(self._native, model)
        self._owned.callback(self.vocabulary.close)
        kv_type = self._kv_type(model, options)
        context = self._make_context(model, options, kv_type)
        cells = self._native.llama_n_ctx(context)
        capabilities = Capabilities(
            backend=BackendName.IK_LLAMA,
            library=f"{DISTRIBUTION} {metadata.version(DISTRIBUTION)}",
            features=named_features(self._native.llama_print_system_info()),
            n_vocab=self.vocabulary.size,
            context_tokens=min(cells, options.context_tokens) if options.cells else cells,
            cells=cells,
            # It looks for its last used cell at every 256th one, and overlooks what lies behind a free one there.
            may_leave_gaps=False,
            kv_type=kv_type,
            sequences=options.sequences,
            trained_context_tokens=self._native.llama_model_n_ctx_train(model),
            can_remove_tail=not (
                self._native.llama_model_is_recurrent(model) or self._native.llama_model_is_hybrid(model)
            ),
        )
        self._take_over(context, options.batch_tokens, capabilities)

    def _load_model(self, options: LoadOptions) -> Pointer:
        parameters = self._native.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.repack_tensors = options.extra_buffers
        parameters.use_mmap = not options.extra_buffers  # repacking writes, and a mapped file is not to be written
        huge_pages = HugePages()
        parameters.progress_callback = ctypes.cast(huge_pages.callback, ctypes.c_void_p)
        model = self._native.llama_model_load_from_file(os.fsencode(options.model_path), parameters)
        if not model:
            raise _LOG.load_error(f"cannot load the model {options.model_path}: {_LOG.reason()}")
        self._owned.callback(self._native.llama_model_free, model)
        return model

    def _kv_type(self, model: Pointer, options: LoadOptions) -> KvType:
        """Return the precision of the keys and values; the quantized one is the faster one.

        Raises:
            ModelLoadError: They cannot be quantized, because their blocks do not divide a head. The library would end
                the process over that.
        """
        if options.kv_type is KvType.F16:
            return KvType.F16
        architecture = self._metadata(model, "general.architecture")
        whole = self._metadata(model, f"{architecture}.embedding_length")
        heads = self._metadata(model, f"{architecture}.attention.head_count")
        usual = str(int(whole) // max(1, int(heads))) if whole.isdigit() and heads.isdigit() else "unknown"
        named = (self._metadata(model, f"{architecture}.attention.{kind}_length") for kind in ("key", "value"))
        sizes = [size or usual for size in named]
        odd = [size for size in sizes if not size.isdigit() or int(size) % _QUANTIZED_BLOCK]
        if not odd:
            return KvType.Q8_0
        if options.kv_type is KvType.Q8_0:
            raise ModelLoadError(
                f"keys and values of {options.model_path} cannot be kept as {options.kv_type}: "
                f"a head of {odd[0]} numbers is not made of blocks of {_QUANTIZED_BLOCK}",
                "set kv_type = auto",
            )
        return KvType.F16

    def _metadata(self, model: Pointer, key: str) -> str:
        """Return a value of the model file as text, empty if it has none of that name."""
        buffer = ctypes.create_string_buffer(64)
        found = self._native.llama_model_meta_val_str(model, key.encode(), buffer, len(buffer))
        return buffer.value.decode("utf-8", "replace") if found > 0 else ""

    def _make_context(self, model: Pointer, options: LoadOptions, kv_type: KvType) -> Pointer:
        parameters = self._native.llama_context_default_params()
        parameters.n_ctx = max(options.context_tokens, options.cells)
        # The library wants room for a row of every sequence.
        parameters.n_batch = parameters.n_ubatch = max(options.batch_tokens, options.sequences)
        parameters.n_seq_max = options.sequences
        parameters.n_threads = options.threads
        parameters.n_threads_batch = options.threads
        parameters.flash_attn = True
        parameters.type_k = parameters.type_v = _KV_TYPES[kv_type]
        parameters.abort_callback = ctypes.cast(self._abort.callback, ctypes.c_void_p)
        parameters.abort_callback_data = self._abort.data
        context = self._native.llama_init_from_model(model, parameters)
        if not context:
            raise _LOG.load_error(
                f"cannot make a context of {options.context_tokens} tokens for {options.model_path}: {_LOG.reason()}"
            )
        self._owned.callback(self._native.llama_free, context)
        return context

    def _evaluate(self, batch: Batch) -> Logits:
        """Evaluate a batch, in parts where no gap between the used cells is large enough for the whole.

        The library wants the cells of a pass in a row, which they need not be where other sequences were removed. It
        can move cells together, but an interrupt in the middle of that would leave the cache wrong without a sign.
        """
        try:
            return super()._evaluate(batch)
        except ContextFullError:
            count = len(batch.tokens)
            used = self._native.llama_get_kv_cache_used_cells(self._context)
            if count == 1 or used + count > self.capabilities.context_tokens:
                raise
        rows, first_row = [], batch.logits_from % count
        for start, end in ((0, count // 2), (count // 2, count)):
            wanted = max(first_row, start)
            part = Batch(
                batch.tokens[start:end],
                batch.position + start,
                batch.sequence,
                logits_from=min(wanted, end - 1) - start,
            )
            logits = self._evaluate(part)
            if wanted < end:
                rows.append(logits.copy())
        return np.concatenate(rows)

    def sequence_bytes(self, sequence: int) -> int:
        """Return the size of a sequence's state; see ``Backend.sequence_bytes``."""
        return _STATE_HEADER.size + super().sequence_bytes(sequence)

    def sequence_state(self, sequence: int, memory: memoryview | None = None) -> memoryview:
        """Return the state of a sequence, with a checksum; see ``Backend.sequence_state``."""
        state = self._state_after(_STATE_HEADER.size, sequence, memory)
        body = state[_STATE_HEADER.size :]
        _STATE_HEADER.pack_into(state, 0, _STATE_MARK, zlib.crc32(body), len(body))
        return state

    def restore_sequence(self, sequence: int, state: bytes | memoryview) -> bool:
        """Fill an empty sequence; see ``Backend.restore_sequence``.

        The library trusts what it reads so far that damage ends the process, so only what was saved here comes to it.
        """
        self._refuse_stranger(sequence)
        if len(state) < _STATE_HEADER.size:
            return False
        mark, checksum, size = _STATE_HEADER.unpack_from(state)
        body = memoryview(state)[_STATE_HEADER.size :]
        if (mark, size, checksum) != (_STATE_MARK, len(body), zlib.crc32(body)):
            return False
        return super().restore_sequence(sequence, body)


_TAKE_OTHER = "use the other backend: backend = llama_cpp"


def is_installed() -> bool:
    """Tell if the library is there, without loading it."""
    return find_library() is not None
