"""The keys that the user has chosen, from a file of their own.

The file is TOML: names of actions, as ``/help`` shows them, and keys, such as ``"composer.newline" = "ctrl+n"``.
"""

import tomllib
from collections.abc import Mapping
from pathlib import Path

from khepri.errors import ConfigError


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
    wrong = next((name for name, key in keys.items() if not isinstance(key, str) or not key), None)
    if wrong is not None:
        raise ConfigError(f"{file}: {wrong} is not a key", hint)
    return keys


def check_names(keys: Mapping[str, str], known: frozenset[str], file: Path) -> None:
    """Refuse names of actions that do not exist.

    Raises:
        ConfigError: One does not.
    """
    unknown = sorted(set(keys) - known)
    if unknown:
        raise ConfigError(f"{file}: there is no action {unknown[0]}", "/help in khepri shows the names")
