"""Puts the parts of a change together: conversation, tools, files, rules, places on the disk."""

from collections.abc import Callable, Sequence

from khepri import assets, paths
from khepri.agent.changing import ChangeParts, ChangeRun, ChangeSettings
from khepri.agent.creating import Creating
from khepri.agent.events import Event
from khepri.agent.generation import Writer
from khepri.agent.permission_rules import load_rules
from khepri.agent.permissions import Permissions
from khepri.agent.plan_store import PlanStore
from khepri.agent.preamble import Preamble, build_edit_preamble
from khepri.agent.prompt import Prompt
from khepri.agent.rewriting import Rewriting
from khepri.agent.task import Instruction
from khepri.agent.task_reading import Candidate
from khepri.config import Config
from khepri.edits.checkpoints import Checkpoints
from khepri.edits.workspace import Workspace
from khepri.engine.request import DraftMode, SamplingParams
from khepri.engine.worker import EngineWorker
from khepri.repo.root import Repository
from khepri.tools.base import Tool, ToolContext
from khepri.tools.registry import Registry


def change_run(
    engine: EngineWorker,
    repository: Repository,
    config: Config,
    instruction: Instruction,
    found: Sequence[Candidate],
    emit: Callable[[Event], None],
) -> tuple[ChangeRun, Writer, Preamble]:
    """Return a change that is ready to run, what writes its turns, and its preamble.

    Args:
        engine: The engine, loaded.
        repository: What is to be changed.
        config: The settings in force.
        instruction: What is asked for.
        found: The definitions that it may be about.
        emit: Told of everything that happens.

    Raises:
        ConfigError: A permission rule is not sound.
    """
    tools = edit_tools()
    prompt = Prompt(engine.vocabulary)
    preamble = build_edit_preamble(repository, [tool.manifest for tool in tools], config, prompt.count_tokens)
    prompt.open(preamble.text, _message(instruction, found))
    sampling = SamplingParams(config.temperature, config.top_k, config.top_p, config.min_p, config.seed)
    writer = Writer(engine, sampling, DraftMode(config.draft), config.gamma, emit)
    workspace = Workspace(repository)
    parts = ChangeParts(
        prompt=prompt,
        writer=writer,
        tools=tools,
        context=ToolContext(repository, prompt.count_tokens, config.observation_tokens, workspace=workspace),
        rewriting=Rewriting(writer, workspace, instruction.text, config.edit_form),
        creating=Creating(writer, workspace, instruction.text),
        checkpoints=Checkpoints(repository.root, paths.checkpoints_dir()),
        plans=PlanStore(repository.root, paths.plans_dir()),
        permissions=Permissions(load_rules(repository.root), is_approved=instruction.is_approved),
    )
    settings = ChangeSettings(config.repairs, config.check_seconds)
    return ChangeRun(instruction, found, parts, settings, emit), writer, preamble


def edit_tools() -> tuple[Tool, ...]:
    """Return the tools that change something, by name.

    Raises:
        KhepriError: The installation is damaged.
    """
    return Registry.load({"edit": "allow", "read": "deny", "git": "deny"}).permitted


def _message(instruction: Instruction, found: Sequence[Candidate]) -> str:
    attachments = "".join(
        assets.render_prompt("attachment.md", name=each.name, text=each.text) for each in instruction.attachments
    )
    rows = "\n".join(candidate.row for candidate in found) or "(none)"
    text = assets.render_prompt("edit/task.md", attachments=attachments, candidates=rows, task=instruction.text)
    return text.strip()
