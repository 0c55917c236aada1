"""Tiny GGUF files, made by the reference implementation."""

from pathlib import Path

import gguf
import numpy as np


def write_gguf(
    path: Path,
    *,
    architecture: str = "llama",
    name: str = "Tiny",
    file_type: int | None = 1,
    kind: str | None = None,
    tokens: int = 8,
    values: int = 4096,
    tokenizer: bool = True,
    seed: int = 0,
) -> Path:
    """Write a file of a few kilobytes that looks like a language model, and return ``path``."""
    path.parent.mkdir(parents=True, exist_ok=True)
    writer = gguf.GGUFWriter(path, architecture)
    writer.add_name(name)
    if kind is not None:
        writer.add_type(kind)
    if file_type is not None:
        writer.add_file_type(file_type)
    writer.add_context_length(128)
    if tokenizer:
        writer.add_tokenizer_model("gpt2")
        writer.add_token_list([f"token{index}" for index in range(tokens)])
        writer.add_token_merges([f"to ken{index}" for index in range(tokens)])
        writer.add_token_scores([0.0] * tokens)
    data = np.random.default_rng(seed).standard_normal(values).astype(np.float16)
    writer.add_tensor("weights", data.reshape(-1, 32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
