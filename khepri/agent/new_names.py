"""The function or method that a task says outright is to be written, by the name that it is to have.

A small model that is to add something to a class is prone to write the whole class again. Where the name is known, its
first line can be given instead.
"""

import re
from collections.abc import Collection
from typing import Final

_SAID: Final = re.compile(
    r"\b(?:method|function|helper|property)\s+(?P<called>(?:named|called)\s+)?(?P<quote>[`'\"]?)"
    r"(?P<name>[A-Za-z_]\w*)(?P<call>\()?[^\s]*(?:\s+(?P<next>\w+))?"
)
_NAME_LIKE: Final = re.compile(r"_|[a-z][A-Z]")
_BEHIND_A_NAME: Final = frozenset("that which to in on for".split())
"""What may stand behind a plain word that is a name, as in "a method close that returns 2"."""
_NEVER_NAMES: Final = frozenset("that which to in on for of and or with who as from by into is it so".split())


def new_function(task: str, known: Collection[str]) -> str:
    """Return the name that a task gives to a function that is not there yet; empty if it gives none, or several.

    Args:
        task: What the user asked for.
        known: The names that are taken where it is to be.
    """
    names = {said["name"] for said in _SAID.finditer(task) if _is_name(said)} - set(known)
    return names.pop() if len(names) == 1 else ""


def opening_rule(name: str, kind: str = "function") -> str:
    """Return the Lark rule of the lines up to the name of a Python definition: imports, decorators, then its keyword.

    Args:
        name: What it is called.
        kind: ``class``, or what begins with ``def``.
    """
    keyword, ends = ("class ", "(:[") if kind == "class" else ("(async )?def ", "([")
    return rf"opening: /([ \t]*((import|from|@|#)[^\n]*)?\n)*[ \t]*{keyword}{name}[{re.escape(ends)}]/"


def _is_name(said: re.Match[str]) -> bool:
    name = said["name"]
    if name.lower() in _NEVER_NAMES:
        return False
    if said["called"] or said["quote"] or said["call"] or _NAME_LIKE.search(name):
        return True
    return said["next"] in _BEHIND_A_NAME and not name.endswith("ing")
