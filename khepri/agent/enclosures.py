"""What goes to the model with the next question: what commands of the user's have printed, and files that were added.

Where a question goes, and what is kept of it, is not known here.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from khepri.agent.history import Turn
from khepri.agent.task import Attachment, Question
from khepri.repo.text import cut_middle

_OUTPUT_OF: Final = "output of "


class Enclosures:
    """What waits for the next question of one conversation. One thread changes it; any may ask for the question.

    Args:
        context_tokens: What the model can hold.
        files: Paths of files that were added.
    """

    def __init__(self, context_tokens: int, files: Iterable[str] = ()) -> None:
        self._context_tokens = context_tokens
        self._outputs: tuple[Attachment, ...] = ()
        self._files = tuple(files)

    def show_again(self, files: Iterable[str]) -> None:
        """Have files looked at with the next question, these and no others."""
        self._files = tuple(files)

    def add_file(self, path: str) -> None:
        """Have a file looked at with the next question."""
        self._files = (*self._files, path)

    def drop_file(self, path: str) -> None:
        """Have a file looked at no more."""
        self._files = tuple(each for each in self._files if each != path)

    def add_output(self, command: str, output: str) -> None:
        """Take what a command has printed."""
        self._outputs = (*self._outputs, Attachment(f"{_OUTPUT_OF}{command}", output))

    def forget_outputs(self) -> None:
        """Leave what commands have printed behind."""
        self._outputs = ()

    def take_back(self, turn: Turn) -> None:
        """Let what commands had printed before a turn wait again."""
        printed = (each for each in turn.question.attachments if each.name.startswith(_OUTPUT_OF))
        self._outputs = (*printed, *self._outputs)

    def with_question(self, question: Question) -> Question:
        """Return a question with all that waits; each output is cut to what there is room for."""
        fresh = [path for path in self._files if path not in question.mentions]
        printed = (replace(each, text=cut_middle(each.text, self._output_chars)) for each in self._outputs)
        return Question(question.text, (*printed, *question.attachments), (*question.mentions, *fresh))

    def sent(self) -> str:
        """Let nothing wait any more; return what the user should know of what was cut, empty if nothing was."""
        chars = self._output_chars
        cut = [each.name for each in self._outputs if len(each.text) > chars]
        self._outputs, self._files = (), ()
        if not cut:
            return ""
        ends = f"the beginning and the end of the {' and the '.join(cut)}"
        return f"the model reads only {ends}: {chars:,} characters of each"

    @property
    def _output_chars(self) -> int:
        """Characters of what each command printed that a question may hold: all of them leave room for an answer.

        Where a token is a single character, as with numbers, they take half of the context.
        """
        return self._context_tokens // 2 // max(1, len(self._outputs))
