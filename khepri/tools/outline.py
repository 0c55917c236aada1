"""The tool ``outline``: what a file or a folder defines, with lines, so that the model can read just one definition."""

from collections.abc import Iterable, Sequence
from typing import Final

from khepri.errors import ToolError
from khepri.repo.symbols import Symbol, outline
from khepri.repo.text import counted, cut_line, printable, read_text
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import Fitted, check_shown, fit

_MOST_CHARS: Final = 120
_MOST_ROW_CHARS: Final = 300
_MOST_FILES: Final = 60
_NAMES_PER_FILE: Final = 12
_LEVELS: Final = 3


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """List definitions: all of a file, the top ones of a folder's files.

    Raises:
        ToolError: The path is refused, or the file is binary.
    """
    real = context.repository.resolve(str(arguments["path"]))
    path = context.repository.relative(real)
    return _of_folder(context, path) if real.is_dir() else _of_file(context, path)


def _of_file(context: ToolContext, path: str) -> Observation:
    content = read_text(context.repository.resolve(path))
    symbols = outline(path, content.text)
    lines = content.text.count("\n")
    header = f"{path} (too large: only its first {lines} lines were looked at):" if content.is_cut else f"{path}:"
    if not symbols:
        return _nothing(context, f"{header[:-1]} defines nothing that can be told; read it instead")
    fitted = _deepest(context, symbols, header)
    check_shown(fitted, path)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=counted(len(symbols), "symbol"), paths=(path,))


def _deepest(context: ToolContext, symbols: Sequence[Symbol], header: str) -> Fitted:
    """Return the rows down to the deepest level that fits as a whole: a class that is missing misleads most."""
    depths = _depths(symbols)
    deepest = max(depths)
    for level in sorted({deepest, *range(min(deepest, _LEVELS))}, reverse=True):
        rows = [_row(symbol, depth) for symbol, depth in zip(symbols, depths, strict=True) if depth <= level]
        inner = len(symbols) - len(rows)
        if inner:
            rows.append(f"[left out: {inner} inner ones; read the outer one by its symbol]")
        fitted = fit(rows, context.count_tokens, context.budget_tokens, header=header)
        if fitted.kept == len(rows):
            return fitted
    return fitted


def _depths(symbols: Sequence[Symbol]) -> list[int]:
    """Return for each symbol how many of those it is nested in are listed: a namespace around a file is not."""
    depths: list[int] = []
    around: list[Symbol] = []
    for symbol in symbols:
        while around and not _holds(around[-1], symbol):
            around.pop()
        depths.append(len(around))
        if symbol.kind != "heading":
            around.append(symbol)
    return depths


def _holds(outer: Symbol, symbol: Symbol) -> bool:
    if outer.start_line == outer.end_line:
        return symbol.qualified_name.startswith(f"{outer.qualified_name}.") and symbol.end_line == outer.end_line
    return symbol.end_line <= outer.end_line


def _row(symbol: Symbol, depth: int) -> str:
    """Return ``start-end signature``, indented by the depth of the definition."""
    signature = cut_line(printable(symbol.signature), _MOST_CHARS)
    return f"{symbol.start_line}-{symbol.end_line}  {'  ' * depth}{signature}"


def _of_folder(context: ToolContext, path: str) -> Observation:
    files = context.repository.select(path, None)
    rows = list(_of_files(context, files[:_MOST_FILES]))
    if not rows:
        return _nothing(context, f"no file below {path} defines anything")
    defining = len(rows)
    if len(files) > _MOST_FILES:
        rows.append(f"[only the first {_MOST_FILES} of {len(files)} files were looked at; name a smaller folder]")
    fitted = fit(
        rows,
        context.count_tokens,
        context.budget_tokens,
        lambda kept: f"[cut: {len(rows) - kept} more; name a smaller folder or one file]",
        header=f"{path}:",
    )
    check_shown(fitted, path)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=counted(defining, "file"), paths=(path,))


def _of_files(context: ToolContext, files: Iterable[str]) -> Iterable[str]:
    """Yield a row for each file that defines something; files that cannot be read are passed over."""
    for file in files:
        try:
            symbols = outline(file, read_text(context.repository.resolve(file)).text)
        except ToolError:
            continue
        top = [symbol for symbol, depth in zip(symbols, _depths(symbols), strict=True) if depth == 0]
        if top:
            names = ", ".join(f"{symbol.name}:{symbol.start_line}" for symbol in top[:_NAMES_PER_FILE])
            more = f" and {len(top) - _NAMES_PER_FILE} more" if len(top) > _NAMES_PER_FILE else ""
            yield f"{file}: {cut_line(printable(names), _MOST_ROW_CHARS)}{more}"


def _nothing(context: ToolContext, text: str) -> Observation:
    fitted = fit([], context.count_tokens, context.budget_tokens, header=text)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary="nothing")
