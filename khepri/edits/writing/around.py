"""What a small model writes around the one definition that it was asked for, in any language that has a grammar.

A statement that stands in the file already goes, an import moves to the others. What else would be done when the file
is loaded is refused, since nobody asked for it; what the new version uses may come along. Python's imports are sorted
out elsewhere, as its compiler can tell more of them.
"""

import re
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

from khepri.edits.locate import Target
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.repo.nodes import text_of
from khepri.repo.symbols import outline, parse

if TYPE_CHECKING:
    from tree_sitter import Node

_HOLDS_STATEMENTS: Final = re.compile(r"(?:^|_)(?:body|block|list|statements?_block|statements|declarations)$")
_IMPORT: Final = re.compile(r"^(?:import|use_declaration|using_directive|preproc_include|namespace_use|future_import)")
_HEADER: Final = re.compile(r"comment|hash_bang|^package|^php_tag|^namespace_definition$|^module_directive")
_HARMLESS: Final = re.compile(r"comment|decorator|attribute|annotation|^empty_statement$|^;$|^ERROR$")
_DECLARES: Final = re.compile(r"declaration|_item$|definition|_spec$|_signature|assignment|^preproc_def|_alias$")
_NAME_FIELDS: Final = ("left", "name", "declarator", "pattern", "property")
_MOST_SHOWN: Final = 60
_PYTHON: Final = (".py", ".pyi")
_PROSE: Final = (".md", ".markdown")


def without_known(target: Target, code: str) -> tuple[list[str], str]:
    """Return the imports that a model wrote around a definition, if they are none of Python's, and the rest.

    What stands in the file already is in neither: a package clause, an export, an import of the same.

    Args:
        target: The definition as it was.
        code: What comes in the place of its lines.

    Raises:
        EditRefusedError: An import binds a name anew that another one binds.
    """
    path, lines, source = target.source.path, code.split("\n"), target.source.text.split("\n")
    items = _items_of(target, code)
    elsewhere = "\n".join(["", *source[: target.start_line - 1], "", *source[target.end_line :], ""])
    imports: list[str] = []
    gone: set[int] = set()
    for number, item in enumerate(items):
        rows = range(_first(item) - target.start_line, _last(item) - target.start_line + 1)
        shared = any(_first(other) <= _last(item) and _last(other) >= _first(item) for other in _others(items, number))
        if shared or _HARMLESS.search(item.type):
            continue
        written = "\n".join(lines[row] for row in rows)
        if _IMPORT.match(item.type) and not path.endswith(_PYTHON):
            imports += _new_imports(target, item)
        elif f"\n{written}\n" not in elsewhere:
            continue
        gone |= set(rows)
    kept = [line for row, line in enumerate(lines) if row not in gone]
    return imports, "\n".join(kept).strip("\n") if gone else code


def refuse_outside(target: Target, code: str) -> None:
    """Refuse code in which something stands beside a definition that is none of it, nor used by it.

    Args:
        target: The definition as it was.
        code: What comes in the place of its lines.

    Raises:
        EditRefusedError: Something does.
    """
    root = parse(target.source.path, target.source.text)
    if root is None or target.source.path.endswith(_PROSE):
        return
    before = {_plain(each) for each in _items(root.root_node, target.start_line, target.end_line)}
    lines = range(target.start_line, target.start_line + code.count("\n") + 1)
    _refuse_strays(target.source.path, _with(target, code), lines, target.name, before)


def refuse_beside(path: str, text: str, lines: range, name: str) -> None:
    """Refuse a text in some lines of which something stands that is no definition, nor used by one.

    Args:
        path: The file, for the language.
        text: The whole of it.
        lines: Those that are new, from 1.
        name: What defines them, for words only.

    Raises:
        EditRefusedError: Something does.
    """
    if not path.endswith(_PROSE):
        _refuse_strays(path, text, lines, name, set())


def _refuse_strays(path: str, text: str, lines: range, name: str, before: set[str]) -> None:
    tree = parse(path, text)
    if tree is None:
        return
    items = list(_items(tree.root_node, lines[0], lines[-1]))
    places = {(each.start_line, each.end_line) for each in outline(path, text)}
    defined = [each for each in items if (_first(each), _last(each)) in places]
    used = {word for each in defined for word in re.findall(r"\w+", text_of(each))}
    for item in items:
        if item in defined or _plain(item) in before or _HARMLESS.search(item.type) or _IMPORT.match(item.type):
            continue
        inner = item.children[0] if item.type == "expression_statement" and item.children else item
        if _DECLARES.search(inner.type) and (declared := _declared(inner)) and declared in used:
            continue
        if _is_text(item):
            what = f"a text stands outside of {name}"
            hint = f"a docstring is the first line within {name}, below its def or class; write nothing around it"
        else:
            what = f"{_plain(item)[:_MOST_SHOWN]!r} stands outside of {name}"
            hint = f"write {name} alone, with no statements before or after it"
        raise EditRefusedError(Refusal.MALFORMED, what, hint)


def with_other_imports(path: str, text: str, imports: list[str]) -> str:
    """Return a text in a language other than Python with imports behind its others, or behind its header."""
    tree = parse(path, text)
    if tree is None or not imports:
        return text
    lines, header, last = text.split("\n"), 0, 0
    is_header = True
    for child in tree.root_node.children:
        is_header = is_header and (_HEADER.search(child.type) is not None or _is_text(child))
        if _IMPORT.match(child.type):
            last = _last(child)
        elif is_header and not ("comment" in child.type and _touches_next(child)):
            header = _last(child)
    if path.endswith(".go") and last and lines[last - 1].strip() == ")":
        lines[last - 1 : last - 1] = [f"\t{each.removeprefix('import ')}" for each in imports]
        return "\n".join(lines)
    place = last or header
    between = [""] if not last and header else []
    behind = [""] if not last and place < len(lines) and lines[place].strip() else []
    lines[place:place] = [*between, *imports, *behind]
    return "\n".join(lines)


def _new_imports(target: Target, item: "Node") -> list[str]:
    """Return what an import adds to those of the file, as lines."""
    tree = parse(target.source.path, target.source.text)
    assert tree is not None
    there = [each for each in tree.root_node.children if _IMPORT.match(each.type)]
    specs = list(_below(item, "import_spec"))
    if specs:  # Go: each package has one
        known = {_plain(spec) for each in there for spec in _below(each, "import_spec")}
        return [f"import {text_of(spec)}" for spec in specs if _plain(spec) not in known]
    if _plain(item) in {_plain(each) for each in there}:
        return []
    bound = {text_of(name) for each in there for name in _names_bound(each)}
    doubled = next((text_of(name) for name in _names_bound(item) if text_of(name) in bound), None)
    if doubled is not None:
        raise EditRefusedError(
            Refusal.MALFORMED,
            f"{doubled} is imported already",
            f"write {target.name} without that import, or import only what is not there yet",
        )
    return [text_of(item).rstrip()]


def _names_bound(item: "Node") -> "Iterator[Node]":
    for clause in _below(item, "import_clause"):
        for node in _below(clause, "identifier"):
            parent = node.parent
            alias = parent.child_by_field_name("alias") if parent is not None else None
            if alias is None or alias == node:
                yield node


def _below(node: "Node", kind: str) -> "Iterator[Node]":
    queue = [node]
    while queue:
        node = queue.pop()
        if node.type == kind:
            yield node
        queue += reversed(node.children)


def _with(target: Target, code: str) -> str:
    lines = target.source.text.split("\n")
    lines[target.start_line - 1 : target.end_line] = code.split("\n")
    return "\n".join(lines)


def _items_of(target: Target, code: str) -> "list[Node]":
    tree = None if target.source.path.endswith(_PROSE) else parse(target.source.path, _with(target, code))
    if tree is None:
        return []
    return list(_items(tree.root_node, target.start_line, target.start_line + code.count("\n")))


def _items(node: "Node", first: int, last: int) -> "Iterator[Node]":
    """Yield the outermost statements that lie within some lines."""
    for child in node.children:
        if _last(child) < first or _first(child) > last:
            continue
        is_within = first <= _first(child) and _last(child) <= last
        if is_within and not _HOLDS_STATEMENTS.search(child.type):
            if child.is_named and child.type != "identifier":
                yield child
        else:
            yield from _items(child, first, last)


def _others(items: "list[Node]", number: int) -> "list[Node]":
    return items[:number] + items[number + 1 :]


def _declared(item: "Node") -> str:
    """Return the first name that a declaration or an assignment makes; empty if that is not a plain name."""
    queue = [item]
    for _ in range(50):
        if not queue:
            break
        node = queue.pop(0)
        if node.type.endswith("identifier") and not node.type.endswith("type_identifier"):
            return text_of(node)
        if node.type in ("constant", "variable_name", "type_identifier", "word"):
            return text_of(node)
        if node.type.endswith(("call", "call_expression", "attribute", "member_expression", "subscript", "command")):
            return ""
        fields = [child for field in _NAME_FIELDS if (child := node.child_by_field_name(field)) is not None]
        kind = node.child_by_field_name("type")
        queue = (fields or [child for child in node.children if child.is_named and child != kind]) + queue
    return ""


def _is_text(item: "Node") -> bool:
    inside = item.children[0] if item.type == "expression_statement" and item.children else item
    return inside.type in ("string", "concatenated_string")


def _touches_next(comment: "Node") -> bool:
    after = comment.next_sibling
    return after is not None and "comment" not in after.type and after.start_point.row <= comment.end_point.row + 1


def _first(node: "Node") -> int:
    return node.start_point.row + 1


def _last(node: "Node") -> int:
    # A node may end at the beginning of a line that it does not reach into.
    return _first(node) + text_of(node).rstrip().count("\n")


def _plain(node: "Node") -> str:
    return " ".join(text_of(node).split())
