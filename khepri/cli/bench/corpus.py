"""The corpus: agent work that never changes, as prompts in the model's own chat format.

Its texts lie in ``prompts/bench/``; what is done with them is not known here.
"""

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from khepri.agent.prompt import Prompt
from khepri.agent.protocol import TRIGGER, folders_of, tool_grammar
from khepri.assets import render_prompt, tools_dir
from khepri.engine.backend import Vocabulary
from khepri.engine.request import ToolCallGrammar
from khepri.tools.base import Manifest
from khepri.tools.registry import read_manifest


class TaskClass(StrEnum):
    """Kinds of work that an agent does, by how much of the answer stood there before."""

    EDIT = "edit"
    """A whole function again, with one change."""
    DOCSTRING = "docstring"
    """A whole function again, with a text that is new."""
    RENAME = "rename"
    """A whole file again, with a name changed throughout."""
    TOOL_CALL = "tool call"
    """A call under the grammar of the real tools."""
    EXPLANATION = "explanation"
    """Sentences about code."""
    NEW_CODE = "new code"
    """A function that nothing like it was shown of."""


@dataclass(frozen=True)
class Item:
    """One piece of work."""

    class_: TaskClass
    """What kind of work it is."""
    name: str
    """What it is called in reports; unique."""
    prompt: tuple[int, ...]
    """Token ids up to where the answer begins."""
    grammar: ToolCallGrammar | None
    """The constraint on the answer; None leaves it free."""
    max_tokens: int
    """Most tokens of the answer."""
    is_brief: bool = False
    """True if it belongs to the part of the corpus for those in a hurry."""


@dataclass(frozen=True)
class _Text:
    """An item before it is tokenized: ``prompts/bench/<name>.md``."""

    class_: TaskClass
    name: str
    max_tokens: int
    is_brief: bool = False


# Those that begin alike follow one another, because what they share is then evaluated once.
_TEXTS: Final = (
    _Text(TaskClass.EDIT, "edit_fetch", 260, is_brief=True),
    _Text(TaskClass.DOCSTRING, "docstring_fetch", 320),
    _Text(TaskClass.EXPLANATION, "explanation_fetch", 64, is_brief=True),
    _Text(TaskClass.RENAME, "rename_counter", 420),
    _Text(TaskClass.TOOL_CALL, "call_read", 60, is_brief=True),
    _Text(TaskClass.TOOL_CALL, "call_search", 60),
    _Text(TaskClass.NEW_CODE, "new_code_schedule", 80, is_brief=True),
)


def load_corpus(vocabulary: Vocabulary) -> tuple[Item, ...]:
    """Return the corpus in the tokens of a model, in the order in which it is run. Takes milliseconds.

    The same texts, tools and paths on every machine: neither the user's own tools nor a repository have a part in it.

    Raises:
        KhepriError: The installation is damaged, or the backend is closed.
    """
    manifests = [read_manifest(path)[0] for path in sorted(tools_dir().glob("*.toml"))]
    files = render_prompt("bench/files.md").split()
    described = "\n".join(map(_describe, manifests))
    systems = {
        False: render_prompt("bench/system.md").strip(),
        True: render_prompt("bench/system_with_tools.md", tools=described, files="\n".join(files)).strip(),
    }
    grammar = ToolCallGrammar(TRIGGER, tool_grammar(manifests, files, folders_of(files)), 0, forced=True)
    items = []
    for text in _TEXTS:
        is_call = text.class_ is TaskClass.TOOL_CALL
        prompt = Prompt(vocabulary)
        prompt.open(systems[is_call], render_prompt(f"bench/{text.name}.md").strip())
        ids = (*prompt.ids, *vocabulary.tokenize(TRIGGER, special=True)) if is_call else prompt.ids
        items.append(Item(text.class_, text.name, ids, grammar if is_call else None, text.max_tokens, text.is_brief))
    return tuple(items)


def _describe(manifest: Manifest) -> str:
    example = json.dumps({"name": manifest.name, "arguments": dict(manifest.example)})
    return f"- {manifest.name}: {manifest.description}. {example}"
