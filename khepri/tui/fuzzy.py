"""Ranks names by how well they match a few letters, as one types them after an ``@``."""

from collections.abc import Iterable

_WORD_START = 6
_IN_NAME = 4
_ADJACENT = 5
_GAP = 1


def rank(query: str, names: Iterable[str], limit: int) -> list[str]:
    """Return the names that hold the letters of ``query`` in order, best first.

    Letters that follow one another, that begin a word, and that lie in the last part of a path count more; of equal
    names the shorter one comes first.
    """
    wanted = query.lower()
    scored = [(score, name) for name in names if (score := _score(wanted, name)) is not None]
    scored.sort(key=lambda pair: (-pair[0], len(pair[1]), pair[1]))
    return [name for _, name in scored[:limit]]


def _score(wanted: str, name: str) -> int | None:
    """Return how well a name matches; None if it does not. The last possible places are taken, where names differ."""
    lowered = name.lower()
    name_start = max(lowered.rfind("/"), lowered.rfind("#")) + 1
    found = lowered.find(wanted, name_start)
    if found < 0:
        found = lowered.rfind(wanted)
    if found >= 0:
        places = range(found, found + len(wanted))
        return sum(_worth(name, place, name_start) for place in places) + _ADJACENT * len(wanted)
    total, end = 0, len(lowered)
    for letter in reversed(wanted):
        place = lowered.rfind(letter, 0, end)
        if place < 0:
            return None
        total += _worth(name, place, name_start) + (_ADJACENT if place == end - 1 else -_GAP)
        end = place
    return total


def _worth(name: str, place: int, name_start: int) -> int:
    begins_word = place == 0 or not name[place - 1].isalnum() or (name[place].isupper() and name[place - 1].islower())
    return (_WORD_START if begins_word else 0) + (_IN_NAME if place >= name_start else 0)
