"""Has the model write what is not there yet, and shows it what was wrong until a guard lets it pass."""

import json
from collections.abc import Callable, Sequence
from typing import Final

from khepri import assets
from khepri.agent.generation import Writer
from khepri.agent.new_names import new_function, opening_rule
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import ToolCall
from khepri.agent.rewriting import MOST_TRIES, WARMER, body_of, fence_grammar, open_grammar, prose_of
from khepri.agent.task_reading import Candidate, named
from khepri.edits.change import FileChange
from khepri.edits.creation import created, new_target
from khepri.edits.locate import Target, find_target, read_source
from khepri.edits.python.imports import Modules
from khepri.edits.refusal import EditRefusedError
from khepri.edits.workspace import Workspace
from khepri.edits.writing.addition import added, names_within
from khepri.engine.request import StopReason
from khepri.tools.rewrite import fence_header, fenced

_MOST_TOKENS: Final = 1000
_MATERIAL_TOKENS: Final = 1200
_MOST_PIECES: Final = 4


class Creating:
    """Writes new files and new definitions in one conversation. One thread."""

    def __init__(self, writer: Writer, workspace: Workspace, task: str) -> None:
        """Prepare.

        Args:
            writer: Writes the turns.
            workspace: The files as they are, with what was proposed before.
            task: What the user asked for.
        """
        self._writer = writer
        self._workspace = workspace
        self._task = task

    def create(self, prompt: Prompt, path: str, found: Sequence[Candidate]) -> FileChange:
        """Return the change that makes a file.

        Args:
            prompt: The conversation so far, the model's turn open; it is not touched.
            path: Where it is to be; nothing may be there.
            found: The definitions that the task may be about; those that it names are shown.

        Raises:
            EditRefusedError: There must be no such file, or nothing that the model wrote passes the guards.
            CancelledError: The task was cancelled.
            ContextFullError: What belongs to the task does not fit into the context.
        """
        target = new_target(self._workspace, path)
        attempt = prompt.fork()
        attempt.write_call(json.dumps({"name": "create", "arguments": {"path": target.source.path}}))
        material = self._material(prompt, named(found, self._task))
        message = assets.render_prompt(
            "edit/create.md", material=material, task=self._task, path=target.source.path, header=fence_header(target)
        )
        attempt.follow(message.strip())
        return self._written(attempt, target, material, lambda code: created(self._workspace, target, code))

    def add(self, prompt: Prompt, path: str, symbol: str) -> FileChange:
        """Return the change that puts a new definition into a class, or at the end of a file.

        Args:
            prompt: The conversation so far, the model's turn open; it is not touched.
            path: A file of the repository.
            symbol: A class in it; empty for the file itself.

        Raises:
            EditRefusedError: There is no such place, or nothing that the model wrote passes the guards.
            CancelledError: The task was cancelled.
            ContextFullError: The code does not fit into the context.
        """
        target = find_target(read_source(self._workspace, path), symbol)
        attempt = prompt.fork()
        attempt.write_call(json.dumps({"name": "add", "arguments": {"path": path, "symbol": target.symbol}}))
        code = fenced(target)
        attempt.follow(assets.render_prompt("edit/add.md", code=code, task=self._task).strip())
        return self._written(attempt, target, code, lambda new: added(target, new), self._opening(target))

    def _opening(self, target: Target) -> str:
        """Return how what is added begins, as a rule of a grammar; empty where the task leaves it open."""
        name = new_function(self._task, names_within(target)) if target.source.path.endswith(".py") else ""
        return opening_rule(name) if name else ""

    def _written(
        self, attempt: Prompt, target: Target, known: str, change: Callable[[str], FileChange], opening: str = ""
    ) -> FileChange:
        """Have the model write until a guard lets it pass."""
        refusal: EditRefusedError | None = None
        for number in range(MOST_TRIES):
            if refusal is not None:
                hint = f"; {refusal.hint}" if refusal.hint else ""
                attempt.follow(assets.render_prompt("edit/repair.md", problem=refusal.message, hint=hint).strip())
            grammar = open_grammar(target) if _is_prose(target) else fence_grammar(target, opening)
            written = self._writer.write(attempt, grammar, _MOST_TOKENS, WARMER * number, known)
            is_whole = self._writer.generations[-1].stop_reason in (StopReason.END, StopReason.TOOL_CALL)
            try:
                return change(prose_of(written, target, is_whole) if _is_prose(target) else body_of(written, target))
            except EditRefusedError as error:
                refusal = error
        assert refusal is not None
        raise refusal

    def _material(self, prompt: Prompt, found: Sequence[Candidate]) -> str:
        """Return the code of what the task names, as far as there is room."""
        pieces: list[str] = []
        tokens = 0
        for each in found[:_MOST_PIECES]:
            try:
                target = find_target(read_source(self._workspace, each.path), each.symbol)
            except EditRefusedError:  # gone or hidden since it was found: there is nothing to show of it
                continue
            piece = f"{self._import_of(target)}{fenced(target)}\n"
            tokens += prompt.count_tokens(piece)
            if tokens > _MATERIAL_TOKENS:
                break
            pieces.append(piece)
        return "".join(pieces)

    def _import_of(self, target: Target) -> str:
        path = target.source.path
        if not path.endswith(".py"):
            return ""
        module, name = Modules(self._workspace).name(path), target.symbol.partition(".")[0]
        return f"Imported by `from {module} import {name}`:\n" if name else f"Imported by `import {module}`:\n"


def _is_prose(target: Target) -> bool:
    """Return True for a file that holds fences of its own, so that a fence is no sign of its end."""
    return target.source.path.endswith((".md", ".markdown"))


def create_call(path: str) -> ToolCall:
    """Return the call that asks for a new file."""
    return ToolCall("create", {"path": path})
