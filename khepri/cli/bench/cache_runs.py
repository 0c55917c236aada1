"""What the prefix cache saves, measured: the turns of an agent, a restarted process, and many conversations.

Each function works on an engine that its caller owns, and says what passes cost without the cache in the same run.
Nothing is printed here.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, cast

import numpy as np

from khepri.cli.progress import Progress
from khepri.cli.prove.compare import TIE_LEADS, WatchedBackend
from khepri.engine.backend import Backend, Batch
from khepri.engine.buffer import TokenBuffer
from khepri.engine.exactness import compare_widths
from khepri.engine.generate import Clock, Engine, generate
from khepri.engine.prefix import RadixPrefixCache
from khepri.engine.radix import common_length
from khepri.engine.request import DraftMode, Generation, Request

ANSWER_TOKENS = 4
"""Tokens of an answer: what counts is the time to the first."""
_ROUNDING_TOKENS: Final = 96
_ROUNDING_WIDTHS: Final = (2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Scale:
    """How much is done."""

    preamble_tokens: int = 4000
    """Tokens that the conversation begins with."""
    turn_tokens: int = 900
    """New tokens of each turn after the first."""
    turns: int = 5
    """Turns after the first."""
    conversations: int = 50
    """Conversations that take turns."""
    most_held: int = 10
    """Most of them that are held."""

    @property
    def context_tokens(self) -> int:
        """Length of the context that all turns fit into."""
        return self.preamble_tokens + self.turns * (self.turn_tokens + ANSWER_TOKENS) + 256


QUICK = Scale(preamble_tokens=1000, turn_tokens=225, turns=3, conversations=20, most_held=5)
"""A quarter of the work, and of the promise: small prefills are dearer by the token."""


@dataclass(frozen=True)
class Turn:
    """One turn of the agent."""

    prompt_tokens: int
    """Tokens of its prompt."""
    cached_tokens: int
    """Those of them that were in the cache."""
    first_token_ms: float
    """Time to the first token."""
    new_tokens_ms: float
    """What the passes over the new tokens take by themselves, at the same depth."""


@dataclass(frozen=True)
class Conversations:
    """Many conversations that take turns."""

    count: int
    """How many there were; each was asked twice."""
    most_held: int
    """Most that may be held."""
    keeps_several: bool
    """False if the library keeps one conversation at a time, so that neither the cap nor the blocks are tried."""
    held: int
    """Most that were held at once."""
    held_tokens: int
    """Most tokens that were held at once, shared ones counted once."""
    cells: int
    """Cells that the library has for them."""
    fragmentation: float
    """Largest share of the blocks in use that held no token."""
    cached_share: float
    """Share of the prompts' tokens that were in the cache."""
    answers: int
    """Answers that were compared with those of an empty cache."""
    same_answers: int
    """Those of them that were the same to the token."""
    largest_gap: float
    """Where an answer parts from that of the empty cache, the empty cache's token was that much more likely, as a
    difference of logits: the largest of these; 0 if none parts."""
    tie_gap: float
    """How large rounding on this machine can make such a gap."""


def run_turns(
    engine: Engine, tokens: Sequence[int], scale: Scale, progress: Progress
) -> tuple[list[Turn], tuple[int, ...]]:
    """Let a conversation grow; what passes cost is timed before each turn, at the same depth.

    Returns:
        The turns, and the prompt of the second.
    """
    turns: list[Turn] = []
    second: tuple[int, ...] = ()
    prompt = list(tokens[: scale.preamble_tokens])
    rest = list(tokens[scale.preamble_tokens :])
    for turn in range(scale.turns + 1):
        progress("turns", turn, scale.turns + 1)
        known = turns[-1].prompt_tokens + ANSWER_TOKENS - 1 if turns else 0
        new_ms = _passes_ms(engine, prompt, known) if turns else 0.0
        if turn == 1:
            second = tuple(prompt)
        generation = _ask(engine, prompt, scale.preamble_tokens)
        new_ms = new_ms or generation.prefill_ms
        turns.append(Turn(len(prompt), generation.cached_tokens, generation.ttft_ms, new_ms))
        taken = (turn * scale.turn_tokens) % max(1, len(rest) - scale.turn_tokens)
        prompt += [*generation.tokens, *rest[taken : taken + scale.turn_tokens]]
    return turns, second


def run_without_cache(engine: Engine, prompt: Sequence[int], stable_tokens: int, progress: Progress) -> Generation:
    """Answer a prompt with an empty cache, in the passes that it would take in a new process."""
    progress("the same without the cache", 0, 1)
    engine.cache.clear()
    return _ask(engine, prompt, stable_tokens)


def run_twin(engine: Engine, prompt: Sequence[int], stable_tokens: int, progress: Progress) -> Generation:
    """Answer a prompt that is as long as ``prompt``, and shares only its stable part with it, which is cached."""
    progress("the second turn once more", 0, 1)
    return _ask(engine, [*prompt[:stable_tokens], *reversed(prompt[stable_tokens:])], stable_tokens)


def run_conversations(
    engine: Engine, cache: RadixPrefixCache, tokens: Sequence[int], scale: Scale, progress: Progress
) -> Conversations:
    """Ask each of many conversations twice, in any order, and compare with an empty cache.

    Args:
        engine: The engine.
        cache: Its cache, which holds ``scale.most_held`` conversations at most.
        tokens: Ids to make prompts of.
        scale: How much is done.
        progress: Told what runs.
    """
    chance = random.Random(0)
    stem, own = list(tokens[:48]), list(tokens[48:])
    prompts = [[*stem, *own[12 * number : 12 * number + 12], 5 + number] for number in range(scale.conversations)]
    order = [number for number in range(scale.conversations) for _ in range(2)]
    chance.shuffle(order)
    cache.clear()
    answers: dict[int, list[tuple[int, ...]]] = {}
    most_held = most_tokens = cached = total = 0
    fragmentation = 0.0
    for done, number in enumerate(order):
        progress("conversations", done, len(order) + len(prompts))
        generation = _ask(engine, prompts[number], 0)
        answers.setdefault(number, []).append(generation.tokens)
        cached, total = cached + generation.cached_tokens, total + len(prompts[number])
        most_held, most_tokens = max(most_held, len(cache.tree)), max(most_tokens, cache.ledger.used_tokens)
        fragmentation = max(fragmentation, cache.ledger.fragmentation())
    same, largest_gap = 0, 0.0
    watched = WatchedBackend(engine.backend)
    watched_engine = replace(engine, backend=cast(Backend, watched))
    for number, prompt in enumerate(prompts):
        progress("the same without the cache", len(order) + number, len(order) + len(prompts))
        cache.clear()
        plain = _ask(watched_engine, prompt, 0).tokens
        same += sum(answer == plain for answer in answers[number])
        for answer in answers[number]:
            if answer != plain:
                place = common_length(answer, plain)
                row = watched.rows[len(prompt) + place]
                largest_gap = max(largest_gap, float(row[plain[place]] - row[answer[place]]))
    cache.clear()
    widths = compare_widths(engine.backend, tokens[:_ROUNDING_TOKENS], _ROUNDING_WIDTHS)
    return Conversations(
        scale.conversations,
        scale.most_held,
        engine.backend.capabilities.may_leave_gaps,
        most_held,
        most_tokens,
        engine.backend.capabilities.cells,
        fragmentation,
        cached / total,
        len(order),
        same,
        largest_gap,
        TIE_LEADS * max(each.largest_lead_change for each in widths),
    )


@dataclass(frozen=True)
class Precision:
    """What one precision of keys and values costs and changes."""

    kv_type: str
    """Which it is."""
    context_bytes: int
    """Size of the keys and values of a full context."""
    prefill_tokens_per_s: float
    """Speed of the prefill of the text."""
    decode_tokens_per_s: float
    """Speed of single passes after it."""
    perplexity: float
    """Of the text, whose tokens are the same for all: how many next tokens the model wavers between."""


def measure_precision(
    backend: Backend, kv_type: str, tokens: Sequence[int], batch_tokens: int, decode_tokens: int, clock: Clock
) -> Precision:
    """Evaluate a text and some single tokens after it."""
    surprise, elapsed_s = 0.0, 0.0
    for start in range(0, len(tokens), batch_tokens):
        chunk = tuple(tokens[start : start + batch_tokens])
        started_s = clock()
        rows = backend.decode(Batch(chunk, start, logits_from=0))
        elapsed_s += clock() - started_s
        following = np.asarray(tokens[start + 1 : start + 1 + len(chunk)])
        logits = rows[: len(following)].astype(np.float64)
        peaks = logits.max(axis=1)
        totals = peaks + np.log(np.exp(logits - peaks[:, None]).sum(axis=1))
        surprise += float((totals - logits[np.arange(len(following)), following]).sum())
    size = backend.sequence_bytes(0) * backend.capabilities.context_tokens // len(tokens)
    started_s = clock()
    for place in range(decode_tokens):
        backend.decode(Batch((tokens[place],), len(tokens) + place))
    decode_s = clock() - started_s
    return Precision(
        kv_type, size, len(tokens) / elapsed_s, decode_tokens / decode_s, float(np.exp(surprise / (len(tokens) - 1)))
    )


def _ask(engine: Engine, prompt: Sequence[int], stable_tokens: int) -> Generation:
    request = Request(tuple(prompt), ANSWER_TOKENS, draft=DraftMode.OFF, stable_tokens=stable_tokens)
    return generate(engine, request, lambda: None, TokenBuffer())


def _passes_ms(engine: Engine, prompt: Sequence[int], known: int) -> float:
    """Return what the passes over a prompt take from position ``known`` on; the cache is as before."""
    cache, backend = engine.cache, engine.backend
    position = cache.match(prompt[: known + 1])
    cache.reserve(len(prompt) - position)
    started_s = engine.clock()
    while position < len(prompt):
        chunk = tuple(prompt[position : position + engine.batch_tokens])
        backend.decode(Batch(chunk, position, cache.sequence))
        position += len(chunk)
    elapsed_ms = (engine.clock() - started_s) * 1000
    cache.release()
    return elapsed_ms
