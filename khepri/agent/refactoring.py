"""Runs the tools that refactor deterministically: the model only said which one."""

import json
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from khepri import assets
from khepri.agent.generation import Writer
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import ToolCall
from khepri.agent.task_parts import parts_of
from khepri.agent.task_reading import WORD, Candidate, rivals
from khepri.agent.words import describe_planned
from khepri.edits.locate import find_target, read_source
from khepri.edits.moving.asked_lines import asked_lines, function_at
from khepri.edits.python.statements import Statements
from khepri.edits.python.trees import kept_trees
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.tools.arguments import check_arguments
from khepri.tools.base import JsonValue, Tool, ToolContext

_LINES_TOKENS: Final = 16


class Refactoring:
    """The refactorings of one change. One thread."""

    def __init__(
        self,
        tools: Sequence[Tool],
        context: ToolContext,
        prompt: Prompt,
        writer: Writer,
        task: str,
        notice: Callable[[str], None],
    ) -> None:
        """Prepare.

        Args:
            tools: Those that change something.
            context: What they work on; with a workspace.
            prompt: The conversation, its last message the task; it is not touched.
            writer: Writes the turns of the model.
            task: What the user asked for.
            notice: Told what a tool leaves to the user.
        """
        self._tools = {tool.manifest.name: tool for tool in tools}
        self._context = context
        self._prompt = prompt
        self._writer = writer
        self._task = task
        self._notice = notice

    def run(self, call: ToolCall, found: Sequence[Candidate]) -> str:
        """Do what a call says in the workspace, and return what was done.

        Args:
            call: A call of one of the tools.
            found: The definitions that the task may be about, as the calls before have left them.

        Raises:
            EditRefusedError: Several definitions may be meant, or the tool refuses.
            ToolError: The arguments are none that the tool takes.
            CancelledError: The task was cancelled.
        """
        others = rivals(call, found, self._task)
        if others:
            path, symbol = call.arguments.get("path"), call.arguments.get("symbol")
            raise EditRefusedError(
                Refusal.AMBIGUOUS,
                f"{symbol} is defined in {path} and in {', '.join(others[:3])}",
                f"say which one is meant, as in: {self._task[:80]} in {path}",
            )
        tool = self._tools[call.name]
        arguments = check_arguments(tool.manifest, call.arguments)
        if call.name == "extract" and "start" not in arguments:
            arguments = {**arguments, **self._lines(call)}
            call = replace(call, arguments=arguments)
        with kept_trees():
            observation = tool.run(self._context, arguments)
        for note in observation.text.split("\n")[1:]:
            if not re.fullmatch(r".* \+\d+ -\d+", note):
                self._notice(note)
        return f"{describe_planned(call)}: {observation.summary}"

    def _lines(self, call: ToolCall) -> dict[str, JsonValue]:
        """Return which lines of a definition are to be extracted: those that the task names, else the model chooses."""
        assert self._context.workspace is not None
        path, symbol = str(call.arguments["path"]), str(call.arguments.get("symbol", ""))
        source, name = read_source(self._context.workspace, path), str(call.arguments.get("new_name", ""))
        parts = [part for part in parts_of(self._task, ()) if name in WORD.findall(part)]
        task = parts[0] if len(parts) == 1 else self._task
        if symbol.rpartition(".")[2] not in WORD.findall(task.replace(".", " ")):
            # A task that names lines by their numbers need not name the function.
            symbol = function_at(source, task) or symbol
        target = find_target(source, symbol)
        statements = Statements(target)
        asked = asked_lines(target, statements, task, name)
        if asked is not None:
            return {"symbol": symbol, "start": asked[0], "end": asked[1]}
        rows = enumerate(target.text.split("\n"), start=target.start_line)
        code = "\n".join(f"{number}  {line}" for number, line in rows)
        prompt = self._prompt.fork()
        prompt.write_call(json.dumps({"name": "extract", "arguments": {"path": path}}))
        message = assets.render_prompt("edit/lines.md", symbol=target.label, code=code, task=task, name=name)
        prompt.follow(message.strip())
        starts = " | ".join(f'"{number}"' for number in statements.starts(task))
        ends = " | ".join(f'"{number}"' for number in statements.ends)
        written = self._writer.write(prompt, f'start: ({starts}) "-" ({ends})', _LINES_TOKENS)
        start, _, end = written.partition("-")
        first, last = statements.around(int(start), int(end))
        return {"start": first, "end": last}
