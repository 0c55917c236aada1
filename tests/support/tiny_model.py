"""Makes tiny random models as GGUF files: real to the library, made in milliseconds, the same every time.

Their vocabulary is byte-level BPE with a few merges, so that every text can be said and a character can be split over
tokens; it knows ChatML and one user-defined token, ``<tool_call>``, as the models of the catalogue do.
"""

from pathlib import Path

import gguf
import numpy as np
from numpy.typing import NDArray

CONTEXT_TOKENS = 2048
CONTROL_TOKENS = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
USER_TOKENS = ("<tool_call>",)
CHAT_TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
_MERGED_WORDS = ("the", "ing", "def", "return", "name", "\n\n", " a")
_LAYERS, _WIDTH, _HEADS, _HIDDEN = 2, 64, 4, 128
WINDOW_TOKENS = 16
_CONVOLUTION, _STATE, _RANK = 4, 16, 4

Weights = NDArray[np.float32]


def byte_alphabet() -> dict[int, str]:
    """Return GPT-2's printable stand-in for each byte, which byte-level vocabularies are written in."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def write_tiny_model(path: Path, *, seed: int = 7, heads: int = _HEADS, of_another: float = 0.0) -> Path:
    """Write a llama model to ``path`` and return the path.

    Args:
        path: The file.
        seed: Chooses the weights.
        heads: Attention heads.
        of_another: The share of the weights of the next seed in its own: the more, the less the two models agree.
    """
    writer = gguf.GGUFWriter(path, "llama")
    _describe_attention(writer, heads)
    n_vocab = _describe_vocabulary(writer)
    weights = _attention_weights(n_vocab, np.random.default_rng(seed))
    other = _attention_weights(n_vocab, np.random.default_rng(seed + 1))
    mixed = {
        name: ((1 - of_another) * own + of_another * other[name]).astype(own.dtype) for name, own in weights.items()
    }
    return _finish(writer, path, mixed)


def write_tiny_sentencepiece_model(path: Path, *, seed: int = 7) -> Path:
    """Write a llama model with a vocabulary of the other kind to ``path`` and return the path."""
    specials = [b"<unk>", b"<s>", b"</s>"]
    as_bytes = [f"<0x{byte:02X}>".encode() for byte in range(256)]
    words = ["▁".encode(), "▁the".encode(), "é".encode(), b"th", b"the", *(bytes([byte]) for byte in range(33, 127))]
    kinds = gguf.TokenType
    types = [kinds.UNKNOWN, kinds.CONTROL, kinds.CONTROL, *[kinds.BYTE] * 256, *[kinds.NORMAL] * len(words)]
    tokens = [*specials, *as_bytes, *words]
    writer = gguf.GGUFWriter(path, "llama")
    _describe_attention(writer)
    _describe_model(writer, len(tokens))
    writer.add_tokenizer_model("llama")
    writer.add_token_list(tokens)
    writer.add_token_scores([-float(rank) for rank in range(len(tokens))])
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    return _finish(writer, path, _attention_weights(len(tokens), np.random.default_rng(seed)))


def write_tiny_recurrent_model(path: Path, *, seed: int = 7) -> Path:
    """Write a Mamba model to ``path`` and return the path; no tail of its sequences can be removed."""
    writer = gguf.GGUFWriter(path, "mamba")
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    writer.add_ssm_conv_kernel(_CONVOLUTION)
    writer.add_ssm_inner_size(_HIDDEN)
    writer.add_ssm_state_size(_STATE)
    writer.add_ssm_time_step_rank(_RANK)
    n_vocab = _describe_vocabulary(writer)
    return _finish(writer, path, _recurrent_weights(n_vocab, np.random.default_rng(seed)))


def write_tiny_window_model(path: Path, *, seed: int = 7) -> Path:
    """Write a Gemma 2 model to ``path`` and return the path; its first layer sees ``WINDOW_TOKENS`` tokens only."""
    writer = gguf.GGUFWriter(path, "gemma2")
    _describe_attention(writer)
    writer.add_key_length(_WIDTH // _HEADS)
    writer.add_value_length(_WIDTH // _HEADS)
    writer.add_sliding_window(WINDOW_TOKENS)
    n_vocab = _describe_vocabulary(writer)
    weights = _attention_weights(n_vocab, np.random.default_rng(seed))
    for layer in range(_LAYERS):
        for name in ("post_attention_norm", "post_ffw_norm"):
            weights[f"blk.{layer}.{name}.weight"] = np.ones(_WIDTH, dtype=np.float32)
    del weights["output.weight"]  # this kind reads its tokens backwards instead
    weights["token_embd.weight"] /= 8
    return _finish(writer, path, weights)


def write_tiny_hybrid_model(path: Path, *, seed: int = 7) -> Path:
    """Write an LFM2 model to ``path`` and return the path: its first layer is recurrent, its second attends."""
    writer = gguf.GGUFWriter(path, "lfm2")
    _describe_attention(writer, heads_with_keys=[0, *[_HEADS] * (_LAYERS - 1)])
    writer.add_shortconv_l_cache(_CONVOLUTION)
    n_vocab = _describe_vocabulary(writer)
    random = np.random.default_rng(seed)
    weights = _attention_weights(n_vocab, random)
    weights["token_embd_norm.weight"] = weights.pop("output_norm.weight")
    for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
        del weights[f"blk.0.{name}.weight"]
    weights["blk.0.shortconv.conv.weight"] = _matrix(random, _WIDTH, _CONVOLUTION)
    weights["blk.0.shortconv.in_proj.weight"] = _matrix(random, 3 * _WIDTH, _WIDTH, 2)
    weights["blk.0.shortconv.out_proj.weight"] = _matrix(random, _WIDTH, _WIDTH, 2)
    for name in ("attn_q_norm", "attn_k_norm"):
        weights[f"blk.1.{name}.weight"] = np.ones(_WIDTH // _HEADS, dtype=np.float32)
    return _finish(writer, path, weights)


def _describe_attention(
    writer: gguf.GGUFWriter, heads: int = _HEADS, heads_with_keys: int | list[int] | None = None
) -> None:
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(heads)
    writer.add_head_count_kv(heads if heads_with_keys is None else heads_with_keys)
    writer.add_rope_dimension_count(_WIDTH // heads)


def _describe_model(writer: gguf.GGUFWriter, n_vocab: int) -> None:
    writer.add_name("khepri tiny")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(n_vocab)


def _describe_vocabulary(writer: gguf.GGUFWriter) -> int:
    """Write the byte-level vocabulary and return its size."""
    tokens, types, merges = _vocabulary()
    _describe_model(writer, len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    return len(tokens)


def _finish(writer: gguf.GGUFWriter, path: Path, weights: dict[str, Weights]) -> Path:
    for name, values in weights.items():
        writer.add_tensor(name, values)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path


def _vocabulary() -> tuple[list[str], list[gguf.TokenType], list[str]]:
    alphabet = byte_alphabet()
    tokens = [alphabet[byte] for byte in range(256)]
    merges = []
    for word in _MERGED_WORDS:
        whole = alphabet[word.encode()[0]]
        for byte in word.encode()[1:]:
            merge = f"{whole} {alphabet[byte]}"
            whole += alphabet[byte]
            if whole not in tokens:
                merges.append(merge)
                tokens.append(whole)
    types = [gguf.TokenType.NORMAL] * len(tokens)
    types += [gguf.TokenType.CONTROL] * len(CONTROL_TOKENS) + [gguf.TokenType.USER_DEFINED] * len(USER_TOKENS)
    return [*tokens, *CONTROL_TOKENS, *USER_TOKENS], types, merges


def _matrix(random: np.random.Generator, rows: int, columns: int, scale: float = 1.0) -> Weights:
    return random.standard_normal((rows, columns), dtype=np.float32) * np.float32(scale / columns**0.5)


def _outer_weights(n_vocab: int, random: np.random.Generator) -> dict[str, Weights]:
    return {
        "token_embd.weight": _matrix(random, n_vocab, _WIDTH, 8),
        "output.weight": _matrix(random, n_vocab, _WIDTH, 3),
        "output_norm.weight": np.ones(_WIDTH, dtype=np.float32),
    }


def _attention_weights(n_vocab: int, random: np.random.Generator) -> dict[str, Weights]:
    weights = _outer_weights(n_vocab, random)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        weights[f"{block}.attn_norm.weight"] = np.ones(_WIDTH, dtype=np.float32)
        weights[f"{block}.ffn_norm.weight"] = np.ones(_WIDTH, dtype=np.float32)
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights[f"{block}.{name}.weight"] = _matrix(random, _WIDTH, _WIDTH, 2)
        weights[f"{block}.ffn_gate.weight"] = _matrix(random, _HIDDEN, _WIDTH)
        weights[f"{block}.ffn_up.weight"] = _matrix(random, _HIDDEN, _WIDTH)
        weights[f"{block}.ffn_down.weight"] = _matrix(random, _WIDTH, _HIDDEN)
    return weights


def _recurrent_weights(n_vocab: int, random: np.random.Generator) -> dict[str, Weights]:
    weights = _outer_weights(n_vocab, random)
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        weights[f"{block}.attn_norm.weight"] = np.ones(_WIDTH, dtype=np.float32)
        weights[f"{block}.ssm_in.weight"] = _matrix(random, 2 * _HIDDEN, _WIDTH, 2)
        weights[f"{block}.ssm_conv1d.weight"] = _matrix(random, _HIDDEN, _CONVOLUTION)
        weights[f"{block}.ssm_conv1d.bias"] = np.zeros(_HIDDEN, dtype=np.float32)
        weights[f"{block}.ssm_x.weight"] = _matrix(random, _RANK + 2 * _STATE, _HIDDEN)
        weights[f"{block}.ssm_dt.weight"] = _matrix(random, _HIDDEN, _RANK)
        weights[f"{block}.ssm_dt.bias"] = np.zeros(_HIDDEN, dtype=np.float32)
        weights[f"{block}.ssm_a"] = -np.tile(np.arange(1, _STATE + 1, dtype=np.float32), (_HIDDEN, 1))
        weights[f"{block}.ssm_d"] = np.ones(_HIDDEN, dtype=np.float32)
        weights[f"{block}.ssm_out.weight"] = _matrix(random, _WIDTH, _HIDDEN)
    return weights
