"""Runs the command tools that the user keeps in the configuration folder; a repository can add none.

A command is a list of words; ``{parameter}`` in a word is replaced by an argument of the model's. There is no shell,
so an argument stays one word whatever it holds.
"""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from khepri.errors import ConfigError, ToolError
from khepri.repo.process import run_bounded
from khepri.repo.text import cut_line, printable
from khepri.tools.base import Arguments, JsonValue, Manifest, Observation, ToolContext
from khepri.tools.fit import fit

_TIMEOUT_S: Final = 30.0
_MOST_BYTES: Final = 1_000_000
_PLACE: Final = re.compile(r"\{([A-Za-z_][A-Za-z0-9_]*)\}")


@dataclass(frozen=True)
class CommandTool:
    """A program of the user's with places for arguments."""

    manifest: Manifest
    """What the model reads."""
    command: tuple[str, ...]
    """The program and its words; ``{parameter}`` marks a place."""
    timeout_s: float = _TIMEOUT_S
    """The program and its children are killed after this time."""

    @classmethod
    def checked(cls, path: Path, manifest: Manifest, command: tuple[str, ...]) -> "CommandTool":
        """Return the tool of a manifest.

        Raises:
            ConfigError: The command has a place without a parameter, or lets the model choose the program.
        """
        if not command or _PLACE.search(command[0]):
            raise ConfigError(f"{path}: the program itself must be fixed", 'write command = ["program", "{parameter}"]')
        properties = manifest.parameters.get("properties")
        known = properties.keys() if isinstance(properties, dict) else set()
        for word in command:
            for place in _PLACE.findall(word):
                if place not in known:
                    raise ConfigError(f"{path}: {{{place}}} is no parameter", "add it to [parameters.properties]")
        return cls(manifest=manifest, command=command)

    def run(self, context: ToolContext, arguments: Arguments) -> Observation:
        """Run the program in the root of the repository and show its output.

        Raises:
            ToolError: An argument could be taken for an option or is no path of the repository, or the program is
                missing or took too long.
        """
        words = [filled for word in self.command if (filled := self._fill(context, word, arguments)) is not None]
        try:
            done = run_bounded(
                words,
                cwd=context.repository.root,
                timeout_s=self.timeout_s,
                most_bytes=_MOST_BYTES,
                merge_errors=True,
            )
        except (OSError, ValueError) as error:
            raise ToolError(f"{words[0]} cannot be run: {error}", "go on without it") from error
        if done.timed_out:
            raise ToolError(f"{words[0]} took longer than {self.timeout_s:g} s", "go on without it")
        text = done.output.decode("utf-8", errors="replace")
        lines = [cut_line(line) for line in printable(text.replace("\r\n", "\n")).rstrip("\n").split("\n")]
        rest = f", and {done.dropped_bytes} more bytes" if done.dropped_bytes else ""
        fitted = fit(
            lines,
            context.count_tokens,
            context.budget_tokens,
            lambda kept: f"[cut: {len(lines) - kept} more lines{rest}]",
            header=f"exit status {done.status}" if text.strip() else f"exit status {done.status}, no output",
        )
        return Observation(text=fitted.text, tokens=fitted.tokens, summary=f"exit status {done.status}")

    def _fill(self, context: ToolContext, word: str, arguments: Arguments) -> str | None:
        """Return the word with its places filled, or None if an argument that it needs was not given."""
        places = _PLACE.findall(word)
        if any(place not in arguments for place in places):
            return None
        filled = _PLACE.sub(lambda match: self._value(context, match[1], arguments[match[1]]), word)
        if places and filled.startswith("-") and not word.startswith("-"):
            raise ToolError(f"{filled[:40]} could be taken for an option", "begin it with another character")
        if "\0" in filled:
            raise ToolError("an argument cannot hold a NUL byte", "leave it out")
        return filled

    def _value(self, context: ToolContext, name: str, value: JsonValue) -> str:
        properties = self.manifest.parameters.get("properties")
        schema = properties.get(name) if isinstance(properties, dict) else None
        if isinstance(schema, dict) and schema.get("format") in ("path", "file"):
            return context.repository.relative(context.repository.resolve(str(value)))
        if isinstance(value, bool):
            return "true" if value else "false"
        return " ".join(str(item) for item in value) if isinstance(value, list) else str(value)
