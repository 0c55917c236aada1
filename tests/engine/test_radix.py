from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.engine.radix import RadixTree, common_length, path_identity

# Few different tokens make shared prefixes likely.
paths = st.lists(st.integers(0, 2), min_size=1, max_size=10).map(tuple)


class Listed:
    """The oracle: a list of paths and their sequences."""

    def __init__(self) -> None:
        self.paths: dict[int, tuple[int, ...]] = {}

    def insert(self, tokens: tuple[int, ...], sequence: int) -> list[int]:
        if any(path[: len(tokens)] == tokens for path in self.paths.values()):
            return [sequence]
        freed = [other for other, path in self.paths.items() if tokens[: len(path)] == path]
        for other in freed:
            del self.paths[other]
        self.paths[sequence] = tokens
        return freed

    def longest(self, tokens: tuple[int, ...]) -> int:
        return max((common_length(path, tokens) for path in self.paths.values()), default=0)


def filled(inserted: list[tuple[int, ...]]) -> tuple[RadixTree, Listed]:
    tree, listed = RadixTree(), Listed()
    for sequence, tokens in enumerate(inserted):
        assert sorted(tree.insert(tokens, sequence)) == sorted(listed.insert(tokens, sequence))
        tree.check_integrity()
    return tree, listed


@settings(deadline=None)
@given(st.lists(paths, max_size=12), paths)
def test_it_holds_what_was_inserted_and_finds_the_longest_match_to_the_token(
    inserted: list[tuple[int, ...]], wanted: tuple[int, ...]
) -> None:
    tree, listed = filled(inserted)
    assert {leaf.sequence: tree.path_of(leaf) for leaf in tree.leaves()} == listed.paths
    found = tree.match(wanted)
    assert found.length == listed.longest(wanted)
    assert (found.leaf is None) == (found.length == 0)
    if found.leaf is not None:
        assert tree.path_of(found.leaf)[: found.length] == wanted[: found.length]


@settings(deadline=None)
@given(st.lists(paths, max_size=12), st.data())
def test_removing_leaves_in_any_order_leaves_a_whole_tree(inserted: list[tuple[int, ...]], data: st.DataObject) -> None:
    tree, listed = filled(inserted)
    while len(tree):
        leaf = data.draw(st.sampled_from(sorted(tree.leaves(), key=tree.path_of)))
        path = tree.path_of(leaf)
        assert listed.paths.pop(tree.remove(leaf)) == path
        tree.check_integrity()
        assert {other.sequence: tree.path_of(other) for other in tree.leaves()} == listed.paths


@settings(deadline=None)
@given(st.lists(st.integers(0, 2), min_size=2, max_size=10), st.data())
def test_the_identity_of_a_path_does_not_depend_on_how_it_is_cut(path: list[int], data: st.DataObject) -> None:
    cut = data.draw(st.integers(1, len(path) - 1))
    whole, parts = RadixTree(), RadixTree()
    whole.insert(path, 0)
    parts.insert(path[:cut], 0)
    parts.insert(path, 1)
    parts.insert((*path[:cut], 7), 2)
    assert next(whole.leaves()).identity == path_identity(path)
    assert path_identity(path) in {leaf.identity for leaf in parts.leaves()}


def test_the_same_tokens_after_others_are_another_node() -> None:
    tree = RadixTree()
    tree.insert((1, 5, 6, 7), 0)
    tree.insert((2, 5, 6, 7), 1)
    left, right = tree.leaves()
    assert left.identity != right.identity
    assert tree.match((5, 6, 7)).length == 0
    assert tree.match((3, 5, 6, 7)).length == 0


def test_the_shortest_path_goes_first_and_of_equals_the_one_not_used_for_longest() -> None:
    tree = RadixTree()
    for sequence, path in enumerate([(1, 1, 1), (2, 2), (3, 3), (4, 4, 4)]):
        tree.insert(path, sequence)
    tree.insert((2, 2), 9)  # used again
    order = []
    while (victim := tree.victim()) is not None:
        order.append(tree.remove(victim))
    assert order == [2, 1, 0, 3]


def test_a_leaf_in_use_is_never_the_victim() -> None:
    tree = RadixTree()
    tree.insert((1,), 0)
    [leaf] = tree.leaves()
    assert tree.victim(spared=leaf) is None
    tree.insert((2, 2, 2), 1)
    victim = tree.victim(spared=leaf)
    assert victim is not None
    assert victim.sequence == 1


def test_a_copy_is_taken_from_the_latest_of_the_leaves_below() -> None:
    tree = RadixTree()
    tree.insert((1, 2, 3), 0)
    tree.insert((1, 2, 4), 1)
    tree.insert((1, 2, 3), 2)
    leaf = tree.match((1, 2)).leaf
    assert leaf is not None
    assert leaf.sequence == 0
