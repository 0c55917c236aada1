"""Tells whether a new text of a file or a class changes what its task names, or something else in it."""

import re
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.symbols import outline

_WORD: Final = re.compile(r"\w+")
_CALLABLE: Final = frozenset({"function", "method"})
_MOST_SHOWN: Final = 3


def refuse_elsewhere(target: Target, new_text: str, task: str) -> None:
    """Refuse a new text that leaves the functions alone that the task names, and changes others.

    Args:
        target: What was written anew.
        new_text: The whole file, as it would be.
        task: What the user asked for.

    Raises:
        EditRefusedError: It does.
    """
    named, changed = _functions(target.source.path, target.symbol, target.source.text, new_text, task)
    others = sorted(changed - named)
    if named and others and not named & changed:
        left = ", ".join(sorted(named)[:_MOST_SHOWN])
        raise EditRefusedError(
            Refusal.UNASKED,
            f"{', '.join(others[:_MOST_SHOWN])} changes, and {left}, which the task names, stays as it is",
            f"change {left}, and copy everything else exactly",
        )


def told_of_others(path: str, symbol: str, old: str, new: str, task: str) -> tuple[str, ...]:
    """Return a sentence on the functions that change beside those that the task names; none if it names none.

    Args:
        path: The file.
        symbol: What of it was written anew; empty for all of it.
        old: Its text as it was.
        new: Its text as it would be.
        task: What the user asked for.
    """
    named, changed = _functions(path, symbol, old, new, task)
    others = sorted(changed - named)
    if not named & changed or not others:
        return ()
    what = ", ".join(others[:_MOST_SHOWN]) + ", …" * (len(others) > _MOST_SHOWN)
    return (f"in {path}, {what} changes as well, which the task does not name; look well",)


def _functions(path: str, symbol: str, old: str, new: str, task: str) -> tuple[set[str], set[str]]:
    """Return the functions of a file or a class that a task names, and those that change; none for a function."""
    words, before, after = set(_WORD.findall(task)), _texts(path, old), _texts(path, new)
    if symbol in before:
        return set(), set()
    own = {name for name in before if not symbol or name.startswith(f"{symbol}.")}
    named = {name for name in own if name.rpartition(".")[2] in words}
    return named, {name for name in own if before[name] != after.get(name)}


def _texts(path: str, text: str) -> dict[str, list[str]]:
    lines = text.split("\n")
    return {
        each.qualified_name: [line.strip() for line in lines[each.start_line - 1 : each.end_line]]
        for each in outline(path, text)
        if each.kind in _CALLABLE
    }
