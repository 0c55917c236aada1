"""How the stores of models are laid out on disk: Khepri's own folder and those of other programs.

Nothing is written, and a store that is missing, unreadable or strangely laid out holds nothing. What is in the files
is not known here; ``khepri.models.stores`` reads their headers.

References:
    Ollama: https://github.com/ollama/ollama/blob/main/docs/faq.md
    Hugging Face hub: https://huggingface.co/docs/huggingface_hub/guides/manage-cache
"""

import json
import os
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

_MOST_ENTRIES = 20_000
_MOST_MANIFEST_BYTES = 1 << 20
PART_NAME = re.compile(r"^(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})$")
"""Stem of one file of a model that is split into several."""

_OLLAMA_HOME = "registry.ollama.ai"
_OLLAMA_MODEL = "application/vnd.ollama.image.model"


class Store(StrEnum):
    """Where a model can lie, in the order of preference."""

    KHEPRI = "khepri"
    HUGGING_FACE = "huggingface"
    LLAMA_CPP = "llama.cpp"
    LM_STUDIO = "lmstudio"
    OLLAMA = "ollama"
    FILE = "file"
    """No store: the user gave a path."""


@dataclass(frozen=True)
class StoredFile:
    """A file that claims to be a model."""

    name: str
    """The short name: the file's stem, or Ollama's own name."""
    long_name: str
    """A name that no other file of the same store has."""
    path: Path
    """The file; the first one of a model in several parts."""
    size_bytes: int
    """Size, all parts together."""
    store: Store
    """Where it was found."""


def stored_files(models_dir: Path, environ: Mapping[str, str], home: Path) -> Iterator[StoredFile]:
    """Yield the model files of every store, each real file once, own folder first.

    Args:
        models_dir: Khepri's own folder of models.
        environ: Environment variables, which move stores.
        home: The user's home folder.
    """
    seen: set[Path] = set()
    for store, root in _roots(models_dir, environ, home):
        found = _ollama_files(root) if store is Store.OLLAMA else _gguf_files(store, root)
        for file in found:
            real = file.path.resolve()
            if real not in seen:
                seen.add(real)
                yield file


def _roots(models_dir: Path, environ: Mapping[str, str], home: Path) -> Iterator[tuple[Store, Path]]:
    def given(variable: str) -> Path | None:
        value = environ.get(variable, "")
        return Path(value).expanduser() if value else None

    caches = given("XDG_CACHE_HOME") or home / ".cache"
    yield Store.KHEPRI, models_dir
    yield (
        Store.HUGGING_FACE,
        given("HF_HUB_CACHE")
        or given("HUGGINGFACE_HUB_CACHE")
        or (given("HF_HOME") or caches / "huggingface").joinpath("hub"),
    )
    mac_caches = home / "Library" / "Caches"
    yield Store.LLAMA_CPP, given("LLAMA_CACHE") or (mac_caches if sys.platform == "darwin" else caches) / "llama.cpp"
    yield Store.LM_STUDIO, home / ".lmstudio" / "models"
    yield Store.LM_STUDIO, home / ".cache" / "lm-studio" / "models"
    yield Store.OLLAMA, given("OLLAMA_MODELS") or home / ".ollama" / "models"
    yield Store.OLLAMA, Path("/usr/share/ollama/.ollama/models")


_DEPTHS = {Store.KHEPRI: 1, Store.LLAMA_CPP: 1, Store.LM_STUDIO: 4, Store.HUGGING_FACE: 6}


def _gguf_files(store: Store, root: Path) -> Iterator[StoredFile]:
    """Yield the GGUF files below ``root``; a model in parts once, and only if all parts are there."""
    sizes = {path: size for path in _walk(root, _DEPTHS[store]) if (size := _file_bytes(path)) is not None}
    for path in sorted(sizes):
        stem = path.name[: -len(".gguf")]
        size_bytes = sizes[path]
        if part := PART_NAME.match(stem):
            if int(part["number"]) != 1:
                continue
            parts = [
                path.with_name(f"{part['stem']}-{number:05}-of-{part['count']}{path.suffix}")
                for number in range(1, int(part["count"]) + 1)
            ]
            if not all(piece in sizes for piece in parts):
                continue
            stem, size_bytes = part["stem"], sum(sizes[piece] for piece in parts)
        long_name = "/".join((store, *path.relative_to(root).parts[:-1], stem))
        yield StoredFile(stem, long_name, path, size_bytes, store)


def _walk(root: Path, depth: int) -> Iterator[Path]:
    """Yield ``*.gguf`` at most ``depth`` folders deep, following links, in a store of a sane size."""
    pending = [(root, depth)]
    left = _MOST_ENTRIES
    while pending and left > 0:
        folder, levels = pending.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if entry.name.startswith("."):
                        continue
                    if entry.name.lower().endswith(".gguf") and "mmproj" not in entry.name.lower():
                        yield Path(entry.path)
                    elif levels > 1 and entry.is_dir():
                        pending.append((Path(entry.path), levels - 1))
        except OSError:
            # Not there or not ours to read: the same as empty.
            continue


def _file_bytes(path: Path) -> int | None:
    try:
        return path.stat().st_size if path.is_file() else None
    except OSError:
        return None


def _ollama_files(root: Path) -> Iterator[StoredFile]:
    """Yield the blobs that Ollama's manifests name as models."""
    manifests = root / "manifests"
    try:
        found = sorted(manifests.glob("*/*/*/*"))[:_MOST_ENTRIES]
    except OSError:
        return
    for manifest in found:
        host, owner, model, tag = manifest.relative_to(manifests).parts
        digest = _ollama_digest(manifest)
        if digest is None:
            continue
        blob = root / "blobs" / f"sha256-{digest}"
        size_bytes = _file_bytes(blob)
        if size_bytes is None:
            continue
        name = f"{model}:{tag}"
        if owner != "library" or host != _OLLAMA_HOME:
            name = f"{owner}/{name}"
        if host != _OLLAMA_HOME:
            name = f"{host}/{name}"
        yield StoredFile(name, f"{Store.OLLAMA}/{name}", blob, size_bytes, Store.OLLAMA)


def _ollama_digest(manifest: Path) -> str | None:
    try:
        with manifest.open("rb") as file:
            layers = json.loads(file.read(_MOST_MANIFEST_BYTES))["layers"]
        digests = [layer["digest"] for layer in layers if layer["mediaType"] == _OLLAMA_MODEL]
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None
    # A model in several layers cannot be loaded from one of them.
    if len(digests) != 1 or not isinstance(digests[0], str):
        return None
    hexadecimal = re.fullmatch(r"sha256:([0-9a-f]{64})", digests[0])
    return hexadecimal[1] if hexadecimal else None
