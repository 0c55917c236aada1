"""Replaces code by its structure, in many languages, with ast-grep.

A pattern is code with holes: ``$NAME`` stands for one node and ``$$$NAME`` for any number of them, as in
``os.path.join($$$PARTS)``. What a hole took is put where the replacement names it.
"""

import re
from typing import Final

from ast_grep_py import SgNode, SgRoot

from khepri.edits.change import FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Source, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.grammars import grammar_of
from khepri.repo.ignore import select_files

_LANGUAGES: Final = frozenset(
    "python javascript typescript tsx go rust java kotlin scala c cpp csharp ruby php bash lua swift".split()
)
"""Grammars of ours that ast-grep has under the same name; it panics on others."""
_HOLE: Final = re.compile(r"\$\$\$([A-Z_][A-Z0-9_]*)|\$([A-Z_][A-Z0-9_]*)")
_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]{2,}")


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
        EditRefusedError: Nothing matches, the replacement has a hole that the pattern has not, or nothing would change.
        ToolError: The path or the glob is refused.
    """
    holes = {match.group(1) or match.group(2) for match in _HOLE.finditer(pattern)}
    missing = [match.group() for match in _HOLE.finditer(replacement) if (match[1] or match[2]) not in holes]
    if missing:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{missing[0]} is in the replacement and not in the pattern", "name the same holes"
        )
    if not _WORD.search(_HOLE.sub("", pattern)):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"the pattern {pattern[:60]!r} would match anything", "write some code into it"
        )
    words = _WORD.findall(_HOLE.sub(" ", pattern))
    found: list[FileChange] = []
    matches = 0
    folder = workspace.repository.relative(workspace.repository.resolve(path)) if path else "."
    for name in select_files(workspace.files(), folder, glob):
        source = _source(workspace, name, words)
        if source is None:
            continue
        text, count = _replaced(source, pattern, replacement)
        matches += count
        if text != source.text:
            found.append(FileChange(source.path, source.data, replace_text(source.data, text)))
    title = f"replace {pattern} with {replacement}"
    if not matches:
        raise EditRefusedError(
            Refusal.NO_TARGET, f"no code has the shape {pattern}", "check the pattern against a line that should match"
        )
    if not found:
        raise EditRefusedError(Refusal.NO_OP, f"{title}: nothing would change")
    return Refactoring(change_set(title, found), (f"{matches} places match",))


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


def _replaced(source: Source, pattern: str, replacement: str) -> tuple[str, int]:
    language = grammar_of(source.path)
    assert language is not None
    text = source.text
    nodes: list[SgNode] = []
    for node in SgRoot(text, language.name).root().find_all(pattern=pattern):
        # A match inside another one would be written over by it.
        if not nodes or node.range().start.index >= nodes[-1].range().end.index:
            nodes.append(node)
    for node in reversed(nodes):
        place = node.range()
        text = text[: place.start.index] + _filled(node, text, replacement) + text[place.end.index :]
    return text, len(nodes)


def _filled(node: SgNode, text: str, replacement: str) -> str:
    def fill(match: re.Match[str]) -> str:
        if match[1]:
            many = node.get_multiple_matches(match[1])
            return text[many[0].range().start.index : many[-1].range().end.index] if many else ""
        one = node.get_match(match[2])
        return one.text() if one is not None else ""

    return _HOLE.sub(fill, replacement)
