"""Takes the options of a program off its words, so that the command behind them is found."""

from collections.abc import Sequence
from typing import Final

from khepri.agent.shell_words import Word
from khepri.agent.wrappers import Wrapper

GIT_OPTIONS: Final = Wrapper(
    flags="pP",
    valued="C",
    long_flags=frozenset({"--no-pager", "--paginate", "--bare", "--no-replace-objects", "--literal-pathspecs"}),
    long_valued=frozenset({"--git-dir", "--work-tree", "--namespace"}),
)
"""Those of git itself, which stand before its command."""
LINE_BEHIND: Final = Word("-c", True)
"""Stands for the line that follows the options."""


def after_options(
    wrapper: Wrapper, words: Sequence[Word], lines_behind: str = ""
) -> tuple[Sequence[Word], list[Word], bool]:
    """Take options off.

    Args:
        wrapper: Which options there are.
        words: What follows the name.
        lines_behind: Letters of options that say that the first word behind all options is a line.

    Returns:
        The words behind the options, the values that are lines, and False if an option is none of the known.
    """
    lines: list[Word] = []
    place = 0
    while place < len(words):
        text, is_literal = words[place].text, words[place].is_literal
        if not is_literal:
            return words[place:], lines, True
        if text == "--":
            place += 1
            break
        plus = bool(lines_behind) and text.startswith("+")
        if not (text.startswith("-") or plus):
            break
        place += 1
        following = words[place] if place < len(words) else None
        if text.startswith("--"):
            option, has_value, value = text.partition("=")
            if option not in wrapper.long_flags | wrapper.long_valued:
                return words, lines, False
            if option in wrapper.long_valued and not has_value:
                place += 1
                if option in wrapper.line_options and following:
                    lines.append(following)
            elif option in wrapper.line_options:
                lines.append(Word(value, True))
            continue
        for at, letter in enumerate(text[1:], start=2):
            if letter in lines_behind:
                lines.append(LINE_BEHIND)
            elif letter in wrapper.attached:
                break
            elif letter in wrapper.valued:
                value_word = Word(text[at:], True) if text[at:] else following
                place += not text[at:]
                if f"-{letter}" in wrapper.line_options and value_word:
                    lines.append(value_word)
                break
            elif letter not in wrapper.flags:
                return words, lines, False
    return words[place:], lines, True
