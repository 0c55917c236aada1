"""Decides by which calls a task is done: those that the user named, or one that a model chooses for each part.

No call is run here; what an earlier one will have made is told from the call itself.
"""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

from khepri import assets
from khepri.agent.call_grammar import plan_grammar
from khepri.agent.creating import create_call
from khepri.agent.generation import Writer
from khepri.agent.goal_tests import without_goals
from khepri.agent.module_renames import module_rename, refuse_bare_module
from khepri.agent.prompt import Prompt
from khepri.agent.protocol import ToolCall, parse
from khepri.agent.rewriting import rewrite_call
from khepri.agent.task import Instruction
from khepri.agent.task_parts import after, in_plain_words, made_by, parts_of, renaming
from khepri.agent.task_reading import Candidate, is_called, is_only_a_place, names_file
from khepri.agent.words import describe_planned
from khepri.edits.creation import new_target
from khepri.edits.locate import find_target, read_source
from khepri.edits.python.variables import variables
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.repo.search import search
from khepri.tools.base import Manifest

_PLAN_TOKENS: Final = 400
_MOST_SHOWN: Final = 5
_OF_ONE_DEFINITION: Final = ("rename", "move", "inline")
"""Calls that do something to the very definition that they name, and not to what lies in it."""


class Planning:
    """The plan of one change. One thread."""

    def __init__(
        self,
        instruction: Instruction,
        found: Sequence[Candidate],
        manifests: Sequence[Manifest],
        workspace: Workspace,
        prompt: Prompt,
        writer: Writer,
    ) -> None:
        """Prepare.

        Args:
            instruction: What to change.
            found: The definitions that it may be about.
            manifests: The tools that change something.
            workspace: The files as they are.
            prompt: The conversation, its last message the task; it is not touched.
            writer: Writes the model's turns.
        """
        self._instruction = instruction
        self._found = found
        self._manifests = manifests
        self._workspace = workspace
        self._repository = workspace.repository
        self._prompt = prompt
        self._writer = writer

    def targeted(self) -> tuple[ToolCall, ...]:
        """Return the calls that the instruction itself names; none if it leaves the choice to the model.

        Raises:
            EditRefusedError: It names what is not there, or what may not be made.
        """
        calls = []
        for written in self._instruction.targets:
            path, _, symbol = written.partition(":")
            if not symbol and not os.path.exists(self._repository.root / path):
                calls.append(create_call(new_target(self._workspace, path).source.path))
                continue
            target = find_target(read_source(self._workspace, path), symbol)
            calls.append(rewrite_call(target.source.path, target.symbol))
        return tuple(calls)

    def decided(self) -> tuple[ToolCall, ...]:
        """Let the model choose what does the task: one call for each of its parts.

        Raises:
            EditRefusedError: The task speaks of a name that stands nowhere, or of a module that cannot be renamed.
            CancelledError: The task was cancelled.
            ContextFullError: The task does not fit into the context.
            ModelError: The engine failed.
        """
        calls: dict[str, ToolCall] = {}
        found = without_goals(self._instruction.text, self._found)
        prompt = self._prompt.fork()
        for number, part in enumerate(parts_of(self._instruction.text, found)):
            if number:
                prompt.follow(assets.render_prompt("edit/part.md", task=part).strip())
            module = module_rename(part, self._files(calls.values()), found)
            if calls and (module is None) == any(map(_is_of_module, calls.values())):
                # The refactorings of definitions look for modules on the disk, where none has its new name yet.
                raise EditRefusedError(
                    Refusal.NOT_POSSIBLE,
                    "a module is not renamed in one task with other changes",
                    "give the rename of the module as a task of its own, and the rest after it",
                )
            if module is not None:
                calls.setdefault(module.identity, module)
                found = after(module, found)
                continue
            words = in_plain_words(part, found, self._stands)
            said = renaming(words)
            if said is not None and not self._is_there(said[0], found):
                # A model would change something else instead.
                raise EditRefusedError(
                    Refusal.NO_TARGET, f"nothing is called {said[0]} here", "look at how it is spelled"
                )
            if said is not None and not any(is_called(each, said[0]) for each in found):
                found = [*self._variables(said[0]), *found]
                self._refuse_stranger(said[0], found)
                refuse_bare_module(said[0], self._files(calls.values()), found)
            grammar = plan_grammar(self._manifests, found, self._repository.files(), words)
            call = parse(self._writer.write(prompt, grammar, _PLAN_TOKENS), [each.name for each in self._manifests])
            if call is not None:
                _refuse_place(call, words)
                calls.setdefault(call.identity, call)
                found = after(call, found)
        return tuple(calls.values())

    def _files(self, calls: Iterable[ToolCall]) -> list[str]:
        """Return the files as they are called once these calls are done."""
        renamed = {str(call.arguments.get("path")): made_by(call) for call in calls if _is_of_module(call)}
        made = {path: made[0] for path, made in renamed.items() if made is not None}
        return [made.get(path, path) for path in self._repository.files()]

    def _refuse_stranger(self, name: str, found: Sequence[Candidate]) -> None:
        """Refuse to rename a member that its class does not have: a model would rename something else instead."""
        owner, _, last = name.rpartition(".")
        if owner and not any(is_called(each, name) for each in found):
            others = [f"{each.path} {each.symbol}" for each in self._variables_of(last) if "." in each.symbol]
            others += [f"{each.path} {each.symbol}" for each in found if each.symbol.endswith(f".{last}")]
            there = f"there is {', '.join(others[:_MOST_SHOWN])}" if others else "name the class that defines it"
            raise EditRefusedError(Refusal.NO_TARGET, f"{owner} defines no {last} that can be renamed", there)

    def _variables(self, name: str) -> list[Candidate]:
        """Return the one variable or attribute of that name: there are too many of them to tell of them all.

        Raises:
            EditRefusedError: There are several, and the task does not say which one is meant.
        """
        found = self._variables_of(name)
        named = [each for each in found if names_file(each.path, self._instruction.text)] or found
        if len(named) > 1:
            places = ", ".join(f"{each.path} {each.symbol}" for each in named[:_MOST_SHOWN])
            raise EditRefusedError(
                Refusal.AMBIGUOUS,
                f"{name} is a variable in several places: {places}{', …' if len(named) > _MOST_SHOWN else ''}",
                f"say which one is meant, as in: rename {named[0].symbol} in {named[0].path}",
            )
        return named

    def _variables_of(self, name: str) -> list[Candidate]:
        found, word = [], name.rpartition(".")[2].encode()
        for path in self._repository.files():
            with suppress(EditRefusedError):  # no file that can be changed
                if path.endswith(".py") and word in (self._workspace.read(path) or b""):
                    targets = variables(read_source(self._workspace, path))
                    found += [Candidate(path, each.symbol, each.kind, each.start_line) for each in targets]
        return [each for each in found if is_called(each, name)]

    def _is_there(self, name: str, found: Sequence[Candidate]) -> bool:
        """Tell if something is called so, or will be by then."""
        return any(is_called(each, name) for each in found) or self._stands(name)

    def _stands(self, name: str) -> bool:
        """Tell if a name stands anywhere in the repository."""
        word = re.escape(name.rpartition(".")[2])
        found = search(self._repository, rf"(^|\W){word}(\W|$)", literal=False, case_sensitive=True, max_matches=1)
        return bool(found.matches)


def _is_of_module(call: ToolCall) -> bool:
    return call.name == "rename" and not call.arguments.get("symbol")


def _refuse_place(call: ToolCall, task: str) -> None:
    """Refuse to rename, move or inline what a task names only to say where something lies."""
    symbol = str(call.arguments.get("symbol", ""))
    if call.name not in _OF_ONE_DEFINITION or not is_only_a_place(symbol.rpartition(".")[2], task):
        return
    raise EditRefusedError(
        Refusal.AMBIGUOUS,
        f"the task names {symbol} only to say where something lies, and what is to be done is {describe_planned(call)}",
        f"name it in full, as in: {call.name} {symbol}.name …",
    )
