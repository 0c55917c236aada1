"""The tool ``git``: the log, a commit, a diff, the origin of lines, and the status, all read-only."""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from khepri.errors import ToolError
from khepri.repo import git
from khepri.repo.text import counted, cut_line, printable
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import check_shown, fit

_MOST_COMMITS: Final = 30
_MOST_CHARS: Final = 200
_RANGE: Final = re.compile(r"^\s*L?(\d+)\s*(?:(?:[-,:.]|to)+\s*L?(\d+))?\s*$")


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Answer one of the five questions about history.

    Raises:
        ToolError: There is no git or no commit, or an argument is refused.
    """
    return _ACTIONS[str(arguments["action"])](context, arguments)


def _log(context: ToolContext, arguments: Arguments) -> Observation:
    ref = _text(arguments, "ref")
    commits = git.log(context.repository, path=_text(arguments, "path"), ref=ref, max_count=_MOST_COMMITS + 1)
    rows = [f"{commit.sha} {commit.date} {commit.author}: {commit.subject}" for commit in commits[:_MOST_COMMITS]]
    if not rows:
        return _observe(context, ["no commit touches it"], "no commits")

    def note(kept: int) -> str:
        return f"[cut: older commits; use log with ref {commits[max(0, kept - 1)].sha}~1]"

    closing = [note(len(rows))] if len(commits) > _MOST_COMMITS else []
    return _observe(context, [*rows, *closing], counted(len(rows), "commit"), note)


def _show(context: ToolContext, arguments: Arguments) -> Observation:
    patch = git.show(context.repository, ref=_text(arguments, "ref"), path=_text(arguments, "path"))
    return _patch(context, patch, "empty")


def _diff(context: ToolContext, arguments: Arguments) -> Observation:
    patch = git.diff(context.repository, ref=_text(arguments, "ref"), path=_text(arguments, "path"))
    return _patch(context, patch, "no difference (files that git does not track are not compared)")


def _patch(context: ToolContext, patch: git.Patch, nothing: str) -> Observation:
    left_out = [f"[left out: {patch.hidden} hidden files]"] if patch.hidden else []
    rows = [*left_out, *(patch.text.split("\n") if patch.text else [nothing])]

    def note(kept: int) -> str:
        headers = [row for row in rows[:kept] if row.startswith("diff --git ")]
        unseen = [path for path in patch.paths if not any(header.endswith(f" b/{path}") for header in headers)]
        named = f" of {', '.join(unseen[:6])}{', …' if len(unseen) > 6 else ''}" if unseen else ""
        return f"[cut: {len(rows) - kept} more lines{named}; name a path]"

    return _observe(context, rows, counted(len(patch.paths), "file"), note, patch.paths)


def _blame(context: ToolContext, arguments: Arguments) -> Observation:
    path = _text(arguments, "path")
    if path is None:
        raise ToolError("blame needs a path", "name a file")
    first, last = _span(_text(arguments, "lines"))
    lines = git.blame(context.repository, path, first=first, last=last, ref=_text(arguments, "ref"))
    name = context.repository.history_path(path)
    rows = [f"{name}:{line.number}: {line.sha} {line.date} {line.author}: {line.text}" for line in lines]

    def note(kept: int) -> str:
        return f"[cut: {len(rows) - kept} more lines; use blame with lines {lines[kept].number}-{lines[-1].number}]"

    commits = len({line.sha for line in lines})
    return _observe(context, rows, f"{counted(len(lines), 'line')} of {counted(commits, 'commit')}", note, (name,))


def _status(context: ToolContext, arguments: Arguments) -> Observation:
    rows = list(git.status(context.repository))
    changed = len(rows) - 1
    return _observe(context, rows if changed > 0 else [*rows, "nothing changed"], f"{changed} changed")


_ACTIONS: Final[Mapping[str, Callable[[ToolContext, Arguments], Observation]]] = {
    "log": _log,
    "show": _show,
    "diff": _diff,
    "blame": _blame,
    "status": _status,
}


def _observe(
    context: ToolContext,
    rows: Sequence[str],
    summary: str,
    note: Callable[[int], str] | None = None,
    paths: tuple[str, ...] = (),
) -> Observation:
    shown = [cut_line(printable(row).rstrip(), _MOST_CHARS) for row in rows]
    fitted = fit(shown, context.count_tokens, context.budget_tokens, note)
    check_shown(fitted, "it")
    seen = tuple(path for path in paths if path in fitted.text)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=summary, paths=seen)


def _span(lines: str | None) -> tuple[int | None, int | None]:
    if lines is None:
        return None, None
    match = _RANGE.match(lines)
    if match is None:
        raise ToolError(f"{lines[:40]!r} are no lines", "write 10-20")
    first = max(1, int(match[1]))
    return first, max(first, int(match[2] or match[1]))


def _text(arguments: Arguments, name: str) -> str | None:
    value = arguments.get(name)
    return value if isinstance(value, str) else None
