"""Names in Python text that no refactoring library follows: quoted annotations, ``__all__``, dotted paths, prose.

Works on text alone; which files mean the same thing by a name is decided by whoever asks.
"""

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from khepri.edits.python.trees import all_nodes, tree_of

_RUN: Final = re.compile(r"\s*(?:\"\"\"|''\')?\s*(?:>>>|\.\.\.) ")
"""How a line begins that a doctest runs."""
_TYPE_FUNCTIONS: Final = frozenset({"cast", "TypeVar", "ForwardRef", "NewType", "TypeAliasType"})
_MODULE_FUNCTIONS: Final = frozenset({"getLogger", "import_module", "__import__", "find_spec", "importorskip"})
"""What takes the dotted name of a module."""


@dataclass(frozen=True)
class _Span:
    start: int
    """In characters from the beginning of the text."""
    end: int


def rename_mentions(
    text: str,
    old: str,
    new: str,
    *,
    modules: frozenset[str],
    is_bound: bool,
    namesakes: frozenset[str] = frozenset(),
) -> str:
    """Return ``text`` with the mentions of a name outside the code itself renamed.

    Args:
        text: A Python file; one with a syntax error comes back as it is.
        old: The name as it was.
        new: The name as it is now.
        modules: Dotted names of the modules that define or pass on the name: ``module.old`` is renamed in any string.
        is_bound: True if the file itself means the same thing by the bare name: quoted annotations, ``__all__``, and
            comments and docstrings that clearly speak of the name are renamed too.
        namesakes: Which of ``module.old`` are the dotted names of modules as well, and are left where these are meant.
    """
    if old not in text or not (is_bound or any(f"{module}.{old}" in text for module in modules)):
        return text
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    places = _Places(text)
    bare = re.compile(rf"(?<![\w]){re.escape(old)}(?!\w)")
    names = "|".join(re.escape(module) for module in sorted(modules, key=len, reverse=True))
    dotted = re.compile(rf"(?<![\w.])(?:{names})\.{re.escape(old)}(?!\w)")
    edits: dict[_Span, str] = {}
    for span, role in _strings(tree, places):
        raw = text[span.start : span.end]
        if old not in raw:
            continue
        changed = _in_dotted(raw, dotted, old, new, namesakes, is_code=role in ("type", "argument")) if modules else raw
        if is_bound and (role == "type" or (role == "public" and ast.literal_eval(raw) == old)):
            changed = bare.sub(new, changed)
        elif is_bound and role == "prose":
            changed = _in_prose(changed, bare, old, new)
        if changed != raw:
            edits[span] = changed
    if is_bound:
        for span in _comments(text, places):
            raw = text[span.start : span.end]
            changed = _in_prose(raw, bare, old, new)
            if changed != raw:
                edits[span] = changed
    for span in sorted(edits, key=lambda each: -each.start):
        text = text[: span.start] + edits[span] + text[span.end :]
    return text


def uses_of(text: str, name: str) -> list[int]:
    """Return the lines, from 1, in which a name stands as an identifier of the code."""
    if name not in text:
        return []
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [token.start[0] for token in tokens if token.type == tokenize.NAME and token.string == name]


def quoted_names(text: str) -> frozenset[str]:
    """Return the names in the quoted types of a module, such as ``"list[Session]"``."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    found: set[str] = set()
    for node in all_nodes(tree):
        for root, role in _roots(node):
            for inner in ast.walk(root) if role == "type" else ():
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    found |= _names_in(inner.value)
    return frozenset(found)


def _names_in(written: str) -> set[str]:
    try:
        return {node.id for node in ast.walk(ast.parse(written.strip(), mode="eval")) if isinstance(node, ast.Name)}
    except (SyntaxError, ValueError, RecursionError):
        return set()


def public_names(text: str) -> frozenset[str]:
    """Return the names in the ``__all__`` of a module; empty without one."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    return frozenset(str(node.value) for node in _public_constants(tree))


def computes_public_names(text: str) -> bool:
    """Tell if the ``__all__`` of a module is made of anything but texts: of that of another one."""
    try:
        values = list(_public_values(tree_of(text)))
    except (SyntaxError, ValueError, RecursionError):
        return False
    return any(isinstance(node, ast.Name | ast.Attribute | ast.Call) for each in values for node in ast.walk(each))


def without_public_name(text: str, name: str) -> str:
    """Return ``text`` with a name taken out of its ``__all__``, which stays sorted and shaped as it was."""
    try:
        tree = tree_of(text)
    except (SyntaxError, ValueError, RecursionError):
        return text
    places = _Places(text)
    for node in _public_constants(tree):
        if node.value != name:
            continue
        span = places.of(node)
        rest = text[span.end :]
        added = re.search(r"^__all__\.append\(\s*\Z", text[: span.start], re.MULTILINE)
        if added is not None:
            return text[: added.start()] + rest.partition("\n")[2]
        # With the comma after it goes the space up to the next entry; the last of a line takes its line with it.
        after = re.match(r"[ \t]*,[ \t]*\n?", rest)
        line_start = text.rfind("\n", 0, span.start) + 1
        if after is not None and after.group().endswith("\n") and not text[line_start : span.start].strip():
            return text[:line_start] + rest[after.end() :]
        if after is not None:
            return text[: span.start] + rest[after.end() :].lstrip(" ")
        before = re.search(r",?\s*\Z", text[: span.start])
        return text[: before.start() if before else span.start] + rest
    return text


class _Places:
    """Turns the positions of ``ast`` and ``tokenize`` into places in the text."""

    def __init__(self, text: str) -> None:
        self._lines = text.split("\n")
        self._starts = [0]
        for line in self._lines:
            self._starts.append(self._starts[-1] + len(line) + 1)

    def of(self, node: ast.expr) -> _Span:
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        return _Span(self._byte(node.lineno, node.col_offset), self._byte(node.end_lineno, node.end_col_offset))

    def of_token(self, token: tokenize.TokenInfo) -> _Span:
        return _Span(self._starts[token.start[0] - 1] + token.start[1], self._starts[token.end[0] - 1] + token.end[1])

    def _byte(self, line: int, column: int) -> int:
        # The columns of ast are bytes of UTF-8.
        return self._starts[line - 1] + len(self._lines[line - 1].encode()[:column].decode())


def _strings(tree: ast.Module, places: _Places) -> Iterator[tuple[_Span, str]]:
    """Yield every string with its role: ``type``, ``public``, ``prose``, ``argument`` or ``other``."""
    roles: dict[int, str] = {}
    for node in all_nodes(tree):
        for root, role in _roots(node):
            for inner in ast.walk(root):
                if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                    roles.setdefault(id(inner), role)
    for constant in _public_constants(tree):
        roles[id(constant)] = "public"
    queue: list[ast.AST] = [tree]
    while queue:
        node = queue.pop()
        if isinstance(node, ast.Constant):
            if isinstance(node.value, str):
                yield places.of(node), roles.get(id(node), "other")
        elif not isinstance(node, ast.JoinedStr):  # the pieces of an f-string have no places of their own
            queue.extend(ast.iter_child_nodes(node))


def _roots(node: ast.AST) -> Iterator[tuple[ast.AST, str]]:
    """Yield the expressions below a node whose strings have a role of their own."""
    match node:
        case ast.arg(annotation=ast.expr() as annotation):
            yield annotation, "type"
        case ast.FunctionDef(returns=ast.expr() as returns) | ast.AsyncFunctionDef(returns=ast.expr() as returns):
            yield returns, "type"
        case ast.AnnAssign():
            yield node.annotation, "type"
            if node.value is not None and ast.unparse(node.annotation).rpartition(".")[2] == "TypeAlias":
                yield node.value, "type"
        case ast.ClassDef():
            for base in node.bases:
                yield base, "type"
        case ast.Call() if ast.unparse(node.func).rpartition(".")[2] in _TYPE_FUNCTIONS:
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                yield argument, "type"
        case ast.Call(args=[ast.Constant() as argument, *_]) if (
            ast.unparse(node.func).rpartition(".")[2] not in _MODULE_FUNCTIONS
        ):
            yield argument, "argument"
        case ast.Expr(value=ast.Constant()):
            yield node.value, "prose"
        case _:
            return


def _public_constants(tree: ast.Module) -> Iterator[ast.Constant]:
    for value in _public_values(tree):
        for inner in ast.walk(value):
            if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
                yield inner


def _public_values(tree: ast.Module) -> Iterator[ast.expr]:
    """Yield what ``__all__`` is made of, and what is added to it."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="__all__")], value=value):
                yield value
            case ast.AugAssign(target=ast.Name(id="__all__"), value=value):
                yield value
            case ast.AnnAssign(target=ast.Name(id="__all__"), value=ast.expr() as value):
                yield value
            case ast.Expr(value=ast.Call(func=ast.Attribute(value=ast.Name(id="__all__")), args=[value])):
                yield value


def _comments(text: str, places: _Places) -> Iterator[_Span]:
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type == tokenize.COMMENT:
                yield places.of_token(token)
    except (tokenize.TokenError, SyntaxError):
        return


def _in_dotted(
    text: str, dotted: re.Pattern[str], old: str, new: str, namesakes: frozenset[str], *, is_code: bool
) -> str:
    """Rename dotted names; one that is a module's too only where it can be nothing else, as in what a test patches."""

    def written(match: re.Match[str]) -> str:
        is_module = match.group() in namesakes and (not is_code or text[match.end() : match.end() + 1] == ".")
        return match.group() if is_module else match.group()[: -len(old)] + new

    return dotted.sub(written, text)


def _in_prose(text: str, bare: re.Pattern[str], old: str, new: str) -> str:
    """Rename a name in prose where it can be nothing but the name: ``get`` is a word, ``get_url`` is none.

    What a doctest runs is code.
    """
    if "_" in old.strip("_") or old != old.lower():
        return bare.sub(new, text)
    run = re.compile(rf"(?<![\w.'\"]){re.escape(old)}(?!\w|\s*=[^=])")
    lines = (run.sub(new, line) if _RUN.match(line) else line for line in text.split("\n"))
    text = "\n".join(lines)
    return re.sub(rf"(?<=`){re.escape(old)}(?=[`(])|(?<![\w.]){re.escape(old)}(?=\()", new, text)
