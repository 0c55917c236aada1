"""Compaction: when the context has no room for more, the conversation goes on from a summary of itself.

The model writes the summary while it still sees everything; the questions, how the last answers began, and the files
are added from the record, so that they are kept even where the model forgets them. Nothing is deleted: the session
file holds it all.
"""

import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import replace

from khepri import assets
from khepri.agent.events import Compacted, Compacting, Event
from khepri.agent.generation import followed
from khepri.agent.prompt import Prompt
from khepri.agent.retelling import Opening, tell_what_fits
from khepri.agent.task import Exchange
from khepri.engine.job import Job
from khepri.engine.request import Request
from khepri.engine.worker import EngineWorker
from khepri.errors import CancelledError

_SUMMARY_TOKENS = 280
_SUMMARY_SHARE = 5
_MOST_QUESTION_CHARS = 200
_MOST_ANSWER_CHARS = 120
_MOST_ANSWERS = 4
_MOST_QUESTIONS = 12
_MOST_FILES = 20
_LEAST_SUMMARY_CHARS = 40
_LATEST_SHARE = 4
"""Characters of the last answer that are told again for each token of room: a sixteenth of it or so."""
NO_SUMMARY = "(There was no room for one.)"
"""What stands in the place of a summary that could not be written."""


class Compaction:
    """One compaction. ``run`` on the task's thread, ``cancel`` from any."""

    def __init__(self, engine: EngineWorker, emit: Callable[[Event], None]) -> None:
        self._engine = engine
        self._emit = emit
        self._cancelled = threading.Event()
        self._job: Job | None = None

    def cancel(self) -> None:
        """Stop within 300 ms; ``run`` then raises ``CancelledError`` and nothing has changed."""
        self._cancelled.set()
        job = self._job
        if job is not None:
            job.cancel()

    def run(
        self,
        prompt: Prompt,
        opening: Opening,
        exchanges: Sequence[Exchange],
        untold: Sequence[Exchange],
        most_tokens: int = sys.maxsize,
    ) -> str:
        """Return what the model is told instead of the conversation.

        Where there is no room for all that the prompt does not contain, it is told in parts, each after the summary of
        those before.

        Args:
            prompt: What of the conversation has been told; it is not changed.
            opening: What a conversation begins with.
            exchanges: What it consists of, oldest first.
            untold: The last ones of them, which the prompt does not contain.
            most_tokens: What is returned may take so many, if that is less than the share of a summary anyway.

        Raises:
            CancelledError: It was cancelled.
            ModelError: The engine failed.
        """
        room = self._engine.backend.capabilities.context_tokens
        whole = _told_whole(prompt, opening, untold)
        self._emit(Compacting(whole, room))
        summary = self._summary(prompt, opening, exchanges, untold, room) or NO_SUMMARY
        most_tokens = min(most_tokens, most_summary_tokens(room))
        told = told_again(summary, exchanges, prompt.count_tokens, most_tokens)
        preamble_tokens = prompt.stable_tokens or prompt.count_tokens(opening.preamble)
        self._emit(Compacted(told, len(exchanges), whole - preamble_tokens, prompt.count_tokens(told)))
        return told

    def _summary(
        self, prompt: Prompt, opening: Opening, exchanges: Sequence[Exchange], untold: Sequence[Exchange], room: int
    ) -> str:
        """Let the model summarise part after part; empty if the context has no room for any."""
        most = room - _SUMMARY_TOKENS - prompt.follow_cost(assets.render_prompt("compact.md").strip())
        told, left = list(exchanges[: len(exchanges) - len(untold)]), list(untold)
        summary = ""
        while True:
            piece, fresh, left = tell_what_fits(prompt, opening, left, most)
            if not len(piece):
                return summary
            told += fresh
            summary = self._ask(piece, told[-1].answer if told else "", room) or summary
            if not left:
                return summary
            before = told_again(summary or NO_SUMMARY, told, prompt.count_tokens, most_summary_tokens(room))
            prompt, opening = Prompt(self._engine.vocabulary), replace(opening, summary=before)

    def _ask(self, prompt: Prompt, latest: str, room: int) -> str:
        """Let the model summarise what it sees; empty if the context has not even room for the request.

        What has no room beside the summary is left out at the end, so that the rest is still in the cache; ``latest``,
        the last answer, is then told again as far as there is room.
        """
        request = assets.render_prompt("compact.md").strip()
        known = room - _SUMMARY_TOKENS - prompt.follow_cost(request)
        if known < len(prompt):
            request = assets.render_prompt("compact_cut.md", latest=latest[: room // _LATEST_SHARE], request=request)
            known = room - _SUMMARY_TOKENS - prompt.follow_cost(request)
        if known <= prompt.stable_tokens:
            return ""
        question = Prompt(self._engine.vocabulary)
        question.restore(prompt.ids[:known], prompt.stable_tokens)
        question.follow(request)
        self._job = job = self._engine.submit(
            Request(question.ids, _SUMMARY_TOKENS, stable_tokens=question.stable_tokens)
        )
        if self._cancelled.is_set():
            job.cancel()
        for _ in followed(job, self._emit):
            pass
        summary = job.result().text
        if self._cancelled.is_set():
            raise CancelledError("interrupted")
        return own_words(summary)


def _told_whole(prompt: Prompt, opening: Opening, untold: Sequence[Exchange]) -> int:
    """Return how many tokens a conversation takes when all of it is told."""
    whole, _, _ = tell_what_fits(prompt, opening, untold, sys.maxsize)
    return len(whole)


def own_words(summary: str) -> str:
    """Return a summary without what stands around one: a model that sees the one before is apt to copy all of that."""
    head, *rest = assets.render_prompt("summary.md", summary="", questions="", files="").split("\n")
    kept = summary.strip().removeprefix(head)
    for line in filter(None, map(str.strip, rest)):
        kept = kept.partition(line)[0]
    return kept.strip()


def most_summary_tokens(room: int) -> int:
    """Return how many tokens of a context a summary may take."""
    return room // _SUMMARY_SHARE


def told_again(
    summary: str, exchanges: Sequence[Exchange], count_tokens: Callable[[str], int], most_tokens: int
) -> str:
    """Return a summary with the questions, how the last answers began, and the files that it stands for.

    Where that is more than ``most_tokens``, the earliest answers are left out first, then the earliest questions and
    files, and then the end of the summary, at last all of it: ``least_told_again`` is what cannot be left out.
    """
    latest = exchanges[-_MOST_QUESTIONS:]
    questions = [_beginning(each.question, _MOST_QUESTION_CHARS) for each in latest]
    answers = [_beginning(each.answer, _MOST_ANSWER_CHARS) for each in latest]
    answers[:-_MOST_ANSWERS] = [""] * len(answers[:-_MOST_ANSWERS])
    files = list(dict.fromkeys(path for each in exchanges for path in each.files))[-_MOST_FILES:]
    while True:
        told = assets.render_prompt(
            "summary.md",
            summary=summary,
            questions="\n".join(
                f"- {question}{f' You said: {answer}' * bool(answer)}"
                for question, answer in zip(questions, answers, strict=True)
            ),
            files=", ".join(files) or "none",
        )
        if count_tokens(told) <= most_tokens:
            return told
        if any(answers):
            answers[next(place for place, answer in enumerate(answers) if answer)] = ""
        elif len(questions) > 1:
            del questions[0], answers[0], files[: len(files) // 2]
        elif len(summary) >= _LEAST_SUMMARY_CHARS:
            summary = summary[: len(summary) * 3 // 4]
        elif len(summary) > len(NO_SUMMARY):
            summary = NO_SUMMARY
        else:
            return told


def least_told_again(exchanges: Sequence[Exchange], count_tokens: Callable[[str], int]) -> str:
    """Return what is told again where there is room for next to nothing."""
    return told_again(NO_SUMMARY, exchanges, count_tokens, 0)


def _beginning(text: str, most_chars: int) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most_chars else f"{line[:most_chars]}…"
