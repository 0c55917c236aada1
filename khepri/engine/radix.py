"""A radix tree over token ids: which sequence of the backend holds which path.

A node is a segment of tokens and the identity of its whole path, a chained hash of all tokens up to its end: the same
tokens after other ones are another node, because their keys and values are others. A leaf owns a sequence that holds
its whole path; what lies above it is shared with the sequences of the leaves beside it. Nothing here knows a backend.
"""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

import numpy as np

_DIGEST_BYTES: Final = 16


def path_identity(tokens: Sequence[int]) -> bytes:
    """Return the identity of the path that these tokens make, however they are cut into segments."""
    return _extended(hashlib.blake2b(digest_size=_DIGEST_BYTES), tokens).digest()


def common_length(left: Sequence[int], right: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    pairs = enumerate(zip(left, right, strict=False))
    return next((place for place, (one, other) in pairs if one != other), min(len(left), len(right)))


def _extended(path: "hashlib.blake2b", tokens: Sequence[int]) -> "hashlib.blake2b":
    chained = path.copy()
    chained.update(np.asarray(tokens, dtype="<u4").tobytes())
    return chained


@dataclass(eq=False)
class Node:
    """A segment of tokens below its parent's path. Only the root has no parent, and no tokens."""

    parent: "Node | None"
    tokens: tuple[int, ...]
    path: "hashlib.blake2b"
    """The running hash of the path up to the end of this segment."""
    end: int
    """Length of that path in tokens."""
    sequence: int | None = None
    """A leaf's sequence."""
    last_used: int = 0
    children: "dict[int, Node]" = field(default_factory=dict)
    """By their first token."""

    @property
    def identity(self) -> bytes:
        """The identity of the path that ends here."""
        return self.path.digest()

    @property
    def is_leaf(self) -> bool:
        """True if a sequence ends here."""
        return not self.children


@dataclass(frozen=True)
class Match:
    """The longest prefix of some tokens that the tree holds."""

    leaf: Node | None
    """A leaf below the place where the match ends, the latest used of them; None if nothing matches."""
    length: int
    """Tokens that match."""


class RadixTree:
    """Paths of tokens with a sequence for each leaf. One thread."""

    def __init__(self) -> None:
        self._root = Node(None, (), hashlib.blake2b(digest_size=_DIGEST_BYTES), 0)
        self._uses = 0

    def __len__(self) -> int:
        return sum(1 for _ in self.leaves())

    def leaves(self) -> Iterator[Node]:
        """Yield every leaf."""
        return (node for node in self._nodes() if node.is_leaf and node is not self._root)

    def path_of(self, leaf: Node) -> tuple[int, ...]:
        """Return all tokens from the root to the end of a node."""
        segments = []
        node: Node | None = leaf
        while node is not None:
            segments.append(node.tokens)
            node = node.parent
        return tuple(token for segment in reversed(segments) for token in segment)

    def match(self, tokens: Sequence[int]) -> Match:
        """Return the longest common prefix of ``tokens`` with any path, token by token."""
        node, length = self._descend(tokens)
        return Match(self._latest_leaf(node) if length else None, length)

    def insert(self, tokens: Sequence[int], sequence: int) -> list[int]:
        """Note that ``sequence`` holds the path ``tokens``, which must have been computed already.

        Returns:
            Sequences that are needed no longer: ``sequence`` itself if another holds all of the path already, or the
            one of a leaf that this path continues.
        """
        tokens = tuple(tokens)
        node, length = self._descend(tokens)
        if length == len(tokens):
            self._touch(self._latest_leaf(node) if tokens else node)
            return [sequence]
        if length < node.end:
            node = self._split(node, length - (node.end - len(node.tokens)))
        rest = tokens[length:]
        if node.is_leaf and node.parent is not None:
            freed = [node.sequence] if node.sequence is not None else []
            node.tokens += rest
            node.path = _extended(node.path, rest)
            node.end += len(rest)
            node.sequence = sequence
            self._touch(node)
            return freed
        child = Node(node, rest, _extended(node.path, rest), len(tokens), sequence)
        node.children[rest[0]] = child
        self._touch(child)
        return []

    def remove(self, leaf: Node) -> int:
        """Take a leaf out and return its sequence; a parent that is left with one child is joined with it."""
        assert leaf.is_leaf, "only a leaf can be removed"
        parent, sequence = leaf.parent, leaf.sequence
        assert parent is not None, "the root stays"
        assert sequence is not None, "a leaf owns a sequence"
        del parent.children[leaf.tokens[0]]
        if parent.parent is not None and len(parent.children) == 1:
            [child] = parent.children.values()
            child.tokens = parent.tokens + child.tokens
            child.parent = parent.parent
            child.parent.children[child.tokens[0]] = child
        return sequence

    def victim(self, spared: Node | None = None) -> Node | None:
        """Return the leaf to evict first: the shortest path, as it saves least, and of equals the least recently used.

        Args:
            spared: A leaf in use, which is never named.
        """
        leaves = (leaf for leaf in self.leaves() if leaf is not spared)
        return min(leaves, key=lambda leaf: (leaf.end, leaf.last_used), default=None)

    def check_integrity(self) -> None:
        """Assert that segments, identities and sequences fit together."""
        sequences = [leaf.sequence for leaf in self.leaves()]
        assert None not in sequences, "a leaf has no sequence"
        assert len(set(sequences)) == len(sequences), "two leaves own one sequence"
        for node in self._nodes():
            if node.parent is None:
                continue
            assert node.tokens, "a node has no tokens"
            assert node.end == node.parent.end + len(node.tokens), "a node ends in the wrong place"
            assert node.identity == path_identity(self.path_of(node)), "an identity is not that of the path"
            assert node.is_leaf or node.sequence is None, "a node that is shared owns a sequence"
            assert len(node.children) != 1, "a node with one child was not joined with it"
        for node in self._nodes():
            for token, child in node.children.items():
                assert child.parent is node, "a child does not know its parent"
                assert child.tokens[0] == token, "a child is filed under the wrong token"

    def _nodes(self) -> Iterator[Node]:
        waiting = [self._root]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(node.children.values())

    def _descend(self, tokens: Sequence[int]) -> tuple[Node, int]:
        """Return the node in which the longest match ends, and its length; a match of nothing ends in the root."""
        node, length = self._root, 0
        while length < len(tokens):
            child = node.children.get(tokens[length])
            if child is None:
                break
            node = child
            same = common_length(child.tokens, tokens[length : length + len(child.tokens)])
            length += same
            if same < len(child.tokens):
                break
        return node, length

    def _split(self, node: Node, offset: int) -> Node:
        """Cut a node's segment in two and return the upper part."""
        assert node.parent is not None
        upper_tokens = node.tokens[:offset]
        upper = Node(node.parent, upper_tokens, _extended(node.parent.path, upper_tokens), node.parent.end + offset)
        upper.last_used = node.last_used
        node.parent.children[upper_tokens[0]] = upper
        node.parent = upper
        node.tokens = node.tokens[offset:]
        upper.children[node.tokens[0]] = node
        return upper

    def _latest_leaf(self, node: Node) -> Node:
        while node.children:
            node = max(node.children.values(), key=lambda child: child.last_used)
        return node

    def _touch(self, node: Node | None) -> None:
        self._uses += 1
        while node is not None:
            node.last_used = self._uses
            node = node.parent
