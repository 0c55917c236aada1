import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.draft import suffix_array
from khepri.engine.draft.suffix_array import sort_suffixes


def never() -> bool:
    return False


@given(st.lists(st.integers(0, 3), max_size=120), st.integers(1, 40))
def test_suffixes_stand_in_the_order_of_their_first_values(text: list[int], depth: int) -> None:
    order = sort_suffixes(np.array(text, dtype=np.uint32), depth, never)
    assert order is not None
    assert sorted(order.tolist()) == list(range(len(text)))
    heads = [text[position : position + depth] for position in order]
    assert heads == sorted(heads)


@given(st.lists(st.integers(0, 3), max_size=120), st.integers(1, 9))
def test_the_order_does_not_depend_on_the_size_of_the_steps(text: list[int], step: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(suffix_array, "_STEP", step)
        order = sort_suffixes(np.array(text, dtype=np.uint32), 32, never)
    assert order is not None
    assert sorted(order.tolist()) == list(range(len(text)))
    heads = [text[position : position + 32] for position in order]
    assert heads == sorted(heads)


def test_the_largest_values_do_not_overflow() -> None:
    order = sort_suffixes(np.array([2**20, 5, 2**20, 3, 0], dtype=np.uint32), 2, never)
    assert order is not None
    assert order.tolist() == [4, 3, 1, 2, 0]


def test_sorting_stops_when_it_is_told_to() -> None:
    text = np.tile(np.arange(5, dtype=np.uint32), 100)
    asked = 0

    def at_the_third_step() -> bool:
        nonlocal asked
        asked += 1
        return asked == 3

    assert sort_suffixes(text, 32, at_the_third_step) is None
    assert asked == 3
