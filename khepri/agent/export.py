"""A session as a document: Markdown to read, JSON for programs."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from enum import StrEnum

from khepri.agent.events import Notice, ToolFinished
from khepri.agent.history import History, NotSummarised, Summary, Turn, Work
from khepri.agent.words import describe_call, summarize
from khepri.repo.exports import EXPORT_MARK
from khepri.repo.text import counted, printable, printable_json


class ExportFormat(StrEnum):
    """What a session can be exported as."""

    MARKDOWN = "markdown"
    """Questions, steps and answers, to be read."""
    JSON = "json"
    """Everything but the token ids."""


def export(history: History, wanted: ExportFormat, *, goes_on: bool = False) -> str:
    """Return the document. It holds nothing that could steer a terminal, whatever was said or shown.

    Args:
        history: The session.
        wanted: What it is to be.
        goes_on: True if the last turn may still be going on, here or in another process.
    """
    return printable(_markdown(history, goes_on)) if wanted is ExportFormat.MARKDOWN else _json(history, goes_on)


def _markdown(history: History, goes_on: bool) -> str:
    what = f"Khepri session `{history.session_id}`, {history.started}, model `{history.model}`."
    head = f"<!-- {EXPORT_MARK} -->\n\n# {history.title}\n\n{what}\n"
    endings = _endings(history, goes_on)
    return "\n".join([head, *(_turn(turn, ending) for turn, ending in zip(history.turns, endings, strict=True))])


def _endings(history: History, goes_on: bool) -> list[str]:
    """Return how each turn ended, in words; empty for a whole answer."""
    endings = [turn.ending for turn in history.turns]
    if goes_on and history.turns and history.turns[-1].is_open:
        endings[-1] = "unfinished: it went on while this was written"
    return endings


def _turn(turn: Turn, ending: str) -> str:
    parts = [f"## {' '.join(turn.asked.split())[:80]}\n", _quoted(turn.asked)]
    parts += [
        f"\n_With {attachment.name} ({counted(len(attachment.text), 'character')})._"
        for attachment in turn.question.attachments
    ]
    parts += _rows(turn.happened)
    if turn.answer:
        parts.append(f"\n{turn.answer}")
    if turn.failure:
        parts.append(f"\n**Failed:** {turn.failure}")
    if ending:
        parts.append(f"\n**{ending[:1].upper()}{ending[1:]}.**")
    if turn.finished is not None:
        parts.append(f"\n_{summarize(turn.finished)}_")
    parts += _rows(turn.afterwards)
    return "\n".join(parts) + "\n"


def _rows(happened: Sequence[ToolFinished | Notice | Work | Summary | NotSummarised]) -> list[str]:
    """Return the lines that say what happened, in that order and without remarks; a blank one precedes a list."""
    rows: list[str] = []
    for each in happened:
        match each:
            case ToolFinished(_, tool, arguments, summary):
                row = f"- `{describe_call(tool, arguments)}` → {summary}"
            case Work(title, outcome):
                row = f"- `{title}` → {outcome}"
            case Summary(text):
                row = f"\n_The conversation went on from this summary:_\n\n{_quoted(text.strip())}"
            case NotSummarised(reason):
                row = f"\n**The conversation was not summarised:** {reason}"
            case Notice():
                continue
        is_first = not rows or not rows[-1].startswith("- ")
        rows += ["", row] if row.startswith("- ") and is_first else [row]
    return rows


def _quoted(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.split("\n"))


def _json(history: History, goes_on: bool) -> str:
    document = {
        "format": EXPORT_MARK,
        "session": history.session_id,
        "repository": history.repository,
        "model": history.model,
        "started": history.started,
        "added": list(history.added),
        "turns": [
            {
                "question": asdict(turn.question),
                "steps": [asdict(step) for step in turn.steps],
                "is_change": turn.is_change,
                "work": [asdict(work) for work in turn.work],
                "answer": turn.answer,
                "notices": [notice.text for notice in turn.notices],
                "failure": turn.failure,
                "ending": ending,
                "summary": turn.summary,
                "usage": asdict(turn.finished.usage) if turn.finished else None,
                "timing": asdict(turn.finished.timing) if turn.finished else None,
                "stop_reason": turn.finished.stop_reason if turn.finished else None,
            }
            for turn, ending in zip(history.turns, _endings(history, goes_on), strict=True)
        ],
    }
    return printable_json(json.dumps(document, ensure_ascii=False, indent=2, default=str)) + "\n"
