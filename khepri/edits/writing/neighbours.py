"""What a small model writes around the one definition that it was asked for: its class, and its neighbours.

A class that is only a frame comes off, a neighbour that is copied as it was goes; what would change or double anything
else is refused, since nobody asked for it.
"""

from collections import Counter

from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.symbols import Symbol, outline


def without_frame(target: Target, code: str) -> str:
    """Return the members alone, where the definition stands in the class (or the like) that it is a member of.

    Raises:
        EditRefusedError: The frame holds code that is not in the file.
    """
    container, _, _ = target.symbol.rpartition(".")
    if not container:
        return code
    lines = code.split("\n")
    symbols = outline(target.source.path, code)
    own = next((each for each in symbols if _is_framed(target, each, lines)), None)
    if own is None:
        return code
    frame = own.qualified_name.rpartition(".")[0]
    members = [each for each in symbols if each.qualified_name.rpartition(".")[0] == frame]
    start, end = min(each.start_line for each in members), max(each.end_line for each in members)
    # The line that names the class is often written without its bases; it goes whatever it says.
    known = {line.strip() for line in (*target.source.text.split("\n"), code.lstrip("\n").split("\n")[0])}
    if any(line.strip() not in known for line in (*lines[: start - 1], *lines[end:])):
        raise EditRefusedError(
            Refusal.MALFORMED,
            f"the code changes {container} around {target.name}",
            f"write the new version of {target.name} alone, without what it lies in",
        )
    return "\n".join(lines[start - 1 : end])


def without_copies(target: Target, code: str) -> str:
    """Return the code without the neighbours of the definition that were written along with it just as they are."""
    lines = code.split("\n")
    source = target.source.text.split("\n")
    elsewhere = "\n".join([*source[: target.start_line - 1], "", *source[target.end_line :]])
    gone: set[int] = set()
    for symbol in outline(target.source.path, code):
        text = "\n".join(lines[symbol.start_line - 1 : symbol.end_line])
        if "." not in symbol.qualified_name and symbol.name != target.name and f"\n{text}\n" in f"\n{elsewhere}\n":
            gone |= set(range(symbol.start_line - 1, symbol.end_line))
    if not gone:
        return code
    return "\n".join(line for number, line in enumerate(lines) if number not in gone).strip("\n")


def refuse_second(target: Target, new_text: str) -> None:
    """Refuse a text of the whole file in which a neighbour of the definition is there once more than before.

    Raises:
        EditRefusedError: One is.
    """
    before, after = (
        Counter(each.qualified_name for each in outline(target.source.path, text))
        for text in (target.source.text, new_text)
    )
    for name in after:
        if name != target.symbol and not name.startswith(f"{target.symbol}.") and 0 < before[name] < after[name]:
            raise EditRefusedError(
                Refusal.AMBIGUOUS,
                f"the code defines {name} as well, which is there already",
                f"write the new version of {target.name} alone",
            )


def _is_framed(target: Target, symbol: Symbol, lines: list[str]) -> bool:
    is_it = "." in symbol.qualified_name and f".{target.symbol}".endswith(f".{symbol.qualified_name}")
    return is_it and _depth(lines[symbol.start_line - 1]) > _depth(next(line for line in lines if line.strip()))


def _depth(line: str) -> int:
    return len(line) - len(line.lstrip())
