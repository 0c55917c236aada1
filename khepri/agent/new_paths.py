"""Where a new file may go: the paths that a task names, or where the tests of what it speaks of belong."""

import re
from collections.abc import Sequence
from pathlib import PurePosixPath
from typing import Final

from khepri.repo.grammars import grammar_of
from khepri.repo.roles import Role, role_of

_PATH: Final = re.compile(r"(?<![\w./-])(?:[\w.-]+/)*[\w.-]*\w\.\w{1,8}(?![\w/])")
_DATA_SUFFIXES: Final = frozenset(".md .txt .rst .json .toml .yaml .yml .ini .cfg .html .css .sql .csv".split())
_TEST: Final = re.compile(r"\btests?\b", re.IGNORECASE)
_TEST_FOLDERS: Final = ("tests", "test", "spec")


def new_paths(task: str, named: Sequence[tuple[str, str]], files: Sequence[str]) -> list[str]:
    """Return the paths that a new file for a task can have, the likeliest first; empty if the task says nothing of it.

    Args:
        task: What the user asked for.
        named: Path and symbol of the definitions that the task names.
        files: The files that are there.
    """
    there = set(files)
    written = [word for word in _PATH.findall(task) if _is_file_name(word)]
    fresh = [path for word in written for path in _placed(word, files) if path not in there]
    if fresh or not _TEST.search(task):
        return list(dict.fromkeys(fresh))
    of_tests = [
        path for path, symbol in named if role_of(path) is not Role.TEST for path in _tests_of(path, symbol, files)
    ]
    return list(dict.fromkeys(path for path in of_tests if path not in there))


def _is_file_name(word: str) -> bool:
    return grammar_of(word) is not None or PurePosixPath(word).suffix.lower() in _DATA_SUFFIXES


def _placed(word: str, files: Sequence[str]) -> list[str]:
    """Return a bare name of a test in the folder of the tests, and every other path as it is written."""
    folder = _test_folder(files)
    return [f"{folder}/{word}"] if "/" not in word and folder and role_of(word) is Role.TEST else [word]


def _test_folder(files: Sequence[str]) -> str:
    tops = {path.partition("/")[0] for path in files if "/" in path}
    return next((name for name in _TEST_FOLDERS if name in tops), "")


def _tests_of(path: str, symbol: str, files: Sequence[str]) -> list[str]:
    """Return where the tests of a file go, by its language's custom; a second name is for when there are some."""
    place = PurePosixPath(path)
    stem, suffix, folder = place.stem.strip("_"), place.suffix, f"{place.parent}/".removeprefix("./")
    word = symbol.rpartition(".")[2].strip("_")
    grammar = grammar_of(path)
    tests = _test_folder(files) or "tests"
    match grammar.name if grammar else "":
        case "javascript" | "typescript" | "tsx":
            names = [f"{folder}{stem}.test{suffix}", f"{folder}{word}.test{suffix}"]
        case "go":
            names = [f"{folder}{stem}_test.go", f"{folder}{word}_test.go"]
        case "python":
            # Tests often mirror the package below its own name.
            inner = f"{tests}/{'/'.join(place.parent.parts[1:])}".rstrip("/")
            below = inner if any(each.startswith(f"{inner}/") for each in files) else tests
            names = [f"{below}/test_{stem}.py", f"{below}/test_{word}.py"]
        case _:
            names = [f"{tests}/{stem}_test{suffix}", f"{tests}/{word}_test{suffix}"]
    return names[: 1 + bool(word)]
