"""Looks at what a small model wrote before anybody else does: left-out code, lost code, broken code, nothing at all.

Each guard raises with words that the model can act on; they are the user's words too.
"""

import re
from collections import Counter
from typing import Final

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.shortening import asks_for_less
from khepri.edits.syntax import first_fault
from khepri.repo.symbols import outline

_LEFT_OUT: Final = re.compile(
    r"\b(?:"
    r"(?:rest|remainder) of (?:the |this )?(?:\w+ )?"
    r"(?:code|function|method|class|file|body|implementation|module|logic)"
    r"|(?:rest|remaining|other|existing|previous|original|same)(?: \w+){0,3} "
    r"(?:unchanged|remains?|stays?|as before|same|here|omitted|as above|goes here)"
    r"|(?:existing|remaining|previous|original|unchanged|same) "
    r"(?:code|implementation|logic|methods?|functions?|body|lines)"
    r"|(?:code|implementation|logic|body|everything else|unchanged) (?:unchanged|omitted|as before|goes here|stays)"
    r"|(?:your|add|put|insert) (?:\w+ ){0,2}(?:code|logic|implementation) here"
    r"|to be implemented|not shown|(?:code|implementation|logic|function|method) continues"
    r"|(?:todo|fixme)\b.{0,40}\b(?:implement|rest|remaining|finish|complete|fill)\w*"
    r"|implement (?:the |this )?(?:rest|remaining|remainder)|for brevity"
    r"|(?:keep|leave)s? (?:everything|all|the rest|the others?)(?: \w+){0,3} (?:same|unchanged|as)"
    r")",
    re.IGNORECASE,
)
_MARKED: Final = re.compile(
    r"^\s*(?:(?:pass|return(?: None| null)?);?\s*)?(?:#|//|/\*+|\*|<!--|--|;|\[?\s*(?:\.\.\.|…))"
)
_BARE_DOTS: Final = re.compile(
    r"^\s*(?:(?:#|//)\s*)?(?:\.\.\.|…)\s*$|^\s*(?:#|//)\s*(?:unchanged|omitted)\.?\s*$", re.IGNORECASE
)
_NOT_YET: Final = re.compile(
    r"""^\s*(?:raise NotImplementedError\b|throw new Error\(["'`]not (?:yet )?implemented|(?:todo|unimplemented)!\()""",
    re.IGNORECASE,
)
_OF_NOT_YET: Final = re.compile(r"not\W*(?:yet\W*)?implemented|abstract|stub|todo|subclass|overrid", re.IGNORECASE)
_RULES: Final = frozenset({".khepri/permissions.toml", ".khepri/config.toml", ".khepriignore"})
_LEAST_LINES: Final = 6
_MOST_SHRINKAGE: Final = 0.5


def check_place(path: str) -> None:
    """Make sure that a file is none of those that say what Khepri may read and do: they are the user's to write.

    Args:
        path: POSIX path from the root.

    Raises:
        EditRefusedError: It is one.
    """
    if path.lower() in _RULES:
        raise EditRefusedError(
            Refusal.HIDDEN, f"{path} says what Khepri may do, and is never written", "edit it by hand"
        )


def is_of_git(path: str) -> bool:
    """Return True for a path into git's own folder, in any case: file systems may not tell ``.GIT`` from ``.git``."""
    return ".git" in path.lower().split("/")


def check_changed(old: str, new: str) -> None:
    """Make sure that a new text of a file or a definition is not the old one.

    Raises:
        EditRefusedError: It is.
    """
    if _normal(new) == _normal(old):
        raise EditRefusedError(
            Refusal.NO_OP, "the new code is the same as the old one", "make the change that the task asks for"
        )


def check_complete(old: str, new: str, task: str = "") -> None:
    """Make sure that a new text of a file or a definition leaves no code out.

    Args:
        old: The text that is replaced.
        new: The text that the model wrote for it.
        task: What the user asked for; a task that speaks of such code may have it.

    Raises:
        EditRefusedError: It says that it leaves code out.
    """
    known = Counter(line.strip() for line in old.split("\n"))
    for number, line in enumerate(new.split("\n"), start=1):
        if known[line.strip()]:
            continue
        is_left_open = old and _NOT_YET.match(line) and not _OF_NOT_YET.search(task)
        if _leaves_out(line) or is_left_open:
            raise EditRefusedError(
                Refusal.PLACEHOLDER,
                f"line {number} leaves code out: {line.strip()[:60]!r}",
                "write all of the code, every line of it",
            )


def check_kept(path: str, old: str, new: str, task: str) -> None:
    """Make sure that a new text has not lost most of the old one, or a definition in it.

    Args:
        path: The file, for the language.
        old: The text that is replaced.
        new: The text that the model wrote for it.
        task: What the user asked for; a task that says so may shorten the code.

    Raises:
        EditRefusedError: It has lost code that the task says nothing of.
    """
    if asks_for_less(task, old, _definitions(path, old)):
        return
    before, after = _code_lines(old), _code_lines(new)
    if before >= _LEAST_LINES and after < _MOST_SHRINKAGE * before:
        raise EditRefusedError(
            Refusal.SHRINKAGE,
            f"only {after} of {before} lines are left, and the task does not ask for less code",
            "copy every line that need not change",
        )
    lost = _definitions(path, old) - _definitions(path, new)
    if lost:
        raise EditRefusedError(
            Refusal.SHRINKAGE,
            f"{', '.join(sorted(lost)[:3])} is gone, and the task does not ask for that",
            "keep every definition that the task does not name",
        )


def check_syntax(path: str, old: str, new: str) -> None:
    """Make sure that a whole file has no syntax error that it had not before.

    Raises:
        EditRefusedError: It has one.
    """
    fault = first_fault(path, new)
    if fault is None or first_fault(path, old) is not None:
        return
    line = new.split("\n")[fault.line - 1].strip()[:80] if fault.line <= new.count("\n") + 1 else ""
    raise EditRefusedError(
        Refusal.SYNTAX,
        f"{path} would not be valid any more: {fault.message} in line {fault.line}: {line}",
        "write valid code with the same indentation as before",
    )


def _leaves_out(line: str) -> bool:
    return bool(_BARE_DOTS.match(line)) or bool(_MARKED.match(line) and _LEFT_OUT.search(line))


def _normal(text: str) -> list[str]:
    return [line.rstrip() for line in text.strip("\n").split("\n")]


def _code_lines(text: str) -> int:
    return sum(1 for line in text.split("\n") if line.strip())


def _definitions(path: str, text: str) -> set[str]:
    return {symbol.name for symbol in outline(path, text)}
