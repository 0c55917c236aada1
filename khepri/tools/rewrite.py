"""The tool ``rewrite``: shows the code that is to be written anew, in the fence in which the new version is expected.

The model answers with the same fence; what is made of the answer is not known here.
"""

from typing import Final

from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.grammars import grammar_of
from khepri.tools.base import Arguments, Observation, ToolContext
from khepri.tools.proposal import text_of, workspace_of

_LEAST_TICKS: Final = 3


def run(context: ToolContext, arguments: Arguments) -> Observation:
    """Show a definition, or a whole file, that is to be written anew.

    Raises:
        RefusedError: There is no such code, or it is too long for one answer.
    """
    source = read_source(workspace_of(context), text_of(arguments, "path"))
    target = find_target(source, text_of(arguments, "symbol"))
    text = fenced(target)
    tokens = context.count_tokens(text)
    if tokens > context.budget_tokens:
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE,
            f"{target.label} has {tokens} tokens, and {context.budget_tokens} fit",
            "name one function or method in it",
        )
    return Observation(text, tokens, target.label, (source.path,))


def fence_header(target: Target) -> str:
    """Return the first line of the fence of a target: its language, path and symbol."""
    language = grammar_of(target.source.path, target.source.text)
    return f"{fence_mark(target)}{language.name if language else 'text'} {target.label}"


def fence_mark(target: Target) -> str:
    """Return backticks enough that nothing in the code ends the fence."""
    # Markdown is expected to hold fences of its own.
    ticks = _LEAST_TICKS + target.source.path.endswith((".md", ".markdown"))
    while "`" * ticks in target.text:
        ticks += 1
    return "`" * ticks


def fenced(target: Target) -> str:
    """Return the code of a target in its fence."""
    text = target.text if target.symbol else target.text.removesuffix("\n")
    return f"{fence_header(target)}\n{text}\n{fence_mark(target)}"
