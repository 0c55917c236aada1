"""The keys of the configuration, and how a raw value of a file, a variable or a flag becomes one of theirs."""

import difflib
import reprlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from enum import StrEnum
from types import UnionType
from typing import Annotated, get_args, get_origin, get_type_hints

from khepri.config.schema import Between, Config
from khepri.errors import ConfigError

Value = str | int | float | None

_MOST_CHARACTERS = 4096
_AUTO = "auto"


@dataclass(frozen=True)
class Key:
    """One field of ``Config``: its name and what it accepts."""

    name: str
    """Name of the field, and the key in a file."""
    kind: type
    """``str``, ``int``, ``float`` or an enumeration of strings."""
    bounds: Between | None
    """Range of a number."""
    default: Value
    """Value without any configuration."""
    may_be_auto: bool = False
    """True if ``auto`` leaves the value to Khepri."""

    @property
    def variable(self) -> str:
        """The environment variable of this key."""
        return f"KHEPRI_{self.name.upper()}"

    @property
    def flag(self) -> str:
        """The command line flag of this key."""
        return f"--{self.name.replace('_', '-')}"

    @property
    def accepted(self) -> str:
        """What the key accepts, in words."""
        if issubclass(self.kind, StrEnum):
            return " or ".join(f'"{member}"' for member in self.kind)
        if self.kind is str:
            return f"printable text of at most {_MOST_CHARACTERS} characters"
        number = f"{'an integer' if self.kind is int else 'a number'} {self.bounds}"
        return f'{number}, or "{_AUTO}"' if self.may_be_auto else number

    def parse(self, raw: object) -> Value:
        """Return the value of a raw one that already has its type, as in a TOML file.

        Raises:
            ValueError: The value has another type or is out of range.
        """
        value: Value
        if self.may_be_auto and raw == _AUTO:
            return None
        if issubclass(self.kind, StrEnum) and isinstance(raw, str):
            value = self.kind(raw)
        elif self.kind is float and type(raw) is int:
            value = float(raw)
        elif type(raw) is self.kind and isinstance(raw, str | int | float):
            value = raw
        else:
            raise ValueError(f"not {self.accepted}")
        is_fine = _is_plain_text(value) if isinstance(value, str) else self.bounds is None or value in self.bounds
        if not is_fine:
            raise ValueError(f"not {self.accepted}")
        return value

    def parse_text(self, text: str) -> Value:
        """Return the value of a text, as in an environment variable.

        Raises:
            ValueError: The text does not read as such a value, or is out of range.
        """
        is_number = self.kind in (int, float) and not (self.may_be_auto and text == _AUTO)
        return self.parse(self.kind(text) if is_number else text)


def keys() -> Mapping[str, Key]:
    """Return every key by name, in the order of ``Config``."""
    found, defaults = {}, asdict(Config())
    for name, hint in get_type_hints(Config, include_extras=True).items():
        bare, bounds = get_args(hint) if get_origin(hint) is Annotated else (hint, None)
        may_be_auto = isinstance(bare, UnionType)
        kind = get_args(bare)[0] if may_be_auto else bare
        found[name] = Key(name, kind, bounds, defaults[name], may_be_auto)
    return found


def bad_value(key: Key, raw: object, where: str) -> ConfigError:
    """Return the error for a value that ``key`` does not accept, found at ``where``."""
    return ConfigError(f"{where}: {key.name} is {reprlib.repr(raw)}, and must be {key.accepted}")


def unknown_key(name: str, known: Mapping[str, Key], where: str) -> ConfigError:
    """Return the error for a key that does not exist, with the nearest one that does."""
    near = difflib.get_close_matches(name.lower(), known, n=1)
    suggestion = f"; did you mean {near[0]}?" if near else ""
    return ConfigError(f"{where}: unknown key {reprlib.repr(name)}{suggestion}", f"accepted keys: {', '.join(known)}")


def _is_plain_text(text: str) -> bool:
    return len(text) <= _MOST_CHARACTERS and (text.isprintable() or text == "")
