"""The llama.cpp backend, on llama-cpp-python's low-level API.

The high-level ``Llama`` class is not used: it computes logits for every token, ignores a failed removal and owns its
own idea of a cache. This is the one module of Khepri that imports ``llama_cpp``. It knows how llama.cpp loads a model;
how one works with it afterwards, ``native.py`` does.
"""

import ctypes
import os

import llama_cpp as native

from khepri.engine.backend import BackendName, Capabilities, KvType, LoadOptions
from khepri.engine.backends.native import NativeBackend, NativeLog, NativeVocabulary, Pointer, named_features
from khepri.engine.huge_pages import HugePages
from khepri.errors import ModelLoadError

_KV_TYPES = {KvType.F16: native.GGML_TYPE_F16, KvType.Q8_0: native.GGML_TYPE_Q8_0}

# llama-cpp-python installs a callback of its own that prints to stderr.
_LOG = NativeLog()
_LOG_CALLBACK = native.llama_log_callback(_LOG.append)
native.llama_log_set(_LOG_CALLBACK, ctypes.c_void_p(0))


class LlamaCppBackend(NativeBackend):
    """A model and its context in llama.cpp. Owns both; ``close`` frees them.

    Raises:
        ModelLoadError: The library refuses the file or the context parameters.
        OutOfMemoryError: The model or its context does not fit into memory.
    """

    def __init__(self, options: LoadOptions) -> None:
        super().__init__(native, _LOG, options.sequences)
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
        model = self._load_model(options)
        self.vocabulary = NativeVocabulary(native, model)
        self._owned.callback(self.vocabulary.close)
        self._window_tokens = int(native.llama_model_n_swa(model))
        # Quantized keys and values are no faster here, and make the prefill slower.
        kv_type = KvType.F16 if options.kv_type is KvType.AUTO else options.kv_type
        context = self._make_context(model, options, kv_type)
        cells = native.llama_n_ctx(context)
        capabilities = Capabilities(
            backend=BackendName.LLAMA_CPP,
            library=f"llama-cpp-python {native.__version__}",
            features=library_features(),
            n_vocab=self.vocabulary.size,
            context_tokens=min(cells, options.context_tokens) if options.cells else cells,
            cells=cells,
            sequences=options.sequences,
            kv_type=kv_type,
            trained_context_tokens=native.llama_model_n_ctx_train(model),
            can_remove_tail=not (native.llama_model_is_recurrent(model) or native.llama_model_is_hybrid(model)),
        )
        self._take_over(context, options.batch_tokens, capabilities)

    def _load_model(self, options: LoadOptions) -> Pointer:
        parameters = native.llama_model_default_params()
        parameters.n_gpu_layers = 0
        parameters.use_extra_bufts = options.extra_buffers
        huge_pages = HugePages()
        parameters.progress_callback = ctypes.cast(huge_pages.callback, native.llama_progress_callback)
        model = native.llama_model_load_from_file(os.fsencode(options.model_path), parameters)
        if not model:
            raise _LOG.load_error(f"cannot load the model {options.model_path}: {_LOG.reason()}")
        self._owned.callback(native.llama_model_free, model)
        return model

    def _make_context(self, model: Pointer, options: LoadOptions, kv_type: KvType) -> Pointer:
        parameters = native.llama_context_default_params()
        parameters.n_ctx = max(options.context_tokens, options.cells)
        # The library wants room for a row of every sequence.
        parameters.n_batch = parameters.n_ubatch = max(options.batch_tokens, options.sequences)
        parameters.n_seq_max = options.sequences
        parameters.n_threads = options.threads
        parameters.n_threads_batch = options.threads
        parameters.kv_unified = True
        parameters.swa_full = True  # A cache that keeps only the sliding window cannot take back a removed tail.
        parameters.no_perf = True
        parameters.type_k = parameters.type_v = _KV_TYPES[kv_type]
        if options.exact or kv_type is not KvType.F16:  # the library cannot quantize values without it
            parameters.flash_attn_type = native.LLAMA_FLASH_ATTN_TYPE_ENABLED
        parameters.abort_callback = ctypes.cast(self._abort.callback, native.ggml_abort_callback)
        parameters.abort_callback_data = self._abort.data
        context = native.llama_init_from_model(model, parameters)
        if not context:
            problem = f"cannot make a context of {options.context_tokens} tokens for {options.model_path}"
            if kv_type is not KvType.F16 and "head" in _LOG.reason():
                raise ModelLoadError(f"{problem}: {_LOG.reason()}", "set kv_type = auto")
            raise _LOG.load_error(f"{problem}: {_LOG.reason()}")
        self._owned.callback(native.llama_free, context)
        return context

    def _can_go_on_from(self, sequence: int, position: int) -> bool:
        """See ``NativeBackend``.

        A sliding window lets the library reuse cells of tokens that the end of the sequence no longer sees; from an
        earlier end they would be seen. What is there of a sequence is always without gaps.
        """
        if not super()._can_go_on_from(sequence, position):
            return False
        if not self._window_tokens or position >= self.sequence_length(sequence):
            return True
        return bool(native.llama_memory_seq_pos_min(self._memory, sequence) <= max(0, position - self._window_tokens))


def library_features() -> tuple[str, ...]:
    """Return the library's CPU features and build options, such as ``AVX2`` or ``REPACK``."""
    return named_features(native.llama_print_system_info())


def library_version() -> str:
    """Return the version of llama-cpp-python."""
    return str(native.__version__)
