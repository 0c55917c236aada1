"""Judges one answer: does it name the right file, and was that file read?

Pure functions on text and paths. How the answer came about, and how results are shown, is not known here.
"""

import re
from collections.abc import Iterable, Mapping, Sequence

_PATH_LIKE = re.compile(r"[\w./-]*\w\.\w+")


def named_files(answer: str, files: Iterable[str]) -> frozenset[str]:
    """Return the files of a repository that an answer names beyond doubt.

    A file is named by its path, by the tail of its path (``_transports/default.py``, ``default.py``) when no other
    file ends the same way, or by an absolute path that ends in it.

    Args:
        answer: The text of the answer.
        files: All files of the repository, as paths relative to its root.
    """
    tracked = tuple(files)
    named: set[str] = set()
    for token in _PATH_LIKE.findall(answer):
        token = token.removeprefix("./")
        matches = [file for file in tracked if file == token or token.endswith(f"/{file}")]
        matches = matches or [file for file in tracked if file.endswith(f"/{token}")]
        if len(matches) == 1:
            named.add(matches[0])
    return frozenset(named)


def read_files(steps: Sequence[Mapping[str, object]], files: Iterable[str]) -> frozenset[str]:
    """Return the files of a repository that the agent opened with its ``read`` tool.

    Args:
        steps: The ``steps`` of ``khepri ask --json``.
        files: All files of the repository, as paths relative to its root.
    """
    tracked = frozenset(files)
    seen: set[str] = set()
    for step in steps:
        arguments = step.get("arguments")
        if step.get("tool") == "read" and isinstance(arguments, Mapping):
            seen.update(value.removeprefix("./") for value in arguments.values() if isinstance(value, str))
    return frozenset(seen & tracked)
