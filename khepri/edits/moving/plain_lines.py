"""Shows a refactoring library Python text in which it can shift every line: no tabs, and no string over several lines.

It indents by spaces, and shifts what stands inside a string as if it were code. So such strings give their places to
short ones while it works, and tabs to spaces.
"""

import io
import re
import tokenize
from itertools import accumulate
from typing import Final

_TAB: Final = "    "
_MARK: Final = "__khepri_text_{}__"
_LEADING_TABS: Final = re.compile(r"^\t+", re.MULTILINE)
_LEADING_STEPS: Final = re.compile(rf"^(?:{_TAB})+", re.MULTILINE)


class PlainLines:
    """A Python text and what it is shown as. Immutable."""

    def __init__(self, text: str) -> None:
        """Make what is shown of a text; an f-string stays, as it has names inside."""
        self._strings: list[tuple[str, str]] = []
        self._shortened: list[tuple[int, int]] = []
        plain = self._without_long_strings(text)
        self._is_tabbed = _LEADING_TABS.search(plain) is not None and _LEADING_STEPS.search(plain) is None
        self.text = _LEADING_TABS.sub(lambda found: _TAB * len(found[0]), plain) if self._is_tabbed else plain
        """What is shown."""
        # A line that goes on below another one may be aligned by spaces behind its tabs.
        self._aligned = dict(zip(self.text.split("\n"), plain.split("\n"), strict=True)) if self._is_tabbed else {}

    def line(self, number: int) -> int:
        """Return the line of what is shown for one of the text, both from 1."""
        return number - sum(min(number, end) - start for start, end in self._shortened if start < number)

    def restored(self, shown: str) -> str:
        """Return what was made of the text that was shown, with the tabs and strings that were there."""
        if self._is_tabbed:
            shown = "\n".join(self._aligned.get(row) or _with_tabs(row) for row in shown.split("\n"))
        for short, long in self._strings:
            shown = shown.replace(short, long)
        return shown

    def _without_long_strings(self, text: str) -> str:
        try:
            tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
        except (tokenize.TokenError, SyntaxError):
            return text
        starts = list(accumulate((len(line) + 1 for line in text.split("\n")), initial=0))
        for number, token in reversed([*enumerate(tokens)]):
            if token.type != tokenize.STRING or token.start[0] == token.end[0]:
                continue
            prefix = token.string.partition(token.string[-1])[0]
            if "f" not in prefix.lower():
                short = f'{prefix}"{_MARK.format(number)}"'
                self._strings.append((short, token.string))
                self._shortened.append((token.start[0], token.end[0]))
                start, end = (starts[line - 1] + column for line, column in (token.start, token.end))
                text = text[:start] + short + text[end:]
        return text


def _with_tabs(row: str) -> str:
    return _LEADING_STEPS.sub(lambda found: "\t" * (len(found[0]) // len(_TAB)), row)
