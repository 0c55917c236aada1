"""Finds what changes in the head of a definition though nobody asked for it, where a model wrote the definition anew.

A parameter that goes, a type, a default or an ``async`` that is not there any more breaks those who use the definition,
and none of them has been looked at. What only adds to it breaks nobody, and is told.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.writing.heads import Head, Parameter, heads_of

_WORD: Final = re.compile(r"\w+")
_OF_PARAMETERS: Final = re.compile(
    r"parameter|params?$|argument|args?$|option|keyword|positional|flag|accept|take|passed|signature|receive|overload"
    r"|default"
)
_OF_REMOVAL: Final = re.compile(r"remov|drop|delet|without$|instead$|renam|replac|rid$|unused|longer$|more$|nots?$")
_OF_ORDER: Final = re.compile(r"order|swap|signature|position")
_OF_PLACE: Final = re.compile(rf"{_OF_ORDER.pattern}|first|second|third|before|front|leading")
_OF_ANNOTATED: Final = re.compile(r"types?$|typed|untyped|typing|hint|annotat|signature")
_OF_TYPES: Final = re.compile(
    rf"{_OF_ANNOTATED.pattern}|optional|none$|null|undefined|generic|accept|take|allow|support|handle"
)
_OF_DEFAULTS: Final = re.compile(r"default|optional|required|mandatory|omit|signature")
_OF_RESULTS: Final = re.compile(r"return|result|yield|generator|iterator|throw|error|promise|future|await|async")
_ON_OCCASION: Final = re.compile(
    r"\breturn(?:s|ing)?\b[^.;]{1,60}?\b(?:if|when|unless|where|in case|on (?:failure|error|overflow)"
    r"|for (?:no|an?|any|empty|invalid|missing|negative|bad|wrong|unknown|zero|null|nil))\b",
    re.IGNORECASE,
)
_OF_NO_RESULT: Final = re.compile(r"nothing$|void$")
_OF_ASYNC: Final = re.compile(r"async|await|synchron|corouti|promise|block|concurren|parallel|suspend|signature")
_OF_ACCESS: Final = re.compile(
    r"public|private|protected|visib|expos|export|import|internal|hidden|hide|access|signature|modul"
)
_OF_STATIC: Final = re.compile(r"static|classmethod|instance|self$|propert|getter|setter|signature")
_OF_ANNOTATIONS: Final = re.compile(r"decorat|annotat")
_OF_KIN: Final = re.compile(
    r"inherit|subclass|baseclass|bases?$|extend|mixin|implement|deriv|parent|superclass|trait|generic"
)
_OF_MARKS: Final = {
    "async": _OF_ASYNC,
    "suspend": _OF_ASYNC,
    **dict.fromkeys("public private protected internal pub export default fileprivate open sealed".split(), _OF_ACCESS),
    **dict.fromkeys("static get set".split(), _OF_STATIC),
}
_DECORATORS_APART: Final = (".py", ".pyi")
"""Files whose decorators are looked at with what they are called with, elsewhere."""


@dataclass(frozen=True)
class Unasked:
    """One thing that changes in a head."""

    what: str
    breaks: bool
    """True if those who use the definition may have to change with it."""
    line: str
    """The head as it was."""
    name: str
    """The definition, by its qualified name."""


def refuse_unasked(path: str, old: str, new: str, task: str) -> None:
    """Refuse a new text of a file in which the head of a definition changes unasked, so that its users may break.

    Args:
        path: The file, for the language.
        old: Its text as it was.
        new: Its text as it would be.
        task: What the user asked for, with what else may ask for a change of a head.

    Raises:
        EditRefusedError: One does.
    """
    found = next((each for each in _changes(path, old, new, task) if each.breaks), None)
    if found is not None:
        raise EditRefusedError(
            Refusal.UNASKED,
            f"{found.what}, and the task does not ask for that",
            f"begin {found.name.rpartition('.')[2]} as it is: {found.line}",
        )


def told_of_unasked(path: str, old: str, new: str, task: str) -> tuple[str, ...]:
    """Return what changes in heads unasked and breaks nobody, each in a sentence for the review."""
    return tuple(
        f"in {path}, {each.what}, which the task does not ask for; look well"
        for each in _changes(path, old, new, task)
        if not each.breaks
    )


def broken_heads(path: str, old: str, new: str) -> tuple[str, ...]:
    """Return the definitions whose heads change so that their users may have to follow, asked for or not."""
    return tuple(dict.fromkeys(each.name for each in _changes(path, old, new, "") if each.breaks))


def _changes(path: str, old: str, new: str, task: str) -> Iterator[Unasked]:
    before, after = heads_of(path, old), heads_of(path, new)
    said = _Said(task)
    for name, head in before.items():
        if name in after and after[name] != head:
            for what, breaks in _between(head, after[name], name, said, path):
                yield Unasked(what, breaks, head.line, name)


class _Said:
    """The words of a task, in lower case."""

    def __init__(self, task: str) -> None:
        self.returns_on_occasion = _ON_OCCASION.search(task) is not None
        """True if something is to be returned in some case only: what is returned in others stays."""
        self._words = {word.lower() for word in _WORD.findall(task)}

    def speaks(self, of: re.Pattern[str]) -> bool:
        """Return True if a word begins as the pattern says."""
        return any(of.match(word) for word in self._words)

    def names(self, *texts: str) -> bool:
        """Return True if a word of the texts is a word of the task."""
        return any(word.lower() in self._words for text in texts for word in _WORD.findall(text))


def _between(old: Head, new: Head, name: str, said: _Said, path: str) -> Iterator[tuple[str, bool]]:
    yield from _in_parameters(old.parameters, new.parameters, name, said)
    lost = [word for word in _WORD.findall(old.result) if word not in _WORD.findall(new.result)]
    if new.result and lost and said.returns_on_occasion and not said.names(*lost):
        yield f"{name} returns {new.result} now, and {old.result} never", True
    elif old.result != new.result and not said.names(*_differing(old.result, new.result)):
        if not new.result:
            if not (said.speaks(_OF_ANNOTATED) or said.speaks(_OF_NO_RESULT)):
                yield f"{name} does not say any more that it returns {old.result}", True
        elif not (said.speaks(_OF_RESULTS) or said.speaks(_OF_TYPES)):
            yield f"{name} returns {new.result} now{f', not {old.result}' * bool(old.result)}", bool(old.result)
    if old.kin != new.kin and not said.speaks(_OF_KIN) and not said.names(*_differing(old.kin, new.kin)):
        yield f"the head of {name} changes from `{old.line}` to `{new.line}`", True
    for mark in sorted(old.marks ^ new.marks):
        if mark.startswith("@"):
            if path.endswith(_DECORATORS_APART) or said.speaks(_OF_ANNOTATIONS):
                continue
        if said.names(mark) or ((of := _OF_MARKS.get(mark)) is not None and said.speaks(of)):
            continue
        yield f"{mark} of {name} is gone" if mark in old.marks else f"{name} is {mark} now", True


def _in_parameters(
    old: Sequence[Parameter], new: Sequence[Parameter], name: str, said: _Said
) -> Iterator[tuple[str, bool]]:
    before, after = {each.name: each for each in old}, {each.name: each for each in new}
    if len(before) < len(old) or len(after) < len(new):
        return
    speaks_of_parameters = said.speaks(_OF_PARAMETERS)
    for place, each in enumerate(old):
        is_empty_mark = not _WORD.search(each.name) and not after.keys() & {later.name for later in old[place:]}
        if each.name not in after and not is_empty_mark and not _may_go(each, place == 0, said):
            yield f"the parameter {each.name} of {name} is gone", True
    kept = [each.name for each in old if each.name in after]
    for place, each in enumerate(new):
        if each.name in before or (place == 0 and said.speaks(_OF_STATIC)):
            continue
        behind = next((later.name for later in new[place:] if later.name in before), "")
        is_in_the_way = behind and not any(earlier.declared.startswith("*") for earlier in new[: place + 1])
        if not (speaks_of_parameters or said.names(each.name)):
            yield f"{name} takes {each.name} as well", bool(is_in_the_way) or not each.may_be_left_out
        elif is_in_the_way and each.may_be_left_out and not said.speaks(_OF_PLACE):
            yield f"{each.name} comes before {behind} among the parameters of {name}", True
    if kept != [each.name for each in new if each.name in before] and not said.speaks(_OF_ORDER):
        yield f"the parameters of {name} change their order", True
    for parameter in kept:
        yield from _in_one(before[parameter], after[parameter], name, said)


def _may_go(parameter: Parameter, is_first: bool, said: _Said) -> bool:
    if not _WORD.search(parameter.name):  # a mark between the parameters, such as *
        return said.speaks(_OF_PARAMETERS)
    is_named = said.names(parameter.name) and (said.speaks(_OF_PARAMETERS) or said.speaks(_OF_REMOVAL))
    return is_named or (is_first and said.speaks(_OF_STATIC))


def _in_one(old: Parameter, new: Parameter, name: str, said: _Said) -> Iterator[tuple[str, bool]]:
    whose = f"{old.name}, a parameter of {name},"
    if old.declared != new.declared and not said.names(*_differing(old.declared, new.declared)):
        if _is_bare(new):
            if not said.speaks(_OF_ANNOTATED):
                yield f"the type of {whose} is gone", True
        elif not said.speaks(_OF_TYPES):
            was = f" and not {old.declared}" * (not _is_bare(old))
            yield f"{whose} is declared as {new.declared}{was}", not _is_bare(old)
    if old.default != new.default and not said.names(*_differing(old.default, new.default)):
        if not said.speaks(_OF_DEFAULTS):
            was = f" and not {old.default}" * bool(old.default)
            now = f"is {new.default}{was}" if new.default else "is gone"
            yield f"the default of {whose} {now}", bool(old.default)


def _is_bare(parameter: Parameter) -> bool:
    """Return True for a parameter without a type."""
    return parameter.declared.strip("*&.$") == parameter.name


def _differing(old: str, new: str) -> list[str]:
    """Return the words of two texts that only one of them has."""
    before, after = set(_WORD.findall(old)), set(_WORD.findall(new))
    return sorted(before ^ after)
