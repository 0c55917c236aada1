"""Words that every way of showing a conversation shares: calls, errors and figures, each said in one way.

Nothing here knows where they are shown.
"""

import errno
import json
import re
from collections.abc import Mapping

from khepri.agent.events import ChangesApplied, CheckFinished, Compacted, Compacting, Finished, ToolFinished
from khepri.agent.protocol import ToolCall
from khepri.edits.patch import patch_of
from khepri.errors import KhepriError, is_disk_full
from khepri.repo.text import counted


def describe_call(tool: str, arguments: Mapping[str, object]) -> str:
    """Return a call in a few words, such as ``search "retry" in src``."""
    words = " ".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items())
    return f"{tool} {words}"[:160].rstrip()


def describe_planned(call: ToolCall) -> str:
    """Return a call in the words of the plan that the user sees."""
    get = call.arguments.get
    target = " ".join(str(part) for part in (get("path"), get("symbol")) if part)
    match call.name:
        case "rename":
            return f"rename {target} to {get('new_name')}"
        case "move":
            return f"move {target} to {get('destination')}"
        case "extract":
            lines = f", lines {get('start')}-{get('end')}" if get("start") else ""
            return f"extract {get('new_name')} from {target}{lines}"
        case "inline":
            return f"inline {target}"
        case "parameter":
            to = f" to {get('new_name')}" if get("action") == "rename" else ""
            return f"{get('action')} parameter {get('name')}{to} of {target}"
        case "replace":
            return f"replace {get('pattern')} with {get('replacement')}"
        case _:
            return f"{call.name} {target}"


def describe_seconds(seconds: float) -> str:
    """Return a time to wait as people say it."""
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


def describe_outcome(step: ToolFinished) -> str:
    """Return what came of a call, with what it cost."""
    return f"{step.summary} ({counted(step.tokens, 'token')}, {step.duration_ms:.0f} ms)"


def describe_changes(event: ChangesApplied) -> tuple[str, str, str]:
    """Return what was written in a few words, how much it is, and the patch."""
    changes = event.changes
    outcome = f"+{changes.added_lines} -{changes.removed_lines}; /undo takes it back"
    return f"wrote {counted(len(changes.files), 'file')}", outcome, patch_of(changes).decode("utf-8", "replace")


def describe_check(event: CheckFinished) -> tuple[str, str, str]:
    """Return which check was run in a few words, what came of it, and what it printed."""
    return f"check {event.command}", f"{event.summary} ({event.duration_ms / 1000:.1f} s)", event.output


def describe_compacting(event: Compacting) -> str:
    """Return what is about to be summarised, whether the user has asked for it or the context is nearly full."""
    if event.prompt_tokens > event.context_tokens:
        return (
            f"summarising what was said, in parts: it takes {event.prompt_tokens:,} tokens, "
            f"and the context holds {event.context_tokens:,}"
        )
    return f"summarising what was said: it takes {event.prompt_tokens:,} of {event.context_tokens:,} tokens"


def describe_compacted(event: Compacted) -> str:
    """Return what the conversation took and its summary takes; what stands before either stays."""
    return f"the conversation's {event.before_tokens:,} tokens are a summary of {event.after_tokens:,} now"


def describe_end(outcome: str) -> str:
    """Return what came of a change; see ``ChangeReport.outcome``."""
    ends = {
        "applied": "the change was written",
        "interrupted": "the change was written, and stopped in its checks",
        "rejected": "nothing was written: you rejected the change",
        "refused": "nothing was written: a guard or a rule refused the change",
        "nothing": "there was nothing to change",
    }
    return ends.get(outcome, outcome)


def describe_cut(stop_reason: str) -> str:
    """Return why an answer ends before its end; empty if it does not, or if a notice has said it."""
    cuts = {
        "max_tokens": "the answer was cut at max_tokens: ask for what is missing, or raise it (/config says where)",
        "context_full": "the answer was cut because the context is full: /compact makes room, /new begins anew",
        "interrupted": "stopped",
    }
    return cuts.get(stop_reason, "")


def fenced(text: str, language: str = "") -> str:
    """Return a text as a code block of Markdown, whatever is in it."""
    longest = max((len(run) for run in re.findall("`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def summarize(finished: Finished) -> str:
    """Return the figures of a task in one line; a speed never stands without its acceptance rate."""
    usage, timing = finished.usage, finished.timing
    steps = f"{counted(len(finished.steps), 'step')} · " if finished.steps else ""
    speed = describe_speed(timing.decode_tokens_per_s, timing.acceptance_rate)
    return (
        f"{timing.total_ms / 1000:.1f} s · {steps}{counted(usage.completion_tokens, 'token')}"
        f"{f' at {speed}' if speed else ''} · "
        f"{counted(usage.prompt_tokens, 'prompt token')}, {usage.cached_tokens:,} of them cached"
    )


def describe_speed(tokens_per_s: float, acceptance_rate: float | None) -> str:
    """Return a speed with its acceptance rate, without which it means little; empty where nothing was written."""
    return f"{tokens_per_s:.1f} tokens/s ({describe_acceptance(acceptance_rate)})" if tokens_per_s else ""


def describe_acceptance(rate: float | None) -> str:
    """Return how many drafted tokens were accepted, for display beside a speed."""
    return "nothing drafted" if rate is None else f"acceptance {rate:.0%}"


def describe_error(error: BaseException) -> tuple[str, str]:
    """Return what happened and what to do, each in one sentence; the second may be empty."""
    if isinstance(error, KhepriError):
        return error.message, error.hint
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", ""
    if isinstance(error, OSError):
        if error.filename is None and (error.errno in (errno.EBADF, errno.EIO) or is_disk_full(error)):
            return f"the output could not be written: {error.strerror}", ""
        if is_disk_full(error):
            return f"the disk is full: {error.filename} cannot be written ({error.strerror})", "free some space first"
        where = f": {error.filename}" if error.filename else ""
        return f"{error.strerror or error}{where}", ""
    return f"{type(error).__name__}: {error}", "this is a defect of Khepri's: please report it with the command you ran"
