"""The keys that the user has chosen, from a file of their own.

The file is TOML: names of actions, as ``/help`` shows them, and keys, such as ``"composer.newline" = "ctrl+n"``.
"""

import tomllib
import unicodedata
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from textual.keys import KEY_NAME_REPLACEMENTS, Keys, _character_to_key

from khepri.errors import ConfigError

_MODIFIERS: Final = frozenset({"ctrl", "alt", "shift", "super", "hyper", "meta"})
_NAMED: Final = frozenset(key.value.rpartition("+")[2] for key in Keys if "<" not in key.value)
_WHERE_ONE_WRITES: Final = ("app.", "composer.", "picker.", "transcript.")
"""The beginnings of the names of actions that are there where what is typed is written."""
_OFFICIAL: Final = {short: official for official, short in KEY_NAME_REPLACEMENTS.items()}


def load_keys(file: Path) -> Mapping[str, str]:
    """Return the keys by the names of their actions; none if there is no file.

    Raises:
        ConfigError: The file cannot be read, or is not such a table.
    """
    hint = 'write lines such as: "composer.newline" = "ctrl+n"; /help in khepri shows the names'
    try:
        keys = tomllib.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise ConfigError(f"{file}: {error}", hint) from error
    for name, key in keys.items():
        if not isinstance(key, str) or not all(map(_is_key, key.split(","))):
            raise ConfigError(f"{file}: {name} = {key!r} is no key", hint)
    return {name: ",".join(map(_as_textual_names_it, key.split(","))) for name, key in keys.items()}


def check_names(keys: Mapping[str, str], known: frozenset[str], file: Path) -> None:
    """Refuse names of actions that do not exist, and keys that could not be typed any more.

    Raises:
        ConfigError: There is such a one.
    """
    unknown = sorted(set(keys) - known)
    if unknown:
        raise ConfigError(f"{file}: there is no action {unknown[0]}", "/help in khepri shows the names")
    for name, chosen in keys.items():
        taken = next(filter(_types_something, chosen.split(",")), None)
        if taken is not None and name.startswith(_WHERE_ONE_WRITES):
            raise ConfigError(
                f"{file}: {name} = {taken!r}: this key could not be typed any more",
                f'take one with ctrl or alt, or a function key: "{name}" = "f5"',
            )


def _is_key(text: str) -> bool:
    """True if a terminal could send it: a character or the name of a key, with ``ctrl+`` and the like before it."""
    *modifiers, key = _as_textual_names_it(text).split("+")
    is_named = key in _NAMED or len(key) == 1 or _is_character(key)
    return is_named and _MODIFIERS.issuperset(modifiers)


def _as_textual_names_it(text: str) -> str:
    """Return a key with its last character by name, such as ``question_mark``."""
    before, plus, key = text.strip().rpartition("+")
    return f"{before}{plus}{_character_to_key(key) if len(key) == 1 else key}"


def _types_something(key: str) -> bool:
    """True if a key, as Textual names it, writes a character."""
    *modifiers, last = key.split("+")
    return set(modifiers) <= {"shift"} and (len(last) == 1 or _is_character(last))


def _is_character(name: str) -> bool:
    try:
        return unicodedata.lookup(_OFFICIAL.get(name, name).replace("_", " ")).isprintable()
    except KeyError:
        return False
