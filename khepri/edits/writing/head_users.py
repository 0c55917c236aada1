"""Tells where a definition is called whose head changes, as far as its name alone tells: nobody has looked at them."""

import re
from typing import Final

from khepri.edits.writing.unasked import broken_heads
from khepri.repo.grammars import grammar_of
from khepri.repo.root import Repository
from khepri.repo.search import search
from khepri.repo.symbols import outline

_MOST_SHOWN: Final = 5
_MOST_FOUND: Final = 50
_MAKERS: Final = ("__init__", "constructor")


def told_of_users(repository: Repository, path: str, old: str, new: str) -> tuple[str, ...]:
    """Return a sentence for each definition of which a call may not fit any more, with the places that call its name.

    Args:
        repository: Where they are looked for, as the files are on the disk.
        path: The file that changes.
        old: Its text as it was.
        new: Its text as it would be.

    Raises:
        ToolError: The search took too long.
    """
    told = []
    for name in broken_heads(path, old, new):
        owner, _, last = name.rpartition(".")
        called = owner.rpartition(".")[2] if last in _MAKERS else last
        places = [*_in_text(path, new, name, called), *_elsewhere(repository, path, called)]
        if places:
            shown = ", ".join(places[:_MOST_SHOWN]) + ", …" * (len(places) > _MOST_SHOWN)
            told.append(f"{name} is not called as before any more: look whether these calls fit: {shown}")
    return tuple(told)


def _in_text(path: str, text: str, name: str, called: str) -> list[str]:
    own = {
        line
        for each in outline(path, text)
        if each.qualified_name == name
        for line in range(each.start_line, each.end_line + 1)
    }
    call = re.compile(rf"\b{re.escape(called)}\s*\(")
    lines = enumerate(text.split("\n"), start=1)
    return [f"{path}:{number}" for number, line in lines if number not in own and call.search(line)]


def _elsewhere(repository: Repository, path: str, called: str) -> list[str]:
    found = search(
        repository, rf"\b{re.escape(called)}\s*\(", literal=False, case_sensitive=True, max_matches=_MOST_FOUND
    )
    return [
        f"{each.path}:{line.number}"
        for each in found.files
        if each.path != path and (grammar := grammar_of(each.path)) is not None and grammar.family != "markdown"
        for line in each.lines
    ]
