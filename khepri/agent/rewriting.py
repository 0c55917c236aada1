"""Has the model write one definition or file anew, and shows it what was wrong until a guard lets it pass.

The fence's first line is given, so that the target is one that exists; its last one ends the turn. Nothing is written.
"""

import builtins
import json
import re
from dataclasses import dataclass
from typing import Final

from khepri import assets
from khepri.agent.generation import Writer
from khepri.agent.new_names import opening_rule
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import ToolCall
from khepri.agent.task_reading import spelled_as_names
from khepri.config import EditForm
from khepri.edits.change import FileChange
from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.edits.writing.blocks import with_blocks
from khepri.edits.writing.rewrite import rewritten
from khepri.repo.text import cut_middle
from khepri.tools.rewrite import fence_header, fence_mark, fenced

MOST_TRIES: Final = 3
_SPARE_TOKENS: Final = 320
_LEAST_SPARE_TOKENS: Final = 128
_GROWTH: Final = 1.5
WARMER: Final = 0.4
"""By how much each further try is freer: at temperature 0 it would be the same again."""
_OF_HEADS: Final = re.compile(r"\b(?:argument|parameter|keyword|coroutine|await|attribute)", re.IGNORECASE)
_TRIED_CHARS: Final = 800
_WORD: Final = re.compile(r"\w+")
_SENTENCE: Final = "start: /[^\\n]{1,400}/"
_SENTENCE_TOKENS: Final = 96
_TEMPLATES: Final = {
    EditForm.FUNCTION: "edit/rewrite.md",
    EditForm.FILE: "edit/file.md",
    EditForm.BLOCKS: "edit/blocks.md",
}


@dataclass(frozen=True)
class Failure:
    """A check that fails, for the model to mend."""

    command: str
    output: str
    """What the model is shown of it."""
    is_new: bool
    """True if the last change broke it, False if it failed before."""
    tried: tuple[FileChange, ...] = ()
    """Corrections that are made already, and did not mend it."""

    @property
    def wanted(self) -> str:
        """What of the output may ask for other parameters, or for a function that is or is not asynchronous."""
        return "\n".join(line for line in self.output.split("\n") if _OF_HEADS.search(line))


class Rewriting:
    """Writes code anew in one conversation. One thread."""

    def __init__(self, writer: Writer, workspace: Workspace, task: str, form: EditForm) -> None:
        """Prepare.

        Args:
            writer: Writes the turns.
            workspace: The files as they are, with what was proposed before.
            task: What the user asked for.
            form: In what form the model writes a change.
        """
        self._writer = writer
        self._workspace = workspace
        self._task = task
        self._form = form

    def use(self, workspace: Workspace) -> None:
        """Work on the files of another workspace from here on."""
        self._workspace = workspace

    def rewrite(self, prompt: Prompt, path: str, symbol: str, failure: Failure | None = None) -> FileChange:
        """Return the change of one definition or file.

        Args:
            prompt: The conversation so far, the model's turn open; it is not touched.
            path: A file of the repository.
            symbol: A definition in it; empty for the whole file.
            failure: What the last change broke.

        Raises:
            EditRefusedError: There is no such code, or nothing that the model wrote passes the guards; the reason is
                that of its last try.
            CancelledError: The task was cancelled.
            ContextFullError: The code does not fit into the context.
        """
        source = read_source(self._workspace, path)
        target = find_target(source, "" if self._form is EditForm.FILE else symbol)
        conversation = prompt.fork()
        conversation.write_call(_call_of(target))
        conversation.follow(self._message(target, failure))
        tokens = prompt.count_tokens(target.text)
        if len(conversation) + tokens + _LEAST_SPARE_TOKENS > self._writer.context_tokens:
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{target.label} has {tokens} tokens; shown and written anew it does not fit into the context of "
                f"{self._writer.context_tokens}",
                "name one function or method in it, or raise context_tokens",
            )
        max_tokens = int(_GROWTH * tokens) + _SPARE_TOKENS
        refusal: EditRefusedError | None = None
        grammar = self._grammar(target)
        attempt = conversation.fork()
        for number in range(MOST_TRIES):
            if refusal is not None and refusal.reason is Refusal.NO_OP:
                # A copy that stands in the conversation is copied again.
                attempt = self._thought(prompt, target, failure, number - 1)
            elif refusal is not None:
                hint = f"; {refusal.hint}" if refusal.hint else ""
                problem = assets.render_prompt("edit/repair.md", problem=refusal.message, hint=hint).strip()
                needed = prompt.count_tokens(problem) + tokens + _LEAST_SPARE_TOKENS
                if len(attempt) + needed > self._writer.context_tokens:
                    # What was not taken leaves no room to write it once more.
                    attempt = prompt.fork()
                    attempt.write_call(_call_of(target))
                    problem = f"{self._message(target, failure)}\n\n{problem}"
                attempt.follow(problem)
            written = self._writer.write(attempt, grammar, max_tokens, WARMER * number, target.text)
            try:
                return self._change(target, body_of(written, target), failure.wanted if failure else "")
            except EditRefusedError as error:
                refusal = error
        assert refusal is not None
        raise refusal

    def _grammar(self, target: Target) -> str:
        """Return the grammar of what the model writes: blocks, or code whose head is known where its language is."""
        if self._form is EditForm.BLOCKS:
            return block_grammar(target)
        is_definition = target.kind in ("function", "method", "class") and target.source.path.endswith(".py")
        if not is_definition or self._speaks_of_more(target):
            return fence_grammar(target)
        return fence_grammar(target, opening_rule(target.name, target.kind))

    def _speaks_of_more(self, target: Target) -> bool:
        """Tell if the task has a name for something that is not there, which may be to stand before the target."""
        there = {*_WORD.findall(target.text), *_WORD.findall(target.label), *dir(builtins)}
        return any(not there.issuperset(_WORD.findall(name)) for name in spelled_as_names(self._task))

    def _thought(self, prompt: Prompt, target: Target, failure: Failure | None, try_: int) -> Prompt:
        """Return a conversation in which the model has said what has to change before it writes the code."""
        conversation = prompt.fork()
        conversation.write_call(_call_of(target))
        code, output = fenced(target), f"`{failure.command}` fails:\n{failure.output}\n\n" if failure else ""
        conversation.follow(assets.render_prompt("edit/think.md", code=code, output=output, task=self._task).strip())
        self._writer.write(conversation, _SENTENCE, _SENTENCE_TOKENS, WARMER * try_)
        conversation.follow(assets.render_prompt(f"edit/after_thought_{self._form}.md").strip())
        return conversation

    def _change(self, target: Target, code: str, failure: str) -> FileChange:
        if self._form is EditForm.BLOCKS:
            return with_blocks(target, code, self._task, failure)
        return rewritten(target, code, self._task, failure)

    def _message(self, target: Target, failure: Failure | None) -> str:
        code = fenced(target)
        if failure is not None:
            shown = {"command": failure.command, "output": failure.output, "code": code, "task": self._task}
            if not failure.is_new:
                return assets.render_prompt("edit/check_fails.md", **shown).strip()
            tried = "".join(
                assets.render_prompt("edit/tried.md", path=each.path, lines=_changed_lines(each))
                for each in failure.tried
            )
            return assets.render_prompt("edit/check_broken.md", tried=tried, **shown).strip()
        return assets.render_prompt(_TEMPLATES[self._form], code=code, task=self._task).strip()


def _changed_lines(change: FileChange) -> str:
    """Return the lines that a change takes and brings, as in a patch; both ends of many."""
    lines = [
        f"{sign}{line.decode('utf-8', 'replace').rstrip()}"
        for hunk in change.hunks
        for sign, side in (("-", hunk.old_lines), ("+", hunk.new_lines))
        for line in side
    ]
    return cut_middle("\n".join(lines), _TRIED_CHARS)


def _call_of(target: Target) -> str:
    return json.dumps({"name": "rewrite", "arguments": {"path": target.source.path, "symbol": target.symbol}})


def fence_grammar(target: Target, opening: str = "") -> str:
    """Return the Lark grammar of a fence whose first line names the target, up to the line that closes it.

    Args:
        target: What is written, or written into.
        opening: A rule of that name, for what the code begins with.
    """
    header = json.dumps(f"{fence_header(target)}\n", ensure_ascii=False)
    closing = fence_mark(target)
    start = f"start: {header} opening body\n{opening}" if opening else f"start: {header} body"
    return f"{start}\nbody[lazy]: /(.|\\n)*\\n{closing}/"


def open_grammar(target: Target) -> str:
    """Return the Lark grammar of a fence that ends with the model's turn, for text that holds fences of its own."""
    header = json.dumps(f"{fence_header(target)}\n", ensure_ascii=False)
    return f"start: {header} body\nbody: /(.|\\n)+/"


def prose_of(written: str, target: Target, is_whole: bool) -> str:
    """Return what stands in a fence of ``open_grammar``; its last line is dropped if it closes what nothing opened.

    Raises:
        EditRefusedError: The text was cut off.
    """
    if not is_whole:
        raise EditRefusedError(
            Refusal.MALFORMED, "the text was cut off before its end", "write a shorter one, and write it once"
        )
    body = written.strip("\n").removeprefix(fence_header(target)).strip("\n")
    marks = [line for line in body.split("\n") if line.lstrip().startswith("```")]
    is_closed = body.endswith(("\n```", "\n````")) and len(marks) % 2 == 1
    return body.rpartition("\n")[0] if is_closed else body


def block_grammar(target: Target) -> str:
    """Return the Lark grammar of a fence that holds search/replace blocks and nothing else."""
    header = json.dumps(f"{fence_header(target)}\n", ensure_ascii=False)
    return (
        f'start: {header} block+ "{fence_mark(target)}"\n'
        'block: "<<<<<<< SEARCH\\n" search replace\n'
        "search[lazy]: /(.|\\n)+\\n=======\\n/\n"
        "replace[lazy]: /(.|\\n)*>>>>>>> REPLACE\\n/"
    )


def body_of(written: str, target: Target) -> str:
    """Return what stands in the fence.

    Raises:
        EditRefusedError: The fence was not closed: the text was cut off.
    """
    header, closing = fence_header(target), fence_mark(target)
    body = written.strip("\n").removeprefix(header).removeprefix("\n")
    if not re.search(rf"(?:^|\n){closing}\s*\Z", body):
        raise EditRefusedError(
            Refusal.MALFORMED, "the code was cut off before its end", "write the code once and close the fence"
        )
    return body.rstrip().removesuffix(closing)


def rewrite_call(path: str, symbol: str) -> ToolCall:
    """Return the call that asks for one definition or file to be written anew."""
    return ToolCall("rewrite", {"path": path, "symbol": symbol} if symbol else {"path": path})
