"""The parts of a task, and what each says outright is to be renamed to what.

A rename that is said in so many words leaves a model nothing to decide but which definition is meant.
"""

import builtins
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from khepri.agent.protocol import ToolCall
from khepri.agent.task_reading import LEADS, WORD, Candidate, is_called
from khepri.repo.grammars import grammar_of

MOST_PARTS: Final = 6
_QUOTE: Final = "[`'\"]?"
_NAME: Final = rf"{_QUOTE}(?P<{{}}>{WORD.pattern})(?:\(\))?{_QUOTE}"
_KIND: Final = (
    rf"(?:{LEADS}|constant|variable|property|attribute|field|member|struct|interface|enum|exception|dataclass|fixture"
    r"|getter|setter|coroutine|generator|type|trait)"
)
_LEAD: Final = rf"(?:the\s+)?(?:(?:(?:private|public|static|class|instance|async|abstract|global)\s+)?{_KIND}\s+)?"
_BEHIND: Final = (
    rf"(?:\s+{_KIND})?(?:\s+(?:of|in|on|from)\s+(?:the\s+)?(?P<{{0}}_kind>{_KIND}\s+)?{_QUOTE}"
    rf"(?P<{{0}}>[\w./-]*\w){_QUOTE})?"
)
"""What may stand between a name and its new one: what it is, and where it lies."""
_TO: Final = r"\s+(?:to|into|as)\s+(?:(?:the\s+)?(?:new\s+)?name\s+)?"
_OLD, _NEW = _NAME.format("old"), _NAME.format("new")
_SHORT: Final = re.compile(
    rf"(?:(?:the\s+)?(?:class\s+)?{_NAME.format('whose')}['\u2019]s\s+)?{_LEAD}{_OLD}{_BEHIND.format('owner')}{_TO}{_NEW}",
    re.IGNORECASE,
)
_RENAMING: Final = re.compile(rf"\brename\s+{_SHORT.pattern}", re.IGNORECASE)
_FURTHER: Final = re.compile(
    rf"\s*(?:,|,?\s+and)\s+(?:rename\s+)?(?P<its>(?:its|their)\s+)?{_SHORT.pattern}", re.IGNORECASE
)
"""What may stand behind a rename: another one, with the verb or without, also of a member of what has been renamed."""
_REPLACING: Final = re.compile(rf"\breplace\s+{_LEAD}{_OLD}\s+(?:by|with)\s+{_NEW}", re.IGNORECASE)
_PARAMETER_RENAMING: Final = re.compile(
    r"\brename\s+(?:the\s+)?(?:parameter|argument|option|keyword)\s+[`'\"]?(?P<old>[A-Za-z_]\w*)\b.*?"
    r"\s(?:to|into|as)\s+[`'\"]?(?P<new>[A-Za-z_]\w*)",
    re.IGNORECASE,
)
_HOLDS: Final = re.compile(
    r"(?:and\s+)?(?:(?:make|let|get|have|check|ensure|see|so)\s+(?:sure\s+)?(?:that\s+)?)?(?:[\w-]+\s+){0,4}?"
    r"(?:tests?|test_\w+|checks?|suite|build)\b(?:\s+[\w-]+){0,4}?"
    r"\s+(?:pass(?:es)?|green|succeeds?|works?)(?:\s+(?:again|still|too|then|now|afterwards))?[.!]?"
    r"|(?:and\s+)?run\s+(?:[\w-]+\s+){0,3}?(?:tests?|checks?|suite|build)\b.*"
    r"|(?:and\s+)?(?:please\s+)?(?:do\s+not|don't|never|leave|keep|nothing\s+else|change\s+nothing)\b.*",
    re.IGNORECASE,
)
"""What has to hold, and is nothing to do by itself."""
NOTHING_MORE: Final = re.compile(
    r"[`'\"]?(?:[\s,.]|everywhere|throughout|and|tests?|included|including|the|in|all|files|its|callers|uses|"
    r"(?:whole|entire|repository|repo|project|code ?base|package)\b|[\w-]*[./][\w./-]+)*",
    re.IGNORECASE,
)
"""What may stand behind a rename that is all of a task."""
_NAMELESS: Final = frozenset(
    "it this that them everything class function method helper constant variable module package file property "
    "attribute field member parameter argument option keyword call calls use uses usage occurrence name".split()
)
"""What a task may speak of instead of a name."""
_HOLDERS: Final = frozenset("class struct interface enum exception dataclass trait type".split())
_NO_NEW_NAMES: Final = frozenset("the a an it its this that something one".split())


def parts_of(task: str, found: Sequence[Candidate] = ()) -> tuple[str, ...]:
    """Return the tasks that a task consists of.

    They are its lines, numbered or not, what ``;`` or ``then`` sets apart, and several renames in one sentence.

    Args:
        task: What the user asked for.
        found: The definitions that it may be about.
    """
    pieces = re.split(r"\n+|;\s+|(?:,\s*|\.\s+)?\b(?:and then|then)\b[,:]?\s+", task)
    cleaned = [re.sub(r"^\s*(?:[-*•]|\d+[.)])\s+", "", piece).strip() for piece in pieces]
    known = {name for each in found for name in (each.symbol, each.symbol.rpartition(".")[2])}
    parts: list[str] = []
    for piece in cleaned:
        if parts and renaming(parts[-1]) and (said := _SHORT.match(piece)) is not None and said["old"] in known:
            piece = f"rename {piece}"
        if len(WORD.findall(piece)) > 1:
            parts += _renames_apart(piece, known)
    asking = [part for part in parts if not _asks_for_nothing(part, known)] or parts
    return tuple(asking) if len(parts) > 1 and len(asking) <= MOST_PARTS else (task,)


def _asks_for_nothing(part: str, known: set[str]) -> bool:
    """Tell if a part only says what has to hold once the others are done: that tests pass, that something stays."""
    return _HOLDS.fullmatch(part) is not None and not known & set(WORD.findall(part))


def _renames_apart(piece: str, known: set[str]) -> list[str]:
    """Return "rename a to b and c to d" as two tasks, and note what they make; what follows belongs to the last one."""
    said = _said_renaming(piece)
    if said is None:
        return [piece]
    parts, start, owner = [], 0, ""
    known.add(said["new"])
    # "rename a to b and change to the folder" goes on with something else.
    while (further := _FURTHER.match(piece, said.end())) is not None and further["old"] in known:
        if further["new"].lower() in _NO_NEW_NAMES:
            break
        parts.append(owner + piece[start : said.end()])
        owner = f"{said['new']}." if further["its"] else ""
        is_quoted = piece[further.start("old") - 1] in "`'\""
        start, said = further.start("old") - (is_quoted and not owner), further
        known.add(said["new"])
    parts.append(owner + piece[start:])
    return [parts[0], *(f"rename {part}" for part in parts[1:])]


def renaming(task: str) -> tuple[str, str] | None:
    """Return the old and the new name where a task says outright what is to be renamed to what, else None."""
    said = _said_renaming(task)
    return (_old_name(said), said["new"].rpartition(".")[2]) if said else None


def _old_name(said: re.Match[str]) -> str:
    """Return what is to be renamed, with the class that it is said to lie in; a module or a file is none."""
    owner = said["whose"] or said["owner"] or ""
    is_class = owner[:1].isupper() or (said["owner_kind"] or "").strip().lower() in _HOLDERS
    if not is_class or "/" in owner or grammar_of(owner) or said["old"].startswith(f"{owner}."):
        return said["old"]
    return f"{owner}.{said['old']}"


def _said_renaming(task: str) -> re.Match[str] | None:
    said = _RENAMING.search(task)
    if said is None or said["old"].lower() in _NAMELESS or said["new"].lower() in _NO_NEW_NAMES:
        return None
    if any(grammar_of(said[each]) for each in ("old", "new")):
        return None
    return said


def renamed_parameter(task: str) -> tuple[str, str] | None:
    """Return the old and the new name where a task says outright which parameter is to be called what, else None."""
    said = _PARAMETER_RENAMING.search(task)
    return (said["old"], said["new"]) if said else None


def is_only_rename(task: str, found: Sequence[Candidate]) -> bool:
    """Tell if a task renames a definition that is there, and asks for nothing besides."""
    said = _said_renaming(task)
    if said is None or not any(is_called(each, _old_name(said)) for each in found):
        return False
    return not task[: said.start()].strip() and NOTHING_MORE.fullmatch(task, said.end()) is not None


def in_plain_words(part: str, found: Sequence[Candidate], stands: Callable[[str], bool]) -> str:
    """Return "replace `A` with `B`" as the rename that it is if A is defined here and B is nothing yet.

    Args:
        part: A task, or a part of one.
        found: The definitions that it may be about.
        stands: Tells if a name stands anywhere in the repository.
    """
    said = _REPLACING.match(part.strip())
    if said is None or not (said["old"] + said["new"]).isidentifier() or hasattr(builtins, said["new"]):
        return part
    renamed = f"rename {said['old']} to {said['new']}{part.strip()[said.end() :]}"
    return renamed if is_only_rename(renamed, found) and not stands(said["new"]) else part


def made_by(call: ToolCall) -> tuple[str, str] | None:
    """Return path and symbol of what a call leaves under another name or in another file; None for other calls."""
    path, symbol = str(call.arguments.get("path", "")), str(call.arguments.get("symbol", ""))
    match call.name:
        case "rename" if not symbol:
            return str(PurePosixPath(path).with_stem(str(call.arguments.get("new_name", "")))), ""
        case "rename":
            return path, ".".join([*symbol.split(".")[:-1], str(call.arguments.get("new_name", ""))])
        case "move":
            return str(call.arguments.get("destination", "")), symbol
        case _:
            return None


def after(call: ToolCall, found: Sequence[Candidate]) -> Sequence[Candidate]:
    """Return the definitions that a task may be about once a call is done."""
    made = made_by(call)
    if made is None:
        return found
    place = str(call.arguments.get("path", "")), str(call.arguments.get("symbol", ""))
    return [
        replace(each, path=made[0], symbol=made[1] + each.symbol[len(place[1]) :]) if _is_in(each, *place) else each
        for each in found
    ]


def needs(call: ToolCall, earlier: ToolCall) -> bool:
    """Tell if a call is about what an earlier one makes."""
    made = made_by(earlier)
    place = Candidate(str(call.arguments.get("path", "")), str(call.arguments.get("symbol", "")), "", 1)
    return made is not None and _is_in(place, *made)


def _is_in(candidate: Candidate, path: str, symbol: str) -> bool:
    lies_in = not symbol or candidate.symbol == symbol or candidate.symbol.startswith(f"{symbol}.")
    return candidate.path == path and lies_in
