"""An engine on the scripted backend, for tests of the decode loop."""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from khepri.engine.buffer import Snapshot, TokenBuffer
from khepri.engine.cascade import Cascade
from khepri.engine.constrain import Constraint
from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.generate import Engine, generate
from khepri.engine.horizon import Horizon
from khepri.engine.pass_cost import PassCosts
from khepri.engine.prefix import choose_cache
from khepri.engine.request import DrafterName, Generation, Request
from tests.support.scripted_backend import ByteVocabulary, ScriptedBackend, reply_script

PROMPT = tuple(b"a prompt of some tokens")
BYTES = ByteVocabulary()


class Recorder(TokenBuffer):
    """A buffer that remembers every snapshot, and the text that came with it."""

    def __init__(self) -> None:
        super().__init__()
        self.snapshots: list[Snapshot] = []
        self.shown: list[str] = []
        self._cursor = 0

    def publish(self, **changes: object) -> None:
        super().publish(**changes)
        self.snapshots.append(self.snapshot)
        text, self._cursor = self.read(self._cursor)
        self.shown.append(text)


class FunctionDrafter(Drafter):
    """Proposes what a function of the tokens so far returns; notes what it was told."""

    name = DrafterName.SUFFIX

    def __init__(self, guess: Callable[[Sequence[int]], Sequence[int]]) -> None:
        self._guess = guess
        self.tokens: list[int] = []
        self.limits: list[int] = []
        self.is_closed = False

    def start(self, request: Request) -> None:
        self.tokens = list(request.prompt)

    def commit(self, tokens: Sequence[int]) -> None:
        self.tokens.extend(tokens)

    def propose(self, limit: int, after: Sequence[int] = ()) -> Draft | None:
        assert limit >= 1
        self.limits.append(limit)
        tokens = tuple(self._guess(self.tokens)[:limit])
        return Draft(tokens, self.name, evidence=4) if tokens else None

    def close(self) -> None:
        self.is_closed = True


@dataclass
class ScriptedEngine:
    """A scripted backend with its cache and drafters, and the buffer of the last run."""

    backend: ScriptedBackend = field(default_factory=ScriptedBackend)
    batch_tokens: int = 8
    drafters: Sequence[Drafter] = ()
    buffer: Recorder = field(default_factory=Recorder)

    def __post_init__(self) -> None:
        self.cache = choose_cache(self.backend)
        self.costs = PassCosts()
        ticks = itertools.count()

        def clock() -> float:
            return next(ticks) / 1000

        cascade = Cascade(self.drafters, Horizon(self.costs), clock)
        self.engine = Engine(self.backend, self.cache, cascade, self.costs, self.batch_tokens, clock)

    def run(self, request: Request, make_constraint: Callable[[], Constraint | None] = lambda: None) -> Generation:
        self.buffer = Recorder()
        try:
            return generate(self.engine, request, make_constraint, self.buffer)
        finally:
            self.cache.check_integrity()

    def says(self, reply: str | Sequence[int], prompt: Sequence[int] = PROMPT) -> None:
        tokens = BYTES.tokenize(reply, special=True) if isinstance(reply, str) else reply
        self.backend.script = reply_script(len(prompt), tokens)
