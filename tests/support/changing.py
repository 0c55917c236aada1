"""The real change, workspace, tools and worker over a scripted backend."""

import json
from collections.abc import Callable, Sequence
from pathlib import Path

from khepri.agent.change_setup import edit_tools
from khepri.agent.changing import ChangeParts, ChangeRun, ChangeSettings
from khepri.agent.creating import Creating
from khepri.agent.events import ChangeReport, Event, ReviewRequested
from khepri.agent.generation import Writer
from khepri.agent.permissions import Permissions, Rule
from khepri.agent.plan_store import PlanStore
from khepri.agent.prompt import Prompt
from khepri.agent.rewriting import Rewriting
from khepri.agent.task import Instruction
from khepri.agent.task_reading import candidates
from khepri.config import EditForm
from khepri.edits.change import ChangeSet
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.review import Decision
from khepri.edits.workspace import Workspace
from khepri.engine.request import DraftMode, SamplingParams
from khepri.engine.worker import EngineWorker
from khepri.repo.root import Repository
from khepri.tools.base import ToolContext
from tests.support.scripted_backend import ScriptedBackend
from tests.support.talk import script_of

Reviewer = Callable[[ChangeSet], Decision]


def planned(name: str, /, **arguments: str) -> str:
    """Return a call as the grammar of a plan has it: parameters in the order of the manifest."""
    return f"<tool_call>\n{json.dumps({'name': name, 'arguments': arguments})}\n</tool_call>"


def everything(changes: ChangeSet) -> Decision:
    return Decision.apply(changes)


def nothing(changes: ChangeSet) -> Decision:
    return Decision.reject()


class Change:
    """One change whose model says what a test wants. A context manager.

    Args:
        root: The repository.
        instruction: What is asked for.
        replies: What the model says, turn by turn: the call of the plan first.
        reviewer: Decides about what is proposed.
        rules: Permission rules.
        form: In what form the model writes.
        repairs: Rounds of mending.
        context_tokens: How many tokens the model takes; each is a byte.
        watch: Gets every event, on the change's thread.
    """

    def __init__(
        self,
        root: Path,
        instruction: Instruction,
        replies: Sequence[str],
        *,
        reviewer: Reviewer = everything,
        rules: Sequence[Rule] = (),
        form: EditForm = EditForm.FUNCTION,
        repairs: int = 2,
        context_tokens: int = 16384,
        watch: "Callable[[Change, Event], None]" = lambda change, event: None,
    ) -> None:
        self._watch = watch
        self.events: list[Event] = []
        self.reviewed: list[ChangeSet] = []
        self._reviewer = reviewer
        self.repository = Repository.open(root)
        state = root.parent / "state"
        self.checkpoints = Checkpoints(self.repository.root, state / "checkpoints")
        self.worker = EngineWorker(
            lambda: ScriptedBackend(context_tokens=context_tokens, script=script_of(replies)), 64
        )
        prompt = Prompt(self.worker.vocabulary)
        prompt.open("You change.", instruction.text)
        self.writer = Writer(self.worker, SamplingParams(), DraftMode.SUFFIX, None, self._take)
        workspace = Workspace(self.repository)
        parts = ChangeParts(
            prompt,
            self.writer,
            edit_tools(),
            ToolContext(self.repository, prompt.count_tokens, 700, workspace=workspace),
            Rewriting(self.writer, workspace, instruction.text, form),
            Creating(self.writer, workspace, instruction.text),
            self.checkpoints,
            PlanStore(self.repository.root, state / "plans"),
            Permissions(rules, is_approved=instruction.is_approved),
        )
        found = candidates(self.repository, instruction.text, None)
        self.run_ = ChangeRun(instruction, found, parts, ChangeSettings(repairs, 60.0), self._take, lambda: 0.0)

    def __enter__(self) -> "Change":
        return self

    def __exit__(self, *_: object) -> None:
        self.worker.close()

    def run(self) -> ChangeReport:
        """Take the change to its report."""
        return self.run_.run()

    def _take(self, event: Event) -> None:
        self.events.append(event)
        self._watch(self, event)
        if isinstance(event, ReviewRequested):
            self.reviewed.append(event.review.changes)
            event.review.answer(self._reviewer(event.review.changes))


def write_namesakes(folder: Path) -> Path:
    """Write a small repository in which one name stands for several definitions, and return its folder."""
    texts = {
        "src/net.py": "class Session:\n    def send(self): ...\n\n\ndef fetch(): ...\n",
        "src/other.py": "class Session: ...\n\n\ndef run(): ...\n",
        "tests/test_net.py": "class Session: ...\n",
    }
    for path, text in texts.items():
        (folder / path).parent.mkdir(exist_ok=True)
        (folder / path).write_text(text, encoding="utf-8")
    return folder
