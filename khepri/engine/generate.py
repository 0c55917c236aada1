"""One generation: prefill what the cache does not hold, then decode token by token.

This is the loop that Khepri exists for. It knows tokens; text appears only as pieces for the buffer. It runs on the
worker's thread and is the only code that calls ``Backend.decode``.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np

from khepri.engine.backend import Backend, Batch, Logits
from khepri.engine.buffer import JobState, TokenBuffer
from khepri.engine.constrain import Constraint
from khepri.engine.detokenize import Detokenizer
from khepri.engine.naive_prefix import NaivePrefixCache
from khepri.engine.request import Generation, Request, StopReason
from khepri.engine.sampling import Sampler
from khepri.errors import CancelledError, ContextFullError, KhepriError

Clock = Callable[[], float]
ConstraintMaker = Callable[[], Constraint | None]


@dataclass
class _Run:
    """What one generation has produced so far."""

    started_s: float
    prefill_end_s: float = 0.0
    cached_tokens: int = 0
    tokens: list[int] = field(default_factory=list)
    token_ms: list[float] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


def generate(
    backend: Backend,
    cache: NaivePrefixCache,
    request: Request,
    make_constraint: ConstraintMaker,
    buffer: TokenBuffer,
    batch_tokens: int,
    clock: Clock,
) -> Generation:
    """Continue ``request.prompt`` and publish the text to ``buffer`` as it comes.

    A cancelled generation returns what it has, with ``StopReason.CANCELLED``. However it ends, the cache afterwards
    holds exactly the tokens that it notes.

    Args:
        backend: The loaded model; this thread owns it.
        cache: The prefix cache on that backend.
        request: The prompt and how to continue it.
        make_constraint: Returns a fresh constraint, or None for free text. Called after the prefill, so that what it
            waits for can be made meanwhile.
        buffer: Where text and progress are published.
        batch_tokens: Most tokens of one prefill pass.
        clock: Seconds from any fixed point, monotonic.

    Raises:
        ContextFullError: The prompt leaves no room for an answer.
        DecodeError: The backend failed.
        KhepriError: The prompt is empty, or the constraint cannot be made.
    """
    _check_room(backend, request)
    run = _Run(started_s=clock())
    try:
        logits = _prefill(backend, cache, request, run, buffer, batch_tokens, clock)
        stop_reason = _decode(backend, cache, request, make_constraint(), run, buffer, logits, clock)
    except CancelledError:
        stop_reason = StopReason.CANCELLED
    finally:
        cache.truncate(cache.length)
    return _finish(request, run, buffer, stop_reason, clock)


def _check_room(backend: Backend, request: Request) -> None:
    room = backend.capabilities.context_tokens
    if not request.prompt:
        raise KhepriError("a prompt needs at least one token")
    if len(request.prompt) >= room:
        raise ContextFullError(
            f"the prompt has {len(request.prompt)} tokens, the context {room}",
            "ask a shorter question or raise context_tokens",
            needed_tokens=len(request.prompt) + 1,
            context_tokens=room,
        )


def _prefill(
    backend: Backend,
    cache: NaivePrefixCache,
    request: Request,
    run: _Run,
    buffer: TokenBuffer,
    batch_tokens: int,
    clock: Clock,
) -> Logits:
    """Evaluate the part of the prompt that is not cached; return the logits of its last token, [1, n_vocab]."""
    run.cached_tokens = position = cache.match(request.prompt)
    logits: Logits = np.empty((0, 0), dtype=np.float32)
    counters = {"prompt_tokens": len(request.prompt), "cached_tokens": position}
    buffer.publish(state=JobState.PREFILL, prefilled_tokens=position, **counters)
    while position < len(request.prompt):
        chunk = request.prompt[position : position + batch_tokens]
        logits = backend.decode(Batch(chunk, position))
        cache.extend(chunk)
        position += len(chunk)
        buffer.publish(prefilled_tokens=position, prefill_s=clock() - run.started_s)
    run.prefill_end_s = clock()
    return logits


def _decode(
    backend: Backend,
    cache: NaivePrefixCache,
    request: Request,
    constraint: Constraint | None,
    run: _Run,
    buffer: TokenBuffer,
    logits: Logits,
    clock: Clock,
) -> StopReason:
    """Sample, commit, evaluate, until the model ends its turn or a limit is reached."""
    sampler = Sampler(request.sampling)
    detokenizer = Detokenizer(backend.vocabulary)
    end_ids = backend.vocabulary.end_ids
    buffer.publish(state=JobState.DECODE)
    pass_started_s = run.prefill_end_s
    try:
        while len(run.tokens) < request.max_tokens:
            token = _next_token(sampler, constraint, logits)
            run.tokens.append(token)
            now = clock()
            run.token_ms.append((now - pass_started_s) * 1000)
            pass_started_s = now
            if token in end_ids:
                return StopReason.END
            if constraint is not None:
                constraint.commit(token)
            _publish(run, buffer, detokenizer.push(token), now)
            if constraint is not None and constraint.is_complete:
                return StopReason.TOOL_CALL
            if len(run.tokens) < request.max_tokens:
                logits = backend.decode(Batch((token,), cache.length))
                cache.extend((token,))
        return StopReason.MAX_TOKENS
    except ContextFullError:
        return StopReason.CONTEXT_FULL
    finally:
        _publish(run, buffer, detokenizer.flush(), clock())


def _next_token(sampler: Sampler, constraint: Constraint | None, logits: Logits) -> int:
    """Draw the next token from the last row of ``logits``, [n_rows, n_vocab]."""
    row = logits[-1]
    if constraint is None:
        return sampler.sample(row)
    allowed = constraint.allowed()
    token = sampler.sample(row, allowed)
    while constraint.forbids(token):
        allowed = np.ones(row.size, dtype=np.bool_) if allowed is None else allowed
        allowed[token] = False
        token = sampler.sample(row, allowed)
    return token


def _publish(run: _Run, buffer: TokenBuffer, piece: str, now_s: float) -> None:
    run.text.append(piece)
    buffer.append(piece)
    buffer.publish(completion_tokens=len(run.tokens), decode_s=now_s - run.prefill_end_s)


def _finish(request: Request, run: _Run, buffer: TokenBuffer, stop_reason: StopReason, clock: Clock) -> Generation:
    end_s = clock()
    prefill_end_s = run.prefill_end_s or end_s
    prefill_ms = (prefill_end_s - run.started_s) * 1000
    buffer.publish(state=JobState.DONE)
    return Generation(
        tokens=tuple(run.tokens),
        text="".join(run.text),
        stop_reason=stop_reason,
        prompt_tokens=len(request.prompt),
        cached_tokens=run.cached_tokens,
        prefill_ms=prefill_ms,
        ttft_ms=prefill_ms + (run.token_ms[0] if run.token_ms else 0.0),
        decode_ms=(end_s - prefill_end_s) * 1000,
        token_ms=tuple(run.token_ms),
    )
