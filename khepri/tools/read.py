"""The tool ``read``: a range of lines, one definition, or a file from its beginning.

What the model has been shown already is not shown again: the same lines of the same content answer with a reference
to the first time.
"""

import difflib
import hashlib
from collections.abc import Sequence
from typing import Final

from khepri.errors import ToolError
from khepri.repo.symbols import Symbol, outline
from khepri.repo.text import cut_line, printable, read_text
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.fit import fit

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
    symbol = arguments.get("symbol")
    remark = ""
    if isinstance(symbol, str) and symbol.strip():
        found = _definition(path, content.text, symbol.strip().removesuffix("()"))
        remark = found if isinstance(found, str) else ""
        start, end = (1, len(lines)) if isinstance(found, str) else found
    else:
        start, end = _range(path, arguments, len(lines))
    return _show(context, path, lines, (start, end), remark, is_cut=content.is_cut)


def _range(path: str, arguments: Arguments, count: int) -> tuple[int, int]:
    start, end = arguments.get("start"), arguments.get("end")
    first = start if isinstance(start, int) else 1
    last = end if isinstance(end, int) else count
    if first > count:
        raise ToolError(f"{path} has {count} lines", f"ask for lines between 1 and {count}")
    if last < first:
        raise ToolError(f"the range {first}-{last} is empty", "start must not be larger than end")
    return first, min(last, count)


def _definition(path: str, text: str, name: str) -> tuple[int, int] | str:
    """Return the lines of the one definition of that name, or a remark where there is none; the last part will do."""
    symbols = outline(path, text)
    found = [s for s in symbols if s.qualified_name == name] or [s for s in symbols if s.name == name]
    if not found:
        found = [s for s in symbols if s.qualified_name.endswith(f".{name}") or s.name.lower() == name.lower()]
    if found and len({s.qualified_name for s in found}) == 1:
        return found[0].start_line, found[0].end_line
    if found:
        listing = ", ".join(f"{s.qualified_name} (line {s.start_line})" for s in found[:_MOST_NAMES])
        raise ToolError(f"{name} is defined more than once in {path}", f"name one of: {listing}")
    return f"{path} does not define {printable(name)[:80]}; {_suggestion(symbols, name)}. Its beginning:"


def _suggestion(symbols: Sequence[Symbol], name: str) -> str:
    names = [s.qualified_name for s in symbols] + [s.name for s in symbols]
    close = list(dict.fromkeys(difflib.get_close_matches(name, names, n=_MOST_NAMES, cutoff=0.4)))
    shown = close or list(dict.fromkeys(s.qualified_name for s in symbols))[:_MOST_NAMES]
    return f"it defines {', '.join(shown)}" if shown else "read it by lines, or use search"


def _show(
    context: ToolContext, path: str, lines: Sequence[str], span: tuple[int, int], remark: str, *, is_cut: bool
) -> Observation:
    start, end = span
    digest = hashlib.sha256("\n".join(lines[start - 1 : end]).encode("utf-8", "replace")).hexdigest()[:16]
    key = f"read {path} {start}-{end} {digest}"
    if key in context.seen:
        return _said(context, path, f"{path} lines {start}-{end}: shown above already, unchanged", "shown already")
    context.seen.add(key)
    width = len(str(end))
    rows = [
        f"{number:>{width}}  {cut_line(printable(lines[number - 1]), _MOST_CHARS)}" for number in range(start, end + 1)
    ]
    whole = f" of {len(lines)}{' or more' if is_cut else ''}"

    def note(kept: int) -> str:
        return f"[cut after line {start + kept - 1}; read on with start={start + kept}, or name a symbol]"

    header = f"{remark}\n{path}, lines {start}-{end}{whole}:".lstrip()
    fitted = fit(rows, context.count_tokens, context.budget_tokens, note, header=header)
    last = start + fitted.kept - 1
    return Observation(
        text=fitted.text, tokens=fitted.tokens, summary=f"{path}:{start}-{max(start, last)}", paths=(path,)
    )


def _said(context: ToolContext, path: str, text: str, summary: str) -> Observation:
    return Observation(text=text, tokens=context.count_tokens(text), summary=summary, paths=(path,))
