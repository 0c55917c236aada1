"""What can be configured: one dataclass, every field with its accepted values in its type and its sentence beneath it.

Where values come from is not known here. The README's table is made from this file.
"""

from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated


class ExtraBuffers(StrEnum):
    """Whether the native library may repack weights into buffers of its own."""

    AUTO = "auto"
    """What the probe of this machine found to be safe."""
    ON = "on"
    """Yes, whatever the probe says."""
    OFF = "off"
    """No."""


class Backend(StrEnum):
    """The library that runs the model."""

    AUTO = "auto"
    """The faster one of those that are installed, measured once on this machine."""
    LLAMA_CPP = "llama_cpp"
    """llama.cpp, compiled for this machine."""
    IK_LLAMA = "ik_llama"
    """ik_llama.cpp, the extra `khepri[fast]`."""


class NetworkLock(StrEnum):
    """What happens where the strong network lock cannot be had. There is no value that turns the lock off."""

    ON = "on"
    """Take the best tier there is, say so, and go on."""
    REQUIRED = "required"
    """Refuse to run."""


class Permission(StrEnum):
    """Whether the model may use the tools that need something."""

    ALLOW = "allow"
    """It may."""
    DENY = "deny"
    """It may not."""


class Draft(StrEnum):
    """Who may propose tokens that the model then verifies; no choice changes what it says."""

    OFF = "off"
    """Nobody: plain decoding."""
    SUFFIX = "suffix"
    """What followed before, in the conversation and in the repository."""
    MODEL = "model"
    """A smaller model."""
    ALL = "all"
    """Both, the smaller model where nothing followed before."""


class Decoding(StrEnum):
    """What is promised of speculative decoding."""

    FAST = "fast"
    """The same distribution; a near-tie may fall the other way, as it may between two machines."""
    EXACT = "exact"
    """The same tokens as plain decoding, to the bit, and slower."""


class KvType(StrEnum):
    """Precision of the keys and values, which are what the model remembers of a text."""

    AUTO = "auto"
    """What the library is fastest with: ``q8_0`` in ik_llama, where the model allows it, else ``f16``."""
    F16 = "f16"
    """Two bytes a number."""
    Q8_0 = "q8_0"
    """About one byte a number: half the memory."""


class EditForm(StrEnum):
    """In what form the model writes a change."""

    FUNCTION = "function"
    """One definition, whole."""
    FILE = "file"
    """The whole file."""
    BLOCKS = "blocks"
    """Lines as they are and the lines that come in their place."""


@dataclass(frozen=True)
class Between:
    """The range of a number."""

    low: float
    """Smallest value."""
    high: float
    """Largest value."""
    above_low: bool = False
    """True if ``low`` itself is too small."""

    def __contains__(self, value: float) -> bool:
        return self.low <= value <= self.high and not (self.above_low and value == self.low)

    def __str__(self) -> str:
        return f"above {self.low} and at most {self.high}" if self.above_low else f"from {self.low} to {self.high}"


_Tokens = Between(1, 1_048_576)
_Budget = Between(0, 32_768)


@dataclass(frozen=True)
class Config:
    """Every setting of Khepri."""

    model: str = ""
    """Name or path of the target model; empty means the default of the catalogue."""
    context_tokens: Annotated[int, Between(512, 1_048_576)] = 8192
    """Length of the context; memory grows with it."""
    threads: Annotated[int, Between(0, 1024)] = 0
    """Threads that evaluate the model; 0 means one for each physical core."""
    batch_tokens: Annotated[int, Between(1, 8192)] = 128
    """Tokens evaluated between two looks at progress and cancellation."""
    temperature: Annotated[float, Between(0, 10)] = 0.0
    """0 takes the most likely token; higher values choose more freely."""
    top_k: Annotated[int, Between(0, 1_000_000)] = 0
    """Choose among the k most likely tokens; 0 means among all."""
    top_p: Annotated[float, Between(0, 1, above_low=True)] = 1.0
    """Choose among the fewest tokens whose probabilities reach p together; 1 means among all."""
    min_p: Annotated[float, Between(0, 1)] = 0.0
    """Choose among tokens at least this fraction as likely as the most likely one; 0 means among all."""
    seed: Annotated[int | None, Between(0, 2**63 - 1)] = None
    """Seed of the random choices; without one, every run draws its own."""
    max_tokens: Annotated[int, _Tokens] = 1024
    """Most tokens of one answer."""
    steps: Annotated[int, Between(1, 100)] = 8
    """Most tool calls of one task."""
    observation_tokens: Annotated[int, Between(64, 32_768)] = 700
    """Most tokens that the model reads of one tool's result."""
    map_tokens: Annotated[int, _Budget] = 700
    """Most tokens of the repository map, and an eighth of the context at most; 0 leaves it out."""
    instructions_tokens: Annotated[int, _Budget] = 400
    """Most tokens of the project's `AGENTS.md`, and an eighth of the context at most; 0 leaves it out."""
    draft: Draft = Draft.SUFFIX
    """Who proposes tokens ahead: what followed before (`suffix`), a smaller model, both, or nobody."""
    draft_model: str = ""
    """Name or path of the smaller model that drafts; empty means the catalogue's default draft."""
    gamma: Annotated[int | None, Between(0, 32)] = None
    """Proposed tokens verified in one pass; `auto` chooses at every step by what pays."""
    decoding: Decoding = Decoding.FAST
    """`exact` takes settings under which drafts cannot change a token even by rounding, and is slower."""
    backend: Backend = Backend.AUTO
    """The library that runs the model; `auto` measures which is faster (`ik_llama` is the extra `khepri[fast]`)."""
    kv_type: KvType = KvType.AUTO
    """Precision of the keys and values: `q8_0` takes half the memory; `auto` is what the library is fastest with."""
    cache_conversations: Annotated[int, Between(1, 200)] = 8
    """Most conversations whose keys and values stay in memory."""
    cache_tokens: Annotated[int, Between(0, 1_048_576)] = 0
    """Most tokens of these conversations together; 0 means one context."""
    cache_mb: Annotated[int, Between(0, 1_000_000)] = 0
    """Most megabytes of the keys and values of these conversations; 0 sets no limit but that in tokens."""
    cache_disk_mb: Annotated[int, Between(0, 1_000_000)] = 2000
    """Most megabytes of keys and values on disk, from which a conversation begins at once; 0 keeps none."""
    extra_buffers: ExtraBuffers = ExtraBuffers.AUTO
    """Let the native library repack weights (faster, and fatal on some machines); `auto` means if the probe allows."""
    network_lock: NetworkLock = NetworkLock.ON
    """`required` refuses to run where the strong network lock cannot be had; nothing turns the lock off."""
    permission_read: Permission = Permission.ALLOW
    """Tools that read files of the repository."""
    permission_git: Permission = Permission.ALLOW
    """Tools that read the history of the repository."""
    permission_command: Permission = Permission.DENY
    """Your own command tools, which run programs."""
    edit_form: EditForm = EditForm.FUNCTION
    """How the model writes a change: one definition, the whole file, or search/replace blocks."""
    check: str = ""
    """Command that tells whether a change is good, such as `pytest -q`; several are joined by `&&`."""
    repairs: Annotated[int, Between(0, 10)] = 2
    """Most rounds in which the model mends what made a check fail."""
    check_seconds: Annotated[int, Between(1, 7200)] = 300
    """Longest time of one check."""
