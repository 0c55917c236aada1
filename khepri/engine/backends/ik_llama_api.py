"""The C interface of ik_llama.cpp, bound with ``ctypes`` as its own ``llama.h`` has it.

The wheel ``ik-llama-cpp-python`` brings the library and binds a part of its functions; this binds what a backend needs,
and lends the older ones the names that llama.cpp gave their successors, so that ``NativeApi`` holds. The library is
opened with its symbols kept to itself: llama.cpp exports the same names, and both may be in one process.

References:
    https://github.com/ikawrakow/ik_llama.cpp/blob/main/include/llama.h, as of the wheel's version 0.1.5.
"""

import ctypes
from collections.abc import Mapping
from ctypes import POINTER, c_bool, c_char_p, c_float, c_int, c_int8, c_int32, c_size_t, c_uint8, c_uint32, c_void_p
from importlib import metadata
from pathlib import Path
from typing import Any, ClassVar

DISTRIBUTION = "ik-llama-cpp-python"
"""Name of the package that brings the library."""
GGML_TYPE_F16 = 1
"""The library's number for half precision."""
GGML_TYPE_Q8_0 = 8
"""The library's number for eight bits with a scale for each 32 values."""

_PACKAGE = "ik_llama_cpp"
_LIBRARY = "libllama.so"
_NO_FLAGS = 0


class ModelParameters(ctypes.Structure):
    """How a model is loaded: ``struct llama_model_params``."""

    _fields_: ClassVar = [
        ("devices", c_char_p),
        ("n_gpu_layers", c_int32),
        ("mla", c_int32),
        ("split_mode", c_int),
        ("main_gpu", c_int32),
        ("max_gpu", c_int32),
        ("ncmoe", c_int32),
        ("type_k", c_int),
        ("type_v", c_int),
        ("max_ctx_size", c_uint32),
        ("n_seq_max", c_int32),
        ("n_ubatch", c_int32),
        ("amb", c_int32),
        ("fit_margin", c_int32),
        ("fit", c_bool),
        ("worst_graph_tokens", c_int32),
        ("type_k_first", c_int),
        ("type_k_last", c_int),
        ("type_v_first", c_int),
        ("type_v_last", c_int),
        ("n_k_first", c_int32),
        ("n_k_last", c_int32),
        ("n_v_first", c_int32),
        ("n_v_last", c_int32),
        ("tensor_split", c_void_p),
        ("rpc_servers", c_char_p),
        ("progress_callback", c_void_p),
        ("progress_callback_user_data", c_void_p),
        ("kv_overrides", c_void_p),
        ("tensor_buft_overrides", c_void_p),
        ("vocab_only", c_bool),
        ("use_mmap", c_bool),
        ("use_mlock", c_bool),
        ("check_tensors", c_bool),
        ("repack_tensors", c_bool),
        ("use_thp", c_bool),
        ("validate_quants", c_bool),
        ("merge_qkv", c_bool),
        ("merge_up_gate_exps", c_bool),
        ("mtp", c_bool),
        ("dry_run", c_bool),
        ("flash_attn", c_bool),
    ]


class ContextParameters(ctypes.Structure):
    """How a context is made: ``struct llama_context_params``."""

    _fields_: ClassVar = [
        ("seed", c_uint32),
        ("n_ctx", c_uint32),
        ("n_batch", c_uint32),
        ("n_ubatch", c_uint32),
        ("n_seq_max", c_uint32),
        ("n_threads", c_uint32),
        ("n_threads_batch", c_uint32),
        ("max_extra_alloc", c_int32),
        ("worst_case_tokens", c_int32),
        ("rope_scaling_type", c_int),
        ("pooling_type", c_int),
        ("attention_type", c_int),
        ("rope_freq_base", c_float),
        ("rope_freq_scale", c_float),
        ("yarn_ext_factor", c_float),
        ("yarn_attn_factor", c_float),
        ("yarn_beta_fast", c_float),
        ("yarn_beta_slow", c_float),
        ("yarn_orig_ctx", c_uint32),
        ("defrag_thold", c_float),
        ("cb_eval", c_void_p),
        ("cb_eval_user_data", c_void_p),
        ("type_k", c_int),
        ("type_v", c_int),
        ("type_reduce", c_int),
        ("type_k_first", c_int),
        ("type_k_last", c_int),
        ("type_v_first", c_int),
        ("type_v_last", c_int),
        ("n_k_first", c_int32),
        ("n_k_last", c_int32),
        ("n_v_first", c_int32),
        ("n_v_last", c_int32),
        ("logits_all", c_bool),
        ("embeddings", c_bool),
        ("offload_kqv", c_bool),
        ("flash_attn", c_bool),
        ("mla_attn", c_int),
        ("attn_max_batch", c_int),
        ("fused_moe_up_gate", c_bool),
        ("grouped_expert_routing", c_bool),
        ("fused_up_gate", c_bool),
        ("fused_mmad", c_bool),
        ("rope_cache", c_bool),
        ("graph_reuse", c_bool),
        ("min_experts", c_int),
        ("thresh_experts", c_float),
        ("only_active_experts", c_bool),
        ("k_cache_hadamard", c_bool),
        ("v_cache_hadamard", c_bool),
        ("split_mode_graph_scheduling", c_bool),
        ("scheduler_async", c_bool),
        ("mtp", c_bool),
        ("mtp_op_type", c_int),
        ("abort_callback", c_void_p),
        ("abort_callback_data", c_void_p),
        ("offload_policy", c_void_p),
        ("cuda_params", c_void_p),
    ]


class NativeBatch(ctypes.Structure):
    """Tokens of one pass: ``struct llama_batch``."""

    _fields_: ClassVar = [
        ("n_tokens", c_int32),
        ("token", POINTER(c_int32)),
        ("embd", POINTER(c_float)),
        ("pos", POINTER(c_int32)),
        ("n_seq_id", POINTER(c_int32)),
        ("seq_id", POINTER(POINTER(c_int32))),
        ("logits", POINTER(c_int8)),
        ("all_pos_0", c_int32),
        ("all_pos_1", c_int32),
        ("all_seq_id", c_int32),
    ]


LOG_CALLBACK = ctypes.CFUNCTYPE(None, c_int, c_char_p, c_void_p)
"""What the library calls with a level, a text and a pointer for each line of its log."""

# What each function takes and returns.
_FUNCTIONS: Mapping[str, tuple[tuple[Any, ...], Any]] = {
    "llama_log_set": ((LOG_CALLBACK, c_void_p), None),
    "llama_backend_init": ((), None),
    "llama_print_system_info": ((), c_char_p),
    "llama_model_default_params": ((), ModelParameters),
    "llama_context_default_params": ((), ContextParameters),
    "llama_model_load_from_file": ((c_char_p, ModelParameters), c_void_p),
    "llama_free_model": ((c_void_p,), None),
    "llama_n_ctx_train": ((c_void_p,), c_int32),
    "llama_model_meta_val_str": ((c_void_p, c_char_p, c_char_p, c_size_t), c_int32),
    "llama_model_is_recurrent": ((c_void_p,), c_bool),
    "llama_model_is_hybrid": ((c_void_p,), c_bool),
    "llama_model_get_vocab": ((c_void_p,), c_void_p),
    "llama_model_chat_template": ((c_void_p, c_char_p), c_char_p),
    "llama_vocab_n_tokens": ((c_void_p,), c_int32),
    "llama_vocab_bos": ((c_void_p,), c_int32),
    "llama_vocab_eos": ((c_void_p,), c_int32),
    "llama_vocab_get_add_bos": ((c_void_p,), c_bool),
    "llama_vocab_is_eog": ((c_void_p, c_int32), c_bool),
    "llama_vocab_tokenize": (
        (c_void_p, c_char_p, c_int32, POINTER(c_int32), c_int32, c_bool, c_bool),
        c_int32,
    ),
    "llama_token_to_piece_vocab": ((c_void_p, c_int32, c_char_p, c_int32, c_int32, c_bool), c_int32),
    "llama_init_from_model": ((c_void_p, ContextParameters), c_void_p),
    "llama_free": ((c_void_p,), None),
    "llama_n_ctx": ((c_void_p,), c_uint32),
    "llama_batch_init": ((c_int32, c_int32, c_int32), NativeBatch),
    "llama_batch_free": ((NativeBatch,), None),
    "llama_decode": ((c_void_p, NativeBatch), c_int32),
    "llama_get_logits": ((c_void_p,), POINTER(c_float)),
    "llama_kv_cache_seq_rm": ((c_void_p, c_int32, c_int32, c_int32), c_bool),
    "llama_kv_cache_seq_cp": ((c_void_p, c_int32, c_int32, c_int32, c_int32), None),
    "llama_kv_cache_seq_pos_max": ((c_void_p, c_int32), c_int32),
    "llama_kv_cache_seq_pos_min": ((c_void_p, c_int32), c_int32),
    "llama_get_kv_cache_used_cells": ((c_void_p,), c_int32),
    "llama_state_seq_get_size": ((c_void_p, c_int32, c_uint32), c_size_t),
    "llama_state_seq_get_data": ((c_void_p, POINTER(c_uint8), c_size_t, c_int32, c_uint32), c_size_t),
    "llama_state_seq_set_data": ((c_void_p, POINTER(c_uint8), c_size_t, c_int32, c_uint32), c_size_t),
}

# llama.cpp's present names for functions that only the name tells apart.
_PRESENT_NAMES: Mapping[str, str] = {
    "llama_free_model": "llama_model_free",
    "llama_n_ctx_train": "llama_model_n_ctx_train",
    "llama_vocab_tokenize": "llama_tokenize",
    "llama_token_to_piece_vocab": "llama_token_to_piece",
    "llama_kv_cache_seq_rm": "llama_memory_seq_rm",
    "llama_kv_cache_seq_cp": "llama_memory_seq_cp",
}
# Those that also take something else; the methods below call them.
_WRAPPED = frozenset({"llama_state_seq_get_size", "llama_state_seq_get_data", "llama_state_seq_set_data"})


def find_library() -> Path | None:
    """Return the installed library, or None; nothing is loaded."""
    try:
        files = metadata.distribution(DISTRIBUTION).files or ()
    except metadata.PackageNotFoundError:
        return None
    found = (Path(str(file.locate())) for file in files if (file.parts[0], file.name) == (_PACKAGE, _LIBRARY))
    return next((path for path in found if path.exists()), None)


class IkLlamaApi:
    """The functions of one opened library; see ``NativeApi`` for what they are called.

    Raises:
        OSError: The file is no library of this machine's, or lacks a function.
    """

    def __init__(self, library: Path) -> None:
        self._library: Any = ctypes.CDLL(str(library), mode=ctypes.RTLD_LOCAL)
        for symbol, (arguments, result) in _FUNCTIONS.items():
            try:
                function = getattr(self._library, symbol)
            except AttributeError as error:
                raise OSError(f"{library} has no {symbol}") from error
            function.argtypes, function.restype = arguments, result
            if symbol not in _WRAPPED:
                setattr(self, _PRESENT_NAMES.get(symbol, symbol), function)

    def llama_get_memory(self, context: int) -> int:
        """Return what the functions on sequences take: here the context itself."""
        return context

    def llama_memory_seq_pos_max(self, context: int, sequence: int) -> int:
        """Return the last position of a sequence; -1 if it is empty, for which the library itself says 0."""
        last = int(self._library.llama_kv_cache_seq_pos_max(context, sequence))
        return last if last > 0 else int(self._library.llama_kv_cache_seq_pos_min(context, sequence))

    def llama_state_seq_get_size(self, context: int, sequence: int) -> int:
        """Return how many bytes the state of a sequence takes."""
        return int(self._library.llama_state_seq_get_size(context, sequence, _NO_FLAGS))

    def llama_state_seq_get_data(self, context: int, buffer: Any, size: int, sequence: int) -> int:  # noqa: ANN401
        """Write the state of a sequence; return how many bytes it took."""
        return int(self._library.llama_state_seq_get_data(context, buffer, size, sequence, _NO_FLAGS))

    def llama_state_seq_set_data(self, context: int, buffer: Any, size: int, sequence: int) -> int:  # noqa: ANN401
        """Read the state of a sequence; return how many bytes were used, 0 if it was refused."""
        return int(self._library.llama_state_seq_set_data(context, buffer, size, sequence, _NO_FLAGS))
