"""Where the words of a question stand in the files: ripgrep finds the names that hold them, stems decide.

What a good place is, is not known here.
"""

import os
import re
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from typing import Final

from khepri.repo.root import Repository
from khepri.repo.search import batches, run_ripgrep
from khepri.repo.words import stems_of

MOST_S: Final = 3.0
"""Processor time of one call, three times what a sound repository of 50,000 files takes: only among hostile files is
something left uncounted."""
_OPTIONS: Final = (
    "--no-config",
    "--no-messages",
    "--only-matching",
    "--ignore-case",
    "--null",
    "--with-filename",
    "--no-heading",
    "--color=never",
)


def terms_in(name: str, terms: Collection[str]) -> list[str]:
    """Return those of the stems ``terms`` that are words of ``name``."""
    return [term for term in stems_of(name) if term in terms]


def count_terms(
    repository: Repository,
    paths: Sequence[str],
    terms: Collection[str],
    clock: Callable[[], float] = time.thread_time,
) -> dict[str, Counter[str]]:
    """Return how often each stem stands in each file that has any, as far as ``MOST_S`` suffice.

    Args:
        repository: The repository.
        paths: Files of it.
        terms: Stems.
        clock: Processor time of this thread, in seconds.

    Raises:
        ToolError: The files cannot be searched.
    """
    has_time = _allowance(clock)
    found: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for (path, match), times in Counter(_matches(repository, paths, terms, ["--no-line-number"], has_time)).items():
        if not has_time():
            break
        for term in terms_in(match, terms):
            found[path][term] += times
    return found


def lines_with_terms(
    repository: Repository,
    paths: Sequence[str],
    terms: Collection[str],
    clock: Callable[[], float] = time.thread_time,
) -> Mapping[str, Mapping[int, Counter[str]]]:
    """Return how often each stem stands in each line of each file that has any, as far as ``MOST_S`` suffice.

    Args:
        repository: The repository.
        paths: Files of it.
        terms: Stems.
        clock: Processor time of this thread, in seconds.

    Returns:
        By file and by line, counted from 1.

    Raises:
        ToolError: The files cannot be searched.
    """
    has_time = _allowance(clock)
    found: defaultdict[str, defaultdict[int, Counter[str]]] = defaultdict(lambda: defaultdict(Counter))
    for path, numbered in _matches(repository, paths, terms, ["--line-number"], has_time):
        if not has_time():
            break
        number, _, match = numbered.partition(":")
        for term in terms_in(match, terms):
            found[path][int(number)][term] += 1
    return found


def _allowance(clock: Callable[[], float]) -> Callable[[], bool]:
    end_s = clock() + MOST_S
    return lambda: clock() < end_s


def _matches(
    repository: Repository,
    paths: Sequence[str],
    terms: Collection[str],
    options: Sequence[str],
    has_time: Callable[[], bool],
) -> Iterator[tuple[str, str]]:
    if not terms:
        return
    alternatives = "|".join(_spellings(term) for term in sorted(terms))
    pattern = rf"--regexp=\w*(?:{alternatives})\w*"
    for batch in batches(paths):
        if not has_time():
            return
        for row in run_ripgrep(repository, [*_OPTIONS, *options, pattern], batch).split(b"\n"):
            name, separator, match = row.partition(b"\0")
            if separator:
                yield os.fsdecode(name), match.decode("utf-8", "replace")


def _spellings(term: str) -> str:
    """Return a pattern for a stem; one with digits is a whole name, which may be written with underscores."""
    return re.escape(term) if term.isalpha() else "_?".join(map(re.escape, term))
