"""What is looked at before the model is asked: what the user named, or what may belong to the question."""

from collections.abc import Sequence

from khepri.agent.protocol import ToolCall
from khepri.agent.task import Question
from khepri.repo.relevance import Place

_MOST_PLACES = 3


def looks(question: Question, places: Sequence[Place]) -> list[ToolCall]:
    """Return the calls to make before the model is asked: all that the user named, or the places that fit best."""
    return [*map(_named, question.mentions), *map(_place, places[:_MOST_PLACES])]


def _place(place: Place) -> ToolCall:
    return ToolCall("read", {"path": place.path, "start": place.first_line, "end": place.last_line})


def _named(name: str) -> ToolCall:
    if name.endswith("/"):
        return ToolCall("list", {"path": name.rstrip("/")})
    path, _, symbol = name.partition("#")
    return ToolCall("read", {"path": path, "symbol": symbol} if symbol else {"path": path})
