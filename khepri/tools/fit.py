"""Cuts a tool's rows to a budget of tokens and says what was left out.

Tokens are counted by the function that is handed in; which model counts is not known here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from khepri.errors import ToolError


@dataclass(frozen=True)
class Fitted:
    """Rows that fit."""

    text: str
    """The rows joined by line ends, with a last line about what was left out if anything was."""
    tokens: int
    """Tokens of ``text``."""
    kept: int
    """How many of the rows are in ``text``."""


def fit(
    lines: Sequence[str],
    count_tokens: Callable[[str], int],
    budget_tokens: int,
    cut_note: Callable[[int], str] | None = None,
    *,
    header: str = "",
) -> Fitted:
    """Keep as many of the first ``lines`` as the budget holds.

    Counts tokens O(log n) times, and never of much more text than what is kept.

    Args:
        lines: The rows, each without a line end.
        count_tokens: Exact token count of a text.
        budget_tokens: Most tokens of the result.
        cut_note: Given the number of rows kept, returns the line that says what is missing and how to get it; by
            default ``[cut: N more lines]``.
        header: A first line that stays even if no row fits.

    Returns:
        The rows kept; with a budget that is too small even for the note, the note's beginning.
    """
    note = cut_note or (lambda kept: f"[cut: {len(lines) - kept} more lines]")
    top = [header] if header else []

    def render(kept: int) -> str:
        return "\n".join([*top, *lines[:kept], *([note(kept)] if kept < len(lines) else [])])

    def fits(kept: int) -> bool:
        return count_tokens(render(kept)) <= budget_tokens

    # Doubling first keeps the texts that are counted within twice the answer, however many rows there are.
    high = 1
    while high < len(lines) and fits(high):
        high *= 2
    if high >= len(lines) and fits(len(lines)):
        return _measured(render(len(lines)), count_tokens, len(lines))
    low, high = 0, min(high, len(lines))
    while high - low > 1:
        middle = (low + high) // 2
        if fits(middle):
            low = middle
        else:
            high = middle
    fitted = _measured(render(low), count_tokens, low)
    if fitted.tokens <= budget_tokens:
        return fitted
    return _measured(_beginning(fitted.text, count_tokens, budget_tokens), count_tokens, 0)


def check_shown(fitted: Fitted, what: str) -> None:
    """Refuse a result of which not one row fits: a header alone would pass for what it announces.

    Raises:
        ToolError: No row is kept.
    """
    if not fitted.kept:
        raise ToolError(f"no room for a line of {what}", "answer from what is known")


def _beginning(text: str, count_tokens: Callable[[str], int], budget_tokens: int) -> str:
    low, high = 0, len(text)
    while high - low > 1:
        middle = (low + high) // 2
        if count_tokens(text[:middle]) <= budget_tokens:
            low = middle
        else:
            high = middle
    return text[:low]


def _measured(text: str, count_tokens: Callable[[str], int], kept: int) -> Fitted:
    return Fitted(text=text, tokens=count_tokens(text), kept=kept)
