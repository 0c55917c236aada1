"""``khepri models``: list, pull, add and remove; what they print and ask.

Tables and JSON go to stdout, everything else to stderr. Errors are raised and turned into words by the caller. The
network code is imported by ``pull`` alone, because every other command runs under the network lock.
"""

import json
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from khepri.errors import CancelledError, ModelFileError, UsageError
from khepri.models import own, stores
from khepri.models.catalogue import CATALOGUE, DEFAULT_TARGET, CatalogueModel, require
from khepri.models.gguf_header import read_header
from khepri.models.partial import readable_bytes
from khepri.paths import models_dir

if TYPE_CHECKING:
    from khepri.models.pull import Progress

_PIPE_COLUMNS = 240
_PLAIN_STEP = 0.1

_WORTH_A_WORD_BYTES = 100_000_000


def list_models(as_json: bool) -> None:
    """Print the models on this machine and those of the catalogue that could be pulled."""
    inventory = stores.take_inventory()
    missing = [entry for entry in CATALOGUE if not any(stores.is_entry(entry, model) for model in inventory.models)]
    if as_json:
        _print_json(inventory, missing)
    else:
        _print_table(inventory, missing)
    for item in inventory.damaged:
        _note(f"damaged: {item.reason} (khepri models remove {item.name})")
    if not as_json and not inventory.models:
        _note("no models yet; fetch the default with: khepri models pull")


def pull(name: str | None, source: str | None) -> None:
    """Fetch a model of the catalogue, the default one if ``name`` is None.

    Args:
        name: Name or alias in the catalogue.
        source: ``hub`` or ``index``; None tries both.

    Raises:
        NoModelError: The catalogue has no such model.
        UsageError: ``source`` is unknown, or does not have the model.
        PullError: The model could not be fetched, verified or stored.
        CancelledError: The user interrupted; what has arrived is kept.
    """
    from khepri.models.pull import Source
    from khepri.models.pull import pull as fetch

    entry = require(name) if name else DEFAULT_TARGET
    if source is not None and source not in list(Source):
        raise UsageError(f"there is no source {source}", f"use one of: {', '.join(Source)}")
    present = _present(entry)
    if present is not None:
        _note(f"{entry.name} is here already: {present}")
        return
    try:
        with _progress(entry) as progress:
            pulled = fetch(
                entry,
                models_dir(),
                environ=os.environ,
                progress=progress,
                notice=_note,
                source=Source(source) if source else None,
            )
    except KeyboardInterrupt as interrupt:
        raise CancelledError(
            f"interrupted; what has arrived of {entry.name} is kept",
            "the same command continues from there",
        ) from interrupt
    how = f"from the {pulled.source}, SHA-256 verified" if pulled.source else "fetched by another process"
    _note(f"{entry.name} is ready ({how}): {pulled.path}")


def add(file: Path, name: str | None) -> None:
    """Put a GGUF file into Khepri's own folder.

    Raises:
        UsageError: The name cannot be used or is taken.
        ModelFileError: The file is not a complete language model in GGUF format.
        PullError: The folder cannot be written or the disk is full.
    """
    waiting = partial(_note, "another process is adding a model: waiting for it")
    source = file.expanduser()
    if source.is_file() and source.stat().st_size >= _WORTH_A_WORD_BYTES:
        _note(f"copying {readable_bytes(source.stat().st_size)}")
    target = own.add_model(source, models_dir(), name, waiting)
    _note(f"added {target.stem}; use it with: --model {target.stem}")


def remove(name: str, yes: bool) -> None:
    """Delete a model of Khepri's own folder.

    Args:
        name: Name or catalogue alias.
        yes: Do not ask.

    Raises:
        NoModelError: There is no such model.
        UsageError: The model belongs to another program, or nobody can be asked.
        CancelledError: The user said no.
        PullError: The folder cannot be changed.
    """
    inventory = stores.take_inventory()
    files = own.removable_files(name, models_dir(), inventory)
    size_bytes = sum(file.lstat().st_size for file in files)
    what = ", ".join(_printable(str(file)) for file in files) or f"the unfinished pull of {name}"
    if not yes:
        if not sys.stdin.isatty():
            raise UsageError(f"nobody can be asked whether to delete {what}", "add --yes")
        sys.stderr.write(f"delete {what} ({readable_bytes(size_bytes)})? [y/N] ")
        sys.stderr.flush()
        if sys.stdin.readline().strip().lower() not in ("y", "yes"):
            raise CancelledError("nothing was deleted")
    own.remove_model(name, models_dir(), inventory, lambda: _note("waiting for a running pull"))
    _note(f"deleted {what}")


def _present(entry: CatalogueModel) -> Path | None:
    for model in stores.discover():
        if stores.is_entry(entry, model):
            try:
                read_header(model.path)
            except ModelFileError:
                continue
            return model.path
    return None


def _print_json(inventory: stores.Inventory, missing: list[CatalogueModel]) -> None:
    available = [
        {
            "name": entry.name,
            "aliases": entry.aliases,
            "role": entry.role,
            "licence": entry.licence,
            "size_bytes": entry.size_bytes,
            "quantization": entry.quantization,
            "sha256": entry.sha256,
        }
        for entry in missing
    ]
    listing = {
        "models": [asdict(model) | {"path": str(model.path)} for model in inventory.models],
        "damaged": [asdict(item) | {"path": str(item.path)} for item in inventory.damaged],
        "available": available,
    }
    sys.stdout.write(json.dumps(listing, indent=2) + "\n")


def _print_table(inventory: stores.Inventory, missing: list[CatalogueModel]) -> None:
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    rows = [
        (model.name, readable_bytes(model.size_bytes), model.quantization, model.source.value, _mark(model), "")
        for model in inventory.models
    ]
    rows += [
        (
            entry.name,
            readable_bytes(entry.size_bytes),
            entry.quantization,
            "not here",
            f"khepri models pull {entry.aliases[0]}",
            "dim",
        )
        for entry in missing
    ]
    console = Console(width=None if sys.stdout.isatty() else _PIPE_COLUMNS)
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for title in ("model", "size", "quantization", "where", ""):
        table.add_column(title, justify="right" if title == "size" else "left", no_wrap=True)
    for *cells, style in rows:
        table.add_row(*(Text(_printable(cell), style=style) for cell in cells))
    if console.measure(table, options=console.options.update(max_width=_PIPE_COLUMNS)).maximum <= console.width:
        console.print(table)
        return
    for name, *details, style in rows:
        console.print(Text(_printable(name), style=style, overflow="fold"))
        console.print(Text("  " + ", ".join(filter(None, details)), style=style, overflow="fold"))


def _mark(model: stores.Model) -> str:
    return "default" if model.is_default else ""


@contextmanager
def _progress(entry: CatalogueModel) -> "Iterator[Progress]":
    """Show progress on stderr: a bar on a terminal, a line for every tenth elsewhere."""
    if not sys.stderr.isatty():
        yield _PlainProgress(entry.name)
        return
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=None),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(entry.aliases[0], total=entry.size_bytes)
        first = True

        def show(done_bytes: int, total_bytes: int, label: str) -> None:
            nonlocal first
            if first and done_bytes:
                # What was there already is not speed.
                bar.reset(task, total=total_bytes, completed=done_bytes)
                first = False
            bar.update(task, completed=done_bytes, total=total_bytes, description=f"{entry.aliases[0]}: {label}")

        yield show


class _PlainProgress:
    """Writes a line to stderr whenever another tenth of the model is there."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._next = 0.0

    def __call__(self, done_bytes: int, total_bytes: int, label: str) -> None:
        fraction = done_bytes / total_bytes
        if fraction >= self._next:
            self._next = (fraction // _PLAIN_STEP + 1) * _PLAIN_STEP
            _note(f"{self._name}: {readable_bytes(done_bytes)} of {readable_bytes(total_bytes)} ({label})")


def _printable(text: str) -> str:
    """Return ``text`` without what could drive the terminal or cannot be encoded."""
    return "".join(character if character.isprintable() else "\N{REPLACEMENT CHARACTER}" for character in text)


def _note(text: str) -> None:
    sys.stderr.write(_printable(text) + "\n")
    sys.stderr.flush()
