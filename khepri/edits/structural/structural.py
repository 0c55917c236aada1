"""Replaces code by its structure, in many languages, with ast-grep.

A pattern is code with holes: ``$NAME`` stands for one node and ``$$$NAME`` for any number of them, as in
``os.path.join($$$PARTS)``. What a hole took is put where the replacement names it, in brackets where it needs them.
"""

import re
from typing import Final

from khepri.edits.change import FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Source, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename import Refactoring
from khepri.edits.rename.rename_notes import shown
from khepri.edits.soundness import new_fault
from khepri.edits.structural.accounting import HOLE, named, nameless
from khepri.edits.structural.filling import fill
from khepri.edits.structural.replaced_imports import notes_on_imports
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.grammars import grammar_of
from khepri.repo.ignore import select_files
from khepri.repo.text import counted

_LANGUAGES: Final = frozenset(
    "python javascript typescript tsx go rust java kotlin scala c cpp csharp ruby php bash lua swift".split()
)
"""Grammars of ours that ast-grep has under the same name; it panics on others."""
_MOST_SHOWN: Final = 5
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BARE: Final = re.compile(r"[\s()\[\]{}.,:;]*")
"""What is left of a pattern that is nothing but holes and the marks between them: any code has such a shape."""


def replace_code(
    workspace: Workspace, pattern: str, replacement: str, path: str | None = None, glob: str | None = None
) -> Refactoring:
    """Replace every piece of code that has the shape of ``pattern``.

    Args:
        workspace: Where.
        pattern: Code with holes; it must be whole in each language that it is tried in.
        replacement: Code with the same holes, or without.
        path: A file or folder; None for the whole repository.
        glob: Only files that match it.

    Raises:
        EditRefusedError: Nothing matches, the replacement has a hole that the pattern has not, a file would not be
            valid any more, or nothing would change.
        ToolError: The path or the glob is refused.
    """
    holes = {match.group() for match in HOLE.finditer(pattern)}
    missing = [match.group() for match in HOLE.finditer(replacement) if match.group() not in holes]
    if nameless(replacement):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{nameless(replacement)} in the replacement keeps nothing of what it takes",
            "give it a name, such as $A or $$$A, in the pattern and in the replacement",
        )
    if missing:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{missing[0]} is in the replacement and not in the pattern", "name the same holes"
        )
    if _BARE.fullmatch(HOLE.sub("", named(pattern))):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"the pattern {pattern[:60]!r} would match anything", "write some code into it"
        )
    words = _WORD.findall(HOLE.sub(" ", pattern))
    found: list[FileChange] = []
    matches, left, more, near, notes = 0, [], [], [], []
    hidden: dict[str, list[str]] = {}
    folder = workspace.repository.relative(workspace.repository.resolve(path)) if path else "."
    for name in select_files(workspace.files(), folder, glob):
        source = _source(workspace, name, words)
        if source is None:
            continue
        language = grammar_of(source.path)
        assert language is not None
        filled = fill(source.text, language.name, pattern, replacement.strip())
        matches += filled.count + len(filled.left) + len(filled.beyond) + len(filled.hidden)
        for line, word in filled.hidden:
            hidden.setdefault(word, []).append(f"{source.path}:{line}")
        more += [f"{source.path}:{line} ({rest})" for line, rest in filled.beyond]
        left += [f"{source.path}:{line}" for line in filled.left]
        near += [f"{source.path}:{line}" for line in filled.near]
        if filled.text != source.text:
            change = FileChange(source.path, source.data, replace_text(source.data, filled.text, source.path))
            _check_valid(change)
            notes += notes_on_imports(change, replacement)
            found.append(change)
    title = f"replace {pattern} with {replacement}"
    if not matches:
        raise EditRefusedError(
            Refusal.NO_TARGET,
            f"no code has the shape {pattern}" + (f", though {near[0]} looks like it" if near else ""),
            "check the pattern against a line that should match",
        )
    if not found and hidden:
        word, places = next(iter(hidden.items()))
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{title}: {word} means something else at {shown([*dict.fromkeys(places)])}",
            "name it in another way in the replacement, such as with its module, and import that",
        )
    if not found and left:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{title}: what stands at {left[0]} would mean something else",
            "write the pattern so that it takes the whole expression or statement",
        )
    if not found and more:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{title}: the pattern does not account for all that stands at {more[0]}, and it would be lost",
            "write the pattern so that it takes that too, with a hole such as $B or $$$REST",
        )
    if not found:
        raise EditRefusedError(Refusal.NO_OP, f"{title}: nothing would change")
    if near:
        looks, were = ("looks", "was") if len(near) == 1 else ("look", "were")
        notes.append(
            f"{counted(len(near), 'place')} that {looks} like it, in another shape, {were} left: {shown(near)}"
        )
    if more:
        notes.insert(
            0, f"{len(more)} of them hold more than the pattern takes and were left: {', '.join(more[:_MOST_SHOWN])}"
        )
    if left:
        notes.insert(0, f"{len(left)} of them would mean something else and were left: {', '.join(left[:_MOST_SHOWN])}")
    for word, places in hidden.items():
        were = "was" if len(places) == 1 else "were"
        where = shown([*dict.fromkeys(places)])
        notes.insert(0, f"{len(places)} of them {were} left, where {word} means something else: {where}")
    return Refactoring(change_set(title, found), (f"{matches} places match", *notes))


def _source(workspace: Workspace, path: str, words: list[str]) -> Source | None:
    """Return a file in which the pattern may match, or None."""
    language = grammar_of(path)
    if language is None or language.name not in _LANGUAGES:
        return None
    try:
        source = read_source(workspace, path)
    except (EditRefusedError, ToolError):  # binary, too large, or gone since it was listed
        return None
    return source if all(word in source.text for word in words) else None


def _check_valid(change: FileChange) -> None:
    fault = new_fault(change)
    if fault is not None:
        raise EditRefusedError(
            Refusal.SYNTAX,
            f"{change.path} would not be valid any more: {fault.message} in line {fault.line}",
            "let the pattern and the replacement be whole expressions or statements",
        )
