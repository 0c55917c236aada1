"""The tool ``list``: the files of a folder, or those that match a glob, with their sizes.

Every row begins with a path from the root that the other tools take as it is.
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from khepri.errors import ToolError
from khepri.repo.root import Repository
from khepri.repo.text import counted, printable, read_text
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import check_shown, fit

_DEEPEST: Final = 3
_MOST_COUNTED_BYTES: Final = 1_000_000
_MOST_ROWS: Final = 500


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Show a folder as deep as the budget allows, or the matches of a glob.

    Raises:
        ToolError: The path is refused, or the repository has no work tree.
    """
    repository = context.repository
    if repository.is_bare:
        raise ToolError("this is a bare repository: it has no files to read", "use git with action log")
    repository.refresh()
    path, glob, depth = arguments.get("path"), arguments.get("glob"), arguments.get("depth")
    folder = repository.relative(repository.resolve(path)) if isinstance(path, str) else "."
    files = repository.select(folder, glob if isinstance(glob, str) else None)
    if not files:
        return _nothing(context, folder, glob)
    if glob or files == (folder,):
        rows = list(files)
    elif isinstance(depth, int):
        rows = _tree(files, folder, depth)
    else:
        rows = _tree_within(context, files, folder)
    note = _unnameable(repository)
    shown = [_row(repository, files, row) for row in rows[:_MOST_ROWS]] + [""] * max(0, len(rows) - _MOST_ROWS)
    fitted = fit(
        [*shown, *note],
        context.count_tokens,
        context.budget_tokens,
        lambda kept: f"[cut: {len(shown) - kept} more; list one of the folders, or name a glob]",
    )
    check_shown(fitted, folder)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=counted(len(files), "file"))


def _nothing(context: ToolContext, folder: str, glob: object) -> Observation:
    place = "" if folder == "." else f" in {folder}"
    reason = f"no file matches {printable(str(glob))}{place}" if glob else f"no visible file{place}"
    text = "\n".join([f"{reason}; use list without a glob" if glob else reason, *_unnameable(context.repository)])
    return Observation(text=text, tokens=context.count_tokens(text), summary="no files")


def _tree_within(context: ToolContext, files: Sequence[str], folder: str) -> list[str]:
    for depth in range(_DEEPEST, 1, -1):
        rows = _tree(files, folder, depth)
        # Sizes are added only to what is shown; six tokens a row are about what they cost.
        room = context.budget_tokens - 6 * len(rows)
        if room > len(rows) and context.count_tokens("\n".join(rows)) <= room:
            return rows
    return _tree(files, folder, 1)


def _tree(files: Sequence[str], folder: str, depth: int) -> list[str]:
    """Return files down to ``depth`` below the folder, and in place of deeper ones their folder with a final ``/``."""
    start = 0 if folder == "." else folder.count("/") + 1
    rows: dict[str, None] = {}
    for file in files:
        parts = file.split("/")
        deepest = start + depth
        rows[file if len(parts) <= deepest else "/".join(parts[:deepest]) + "/"] = None
    return list(rows)


def _row(repository: Repository, files: Sequence[str], row: str) -> str:
    if row.endswith("/"):
        # The files of a folder lie side by side in the sorted list, and "0" is what follows "/" in it.
        inside = files[bisect_left(files, row) : bisect_left(files, row[:-1] + "0")]
        kinds = Counter(Path(file).suffix or Path(file).name for file in inside)
        most = ", ".join(kind for kind, _ in kinds.most_common(2))
        return f"{row}  {len(inside)} file{'s' * (len(inside) != 1)} ({most})"
    return f"{row}  {_size(repository.root / row)}"


def _size(path: Path) -> str:
    try:
        file = read_text(path, _MOST_COUNTED_BYTES)
    except ToolError as error:
        return error.message
    if file.is_cut:
        return f"{file.size_bytes / 1e6:.1f} MB"
    lines = file.text.count("\n") + (not file.text.endswith("\n") and file.text != "")
    return f"{lines} lines" if lines != 1 else "1 line"


def _unnameable(repository: Repository) -> list[str]:
    count = repository.unnameable_files
    return [f"[left out: {count} files whose names are not printable text]"] if count else []
