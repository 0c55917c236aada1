"""Tells whether a task asks for less code, or only speaks of something that the code takes away.

"Remove the check" and "remove the spaces" have one verb and two kinds of objects: a part of the program, and what the
program works on. So a verb counts only together with its object, with what that is taken from, and with the occasion:
code goes once, and not "when it is done". Where it cannot be told, the task does not ask for less.
"""

import re
from collections.abc import Sequence
from itertools import takewhile
from typing import Final

from khepri.edits.nouns import Noun, holds_code, noun_of, takes_name

_TOKEN: Final = re.compile(
    r"`[^`\n]*`|(?<!\w)'[^'\n]*'(?!\w)|\"[^\"\n]*\"|[A-Za-z_](?:[\w'\u2019-]|[.](?=\w))*(?:\(\w*\))?|[,:(]"
)
_SENTENCE_END: Final = re.compile(r"[.;:!?](?:\s|$)|\n")
_NAME: Final = re.compile(r"[A-Za-z_]\w*")
_SPELLED_AS_CODE: Final = re.compile(r"\w*_\w*|\w+(?:\.\w+)+|\w+(?:\.\w+)*\(\w*\)|\w*[a-z0-9][A-Z]\w*")
_FILE: Final = re.compile(r"[\w-]+\.(?:pyi?|[jt]sx?|go|rs|c|h|cc|cpp|hpp|java|rb|php|sh|lua|cs|kt|swift)")
_STRING: Final = re.compile(r"'[^'\n]*'|\"[^\"\n]*\"")

_OF_CODE: Final = re.compile(r"simplif|refactor|inline$|inlin(?:ed|ing)$|stub|revert", re.IGNORECASE)
"""What is done to code, unless the object says otherwise."""
_OF_CODE_OR_DATA: Final = re.compile(
    r"remov|delet|drop|strip|clean|replac|extract|mov(?:e|ed|ing)$|split|reduc|shorten|condens|merg|combin|trim"
    r"|unif(?:y|ied|ying)$|cut(?:ting)?$|empt(?:y|ied)$|collaps|rid$",
    re.IGNORECASE,
)
_WITH_RESULT: Final = re.compile(r"replac|extract|mov|split|merg|combin|condens|collaps|reduc|unif", re.IGNORECASE)
"""What tells by its result what it is done to."""
_WITH_PLACE: Final = re.compile(r"extract|mov|split", re.IGNORECASE)
"""What puts its object somewhere."""
_REWRITE: Final = re.compile(r"\b(?:one-liner|rewrite\s+\S+\s+as|make\s+\S+\s+shorter)\b", re.IGNORECASE)
_NOT: Final = re.compile(r"not|never|without|cannot|\w+n['\u2019]t", re.IGNORECASE)
_BE: Final = frozenset("be is are was were being been get gets got".split())
_DUTY: Final = frozenset("should shall must can could will would may might has have had needs need ought to".split())
_WE: Final = frozenset("we you i".split())
_CAUSE: Final = frozenset("make makes let lets have".split())
_MAKING: Final = frozenset("add write create implement define".split())
_DETERMINERS: Final = frozenset(
    "a an the this that these those its their his her my your our all any each every both some no".split()
)
_PRONOUNS: Final = frozenset("it this that them these those".split())
_FILLERS: Final = frozenset("up out away off down also just simply completely entirely please".split())
_PREPOSITIONS: Final = frozenset(
    "from in of for with by to into onto as at on over under around except instead between without because since "
    "through within inside per via like than behind".split()
)
_JOINTS: Final = frozenset("and or but so then".split())
_CLAUSES: Final = frozenset("that which who where how what".split())
_OCCASIONS: Final = frozenset("when whenever once unless while until if".split())
_MOMENTS: Final = frozenset("before after".split())
_EVENTS: Final = frozenset("exit end failure error close success start shutdown".split())
_SOURCES: Final = frozenset("from in of inside within".split())
_RESULTS: Final = frozenset("with by into to as".split())
_SAID_OF_CODE: Final = frozenset(
    "unused dead unreachable deprecated obsolete legacy redundant needless duplicate duplicated".split()
)
_CODE_ALONE: Final = frozenset("try else elif finally dead commented".split())
"""Words that leave no doubt that code is spoken of."""


def asks_for_less(task: str, old: str, definitions: set[str]) -> bool:
    """Return True for a task that asks for less code than there is.

    Args:
        task: What the user asked for.
        old: The text of the file or definition that may get shorter; what it names is code.
        definitions: Names of the functions, classes and so on in it.
    """
    names = frozenset(_NAME.findall(_STRING.sub("", old)))
    return any(_Sentence(said, old, names, definitions).asks_for_less() for said in _SENTENCE_END.split(task))


class _Sentence:
    """One sentence of a task, in words."""

    def __init__(self, said: str, old: str, names: frozenset[str], definitions: set[str]) -> None:
        self._said = said
        self._words = _TOKEN.findall(said)
        self._lowered = [word.lower() for word in self._words]
        self._old = old
        self._names = names
        self._definitions = definitions

    def asks_for_less(self) -> bool:
        """Return True if it does."""
        if (found := _REWRITE.search(self._said)) and not any(map(_NOT.fullmatch, self._said[: found.start()].split())):
            return True
        return any(self._takes_code(place) for place in range(len(self._words)))

    def _takes_code(self, place: int) -> bool:
        """Return True if a word is a verb that takes code away."""
        if self._lowered[place : place + 2] == ["instead", "of"]:
            return self._kind(self._phrase(place + 2)) is Noun.CODE
        if not (_OF_CODE.match(self._words[place]) or _OF_CODE_OR_DATA.match(self._words[place])):
            return False
        if not self._is_asked_for(place):
            return False
        if self._is_passive(place):
            return self._is_code(self._subject(place), place, is_told=True)
        is_told = not self._is_behaviour(place)
        start = place + 1 + (self._lowered[place + 1 : place + 2] == ["of"])
        starts = [start]
        for at in range(start + 1, len(self._words)):
            if self._lowered[at - 1] in {"and", "or", ","} and self._lowered[at] in _DETERMINERS:
                starts.append(at)
        return any(self._is_code(self._phrase(each), place, is_told=is_told) for each in starts)

    def _is_code(self, object_: Sequence[str], place: int, *, is_told: bool) -> bool:
        """Return True if what a verb is done to is code."""
        word = self._words[place]
        if is_told and _WITH_PLACE.match(word) and self._ends_in_code(place):
            return True
        if not object_ or (len(object_) == 1 and object_[0].lower() in _PRONOUNS):
            rest = self._lowered[place + 1 :]
            if is_told and place == 0 and all(each in _FILLERS | _PRONOUNS for each in rest):
                return True
        match self._kind(object_):
            case Noun.CODE:
                return True
            case Noun.DATA:
                return False
            case Noun.EITHER:
                return is_told and not self._has_occasion(place) and self._is_from_code(place, or_nothing=True)
            case _ if not is_told:
                return False
            case _ if _OF_CODE.match(word) or (_WITH_RESULT.match(word) and self._ends_as_code(place)):
                return True
            case _:
                return bool(object_) and not self._has_occasion(place) and self._is_from_code(place, or_nothing=False)

    def _is_asked_for(self, place: int) -> bool:
        """Return False if a word that looks like a verb is a name, stands for a thing, is denied or only told of."""
        word, lowered = self._words[place], self._lowered[place]
        before = self._lowered[place - 1] if place else ""
        after = self._lowered[place + 1] if place + 1 < len(self._words) else ""
        if _SPELLED_AS_CODE.fullmatch(word) or any(map(_NOT.fullmatch, self._lowered[max(0, place - 2) : place])):
            return False
        if word in self._definitions and (
            before in {"in", "of", "from", "function", "method", "class", "when", "if", "that"} | _CAUSE
            or after in _DUTY | _BE | {"does", "do"}
            or re.fullmatch(r"\w+(?<!s)s", after)
        ):
            return False
        if before in _DETERMINERS - _PRONOUNS or (lowered == "empty" and after not in {"the", "this", "its", "out"}):
            return False
        if lowered.endswith("ing"):
            return before in {"", "by", "and", "or"}
        if lowered.endswith("ed"):
            return self._is_passive(place)
        return not re.fullmatch(r"\w+[^s]s", lowered)

    def _is_passive(self, place: int) -> bool:
        """Return True for what is to be done to what was named before, as in ``it should be removed``."""
        before = self._lowered[:place]
        if "want" in before and self._lowered[place].endswith("ed"):
            return True
        return before[-1:] != [] and before[-1] in _BE and bool(_DUTY & set(before))

    def _is_behaviour(self, place: int) -> bool:
        """Return True if the subject of a verb is the code: then the verb tells what the code is to do."""
        before = self._lowered[:place]
        duty = list(takewhile(_DUTY.__contains__, reversed(before)))
        subject = before[len(before) - len(duty) - 1] if len(duty) < len(before) else ""
        if duty == ["to"]:
            return bool(_MAKING & set(before))
        if duty:
            return subject not in _WE
        return before[-1:] == ["that"] or (len(before) > 1 and before[-2] in _CAUSE)

    def _phrase(self, start: int, end: int | None = None) -> list[str]:
        """Return the words of what is spoken of from a place on, without those that only point to it."""
        ends = _PREPOSITIONS | _JOINTS | _CLAUSES | _OCCASIONS | _MOMENTS | _BE | set(",:(")
        found: list[str] = []
        for place, word in enumerate(self._words[start:end], start=start):
            lowered = word.lower()
            is_pointed_to = place > 0 and self._lowered[place - 1] in {"the", "a", "an", "every", "each"}
            if lowered in ends and not is_pointed_to and (found or lowered not in _PRONOUNS):
                break
            if lowered in _DETERMINERS and not _DETERMINERS.issuperset(map(str.lower, found)):
                break
            if lowered not in _FILLERS:
                found.append(word)
        return [word for word in found if word.lower() not in _DETERMINERS] or found

    def _subject(self, place: int) -> list[str]:
        """Return the words of what something is done to that is named before it; none in a condition."""
        before = self._lowered[:place]
        cuts = [at for at, word in enumerate(before) if word in {"want"} | _JOINTS | _CLAUSES | _OCCASIONS | set(",:(")]
        start = cuts[-1] + 1 if cuts else 0
        if cuts and before[cuts[-1]] in _OCCASIONS:
            return []
        phrase = self._phrase(start, place)
        return list(takewhile(lambda word: word.lower() not in _DUTY, phrase))

    def _kind(self, object_: Sequence[str]) -> Noun:
        """Return what the object of a verb is."""
        if not object_:
            return Noun.UNKNOWN
        head, lowered = object_[-1], [word.lower() for word in object_]
        noun = noun_of(head)
        if noun is Noun.CODE or _CODE_ALONE & set(re.split(r"\W", " ".join(lowered))):
            return Noun.CODE
        if _FILE.fullmatch(head):
            return Noun.CODE
        named = _unquoted(head)
        is_explicit = named != head or _SPELLED_AS_CODE.fullmatch(head) is not None
        if is_explicit and not _NAME.fullmatch(named):
            return Noun.EITHER if re.search(r"\w[.(\[=]| = ", named) and named.rstrip("()") in self._old else Noun.DATA
        if len(object_) > 1 and takes_name(object_[-2]) and named in self._names:
            return Noun.EITHER
        if noun is Noun.DATA and not is_explicit:
            return Noun.EITHER if len(object_) == 1 and self._is_bare(head) and head in self._names else Noun.DATA
        if noun is Noun.EITHER or _SAID_OF_CODE & set(lowered):
            return Noun.EITHER
        if all(_unquoted(word) in self._names for word in object_):
            return Noun.EITHER
        return Noun.UNKNOWN

    def _is_bare(self, word: str) -> bool:
        """Return True if no determiner stands before a word."""
        place = self._words.index(word)
        return place == 0 or self._lowered[place - 1] not in _DETERMINERS

    def _is_from_code(self, place: int, *, or_nothing: bool) -> bool:
        """Return True if what a verb takes away is taken from code; ``or_nothing`` if that is not said."""
        for at, word in enumerate(self._lowered[place + 1 :], start=place + 1):
            if word in set(",:(") | _JOINTS:
                return or_nothing
            if word in _SOURCES:
                source = self._phrase(at + 1)
                return bool(source) and (
                    holds_code(source[-1])
                    or _FILE.fullmatch(source[-1]) is not None
                    or _unquoted(source[-1]) in self._definitions
                    or _unquoted(source[-1]).rpartition(".")[2] in self._definitions
                )
        return or_nothing

    def _has_occasion(self, place: int) -> bool:
        """Return True if it is said when something is taken away: then it is the running program that does."""
        rest = list(takewhile(lambda word: word != ",", self._lowered[place + 1 :]))
        for at, word in enumerate(rest):
            if word in _OCCASIONS or (word in {"on", "at", "upon"} and _EVENTS & set(rest[at + 1 : at + 3])):
                return True
            following = self._phrase(place + 2 + at)
            if word in _MOMENTS and not (following and holds_code(following[-1])):
                return True
        return False

    def _ends_in_code(self, place: int) -> bool:
        """Return True if the result of a verb is, or is put into, what holds code."""
        return any(holds_code(word) or _FILE.fullmatch(word) for word in self._results(place))

    def _ends_as_code(self, place: int) -> bool:
        """Return True if the result of a verb is code or spelled like it."""
        return self._ends_in_code(place) or any(_SPELLED_AS_CODE.fullmatch(word) for word in self._results(place))

    def _results(self, place: int) -> list[str]:
        """Return what a verb makes of its object, each by its noun."""
        places = (at for at in range(place + 1, len(self._words)) if self._lowered[at] in _RESULTS)
        phrases = (phrase for at in places if (phrase := self._phrase(at + 1)))
        return [phrase[-2] if takes_name("".join(phrase[-2:-1])) else _unquoted(phrase[-1]) for phrase in phrases]


def _unquoted(word: str) -> str:
    return word.strip("`'\"")
