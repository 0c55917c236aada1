"""What a session file amounts to: turns, the prompt's token ids, and what was added, taken back or summarised.

It is rebuilt from the records alone, so that a session can be shown, exported and resumed without a model.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from khepri.agent.events import DrafterFigures, Finished, Notice, Timing, ToolFinished, Usage
from khepri.agent.journal import Record
from khepri.agent.task import Attachment, Exchange, Question
from khepri.agent.words import describe_cut, describe_end

_NOTHING_DRAFTED: Final = ("acceptance_rate", None)


@dataclass(frozen=True)
class Work:
    """Something that a change did: wrote files, or ran a check."""

    title: str
    outcome: str
    text: str
    """The patch, or what the check printed."""
    is_error: bool


@dataclass(frozen=True)
class Summary:
    """What the model is told instead of earlier turns."""

    text: str = ""
    """Empty if nothing was summarised."""
    turns: int = 0
    """So many turns of the talk it stands for."""
    tokens: int = 0


@dataclass(frozen=True)
class NotSummarised:
    """A summary that the user asked for was not written."""

    reason: str


@dataclass(frozen=True)
class Told:
    """What the model had been told before a question."""

    prompt: tuple[int, ...] | None = ()
    """The prompt; None if its ids are those of another model."""
    summary: Summary = Summary()
    """What stood for earlier turns."""
    turns: int = 0
    """So many turns of the talk the prompt contained, or the summary stood for."""


@dataclass
class Turn:
    """A question, or a change that was asked for, and what came of it."""

    question: Question
    before: Told = Told()
    happened: list[ToolFinished | Notice | Work | Summary] = field(default_factory=list)
    """What happened before the answer was there, in that order."""
    answer: str = ""
    """The answer, as far as it came."""
    finished: Finished | None = None
    """The figures; None if the turn failed or the process ended within it."""
    failure: str = ""
    """What went wrong; empty if nothing did."""
    afterwards: list[Notice | Summary | NotSummarised] = field(default_factory=list)
    """What came of the summaries that the user asked for after it, in that order."""
    is_left: bool = False
    """True if something else was begun after it, whether it had ended or Khepri had ended within it."""
    is_in_prompt: bool = False
    """True if the prompt's ids contain it, or the summary stands for it."""
    is_change: bool = False
    """True for a change of the repository, which is no part of what the model is told later."""

    @property
    def steps(self) -> list[ToolFinished]:
        """What the agent looked at."""
        return [each for each in self.happened if isinstance(each, ToolFinished)]

    @property
    def notices(self) -> list[Notice]:
        """Remarks."""
        return [each for each in (*self.happened, *self.afterwards) if isinstance(each, Notice)]

    @property
    def work(self) -> list[Work]:
        """What a change did."""
        return [each for each in self.happened if isinstance(each, Work)]

    @property
    def summary(self) -> str:
        """What was told at last instead of the turns before, in this turn or right after it; empty if nothing was."""
        summaries = [each.text for each in (*self.happened, *self.afterwards) if isinstance(each, Summary)]
        return summaries[-1] if summaries else ""

    @property
    def asked(self) -> str:
        """What the user wrote, as it would be written again."""
        return f"/refactor {self.question.text}" if self.is_change else self.question.text

    @property
    def is_open(self) -> bool:
        """True if nothing says that it has ended: it still goes on, or Khepri ended within it."""
        return self.finished is None and not self.failure

    @property
    def is_over(self) -> bool:
        """True if what is written down next is no part of it."""
        return self.is_left or not self.is_open

    @property
    def ending(self) -> str:
        """How it ended where that is no whole answer, in words; empty for one, and where ``failure`` says it."""
        if self.is_open:
            return f"Khepri ended before {'the change was done' if self.is_change else 'the answer did'}"
        if self.failure or self.finished is None:
            return ""
        reason = self.finished.stop_reason
        return describe_end(reason) if self.is_change else describe_cut(reason)

    def as_exchange(self) -> Exchange:
        """Return it as far as a later turn needs it."""
        files = (step.arguments.get("path") for step in self.steps if not step.is_error)
        return Exchange(self.question.text, self.answer, tuple(path for path in files if isinstance(path, str)))


@dataclass
class History:
    """A session up to now."""

    session_id: str
    repository: str = ""
    """Root of the repository."""
    model: str = ""
    """Name of the model that the ids belong to."""
    started: str = ""
    """When it began, in ISO format."""
    turns: list[Turn] = field(default_factory=list)
    prompt: tuple[int, ...] = ()
    """The prompt's ids after the last turn that ended in good order."""
    stable_tokens: int = 0
    """So many of the prompt's ids are the preamble."""
    summary: Summary = Summary()
    """What the model is told instead of the turns before ``prompt`` begins."""
    added: dict[str, None] = field(default_factory=dict)
    """Files that belong to every further question, in the order they were added."""

    @property
    def title(self) -> str:
        """The first question in a few words."""
        text = " ".join(self.turns[0].question.text.split()) if self.turns else ""
        return text if len(text) <= 80 else f"{text[:79]}…"

    @property
    def talk(self) -> list[Turn]:
        """The questions among the turns."""
        return [turn for turn in self.turns if not turn.is_change]

    @property
    def untold(self) -> list[Turn]:
        """Questions at the end that the prompt does not contain, because the process ended within them."""
        talk = self.talk
        first = next((n for n in range(len(talk), 0, -1) if talk[n - 1].is_in_prompt), 0)
        return talk[first:]

    @property
    def told_tokens(self) -> int:
        """Tokens that the next question goes on from; 0 while nothing has been told."""
        if self.prompt:
            return len(self.prompt)
        return self.stable_tokens + self.summary.tokens if self.summary.text else 0

    def forget_prompt(self) -> None:
        """Let the turns be told anew that no summary stands for: the ids mean nothing to the model that goes on."""
        self.prompt = ()
        for turn in self.talk[self.summary.turns :]:
            turn.is_in_prompt = False
        for turn in self.turns:
            turn.before = replace(turn.before, prompt=None)

    def rewind(self, turns: int) -> None:
        """Keep the first ``turns`` turns."""
        if turns < len(self.turns):
            before = self.turns[turns].before
            self.summary = before.summary
            del self.turns[turns:]
            for number, turn in enumerate(self.talk):
                turn.is_in_prompt = number < before.turns
            if before.prompt is None:
                self.forget_prompt()
            else:
                self.prompt = before.prompt

    def apply(self, record: Record) -> None:
        """Take a further record into account; one that makes no sense is passed over."""
        try:
            _apply(self, record)
        except (KeyError, TypeError, ValueError, IndexError):
            return

    def check_integrity(self) -> None:
        """Assert what holds between turns and prompt."""
        assert all(turn.is_in_prompt or turn in self.untold for turn in self.talk), "only last turns may be missing"
        is_told = bool(self.prompt or self.summary.text)
        assert is_told or not any(turn.is_in_prompt for turn in self.talk), "turns in the prompt have ids"


def replay(session_id: str, records: Sequence[Record]) -> History:
    """Return what the records of a session amount to. Records that make no sense are passed over."""
    history = History(session_id)
    for record in records:
        history.apply(record)
    return history


def prompts_of(records: Sequence[Record]) -> list[tuple[int, ...]]:
    """Return all that the prompt of a session ever was, what was summarised or taken back later included."""
    history, prompts = History(""), []
    for record in records:
        history.apply(record)
        if record["kind"] == "tokens":
            prompts.append(history.prompt)
    return prompts


def _apply(history: History, record: Record) -> None:
    match record["kind"]:
        case "session":
            history.repository = _text(record, "repository")
            history.model = _text(record, "model")
            history.started = _text(record, "started")
        case "model":
            history.model = _text(record, "model")
            history.forget_prompt()
        case "question":
            history.turns.append(_turn(history, _question(record)))
        case "change":
            history.turns.append(_turn(history, Question(_text(record, "text")), is_change=True))
        case "tokens":
            _grow(history, record)
        case "compacted":
            text, turns, tokens = _text(record, "summary"), _number(record, "turns"), _number(record, "after_tokens")
            history.summary = Summary(text, turns, tokens)
            turn = history.turns[-1]
            (turn.afterwards if turn.is_over else turn.happened).append(history.summary)
            history.prompt = ()
            for told in history.talk[:turns]:
                told.is_in_prompt = True
        case "rewind":
            history.rewind(_number(record, "turns"))
        case "added":
            history.added[_text(record, "path")] = None
        case "dropped":
            history.added.pop(_text(record, "path"), None)
        case _:
            _apply_to_turn(history.turns[-1], record)


def _turn(history: History, asked: Question, *, is_change: bool = False) -> Turn:
    told = len(history.talk) - len(history.untold)
    return Turn(asked, Told(history.prompt, history.summary, told), is_change=is_change)


def _apply_to_turn(turn: Turn, record: Record) -> None:
    match record["kind"]:
        case "step":
            turn.happened.append(_step(record))
        case "answer":
            turn.answer += _text(record, "text")
        case "work":
            fields = (_text(record, "title"), _text(record, "outcome"), _text(record, "text"))
            turn.happened.append(Work(*fields, is_error=bool(record["is_error"])))
        case "notice":
            notice = Notice(_text(record, "text"), bool(record["is_warning"]))
            (turn.afterwards if turn.is_over else turn.happened).append(notice)
        case "compact":
            turn.is_left = True
        case "failure":
            reason = f"{record['message']}\n{record['hint']}".strip()
            if turn.is_over:
                turn.afterwards.append(NotSummarised(reason))
            else:
                turn.failure = reason
        case "finished" if record["stop_reason"] != "compacted":  # what a summary took is no turn's
            turn.finished = _finished(record, turn)
            turn.answer = turn.finished.answer or turn.answer
        case _:
            pass


def _grow(history: History, record: Record) -> None:
    start, ids = _number(record, "start"), record["ids"]
    if not isinstance(ids, list) or not all(isinstance(each, int) for each in ids) or start > len(history.prompt):
        raise ValueError("not the continuation of this prompt")
    history.prompt = (*history.prompt[:start], *ids)
    history.stable_tokens = _number(record, "stable")
    for turn in history.turns:
        turn.is_in_prompt = True


def _question(record: Record) -> Question:
    attachments, mentions = record.get("attachments"), record.get("mentions")
    return Question(
        _text(record, "text"),
        tuple(Attachment(_text(each, "name"), _text(each, "text")) for each in attachments)
        if isinstance(attachments, list)
        else (),
        tuple(str(each) for each in mentions) if isinstance(mentions, list) else (),
    )


def _step(record: Record) -> ToolFinished:
    arguments, duration_ms = record["arguments"], record["duration_ms"]
    if not isinstance(arguments, Mapping) or not isinstance(duration_ms, int | float):
        raise ValueError("not a step")
    return ToolFinished(
        _number(record, "step"),
        _text(record, "tool"),
        arguments,
        _text(record, "summary"),
        _number(record, "tokens"),
        duration_ms,
        bool(record["is_error"]),
        _text(record, "text"),
    )


def _finished(record: Record, turn: Turn) -> Finished:
    usage, timing = record["usage"], record["timing"]
    if not isinstance(usage, Mapping) or not isinstance(timing, Mapping):
        raise ValueError("no figures")
    return Finished(
        _text(record, "answer"),
        tuple(turn.steps),
        Usage(**_numbers(usage)),
        Timing(**_numbers(timing)),
        _text(record, "model"),
        _text(record, "stop_reason"),
        drafts=_drafts(record.get("drafts")),
    )


def _drafts(rows: object) -> tuple[DrafterFigures, ...]:
    if not isinstance(rows, list):
        return ()
    return tuple(DrafterFigures(_text(row, "drafter"), **_numbers(row, "drafter")) for row in rows)


def _text(record: Record, key: str) -> str:
    value = record[key]
    if not isinstance(value, str):
        raise ValueError(f"{key} is no text")
    return value


def _numbers(values: Mapping[str, Any], besides: str = "") -> dict[str, Any]:
    """Return all values but one; they are numbers, but for a rate of acceptance where nothing was drafted."""
    numbers = {key: value for key, value in values.items() if key != besides}
    if not all(isinstance(each, int | float) or (key, each) == _NOTHING_DRAFTED for key, each in numbers.items()):
        raise ValueError("figures that are no numbers")
    return numbers


def _number(record: Record, key: str) -> int:
    value = record[key]
    if not isinstance(value, int):
        raise ValueError(f"{key} is no number")
    return value
