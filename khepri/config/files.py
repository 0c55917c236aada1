"""Reads a configuration file with suspicion: a repository's may have been written to do harm.

What the keys mean is not known here.
"""

import os
import stat
import tomllib
from dataclasses import dataclass
from pathlib import Path

from khepri.errors import ConfigError

_MOST_BYTES = 16 * 1024
# A value that runs over more lines than this is no value of ours; looking for its end would only cost time.
_MOST_LINES_OF_A_VALUE = 50


@dataclass(frozen=True)
class ConfigFile:
    """A file that was read and is TOML."""

    path: Path
    """Where it is."""
    text: str
    """What it says."""
    table: dict[str, object]
    """Its keys and values."""

    def where(self, key: str) -> str:
        """Return the file, and the line of a top-level key or table, as words for the user."""
        line = self._line_of(key)
        return f"{self.path}, line {line}" if line else str(self.path)

    def _line_of(self, key: str) -> int | None:
        # tomllib keeps no positions, but it knows where a statement ends: lines are added until they parse.
        start, statement = 1, ""
        for number, line in enumerate(self.text.split("\n"), start=1):
            if number - start >= _MOST_LINES_OF_A_VALUE:
                return None
            statement += f"{line}\n"
            try:
                found = key in tomllib.loads(statement)
            except ValueError:
                continue
            if found:
                return start
            start, statement = number + 1, ""
        return None


def read_user_file(path: Path) -> ConfigFile | None:
    """Return the user's own file, or None if there is none.

    Raises:
        ConfigError: It cannot be read, is too large, not UTF-8 or not TOML.
    """
    return _read(path, path)


def read_repository_file(path: Path, root: Path) -> ConfigFile | None:
    """Return a file of the repository at ``root``, or None if there is none.

    Raises:
        ConfigError: As for ``read_user_file``, or it is a link that leads out of the repository.
    """
    try:
        target = path.resolve(strict=True)
        if not target.is_relative_to(root.resolve(strict=True)):
            raise ConfigError(f"{path} is a link that leads out of the repository, to {target}", "remove the link")
    except (FileNotFoundError, NotADirectoryError):
        if path.is_symlink():
            raise ConfigError(f"{path} is a link that leads nowhere", "remove the link") from None
        return None
    except (OSError, RuntimeError) as error:
        # A loop of links is a RuntimeError up to Python 3.12.
        raise _unreadable(path, error) from error
    return _read(path, target)


def _read(path: Path, target: Path) -> ConfigFile | None:
    try:
        content = _read_regular_file(target)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _unreadable(path, error) from error
    if content is None:
        raise ConfigError(f"{path} is not a regular file", "Khepri reads its configuration from plain files only")
    if len(content) > _MOST_BYTES:
        raise ConfigError(f"{path} is too large for a configuration: more than {_MOST_BYTES} bytes")
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(f"{path}, line {line}: not UTF-8", "save the file as UTF-8") from error
    try:
        return ConfigFile(path, text, tomllib.loads(text))
    except (ValueError, RecursionError) as error:
        reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)
        raise ConfigError(f"{path}: not TOML: {reason}") from error


def _read_regular_file(path: Path) -> bytes | None:
    # Without O_NONBLOCK a named pipe would keep us waiting for a writer.
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    with open(descriptor, "rb") as file:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            return None
        return file.read(_MOST_BYTES + 1)


def _unreadable(path: Path, error: OSError | RuntimeError) -> ConfigError:
    return ConfigError(f"{path} cannot be read: {getattr(error, 'strerror', None) or error}")
