"""The tool ``read``: a range of lines, one definition, or a file from its beginning.

What the model has been shown already is not shown again: the same lines of the same content answer with a reference
to the first time.
"""

import difflib
import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from khepri.errors import ToolError
from khepri.repo.definition import find_definition
from khepri.repo.symbols import Symbol, outline
from khepri.repo.text import TextFile, cut_line, printable, read_text
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import check_shown, fit

_MOST_CHARS: Final = 240
_MOST_NAMES: Final = 8


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Show numbered lines of a file; a symbol that is not in it shows the beginning and the names that are.

    Raises:
        ToolError: The path is refused, the file is binary, the symbol is ambiguous or the range is not in it.
    """
    real = context.repository.resolve(str(arguments["path"]))
    path = context.repository.relative(real)
    if real.is_dir():
        raise ToolError(f"{path} is a folder", "use list or outline for folders")
    content = read_text(real)
    lines = content.text.removesuffix("\n").split("\n") if content.text else []
    if not lines:
        return _said(context, path, f"{path} is empty", "empty file")
    file = _File(path, content, lines)
    symbol = arguments.get("symbol")
    if isinstance(symbol, str) and symbol.strip():
        span, remark = _definition(file, symbol.strip())
    else:
        span, remark = _range(file, arguments), ""
    return _show(context, file, span, remark)


@dataclass(frozen=True)
class _File:
    path: str
    content: TextFile
    lines: Sequence[str]


def _range(file: _File, arguments: Arguments) -> tuple[int, int]:
    start, end = arguments.get("start"), arguments.get("end")
    count = len(file.lines)
    first = start if isinstance(start, int) else 1
    last = end if isinstance(end, int) else count
    if first > count and file.content.is_cut:
        raise ToolError(
            f"{file.path} is too large: only its first {count} lines can be read", "use search for what comes later"
        )
    if first > count:
        raise ToolError(f"{file.path} has {count} lines", f"ask for lines between 1 and {count}")
    if last < first:
        raise ToolError(f"the range {first}-{last} is empty", "start must not be larger than end")
    return first, min(last, count)


def _definition(file: _File, name: str) -> tuple[tuple[int, int], str]:
    """Return the lines of the definition of that name, or the whole file, and a remark on what was not as asked."""
    symbols = outline(file.path, file.content.text)
    found = find_definition(file.path, symbols, name)
    if found is None:
        where = f"the readable beginning of {file.path}" if file.content.is_cut else file.path
        said = f"{where} does not define {printable(name)[:80]}; {_suggestion(symbols, name)}. Its beginning:"
        return (1, len(file.lines)), said
    elsewhere = ", ".join(f"{start}-{end}" for start, end in found.elsewhere[:_MOST_NAMES])
    remark = f"{printable(name)[:80]} is also defined in lines {elsewhere}." if elsewhere else ""
    return (found.start_line, min(found.end_line, len(file.lines))), remark


def _suggestion(symbols: Sequence[Symbol], name: str) -> str:
    names = [s.qualified_name for s in symbols] + [s.name for s in symbols]
    close = list(dict.fromkeys(difflib.get_close_matches(name, names, n=_MOST_NAMES, cutoff=0.4)))
    shown = close or list(dict.fromkeys(s.qualified_name for s in symbols))[:_MOST_NAMES]
    return f"it defines {', '.join(shown)}" if shown else "read it by lines, or use search"


def _show(context: ToolContext, file: _File, span: tuple[int, int], remark: str) -> Observation:
    start, end = span
    path, lines = file.path, file.lines
    width = len(str(end))
    rows = [
        f"{number:>{width}}  {cut_line(printable(lines[number - 1]), _MOST_CHARS)}" for number in range(start, end + 1)
    ]
    whole = f" of {len(lines)}{' or more' if file.content.is_cut else ''}"
    header = f"{path}, lines {start}-{end}{whole}:"

    def note(kept: int) -> str:
        return f"[cut after line {start + kept - 1}; read on with start={start + kept}, or name a symbol]"

    fitted = fit(rows, context.count_tokens, context.budget_tokens, note, header=header)
    last = start + fitted.kept - 1
    # What counts as seen are the lines that fitted, not the lines that were asked for.
    digest = hashlib.sha256("\n".join(lines[start - 1 : last]).encode("utf-8", "replace")).hexdigest()[:16]
    key = f"read {path} {start}-{last} {digest}"
    if fitted.kept and key in context.seen:
        onward = f"; read on with start={last + 1}" if last < end else ""
        again = f"{path} lines {start}-{last}: shown above already, unchanged{onward}"
        return _said(context, path, f"{remark}\n{again}".lstrip(), "shown already")
    if remark:
        fitted = fit(rows, context.count_tokens, context.budget_tokens, note, header=f"{remark}\n{header}")
        last = start + fitted.kept - 1
    check_shown(fitted, path)
    context.seen.add(key)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=f"{path}:{start}-{last}", paths=(path,))


def _said(context: ToolContext, path: str, text: str, summary: str) -> Observation:
    fitted = fit([], context.count_tokens, context.budget_tokens, header=text)
    return Observation(text=fitted.text, tokens=fitted.tokens, summary=summary, paths=(path,))
