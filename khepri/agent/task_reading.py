"""What a task says: the definitions that it may mean, what it calls them, and the tools and files it speaks of.

The words are looked up in the repository and never understood: a model does that, among what is found here.
"""

import keyword
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.agent.protocol import ToolCall
from khepri.repo.facts import FactsCache
from khepri.repo.relevance import likely_places
from khepri.repo.roles import Role, role_of
from khepri.repo.root import Repository
from khepri.tools.base import Manifest

MOST_CANDIDATES: Final = 16
_MOST_PLACES: Final = 6
WORD: Final = re.compile(r"[A-Za-z_]\w*(?:\.\w+)*")
_CODE_LIKE: Final = re.compile(r"_|[a-z][A-Z]|\.|^[A-Z]")
_HOLE: Final = re.compile(r"\$[A-Z]")
_CODE: Final = re.compile(r"[\w$.]+(?:\([^()]*(?:\([^()]*\)[^()]*)*\)|\[[^\[\]]*\]|\.\w+)+")
"""A name with what is called on it or taken from it, brackets nested once."""
LEADS: Final = "function|method|class|helper"
_REPLACING: Final = re.compile(
    r"\breplace\s+(?:(?:every|all|each|the|any|calls?|uses?|occurrences?|of|to)\s+)*`(?P<old>[^`\n]+)`"
    r"\s+(?:everywhere\s+)?(?:with|by)\s+`(?P<new>[^`\n]+)`"
    r"|\buse\s+`(?P<later>[^`\n]+)`\s+instead\s+of\s+`(?P<former>[^`\n]+)`",
    re.IGNORECASE,
)
_DESTINATION: Final = re.compile(
    r"\b(?:mov|put)\w*\b.*?\s(?:to|into)\s+(?:(?:the|a|its|own|new|file|module)\s+)*"
    r"[`'\"]?(?P<path>[\w./-]*\w\.[A-Za-z]\w{0,9})(?![\w/])",
    re.IGNORECASE | re.DOTALL,
)
_EXTRACTED: Final = re.compile(
    r"\b(?:extract|factor\s+out|pull\s+out|split\s+out)\b.{0,80}?\bfrom\s+[`'\"]?(?P<first>\w+)[`'\"]?"
    r"\s+(?:up\s+)?(?:to|through|until|till)\s+[`'\"]?(?P<last>\w+)",
    re.IGNORECASE | re.DOTALL,
)
"""The lines that become a function, by the variables in the first and the last of them."""
_NEVER_NAMES: Final = frozenset(
    "a an the first second third fourth new another optional required keyword positional extra default named boolean "
    "single last".split()
)
"""Words before ``parameter`` and its like that say which one, and not what it is called."""


@dataclass(frozen=True)
class Candidate:
    """A definition that a task may be about."""

    path: str
    symbol: str
    """Qualified name; empty for a whole file."""
    kind: str
    line: int
    """First line, from 1."""

    @property
    def row(self) -> str:
        """How the model is told of it."""
        return f"- {self.path} {self.symbol} ({self.kind}, line {self.line})" if self.symbol else f"- {self.path}"


def candidates(repository: Repository, task: str, cache_dir: Path | None) -> tuple[Candidate, ...]:
    """Return the definitions that a task names or may mean, the likeliest first; at most sixteen.

    Raises:
        ToolError: The files cannot be listed.
    """
    words = {word: _weight(word, task) for word in WORD.findall(task)}
    files = repository.files()
    with FactsCache(repository, cache_dir) as cache:
        facts = cache.facts(cache.contents(files))
    scored: dict[Candidate, float] = {}
    for path, fact in facts.items():
        # Where something is moved to is not where it comes from.
        named_file = names_file(path, task) and not is_destination(path, task)
        is_test = role_of(path) is Role.TEST
        for symbol in fact.symbols:
            if symbol.kind == "heading":
                continue
            weight = max(words.get(symbol.qualified_name, 0.0) * 1.5, words.get(symbol.name, 0.0))
            if not weight and not named_file:
                continue
            # A name and its file together leave no doubt; a test is seldom what a task means by a name.
            score = weight + (named_file and 4.0) - (is_test and 1.0) - 0.1 * symbol.qualified_name.count(".")
            candidate = Candidate(path, symbol.qualified_name, symbol.kind, symbol.start_line)
            scored[candidate] = max(score, scored.get(candidate, 0.0))
        if named_file:
            scored[Candidate(path, "", "file", 1)] = 3.5
    for rank, place in enumerate(likely_places(repository, task, limit=_MOST_PLACES, cache_dir=cache_dir)):
        if place.symbol:
            kind = next((s.kind for s in facts[place.path].symbols if s.qualified_name == place.symbol), "")
            candidate = Candidate(place.path, place.symbol, kind, place.line)
            if kind and kind != "heading":
                scored[candidate] = scored.get(candidate, 0.0) + 1.5 - 0.2 * rank
    ranked = sorted(scored, key=lambda each: (-scored[each], each.path, each.line))
    return tuple(ranked[:MOST_CANDIDATES])


def named(found: Sequence[Candidate], task: str) -> Sequence[Candidate]:
    """Return the definitions that a task names outright, with the files it names; all of them if it names none."""
    words = spelled_as_names(task) | {word for word in WORD.findall(task) if _stands_as_target(word, task)}
    named = [each for each in found if each.symbol and {each.symbol, each.symbol.rpartition(".")[2]} & words]
    return [*named, *(each for each in found if not each.symbol)] if named else found


def rivals(call: ToolCall, found: Sequence[Candidate], task: str) -> list[str]:
    """Return the other files that define what a call names, where the task does not say which one it means."""
    path, symbol = str(call.arguments.get("path", "")), call.arguments.get("symbol")
    if not symbol or (names_file(path, task) and not is_destination(path, task)):
        return []
    others = {each.path for each in found if each.symbol == symbol and each.path != path}
    if call.name == "move":
        others = {each for each in others if not is_destination(each, task)}
    return sorted(each for each in others if role_of(each) is not Role.TEST)


def destination(task: str) -> str:
    """Return the file that a task moves something to, as it is written; empty if it names none."""
    said = _DESTINATION.search(task)
    return said["path"].removeprefix("./") if said else ""


def is_destination(path: str, task: str) -> bool:
    """Tell if a file is the one that a task moves something to."""
    written = destination(task)
    return bool(written) and (path == written or path.endswith(f"/{written}"))


def tools_spoken_of(manifests: Sequence[Manifest], task: str) -> list[Manifest]:
    """Return the tools that the words of a task speak of."""
    if _HOLE.search(task):
        # A task that holds a pattern of code leaves nothing to think about.
        return [each for each in manifests if each.name == "replace"]
    lowered = task.lower()
    spoken_of = [each for each in manifests if not each.when or any(_begins(word, lowered) for word in each.when)]
    return [each for each in spoken_of if not any(_begins(word, lowered) for word in each.unless)]


def patterns(task: str) -> list[str]:
    """Return the pieces of code with holes that a task holds."""
    return list(dict.fromkeys(piece for piece in _CODE.findall(task) if _HOLE.search(piece) and piece[0] != "$"))


def replacing(task: str) -> tuple[str, str] | None:
    """Return the code that a task replaces and what comes in its place, where both stand in backticks, else None."""
    said = _REPLACING.search(task)
    return (said["old"] or said["former"], said["new"] or said["later"]) if said else None


def names_path(path: str, task: str) -> bool:
    """Tell if a task names a file or a folder by its whole path."""
    return bool(re.search(rf"(?<![\w./-]){re.escape(path)}/?(?![\w/-])", task))


def is_only_a_place(name: str, task: str) -> bool:
    """Tell if a task names something only to say where what it is about lies, as in "the field x of Name"."""
    word = rf"(?<![\w.]){re.escape(name)}(?!\w)"
    places = re.findall(
        rf"(?:(?<!\bcalls)(?<!\bcall)(?<!\buses)(?<!\buse)(?<!\bname)(?<!\boccurrences)(?<!\boccurrence)(?<!\ball))"
        rf"\s+(?:of|in|on|from)\s+(?:the\s+)?(?:(?:class|struct|interface|enum|trait|type|dataclass)\s+)?[`'\"]?{word}"
        rf"|{word}[`'\"]?(?:['\u2019]s\s|\.\w)",
        task,
    )
    return bool(places) and len(places) >= len(re.findall(word, task))


def possible_names(task: str, found: Sequence[Candidate]) -> list[str]:
    """Return the words of a task that can be a new name: identifiers that are no definition it speaks of already."""
    known = {candidate.symbol for candidate in found} | {each.symbol.rpartition(".")[2] for each in found}
    words = [word for word in WORD.findall(task) if word.isidentifier() and not keyword.iskeyword(word)]
    fresh = [word for word in dict.fromkeys(words) if word not in known and not _is_file(word, task)]
    if (lines := _EXTRACTED.search(task)) and lines["first"] in fresh:
        fresh = [word for word in fresh if word not in lines.groups()] or fresh
    # A name that is spelled like one, or stands where a name stands, leaves ordinary words no place.
    likely = [word for word in fresh if _weight(word, task) > 1 or _stands_as_name(word, task)]
    return likely or fresh


def spelled_as_names(task: str) -> set[str]:
    """Return the words of a task that are names for sure: in backticks, called, or spelled as only code is."""
    return {word for word in WORD.findall(task) if _weight(word, task) > 1}


def is_called(candidate: Candidate, name: str) -> bool:
    """Tell if a definition is what a name means, qualified or not."""
    return candidate.symbol == name or candidate.symbol.endswith(f".{name}")


def _weight(word: str, task: str) -> float:
    """Return how surely a word of a task is a name: in backticks or spelled like code, or a plain word."""
    quoted = re.search(rf"[`'\"]{re.escape(word)}(?:\(\))?[`'\"]|\b{re.escape(word)}\(", task)
    if quoted:
        return 6.0
    begins = task.lstrip().startswith(word)
    return 5.0 if _CODE_LIKE.search(word) and not begins else 1.0


def names_file(path: str, task: str) -> bool:
    """Tell if a task names a file, by its path or by its name alone."""
    name = path.rpartition("/")[2]
    if path in task:
        return True
    return bool(re.search(rf"(?<![\w./-]){re.escape(name)}(?![\w-])", task)) and name != "__init__.py"


def _begins(word: str, text: str) -> bool:
    return bool(re.search(rf"(?<![\w]){re.escape(word)}", text))


def _stands_as_name(word: str, task: str) -> bool:
    """Return True if a word stands where the name of something stands."""
    if word.lower() in _NEVER_NAMES:
        return False
    lead = rf"(?:{LEADS}|to|into|as|named|called|name|parameter|argument|option)"
    follow = r"(?:parameter|argument|option|keyword)"
    return bool(re.search(rf"\b{lead}\s+[`'\"]?{re.escape(word)}\b|\b{re.escape(word)}[`'\"]?\s+{follow}\b", task))


def _stands_as_target(word: str, task: str) -> bool:
    """Return True if a word stands where the name of something stands that is there already."""
    lead, name = rf"(?:{LEADS}|to|give|rename|move|inline)", re.escape(word)
    if re.search(rf"\b{lead}\s+[`'\"]?{name}\b", task, re.IGNORECASE):
        return True
    # The subject of the sentence.
    return bool(re.match(rf"\s*{name}\s+(?:should|must|has to|needs|lacks|ought to|does not|doesn't)\b", task))


def _is_file(word: str, task: str) -> bool:
    return bool(re.search(rf"\b{re.escape(word)}\.\w+|/{re.escape(word)}\b", task))
