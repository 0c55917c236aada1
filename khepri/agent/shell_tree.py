"""The grammar's tree of a shell line: how it is read, and how its lines are joined first. Meaning is not known here."""

from typing import TYPE_CHECKING, Final

from khepri.repo.nodes import outwards, text_of

if TYPE_CHECKING:
    from tree_sitter import Node

_CONTINUED: Final = b"\\\n"
_MAY_BE_RAW: Final = (b"#", b"'", b"<<")
_RAW: Final = frozenset({"raw_string", "ansi_c_string", "comment"})
_MOST_READINGS: Final = 100
_BLANKS_TO_GRAMMAR: Final = frozenset(range(32)) - frozenset(b"\t\n") | {127}


def parsed(code: bytes) -> "Node":
    """Return the root of a line's tree."""
    from tree_sitter_language_pack import get_parser

    return get_parser("bash").parse(code).root_node


def joined(code: bytes) -> bytes | None:
    """Return a line without the backslashes before line ends that a shell takes out before anything else.

    They stay in comments and where a text is quoted, and so does one that has a backslash before it.

    Returns:
        None if it cannot be told, or if the line holds what is a blank to the grammar and none to a shell.
    """
    if _BLANKS_TO_GRAMMAR & set(code) or b"\\\t" in code:
        return None
    place = readings = 0
    while (place := code.find(_CONTINUED, place)) >= 0:
        if any(mark in code[:place] for mark in _MAY_BE_RAW):
            readings += 1
            around = list(outwards(parsed(code).descendant_for_byte_range(place, place)))
            if readings > _MOST_READINGS or (_is_raw(around) and _is_changed(around)):
                return None
            if _is_raw(around):
                place += len(_CONTINUED)
                continue
        backslashes = place - len(code[:place].rstrip(b"\\"))
        if backslashes % 2:
            place += len(_CONTINUED)
        else:
            code = code[:place] + code[place + len(_CONTINUED) :]
    return code


def _is_raw(around: list["Node"]) -> bool:
    """Return True for a place, given by the nodes around it, in which a shell replaces nothing."""
    types = [node.type for node in around]
    if types and types[0] in _RAW:
        return True
    document = types.index("heredoc_body") if "heredoc_body" in types else len(types)
    return any(map(is_quoted_document, around[document:]))


def _is_changed(around: list["Node"]) -> bool:
    """Return True if a place lies in something that is replaced, so that shells differ in what is quoted there."""
    types = {node.type for node in around[1:]}
    if "expansion" in types or any(each.type == "heredoc_redirect" and not is_quoted_document(each) for each in around):
        return True
    return any(each.type == "command_substitution" and text_of(each).startswith("`") for each in around)


def is_quoted_document(node: "Node") -> bool:
    """Return True for a here document in which nothing is replaced."""
    if node.type != "heredoc_redirect":
        return False
    start = next((child for child in node.children if child.type == "heredoc_start"), None)
    return start is not None and any(mark in text_of(start) for mark in "'\"\\")
