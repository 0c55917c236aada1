"""Finds code of a shape where a grammar by itself would not: calls in Go and C, types, and code in the macros of Rust.

Go and C read a call that stands alone as something else (a conversion, a macro), so a pattern that is one is read
inside a function. Many grammars read ``Optional[$T]`` or ``Vec<$T>`` as one thing where a type stands and as another,
or as none, where a value does; so a pattern is looked for in both readings. What Rust's macros are called with is no
code to its grammar, but a run of tokens; so a text is read with ``name!(…)`` and ``name![…]`` as calls of a function,
which takes no place away and adds none.
"""

import re
from collections.abc import Mapping
from typing import Final, cast

from ast_grep_py import Config, Pattern, Rule, SgNode, SgRoot

_CALL: Final = re.compile(r"[\w.$:>-]+\(.*\)", re.DOTALL)
_AROUND: Final = {"go": "func t() {{ {} }}", "c": "void t() {{ {}; }}", "cpp": "void t() {{ {}; }}"}
_AROUND_TYPE: Final = {
    "python": "t: {}",
    "typescript": "type t = {};",
    "tsx": "type t = {};",
    "rust": "type t = {};",
    "go": "type t {}",
    "java": "class t {{ {} t; }}",
}
_C_LIKE: Final = ("c", "cpp")
_SIZE_OF: Final = re.compile(r"\bsizeof\s*\(\s*(\$[A-Z_][A-Z0-9_]*)\s*\)")
_WORD: Final = re.compile(r"[\w$]+")
_HOLE: Final = "\u00b5"
"""Stands for the mark of a hole: a letter in every language."""
_ANNOTATION: Final = "type"
"""The node around every annotation; what is in it has the same place."""
_BANG: Final = "\u01c3"
"""Looks like the mark of a macro and is a letter, so that it ends the name of a function."""
_ALIKE: Final = str.maketrans(f"{_BANG}[]", "!()")
_MOST_ROUNDS: Final = 3


def find_shape(text: str, language: str, pattern: str) -> list[SgNode]:
    """Return every node of a text that has a shape, an outer one before those inside."""
    nodes = SgRoot(text, language).root().find_all(pattern=pattern)
    bare, around = pattern.strip(), _AROUND.get(language)
    if around is not None and _CALL.fullmatch(bare) and "call_expression" in _kinds(bare, language, around):
        call = Pattern(context=around.format(bare), selector="call_expression", strictness="smart")
        nodes += SgRoot(text, language).root().find_all(pattern=call)
    if language in _C_LIKE and _SIZE_OF.search(pattern):
        nodes += SgRoot(text, language).root().find_all(_with_sizes_of_types(bare))
    kind = _kind_of_type(bare, language)
    if kind:
        as_type = Pattern(context=_AROUND_TYPE[language].format(bare), selector=kind, strictness="smart")
        nodes += SgRoot(text, language).root().find_all(pattern=as_type)
    if language == "rust":
        nodes += read(text, language).find_all(pattern=_pattern_with_calls(pattern))
    found = {(node.range().start.index, node.range().end.index): node for node in nodes}
    return [found[place] for place in sorted(found, key=lambda place: (place[0], -place[1]))]


def _with_sizes_of_types(pattern: str) -> Config:
    """Return the rule for a pattern of C whose ``sizeof($T)`` takes a type, which is no value in brackets there."""
    taken = _SIZE_OF.findall(pattern)
    holes = {f"SIZE{number}": hole for number, hole in enumerate(taken)}
    names = iter(holes)
    written = _SIZE_OF.sub(lambda _: f"${next(names)}", pattern)
    is_call = _CALL.fullmatch(pattern) is not None
    sizes: dict[str, Mapping[str, object]] = {
        name: {"kind": "sizeof_expression", "has": {"kind": "type_descriptor", "pattern": hole}}
        for name, hole in holes.items()
    }
    if written == "$SIZE0":
        return {"rule": cast("Rule", sizes["SIZE0"])}
    is_call = _CALL.fullmatch(pattern) is not None
    call: Pattern = {"context": _AROUND["c"].format(written), "selector": "call_expression", "strictness": "smart"}
    return {"rule": {"pattern": call if is_call else written}, "constraints": sizes}


def _kind_of_type(pattern: str, language: str) -> str:
    """Return what the grammar calls a pattern where a type is expected; empty if it is none, or the same elsewhere."""
    context = _AROUND_TYPE.get(language)
    if context is None or _WORD.fullmatch(pattern):
        return ""
    kinds = [kind for kind in _kinds(pattern, language, context) if kind != _ANNOTATION]
    alone = [each.kind() for each in SgRoot(pattern.replace("$", _HOLE), language).root().children()]
    return kinds[0] if kinds and kinds[0] not in alone else ""


def _kinds(pattern: str, language: str, context: str) -> list[str]:
    """Return what the grammar calls a pattern with something around it, the outer node first; none if it is no code."""
    whole = context.format(pattern.replace("$", _HOLE))
    start = context.format("\0").index("\0")
    end = start + len(pattern)
    root = SgRoot(whole, language).root()
    if root.find(kind="ERROR") is not None:
        return []
    found, queue = [], [root]
    while queue:
        node = queue.pop()
        place = _span(node)
        if place == (start, end):
            found.append(node.kind())
        if place[0] <= start and end <= place[1]:
            queue += node.children()
    return found


def as_calls(code: str) -> str:
    """Return code in which macros and calls look alike, for comparison."""
    return code.translate(_ALIKE)


def read(text: str, language: str) -> SgNode:
    """Return the tree of a text, with the macros of Rust as calls where they can be such."""
    root = SgRoot(text, language).root()
    macros = _macros(root) if language == "rust" else []
    for _ in range(_MOST_ROUNDS):
        if not macros:
            break
        tree = SgRoot(_with_calls(text, macros), language).root()
        faults = [_span(node) for node in tree.find_all(kind="ERROR")]
        torn = [macro for macro in macros if any(macro[0] <= start and end <= macro[2] + 1 for start, end in faults)]
        if not torn and len(faults) <= len(root.find_all(kind="ERROR")):
            return tree
        macros = [macro for macro in macros if macro not in torn] if torn else []
    return root


def _macros(root: SgNode) -> list[tuple[int, int, int]]:
    """Return the places of the mark and of both brackets of each macro that is called."""
    found = []
    queue = [root]
    while queue:
        children = queue.pop().children()
        queue += children
        for name, mark, tree in zip(children, children[1:], children[2:], strict=False):
            is_macro = name.kind().endswith("identifier") and mark.kind() == "!" and tree.kind() == "token_tree"
            if is_macro and tree.text()[0] in "([":
                start, end = _span(tree)
                found.append((_span(mark)[0], start, end - 1))
    return found


def _with_calls(text: str, macros: list[tuple[int, int, int]]) -> str:
    letters = list(text)
    for mark, opening, closing in macros:
        letters[mark], letters[opening], letters[closing] = _BANG, "(", ")"
    return "".join(letters)


def _pattern_with_calls(pattern: str) -> str:
    """Return a pattern with its macros as calls; its own brackets tell where they end."""
    letters, macros, opened = list(pattern), set(), []
    for place, letter in enumerate(pattern):
        if letter in "([{":
            opened.append(place)
            mark = re.search(r"\w(!)\s*\Z", pattern[:place])
            if mark is not None and letter != "{":
                macros.add(place)
                letters[mark.start(1)] = _BANG
        elif letter in ")]}" and opened and (start := opened.pop()) in macros:
            letters[start], letters[place] = "(", ")"
    return "".join(letters)


def _span(node: SgNode) -> tuple[int, int]:
    place = node.range()
    return place.start.index, place.end.index
