"""What is asked of the engine and what comes back: plain frozen values that cross threads.

Nothing here knows how tokens are made.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum


@dataclass(frozen=True)
class SamplingParams:
    """How the next token is chosen from the logits; the defaults are greedy."""

    temperature: float = 0.0
    """0 takes the most likely token; above 0 divides the logits before the softmax."""
    top_k: int = 0
    """Keep the k most likely tokens; 0 keeps all."""
    top_p: float = 1.0
    """Keep the smallest set of tokens whose probability reaches p (nucleus); 1 keeps all."""
    min_p: float = 0.0
    """Keep tokens at least this fraction as likely as the most likely one; 0 keeps all."""
    seed: int | None = None
    """Seed of the random generator; None takes one from the operating system."""


@dataclass(frozen=True)
class ToolCallGrammar:
    """A constraint that sleeps until a trigger appears in the generated text, and then holds to the end of a call."""

    trigger: str
    """Text that starts the constrained part, such as ``<tool_call>``."""
    lark: str
    """Grammar (llguidance's Lark dialect) of what follows the trigger, the closing tag included."""
    window_tokens: int
    """A call may only start within this many tokens of free text; afterwards the trigger is masked out. 0 forbids
    calls from the start."""
    forced: bool = False
    """True starts the generation inside the constraint: the prompt already ends with the trigger."""


class DraftMode(StrEnum):
    """Which drafters may propose tokens that the target then verifies."""

    OFF = "off"
    """None: every token takes a pass of its own."""
    SUFFIX = "suffix"
    """Matches with the conversation and the repository."""
    MODEL = "model"
    """A smaller model."""
    ALL = "all"
    """Matches first, and the smaller model where there are none."""


class DrafterName(StrEnum):
    """Who proposed a token."""

    FORCED = "forced"
    """The constraint, which allows it only one way; committed without a question to the target."""
    GRAMMAR = "grammar"
    """The constraint, which allows one text but several ways to cut it into tokens, and what followed it before."""
    SUFFIX = "suffix"
    """A match of the end of the text with something that was seen before."""
    MODEL = "model"
    """A smaller model of the same vocabulary."""


class StopReason(StrEnum):
    """Why a generation ended."""

    END = "end"
    """The model ended its turn with an end-of-generation token."""
    TOOL_CALL = "tool_call"
    """The constrained part is complete."""
    MAX_TOKENS = "max_tokens"
    """The token budget of the request is used up."""
    CONTEXT_FULL = "context_full"
    """The context has no room for another token."""
    CANCELLED = "cancelled"
    """The caller cancelled the job."""


@dataclass(frozen=True)
class Request:
    """One generation: a prompt and how to continue it."""

    prompt: tuple[int, ...]
    """Token ids of the whole prompt, at least one."""
    max_tokens: int
    """Generate at most this many tokens."""
    sampling: SamplingParams = field(default_factory=SamplingParams)
    """How each token is chosen."""
    grammar: ToolCallGrammar | None = None
    """The constraint on tool calls; None leaves the text free."""
    draft: DraftMode = DraftMode.SUFFIX
    """Which drafters may propose tokens, and whether forced tokens are committed without a pass. No choice changes the
    distribution of what comes out."""
    gamma: int | None = None
    """How many drafted tokens a pass verifies; None lets the horizon choose at every step."""
    stable_tokens: int = 0
    """So many tokens of the prompt are what other conversations begin with as well: they are worth keeping on disk."""


@dataclass(frozen=True)
class DraftCount:
    """What came of one drafter's proposals."""

    drafted: int = 0
    """Tokens that were proposed to the target."""
    accepted: int = 0
    """Those of them that were kept."""


@dataclass(frozen=True)
class Generation:
    """What one request produced and what it cost."""

    tokens: tuple[int, ...]
    """Generated token ids in order, the end-of-generation token included when there was one."""
    text: str
    """The text of the generated tokens, without the end-of-generation token."""
    stop_reason: StopReason
    """Why it ended."""
    prompt_tokens: int
    """Tokens of the prompt."""
    cached_tokens: int
    """Tokens of the prompt that were reused from the cache."""
    prefill_ms: float
    """Time from the start of the job to the end of the prefill."""
    ttft_ms: float
    """Time from the start of the job to the first generated token."""
    decode_ms: float
    """Time from the end of the prefill to the end of the job."""
    token_ms: tuple[float, ...]
    """Latency of each generated token: the time of the pass that committed it, divided by the tokens of that pass."""
    drafts: Mapping[DrafterName, DraftCount] = field(default_factory=dict)
    """What each drafter proposed; the forced tokens are no question to the target, and all of them are kept."""
    passes_ms: tuple[float, ...] = ()
    """Time of each pass of the target after the prefill."""
    overheads_ms: tuple[float, ...] = ()
    """For each of these passes, the rest of its step: drafting, choosing gamma, sampling, publishing."""

    @property
    def decided_tokens(self) -> int:
        """Tokens that passes after the prefill brought: not the first, and not what a constraint forced."""
        return max(0, len(self.tokens) - 1 - self.drafts.get(DrafterName.FORCED, DraftCount()).accepted)

    @property
    def drafted_tokens(self) -> int:
        """Tokens that drafters proposed to the target."""
        return sum(count.drafted for name, count in self.drafts.items() if name is not DrafterName.FORCED)

    @property
    def accepted_tokens(self) -> int:
        """Proposed tokens that the target accepted."""
        return sum(count.accepted for name, count in self.drafts.items() if name is not DrafterName.FORCED)
