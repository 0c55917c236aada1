"""The words in names and questions: split, lightly stemmed, without those that say nothing about code.

The stemmer only cuts endings off, so a stem is always the beginning of its word and can be searched for as it stands.
"""

import re
from functools import lru_cache
from typing import Final

_SUBWORD = re.compile(r"[A-Z]+(?=[A-Z][a-z])|[A-Z]?[^\W\d_A-Z]+|[A-Z]+|\d+")
_WORD = re.compile(r"[^\W_][\w']*")
_STOP: Final = frozenset(
    "a about above after all also an and any are as at be because been being between both but by can could did do does "
    "doing done each else ever every find for from get gets give given goes had has have how i if in into is it its "
    "just know let like look make makes many may me might more most much must my need of on one only or other our out "
    "over place please same shall she should show so some such tell than that the their them then there these they "
    "thing this those through to too under until up us use used uses using very want was way we were what when where "
    "whether which while who whose why will with without work works would you your "
    "code file files function functions class classes method methods module implementation implemented implement "
    "handle handled handles happen happens defined define definition live lives located project repository responsible "
    "explain describe decide decides decided logic part actually exactly "
    "several once become becomes take takes taken put puts keep keeps come comes go goes say says".split()
)
_ENDINGS: Final = tuple(
    (
        "izations ization ations ation ements ement ments ment izing ized izes ize ings ing ies ied ions ion "
        "ers ors er or ance ence able ible ally als al ves ed es ly y e s"
    ).split()
)
_SHORTEST_STEM: Final = 3
_SPELLINGS: Final = {
    "colour": "color",
    "behaviour": "behavior",
    "centre": "center",
    "grey": "gray",
    "licence": "license",
}
_SYNONYMS: Final = (
    "config settings options preferences",
    "auth login authentication credentials",
    "delete remove",
    "error exception failure",
    "directory folder",
    "message msg",
    "argument arg parameter",
    "environment env",
    "width size",
    "wide narrow width",
    "long short length",
    "high tall height",
    "deep depth",
    "retry backoff attempt",
    "database db",
    "parse parser",
    "print write output",
    "create make",
    "start launch",
    "key keyboard",
    "animate transition",
    "serialize dump",
    "connection pool",
)


def subwords(name: str) -> list[str]:
    """Return the lower-case words that a snake, kebab or camel case name consists of."""
    return [word.lower() for word in _SUBWORD.findall(name)]


@lru_cache(maxsize=65_536)
def stem(word: str) -> str:
    """Return the beginning that a lower-case word shares with its other forms, at least three characters of it."""
    for _ in range(2):
        if not word.endswith(_ENDINGS):
            break
        for ending in _ENDINGS:
            if word.endswith(ending) and len(word) - len(ending) >= max(_SHORTEST_STEM, 4 - (len(ending) < 2)):
                word = word[: -len(ending)]
                break
        else:
            break
    if (
        len(word) > _SHORTEST_STEM
        and word[-1] == word[-2]
        and word[-1] not in ("aeious" if len(word) > 5 else "aeiouls")
    ):
        word = word[:-1]
    return word


@lru_cache(maxsize=65_536)
def stems_of(name: str) -> tuple[str, ...]:
    """Return the stems of the words in ``name``, and of the whole of it."""
    parts = subwords(name)
    whole = name.lower().replace("_", "")
    return tuple(dict.fromkeys([*map(stem, parts), stem(whole)] if len(parts) > 1 else map(stem, parts)))


def question_stems(question: str) -> dict[str, float]:
    """Return the stems of a question with their weights: 1 for its own words, less for what stands for them."""
    weights: dict[str, float] = {}
    words = [part for word in _WORD.findall(question) for part in subwords(word.split("'")[0])]
    for word in words:
        if word not in _STOP and len(word) > 1 and not word.isdigit():
            weights.setdefault(stem(word), 1.0)
    for word in _WORD.findall(question):
        # Of a name such as f_17_3 the parts say nothing, and the whole says everything.
        whole = word.lower().replace("_", "")
        if any(letter.isdigit() for letter in whole) and not whole.isdigit() and len(whole) > 1:
            weights.setdefault(stem(whole), 1.0)
    for british, american in _SPELLINGS.items():
        if stem(british) in weights:
            weights.setdefault(stem(american), 1.0)
    for group in _SYNONYMS:
        stems = [stem(word) for word in group.split()]
        if any(weights.get(known) == 1.0 for known in stems):
            for other in stems:
                weights.setdefault(other, 0.3)
    return weights
