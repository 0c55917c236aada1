"""Tells a question about the conversation itself: what was said in it answers that, and no file of the repository.

A list of phrases, for whether files hold its words tells nothing: they hold those of "which file did I ask about".
"""

import re
from typing import Final

_ABOUT_TALK: Final = re.compile(
    r"\b(?:did|have|had) (?:i|we|you) (?:just |already |ever )?(?:ask|say|said|tell|told|talk|discuss|answer)"
    r"|\b(?:i|we|you) (?:just |already |first |last )?(?:asked|said|told|talked|discussed|answered)\b"
    r"|\b(?:my|your|our) (?:very )?(?:first|last|second|third|previous|earlier) (?:question|answer|message|request)"
    r"|\bour (?:conversation|talk|chat)\b",
    re.IGNORECASE,
)


def asks_about_talk(question: str) -> bool:
    """Return True if a question is about what was asked or answered before. It knows English only."""
    return _ABOUT_TALK.search(question) is not None
