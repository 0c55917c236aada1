"""Reads a task that renames a file or a module as the one call that does it: a model has nothing to decide there."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from khepri.agent.protocol import ToolCall
from khepri.agent.task_parts import NOTHING_MORE
from khepri.agent.task_reading import Candidate, is_called
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.grammars import grammar_of

_QUOTE: Final = "[`'\"]?"
_PATH: Final = r"[\w./-]*\w"
_FOLDERS: Final = "package|folder|directory"
_KIND: Final = rf"(?:python\s+|source\s+)?(?P<{{}}>file|module|script|{_FOLDERS})"
_PLACE: Final = rf"(?:the\s+)?(?:(?:{_FOLDERS})\s+)?{_QUOTE}(?P<{{}}>{_PATH})/?{_QUOTE}(?:\s+(?:{_FOLDERS}))?"
_SAID: Final = re.compile(
    rf"(?:(?:in|inside)\s+{_PLACE.format('first')}\s*,?\s+)?(?:please\s+|can you\s+|could you\s+)?"
    rf"(?P<verb>rename|move|mv|git mv)\s+(?:the\s+)?(?:{_KIND.format('kind')}\s+)?{_QUOTE}(?P<old>{_PATH}){_QUOTE}"
    rf"(?:\s+{_KIND.format('kind_behind')})?"
    rf"(?:\s+(?:of|in|inside|from)\s+{_PLACE.format('where')})?"
    rf"(?:\s+(?:to|into|as)|(?<=mv\s)|\s+(?=[\w./-]+$))\s*(?:(?:the\s+)?(?:new\s+)?(?:name|file|module)\s+)?"
    rf"{_QUOTE}(?P<new>{_PATH}){_QUOTE}",
    re.IGNORECASE,
)
_WITH_USES: Final = re.compile(
    r"[\s,;]*(?:and\s+)?(?:also\s+)?(?:updat|fix|adjust|adapt|chang|mend|correct)(?:e|ing)?\s+"
    r"(?:(?:all|every|the|its|of|it|imports?|references?|uses?|usages?|callers?|accordingly|everywhere|in|to|that|and|"
    r"tests?|files?|code|them|mentions?|statements?|whole|project|repository|repo)\b[\s,.]*)*",
    re.IGNORECASE,
)
"""What is done anyway."""


def module_rename(task: str, files: Sequence[str], found: Sequence[Candidate]) -> ToolCall | None:
    """Return the call that renames a module where a task asks for that; None for a task of another kind.

    Args:
        task: What the user asked for, or a part of it.
        files: The files that are there.
        found: The definitions that the task may be about.

    Raises:
        EditRefusedError: It asks for a file to be renamed that is not there, cannot be told from others, or whose uses
            cannot be followed.
    """
    task = task.strip()
    said = _SAID.search(task)
    if said is None:
        return None
    kind, old, new = (said["kind"] or said["kind_behind"] or "").lower(), said["old"].removeprefix("./"), said["new"]
    if kind and kind in _FOLDERS.split("|"):
        if said["verb"].lower() == "rename":
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE, f"the {kind} {old} cannot be renamed here", "rename it by hand, or its modules"
            )
        return None
    if said["verb"].lower() == "move" and grammar_of(old) is None:
        return None
    is_path = "/" in old or grammar_of(old) is not None
    there = _meant(old, said["where"] or said["first"] or "", files, is_module=kind != "file")
    if not (kind or is_path) and (not there or any(is_called(each, old) for each in found)):
        return None
    if not there and (any(is_called(each, old) for each in found) or not (kind or "/" in old or grammar_of(new))):
        return None
    if not (kind or is_path or "." in old):
        return None  # A bare name is a definition's, or a variable's.
    _refuse_unclear(old, there)
    _refuse_more(task, said)
    return ToolCall("rename", {"path": there[0], "symbol": "", "new_name": _new_name(there[0], new, said["verb"])})


def refuse_bare_module(name: str, files: Sequence[str], found: Sequence[Candidate]) -> None:
    """Refuse to rename what only a module is called, where the task does not say that it means one.

    Raises:
        EditRefusedError: Only a module is called so.
    """
    there = [path for path in files if path.endswith(".py") and PurePosixPath(path).stem == name]
    if there and not any(is_called(each, name) for each in found):
        raise EditRefusedError(
            Refusal.AMBIGUOUS,
            f"no definition is called {name}, but the module {there[0]} is",
            f"name it by its path, as in: rename {there[0]} to NEW.py",
        )


def _meant(old: str, where: str, files: Sequence[str], *, is_module: bool) -> list[str]:
    """Return the files that a name may mean: a path, the end of one, a dotted module, or a name without its suffix."""
    names = [old]
    if is_module and grammar_of(old) is None:
        names.append(f"{old.replace('.', '/')}.py")
    folder = where.strip("/")
    if folder and folder.replace(".", "/") != folder and grammar_of(folder) is None:
        folder = folder.replace(".", "/")
    for name in names:
        name = f"{folder}/{name}" if folder else name
        if same := [path for path in files if path == name] or [path for path in files if path.endswith(f"/{name}")]:
            return same
    if is_module and "/" not in old and grammar_of(old) is None:
        return [
            path
            for path in files
            if PurePosixPath(path).stem == old and grammar_of(path) and f"/{path}".rpartition("/")[0].endswith(folder)
        ]
    return []


def _refuse_unclear(old: str, there: Sequence[str]) -> None:
    if not there:
        raise EditRefusedError(Refusal.NO_TARGET, f"no file here is called {old}", "look at how it is spelled")
    if len(there) > 1:
        raise EditRefusedError(
            Refusal.AMBIGUOUS, f"{old} may be {', '.join(there[:3])}", f"name it by its path, as in: rename {there[0]}"
        )
    if not there[0].endswith(".py"):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{there[0]} is no Python module, and what names it in other languages cannot be followed",
            "rename it by hand",
        )


def _refuse_more(task: str, said: re.Match[str]) -> None:
    behind = task[said.end() :]
    if task[: said.start()].strip() or not (NOTHING_MORE.fullmatch(behind) or _WITH_USES.fullmatch(behind)):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"this renames a file and asks for more: {(task[: said.start()].strip() or behind.strip())[:60]}",
            "give each as a task of its own, or on a line of its own",
        )


def _new_name(path: str, new: str, verb: str) -> str:
    """Return the bare name that a module gets.

    Raises:
        EditRefusedError: It would get into another folder, or be no Python any more.
    """
    new = new.removeprefix("./")
    place = PurePosixPath(path)
    if "/" not in new and grammar_of(new) is None:
        new = new.replace(".", "/")
    goal = PurePosixPath(new)
    if goal.suffix not in ("", ".py"):
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{new} would be no Python module", "choose a name in .py")
    folder = str(goal.parent)
    if verb.lower() != "rename" and not goal.suffix:
        folder = new
    if folder != "." and not f"/{place.parent}".endswith(f"/{folder}"):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{new} lies in another folder than {path}: a module is renamed only within its own",
            "move its definitions one by one, as in: move NAME to FILE",
        )
    return goal.stem
