"""Whether a text is sound in its language: Python's own compiler for Python, tree-sitter for every language it has."""

import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final, cast

from khepri.repo.grammars import grammar_of

if TYPE_CHECKING:
    from tree_sitter import Node
    from tree_sitter_language_pack import SupportedLanguage

_DATA_LANGUAGES: Final = {
    ".json": "json",
    ".toml": "toml",
    ".yaml": "yaml",
    ".yml": "yaml",
    ".html": "html",
    ".css": "css",
    ".sql": "sql",
}
"""Languages without definitions, which ``khepri.repo.grammars`` has no use for."""
_WITHOUT_ERRORS: Final = frozenset({"markdown"})
_MOST_VISITED: Final = 100_000


@dataclass(frozen=True)
class SyntaxFault:
    """Something that the language does not allow."""

    line: int
    """From 1."""
    message: str


def first_fault(path: str, text: str) -> SyntaxFault | None:
    """Return the first syntax error of a text, or None if it is sound or in no known language."""
    language = _language(path, text)
    if language is None or language in _WITHOUT_ERRORS:
        return None
    if language == "python":
        return _python_fault(text)
    from tree_sitter_language_pack import get_parser

    root = get_parser(cast("SupportedLanguage", language)).parse(text.encode("utf-8", "replace")).root_node
    return _first_error(root) if root.has_error else None


def _language(path: str, text: str) -> str | None:
    grammar = grammar_of(path, text)
    if grammar is not None:
        return grammar.name
    dot = path.rfind(".")
    return _DATA_LANGUAGES.get(path[dot:].lower()) if dot >= 0 else None


def _python_fault(text: str) -> SyntaxFault | None:
    try:
        with warnings.catch_warnings():
            # Python warns of doubtful escapes and comparisons in the code that it compiles.
            warnings.simplefilter("ignore")
            # The parser alone takes a `break` outside a loop, an `await` outside an async function and their like.
            compile(text, "<text>", "exec", dont_inherit=True)
    except SyntaxError as error:
        return SyntaxFault(error.lineno or 1, error.msg)
    except (ValueError, RecursionError, MemoryError) as error:
        return SyntaxFault(1, str(error) or type(error).__name__)
    return None


def _first_error(root: "Node") -> SyntaxFault:
    queue = [root]
    first: Node | None = None
    for _ in range(_MOST_VISITED):
        if not queue:
            break
        node = queue.pop()
        if (node.is_error or node.is_missing) and (first is None or node.start_byte < first.start_byte):
            first = node
        queue.extend(child for child in node.children if child.has_error or child.is_missing)
    if first is None:
        return SyntaxFault(1, "syntax error")
    what = f"{first.type} is missing" if first.is_missing else "syntax error"
    return SyntaxFault(first.start_point.row + 1, what)
