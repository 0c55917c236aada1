"""One line for a step, cut so that what it cost can be read at every width: what the call was about gives way first.

How it is coloured is not known here.
"""

from rich.cells import cell_len, set_cell_size

from khepri.repo.text import printable

_ARROW = " → "
_MORE = "…"
_LEAST_SUMMARY_CELLS = 6
_HEAD_SHARE = 3
"""Of a text that is cut in the middle, one cell in so many stays at its beginning: a path is told by its end."""


def step_line(call: str, outcome: str, width: int) -> str:
    """Return a call and what came of it in ``width`` cells.

    Args:
        call: The tool, or the command, and its arguments.
        outcome: What came of it, with the cost in brackets at its end if there is one.
        width: The cells; with fewer than the cost needs, the line is longer.
    """
    call, outcome = _in_one_line(call), _in_one_line(outcome)
    whole = call + _ARROW + outcome
    summary, bracket, cost = outcome.rpartition(" (")
    if cell_len(whole) <= width or not bracket:
        return _head(whole, width)
    room = width - cell_len(_ARROW)
    least = min(cell_len(call), cell_len(call.split(" ", 1)[0] + _MORE))
    if cell_len(outcome) + least <= room:
        return _head(call, room - cell_len(outcome)) + _ARROW + outcome
    left = room - least - cell_len(bracket + cost)
    shown = f"{_middle(summary, left)} " if left >= _LEAST_SUMMARY_CELLS else ""
    return f"{_head(call, least)}{_ARROW}{shown}({cost}"


def _in_one_line(text: str) -> str:
    return " ".join(printable(text).split())


def _head(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    return set_cell_size(text, max(0, cells - cell_len(_MORE))).rstrip() + _MORE


def _middle(text: str, cells: int) -> str:
    if cell_len(text) <= cells:
        return text
    head = set_cell_size(text, (cells - cell_len(_MORE)) // _HEAD_SHARE)
    end = len(text)
    while cell_len(text[end - 1 :]) <= cells - cell_len(head + _MORE):
        end -= 1
    return head + _MORE + text[end:]
