"""Lists in words, as Markdown: commands, sessions, models, figures. Every way of showing a conversation uses them.

Nothing is looked up here but what is handed in.
"""

from collections.abc import Iterable, Sequence
from datetime import UTC, datetime

from khepri.agent.commands import COMMANDS
from khepri.agent.events import Finished
from khepri.agent.recording import SessionInfo
from khepri.agent.words import describe_acceptance, fenced
from khepri.models.catalogue import DEFAULT_TARGET
from khepri.models.stores import Model
from khepri.repo.text import counted


def commands_text() -> str:
    """Return every command with what it does."""
    rows = (f"| `/{each.name} {each.argument}".rstrip() + f"` | {each.summary} |" for each in COMMANDS.values())
    return "\n".join(["| command | what it does |", "|---|---|", *rows])


def sessions_text(sessions: Sequence[SessionInfo], now: datetime) -> str:
    """Return the sessions, with how to resume one."""
    if not sessions:
        return "There are no conversations about this repository yet."
    rows = (
        f"| `{info.session_id}` | {describe_age(info.changed, now)} | {info.turns} | {_cell(info.title)} |"
        for info in sessions
    )
    return "\n".join(
        ["| session | when | turns | first question |", "|---|---|---|---|", *rows, "", "Go on with one: `/resume ID`."]
    )


def models_text(models: Iterable[Model], current: str) -> str:
    """Return the models on this machine, the one in use marked."""
    if rows := _model_rows(models, current):
        return "\n".join([*rows, "", "Go on with one: `/model NAME`."])
    return no_model_text((), "")


def _model_rows(models: Iterable[Model], current: str) -> list[str]:
    """Return the table of models; nothing if there are none."""
    rows = [
        f"| {f'**{model.name}** (in use)' if model.name == current else model.name} "
        f"| {model.quantization} | {describe_size(model.size_bytes)} | {model.source} |"
        for model in models
    ]
    return ["| model | quantization | size | where |", "|---|---|---|---|", *rows] if rows else []


def no_model_text(models: Sequence[Model], problem: str) -> str:
    """Return why no question can be answered and what to do about it.

    Args:
        models: What was found on this machine.
        problem: What happened, without a full stop.
    """
    wait = "What you write until then waits; Esc gives it back."
    if not models:
        return (
            "## There is no model on this machine yet\n\n"
            "Khepri runs a language model on your own processor, and needs its file once. In another terminal:\n\n"
            f"{_ways_to_get_one()} "
            "Models of Ollama, LM Studio, Hugging Face and llama.cpp are found by themselves. "
            f"Then choose it here with `/model`. {wait}"
        )
    found = f"## No model is in use\n\n{problem[:1].upper()}{problem[1:]}. Found on this machine:\n\n"
    found += "\n".join([*_model_rows(models, ""), "", "Choose one with `/model`."])
    if any(model.is_default for model in models):
        return f"{found} {wait}"
    return (
        f"{found} None is taken by itself, as it may be too large for this machine, or too small to be of use. "
        f"To get the default one, in another terminal:\n\n{_ways_to_get_one()} Then choose it with `/model`. {wait}"
    )


def _ways_to_get_one() -> str:
    ways = fenced(
        f"khepri models pull            # {DEFAULT_TARGET.name}, {describe_size(DEFAULT_TARGET.size_bytes)}\n"
        "khepri models add FILE.gguf   # or take a file that you have"
    )
    return f"{ways}\n\nThe first is the only command that uses the network."


def stats_text(finished: Sequence[Finished]) -> str:
    """Return the figures of each turn; a speed never stands without its acceptance rate."""
    if not finished:
        return "Nothing has been answered yet."
    rows = [
        f"| {number} | {each.timing.ttft_ms / 1000:.1f} s | {_speed(each)} | {each.usage.completion_tokens} "
        f"| {each.usage.cached_tokens:,} of {each.usage.prompt_tokens:,} |"
        for number, each in enumerate(finished, 1)
    ]
    head = ["| turn | first token | tokens/s | tokens | prompt from the cache |", "|---|---|---|---|---|"]
    return "\n".join([*head, *rows])


def _speed(finished: Finished) -> str:
    timing = finished.timing
    speed = f"{timing.decode_tokens_per_s:.1f} ({describe_acceptance(timing.acceptance_rate)})"
    return speed if timing.decode_tokens_per_s else "none: nothing was decoded"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


def describe_age(then: datetime, now: datetime) -> str:
    """Return how long ago something was, in one unit."""
    seconds = max(0, int((now.astimezone(UTC) - then.astimezone(UTC)).total_seconds()))
    for unit, length in (("day", 86_400), ("hour", 3600), ("minute", 60)):
        if seconds >= length:
            return f"{counted(seconds // length, unit)} ago"
    return "just now"


def describe_size(size_bytes: int) -> str:
    """Return a size as people say it."""
    return f"{size_bytes / 1e9:.1f} GB" if size_bytes >= 1e9 else f"{size_bytes / 1e6:.0f} MB"
