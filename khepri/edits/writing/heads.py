"""What a definition is to those who use it: its parameters, what it returns, its bases, and the words before its name.

They are read off the tree of any language that has a grammar. What may change of them is not known here.
"""

import re
from collections import Counter
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from khepri.repo.nodes import text_of
from khepri.repo.symbols import Symbol, definitions, whole

if TYPE_CHECKING:
    from tree_sitter import Node

_CALLABLE: Final = frozenset({"function", "method"})
_MARKS: Final = frozenset(
    "async static public private protected internal pub export default final abstract override readonly virtual inline "
    "unsafe extern synchronized open suspend get set sealed fileprivate mutating".split()
)
"""Words before a name that say who may use it, and how."""
_MARK: Final = re.compile(r"@[\w.]+|\w+")
_DEFAULT_FIELDS: Final = ("default_value", "value", "right")
_NAME_FIELDS: Final = ("name", "pattern", "left", "declarator")
_OWN_WORDS: Final = re.compile(r"^(?:mut|final|val|var)\s+")
"""What is said of a parameter to its own function alone."""
_MOST_LINE: Final = 160


@dataclass(frozen=True)
class Parameter:
    """One parameter."""

    name: str
    declared: str
    """All that is said of it but its default."""
    default: str
    """Its default; empty without one."""
    may_be_left_out: bool
    """True if a call need not pass it."""


@dataclass(frozen=True)
class Head:
    """The head of a definition. Texts are without needless blanks."""

    line: str
    """All of it in one line, to be shown."""
    parameters: tuple[Parameter, ...]
    result: str
    """What it returns, as far as it says so."""
    kin: str
    """Its bases and type parameters."""
    marks: frozenset[str]
    """Words and annotations before its name."""


def heads_of(path: str, text: str) -> dict[str, Head]:
    """Return the head of every definition of a text that is seen from outside, by qualified name.

    What is defined inside of a function is nobody else's. What is defined more than once is left out, as overloads are.

    Args:
        path: POSIX path, for the language.
        text: The file's text.
    """
    found: list[tuple[Symbol, Node]] = list(definitions(path, text))
    inside = {symbol.qualified_name for symbol, _ in found if symbol.kind in _CALLABLE}
    times = Counter(symbol.qualified_name for symbol, _ in found)
    heads: dict[str, Head] = {}
    for symbol, node in found:
        name = symbol.qualified_name
        parts = name.split(".")
        if times[name] > 1 or any(".".join(parts[:end]) in inside for end in range(1, len(parts))):
            continue
        head = _head(node)
        if head is not None:
            heads[name] = head
    return heads


def _head(node: "Node") -> Head | None:
    callable_ = _callable(node)
    body = _body(callable_ or node) or _body(node)
    if body is None:
        return None
    outer = whole(node)
    source = outer.text or b""
    parameters = _parameters(callable_) if callable_ is not None else None
    names = [child for field in ("name", "left", "property") if (child := node.child_by_field_name(field)) is not None]
    name = names[0] if names else None

    def between(start: int, end: int) -> str:
        return source[start - outer.start_byte : end - outer.start_byte].decode("utf-8", "replace")

    line = " ".join(between(outer.start_byte, body.start_byte).split()).rstrip("{ ")
    if parameters is None or callable_ is None:
        start = name.end_byte if name is not None else node.start_byte
        lead = between(outer.start_byte, name.start_byte if name is not None else node.start_byte)
        kin = between(start, body.start_byte).strip().rstrip(":{=").strip()
        return Head(line[:_MOST_LINE], (), "", _plain(kin), _marks(lead))
    lead = between(outer.start_byte, parameters.start_byte)
    ahead = [child for field in ("type", "returns") if (child := node.child_by_field_name(field)) is not None]
    comments = [each for each in callable_.children if "comment" in each.type and each.start_byte > parameters.end_byte]
    end = min(body.start_byte, *(each.start_byte for each in comments)) if comments else body.start_byte
    behind = between(parameters.end_byte, end).strip().removesuffix("=>").rstrip(":{= ")
    result = " ".join([*(text_of(child) for child in ahead if child.start_byte < parameters.start_byte), behind])
    kin = "".join(text_of(each) for each in callable_.children if each.type.startswith("type_parameter"))
    return Head(line[:_MOST_LINE], tuple(_read(parameters)), _plain(result).lstrip(":->"), _plain(kin), _marks(lead))


def _callable(node: "Node") -> "Node | None":
    """Return the node that has the parameters of a definition: itself, what is assigned, or what declares it."""
    queue = [node]
    while queue:
        node = queue.pop(0)
        if _parameters(node) is not None:
            return node
        below = (node.child_by_field_name(field) for field in ("value", "right", "declarator"))
        queue += [child for child in below if child is not None]
    return None


def _parameters(node: "Node") -> "Node | None":
    for field in ("parameters", "parameter"):
        if (child := node.child_by_field_name(field)) is not None:
            return child
    return next((child for child in node.children if child.type == "function_value_parameters"), None)


def _body(node: "Node") -> "Node | None":
    for field in ("body", "type"):
        child = node.child_by_field_name(field)
        if child is not None and (field == "body" or child.type in ("struct_type", "interface_type")):
            return child
    return next((child for child in node.children if child.type.endswith("_body")), None)


def _marks(lead: str) -> frozenset[str]:
    return frozenset(word for word in _MARK.findall(lead) if word in _MARKS or word.startswith("@"))


def _read(parameters: "Node") -> "list[Parameter]":
    found: list[Parameter] = []
    if parameters.type == "identifier":  # an arrow function without brackets
        return [Parameter(text_of(parameters), text_of(parameters), "", False)]
    runs: list[list[Node]] = [[]]
    for child in parameters.children:
        if child.type in (",", ";"):
            runs.append([])
        elif "comment" not in child.type and child.type not in ("(", ")", "|", "[", "]"):
            runs[-1].append(child)
    for run in filter(None, runs):
        node = next((child for child in run if child.is_named), run[0])
        behind = next((after for sign, after in pairwise(run) if sign.type == "="), None)
        found += _read_one(node, behind)
    return found


def _read_one(node: "Node", behind: "Node | None") -> "list[Parameter]":
    inside = next((after for sign, after in pairwise(node.children) if sign.type == "="), None)
    fields = (node.child_by_field_name(field) for field in _DEFAULT_FIELDS)
    default = behind or inside or next((child for child in fields if child is not None), None)
    text = text_of(node)
    if default is not None and node.start_byte <= default.start_byte < node.end_byte:
        text = (node.text or b"")[: default.start_byte - node.start_byte].decode("utf-8", "replace")
        text = text.rstrip().rstrip("=").rstrip()
    names = [text_of(child) for field in _NAME_FIELDS for child in node.children_by_field_name(field)][
        : None if node.type == "parameter_declaration" else 1
    ]
    if not names:
        first = next((child for child in node.children if child.is_named), node)
        is_name = node.type == "typed_parameter" or first.type in ("identifier", "simple_identifier")
        names = [text_of(first) if is_name else text]
    marked = ("optional", "splat", "rest", "variadic", "spread", "separator", "keyword")
    may_be_left_out = default is not None or text.startswith(("...", "*")) or any(word in node.type for word in marked)
    declared = _OWN_WORDS.sub("", text)
    if len(names) > 1:  # one type for several
        declared = declared[declared.rfind(names[-1]) + len(names[-1]) :]
    return [
        Parameter(
            re.sub(r"^[*&$.\s]+(?=\w)|(?<=\w)\[.*", "", _OWN_WORDS.sub("", name)),
            _plain(declared),
            _plain(text_of(default)) if default is not None else "",
            may_be_left_out,
        )
        for name in names
    ]


def _plain(text: str) -> str:
    """Return a text in which blanks and the kind of quotes make no difference."""
    return re.sub(r"\s*([^\w\s])\s*", r"\1", " ".join(text.split())).replace('"', "'")
