import numpy as np
import pytest

from khepri.engine.backend import Batch, Logits
from khepri.engine.exactness import compare_widths
from khepri.engine.pass_cost import MOST_ROWS
from tests.support.scripted_backend import ScriptedBackend

TEXT = tuple(b"a text that is long enough to be compared, with a context before it")


class WidthBackend(ScriptedBackend):
    """Rounds otherwise in passes of at least ``from_width`` tokens; from ``flip_width`` on the best token changes."""

    from_width = 99
    flip_width = 99

    def decode(self, batch: Batch) -> Logits:
        rows = super().decode(batch)
        if self.from_width <= len(batch.tokens) < MOST_ROWS:
            rows += np.float32(0.25)
        if self.flip_width <= len(batch.tokens) < MOST_ROWS:
            rows[:, 7] += np.float32(500.0)
        return rows


def test_a_backend_that_is_a_pure_function_of_the_context_has_no_differences() -> None:
    backend = ScriptedBackend()
    found = compare_widths(backend, TEXT, [1, 2, 5, MOST_ROWS])
    assert [each.width for each in found] == [1, 2, 5, MOST_ROWS]
    assert all((each.different_rows, each.largest, each.flips) == (0, 0.0, 0) for each in found)
    assert {each.rows for each in found} == {MOST_ROWS}
    assert backend.sequence_length(0) == 0


def test_widths_that_round_otherwise_are_named_with_how_far() -> None:
    backend = WidthBackend()
    backend.from_width, backend.flip_width = 4, 8
    found = {each.width: each for each in compare_widths(backend, TEXT, [2, 3, 4, 8])}
    assert [found[width].different_rows for width in (2, 3)] == [0, 0]
    # The last pass of a width holds what is left over, which may be a narrower one.
    assert found[4].different_rows == MOST_ROWS - MOST_ROWS % 4
    assert found[4].largest == pytest.approx(0.25, rel=1e-5)
    assert found[4].flips == 0
    # All logits moved alike.
    assert found[4].largest_lead_change == pytest.approx(0.0, abs=1e-5)
    # In a row or two that token may be the best one anyway.
    assert MOST_ROWS - MOST_ROWS % 8 - 2 <= found[8].flips <= MOST_ROWS - MOST_ROWS % 8


class LeaderBackend(ScriptedBackend):
    """Puts the most likely token a little higher in every pass of several tokens."""

    def decode(self, batch: Batch) -> Logits:
        rows = super().decode(batch)
        if 1 < len(batch.tokens) < MOST_ROWS:
            rows[np.arange(len(rows)), rows.argmax(axis=1)] += np.float32(0.125)
        return rows


def test_what_rounding_does_to_the_lead_of_a_token_is_told_apart_from_what_it_does_to_any() -> None:
    (found,) = compare_widths(LeaderBackend(), TEXT, [3])
    assert found.largest_lead_change == pytest.approx(0.125, rel=1e-5)
    assert found.flips == 0


def test_what_was_in_the_cache_before_does_not_matter() -> None:
    backend = ScriptedBackend()
    backend.decode(Batch(tuple(b"something else"), 0))
    assert not any(each.different_rows for each in compare_widths(backend, TEXT, [2, 7]))


def test_a_model_that_cannot_take_back_a_tail_has_no_width_to_compare() -> None:
    assert compare_widths(ScriptedBackend(can_remove_tail=False), TEXT, [2, 7]) == []
