"""Finds what could be meant by what is being written: commands after ``/`` and what they take, files after ``@``.

Files and symbols are gathered once in the background and again when they may have changed. Nothing is shown here.
"""

import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from khepri import paths
from khepri.agent.commands import COMMANDS
from khepri.agent.mentioned import mentioned_words
from khepri.errors import ToolError
from khepri.repo.root import Repository
from khepri.tui.fuzzy import rank
from khepri.tui.widgets.completion import Candidate

_MOST: Final = 8
_COMMAND: Final = re.compile(r"/([a-z-]*)$")
_ARGUMENT: Final = re.compile(r"/([a-z-]+) (?:.* )?(\S+)")
# A name with spaces stands in quotes.
_MENTION: Final = re.compile(r"(?:^|(?<=\s))@(\"[^\"]*|[^\s\"]*)$")


@dataclass(frozen=True)
class Names:
    """What can be mentioned."""

    files: tuple[str, ...] = ()
    """Paths of the repository's files."""
    symbols: tuple[str, ...] = ()
    """``path#symbol`` for what the files define."""

    def arguments(self, added: Iterable[str], themes: Iterable[str]) -> Mapping[str, Sequence[str]]:
        """Return what commands can be given, by their names."""
        return {
            "add": self.files,
            "drop": tuple(added),
            "theme": tuple(themes),
            "export": ("json",),
        }


def gather_files(repository: Repository) -> Names:
    """Return the names of all files as they are now. Takes as long as a look at the folder: call it on a thread."""
    try:
        repository.refresh()
        return Names(repository.files())
    except ToolError:
        return Names()


def gather_symbols(repository: Repository, names: Names) -> Names:
    """Return the names with those of the symbols. Takes seconds in a large repository: call it on a thread."""
    from khepri.repo.map import build

    try:
        entries = build(repository, paths.map_cache_dir()).entries
    except ToolError:
        return names
    symbols = (f"{entry.path}#{symbol}" for entry in entries for name in entry.names for symbol in _symbols(name))
    return Names(names.files, tuple(symbols))


def _symbols(name: str) -> Iterator[str]:
    """Yield the symbols of a name in the map, where a class stands with its members: ``Client(get, send)``."""
    outer, _, members = name.partition("(")
    yield outer
    for member in members.rstrip(")").split(", "):
        if member.isidentifier():
            yield f"{outer}.{member}"


def completions(text: str, names: Names, arguments: Mapping[str, Sequence[str]] = {}) -> tuple[int, list[Candidate]]:
    """Return what could be meant by the end of ``text``, the text before the cursor.

    Args:
        text: Its last line is enough, with the line break before it if there is one.
        names: What can be mentioned.
        arguments: What can be given to commands, by their names.

    Returns:
        How many characters before the cursor a choice replaces, and what there is to choose from.
    """
    if command := _COMMAND.fullmatch(text):
        written = command[1]
        found = [each for each in COMMANDS.values() if each.name.startswith(written)]
        return len(text), [
            Candidate(f"/{each.name} ", f"/{each.name} {each.argument}".rstrip(), each.summary) for each in found
        ]
    if mention := _MENTION.search(text):
        return len(mention[1]) + 1, _mentionable(mention[1].removeprefix('"'), names)
    if argument := _ARGUMENT.fullmatch(text):
        written, pool = argument[2], arguments.get(argument[1], ())
        # What is written in full is meant, however well others match.
        found_names = [] if written in pool else rank(written, pool, _MOST)
        return len(written), [Candidate(f"{shlex.quote(name)} ", name) for name in found_names]
    return 0, []


def is_naming(text: str) -> bool:
    """Return True if the end of ``text`` begins to name a file or a symbol."""
    return _MENTION.search(text) is not None


def _mentionable(query: str, names: Names) -> list[Candidate]:
    pool = names.symbols if "#" in query else names.files
    found = rank(query, pool, _MOST)
    if "#" not in query and len(found) < _MOST and query:
        found += rank(query, names.symbols, _MOST - len(found))
    return [Candidate(f"@{name} " if mentioned_words(f"@{name}") == (name,) else f'@"{name}" ', name) for name in found]
