"""Takes a shell line apart into the simple commands that it can run, with tree-sitter's grammar of bash.

Every command counts, wherever it stands: behind ``&&`` and pipes, in substitutions, loops, functions and here
documents. What a command makes of its words, such as ``env`` or ``sh -c``, is not known here.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from khepri.agent.shell_tree import is_quoted_document, joined, parsed
from khepri.repo.nodes import nodes_of, outwards, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES: Final = re.compile(r"\\([\"\\$`\n])")
_EXPANDED: Final = re.compile(r"(?<!\\)[*?\[{]|^~")
_ONE_WORD: Final = re.compile(r'(?:\w+=)?"(?:[^"\\]|\\.)*"', re.DOTALL)
_REDIRECTIONS: Final = frozenset({"file_redirect", "herestring_redirect", "heredoc_redirect"})
_BUILTINS: Final = frozenset({"declaration_command", "unset_command", "test_command"})
"""Commands that the grammar gives nodes of their own."""
_SUBSTITUTION: Final = re.compile(rb"`|\$\(|[<>]\(")
"""Marks behind which a command may stand."""
_WORD_ENDS: Final = frozenset({b" ", b"\t", b"\n", b";", b"&", b"|", b"(", b")", b"`"})
_REPLACED: Final = frozenset({"string", "translated_string", "heredoc_body"})
_FOR_BASH: Final = frozenset("ansi_c_string extglob_pattern (( [[ $[ <( >( <<< &> &>> |& ;& ;;&".split())
_OPENING: Final = frozenset({"`", "$(", "$((", "<(", ">("})
_RAW: Final = frozenset({"raw_string", "ansi_c_string", "comment"})
_QUOTED: Final = frozenset({"string_content", "heredoc_content", "heredoc_body"})
_PLAIN: Final = frozenset({"word", "number", "variable_name"})
_SAYING: Final = frozenset({"echo", "printf"})
"""Commands that write what their words are."""


@dataclass(frozen=True)
class Word:
    """One word of a command."""

    text: str
    """Without its quotes; as it was written where it is not literal."""
    is_literal: bool
    """False if the shell makes something of it that is only known when it runs: a variable, a pattern, an output."""

    @property
    def may_be_several(self) -> bool:
        """True if the shell may make more words of it, or none; a variable in quotes is always one."""
        return not self.is_literal and (_ONE_WORD.fullmatch(self.text) is None or "@" in self.text)


@dataclass(frozen=True)
class Assignment:
    """A variable that is set."""

    name: str
    value: Word


@dataclass(frozen=True)
class SimpleCommand:
    """One command of a line, as the shell would start it."""

    words: tuple[Word, ...]
    """Its name first; none for a loop, which sets its variable for what is in it."""
    assigned: tuple[Assignment, ...]
    """The variables that are set for it."""
    given: Word | None = None
    """What the line gives it on its standard input, as far as it is seen; None if nothing is given."""


@dataclass(frozen=True)
class ShellLine:
    """A line taken apart."""

    commands: tuple[SimpleCommand, ...]
    """Outer ones first."""
    written: tuple[Word, ...]
    """The files into which it redirects something."""
    is_for_bash: bool
    """True if a shell that knows nothing but what POSIX says takes it apart in another way."""


def parse_line(line: str) -> ShellLine | None:
    """Take a shell line apart; None if it is no valid line.

    Variables that are set for no command of their own are noted with the command ``export``, which does the same.
    """
    whole = joined(line.encode("utf-8", "replace"))
    if whole is None:
        return None
    code, root = _parsed(whole)
    if root.has_error or any(_lost(code, root)):
        return None
    if any(_swallows_words(node) or _begins_within_word(code, node) or _has_quote(node) for node in nodes_of(root)):
        return None
    if not all(_is_read(code, mark.start(), root) for mark in _SUBSTITUTION.finditer(code)):
        return None
    return ShellLine(tuple(_commands(root)), tuple(_written(root)), any(map(_is_for_bash, nodes_of(root))))


def _parsed(code: bytes) -> tuple[bytes, "Node"]:
    """Return a line and its nodes; a ``-`` that the grammar loses is written in another way first."""
    root = parsed(code)
    for place in reversed([place for place in _lost(code, root) if code[place : place + 1] == b"-"]):
        code = code[:place] + b"\\" + code[place:]
    return code, parsed(code)


def _begins_within_word(code: bytes, node: "Node") -> bool:
    """Return True for a comment that is none to a shell, whose words end in fewer places than the grammar's."""
    if node.type != "comment":
        return False
    before = code[: node.start_byte]
    return bool(before) and (before[-1:] not in _WORD_ENDS or before[-2:-1] == b"\\")


def _has_quote(node: "Node") -> bool:
    """Return True for a ``'`` in a replacement in quotes, which is a quote to bash unless it is told to be like sh."""
    return node.type == "expansion" and "'" in text_of(node) and any(each.type in _REPLACED for each in outwards(node))


def _is_for_bash(node: "Node") -> bool:
    """Return True for what has a meaning of its own in bash."""
    return node.type in _FOR_BASH or (node.type == "expansion" and any(mark in text_of(node) for mark in "'\"\\"))


def _lost(code: bytes, root: "Node") -> Iterator[int]:
    """Yield where something stands that is in no node, as the ``-`` of ``cat - <<E`` is."""
    end = 0
    for node in nodes_of(root):
        if not node.children:
            start = max(end, node.start_byte)
            gap = code[end:start]
            if gap.strip():
                yield start - len(gap.lstrip())
            end = max(end, node.end_byte)
    if code[end:].strip():
        yield len(code) - len(code[end:].lstrip())


def _swallows_words(node: "Node") -> bool:
    """Return True for a redirection to which the grammar gives words that are the command's."""
    return node.type == "file_redirect" and len(node.children_by_field_name("destination")) > 1


def _is_read(code: bytes, place: int, root: "Node") -> bool:
    """Return True if a mark that may begin a command is one to the grammar as well, or is none to the shell either.

    The grammar takes some for text: a backtick in ``${a:=…}``, in a here document, or behind a backslash in another.
    """
    node = root.descendant_for_byte_range(place, place)
    if node is None:
        return False
    if node.type in _OPENING:
        return True
    around = list(outwards(node))
    types = [each.type for each in around]
    is_document = "heredoc_body" in types
    if is_document and "expansion" not in types and any(is_quoted_document(each) for each in around):
        return True
    if "expansion" not in types and not is_document and _RAW & set(types[:1]):
        return True
    if code[place : place + 1] in b"<>":
        return types[0] in _QUOTED
    backslashes = place - len(code[:place].rstrip(b"\\"))
    is_nested = any(each.type == "command_substitution" and text_of(each).startswith("`") for each in around)
    return backslashes % 2 == 1 and not is_nested


def _written(root: "Node") -> Iterator[Word]:
    for node in nodes_of(root):
        if node.type == "file_redirect" and any(">" in child.type for child in node.children):
            target = node.child_by_field_name("destination")
            if target is not None and target.type != "number":
                yield _word(target)


def _commands(root: "Node") -> Iterator[SimpleCommand]:
    for node in nodes_of(root):
        if node.type == "command":
            words = _words(node)
            if words:
                yield SimpleCommand(words, _assigned(node), _given(node))
        elif node.type in _BUILTINS:
            name = node.children[0]
            rest = (_word(child) for child in node.children[1:])
            yield SimpleCommand((Word(text_of(name), True), *rest), _assigned(node))
        elif node.type == "for_statement" and (variable := node.child_by_field_name("variable")) is not None:
            yield SimpleCommand((), (Assignment(text_of(variable), Word(text_of(node), False)),))
        elif node.type == "variable_assignment" and node.parent and node.parent.type not in {"command", *_BUILTINS}:
            yield SimpleCommand((Word("export", True),), (_variable(node),))


def _given(command: "Node") -> Word | None:
    """Return what redirections and pipes give to a command, or to something around it."""
    found = [_redirected(child) for child in command.children]
    inner = command
    for outer in outwards(command.parent):
        if outer.type == "redirected_statement" and inner == outer.children[0]:
            found += [_redirected(child) for child in outer.children]
        elif outer.type == "heredoc_redirect" and inner.type != "heredoc_body":
            # The grammar puts what follows the mark of a here document, a pipe for one, into it.
            found.append(_redirected(outer))
        elif outer.type == "pipeline":
            before = outer.children[: outer.children.index(inner)]
            found += [_piped(stage) for stage in before if stage.is_named][-1:]
        inner = outer
    seen = [word for word in found if word is not None]
    return Word("\n".join(word.text for word in seen), all(word.is_literal for word in seen)) if seen else None


def _redirected(node: "Node") -> Word | None:
    """Return what a redirection gives to a command; None for another one, or for no redirection."""
    if node.type == "herestring_redirect":
        return _word(node.children[-1])
    if node.type == "heredoc_redirect":
        body = next((child for child in node.children if child.type == "heredoc_body"), None)
        if body is None:
            return Word("", True)
        is_literal = is_quoted_document(node) or all(child.type == "heredoc_content" for child in body.named_children)
        return Word(text_of(body), is_literal)
    if node.type == "file_redirect" and any(child.type.startswith("<") for child in node.children):
        return Word("", False)
    return None


def _piped(stage: "Node") -> Word:
    """Return what a stage of a pipeline writes, where its words say so."""
    words = _words(stage) if stage.type == "command" else ()
    if words and words[0].text in _SAYING:
        return Word(" ".join(word.text for word in words[1:]), all(word.is_literal for word in words))
    return Word("", False)


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
    name = re.split(r"[+=\[]", text_of(assignment), maxsplit=1)[0]
    return Assignment(name, Word("", True) if value is None else _word(value))


def _word(node: "Node") -> Word:
    text = text_of(node)
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
