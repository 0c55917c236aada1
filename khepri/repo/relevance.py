"""Where a question is likely to be answered: lexical retrieval, so that a small model starts at the right place.

ripgrep counts the question's stems in every visible file, and BM25 with the words of the path ranks the files; then the
best of them are looked into, and the definition that fits best gives the line; at last a place that only
calls another steps behind it. What the question names outright, a path or an identifier, wins. The same question on the
same files has the same answer.
"""

import math
import os
import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.errors import ToolError
from khepri.repo.delegation import followed
from khepri.repo.facts import MAX_FILE_BYTES, Facts, FactsCache
from khepri.repo.occurrences import count_terms, lines_with_terms, terms_in
from khepri.repo.roles import Role, role_of
from khepri.repo.root import Repository
from khepri.repo.symbols import Symbol
from khepri.repo.text import read_text
from khepri.repo.words import question_stems, stems_of, subwords

_MAX_QUESTION_CHARS: Final = 2_000
_MAX_TERMS: Final = 24
_CANDIDATES: Final = 40
_MAX_READ_LINES: Final = 40
_LEAD_LINES: Final = 4
_K1: Final = 1.2
_B: Final = 0.6
_OTHERS_WEIGHT: Final = 0.3
_CLASS_TO_READ: Final = 0.7
_NAMED: Final = 40.0
"""Score of being named outright; above whatever words can add up to."""
_PATHLIKE = re.compile(r"[\w.-]+(?:/[\w.-]+)+/?|[\w-]+\.[A-Za-z]{1,5}\b")
_IDENTIFIER = re.compile(r"`([\w.:]+)`|\b(\w+(?:\.\w+)+|\w*[a-z0-9]_\w+|_\w+|[a-z]+[A-Z]\w*|[A-Z]+[a-z]+[A-Z]\w*)\b")
_ABOUT_TESTS = re.compile(r"\b(tests?|tested|testing|fixtures?|specs?)\b", re.IGNORECASE)
_ABOUT_DOCS = re.compile(r"\b(docs?|documentation|documented|readme|changelog|examples?|tutorials?)\b", re.IGNORECASE)


_ABOUT_WHOLE = re.compile(
    r"\bwhat\s+(?:does|do|is)\s+(?:this|the)\s+(?:repo|repository|project|package|codebase|program|tool|library)\b",
    re.IGNORECASE,
)
_ABOUT_ENTRY = re.compile(r"\bentry[ -]?points?\b", re.IGNORECASE)


@dataclass(frozen=True)
class Place:
    """Somewhere to start reading."""

    path: str
    """POSIX path from the root."""
    line: int
    """First line of the definition that fits best, or of the first match, from 1."""
    symbol: str
    """Qualified name of that definition; empty if there is none."""
    score: float
    """How well it fits; comparable within one answer only."""
    first_line: int = 1
    """First line of what should be read of it."""
    last_line: int = 1
    """Last line of what should be read of it: the definition, or the part of a long one that fits best."""


@dataclass(frozen=True)
class _Query:
    weights: Mapping[str, float]
    names: frozenset[str]
    paths: tuple[str, ...]
    wants_tests: bool
    wants_docs: bool
    wants_whole: bool
    wants_entry: bool


def likely_places(
    repository: Repository, question: str, *, limit: int = 5, cache_dir: Path | None = None
) -> tuple[Place, ...]:
    """Return the places that a question may be about, one per file, best first.

    Args:
        repository: The repository.
        question: A question in words, of which the first 2,000 characters count.
        limit: Most places.
        cache_dir: Folder of caches (``paths.map_cache_dir()``); None keeps nothing on disk.

    Returns:
        Empty if nothing in the repository has to do with the question.

    Raises:
        ToolError: The files cannot be listed or searched.
    """
    query = _read_question(question[:_MAX_QUESTION_CHARS])
    sizes = _sizes(repository)
    # ripgrep's own limit of sizes does not hold for files that it is given by name.
    readable = frozenset(path for path, size in sizes.items() if size <= MAX_FILE_BYTES)
    counts = count_terms(repository, sorted(readable), query.weights)
    idf = {
        term: weight * math.log(1 + len(sizes) / (1 + sum(1 for found in counts.values() if found[term])))
        for term, weight in query.weights.items()
    }
    mean_size = max(1.0, sum(sizes.values()) / max(1, len(sizes)))
    scores: dict[str, float] = {}
    for path, size in sizes.items():
        score = _path_score(path, query, idf)
        if path in counts:
            score += _bm25(counts[path], idf, size / mean_size)
        if score > 0 or query.wants_whole or query.wants_entry:
            scores[path] = score * _role_factor(path, query) + _overview_score(path, query)
    best = sorted(scores, key=lambda path: (-scores[path], path))[:_CANDIDATES]
    with FactsCache(repository, cache_dir) as cache:
        facts = cache.facts(cache.contents(path for path in best if path in readable))
    lines = lines_with_terms(repository, [path for path in best if path in readable], query.weights)
    places = [_look_into(path, scores[path], facts.get(path), lines.get(path, {}), query, idf) for path in best]
    found = sorted(places, key=lambda place: (-place.score, place.path))[:limit]
    if query.names or query.paths:
        return tuple(found)
    return followed(found, facts, _texts(repository, found), query.weights)


def _texts(repository: Repository, places: Sequence[Place]) -> dict[str, str]:
    texts: dict[str, str] = {}
    for place in places:
        with suppress(ToolError):
            texts[place.path] = read_text(repository.root / place.path, MAX_FILE_BYTES).text
    return texts


def _read_question(question: str) -> _Query:
    paths = tuple(dict.fromkeys(match.strip("./") for match in _PATHLIKE.findall(question)))
    names = {quoted or bare for quoted, bare in _IDENTIFIER.findall(question)}
    stems = question_stems(question)
    kept = dict(sorted(stems.items(), key=lambda item: -item[1])[:_MAX_TERMS])
    return _Query(
        kept,
        frozenset(name.replace("::", ".").strip(".:") for name in names),
        paths,
        bool(_ABOUT_TESTS.search(question)),
        bool(_ABOUT_DOCS.search(question)),
        bool(_ABOUT_WHOLE.search(question)),
        bool(_ABOUT_ENTRY.search(question)),
    )


def _sizes(repository: Repository) -> dict[str, int]:
    sizes: dict[str, int] = {}
    for path in repository.files():
        try:
            sizes[path] = os.lstat(repository.root / path).st_size
        except OSError:
            continue
    return sizes


def _bm25(found: Counter[str], idf: Mapping[str, float], relative_size: float) -> float:
    norm = _K1 * (1 - _B + _B * relative_size)
    return sum(idf[term] * times * (_K1 + 1) / (times + norm) for term, times in found.items())


def _path_score(path: str, query: _Query, idf: Mapping[str, float]) -> float:
    score = sum(
        _NAMED for named in query.paths if path == named or path.endswith("/" + named) or f"/{named}/" in f"/{path}"
    )
    folders, _, name = path.rpartition("/")
    for factor, words in ((1.6, name.rpartition(".")[0] or name), (0.5, folders)):
        score += sum(factor * idf[term] for term in {term for word in subwords(words) for term in terms_in(word, idf)})
    return score


def _overview_score(path: str, query: _Query) -> float:
    """Return what speaks for the README, and for files where execution begins, in questions about the whole."""
    is_entry = role_of(path) is Role.ENTRY
    return 2 * _NAMED * _is_overview(path, query) + _NAMED * (is_entry and query.wants_entry)


def _is_overview(path: str, query: _Query) -> bool:
    return query.wants_whole and "/" not in path and path.lower().startswith("readme")


def _role_factor(path: str, query: _Query) -> float:
    role = role_of(path)
    if role in (Role.ENTRY, Role.SOURCE):
        return 1.0 if not (query.wants_tests or query.wants_docs) else 0.8
    if (role is Role.TEST and query.wants_tests) or (role is Role.DOC and query.wants_docs):
        return 1.2
    return 0.35 if role is Role.FOREIGN else 0.5


def _look_into(
    path: str,
    score: float,
    facts: Facts | None,
    lines: Mapping[int, Counter[str]],
    query: _Query,
    idf: Mapping[str, float],
) -> Place:
    if _is_overview(path, query):
        return Place(path, 1, "", score, 1, _MAX_READ_LINES)
    symbols = facts.symbols if facts else ()
    rated = [
        (_symbol_score(symbol, tally, query, idf), symbol)
        for symbol, tally in zip(symbols, _tally(symbols, lines), strict=True)
    ]
    rated.sort(key=lambda item: (-item[0], item[1].start_line))
    best_score = rated[0][0] if rated else 0.0
    if best_score <= 0:
        # Reading on past the last match costs nothing: the tool that reads stops at the end of the file.
        first, last = _span(lines, idf, 1, max(lines, default=1) + _MAX_READ_LINES)
        return Place(path, min(lines, default=1), "", score, first, last)
    # A file with several definitions that fit is about the subject; one may fit by chance.
    others = sum(rating for rating, _ in rated[1:4])
    total = score + (best_score + _OTHERS_WEIGHT * others) * _role_factor(path, query)
    # What is to be read is rather a function, which does something, than the head of a class of that name.
    rated.sort(key=lambda item: (-item[0] * (_CLASS_TO_READ if _holds_others(item[1]) else 1.0), item[1].start_line))
    best = rated[0][1]
    first, last = _span(lines, idf, best.start_line, best.end_line)
    return Place(path, best.start_line, best.qualified_name, total, first, last)


def _holds_others(symbol: Symbol) -> bool:
    return symbol.kind in ("class", "struct", "interface", "trait", "enum", "module")


def _span(lines: Mapping[int, Counter[str]], idf: Mapping[str, float], start: int, end: int) -> tuple[int, int]:
    """Return ``start`` and ``end``, or of many lines the stretch that covers the most of the question's words."""
    if end - start < _MAX_READ_LINES:
        return start, end
    inside = sorted(number for number in lines if start <= number <= end)
    if not inside:
        return start, start + _MAX_READ_LINES - 1

    def weight(first: int) -> float:
        window = inside[bisect_left(inside, first) : bisect_right(inside, first + _MAX_READ_LINES // 2)]
        return sum(idf[term] for term in {term for number in window for term in lines[number]})

    first = max(start, max(inside, key=lambda number: (weight(number), -number)) - _LEAD_LINES)
    return first, min(end, first + _MAX_READ_LINES - 1)


def _tally(symbols: tuple[Symbol, ...], lines: Mapping[int, Counter[str]]) -> list[Counter[str]]:
    tallies: list[Counter[str]] = [Counter() for _ in symbols]
    order = sorted(lines)
    for tally, symbol in zip(tallies, symbols, strict=True):
        for line in order[bisect_right(order, symbol.start_line - 1) : bisect_right(order, symbol.end_line)]:
            tally.update(lines[line])
    return tallies


def _symbol_score(symbol: Symbol, tally: Counter[str], query: _Query, idf: Mapping[str, float]) -> float:
    name_terms = stems_of(symbol.name)
    named = [term for term in name_terms if term in idf]
    score = sum(idf[term] for term in named) * (0.6 + 0.8 * len(named) / max(1, len(name_terms)))
    owner = symbol.qualified_name.rpartition(".")[0]
    score += 0.4 * sum(idf[term] for term in stems_of(owner.rpartition(".")[2]) if term in idf) if owner else 0.0
    length = 1 + symbol.end_line - symbol.start_line
    norm = _K1 * (1 - _B + _B * length / 30)
    score += sum(idf[term] * times / (times + norm) for term, times in tally.items())
    if symbol.name in query.names or any(symbol.qualified_name.endswith(name) and "." in name for name in query.names):
        score += _NAMED
    return score * (0.6 if symbol.kind == "constant" else 1.0)
