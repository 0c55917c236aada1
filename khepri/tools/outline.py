"""The tool ``outline``: what a file or a folder defines, with lines, so that the model can read just one definition."""

from collections.abc import Iterable
from typing import Final

from khepri.errors import ToolError
from khepri.repo.symbols import Symbol, outline
from khepri.repo.text import cut_line, printable, read_text
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import fit

_MOST_CHARS: Final = 120
_MOST_FILES: Final = 60
_NAMES_PER_FILE: Final = 12
_CUT_NOTE: Final = "[cut: {} more; name a smaller folder or one file]"


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """List definitions: all of a file, the top ones of a folder's files.

    Raises:
        ToolError: The path is refused, or the file is binary.
    """
    repository = context.repository
    real = repository.resolve(str(arguments["path"]))
    path = repository.relative(real)
    if real.is_dir():
        rows = list(_of_files(context, repository.select(path, None)))
        empty, summary = f"no file below {path} defines anything", f"{len(rows)} files"
    else:
        symbols = outline(path, read_text(real).text)
        rows = [_row(symbol) for symbol in symbols]
        empty, summary = f"{path} defines nothing that can be told; read it instead", f"{len(rows)} symbols"
    if not rows:
        return Observation(text=empty, tokens=context.count_tokens(empty), summary="nothing")
    fitted = fit(
        rows,
        context.count_tokens,
        context.budget_tokens,
        lambda kept: _CUT_NOTE.format(len(rows) - kept),
        header=f"{path}:",
    )
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=summary, paths=(path,))


def _row(symbol: Symbol) -> str:
    """Return ``start-end signature``, indented by the depth of the definition."""
    depth = symbol.qualified_name.count(".") if symbol.kind != "heading" else 0
    signature = cut_line(printable(symbol.signature), _MOST_CHARS)
    return f"{symbol.start_line}-{symbol.end_line}  {'  ' * depth}{signature}"


def _of_files(context: ToolContext, files: Iterable[str]) -> Iterable[str]:
    """Yield a row for each file that defines something; files that cannot be read are passed over."""
    for count, file in enumerate(files):
        if count >= _MOST_FILES:
            yield f"… only the first {_MOST_FILES} files were looked at"
            return
        try:
            symbols = outline(file, read_text(context.repository.resolve(file)).text)
        except ToolError:
            continue
        top = [s for s in symbols if "." not in s.qualified_name]
        if top:
            names = ", ".join(f"{s.name}:{s.start_line}" for s in top[:_NAMES_PER_FILE])
            more = f" and {len(top) - _NAMES_PER_FILE} more" if len(top) > _NAMES_PER_FILE else ""
            yield f"{file}: {printable(names)}{more}"
