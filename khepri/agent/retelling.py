"""Tells what was said before as text: messages that follow each other, in parts that a context holds.

It is for what no ids of this model exist for. What becomes of the parts is not known here.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from khepri.agent.prompt import Prompt
from khepri.agent.task import Exchange

_NO_ANSWER = "(no answer)"
_GO_ON = "(go on)"
_LEAST_HALVED_CHARS = 200


@dataclass(frozen=True)
class Opening:
    """What a conversation begins with, ahead of its first message."""

    preamble: str = ""
    summary: str = ""
    """What stands for everything that was said before; empty if nothing was."""


def tell(prompt: Prompt, opening: Opening, exchanges: Sequence[Exchange], message: str) -> None:
    """Tell exchanges and the message after them; the opening comes first where nothing has been told yet."""
    for exchange in exchanges:
        _tell_exchange(prompt, opening, exchange)
    _ask(prompt, opening, message)


def tell_what_fits(
    prompt: Prompt, opening: Opening, exchanges: Sequence[Exchange], most_tokens: int
) -> tuple[Prompt, list[Exchange], list[Exchange]]:
    """Return a longer prompt of ``most_tokens`` at most, the exchanges that were told by it, and those that are left.

    An exchange that is too long to be told at once is told in halves. Nothing is told if not even a short one fits.
    """
    told: list[Exchange] = []
    left = list(exchanges)
    while left:
        longer = prompt.fork()
        _tell_exchange(longer, opening, left[0])
        if len(longer) <= most_tokens:
            prompt = longer
            told.append(left.pop(0))
        elif len(prompt) or max(map(len, (left[0].question, left[0].answer))) < _LEAST_HALVED_CHARS:
            break
        else:
            left[:1] = _halves(left[0])
    return prompt, told, left


def _tell_exchange(prompt: Prompt, opening: Opening, exchange: Exchange) -> None:
    _ask(prompt, opening, exchange.question)
    prompt.say(exchange.answer or _NO_ANSWER)


def _ask(prompt: Prompt, opening: Opening, message: str) -> None:
    if len(prompt):
        prompt.follow(message)
    else:
        prompt.open(opening.preamble, opening.summary + message)


def _halves(exchange: Exchange) -> tuple[Exchange, Exchange]:
    if len(exchange.question) > len(exchange.answer):
        first, second = _cut(exchange.question)
        return replace(exchange, question=first, answer=_GO_ON), replace(exchange, question=second)
    first, second = _cut(exchange.answer)
    return replace(exchange, answer=first), replace(exchange, question=_GO_ON, answer=second)


def _cut(text: str) -> tuple[str, str]:
    """Cut a text in the middle, behind a line if one ends near there."""
    middle = len(text) // 2
    place = text.rfind("\n", middle // 2, middle) + 1 or middle
    return text[:place], text[place:]
