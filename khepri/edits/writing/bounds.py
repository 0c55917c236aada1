"""Keeps what a small model wrote within what it was asked for: one definition, or its docstring.

What stands around the definition, and its head, are looked at in every language that has a grammar; decorators with
their arguments, and docstrings, in Python.
"""

import ast
import io
import re
import tokenize
from collections import Counter
from collections.abc import Iterator
from typing import Final

from khepri.edits.locate import Target
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.shortening import asks_for_less
from khepri.edits.writing.around import refuse_outside
from khepri.edits.writing.elsewhere import refuse_elsewhere
from khepri.edits.writing.unasked import refuse_unasked
from khepri.edits.writing.undefined import refuse_undefined
from khepri.repo.symbols import code_words

_PYTHON: Final = (".py", ".pyi")
_WHICH: Final = (
    r"(?:(?:an?|the|some|missing|proper|short|brief|concise|simple|clear|good|better|helpful|detailed|descriptive"
    r"|python|(?:one|single)-line|(?:google|numpy|sphinx)(?:-style)?)\s+)*"
)
_CLAUSE: Final = (
    r"(?:\b(?:and|then|also|plus|but)|[,;.:])\s+(?:then\s+|also\s+|please\s+)?(?:add|give|rename|move|fix|mend|remove"
    r"|delete|make|change|use|replace|refactor|extract|inline|handle|raise|type|annotate|convert|simplify|improve"
    r"|rewrite|update|let|put|turn|set|call|log|check|test|comment|reorder|sort|clean|write|return)\b"
)


def _task_for(kind: str) -> re.Pattern[str]:
    return re.compile(
        rf"\W*(?:please\s+)?(?:(?:add|write|put|insert)\s+{_WHICH}{kind}|give\s+(?:\S+\s+){{1,5}}?{_WHICH}{kind}"
        rf"|(?:improve|correct|rewrite|update|expand|fix)\s+{_WHICH}{kind})",
        re.IGNORECASE,
    )


_DOCSTRING_TASK: Final = _task_for(r"docstrings?\b")
_MORE_THAN_DOCSTRINGS: Final = re.compile(
    rf"{_CLAUSE}|\b(?:type\s+hints?|annotations?|comments?|types)\b", re.IGNORECASE
)
_COMMENT_TASK: Final = _task_for(r"(?:(?:doc(?:umentation)?\s+)?comments?|js-?docs?|tsdocs?|godocs?|javadocs?|docs?)\b")
_MORE_THAN_COMMENTS: Final = re.compile(
    rf"{_CLAUSE}|\b(?:type\s+hints?|annotations?|types|decorators?|parameters?)\b", re.IGNORECASE
)
_WORD: Final = re.compile(r"\w+")
_Defined = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def check_bounds(target: Target, code: str, new_text: str, task: str, failure: str = "") -> None:
    """Make sure that a new version of a definition changes nothing that was not asked for.

    Args:
        target: The definition as it was, or a whole file.
        code: What comes in the place of its lines.
        new_text: The whole file, as it would be.
        task: What the user asked for.
        failure: What a check says that may ask for another head of a definition, besides the task.

    Raises:
        EditRefusedError: Code stands outside of it, others than what the task names change in it, it uses what nothing
            defines, its head changes or a decorator is gone of which the task says nothing, or more than a docstring
            or a comment changes where one was asked for.
    """
    if target.symbol:
        refuse_outside(target, code)
    refuse_elsewhere(target, new_text, task)
    refuse_undefined(target.source.path, target.source.text, new_text)
    refuse_unasked(target.source.path, target.source.text, new_text, f"{task}\n{failure}")
    if _COMMENT_TASK.match(task) and not _MORE_THAN_COMMENTS.search(task):
        _refuse_more_than_comments(target, new_text)
    if not target.source.path.endswith(_PYTHON):
        return
    source = target.source.text
    lines = source.split("\n")
    if target.symbol:
        lines[target.start_line - 1 : target.end_line] = code.split("\n")
    try:
        old, new, whole = (
            ast.parse(source),
            ast.parse("\n".join(lines) if target.symbol else new_text),
            ast.parse(new_text),
        )
    except (SyntaxError, ValueError, RecursionError):
        return
    if target.symbol:
        end_line = target.start_line + code.count("\n")
        before = list(_statements(old, target.start_line, target.end_line))
        after = list(_statements(new, target.start_line, end_line))
        _refuse_bare(target, before, after, task)
    if _DOCSTRING_TASK.match(task) and not _MORE_THAN_DOCSTRINGS.search(task):
        _refuse_more(target, (source, old), (new_text, whole))


def _statements(tree: ast.AST, start_line: int, end_line: int) -> Iterator[ast.stmt]:
    """Yield the outermost statements that lie within some lines."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.stmt):
            decorators = node.decorator_list if isinstance(node, _Defined) else []
            first = min([node.lineno, *(each.lineno for each in decorators)])
            if start_line <= first and (node.end_lineno or first) <= end_line:
                yield node
                continue
        yield from _statements(node, start_line, end_line)


def _refuse_bare(target: Target, before: list[ast.stmt], after: list[ast.stmt], task: str) -> None:
    """Refuse a new version without a decorator that was there, unless the task speaks of that one or of its like."""
    old, new = _decorators(before), _decorators(after)
    names = {node.name for each in after for node in ast.walk(each) if isinstance(node, _Defined)}
    lost = [each for each in (old - new).elements() if each[0] in names]
    said = set(_WORD.findall(task.lower()))
    changed = {word for _, text in [*lost, *(new - old)] for word in _WORD.findall(text.lower())}
    if not lost or changed & said or any(word.startswith("decorat") for word in said):
        return
    if asks_for_less(task, target.text, names):
        return
    name, text = lost[0]
    raise EditRefusedError(
        Refusal.SHRINKAGE,
        f"@{text} of {name} is gone, and the task does not ask for that",
        f"keep @{text} above {name}",
    )


def _decorators(statements: list[ast.stmt]) -> Counter[tuple[str, str]]:
    """Return what each definition is decorated with, the arguments apart."""
    return Counter(
        (node.name, ast.unparse(each.func if isinstance(each, ast.Call) else each))
        for statement in statements
        for node in ast.walk(statement)
        if isinstance(node, _Defined)
        for each in node.decorator_list
    )


def _refuse_more(target: Target, old: tuple[str, ast.Module], new: tuple[str, ast.Module]) -> None:
    """Refuse a new text of a file in which more than docstrings differs."""
    if ast.dump(_without_docstrings(old[1])) != ast.dump(_without_docstrings(new[1])):
        what = "code changes as well, though the task asks for a docstring alone"
    elif _comments(old[0]) != _comments(new[0]):
        what = "comments change as well, though the task asks for a docstring alone"
    else:
        return
    raise EditRefusedError(
        Refusal.MALFORMED,
        what,
        f"copy every line of {target.name or 'the file'} as it is, its comments too, and write only the docstring",
    )


def _refuse_more_than_comments(target: Target, new_text: str) -> None:
    """Refuse a new text of a file in which more than comments, or docstrings, differs."""
    path, old_text = target.source.path, target.source.text
    if path.endswith(_PYTHON):
        try:
            old, new = (ast.dump(_without_docstrings(tree_of(text))) for text in (old_text, new_text))
        except (SyntaxError, ValueError, RecursionError):
            return
        is_same = old == new
    else:
        is_same = code_words(path, old_text) == code_words(path, new_text)
    if not is_same:
        raise EditRefusedError(
            Refusal.MALFORMED,
            "code changes as well, though the task asks for a comment alone",
            f"copy every line of {target.name or 'the file'} as it is, and write only the comment",
        )


def _without_docstrings(tree: ast.Module) -> ast.Module:
    for node in all_nodes(tree):
        if not isinstance(node, ast.Module | _Defined):
            continue
        if ast.get_docstring(node, clean=False) is not None:
            del node.body[0]
        node.body = [each for each in node.body if not _is_filler(each)]
    return tree


def _is_filler(statement: ast.stmt) -> bool:
    """Return True for what stands in an empty body, and goes when a docstring comes."""
    if isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
        return statement.value.value is Ellipsis
    return isinstance(statement, ast.Pass)


def _comments(text: str) -> list[str]:
    try:
        tokens = list(tokenize.generate_tokens(io.StringIO(text).readline))
    except (tokenize.TokenError, SyntaxError):
        return []
    return [token.string.rstrip() for token in tokens if token.type == tokenize.COMMENT]
