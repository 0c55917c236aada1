"""Knows what the objects that any Python program handles are asked for: a name of theirs says nothing of an object.

They are those of Python's own types, and of the classes of its library that are most often met, in a file that deals
with these.
"""

import ast
import builtins
import importlib
import inspect
import re
from collections.abc import Iterator
from functools import cache
from typing import Final

from khepri.edits.python.offsets import Offsets
from khepri.edits.python.trees import tree_of

_BUILT_IN: Final = (str, bytes, int, float, list, dict, set, tuple, object, type)
_LIBRARY: Final = {
    "argparse": ("ArgumentParser",),
    "asyncio": ("Event", "Future", "Lock", "Queue", "StreamReader", "StreamWriter", "Task", "AbstractEventLoop"),
    "collections": ("Counter", "OrderedDict", "deque"),
    "concurrent.futures": ("Executor", "Future"),
    "configparser": ("ConfigParser",),
    "contextlib": ("ExitStack",),
    "contextvars": ("ContextVar",),
    "csv": ("DictReader", "DictWriter"),
    "datetime": ("datetime", "timedelta", "timezone"),
    "decimal": ("Decimal",),
    "email.message": ("EmailMessage",),
    "http.client": ("HTTPConnection", "HTTPResponse"),
    "inspect": ("Parameter", "Signature"),
    "io": ("BufferedRWPair", "BytesIO", "StringIO", "TextIOWrapper"),
    "json": ("JSONDecoder", "JSONEncoder"),
    "logging": ("Handler", "Logger", "LogRecord"),
    "pathlib": ("Path",),
    "queue": ("Queue",),
    "random": ("Random",),
    "re": ("Match", "Pattern"),
    "socket": ("socket",),
    "sqlite3": ("Connection", "Cursor"),
    "subprocess": ("CompletedProcess", "Popen"),
    "tarfile": ("TarFile",),
    "tempfile": ("TemporaryDirectory",),
    "threading": ("Condition", "Event", "Thread"),
    "unittest": ("TestCase",),
    "unittest.mock": ("Mock",),
    "urllib.parse": ("ParseResult",),
    "uuid": ("UUID",),
    "zipfile": ("ZipFile",),
}
_CUES: Final = {
    "Path": r"tmp_path\w*",
    "TextIOWrapper": "open",
    "BufferedRWPair": "open",
    "Mock": "MagicMock|mocker|patch",
}
"""Other words by which a file deals with a class."""
_FUNCTIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)


def is_given(name: str) -> bool:
    """Tell if an object of one of Python's own types has an attribute of that name, or if it is a name of Python's."""
    return name in _given()


def library_uses(text: str, name: str) -> frozenset[int]:
    """Return where uses of an attribute end that may be of a class of Python's library.

    The file deals with a class that has the attribute, and with all else that the object is asked for in that function.

    Args:
        text: A Python file; one that cannot be parsed has none.
        name: The attribute.
    """
    if not (having := [each for each in _met_in(text) if hasattr(each, name)]):
        return frozenset()
    try:
        found = list(_asked(tree_of(text), None))
    except (SyntaxError, ValueError, RecursionError):
        return frozenset()
    asked: dict[tuple[ast.AST | None, str], set[str]] = {}
    for function, written, node in found:
        asked.setdefault((function, written), set()).add(node.attr)
    offsets = Offsets(text)
    return frozenset(
        offsets.end(node)
        for function, written, node in found
        if node.attr == name and any(all(hasattr(each, one) for one in asked[function, written]) for each in having)
    )


def library_takes(text: str, method: str, name: str) -> bool:
    """Tell if a class of Python's own, or one of its library that a file deals with, takes a parameter by that name."""
    return any(name in _parameters(each, method) for each in (*_BUILT_IN, *_met_in(text)))


def _asked(node: ast.AST, function: ast.AST | None) -> Iterator[tuple[ast.AST | None, str, ast.Attribute]]:
    """Yield the attributes in a file, each with the function that it is in and the object as it is written."""
    if isinstance(node, _FUNCTIONS):
        function = node
    if isinstance(node, ast.Attribute):
        yield function, ast.unparse(node.value), node
    for child in ast.iter_child_nodes(node):
        yield from _asked(child, function)


@cache
def _given() -> frozenset[str]:
    return frozenset(name for kind in _BUILT_IN for name in dir(kind)) | frozenset(dir(builtins))


@cache
def _met_in(text: str) -> tuple[type, ...]:
    """Return the classes of the library that a file deals with: it imports their module, or gets them otherwise."""
    found = []
    for module, names in _LIBRARY.items():
        word = re.escape(module)
        if re.search(rf"^\s*(from\s+{word}\b|import\s.*\b{word}\b)", text, re.MULTILINE):
            found += [(module, name) for name in names]
        else:
            found += [(module, name) for name in names if name in _CUES and re.search(rf"\b({_CUES[name]})", text)]
    return tuple(getattr(importlib.import_module(module), name) for module, name in found)


def _parameters(owner: type, method: str) -> frozenset[str]:
    try:
        return frozenset(inspect.signature(getattr(owner, method)).parameters)
    except (AttributeError, TypeError, ValueError):
        return frozenset()
