"""What the agent tells the world: frozen events, the only language upward.

The command line and the terminal app render them; nobody above looks into the agent's state.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from khepri.edits.change import ChangeSet
from khepri.edits.review import Review
from khepri.tools.base import JsonValue


@dataclass(frozen=True)
class ModelLoading:
    """The model is being loaded."""

    model: str
    doing: str = "loading"
    """What is being done, so that the model's name can follow: the first load measures the libraries."""


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
    gamma: int = 0
    """Drafted tokens that the latest pass verified."""
    context_tokens: int = 0
    """Tokens of the conversation with it; 0 if that has not changed."""


@dataclass(frozen=True)
class AnswerDelta:
    """A further piece of the answer."""

    text: str
    tokens: int
    """Tokens generated so far in this turn."""
    tokens_per_s: float
    acceptance_rate: float | None = None
    """Accepted draft tokens over proposed ones in this turn; None when nothing was drafted."""
    gamma: int = 0
    """Drafted tokens that the latest pass verified."""
    context_tokens: int = 0
    """Tokens of the conversation with it; 0 if that has not changed."""


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
class PlanMade:
    """A change was planned. Comes once, before the first step."""

    steps: tuple[str, ...]
    """What will be done, a few words each, such as ``rename Session to Conversation``."""


@dataclass(frozen=True)
class StepStarted:
    """A step of the plan is being worked on; ``Thinking`` and ``PrefillProgress`` may follow."""

    number: int
    """Its place in the plan, from 1."""
    total: int
    text: str


@dataclass(frozen=True)
class StepFinished:
    """A step of the plan is done."""

    number: int
    total: int
    text: str
    """What came of it: the files and lines, or why it was refused."""
    is_refused: bool
    """True if it changes nothing, because a guard or a refactoring library refused it."""
    reason: str = ""
    """The kind of refusal, as ``khepri.edits.refusal.Refusal`` names it; empty if it was not refused."""


@dataclass(frozen=True)
class ReviewRequested:
    """A change waits for the user, and the task with it.

    Show ``review.changes`` and call ``review.answer`` once, from any thread; how to build the answer is said in
    ``khepri.edits.review``. Cancelling the task answers for the user: nothing is written.
    """

    review: Review


@dataclass(frozen=True)
class ChangesApplied:
    """A change was written."""

    checkpoint: int
    """The number under which it can be taken back."""
    changes: ChangeSet


@dataclass(frozen=True)
class CheckStarted:
    """A check of the repository is running."""

    command: str


@dataclass(frozen=True)
class CheckFinished:
    """A check of the repository has ended."""

    command: str
    passed: bool
    summary: str
    """A few words: ``passed``, ``exit status 1``, ``stopped after 300 s``."""
    output: str
    """The end of what it printed."""
    duration_ms: float
    confinement: str
    """What kept it within the repository, such as ``landlock ABI 7``; empty if nothing did."""


@dataclass(frozen=True)
class Compacting:
    """The conversation is being summarised: the context has no room for more of it, or the user has asked for it."""

    prompt_tokens: int
    """Tokens of the conversation as it is."""
    context_tokens: int
    """Tokens that the context holds."""


@dataclass(frozen=True)
class Compacted:
    """The model goes on with a summary; the conversation itself stays in the session file."""

    summary: str
    """What the model is told instead of it."""
    turns: int
    """How many turns the summary stands for."""
    before_tokens: int
    """Tokens of the conversation before, without the preamble."""
    after_tokens: int
    """Tokens of the summary."""


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
    """Tokens after the first of each generation, by the time from the end of its prefill."""
    p50_ms: float
    """Median latency of a generated token."""
    p99_ms: float
    acceptance_rate: float | None
    """Accepted draft tokens over proposed ones; None when nothing was drafted."""
    total_ms: float
    load_ms: float


@dataclass(frozen=True)
class ChangeReport:
    """What came of a change that was asked for."""

    outcome: str
    """``applied``, ``dry_run``, ``rejected`` (by the user), ``refused`` (by a guard or a rule) or ``nothing``."""
    changes: ChangeSet | None
    """What was written or, for a dry run, would be; None if there is nothing."""
    checkpoint: int | None = None
    """The number under which it can be taken back."""
    steps: tuple[StepFinished, ...] = ()
    checks: tuple[CheckFinished, ...] = ()
    """The last round of checks."""
    repairs: int = 0
    """Rounds in which the model was shown failed checks and changed something."""
    was_interrupted: bool = False
    """True if it was stopped after it was written, so that checks or corrections of it are missing."""

    @property
    def checks_passed(self) -> bool:
        """True if no check of the last round failed."""
        return all(check.passed for check in self.checks)


@dataclass(frozen=True)
class DrafterFigures:
    """What came of one drafter in a task."""

    drafter: str
    """``suffix``, ``model`` or ``forced``."""
    drafted: int
    accepted: int


@dataclass(frozen=True)
class Finished:
    """The task has ended."""

    answer: str
    steps: tuple[ToolFinished, ...]
    usage: Usage
    timing: Timing
    model: str
    stop_reason: str
    """``answered``, ``max_tokens``, ``loop``, ``step_limit``, ``context_full``, ``interrupted`` or ``compacted``;
    for a change its outcome."""
    notices: tuple[str, ...] = field(default=())
    report: ChangeReport | None = None
    """What was changed, for a task that was to change something; ``answer`` is then empty."""
    drafts: tuple[DrafterFigures, ...] = ()
    """What came of each drafter."""


Event = (
    ModelLoading
    | PrefillProgress
    | Thinking
    | AnswerDelta
    | ToolStarted
    | ToolFinished
    | Notice
    | PlanMade
    | StepStarted
    | StepFinished
    | ReviewRequested
    | ChangesApplied
    | CheckStarted
    | CheckFinished
    | Compacting
    | Compacted
    | Finished
)
