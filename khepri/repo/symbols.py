"""The definitions in a file, found by tree-sitter, and the identifiers that it uses.

It works on text and knows neither repositories nor ranks. Every language of ``grammars`` goes one way: run the
language's query, sort the captures by position, and read nesting off their ranges, so that no depth of nesting can
exhaust Python's stack.
"""

import re
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from khepri.repo.grammars import Grammar, grammar_of

if TYPE_CHECKING:
    from tree_sitter import Node, Query, Tree

_IDENTIFIER = re.compile(r"[^\W\d]\w{2,63}")
_UPPER = re.compile(r"[A-Z][A-Z0-9_]+")
_MAX_SIGNATURE_CHARS = 160
_MAX_SYMBOLS = 5_000
_MAX_NAME_CHARS = 200
_MAX_PARSE_S = 2.0
"""Processor time for one file, far above what sound source of 2 MB takes: only hostile input is cut off, and nothing
where the machine has no time for us."""
_MAX_ERROR_CHILDREN = 10_000
_SMALL_BYTES = 65_536
"""No source of this size can take long, so its parse is not watched."""


@dataclass(frozen=True)
class Symbol:
    """One definition in a file."""

    name: str
    """The bare name."""
    qualified_name: str
    """The name with what it is nested in, such as ``Class.method``."""
    kind: str
    """``class``, ``function``, ``method``, ``constant``, ``heading``, …"""
    start_line: int
    """First line, from 1, decorators included."""
    end_line: int
    """Last line, inclusive."""
    signature: str
    """The line of the definition itself (after decorators), trimmed."""


@dataclass(frozen=True)
class _Capture:
    kind: str
    name: str
    start_byte: int
    end_byte: int
    start_line: int
    end_line: int
    signature: str
    node: "Node"


def outline(path: str, text: str) -> tuple[Symbol, ...]:
    r"""Return the definitions in ``text``, in the order of their first lines.

    A file with syntax errors gives what is sound in it; a file in no known language, or too tangled to parse within
    two seconds, gives nothing. Safe from any thread.

    Args:
        path: POSIX path, for the language.
        text: The file's text; lines end at ``\n``.
    """
    return tuple(symbol for symbol, _ in definitions(path, text))


def definitions(path: str, text: str) -> Iterator[tuple[Symbol, "Node"]]:
    """Yield what ``outline`` returns, each with the node that its grammar's query captures.

    Args:
        path: As for ``outline``.
        text: As for ``outline``; a node's bytes are those of its UTF-8.
    """
    grammar = grammar_of(path, text)
    tree = parse(path, text)
    if grammar is None or tree is None:
        return
    source = text.encode("utf-8", "replace")
    around: list[tuple[_Capture, str]] = []
    for capture in _captures(grammar, tree, source):
        while around and around[-1][0].end_byte < capture.end_byte:
            around.pop()
        is_heading = capture.kind == "heading"
        qualified = f"{around[-1][1]}.{capture.name}" if around and not is_heading else capture.name
        kind = capture.kind
        if kind == "function" and ((around and _holds_methods(around[-1][0].kind)) or "." in capture.name):
            kind = "method"
        around.append((capture, qualified[-_MAX_NAME_CHARS:]))
        if kind not in ("scope", "package"):
            name = capture.name if is_heading else capture.name.rpartition(".")[2]
            symbol = Symbol(
                name[:_MAX_NAME_CHARS],
                qualified[-_MAX_NAME_CHARS:],
                kind,
                capture.start_line,
                capture.end_line,
                capture.signature,
            )
            yield symbol, capture.node


def parse(path: str, text: str) -> "Tree | None":
    """Return the tree of a text; None for one in no known language, or one too tangled to be looked at.

    Safe from any thread.

    Args:
        path: POSIX path, for the language.
        text: The file's text.
    """
    grammar = grammar_of(path, text)
    return _parse(grammar, text.encode("utf-8", "replace")) if grammar is not None else None


def code_words(path: str, text: str) -> tuple[bytes, ...]:
    """Return what a text says to a compiler, word by word: all of it but comments and blanks.

    A text in no known language, or one too tangled to be looked at, says nothing.
    """
    tree = parse(path, text)
    words: list[bytes] = []
    queue = [tree.root_node] if tree is not None else []
    while queue:
        node = queue.pop()
        if "comment" in node.type:
            continue
        if node.child_count and "string" not in node.type:
            queue += reversed(node.children)
        elif node.text and node.text.strip():
            words.append(node.text)
    return tuple(words)


def whole(node: "Node") -> "Node":
    """Return a definition with what belongs to it around it: its decorators, its ``export``, its ``const``."""
    while (parent := node.parent) is not None and _wraps(parent):
        node = parent
    return node


def references(path: str, text: str) -> Counter[str]:
    """Return how often each identifier of three to sixty-four characters stands in ``text``.

    Comments and strings count: telling them apart would cost a second walk over the tree, and a name that a comment
    mentions is a reference to a reader too. Prose (Markdown and files in no known language) refers to nothing.
    """
    grammar = grammar_of(path, text)
    if grammar is None or grammar.family == "markdown":
        return Counter()
    return Counter(_IDENTIFIER.findall(text))


def _holds_methods(kind: str) -> bool:
    return kind in ("class", "struct", "interface", "trait", "enum", "scope", "module", "type")


@cache
def _query(grammar: Grammar) -> "Query":
    from tree_sitter import Query
    from tree_sitter_language_pack import get_language

    return Query(get_language(grammar.name), grammar.query)


def _parse(grammar: Grammar, source: bytes) -> "Tree | None":
    from tree_sitter import Parser
    from tree_sitter_language_pack import get_language

    parser = Parser(get_language(grammar.name))
    if len(source) <= _SMALL_BYTES:
        tree = parser.parse(source)
    else:
        deadline = time.thread_time() + _MAX_PARSE_S
        try:
            tree = parser.parse(
                lambda offset, _: source[offset : offset + _SMALL_BYTES],
                progress_callback=lambda _offset, _has_error: time.thread_time() > deadline,
            )
        except ValueError:  # what the binding raises when the callback stops it
            return None
    return None if _is_tangled(tree.root_node) else tree


def _is_tangled(root: "Node") -> bool:
    # The children of an error node are a flat list, which a query walks in quadratic time.
    broken = [root] if root.has_error else []
    visits = 0
    while broken and visits < _MAX_ERROR_CHILDREN:
        node = broken.pop()
        if node.is_error and node.child_count > _MAX_ERROR_CHILDREN:
            return True
        children = node.children
        visits += len(children)
        broken.extend(child for child in children if child.has_error)
    return False


def _captures(grammar: Grammar, tree: "Tree", source: bytes) -> list[_Capture]:
    from tree_sitter import QueryCursor

    found: dict[tuple[int, int, str], _Capture] = {}
    for _, groups in QueryCursor(_query(grammar)).matches(tree.root_node):
        if len(found) == _MAX_SYMBOLS:
            break
        owners = groups.pop("owner", [])
        name = _text(groups.pop("name")[0], source)
        for kind, (node, *_) in groups.items():
            if kind == "upper" and not _UPPER.fullmatch(name):
                continue
            qualified = f"{_text(owners[0], source)}.{name}" if owners else name
            capture = _capture("constant" if kind == "upper" else kind, qualified, node, source)
            found.setdefault((node.start_byte, node.end_byte, name), capture)
    return sorted(found.values(), key=lambda capture: (capture.start_byte, -capture.end_byte))


def _capture(kind: str, name: str, node: "Node", source: bytes) -> _Capture:
    outer = whole(node)
    start, end = outer.start_point, outer.end_point
    # A node that ends at the beginning of a line does not reach into it.
    end_line = end.row + (1 if end.column else 0)
    first = outer if start.row == node.start_point.row else node
    signature = source[first.start_byte : first.start_byte + 4 * _MAX_SIGNATURE_CHARS].split(b"\n", 1)[0]
    return _Capture(
        kind,
        name,
        node.start_byte,
        node.end_byte,
        start.row + 1,
        max(end_line, start.row + 1),
        signature.decode("utf-8", "ignore").strip().rstrip("{").rstrip()[:_MAX_SIGNATURE_CHARS],
        node,
    )


def _wraps(node: "Node") -> bool:
    if node.type in ("lexical_declaration", "variable_declaration", "type_declaration"):
        return node.named_child_count == 1
    return node.type in ("decorated_definition", "export_statement", "template_declaration")


def _text(node: "Node", source: bytes) -> str:
    end = min(node.end_byte, node.start_byte + 4 * _MAX_NAME_CHARS)
    text = " ".join(source[node.start_byte : end].decode("utf-8", "replace").split())
    return text if node.type in ("inline", "paragraph") else text.replace("::", ".").replace(":", ".")
