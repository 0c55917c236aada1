"""One generation: prefill what the cache does not hold, then draft, verify and commit until it is complete.

This is the loop that Khepri exists for. It knows tokens; text appears only as pieces for the buffer. It runs on the
worker's thread and is the only code that calls ``Backend.decode`` of the target.

References:
    Leviathan et al., "Fast Inference from Transformers via Speculative Decoding", 2023.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from khepri.engine.backend import Backend, Batch, Logits
from khepri.engine.buffer import JobState, TokenBuffer
from khepri.engine.cascade import Cascade
from khepri.engine.constrain import Constraint
from khepri.engine.draft.drafter import Draft
from khepri.engine.output import Output
from khepri.engine.pass_cost import MOST_ROWS, PassCosts
from khepri.engine.prefix_cache import PrefixCache
from khepri.engine.request import DrafterName, DraftMode, Generation, Request, StopReason
from khepri.engine.sampling import draw, transform
from khepri.engine.speculate import verify
from khepri.errors import CancelledError, ContextFullError, KhepriError

Clock = Callable[[], float]
ConstraintMaker = Callable[[], Constraint | None]


@dataclass(frozen=True)
class Engine:
    """What the engine's thread owns and a generation works with."""

    backend: Backend
    """The target."""
    cache: PrefixCache
    """The prefix cache on that backend."""
    cascade: Cascade
    """The drafters, and the horizon that chooses how much of a draft is verified."""
    costs: PassCosts
    """What a pass of the target costs."""
    batch_tokens: int
    """Most tokens of one pass."""
    clock: Clock
    """Seconds from any fixed point, monotonic."""


def generate(engine: Engine, request: Request, make_constraint: ConstraintMaker, buffer: TokenBuffer) -> Generation:
    """Continue ``request.prompt`` and publish the text to ``buffer`` as it comes.

    A cancelled generation returns what it has, with ``StopReason.CANCELLED``. However it ends, the cache afterwards
    holds exactly the tokens that it notes.

    Args:
        engine: The target with its cache and drafters; this thread owns them.
        request: The prompt and how to continue it.
        make_constraint: Returns a fresh constraint, or None for free text. Called after the prefill, so that what it
            waits for can be made meanwhile.
        buffer: Where text and progress are published.

    Raises:
        ContextFullError: The prompt leaves no room for an answer.
        DecodeError: The backend failed.
        KhepriError: The prompt is empty, or the constraint cannot be made.
    """
    _check_room(engine, request)
    output = Output(request, engine.backend.vocabulary, buffer, engine.clock())
    try:
        rows = _prefill(engine, request, output, buffer)
        output.end_prefill(engine.clock(), make_constraint())
        buffer.publish(state=JobState.DECODE)
        _decode(engine, request, output, rows)
    except CancelledError:
        output.stop(StopReason.CANCELLED)
    finally:
        engine.cache.release()
    generation = output.finish(engine.clock())
    buffer.publish(state=JobState.DONE)
    return generation


def _decode(engine: Engine, request: Request, output: Output, rows: Logits) -> None:
    """[draft -> verify -> commit]* until the output is complete.

    Args:
        engine: The target, whose cache holds the prompt.
        request: How to continue it.
        output: Where tokens are committed.
        rows: Logits after the prompt's last token, float32 ``[1, n_vocab]``; later of every token that was verified.
    """
    chance = _Chance(request)
    engine.cascade.start(request)
    draft: Draft | None = None
    pass_ms: float | None = None
    while output.missing:
        known = len(output.tokens)
        accepted = _verify(request, output, rows, draft, chance)
        _roll_back(engine, draft, accepted)
        if request.draft is not DraftMode.OFF:
            # Without drafts, the token that no pass has room for is the last.
            _commit_forced(output, engine.backend.capabilities.context_tokens + 1 - len(request.prompt))
        engine.cascade.commit(output.tokens[known:], output.was_forced[known:])
        output.end_step(engine.clock(), pass_ms)
        if output.missing:
            pending = output.tokens[engine.cache.length - len(request.prompt) :]
            draft = _propose(engine, request, output, pending)
            try:
                rows, pass_ms = _evaluate(engine, pending, draft)
            except ContextFullError:
                output.stop(StopReason.CONTEXT_FULL)


class _Chance:
    """Chance that hangs on the place of a token alone, so that a seed gives the same answer however it is drafted."""

    def __init__(self, request: Request) -> None:
        entropy = np.random.SeedSequence(request.sampling.seed).entropy
        assert isinstance(entropy, int)
        self._entropy = entropy
        self._prompt_tokens = len(request.prompt)

    def at(self, place: int) -> np.random.Generator:
        """Return the generator for the token at ``place`` in the answer."""
        return np.random.default_rng((self._entropy, self._prompt_tokens + place))


def _verify(request: Request, output: Output, rows: Logits, draft: Draft | None, chance: _Chance) -> int:
    """Commit the drafted tokens that hold, then one more from the target; return how many of the draft held."""
    drafted = draft.tokens if draft is not None else ()
    accepted = 0
    for position, row in enumerate(rows):
        random = chance.at(len(output.tokens))
        p = transform(row if output.constraint is None else output.constraint.restrict(row), request.sampling)
        if position == len(drafted):
            output.commit(draw(p, random))
            break
        q = draft.distributions[position] if draft is not None and draft.distributions else None
        token = verify(p, drafted[position], q, random)
        output.commit(token)
        if token != drafted[position]:
            break
        accepted += 1
        if not output.missing:
            break
    if draft is not None:
        guessed = draft.guessed(accepted)
        output.count(draft.drafter, draft.guessed(len(drafted)), guessed)
        if accepted > guessed:
            output.count(DrafterName.FORCED, accepted - guessed, accepted - guessed)
    return accepted


def _roll_back(engine: Engine, draft: Draft | None, accepted: int) -> None:
    """Take the tokens that were refused out of the cache."""
    refused = len(draft.tokens) - accepted if draft is not None else 0
    if refused:
        engine.cache.truncate(engine.cache.length - refused)


def _commit_forced(output: Output, most_tokens: int) -> None:
    """Commit what the constraint allows only one way; the next pass evaluates it with the token before.

    Args:
        output: The answer.
        most_tokens: So many tokens the context has room for.
    """
    count = 0
    while output.constraint is not None and (forced := output.constraint.forced()):
        room = min(output.missing, most_tokens - len(output.tokens))
        if room <= 0:
            break
        for token in forced[:room]:
            output.commit(token)
            count += 1
    if count:
        output.count(DrafterName.FORCED, count, count)


def _propose(engine: Engine, request: Request, output: Output, pending: Sequence[int]) -> Draft | None:
    """Ask the drafters, within what the pass, the context and the request have room for."""
    capabilities = engine.backend.capabilities
    if not engine.cascade.is_active or not capabilities.can_remove_tail:
        return None
    depth = engine.cache.length
    in_pass = engine.batch_tokens - len(pending)
    in_context = capabilities.context_tokens - depth - len(pending)
    room = min(in_pass, in_context, output.missing - 1)
    if request.gamma is None and room > 0 and engine.costs.needs_measuring(depth):
        engine.costs.measure(lambda rows: _time_pass(engine, pending[-1], rows), depth, _most_rows(engine))
    constraint = output.constraint
    if constraint is None:
        return engine.cascade.propose(len(pending), depth, room)
    return engine.cascade.propose(len(pending), depth, room, constraint.complete, constraint.likely())


def refine_costs(engine: Engine, tokens: Sequence[int], goes_on: Callable[[], bool]) -> None:
    """Time passes thoroughly at the end of a conversation, if what is known of that depth was found in haste.

    Args:
        engine: Its cache is left as it was.
        tokens: The conversation, its answer included; what the cache no longer holds of it is not evaluated for this.
        goes_on: Asked before each pass; once it is False, nothing was learnt.

    Raises:
        KhepriError: A pass failed.
    """

    def time_pass(rows: int) -> float:
        if not goes_on():
            raise CancelledError("somebody waits")
        return _time_pass(engine, tokens[-1], rows)

    try:
        depth = engine.cache.match(tokens)
        if engine.costs.needs_refining(depth):
            engine.costs.refine(time_pass, depth, _most_rows(engine))
    except CancelledError:
        pass
    finally:
        engine.cache.release()


def _most_rows(engine: Engine) -> int:
    """Return the widest pass that there is room for."""
    return min(engine.batch_tokens, engine.backend.capabilities.context_tokens - engine.cache.length, MOST_ROWS)


def _time_pass(engine: Engine, token: int, rows: int) -> float:
    """Return how many milliseconds a pass of that many rows takes at the end of the cache, which stays as it was."""
    engine.cache.reserve(rows)
    started_s = engine.clock()
    engine.backend.decode(Batch((token,) * rows, engine.cache.length, engine.cache.sequence, logits_from=0))
    ms = (engine.clock() - started_s) * 1000
    engine.cache.truncate(engine.cache.length)
    return ms


def _evaluate(engine: Engine, pending: Sequence[int], draft: Draft | None) -> tuple[Logits, float]:
    """Evaluate the committed tokens that the cache lacks and the draft after them.

    Returns:
        The logits of the last pending token and of every drafted one, float32 ``[1 + gamma, n_vocab]``, and the time
        of the passes in milliseconds.
    """
    tokens = (*pending, *(draft.tokens if draft is not None else ()))
    started_s = engine.clock()
    while len(tokens) > engine.batch_tokens:
        _pass(engine, tokens[: engine.batch_tokens])
        tokens = tokens[engine.batch_tokens :]
    depth, last_started_s = engine.cache.length, engine.clock()
    rows = _pass(engine, tokens, logits_from=-1 - (len(draft.tokens) if draft is not None else 0))
    ended_s = engine.clock()
    engine.costs.observe(len(tokens), depth, (ended_s - last_started_s) * 1000)
    return rows, (ended_s - started_s) * 1000


def _pass(engine: Engine, tokens: tuple[int, ...], logits_from: int = -1) -> Logits:
    """Evaluate ``tokens`` at the end of the cache; return the logits that were asked for."""
    engine.cache.reserve(len(tokens))
    rows = engine.backend.decode(Batch(tokens, engine.cache.length, engine.cache.sequence, logits_from))
    engine.cache.extend(tokens)
    return rows


def _check_room(engine: Engine, request: Request) -> None:
    room = engine.backend.capabilities.context_tokens
    if not request.prompt:
        raise KhepriError("a prompt needs at least one token")
    if len(request.prompt) >= room:
        raise ContextFullError(
            f"the prompt has {len(request.prompt)} tokens, the context {room}",
            "ask a shorter question or raise context_tokens",
            needed_tokens=len(request.prompt) + 1,
            context_tokens=room,
        )


def _prefill(engine: Engine, request: Request, output: Output, buffer: TokenBuffer) -> Logits:
    """Evaluate the part of the prompt that is not cached; return the logits of its last token, [1, n_vocab].

    No pass crosses the end of the stable part, so that the passes before and after it are the same ones, and round
    alike, whether it was evaluated just now, in another conversation, or by another process.
    """
    started_s = engine.clock()
    output.cached_tokens = position = engine.cache.match(request.prompt, request.stable_tokens)
    counters = {"prompt_tokens": len(request.prompt), "cached_tokens": position}
    buffer.publish(state=JobState.PREFILL, prefilled_tokens=position, **counters)
    while position < len(request.prompt):
        end = _end_of_pass(position, request.stable_tokens, len(request.prompt), engine.batch_tokens)
        rows = _pass(engine, request.prompt[position:end])
        position = end
        buffer.publish(prefilled_tokens=engine.cache.length, prefill_s=engine.clock() - started_s)
    return rows


def prefill_ahead(engine: Engine, prompt: Sequence[int], stable_tokens: int, goes_on: Callable[[int], bool]) -> None:
    """Evaluate the beginning of a prompt that may be asked for, in the very passes that the request would take.

    A pass at the end that is not full is left to the request, whose prompt may go on there, so that what was evaluated
    ahead changes no bit of the answer. A model that cannot roll back would lose all it holds with what is not asked for
    in the end: it reads the stable part only, and only if it holds nothing.

    Args:
        engine: The target with its cache; this thread owns them.
        prompt: Token ids, at least one.
        stable_tokens: As in ``Request``.
        goes_on: Told before each pass where it ends; False ends the work.

    Raises:
        DecodeError: The backend failed.
    """
    tokens = tuple(prompt[: engine.backend.capabilities.context_tokens])
    if not engine.backend.capabilities.can_remove_tail:
        tokens = tokens[: stable_tokens + 1]
        if engine.cache.length:
            return
    position = engine.cache.match(tokens, stable_tokens)
    try:
        while position < len(tokens) - 1:
            end = _end_of_pass(position, stable_tokens, len(tokens), engine.batch_tokens)
            is_whole = end <= stable_tokens or end - position == engine.batch_tokens
            if not is_whole or not goes_on(end):
                return
            _pass(engine, tokens[position:end])
            position = end
    except CancelledError:
        pass
    finally:
        engine.cache.release()


def _end_of_pass(position: int, stable_tokens: int, prompt_tokens: int, batch_tokens: int) -> int:
    """Return where the pass of a prefill ends that begins at ``position``."""
    return min(position + batch_tokens, stable_tokens if position < stable_tokens else prompt_tokens)
