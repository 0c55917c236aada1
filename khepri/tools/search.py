"""The tool ``search``: lines that match a text or a regular expression.

Small models guess at words. So a text that only makes sense as a regular expression is tried as one, and when nothing
is found the answer says which parts of the pattern do occur.
"""

import re
from typing import Final

from khepri.errors import ToolError
from khepri.repo.root import Repository
from khepri.repo.search import FoundLine, SearchResult, search
from khepri.repo.text import cut_line, printable
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import fit

_MOST_MATCHES: Final = 60
_MOST_CHARS: Final = 200
_MOST_NAMED: Final = 5
_REGEX_SIGNS: Final = re.compile(r"\.[*+?]|\\[bdswBDSW.(]|\||\[.*\]|^\^|\$$")
_WORDS: Final = re.compile(r"[A-Za-z0-9]{3,}")


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Show the matching lines as ``path:line: text``, a few of every file first.

    Raises:
        ToolError: The pattern or the path is refused, or the search took too long.
    """
    repository = context.repository
    if repository.is_bare:
        raise ToolError("this is a bare repository: it has no files to read", "use git with action log")
    repository.refresh()
    pattern = str(arguments["pattern"])
    around = arguments.get("context")
    lines_around = around if isinstance(around, int) else 0
    literal = arguments.get("regex") is not True
    path, glob = _text(arguments, "path"), _text(arguments, "glob")

    result = _search(repository, pattern, literal, path, glob, lines_around)
    notes: list[str] = []
    if not result.matches and literal and _REGEX_SIGNS.search(pattern):
        try:
            result = _search(repository, pattern, False, path, glob, lines_around)
            notes.append("[matched as a regular expression]")
        except ToolError:
            notes.append("[not a regular expression either]")
    if not result.matches:
        return _nothing(context, pattern, path, glob, result, notes)
    return _show(context, result, notes, lines_around)


def _search(
    repository: Repository, pattern: str, literal: bool, path: str | None, glob: str | None, around: int
) -> SearchResult:
    return search(repository, pattern, literal=literal, path=path, glob=glob, context=around, max_matches=_MOST_MATCHES)


def _show(context: ToolContext, result: SearchResult, notes: list[str], around: int) -> Observation:
    rows: list[str] = []
    owners: list[str] = []
    matches_before: list[int] = []
    shown = 0
    for file in result.files:
        previous = 0
        for line in file.lines:
            if around and rows and line.number != previous + 1:
                rows.append("--")
                owners.append("")
                matches_before.append(shown)
            previous = line.number
            rows.append(_row(file.path, line, keep_indent=around > 0))
            owners.append(file.path)
            shown += line.column >= 0
            matches_before.append(shown)

    def note(kept: int) -> str:
        left = result.matches - (matches_before[min(kept, len(rows)) - 1] if kept else 0)
        present = set(owners[:kept])
        rest = [file for file in result.files if file.path not in present]
        named = ", ".join(f"{file.path} ({file.matches})" for file in rest[:_MOST_NAMED])
        more = f" and {len(rest) - _MOST_NAMED} more files" if len(rest) > _MOST_NAMED else ""
        where = f" in {named}{more}" if named else ""
        return f"[cut: {left} more matches{where}; name a path or a longer pattern]"

    # A result that is capped already keeps its note even if every row fits.
    closing = [note(len(rows))] if result.is_cut else []
    fitted = fit([*notes, *rows, *closing], context.count_tokens, context.budget_tokens, lambda k: note(k - len(notes)))
    paths = tuple(dict.fromkeys(owner for owner in owners[: max(0, fitted.kept - len(notes))] if owner))
    count = f"{result.matches} match" + ("es" if result.matches != 1 else "")
    files = f"{len(result.files)} file" + ("s" if len(result.files) != 1 else "")
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=f"{count} in {files}", paths=paths)


def _row(path: str, line: FoundLine, *, keep_indent: bool) -> str:
    text = line.text
    if line.column > _MOST_CHARS // 2 and len(text) > _MOST_CHARS:
        # In a minified file the match is far from the beginning of its line.
        text = "…" + text[line.column - _MOST_CHARS // 4 :]
    shown = cut_line(printable(text.rstrip() if keep_indent else text.strip()), _MOST_CHARS)
    return f"{path}:{line.number}: {shown}" if line.column >= 0 else f"{path}-{line.number}- {shown}"


def _nothing(
    context: ToolContext, pattern: str, path: str | None, glob: str | None, result: SearchResult, notes: list[str]
) -> Observation:
    place = "".join([f" in {path}" if path else "", f" in files that match {glob}" if glob else ""])
    rows = [f"no match for {printable(pattern[:80])}{place} ({result.searched_files} files searched)", *notes]
    rows += _hints(context.repository, pattern, path, glob)
    fitted = fit(rows, context.count_tokens, context.budget_tokens)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary="no match")


def _hints(repository: Repository, pattern: str, path: str | None, glob: str | None) -> list[str]:
    """Return what would be found: elsewhere, in another case, or by a single word of the pattern."""
    tries: list[tuple[str, str, str | None, str | None]] = []
    if path or glob:
        tries.append((f"{printable(pattern[:80])} in the whole repository", pattern, None, None))
    if pattern != pattern.lower():
        tries.append(("ignoring case", pattern.lower(), path, glob))
    words = sorted({word.lower() for word in _WORDS.findall(pattern)}, key=lambda word: (-len(word), word))
    tries += [(word, word, None, None) for word in words[:3] if word != pattern.lower()]
    rows: list[str] = []
    for label, text, where, which in tries:
        found = search(repository, text, path=where, glob=which, max_matches=1)
        if found.matches:
            most = max(found.files, key=lambda file: (file.matches, file.path))
            rows.append(f"{label}: {found.matches} matches in {len(found.files)} files, most in {most.path}")
    return rows or ["try a shorter or another word"]


def _text(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None
