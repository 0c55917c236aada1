"""Texts that are too large to be edited in place, and the words that stand for them in a message.

Where they are written and kept is not known here.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from khepri.agent.task import Attachment
from khepri.repo.text import counted

_LABEL: Final = re.compile(r"\[paste \d+: [\d,]+ lines?, [\d,]+ characters?\]")


@dataclass(frozen=True)
class Paste:
    """A text that is too large to be edited in place, and the words that stand for it in the composer."""

    label: str
    """What stands for it."""
    text: str
    """The text itself."""


def label_of(number: int, lines: int, text: str) -> str:
    """Return the words that stand for the paste of a number."""
    return f"[paste {number}: {counted(lines, 'line')}, {counted(len(text), 'character')}]"


def missing_pastes(message: str, pastes: Iterable[Paste]) -> tuple[str, ...]:
    """Return the words of a message that stand for a paste whose text is none of ``pastes``."""
    known = {paste.label for paste in pastes}
    return tuple(dict.fromkeys(label for label in _LABEL.findall(message) if label not in known))


def attachments_of(pastes: Iterable[Paste]) -> tuple[Attachment, ...]:
    """Return the pastes as they go with a question."""
    return tuple(Attachment(paste.label.strip("[]"), paste.text) for paste in pastes)


def pastes_of(attachments: Iterable[Attachment]) -> tuple[Paste, ...]:
    """Return what went with a question as pastes; those count that its text names."""
    return tuple(Paste(f"[{attachment.name}]", attachment.text) for attachment in attachments)
