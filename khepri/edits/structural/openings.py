"""Tells where the first or last characters of a replacement would be read as something else than an expression.

In JavaScript a statement that begins with a brace is a block, an arrow with one behind it has a body of statements, and
a line that begins with a bracket goes on with the line before where no semicolon parts them. In Rust what is less than
something behind a type is taken for the arguments of that type. A grammar takes all of it for code without a fault.
"""

import re
from enum import Enum
from typing import Final

from ast_grep_py import SgNode

_SCRIPTS: Final = frozenset({"javascript", "typescript", "tsx"})
_CONTINUING: Final = {**dict.fromkeys(_SCRIPTS, "([/+-`"), "lua": "("}
"""What goes on with the line before, in languages that need no mark between two statements."""
_STATEMENTS: Final = frozenset({"expression_statement", "function_call_statement", "function_call"})
_CLOSED: Final = frozenset(
    "if_statement for_statement for_in_statement while_statement switch_statement try_statement with_statement "
    "function_declaration generator_function_declaration class_declaration abstract_class_declaration "
    "interface_declaration enum_declaration statement_block labeled_statement comment hash_bang_line".split()
)
"""What may end without a semicolon and is over all the same."""
_DECLARING: Final = re.compile(r"\{|(?:async\s+)?function\b|class\b|let\s*\[")
_NAMED: Final = re.compile(r"(?:async\s+)?function\b|class\b")
_CAST: Final = re.compile(r"\bas\s+[\w:\s]*\w\s*\Z")
_LESS: Final = re.compile(r"\s*<(?!=)")
_BLOCK_LIKE: Final = re.compile(r"\{|(?:if|match|loop|while|for|unsafe)\b")


class Opening(Enum):
    """What a piece of code is the beginning of."""

    NOTHING = "nothing"
    """Of nothing that is read in another way."""
    STATEMENT = "statement"
    """Of a statement."""
    NEXT_STATEMENT = "next statement"
    """Of a statement, and no mark parts it from the one before."""
    ARROW_BODY = "arrow body"
    """Of what an arrow function returns."""
    DEFAULT = "default"
    """Of what a module exports by default."""
    OPERAND = "operand"
    """Of a statement of Rust of which it is not the whole."""


def opening_of(node: SgNode, language: str) -> Opening:
    """Return what a node is the beginning of."""
    if language not in _CONTINUING and language != "rust":
        return Opening.NOTHING
    start, end = node.range().start.index, node.range().end.index
    while (parent := node.parent()) is not None:
        if language == "rust" and (parent.kind() == "block" or node.kind() == "expression_statement"):
            is_whole = end >= node.range().end.index - node.text().endswith(";")
            return Opening.NOTHING if is_whole or node.kind() == "let_declaration" else Opening.OPERAND
        if language != "rust" and node.kind() in _STATEMENTS and parent.kind() not in ("arguments", "call_expression"):
            if language != "lua" or parent.kind() in ("chunk", "block"):
                return Opening.NEXT_STATEMENT if _is_open(node, language) else Opening.STATEMENT
        if parent.kind() == "arrow_function":
            body = parent.field("body")
            return Opening.ARROW_BODY if body is not None and body.range().start.index == start else Opening.NOTHING
        if parent.kind() == "export_statement":
            return Opening.DEFAULT
        if parent.range().start.index != start:
            return Opening.NOTHING
        node = parent
    return Opening.NOTHING


def is_misread(opening: Opening, language: str, written: str) -> bool:
    """Return True if code would be read as something else at the beginning of something.

    Args:
        opening: What it begins.
        language: A grammar of ast-grep's.
        written: The code, with the brackets around it.
    """
    match opening:
        case Opening.NEXT_STATEMENT if written[:1] in _CONTINUING[language]:
            return True
        case Opening.STATEMENT | Opening.NEXT_STATEMENT:
            return language in _SCRIPTS and _DECLARING.match(written) is not None
        case Opening.ARROW_BODY:
            return written.startswith("{")
        case Opening.DEFAULT:
            return _NAMED.match(written) is not None
        case Opening.OPERAND:
            return _BLOCK_LIKE.match(written) is not None
    return False


def is_taken_for_generic(language: str, written: str, behind: str) -> bool:
    """Return True if Rust would take what stands behind a cast for the arguments of its type: ``x as u8 < 3``.

    Args:
        language: A grammar of ast-grep's.
        written: Some code, with the brackets around it.
        behind: What follows.
    """
    return language == "rust" and _LESS.match(behind) is not None and _CAST.search(written) is not None


def _is_open(statement: SgNode, language: str) -> bool:
    """Return True if a statement follows one that ends without a mark."""
    before = statement.prev()
    while before is not None and before.kind() == "comment":
        before = before.prev()
    if before is None or not before.is_named() or before.kind() in ("else", "parenthesized_expression"):
        return False
    return before.kind() not in _CLOSED and not before.text().endswith(";")
