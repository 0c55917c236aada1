"""Which of several places does the work: one that only calls a function of another stands behind it.

What the places are about, and how they were found, is not known here.
"""

import re
from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from typing import Final, Protocol, TypeVar

from khepri.repo.facts import Facts
from khepri.repo.words import stems_of

_FOLLOWED: Final = 3
"""Places whose calls are followed, from the best on."""
_CALL = re.compile(r"(?<!def )(?<!func )(?<!function )(?<!fn )\b(\w+)\s*\(")


class Located(Protocol):
    """A place as far as it matters here."""

    @property
    def path(self) -> str:
        """POSIX path from the root; no two places share one."""

    @property
    def first_line(self) -> int:
        """First line of it, from 1."""

    @property
    def last_line(self) -> int:
        """Last line of it."""


P = TypeVar("P", bound=Located)


def followed(
    places: Sequence[P],
    facts: Mapping[str, Facts],
    texts: Mapping[str, str],
    terms: Collection[str],
) -> tuple[P, ...]:
    """Return the places in an order in which a function comes before the place that calls it.

    A call counts if its name holds a word of the question and only one of the other files defines a function of that
    name: then the caller is about the subject, and the callee does what the question asks for.

    Args:
        places: One per file, best first.
        facts: What is known of their files, by path.
        texts: The text of their files, by path; those of the first few are looked at.
        terms: The stems of the question's words.
    """
    defined: defaultdict[str, set[str]] = defaultdict(set)
    for place in places:
        for symbol in facts[place.path].symbols if place.path in facts else ():
            if symbol.kind in ("function", "method"):
                defined[symbol.name].add(place.path)
    order = list(places)
    for caller in places[:_FOLLOWED]:
        lines = texts.get(caller.path, "").splitlines()[caller.first_line - 1 : caller.last_line]
        called = {name for name in _CALL.findall("\n".join(lines)) if any(term in terms for term in stems_of(name))}
        files = {path for name in called if len(defined[name]) == 1 for path in defined[name]}
        for callee in places:
            if callee.path in files and order.index(callee) > order.index(caller):
                order.remove(callee)
                order.insert(order.index(caller), callee)
    return tuple(order)
