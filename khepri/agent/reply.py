"""One turn of the model while it is being written: is it a call or an answer, and what of it may be shown already.

Nothing is generated and nothing is emitted here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

from khepri.agent.protocol import TRIGGER, ToolCall, may_be_call
from khepri.engine.request import Generation

PREFACE_TOKENS = 32
"""Tokens of free text after which a turn that may be a call is an answer."""


@dataclass
class Reply:
    """One turn of the model while it is being written. Belongs to the task's thread."""

    may_call: bool
    """True if a call is among what it may be."""
    text: str = ""
    """What has come so far."""
    emitted: int = 0
    """Characters of it that were shown as an answer."""
    is_looping: bool = False
    """True if it was stopped because it repeated itself."""
    is_cut_call: bool = False
    """True if it is a call that a limit cut off."""
    stop_reason: str = "answered"
    """Why it ended."""
    call: ToolCall | None = None
    """The call that it turned out to be."""
    generation: Generation = field(init=False)
    """What the engine made of it, once it has ended."""

    def is_undecided(self, tokens: int) -> bool:
        """True while the text may still turn out to be a call and nothing of it has been shown."""
        if self.emitted:
            return False
        return may_be_call(self.text) or (self.may_call and (tokens <= PREFACE_TOKENS or TRIGGER in self.text))

    def has_begun_call(self, tools: Sequence[str]) -> bool:
        """True if the text holds the beginning of a call."""
        return not self.emitted and bool(tools) and TRIGGER in self.text

    @property
    def was_interrupted(self) -> bool:
        """True if the user stopped it."""
        return self.stop_reason == "interrupted"

    def take_fresh(self) -> str:
        """Return the text that has not been emitted, and count it as emitted; leading blank space is dropped."""
        fresh = self.text[self.emitted :]
        if not self.emitted:
            fresh = fresh.lstrip()
            if not fresh:
                return ""
        self.emitted = len(self.text)
        return fresh
