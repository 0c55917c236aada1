"""The preamble: what every conversation about a repository begins with.

It is the same text from session to session until the files it describes change, so that its keys and values can be
reused: no dates, no clocks, no order that depends on anything but content.
"""

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from khepri import assets, paths
from khepri.config import Config
from khepri.errors import ToolError
from khepri.repo.map import build
from khepri.repo.root import Repository
from khepri.repo.text import printable, read_text
from khepri.tools.base import Manifest
from khepri.tools.fit import fit
from khepri.tools.registry import Registry

_CONTEXT_SHARE = 8
"""The map and the instructions take at most this part of the context each: files have to be shown, too."""
_INSTRUCTION_FILES = ("AGENTS.md", ".khepri/AGENTS.md")


@dataclass(frozen=True)
class Preamble:
    """The system text and what the user should know about it."""

    text: str
    notices: tuple[str, ...]


def build_preamble(
    repository: Repository, registry: Registry, config: Config, count_tokens: Callable[[str], int]
) -> Preamble:
    """Return the system text: rules, tools, project instructions, repository map."""
    instructions, notices = _instructions(repository, config, count_tokens)
    if not repository.files():
        notice = "there is no file here that may be read: the folder is empty, or all is hidden or ignored"
        text = assets.render_prompt("system_without_files.md", instructions=instructions)
        return Preamble(text.strip(), (*notices, notice))
    repository_map = build(repository, paths.map_cache_dir()).render(count_tokens, _at_most(config.map_tokens, config))
    if registry.manifests:
        tools = "\n".join(_describe(manifest) for manifest in registry.manifests)
        text = assets.render_prompt("system.md", tools=tools, instructions=instructions, map=repository_map)
    else:
        text = assets.render_prompt("system_without_tools.md", instructions=instructions, map=repository_map)
    return Preamble(text.strip(), notices)


def build_edit_preamble(
    repository: Repository, manifests: Sequence[Manifest], config: Config, count_tokens: Callable[[str], int]
) -> Preamble:
    """Return the system text of a change: rules, the tools that change something, project instructions."""
    instructions, notices = _instructions(repository, config, count_tokens)
    tools = "\n".join(_describe(manifest) for manifest in manifests)
    return Preamble(assets.render_prompt("edit/system.md", tools=tools, instructions=instructions).strip(), notices)


def _describe(manifest: Manifest) -> str:
    """Return one line about a tool: its parameters, its description, one example; ``?`` marks what may be left out."""
    example = json.dumps({"name": manifest.name, "arguments": dict(manifest.example)}, ensure_ascii=False)
    properties, required = manifest.parameters.get("properties"), manifest.parameters.get("required")
    needed = required if isinstance(required, list) else []
    names = [key if key in needed else f"{key}?" for key in properties] if isinstance(properties, dict) else []
    return f"- {manifest.name}({', '.join(names)}): {manifest.description}. {example}"


def _at_most(budget_tokens: int, config: Config) -> int:
    return min(budget_tokens, config.context_tokens // _CONTEXT_SHARE)


def _instructions(
    repository: Repository, config: Config, count_tokens: Callable[[str], int]
) -> tuple[str, tuple[str, ...]]:
    """Return the project's instructions, cut to their budget, and a notice about what was read or cut."""
    budget_tokens = _at_most(config.instructions_tokens, config)
    for name in _INSTRUCTION_FILES:
        if not budget_tokens or not os.path.isfile(repository.root / name):
            continue
        try:
            text = printable(read_text(repository.resolve(name)).text).strip()
        except ToolError as error:
            return "", (f"{name} is not read: {error.message}",)
        if not text:
            continue
        fitted = fit(text.splitlines(), count_tokens, budget_tokens, lambda kept: "[cut here]")
        left_out = len(text.splitlines()) - fitted.kept
        notice = (f"{name} is cut to {budget_tokens} tokens: {left_out} lines left out",) if left_out else ()
        return assets.render_prompt("instructions.md", text=fitted.text), notice
    return "", ()
