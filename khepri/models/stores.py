"""The models on this machine: all of them, the one of a name, and the default.

Headers are read here, so that only files which a language model can be loaded from are offered. Nothing is fetched.
"""

import difflib
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from khepri import paths
from khepri.errors import ModelFileError, NoModelError
from khepri.models.catalogue import CATALOGUE, DEFAULT_DRAFT, DEFAULT_TARGET, CatalogueModel, lookup
from khepri.models.gguf_header import Header, read_header, read_summary
from khepri.models.layouts import Store, stored_files

# Encoders and projectors cannot write.
_WORDLESS = ("bert", "clip", "t5encoder", "gemma-embedding")


@dataclass(frozen=True)
class Model:
    """A model file on this machine."""

    name: str
    """What the user calls it; unique on this machine."""
    path: Path
    """The file; the first one of a model in several parts."""
    size_bytes: int
    """Size, all parts together."""
    quantization: str
    """Name of the quantization, such as ``Q4_K_M``, or ``unknown``."""
    architecture: str
    """``general.architecture`` of the file, such as ``qwen2``."""
    source: Store
    """Whose store it lies in."""
    is_default: bool
    """True for the one that is used when none is named."""


@dataclass(frozen=True)
class Damaged:
    """A file in Khepri's own folder that no model can be loaded from."""

    name: str
    """The name it would have."""
    path: Path
    """The file."""
    reason: str
    """What is wrong with it."""


@dataclass(frozen=True)
class Inventory:
    """All that was found."""

    models: tuple[Model, ...]
    """Models that can be loaded, Khepri's own first."""
    damaged: tuple[Damaged, ...]
    """Files in Khepri's own folder that should be removed."""


def take_inventory(environ: Mapping[str, str] | None = None, home: Path | None = None) -> Inventory:
    """Look through all stores. Reads a few kilobytes of each file.

    Args:
        environ: Environment variables, which move stores; the process's own if None.
        home: The home folder; the user's own if None.
    """
    models: list[Model] = []
    damaged: list[Damaged] = []
    names: set[str] = set()
    has_default = False
    files = stored_files(paths.models_dir(), os.environ if environ is None else environ, home or Path.home())
    for file in files:
        try:
            header = read_summary(file.path)
        except ModelFileError as error:
            if file.store is Store.KHEPRI:
                damaged.append(Damaged(file.name, file.path, error.message))
            continue
        if not writes_text(header):
            continue
        name = file.long_name if file.name in names else file.name
        names.add(name)
        model = _model(name, file.path, file.size_bytes, header, file.store)
        if not has_default and is_entry(DEFAULT_TARGET, model):
            has_default, model = True, replace(model, is_default=True)
        models.append(model)
    return Inventory(tuple(models), tuple(damaged))


def discover(environ: Mapping[str, str] | None = None, home: Path | None = None) -> tuple[Model, ...]:
    """Return every model on this machine that can be loaded, Khepri's own first."""
    return take_inventory(environ, home).models


def find(name_or_path: str, environ: Mapping[str, str] | None = None, home: Path | None = None) -> Model:
    """Return the model of a name, a catalogue alias or a path, checked to be complete.

    Raises:
        NoModelError: There is none; the hint names what there is.
        ModelFileError: There is one, and it is damaged or truncated.
    """
    path = Path(name_or_path).expanduser()
    if path.is_absolute() or (path.suffix.lower() == ".gguf" and os.path.exists(path)):
        return _from_path(path)
    inventory = take_inventory(environ, home)
    entry = lookup(name_or_path)
    name = name_or_path.lower().removesuffix(".gguf")
    wanted = {name, f"{name}:latest", entry.name if entry else name}
    for damaged in inventory.damaged:
        if damaged.name.lower() in wanted:
            raise ModelFileError(damaged.reason, f"remove it with: khepri models remove {damaged.name}")
    for model in inventory.models:
        if model.name.lower() in wanted or (entry is not None and is_entry(entry, model)):
            return _complete(model)
    # A bare word is a name and never a file here: a repository may set a model's name, and must not bring the model.
    if os.sep in name_or_path and os.path.isfile(path):
        return _from_path(path)
    if _is_written_as_a_path(name_or_path):
        raise _no_file(path)
    raise _no_model_named(name_or_path, entry, inventory.models)


def default_model(environ: Mapping[str, str] | None = None, home: Path | None = None) -> Model:
    """Return the catalogue's default target, wherever it lies, checked to be complete.

    Another model is never taken in its place: it might be many times too large for the machine.

    Raises:
        NoModelError: It is not there; the hint says how to get it and what else there is.
        ModelFileError: It is damaged or truncated.
    """
    inventory = take_inventory(environ, home)
    for model in inventory.models:
        if model.is_default:
            return _complete(model)
    for damaged in inventory.damaged:
        if damaged.name == DEFAULT_TARGET.name:
            raise ModelFileError(damaged.reason, "fetch it again with: khepri models pull")
    hint = "fetch it with: khepri models pull (or bring your own: khepri models add FILE)"
    others = [model for model in inventory.models if not is_entry(DEFAULT_DRAFT, model)]
    if others:
        smallest = min(others, key=lambda model: model.size_bytes)
        hint += f"; or use one that is here: --model {smallest.name} (khepri models lists all {len(others)})"
    raise NoModelError(f"the default model {DEFAULT_TARGET.name} is not on this machine", hint)


def _from_path(path: Path) -> Model:
    if not os.path.exists(path):
        raise _no_file(path)
    header = read_header(path)
    if not writes_text(header):
        raise ModelFileError(
            f"{path} holds no language model (architecture {header.architecture or 'unknown'}, type {header.kind})",
            "choose another one: khepri models",
        )
    model = _model(path.stem, path, path.stat().st_size, header, Store.FILE)
    return replace(model, is_default=is_entry(DEFAULT_TARGET, model))


def _complete(model: Model) -> Model:
    read_header(model.path)
    return model


def writes_text(header: Header) -> bool:
    """Return whether the file of ``header`` is a language model, not an encoder, a projector, an adapter or a part."""
    is_model = header.kind == "model" and header.has_tokenizer and header.tensor_count > 0
    return is_model and not any(word in header.architecture for word in _WORDLESS)


def is_entry(entry: CatalogueModel, model: Model) -> bool:
    """Return whether ``model`` is the catalogue's file, as far as that shows without hashing gigabytes."""
    return (model.size_bytes, model.architecture, model.quantization) == (
        entry.size_bytes,
        entry.architecture,
        entry.quantization,
    )


def _model(name: str, path: Path, size_bytes: int, header: Header, source: Store) -> Model:
    return Model(name, path, size_bytes, header.quantization, header.architecture, source, is_default=False)


def _is_written_as_a_path(name_or_path: str) -> bool:
    return name_or_path.startswith(("./", "../", "~")) or name_or_path.lower().endswith(".gguf")


def _no_file(path: Path) -> NoModelError:
    hint = "check the path, or name a model as khepri models lists it (the default needs no name)"
    return NoModelError(f"there is no file {path}", hint)


def _no_model_named(name: str, entry: CatalogueModel | None, models: Iterable[Model]) -> NoModelError:
    message = f"there is no model named {name} on this machine"
    if entry is not None:
        return NoModelError(message, f"fetch it with: khepri models pull {entry.aliases[0]}")
    names = [model.name for model in models]
    known = [alias for entry in CATALOGUE for alias in (*entry.aliases, entry.name)]
    close = difflib.get_close_matches(name, dict.fromkeys([*names, *known]), n=3, cutoff=0.6)
    if close:
        here = f"did you mean {' or '.join(close)}? khepri models lists all"
    elif names:
        here = f"there are: {', '.join(names[:8])}{', …' if len(names) > 8 else ''}"
    else:
        here = "there are none yet"
    offered = ", ".join(entry.aliases[0] for entry in CATALOGUE)
    return NoModelError(message, f"{here}; fetch one with: khepri models pull NAME ({offered})")
