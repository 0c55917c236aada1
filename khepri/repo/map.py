"""The repository map: files in the order of how much the others lean on them, each with its main symbols.

A file ranks by the names it defines that other files use, weighted by how telling each name is and by the roles of
both files. Equal files give an equal map, byte for byte; it is the beginning of every prompt. Tokens are counted by a
function that is handed in.
"""

import hashlib
import json
import math
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.repo.facts import Facts, FactsCache, parsed_files
from khepri.repo.grammars import grammar_of
from khepri.repo.roles import Role, role_of
from khepri.repo.root import Repository
from khepri.repo.symbols import Symbol

_FULL_ENTRIES: Final = 8
_FULL_NAMES: Final = 5
_SHORT_NAMES: Final = 3
_MEMBERS: Final = 3
_MOST_HOMES: Final = 5
_ENTRY_BONUS: Final = 12.0
_TELLING_SYMBOLS: Final = 6
_FOLDERS_NAMED: Final = 6


@dataclass(frozen=True)
class MapEntry:
    """One file of the map."""

    path: str
    """POSIX path from the root."""
    names: tuple[str, ...]
    """Its main symbols, most used first, such as ``Session(open, send)``; empty if it was not parsed or has none."""

    def render(self, most_names: int) -> str:
        """Return the file's line with at most ``most_names`` symbols."""
        names = ", ".join(self.names[:most_names])
        return f"{self.path}: {names}" if names else self.path


@dataclass(frozen=True)
class RepositoryMap:
    """All visible files of a repository, ranked."""

    entries: tuple[MapEntry, ...]
    """The files, most important first."""
    unparsed_files: int
    """Files of known languages that are listed by path alone, since the repository or the file is too large or
    takes too long to parse."""

    def render(self, count_tokens: Callable[[str], int], max_tokens: int) -> str:
        """Return the best files with their symbols, and a last line that says how many were left out.

        Args:
            count_tokens: Exact token count of a text.
            max_tokens: Most tokens of the result.

        Returns:
            Never more than ``max_tokens``; empty if not even the last line fits.
        """
        low, high = -1, len(self.entries)
        if count_tokens(self._text(min(high, max_tokens))) <= max_tokens:
            low = min(high, max_tokens)
        high = min(high, max_tokens)
        while low < high:
            middle = (low + high + 1) // 2
            if count_tokens(self._text(middle)) <= max_tokens:
                low = middle
            else:
                high = middle - 1
        return self._text(low) if low >= 0 else ""

    def _text(self, shown: int) -> str:
        lines = [
            entry.render(_FULL_NAMES if rank < _FULL_ENTRIES else _SHORT_NAMES)
            for rank, entry in enumerate(self.entries[:shown])
        ]
        left = self.entries[shown:]
        if left:
            lines.append(f"… {len(left)} more files: {_folded(left)}")
        if self.unparsed_files:
            lines.append(f"({self.unparsed_files} large, far or slow files were ranked by path only)")
        return "\n".join(lines)


def build(repository: Repository, cache_dir: Path | None) -> RepositoryMap:
    """Return the map of a repository, from the cache if nothing has changed.

    Args:
        repository: The repository.
        cache_dir: Folder of caches (``paths.map_cache_dir()``); None keeps nothing on disk.

    Raises:
        ToolError: The files cannot be listed.
    """
    files = repository.files()
    chosen = parsed_files(repository)
    with FactsCache(repository, cache_dir) as cache:
        contents = cache.contents(chosen)
        key = _key(files, contents)
        cached = _decode(cache.map_body(key))
        if cached is not None:
            return cached
        made = _rank(files, cache.facts(contents))
        cache.save()
        cache.keep_map(key, _encode(made))
        return made


def _rank(files: tuple[str, ...], facts: Mapping[str, Facts]) -> RepositoryMap:
    homes: defaultdict[tuple[str, str], set[str]] = defaultdict(set)
    for path, known in facts.items():
        for symbol in known.symbols:
            if symbol.kind != "heading":
                homes[_family(path), symbol.name].add(path)
    users: defaultdict[tuple[str, str], float] = defaultdict(float)
    for path, known in facts.items():
        family, weight = _family(path), role_of(path).weight
        for name, count in known.identifiers.items():
            if (family, name) in homes:
                users[family, name] += weight * math.sqrt(min(count, 9))
    scored: list[tuple[float, str, tuple[str, ...]]] = []
    for path in files:
        role = role_of(path)
        read = facts.get(path, Facts((), {}))
        family = _family(path)
        use = {
            symbol.name: _use(symbol, read, role, users[family, symbol.name], len(homes[family, symbol.name]))
            for symbol in read.symbols
        }
        in_degree = sum(
            sorted((use[symbol.name] for symbol in read.symbols if "." not in symbol.qualified_name), reverse=True)[
                :_TELLING_SYMBOLS
            ]
        )
        standing = in_degree + (_ENTRY_BONUS / (1 + path.count("/")) if role is Role.ENTRY else 0)
        scored.append((role.weight * (1 + standing), path, _names(read.symbols, use)))
    scored.sort(key=lambda row: (-row[0], row[1]))
    entries = tuple(MapEntry(path, names) for _, path, names in scored)
    known_language = sum(1 for path in files if grammar_of(path) is not None)
    return RepositoryMap(entries, known_language - len(facts))


def _use(symbol: Symbol, own: Facts, role: Role, users: float, homes: int) -> float:
    # The file's own uses do not make it important to others.
    others = users - role.weight * math.sqrt(min(own.identifiers.get(symbol.name, 0), 9))
    if others <= 0 or symbol.name.startswith("_") or homes > _MOST_HOMES:
        return 0.0
    is_telling = symbol.name.lower() != symbol.name or "_" in symbol.name
    kind = 0.5 if symbol.kind == "constant" else 1.0
    return math.sqrt(others) * kind * (1.0 if is_telling else 0.3) / homes


def _names(symbols: tuple[Symbol, ...], use: Mapping[str, float]) -> tuple[str, ...]:
    members: defaultdict[str, list[str]] = defaultdict(list)
    tops: dict[str, Symbol] = {}
    for symbol in symbols:
        owner, _, _ = symbol.qualified_name.rpartition(".")
        if symbol.kind == "heading" and len(tops) >= _SHORT_NAMES:
            break
        if not owner or symbol.kind == "heading":
            tops.setdefault(symbol.name, symbol)
        elif (
            symbol.kind in ("method", "property") and symbol.name[:1] not in "_~" and symbol.name not in members[owner]
        ):
            members[owner].append(symbol.name)
            if owner not in tops and "." not in owner and not any(top.name == owner for top in symbols):
                tops[owner] = Symbol(owner, owner, "class", symbol.start_line, symbol.end_line, "")
    order = sorted(
        tops.values(),
        key=lambda symbol: (
            symbol.name.startswith("_"),
            -use.get(symbol.name, 0.0),
            symbol.start_line,
        ),
    )
    lines: list[str] = []
    for symbol in order[:_FULL_NAMES]:
        inner = sorted(members[symbol.name], key=lambda name: -use.get(name, 0.0))[:_MEMBERS]
        lines.append(f"{symbol.name}({', '.join(inner)})" if inner else symbol.name)
    return tuple(lines)


def _folded(entries: tuple[MapEntry, ...]) -> str:
    folders = Counter(entry.path.rpartition("/")[0] for entry in entries)
    while len(folders) > _FOLDERS_NAMED and any("/" in folder for folder in folders):
        depth = max(folder.count("/") for folder in folders)
        folded: Counter[str] = Counter()
        for folder, count in folders.items():
            folded[folder.rpartition("/")[0] if folder.count("/") == depth else folder] += count
        folders = folded
    top = sorted(folders.items(), key=lambda item: (-item[1], item[0]))[:_FOLDERS_NAMED]
    return ", ".join(f"{folder or '.'}/ {count}" for folder, count in top) + (
        ", …" if len(folders) > _FOLDERS_NAMED else ""
    )


def _family(path: str) -> str:
    grammar = grammar_of(path)
    return grammar.family if grammar else ""


def _key(files: tuple[str, ...], contents: Mapping[str, str]) -> str:
    digest = hashlib.sha256()
    for path in files:
        digest.update(f"{path}\0{contents.get(path, '')}\n".encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _encode(made: RepositoryMap) -> str:
    return json.dumps([made.unparsed_files, [[entry.path, *entry.names] for entry in made.entries]])


def _decode(body: str | None) -> RepositoryMap | None:
    if body is None:
        return None
    try:
        unparsed, rows = json.loads(body)
        return RepositoryMap(
            tuple(MapEntry(str(row[0]), tuple(str(name) for name in row[1:])) for row in rows), int(unparsed)
        )
    except (ValueError, TypeError, LookupError):
        return None
