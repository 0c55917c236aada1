"""Trees are made once while work is done on them, and let go of afterwards."""

import ast
import gc

import pytest

from khepri.edits.python.trees import all_nodes, kept_trees, tree_of

TEXT = "def f(a):\n    return [a]\n"


def test_a_text_has_one_tree_until_the_work_is_over() -> None:
    with kept_trees():
        first = tree_of(TEXT)
        assert tree_of(TEXT) is first
    assert tree_of(TEXT) is not first


def test_all_nodes_are_those_of_the_tree() -> None:
    tree = tree_of(TEXT)
    assert list(all_nodes(tree)) == list(ast.walk(tree))


def test_garbage_is_collected_as_before_once_the_work_failed() -> None:
    before = gc.get_threshold()
    with kept_trees():
        assert gc.get_threshold() != before
    with pytest.raises(SyntaxError), kept_trees():
        tree_of("def")
    assert gc.get_threshold() == before
