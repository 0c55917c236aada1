"""How text leaves the engine: one writer appends, any number of readers poll, nobody waits.

The writer publishes an immutable ``Snapshot`` by one reference assignment; a reader keeps a cursor of its own and takes
what is new. Republishing the whole text for every token would be quadratic.
"""

from dataclasses import dataclass, replace
from enum import StrEnum


class JobState(StrEnum):
    """Where a job is."""

    QUEUED = "queued"
    PREFILL = "prefill"
    DECODE = "decode"
    DONE = "done"


@dataclass(frozen=True)
class Snapshot:
    """What a reader may know of a job at one moment."""

    state: JobState = JobState.QUEUED
    pieces: int = 0
    """Pieces of text published so far."""
    prompt_tokens: int = 0
    cached_tokens: int = 0
    """Prompt tokens reused from the cache."""
    prefilled_tokens: int = 0
    """Prompt tokens in the cache so far, the reused ones included."""
    completion_tokens: int = 0
    forced_tokens: int = 0
    """Those of them that a constraint forced, which are no work of the model's."""
    prefill_s: float = 0.0
    """Time spent in the prefill so far."""
    decode_s: float = 0.0
    """Time spent in the decode so far."""
    drafted_tokens: int = 0
    accepted_tokens: int = 0
    gamma: int = 0
    """Drafted tokens that the latest pass verified."""


class TokenBuffer:
    """Text and counters of one job. ``append`` and ``publish`` belong to the worker's thread, the rest to anyone."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._snapshot = Snapshot()

    @property
    def snapshot(self) -> Snapshot:
        """The latest published state; a frozen value."""
        return self._snapshot

    def append(self, piece: str) -> None:
        """Add text that the next ``publish`` will show. Writer only."""
        if piece:
            self._pieces.append(piece)

    def publish(self, **changes: object) -> None:
        """Show everything appended so far, with the given fields of the snapshot changed. Writer only."""
        self._snapshot = replace(self._snapshot, pieces=len(self._pieces), **changes)  # type: ignore[arg-type]

    def read(self, cursor: int) -> tuple[str, int]:
        """Return the text published since ``cursor`` and the new cursor; a first reader starts at 0."""
        end = self._snapshot.pieces
        return "".join(self._pieces[cursor:end]), end
