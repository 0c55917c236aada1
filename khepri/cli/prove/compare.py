"""Plain and accelerated decoding of the same prompt, compared token by token.

Two runs that differ once go on differently, so the comparison takes up the plain run again after every difference: each
of its tokens is compared. Where the prompts come from and how findings are shown is not known here.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final, cast

import numpy as np
from numpy.typing import NDArray

from khepri.engine.backend import Backend, Batch, Logits
from khepri.engine.buffer import TokenBuffer
from khepri.engine.constrain import Constraint
from khepri.engine.generate import Engine, generate
from khepri.engine.request import DraftMode, Request

ConstraintMaker = Callable[[], Constraint | None]

# Rounding adds up over the tokens before, which the accelerated run evaluated in wide passes as well, so that a tie may
# be wider than what the measurement saw of a few dozen tokens.
TIE_LEADS: Final = 3.0
"""Two tokens are a near-tie if their gap is at most so many times the largest change of a lead by rounding."""
_PROMPT_WIDTHS: Final = (100, 37)
_ANSWER_WIDTHS: Final = (4, 16)
"""In passes of these widths a text is evaluated anew, to see what rounding does to it."""


@dataclass(frozen=True)
class Divergence:
    """A token of the accelerated run that differs from the plain one's, after the same text."""

    position: int
    """Place of the token in the answer, from 0."""
    plain: str
    """The plain run's token."""
    accelerated: str
    """The accelerated run's token."""
    margin: float
    """Logit of the plain run's token above the next likely one: the top-2 margin."""
    gap: float
    """Logit of the plain run's token above that of the accelerated run's; infinite if that one was not allowed."""
    rounding: float
    """How far that gap moves when the same text is evaluated in passes of other widths, with nothing but the library:
    the largest move that was seen; 0 where the accelerated run ended."""

    def is_near_tie(self, seen: float = 0.0) -> bool:
        """Tell if rounding can have turned the two tokens over.

        Args:
            seen: The largest change of a lead by rounding that was seen at other places of the same machine.
        """
        return self.gap <= max(TIE_LEADS * self.rounding, seen)


@dataclass(frozen=True)
class Comparison:
    """What came of one prompt."""

    tokens: int
    """Tokens of the plain run, all of which were compared."""
    divergences: tuple[Divergence, ...]
    """Every difference."""
    drafted: int
    """Tokens that drafters proposed in the accelerated run."""
    accepted: int
    """Those of them that the target accepted."""
    forced: int
    """Tokens that the constraint forced, committed without a pass."""
    passes: int
    """Passes of the accelerated run after its prefills."""
    cached: int
    """Tokens of the accelerated run's prompts that it took from the prefix cache."""


def compare(
    engine: Engine,
    prompt: Sequence[int],
    max_tokens: int,
    make_constraint: ConstraintMaker,
    draft: DraftMode,
    gamma: int | None,
) -> Comparison:
    """Decode ``prompt`` greedily without drafts and with them, and return where the tokens differ.

    The plain run begins with an empty prefix cache. The accelerated one begins with what that run and a conversation
    that branches off its prompt have left there.

    Args:
        engine: The target and its drafters; this thread owns them.
        prompt: Token ids.
        max_tokens: Most tokens of the answer.
        make_constraint: Returns a fresh constraint at every call, or None for free text.
        draft: Who drafts in the accelerated run.
        gamma: How many drafted tokens one pass of it verifies; None chooses at every step.

    Raises:
        ContextFullError: The prompt leaves no room for an answer.
        DecodeError: The backend failed.
    """
    engine.cache.clear()
    watched = WatchedBackend(engine.backend)
    plain_engine = replace(engine, backend=cast(Backend, watched))
    plainly = Request(tuple(prompt), max_tokens, draft=DraftMode.OFF)
    plain = generate(plain_engine, plainly, make_constraint, TokenBuffer()).tokens
    differences: list[tuple[int, int | None]] = []
    _branch_off(engine, prompt)
    drafted = accepted = forced = passes = cached = start = 0
    while start < len(plain):
        said = plain[:start]
        request = Request((*prompt, *said), len(plain) - start, draft=draft, gamma=gamma)
        generation = generate(engine, request, partial(_resume, make_constraint, said), TokenBuffer())
        drafted += generation.drafted_tokens
        accepted += generation.accepted_tokens
        forced += sum(count.accepted for count in generation.drafts.values()) - generation.accepted_tokens
        passes += len(generation.passes_ms)
        cached += generation.cached_tokens
        same = _agreeing(plain[start:], generation.tokens)
        if start + same == len(plain):
            break
        start += same
        differences.append((start, generation.tokens[same] if same < len(generation.tokens) else None))
        start += 1
    engine.cache.clear()
    others = _rows_of_other_widths(engine, (*prompt, *plain), [len(prompt) + place for place, _ in differences], prompt)
    divergences = []
    for position, token in differences:
        row = watched.rows[len(prompt) + position]
        constraint = _resume(make_constraint, plain[:position])
        allowed = row if constraint is None else constraint.restrict(row)
        rounding = 0.0
        if token is not None:
            leads = [float(each[plain[position]] - each[token]) for each in (row, *others[len(prompt) + position])]
            rounding = max(abs(lead - leads[0]) for lead in leads)
        divergences.append(_divergence(engine, position, allowed, plain[position], token, rounding))
    return Comparison(len(plain), tuple(divergences), drafted, accepted, forced, passes, cached)


def _branch_off(engine: Engine, prompt: Sequence[int]) -> None:
    """Let another conversation share half of the prompt, so that the cache has to keep the two apart."""
    half = len(prompt) // 2
    other = (*prompt[:half], *reversed(prompt[half:]))
    generate(engine, Request(other, 1, draft=DraftMode.OFF), lambda: None, TokenBuffer())


class WatchedBackend:
    """A backend that keeps the last row of logits of every pass, by the number of tokens before it."""

    def __init__(self, backend: Backend) -> None:
        self._backend = backend
        self.rows: dict[int, NDArray[np.float32]] = {}

    def decode(self, batch: Batch) -> Logits:
        """Evaluate a batch; see ``Backend.decode``."""
        rows = self._backend.decode(batch)
        self.rows[batch.position + len(batch.tokens)] = np.array(rows[-1])
        return rows

    def __getattr__(self, name: str) -> object:
        return getattr(self._backend, name)


def _resume(make_constraint: ConstraintMaker, said: Sequence[int]) -> Constraint | None:
    """Return a constraint as it is after the tokens that were said already."""
    constraint = make_constraint()
    if constraint is not None:
        for token in said:
            constraint.commit(token)
    return constraint


def _agreeing(left: Sequence[int], right: Sequence[int]) -> int:
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))


def _divergence(
    engine: Engine, position: int, row: NDArray[np.float32], plain: int, accelerated: int | None, rounding: float
) -> Divergence:
    """Describe a difference; ``accelerated`` is None if that run ended before its time."""
    piece = engine.backend.vocabulary.piece
    return Divergence(
        position,
        piece(plain, special=True).decode("utf-8", "replace"),
        "(the end)" if accelerated is None else piece(accelerated, special=True).decode("utf-8", "replace"),
        float(row[plain] - np.delete(row, plain).max()),
        float("inf") if accelerated is None else float(row[plain] - row[accelerated]),
        rounding,
    )


def _rows_of_other_widths(
    engine: Engine, text: Sequence[int], places: Sequence[int], prompt: Sequence[int]
) -> dict[int, list[NDArray[np.float32]]]:
    """Evaluate a text anew in passes of several widths; the cache has to be empty, and is so afterwards.

    Returns:
        For each of ``places``, the logits after so many tokens of the text, one row for each pair of widths.
    """
    found: dict[int, list[NDArray[np.float32]]] = {place: [] for place in places}
    backend = engine.backend

    def evaluate(start: int, stop: int, width: int) -> None:
        for at in range(start, stop, width):
            chunk = tuple(text[at : min(stop, at + width)])
            wanted = [place for place in places if at < place <= at + len(chunk)]
            first = wanted[0] if wanted else at + len(chunk)
            rows = backend.decode(Batch(chunk, at, logits_from=first - 1 - at))
            for place in wanted:
                found[place].append(np.array(rows[place - first]))

    for in_prompt in _PROMPT_WIDTHS if places else ():
        backend.sequence_remove(0, 0)
        evaluate(0, len(prompt), min(in_prompt, engine.batch_tokens))
        for in_answer in _ANSWER_WIDTHS:
            if backend.sequence_remove(0, len(prompt)):
                evaluate(len(prompt), len(text), min(in_answer, engine.batch_tokens))
    backend.sequence_remove(0, 0)
    return found
