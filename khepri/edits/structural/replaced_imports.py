"""Tells what a replacement uses and a file does not import, and what a file imports and does not use any more.

Python's own tables say it for Python. Elsewhere a name is taken for one that has to be imported if something in it is
asked for, as in ``strconv.Itoa``, and the file had no such word before.
"""

import re
from typing import Final

from khepri.edits.change import FileChange
from khepri.edits.python.scopes import names_of
from khepri.edits.structural.accounting import HOLE
from khepri.repo.grammars import grammar_of
from khepri.repo.nodes import nodes_of, text_of
from khepri.repo.symbols import parse

_QUALIFIER: Final = re.compile(r"(?<![\w.:$@\"'`])([A-Za-z_]\w*)(?=\s*(?:\.|::)\s*[A-Za-z_])")
_CALLED: Final = re.compile(r"(?<![\w.$@\"'`])([A-Za-z_]\w*)(?=\s*\()")
_TEXT: Final = re.compile(r"\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|`(?:\\.|[^`\\])*`")
_SCRIPTS: Final = ("javascript", "typescript", "tsx")
_GIVEN: Final = {
    "go": frozenset(
        "append cap clear close complex copy delete error len make max min new panic print println".split()
    ),
    "java": frozenset(
        "this super Object String Integer Long Double Float Boolean Character Byte Short Number Math System Thread "
        "StringBuilder Class Enum Iterable Record Runtime Void java javax".split()
    ),
    "kotlin": frozenset("this super kotlin java String Int Long Double Float Boolean Char Regex Result".split()),
    "rust": frozenset(
        "self Self super crate std core alloc Vec String Option Some None Ok Err Result Box Default Iterator From Into "
        "str char bool u8 u16 u32 u64 u128 usize i8 i16 i32 i64 i128 isize f32 f64 Drop Clone ToString".split()
    ),
    **dict.fromkeys(
        _SCRIPTS,
        frozenset(
            "this super import new Object Array String Number Boolean Math JSON Date RegExp Promise Map Set WeakMap "
            "WeakSet Symbol BigInt Reflect Proxy Error TypeError RangeError Intl console window document globalThis "
            "process navigator location history localStorage sessionStorage Buffer module exports require parseInt "
            "parseFloat isNaN isFinite fetch setTimeout setInterval clearTimeout clearInterval queueMicrotask "
            "structuredClone requestAnimationFrame URL URLSearchParams AbortController TextEncoder TextDecoder "
            "Uint8Array ArrayBuffer if for while switch catch function return typeof await async void delete in of "
            "describe it test expect beforeEach afterEach beforeAll afterAll jest vi alert encodeURIComponent "
            "decodeURIComponent performance crypto".split()
        ),
    ),
}
"""What needs no import, for each language that a name is looked for in."""


def notes_on_imports(change: FileChange, replacement: str) -> list[str]:
    """Return notes on names that a replacement uses and a changed file does not know, and on imports of no more use.

    Args:
        change: One file, before and after.
        replacement: What came in, with its holes.
    """
    if change.path.endswith(".py"):
        return _in_python(change)
    language = grammar_of(change.path)
    if language is None or language.name not in _GIVEN:
        return []
    code = _TEXT.sub(" ", HOLE.sub(" ", replacement))
    names = _QUALIFIER.findall(code) + (_CALLED.findall(code) if language.name in _SCRIPTS else [])
    notes = [
        f"{change.path}:{_line_of(change.new_text, name)} has {name}, and nothing else in the file names it: import it"
        for name in dict.fromkeys(names)
        if name not in _GIVEN[language.name] and re.search(rf"\b{name}\b", change.old_text) is None
        if re.search(rf"\b{name}\b", change.new_text) is not None
    ]
    return notes + (_unused_in_go(change) if language.name == "go" else [])


def _in_python(change: FileChange) -> list[str]:
    before, after = (names_of(text) for text in (change.old_text, change.new_text))
    if before is None or after is None:
        return []
    return [
        f"{change.path}:{after.line_of_unresolved(name)} has {name}, and nothing defines it there: import it"
        for name in sorted(after.needed.keys() - before.unresolved.keys())
    ]


def _unused_in_go(change: FileChange) -> list[str]:
    """Return notes on packages that nothing is asked for any more: Go compiles no file that imports one."""
    before, after = (_packages(change.path, text) for text in (change.old_text, change.new_text))
    return [
        f"{change.path}:{line} imports {name}, which nothing there uses any more: remove it, or Go will not compile it"
        for name, (line, is_used) in after.items()
        if not is_used and name in before and before[name][1]
    ]


def _packages(path: str, text: str) -> dict[str, tuple[int, bool]]:
    """Return what a Go file imports, each with the line of it and whether something of it is used."""
    tree = parse(path, text)
    if tree is None:
        return {}
    found: dict[str, int] = {}
    used: set[str] = set()
    for node in nodes_of(tree.root_node):
        if node.type == "import_spec":
            alias, place = node.child_by_field_name("name"), node.child_by_field_name("path")
            name = text_of(alias or place or node).strip('"`')
            found[re.sub(r"/v\d+$", "", name).rpartition("/")[2]] = node.start_point.row + 1
        elif node.type in ("identifier", "package_identifier"):
            used.add(text_of(node))
    return {name: (line, name in used) for name, line in found.items() if name not in ("_", ".")}


def _line_of(text: str, name: str) -> int:
    found = re.search(rf"\b{name}\b", text)
    return text.count("\n", 0, found.start()) + 1 if found else 1
