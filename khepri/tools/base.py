"""What a tool is: a manifest that the model reads, and a function from arguments to an observation.

Tools know repositories through ``ToolContext`` and count tokens with the function they are handed; they know no model.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from khepri.edits.workspace import Workspace
    from khepri.repo.root import Repository

JsonValue = str | int | float | bool | None | list["JsonValue"] | dict[str, "JsonValue"]
Arguments = Mapping[str, JsonValue]


@dataclass(frozen=True)
class Manifest:
    """One file of ``tools/``: everything the model and the permission rules know about a tool."""

    name: str
    """The name the model calls, equal to the file's stem."""
    description: str
    """One line for the model."""
    parameters: Mapping[str, JsonValue]
    """JSON Schema of the arguments (an object; ``"format": "path"`` marks a parameter that names an existing path)."""
    permission: str
    """What it needs: ``read`` (files), ``git`` (history), ``edit`` (proposes a change) or ``command`` (runs a program
    of the user's)."""
    example: Mapping[str, JsonValue]
    """Arguments of one call, as an example for the model."""
    when: tuple[str, ...] = ()
    """Beginnings of words of which a task has to hold one for a changing tool to be offered; empty offers it always."""
    unless: tuple[str, ...] = ()
    """Beginnings of words that say that a task asks for more than the tool does; one of them keeps it back."""
    kinds: tuple[str, ...] = ()
    """What a symbol that the tool is given has to be: ``function``, …; empty takes every kind."""


@dataclass(frozen=True)
class Observation:
    """What the model gets to see of a tool's result."""

    text: str
    """The result, cut to the budget; ends with a line that says what was left out, if anything was."""
    tokens: int
    """Tokens of ``text``."""
    summary: str
    """A few words for the progress line, such as ``3 matches in 2 files``."""
    paths: tuple[str, ...] = ()
    """Paths (POSIX, from the root) whose content is in ``text``."""
    is_error: bool = False
    """True if the tool refused; ``text`` says why and what to do instead."""


@dataclass
class ToolContext:
    """What a tool may use. Belongs to one session and one thread."""

    repository: "Repository"
    """The repository; every path goes through it."""
    count_tokens: Callable[[str], int]
    """Exact token count of a text by the loaded model."""
    budget_tokens: int
    """Most tokens of one observation."""
    seen: set[str] = field(default_factory=set)
    """Keys of what the model has been shown already, so that observations need not repeat it."""
    workspace: "Workspace | None" = None
    """Where tools that change something propose it; None in a session that only reads."""


class Tool(Protocol):
    """A tool the model may call."""

    @property
    def manifest(self) -> Manifest:
        """The manifest this tool was loaded with."""

    def run(self, context: ToolContext, arguments: Arguments) -> Observation:
        """Do the work and return what the model may see.

        Raises:
            ToolError: The arguments or the target are refused; the registry turns it into an error observation.
        """
