"""What one generation has produced: its tokens, its text, the state of its constraint, and what it cost.

A token is committed here once it is certain; nothing is ever taken back, so that neither the constraint nor the
detokenizer has to be rewound when a draft is refused.
"""

from khepri.engine.backend import Vocabulary
from khepri.engine.buffer import TokenBuffer
from khepri.engine.constrain import Constraint
from khepri.engine.detokenize import Detokenizer
from khepri.engine.request import DraftCount, DrafterName, Generation, Request, StopReason


class Output:
    """The growing result of one request. The engine's thread only."""

    def __init__(self, request: Request, vocabulary: Vocabulary, buffer: TokenBuffer, started_s: float) -> None:
        self._request = request
        self._detokenizer = Detokenizer(vocabulary)
        self._end_ids = vocabulary.end_ids
        self._buffer = buffer
        self._started_s = started_s
        self._prefill_end_s = 0.0
        self._last_s = 0.0
        self._text: list[str] = []
        self._token_ms: list[float] = []
        self._drafts: dict[DrafterName, DraftCount] = {}
        self._drafted = self._accepted = 0
        self._passes_ms: list[float] = []
        self._overheads_ms: list[float] = []
        self._gamma = 0
        self.cached_tokens = 0
        self.tokens: list[int] = []
        self.was_forced: list[bool] = []
        self.constraint: Constraint | None = None
        self.stop_reason: StopReason | None = None if request.max_tokens else StopReason.MAX_TOKENS

    @property
    def missing(self) -> int:
        """How many more tokens the request asks for; 0 when the output is complete."""
        return 0 if self.stop_reason else self._request.max_tokens - len(self.tokens)

    def end_prefill(self, now_s: float, constraint: Constraint | None) -> None:
        """Note that the prompt is evaluated, and what the tokens have to keep to."""
        self.constraint = constraint
        self._prefill_end_s = self._last_s = now_s

    def commit(self, token: int) -> None:
        """Append a token that is certain; sets ``stop_reason`` when it is the last one."""
        assert self.missing, "a token was committed to a complete output"
        self.tokens.append(token)
        self.was_forced.append(self.constraint is not None and bool(self.constraint.forced()))
        if token in self._end_ids:
            self.stop_reason = StopReason.END
            return
        if self.constraint is not None:
            self.constraint.commit(token)
        self._append(self._detokenizer.push(token))
        if self.constraint is not None and self.constraint.is_complete:
            self.stop_reason = StopReason.TOOL_CALL
        elif len(self.tokens) == self._request.max_tokens:
            self.stop_reason = StopReason.MAX_TOKENS

    def stop(self, reason: StopReason) -> None:
        """End the output before it is complete."""
        self.stop_reason = reason

    def count(self, drafter: DrafterName, drafted: int, accepted: int) -> None:
        """Note that ``accepted`` of ``drafted`` proposed tokens were kept."""
        before = self._drafts.get(drafter, DraftCount())
        self._drafts[drafter] = DraftCount(before.drafted + drafted, before.accepted + accepted)
        if drafter is not DrafterName.FORCED:
            self._drafted += drafted
            self._accepted += accepted
            self._gamma = drafted

    def end_step(self, now_s: float, pass_ms: float | None) -> None:
        """Show what was committed since the last step, and share the step's time out among those tokens.

        Args:
            now_s: When the step ended.
            pass_ms: What the target's pass in it took; None if there was none.
        """
        committed = len(self.tokens) - len(self._token_ms)
        step_ms = (now_s - self._last_s) * 1000
        self._last_s = now_s
        self._token_ms += [step_ms / committed] * committed if committed else []
        if pass_ms is not None:
            self._passes_ms.append(pass_ms)
            self._overheads_ms.append(step_ms - pass_ms)
        self._publish(now_s)
        self._gamma = 0

    def finish(self, now_s: float) -> Generation:
        """Flush the text and return the whole of a stopped output."""
        assert self.stop_reason is not None, "an output is finished only once it is stopped"
        self._append(self._detokenizer.flush())
        self._publish(now_s)
        prefill_end_s = self._prefill_end_s or now_s
        prefill_ms = (prefill_end_s - self._started_s) * 1000
        late = len(self.tokens) - len(self._token_ms)
        token_ms = (*self._token_ms, *[0.0] * late)
        return Generation(
            tokens=tuple(self.tokens),
            text="".join(self._text),
            stop_reason=self.stop_reason,
            prompt_tokens=len(self._request.prompt),
            cached_tokens=self.cached_tokens,
            prefill_ms=prefill_ms,
            ttft_ms=prefill_ms + (token_ms[0] if token_ms else 0.0),
            decode_ms=(now_s - prefill_end_s) * 1000,
            token_ms=token_ms,
            drafts=dict(self._drafts),
            passes_ms=tuple(self._passes_ms),
            overheads_ms=tuple(self._overheads_ms),
        )

    def _append(self, piece: str) -> None:
        self._text.append(piece)
        self._buffer.append(piece)

    def _publish(self, now_s: float) -> None:
        self._buffer.publish(
            completion_tokens=len(self.tokens),
            forced_tokens=self._drafts.get(DrafterName.FORCED, DraftCount()).accepted,
            decode_s=max(0.0, now_s - (self._prefill_end_s or now_s)),
            drafted_tokens=self._drafted,
            accepted_tokens=self._accepted,
            gamma=self._gamma,
        )
