"""Makes a tiny random llama model as a GGUF file: real to the library, made in a second, the same every time.

Its vocabulary is byte-level BPE with a few merges, so that every text can be said and a character can be split over
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


def byte_alphabet() -> dict[int, str]:
    """Return GPT-2's printable stand-in for each byte, which byte-level vocabularies are written in."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {byte: chr(256 + index) for index, byte in enumerate(others)}


def write_tiny_model(path: Path, *, seed: int = 7) -> Path:
    """Write the model to ``path`` and return the path."""
    tokens, types, merges = _vocabulary()
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name("khepri tiny")
    writer.add_context_length(CONTEXT_TOKENS)
    writer.add_embedding_length(_WIDTH)
    writer.add_block_count(_LAYERS)
    writer.add_feed_forward_length(_HIDDEN)
    writer.add_head_count(_HEADS)
    writer.add_head_count_kv(_HEADS)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_rope_dimension_count(_WIDTH // _HEADS)
    writer.add_file_type(gguf.LlamaFileType.ALL_F32)
    writer.add_vocab_size(len(tokens))
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    writer.add_token_merges(merges)
    writer.add_eos_token_id(tokens.index("<|im_end|>"))
    writer.add_bos_token_id(tokens.index("<|endoftext|>"))
    writer.add_add_bos_token(False)
    writer.add_chat_template(CHAT_TEMPLATE)
    for name, values in _weights(len(tokens), np.random.default_rng(seed)).items():
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


def _weights(n_vocab: int, random: np.random.Generator) -> dict[str, NDArray[np.float32]]:
    def matrix(rows: int, columns: int) -> NDArray[np.float32]:
        return random.standard_normal((rows, columns), dtype=np.float32) / np.float32(columns**0.5)

    norm = np.ones(_WIDTH, dtype=np.float32)
    weights = {"token_embd.weight": matrix(n_vocab, _WIDTH) * 8, "output_norm.weight": norm}
    weights["output.weight"] = matrix(n_vocab, _WIDTH) * 3
    for layer in range(_LAYERS):
        block = f"blk.{layer}"
        weights[f"{block}.attn_norm.weight"] = norm
        weights[f"{block}.ffn_norm.weight"] = norm
        for name in ("attn_q", "attn_k", "attn_v", "attn_output"):
            weights[f"{block}.{name}.weight"] = matrix(_WIDTH, _WIDTH) * 2
        weights[f"{block}.ffn_gate.weight"] = matrix(_HIDDEN, _WIDTH)
        weights[f"{block}.ffn_up.weight"] = matrix(_HIDDEN, _WIDTH)
        weights[f"{block}.ffn_down.weight"] = matrix(_WIDTH, _HIDDEN)
    return weights
