"""The model's own chat template, taken apart into the frames between messages.

A prompt that only ever grows cannot be rendered anew each turn: the text between two messages must be known by itself.
So the template is rendered once with marks in the place of the messages and cut at the marks. Message text never passes
through the template, and so cannot forge a turn.
"""

from dataclasses import dataclass

import jinja2
from jinja2.sandbox import ImmutableSandboxedEnvironment

from khepri.engine.backend import Vocabulary

_CHATML = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{{ message['content'] }}<|im_end|>\n{% endfor %}"
    "{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""What llama.cpp falls back to as well when a model carries no template."""

_MARKS = ("khepri-system-mark", "khepri-user-mark", "khepri-reply-mark", "khepri-next-mark")


@dataclass(frozen=True)
class ChatFrames:
    """The fixed texts around messages, control tokens included."""

    before_system: str
    system_to_user: str
    user_to_reply: str
    """Ends a user's message and opens the assistant's turn (the generation prompt)."""
    reply_to_user: str
    """Ends the assistant's turn and opens the next user's message."""
    takes_system: bool
    """False if the template knows no system role: the system text then opens the first user message."""


def chat_frames(vocabulary: Vocabulary) -> ChatFrames:
    """Cut the model's chat template into frames; ChatML where there is none or it cannot be used."""
    bos = _special_text(vocabulary, vocabulary.bos_id)
    eos = _special_text(vocabulary, vocabulary.eos_id)
    for template in (vocabulary.chat_template, _CHATML):
        for takes_system in (True, False):
            frames = _cut(template, bos, eos, takes_system) if template else None
            if frames is not None:
                return frames
    raise AssertionError("the ChatML template can always be cut")


def _special_text(vocabulary: Vocabulary, token: int | None) -> str:
    return vocabulary.piece(token, special=True).decode("utf-8", "replace") if token is not None else ""


def _cut(template: str, bos: str, eos: str, takes_system: bool) -> ChatFrames | None:
    """Return the frames of ``template``, or None if it fails or hides one of the messages."""
    system, user, reply, following = _MARKS
    messages = [{"role": "system", "content": system}] if takes_system else []
    messages += [{"role": "user", "content": user if takes_system else f"{system}\n\n{user}"}]
    messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": following}]
    try:
        whole = _render(template, messages, bos, eos, add_generation_prompt=True)
        opening = _render(template, messages[: 2 if takes_system else 1], bos, eos, add_generation_prompt=True)
    except Exception:  # a template is a program out of a file: whatever it raises, it cannot be used
        return None
    if not all(whole.count(mark) == 1 for mark in _MARKS) or opening.count(user) != 1:
        return None
    before_system, rest = whole.split(system)
    system_to_user, rest = rest.split(user)
    _, rest = rest.split(reply)
    reply_to_user, _ = rest.split(following)
    return ChatFrames(before_system, system_to_user, opening.split(user)[1], reply_to_user, takes_system)


def _render(template: str, messages: list[dict[str, str]], bos: str, eos: str, *, add_generation_prompt: bool) -> str:
    environment = ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"]
    )
    environment.globals["raise_exception"] = _raise_exception
    return environment.from_string(template).render(
        messages=messages, bos_token=bos, eos_token=eos, add_generation_prompt=add_generation_prompt, tools=None
    )


def _raise_exception(message: str) -> None:
    raise jinja2.TemplateError(message)
