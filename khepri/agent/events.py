"""What the agent tells the world: frozen events, the only language upward.

The command line and the terminal app render them; nobody above looks into the agent's state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from khepri.tools.base import JsonValue


@dataclass(frozen=True)
class ModelLoading:
    """The model is being loaded."""

    model: str


@dataclass(frozen=True)
class PrefillProgress:
    """Some of a prompt has been evaluated."""

    done_tokens: int
    total_tokens: int
    cached_tokens: int
    tokens_per_s: float


@dataclass(frozen=True)
class Thinking:
    """Text is being generated that is not known yet to be part of the answer."""

    text: str
    """All of it so far in this turn."""
    tokens: int
    tokens_per_s: float
    acceptance_rate: float | None = None
    """Accepted draft tokens over proposed ones in this turn; None when nothing was drafted."""


@dataclass(frozen=True)
class AnswerDelta:
    """A further piece of the answer."""

    text: str
    tokens: int
    """Tokens generated so far in this turn."""
    tokens_per_s: float
    acceptance_rate: float | None = None
    """Accepted draft tokens over proposed ones in this turn; None when nothing was drafted."""


@dataclass(frozen=True)
class ToolStarted:
    """The model has called a tool."""

    step: int
    tool: str
    arguments: Mapping[str, JsonValue]


@dataclass(frozen=True)
class ToolFinished:
    """A tool has answered."""

    step: int
    tool: str
    arguments: Mapping[str, JsonValue]
    summary: str
    tokens: int
    duration_ms: float
    is_error: bool
    text: str
    """The observation as the model reads it."""


@dataclass(frozen=True)
class Notice:
    """Something the user should know that is not an answer."""

    text: str
    is_warning: bool = False


@dataclass(frozen=True)
class Usage:
    """Tokens of a whole task."""

    prompt_tokens: int
    cached_tokens: int
    completion_tokens: int


@dataclass(frozen=True)
class Timing:
    """Times of a whole task."""

    ttft_ms: float
    """From the question to the first token of the answer, steps included."""
    decode_tokens_per_s: float
    p50_ms: float
    """Median latency of a generated token."""
    p99_ms: float
    acceptance_rate: float | None
    """Accepted draft tokens over proposed ones; None when nothing was drafted."""
    total_ms: float
    load_ms: float


@dataclass(frozen=True)
class Finished:
    """The task has ended."""

    answer: str
    steps: tuple[ToolFinished, ...]
    usage: Usage
    timing: Timing
    model: str
    stop_reason: str
    """``answered``, ``max_tokens``, ``loop``, ``step_limit``, ``context_full`` or ``interrupted``."""
    notices: tuple[str, ...] = field(default=())


Event = ModelLoading | PrefillProgress | Thinking | AnswerDelta | ToolStarted | ToolFinished | Notice | Finished
