"""What is looked at before the model is asked: what the user named, or what may belong to the question."""

from collections.abc import Sequence

from khepri.agent.protocol import ToolCall
from khepri.agent.task import Question
from khepri.repo.relevance import Place
from khepri.repo.text import counted

_MOST_PLACES = 3


def looks(question: Question, places: Sequence[Place]) -> list[ToolCall]:
    """Return the calls to make before the model is asked: all that the user named, or the places that fit best."""
    return [*map(_named, question.mentions), *map(_place, places[:_MOST_PLACES])]


def why_unseen(looks: int, most_steps: int, shown_tokens: int, room_tokens: int) -> str:
    """Return why no more than so many looks are made, and what helps.

    Args:
        looks: How many are made.
        most_steps: The setting ``steps``.
        shown_tokens: The setting ``observation_tokens``.
        room_tokens: What the context holds of what a look shows.
    """
    if looks == most_steps:
        return (
            f"one question looks at {counted(looks, 'thing')} at most (steps = {looks}): "
            "ask about the others in the next one, or raise steps (/config says where)"
        )
    if shown_tokens <= room_tokens:
        return (
            f"{shown_tokens:,} tokens are shown at once (observation_tokens), which is enough for {looks}: "
            "ask about the others in the next question, or raise it (/config says where)"
        )
    return "the context has no room for it: ask about fewer files, or begin anew"


def _place(place: Place) -> ToolCall:
    return ToolCall("read", {"path": place.path, "start": place.first_line, "end": place.last_line})


def _named(name: str) -> ToolCall:
    if name.endswith("/"):
        return ToolCall("list", {"path": name.rstrip("/")})
    path, _, symbol = name.partition("#")
    return ToolCall("read", {"path": path, "symbol": symbol} if symbol else {"path": path})
