"""Which code block of an entry is copied next: from the last to the first, and then all.

Where the copies go is not known here.
"""

from khepri.tui.entries import Entry


class CodeSteps:
    """Steps through the code blocks of one entry after another."""

    def __init__(self) -> None:
        self._before: tuple[Entry, list[str]] | None = None
        self._presses = 0

    def begin_anew(self) -> None:
        """Let the next step be a first one."""
        self._before = None

    def step(self, entry: Entry, blocks: list[str]) -> tuple[str, str]:
        """Return the code to be copied and what it is; an entry that has another block by now begins anew with that.

        Args:
            entry: Where the code stands.
            blocks: All of its code, at least one block.
        """
        self._presses = self._presses + 1 if self._before == (entry, blocks) else 0
        self._before = entry, blocks
        step = self._presses % (len(blocks) + 1)
        if len(blocks) == 1:
            return blocks[0], "the code"
        if step == len(blocks):
            return "\n\n".join(blocks), f"all {len(blocks)} code blocks"
        return blocks[-1 - step], f"code block {len(blocks) - step} of {len(blocks)}"
