"""Pairs manifests with the code behind them, and runs the calls of a model.

The convention: ``tools/<name>.toml`` describes a tool and ``khepri/tools/<name>.py`` defines
``run(context: ToolContext, arguments: Arguments) -> Observation``, which gets checked arguments, raises ``ToolError``
to refuse and may rely on the registry to cut what exceeds the budget (a tool that can say better what was left out
does so itself, with ``khepri.tools.fit.fit``). The user's own folder adds command tools, see ``khepri.tools.user``;
a repository adds none.

A manifest holds ``name`` (the file's stem), ``description``, ``permission`` (``read``, ``git``, ``edit`` or
``command``), ``[parameters]`` (JSON Schema of an object), ``[example]``, for a command tool ``command``, and for a tool
that changes something ``when`` and ``unless`` (beginnings of words that a task for it has, and has not) and ``kinds``
(what its symbols are).
"""

import difflib
import importlib
import json
import tomllib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, cast

from khepri import assets, paths
from khepri.errors import ConfigError, KhepriError, RefusedError, ToolError
from khepri.repo.text import printable
from khepri.tools.arguments import check_arguments
from khepri.tools.base import Arguments, JsonValue, Manifest, Observation, Tool, ToolContext
from khepri.tools.fit import fit
from khepri.tools.user import CommandTool

_DEFAULT_PERMISSIONS: Final[Mapping[str, str]] = {"read": "allow", "git": "allow", "edit": "deny", "command": "deny"}
_KEYS: Final = frozenset(
    {"name", "description", "permission", "parameters", "example", "command", "when", "unless", "kinds"}
)


@dataclass(frozen=True)
class ModuleTool:
    """A tool that ships with Khepri: a manifest and the ``run`` function of its module."""

    manifest: Manifest
    """What the model reads."""
    function: Callable[[ToolContext, Arguments], Observation]
    """The module's ``run``."""

    def run(self, context: ToolContext, arguments: Arguments) -> Observation:
        """Do the work; see ``Tool.run``."""
        return self.function(context, arguments)


class Registry:
    """The tools of a session and what the user permits. Belongs to the session's thread."""

    def __init__(self, tools: Iterable[Tool], permissions: Mapping[str, str] | None = None) -> None:
        """Take the tools.

        Args:
            tools: Tools with distinct names.
            permissions: ``allow`` or ``deny`` for each kind of permission, and for single tools by their name, which
                wins. By default reading and git are allowed, edits and commands denied.
        """
        self._permissions = {**_DEFAULT_PERMISSIONS, **(permissions or {})}
        self._tools = {tool.manifest.name: tool for tool in sorted(tools, key=lambda tool: tool.manifest.name)}

    @classmethod
    def load(cls, permissions: Mapping[str, str] | None = None, user_dir: Path | None = None) -> "Registry":
        """Load the tools that ship with Khepri and those in the user's own folder.

        Args:
            permissions: See the constructor.
            user_dir: The user's folder of tools; by default ``paths.user_tools_dir()``.

        Raises:
            ConfigError: A manifest of the user's is not sound, or takes the name of another tool.
            KhepriError: The installation is damaged.
        """
        shipped = [_shipped(path) for path in sorted(assets.tools_dir().glob("*.toml"))]
        names = {tool.manifest.name for tool in shipped}
        own: list[Tool] = []
        for path in sorted((user_dir or paths.user_tools_dir()).glob("*.toml")):
            tool = _user(path)
            if tool.manifest.name in names:
                raise ConfigError(f"{path} takes the name of a tool that Khepri has", "rename the file and its tool")
            own.append(tool)
        return cls([*shipped, *own], permissions)

    @property
    def manifests(self) -> tuple[Manifest, ...]:
        """The manifests of all tools that are permitted, by name: what the model should be told of."""
        return tuple(tool.manifest for tool in self._tools.values() if self._is_permitted(tool.manifest))

    @property
    def permitted(self) -> tuple[Tool, ...]:
        """The permitted tools themselves, by name."""
        return tuple(tool for tool in self._tools.values() if self._is_permitted(tool.manifest))

    def run(self, context: ToolContext, name: str, arguments: Arguments) -> Observation:
        """Run one call of the model.

        Every refusal becomes an observation, so that the model can do something else. The text is free of control
        characters and within ``context.budget_tokens``.
        """
        try:
            tool = self._find(name)
            observation = tool.run(context, check_arguments(tool.manifest, arguments))
        except (ToolError, RefusedError) as error:
            hint = f"; {error.hint}" if error.hint else ""
            observation = Observation(
                text=f"error: {error.message}{hint}", tokens=0, summary=printable(error.message), is_error=True
            )
        text = printable(observation.text)
        # The beginning of a refusal says more than how much of it is missing.
        lines, header = ([], text) if observation.is_error else (text.split("\n"), "")
        fitted = fit(lines, context.count_tokens, context.budget_tokens, header=header)
        return Observation(
            text=fitted.text,
            tokens=fitted.tokens,
            summary=observation.summary,
            paths=observation.paths,
            is_error=observation.is_error,
        )

    def _find(self, name: str) -> Tool:
        tool = self._tools.get(name.strip())
        known = [manifest.name for manifest in self.manifests]
        if tool is None:
            near = difflib.get_close_matches(name.strip().lower(), known, n=1, cutoff=0.5)
            asked = f"did you mean {near[0]}? " if near else ""
            raise ToolError(f"there is no tool {name[:40]}", f"{asked}the tools are {', '.join(known)}")
        if not self._is_permitted(tool.manifest):
            raise ToolError(f"the user does not permit {name}", f"the tools are {', '.join(known)}")
        return tool

    def _is_permitted(self, manifest: Manifest) -> bool:
        verdict = self._permissions.get(manifest.name, self._permissions.get(manifest.permission, "deny"))
        return verdict == "allow"


def read_manifest(path: Path) -> tuple[Manifest, tuple[str, ...]]:
    """Read a manifest.

    Returns:
        The manifest, and the command of a command tool (empty for others).

    Raises:
        ConfigError: The file cannot be read, is not TOML, or is not a sound manifest.
    """
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise ConfigError(f"{path} cannot be read: {error}", "correct or remove it") from error
    unknown = sorted(table.keys() - _KEYS)
    if unknown:
        raise ConfigError(f"{path} holds an unknown key {unknown[0]}", f"the keys are {', '.join(sorted(_KEYS))}")
    name, description = _text(path, table, "name"), _text(path, table, "description")
    permission = _text(path, table, "permission")
    if name != path.stem:
        raise ConfigError(f"{path} names its tool {name}", f"name it {path.stem}, as the file")
    if "\n" in description:
        raise ConfigError(f"{path} has a description of more than one line", "the model pays for every word")
    if permission not in _DEFAULT_PERMISSIONS:
        raise ConfigError(f"{path} asks for an unknown permission {permission}", "use read, git, edit or command")
    parameters, example = _table(path, table, "parameters"), _table(path, table, "example")
    command = table.get("command", [])
    if not isinstance(command, list) or not all(isinstance(word, str) for word in command):
        raise ConfigError(f"{path}: command must be a list of texts", 'write command = ["program", "{parameter}"]')
    manifest = Manifest(
        name=name,
        description=description,
        parameters=parameters,
        permission=permission,
        example=example,
        when=_texts(path, table, "when"),
        unless=_texts(path, table, "unless"),
        kinds=_texts(path, table, "kinds"),
    )
    _check_example(path, manifest)
    return manifest, tuple(command)


def _texts(path: Path, table: Mapping[str, object], key: str) -> tuple[str, ...]:
    found = table.get(key, [])
    if not isinstance(found, list) or not all(isinstance(word, str) for word in found):
        raise ConfigError(f"{path}: {key} must be a list of texts", f'write {key} = ["renam"]')
    return tuple(found)


def _shipped(path: Path) -> Tool:
    manifest, _ = read_manifest(path)
    try:
        module = importlib.import_module(f"khepri.tools.{path.stem}")
        function = module.run
    except (ImportError, AttributeError) as error:
        raise KhepriError(f"the tool {path.stem} has no code: {error}", "reinstall khepri") from error
    return ModuleTool(manifest=manifest, function=cast("Callable[[ToolContext, Arguments], Observation]", function))


def _user(path: Path) -> Tool:
    manifest, command = read_manifest(path)
    if not command:
        raise ConfigError(f"{path} has no command", 'write command = ["program", "{parameter}"]')
    if manifest.permission != "command":
        raise ConfigError(f"{path} runs a program but asks for {manifest.permission}", 'write permission = "command"')
    return CommandTool.checked(path, manifest, command)


def _text(path: Path, table: Mapping[str, object], key: str) -> str:
    value = table.get(key)
    if not isinstance(value, str) or not value.strip():
        raise ConfigError(f"{path} has no {key}", f'write {key} = "…"')
    return value


def _table(path: Path, table: Mapping[str, object], key: str) -> dict[str, JsonValue]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise ConfigError(f"{path}: {key} must be a table", f"write [{key}]")
    try:
        return cast("dict[str, JsonValue]", json.loads(json.dumps(value)))
    except (TypeError, ValueError) as error:
        raise ConfigError(f"{path}: {key} holds a value that JSON has not: {error}", "use texts and numbers") from error


def _check_example(path: Path, manifest: Manifest) -> None:
    try:
        check_arguments(manifest, manifest.example)
    except ToolError as error:
        raise ConfigError(f"{path}: the example does not match the parameters: {error.message}", error.hint) from error
