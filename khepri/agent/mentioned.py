"""What a message names with ``@``: which words those are, and what of the repository they stand for.

What a screen offers while somebody writes is not known here, nor how it is looked at.
"""

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Final

from khepri.errors import ToolError
from khepri.repo.root import Repository
from khepri.repo.text import printable

# A name with spaces stands in quotes.
_MENTIONS: Final = re.compile(r"(?:^|(?<=\s))@(?:\"([^\"]+)\"|([^\s\"]+))")
_ENDS: Final = ".,;:!?)]}'\""
_MOST_REASONS: Final = 5


@dataclass(frozen=True)
class Resolved:
    """What words of a message stand for."""

    names: tuple[str, ...] = ()
    """Files as ``path`` or ``path#symbol``, and folders as ``path/``, each once."""
    problem: str = ""
    """What is not looked at and why, in a sentence; empty if all is."""


def mentioned_words(text: str) -> tuple[str, ...]:
    """Return the words that a message names something with, in their order and with what follows a name at its end."""
    return tuple(dict.fromkeys(quoted or bare for quoted, bare in _MENTIONS.findall(text)))


def known_names(text: str, files: Iterable[str]) -> tuple[str, ...]:
    """Return what a message names of these files, in its order. Looks at no disk."""
    words = mentioned_words(text)
    known = frozenset(files) if words else frozenset()
    found = (_first_known(word, known) for word in words)
    return tuple(dict.fromkeys(filter(None, found)))


def resolve(repository: Repository, words: Sequence[str]) -> Resolved:
    """Find what words of a message stand for, among the files as they are now.

    Takes as long as a look at the whole folder.

    Args:
        repository: Where to look; its rules say what may be looked at.
        words: What ``mentioned_words`` returned, or names of files.
    """
    if not words:
        return Resolved()
    try:
        repository.refresh()
    except ToolError as error:
        return Resolved((), f"not looked at: {', '.join(map(printable, words))}: {error.message}")
    names: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for word in words:
        if not _is_named(repository, word):
            continue
        try:
            names[_resolved(repository, word)] = None
        except ToolError as error:
            says_what = any(error.message.startswith(printable(each)) for each in _readings(word))
            reasons[error.message if says_what else f"{printable(word)}: {error.message}"] = None
    told = [*reasons][:_MOST_REASONS]
    if len(reasons) > len(told):
        told.append(f"and {len(reasons) - len(told)} more")
    return Resolved(tuple(names), f"not looked at: {'; '.join(told)}" if told else "")


def _readings(word: str) -> Iterator[str]:
    """Yield what a word may name: all of it, or what remains without the punctuation that follows a name."""
    path, _, symbol = word.partition("#")
    if symbol:
        yield f"{path}#{symbol.rstrip(_ENDS)}".removesuffix("#")
        return
    yield word
    if word.rstrip(_ENDS) not in ("", word):
        yield word.rstrip(_ENDS)


def _first_known(word: str, known: frozenset[str]) -> str:
    return next((each for each in _readings(word) if each.partition("#")[0] in known), "")


def _is_named(repository: Repository, word: str) -> bool:
    """Tell if a word is a name at all: pasted code has ``@property`` and ``@app.get("/")``, which nobody looks for."""
    if any(_is_there(repository, each) for each in _readings(word)):
        return True
    path = PurePosixPath(word.partition("#")[0].rstrip(_ENDS))
    if "(" in path.name:
        return False
    return (
        word.startswith((".", "/"))
        or (len(path.parts) > 1 and (repository.root / path.parts[0]).is_dir())
        or (bool(path.suffix) and any(each.endswith(path.suffix) for each in repository.files()))
    )


def _resolved(repository: Repository, word: str) -> str:
    """Return what a word names.

    Raises:
        ToolError: There is nothing of that name, or it is not to be looked at.
    """
    readings = [*_readings(word)]
    reading = next((each for each in readings if _is_there(repository, each)), "")
    if not reading:
        raise ToolError(f"{printable(readings[-1])} does not exist")
    path, _, symbol = reading.partition("#")
    real = repository.resolve(path)
    relative = repository.relative(real)
    if real.is_dir():
        return f"{relative}/"
    return f"{relative}#{symbol}" if symbol else relative


def _is_there(repository: Repository, reading: str) -> bool:
    path = reading.partition("#")[0]
    # A path may begin with the root of the repository, or with a slash that stands for it.
    places = (repository.root / path, repository.root / path.lstrip("/"))
    return any(os.path.lexists(place) for place in places)
