"""Walks the trees of tree-sitter. What the kinds of nodes mean in a language is not known here."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node


def nodes_of(root: "Node") -> Iterator["Node"]:
    """Yield the nodes of a tree, outer ones first."""
    waiting = [root]
    while waiting:
        node = waiting.pop()
        waiting += reversed(node.children)
        yield node


def outwards(node: "Node | None") -> Iterator["Node"]:
    """Yield a node and those that it lies in."""
    while node is not None:
        yield node
        node = node.parent


def text_of(node: "Node") -> str:
    """Return what a node was written as."""
    return (node.text or b"").decode("utf-8", "replace")
