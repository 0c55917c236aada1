"""Khepri's own folder of models: adding a file to it and removing one from it.

The stores of other programs are never changed. Nothing here fetches anything.
"""

import hashlib
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from khepri.errors import ModelFileError, NoModelError, UsageError
from khepri.models.catalogue import lookup
from khepri.models.gguf_header import read_header
from khepri.models.layouts import PART_NAME, Store
from khepri.models.partial import PartialModel, locked, storage_errors
from khepri.models.stores import Inventory, writes_text

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,199}")

_OTHER_PROGRAMS = {
    Store.OLLAMA: "ollama rm {name}",
    Store.LM_STUDIO: "LM Studio, under My Models",
    Store.HUGGING_FACE: "hf cache delete",
    Store.LLAMA_CPP: "deleting {path}",
}


def add_model(file: Path, models_dir: Path, name: str | None, waiting: Callable[[], None]) -> Path:
    """Put a copy of a GGUF file into Khepri's own folder.

    Args:
        file: The file; it stays where it is.
        models_dir: Khepri's own folder of models; made if missing.
        name: The name to give it; the file's stem if None.
        waiting: Called once if another process is adding a file and must be waited for.

    Returns:
        The new file.

    Raises:
        UsageError: The name cannot be used or is taken, or the file is one part of several.
        ModelFileError: The file cannot be read, is not a language model in GGUF format, or is truncated.
        PullError: The folder cannot be written or the disk is full.
    """
    header = read_header(file)
    if not writes_text(header):
        raise ModelFileError(
            f"{file} holds no language model (architecture {header.architecture or 'unknown'}, type {header.kind})",
            "add a model that can write text",
        )
    if PART_NAME.match(file.stem):
        raise UsageError(
            f"{file} is one part of a model in several files",
            "merge them first (llama-gguf-split --merge), and add the result",
        )
    stem = _free_name(file, models_dir, name)
    target = models_dir / f"{stem}.gguf"
    waiting_room = models_dir / ".partial" / "adding"
    with locked(waiting_room.with_suffix(".lock"), waiting), storage_errors(target):
        if target.exists():
            raise _taken(stem, target)
        # Whoever was killed while it copied left this behind.
        waiting_room.unlink(missing_ok=True)
        try:
            _copy(file.resolve(), waiting_room)
            waiting_room.rename(target)
        finally:
            waiting_room.unlink(missing_ok=True)
    return target


def remove_model(name: str, models_dir: Path, inventory: Inventory, waiting: Callable[[], None]) -> tuple[Path, ...]:
    """Delete a model of Khepri's own folder, or what an unfinished pull left of it.

    Args:
        name: The model's name or a catalogue alias.
        models_dir: Khepri's own folder of models.
        inventory: What there is.
        waiting: Called once if a running pull of the model must be waited for.

    Returns:
        The files that were deleted; none if only an unfinished pull was.

    Raises:
        NoModelError: There is no model of that name.
        UsageError: The model belongs to another program.
        PullError: The folder cannot be changed.
    """
    files = removable_files(name, models_dir, inventory)
    entry = lookup(name)
    if entry is not None:
        with PartialModel.claim(models_dir, entry.name, waiting) as unfinished:
            unfinished.discard()
    for file in files:
        with storage_errors(file):
            file.unlink()
    return files


def removable_files(name: str, models_dir: Path, inventory: Inventory) -> tuple[Path, ...]:
    """Return the files that ``remove_model`` would delete.

    Raises:
        NoModelError: There is no model of that name.
        UsageError: The model belongs to another program.
    """
    entry = lookup(name)
    wanted = entry.name if entry else name.removesuffix(".gguf")
    found = {item.name: item.path for item in inventory.damaged}
    found |= {item.name: item.path for item in inventory.models if item.source is Store.KHEPRI}
    if wanted in found:
        return _all_parts(found[wanted])
    for model in inventory.models:
        if model.name == wanted:
            how = _OTHER_PROGRAMS[model.source].format(name=model.name, path=model.path)
            raise UsageError(
                f"{model.name} is not Khepri's: it lies in the store of {model.source} ({model.path})",
                f"remove it there: {how}",
            )
    if entry is not None and (models_dir / ".partial" / entry.name).is_dir():
        return ()
    own = ", ".join(found) or "none"
    raise NoModelError(f"there is no model named {name} in {models_dir}", f"there are: {own}")


def _all_parts(first: Path) -> tuple[Path, ...]:
    part = PART_NAME.match(first.stem)
    return tuple(sorted(first.parent.glob(f"{part['stem']}-?????-of-{part['count']}.gguf"))) if part else (first,)


def _free_name(file: Path, models_dir: Path, name: str | None) -> str:
    stem = (name or file.name).removesuffix(".gguf")
    if not _NAME.fullmatch(stem):
        raise UsageError(
            f"{stem!r} cannot be the name of a model",
            "use letters, digits, dots, dashes, plus signs and underscores: khepri models add FILE --name NAME",
        )
    entry = lookup(stem)
    if entry is not None:
        with file.open("rb") as data:
            found = hashlib.file_digest(data, "sha256").hexdigest()
        if found != entry.sha256:
            raise UsageError(
                f"the name {stem} belongs to a model of the catalogue, and {file} is another file (SHA-256 {found})",
                "give it another name: khepri models add FILE --name NAME",
            )
        stem = entry.name
    target = models_dir / f"{stem}.gguf"
    if target.exists() or target.is_symlink():
        raise _taken(stem, target)
    for other in models_dir.glob("*.gguf"):
        if other.exists() and other.samefile(file):
            raise UsageError(f"{file} is in Khepri's folder already, as {other.stem}", f"use it: --model {other.stem}")
    return stem


def _taken(stem: str, target: Path) -> UsageError:
    return UsageError(
        f"there is a model named {stem} already ({target})",
        f"give this one another name (--name NAME), or remove that one: khepri models remove {stem}",
    )


def _copy(source: Path, target: Path) -> None:
    """Copy a file; never by a hard link, through which a write to the one would damage the other."""
    shutil.copyfile(source, target)
    with target.open("rb") as copy:
        os.fsync(copy.fileno())
