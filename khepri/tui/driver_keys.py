"""Keys that terminals send with an escape before them, and how Textual misses them.

What a key does is not known here.
"""

import os
import re
from collections.abc import Iterable
from typing import Final

from textual import constants, events
from textual._ansi_sequences import ANSI_SEQUENCES_KEYS
from textual._time import get_time
from textual._xterm_parser import XTermParser
from textual.keys import KEY_NAME_REPLACEMENTS, _character_to_key
from textual.message import Message

_ESCAPE: Final = "\x1b"
_INTRODUCERS: Final = "[]O"
"""An escape with one of these may be the beginning of more."""
_MODIFIED: Final = re.compile(r"\x1b\[27;(\d+);(\d+)~")
_SHIFT: Final = "2"
_ESCAPE_S: Final = 0.05
"""With nothing behind it for so long, an escape is the key, which stops an answer; ``ESCDELAY`` is heeded where set."""


class KeyParser(XTermParser):
    """Reads what a terminal sends; Alt with a character comes at once, with that character."""

    def __init__(self, debug: bool = False) -> None:
        super().__init__(debug)
        self._escape_s = constants.ESCAPE_DELAY if "ESCDELAY" in os.environ else _ESCAPE_S

    @property
    def wait_s(self) -> float | None:
        """Return how long what comes next may still belong to what came last; None if it cannot."""
        return max(0.0, self._timeout_time - get_time()) if self._timeout_time is not None else None

    def feed(self, data: str) -> Iterable[Message]:
        """Yield what can be told apart so far."""
        yield from super().feed(data)
        if self._timeout_time is not None:
            self._timeout_time = get_time() + self._escape_s

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        if sequence in ("\x1b\r", "\x1b\n"):
            return (events.Key("alt+enter", None),)
        if _is_alt_with_character(sequence):
            return (events.Key(f"alt+{_name_with_shift(sequence[1])}", sequence[1]),)
        if match := _MODIFIED.fullmatch(sequence):
            sequence = _in_kitty_words(modifiers=match[1], codepoint=match[2])
        return super()._sequence_to_key_events(sequence, alt)


def pressed_one_by_one(key: events.Key) -> tuple[events.Key, ...]:
    """Return an Escape and a character for the two as Alt with the character; nothing for any other key.

    A terminal that names Alt in words of its own says no character.
    """
    if key.character is None or not key.is_printable or not key.key.startswith("alt+"):
        return ()
    return events.Key("escape", _ESCAPE), events.Key(_name(key.character), key.character)


def _is_alt_with_character(sequence: str) -> bool:
    """True for an escape and a character, unless that is known as a key that moves, or may go on."""
    if len(sequence) != 2 or sequence[0] != _ESCAPE or not sequence[1].isprintable() or sequence[1] in _INTRODUCERS:
        return False
    return not isinstance(ANSI_SEQUENCES_KEYS.get(sequence), tuple)


def _in_kitty_words(modifiers: str, codepoint: str) -> str:
    """Return what a terminal with the kitty protocol sends for a key that xterm names by its character."""
    types_itself = modifiers == _SHIFT and chr(int(codepoint)).isprintable()
    return f"\x1b[{codepoint};{modifiers}{f';{codepoint}' if types_itself else ''}u"


def _name(character: str) -> str:
    name = character if character.isalnum() else _character_to_key(character)
    return KEY_NAME_REPLACEMENTS.get(name, name)


def _name_with_shift(character: str) -> str:
    return f"shift+{character.lower()}" if character.isupper() else _name(character)
