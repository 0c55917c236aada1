"""Takes a shell line apart into the simple commands that it can run, with tree-sitter's grammar of bash.

Every command counts, wherever it stands: behind ``&&`` and pipes, in substitutions, loops, functions and here
documents. What a command makes of its words, such as ``env`` or ``sh -c``, is not known here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\([\"\\$`\n])")
_EXPANDED: Final = re.compile(r"(?<!\\)[*?\[{]|^~")
_REDIRECTIONS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_BUILTINS: Final = frozenset({"declaration_command", "unset_command", "test_command"})
"""Commands that the grammar gives nodes of their own."""
_PLAIN: Final = frozenset({"word", "number", "variable_name"})


@dataclass(frozen=True)
class Word:
    """One word of a command."""

    text: str
    """Without its quotes; as it was written where it is not literal."""
    is_literal: bool
    """False if the shell makes something of it that is only known when it runs: a variable, a pattern, an output."""


@dataclass(frozen=True)
class Assignment:
    """A variable that is set."""

    name: str
    value: Word


@dataclass(frozen=True)
class SimpleCommand:
    """One command of a line, as the shell would start it."""

    words: tuple[Word, ...]
    """Its name first; never empty."""
    assigned: tuple[Assignment, ...]
    """The variables that are set for it."""


@dataclass(frozen=True)
class ShellLine:
    """A line taken apart."""

    commands: tuple[SimpleCommand, ...]
    """Outer ones first."""
    written: tuple[Word, ...]
    """The files into which it redirects something."""


def parse_line(line: str) -> ShellLine | None:
    """Take a shell line apart; None if it is no valid line.

    Variables that are set for no command of their own are noted with the command ``export``, which does the same.
    """
    from tree_sitter_language_pack import get_parser

    # A backslash joins two lines before anything else is looked at.
    root = get_parser("bash").parse(line.replace("\\\n", "").encode("utf-8", "replace")).root_node
    if root.has_error or any(_swallows_words(node) for node in _nodes(root)):
        return None
    return ShellLine(tuple(_commands(root)), tuple(_written(root)))


def _nodes(root: "Node") -> Iterator["Node"]:
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        yield node


def _swallows_words(node: "Node") -> bool:
    """Return True for a redirection to which the grammar gives words that are the command's."""
    return node.type == "file_redirect" and len(node.children_by_field_name("destination")) > 1


def _written(root: "Node") -> Iterator[Word]:
    for node in _nodes(root):
        if node.type == "file_redirect" and any(">" in child.type for child in node.children):
            target = node.child_by_field_name("destination")
            if target is not None and target.type != "number":
                yield _word(target)


def _commands(root: "Node") -> Iterator[SimpleCommand]:
    for node in _nodes(root):
        if node.type == "command":
            words = _words(node)
            if words:
                yield SimpleCommand(words, _assigned(node))
        elif node.type in _BUILTINS:
            name = node.children[0]
            rest = (_word(child) for child in node.children[1:])
            yield SimpleCommand((Word(_text(name), True), *rest), _assigned(node))
        elif node.type == "variable_assignment" and node.parent and node.parent.type not in {"command", *_BUILTINS}:
            yield SimpleCommand((Word("export", True),), (_variable(node),))


def _words(command: "Node") -> tuple[Word, ...]:
    words = []
    for child in command.children:
        if child.type == "command_name":
            if child.children and child.children[0].type == "arithmetic_expansion":
                return ()
            words.append(_word(child.children[0] if child.children else child))
        elif child.type != "variable_assignment" and child.type not in _REDIRECTIONS:
            words.append(_word(child))
    return tuple(words)


def _assigned(command: "Node") -> tuple[Assignment, ...]:
    return tuple(_variable(child) for child in command.children if child.type == "variable_assignment")


def _variable(assignment: "Node") -> Assignment:
    value = assignment.child_by_field_name("value")
    name = re.split(r"[+=\[]", _text(assignment), maxsplit=1)[0]
    return Assignment(name, Word("", True) if value is None else _word(value))


def _word(node: "Node") -> Word:
    text = _text(node)
    if node.type in _PLAIN:
        return Word(text, False) if _EXPANDED.search(text) else Word(_ESCAPED.sub(r"\1", text), True)
    if node.type == "raw_string":
        return Word(text[1:-1], True)
    if node.type == "string":
        is_literal = all(child.type == "string_content" for child in node.named_children)
        return Word(_ESCAPED_IN_QUOTES.sub(r"\1", text[1:-1]) if is_literal else text, is_literal)
    if node.type == "concatenation":
        parts = [_word(child) for child in node.children]
        is_literal = all(part.is_literal for part in parts)
        return Word("".join(part.text for part in parts) if is_literal else text, is_literal)
    return Word(text, not node.named_children and node.child_count == 0 and not re.search(r"[$`*?\[{'\"]", text))


def _text(node: "Node") -> str:
    return (node.text or b"").decode("utf-8", "replace")
