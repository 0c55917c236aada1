"""The cost table: measured in a second, right within noise, never fooled by a busy minute, never a reason to fail."""

import json
import os
import stat
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from khepri.engine.pass_cost import MOST_ROWS, PassCosts
from khepri.errors import CancelledError

# What the default model's passes cost on two cores, relative to one row.
RATIOS = {1: 1.0, 2: 1.5, 4: 1.9, 5: 2.4, 8: 3.4, 16: 4.8, 32: 7.6}
ROW_MS = 35.0
IDENTITY = "machine|model|library|settings"


def true_ms(rows: int, depth: int = 0) -> float:
    """One row costs a tenth more for each 4,096 tokens of context."""
    return ROW_MS * (1 + depth / 40_960) * float(np.interp(rows, list(RATIOS), list(RATIOS.values())))


class Machine:
    """Passes that take what ``cost`` says, and a record of them."""

    def __init__(self, cost: Callable[[int], float] = true_ms) -> None:
        self._cost = cost
        self.timed: list[int] = []
        self.spent_ms = 0.0

    def __call__(self, rows: int) -> float:
        self.timed.append(rows)
        self.spent_ms += self._cost(rows)
        return self._cost(rows)


def measured(depth: int = 100) -> PassCosts:
    costs = PassCosts()
    costs.measure(Machine(lambda rows: true_ms(rows, depth)), depth)
    return costs


def ratio(costs: PassCosts, rows: int, depth: int = 100) -> float:
    return costs.cost_ms(rows, depth) / costs.cost_ms(1, depth)


def test_what_was_measured_is_returned_as_it_was() -> None:
    machine, costs = Machine(), PassCosts()
    costs.measure(machine, 100)
    for rows in set(machine.timed):
        assert costs.cost_ms(rows, 100) == pytest.approx(true_ms(rows))


@pytest.mark.parametrize("row_ms", [12.0, 35.0, 50.0, 100.0])
def test_measuring_takes_about_a_second_and_interleaves_every_width_at_least_twice(row_ms: float) -> None:
    machine = Machine(lambda rows: true_ms(rows) / ROW_MS * row_ms)
    PassCosts().measure(machine, 100)
    assert {1, 2, 4, 8} <= set(machine.timed)
    assert all(machine.timed.count(rows) >= 2 for rows in machine.timed)
    assert machine.timed[:8] == [1, 2, 4, 8] * 2
    assert machine.spent_ms < 1600.0


def test_a_fast_machine_has_more_widths_timed() -> None:
    fast, slow = Machine(lambda rows: true_ms(rows) / 5), Machine(lambda rows: true_ms(rows) * 5)
    PassCosts().measure(fast, 100)
    PassCosts().measure(slow, 100)
    assert set(fast.timed) > set(slow.timed) == {1, 2, 4, 8}


def test_no_pass_is_wider_than_there_is_room_for() -> None:
    machine, costs = Machine(), PassCosts()
    costs.measure(machine, 100, most_rows=3)
    assert max(machine.timed) == 3
    assert costs.cost_ms(9, 100) > costs.cost_ms(3, 100)
    costs.measure(machine, 100, most_rows=1)
    assert costs.cost_ms(3, 100) == pytest.approx(3 * true_ms(1))


@pytest.mark.parametrize("delayed", [1, 2])
def test_the_shorter_of_two_times_counts_since_only_delays_disturb(delayed: int) -> None:
    timed: list[int] = []

    def delayed_once(rows: int) -> float:
        timed.append(rows)
        return true_ms(rows) * (10.0 if rows == 2 and timed.count(2) == delayed else 1.0)

    costs = PassCosts()
    costs.measure(delayed_once, 100)
    assert costs.cost_ms(2, 100) == pytest.approx(true_ms(2))


def test_a_measurement_that_breaks_off_leaves_the_table_as_it_was() -> None:
    def breaks(rows: int) -> float:
        if rows == 4:
            raise CancelledError("broke off")
        return 1.0

    costs = PassCosts()
    with pytest.raises(CancelledError):
        costs.measure(breaks, 100)
    assert costs.needs_measuring(100)


def test_before_anything_is_measured_a_wider_pass_is_taken_to_win_nothing() -> None:
    costs = PassCosts()
    costs.observe(1, 100, 50.0)
    assert [costs.cost_ms(rows, 100) / rows for rows in range(1, MOST_ROWS + 1)] == [costs.cost_ms(1, 100)] * MOST_ROWS


@settings(deadline=None)
@given(
    st.dictionaries(st.integers(1, MOST_ROWS), st.floats(0.01, 1000.0), min_size=MOST_ROWS),
    st.lists(st.tuples(st.integers(1, MOST_ROWS), st.integers(0, 9000), st.floats(0.001, 1e6)), max_size=30),
    st.sampled_from([(100,), (100, 5000), (3000, 100)]),
)
def test_whatever_was_seen_a_wider_pass_never_costs_less(
    costs_ms: dict[int, float], passes: list[tuple[int, int, float]], depths: tuple[int, ...]
) -> None:
    costs = PassCosts()
    for depth in depths:
        costs.measure(lambda rows: costs_ms[rows], depth)
    for rows, depth, ms in passes:
        costs.observe(rows, depth, ms)
    for depth in (0, 100, 2500, 9000):
        curve = [costs.cost_ms(rows, depth) for rows in range(1, MOST_ROWS + 8)]
        assert curve[0] > 0.0
        assert all(wider >= narrower * (1 - 1e-9) for narrower, wider in pairwise(curve))


def test_a_width_that_does_not_fill_its_tile_shares_the_cost_of_the_one_that_does() -> None:
    tiles = {1: 35.0, 2: 70.0, 4: 60.0, 5: 90.0, 8: 120.0}
    costs = PassCosts()
    costs.measure(lambda rows: tiles.get(rows, 200.0), 100)
    assert costs.cost_ms(2, 100) == costs.cost_ms(4, 100) == pytest.approx(65.0)
    assert costs.cost_ms(8, 100) == pytest.approx(120.0)


def test_two_widths_in_the_wrong_order_keep_their_common_cost_however_often_they_are_seen() -> None:
    tiles = {1: 35.0, 2: 70.0, 4: 60.0, 5: 90.0, 8: 120.0, 16: 200.0}
    costs = PassCosts()
    costs.measure(lambda rows: tiles.get(rows, 400.0), 100)
    for _ in range(500):
        for rows in (1, 2, 4):
            costs.observe(rows, 100, tiles[rows])
    assert ratio(costs, 2) == ratio(costs, 4) == pytest.approx(65 / 35, rel=0.02)


def test_each_depth_is_measured_once_and_costs_lie_between_those_of_the_depths_around() -> None:
    costs = measured(1000)
    assert not costs.needs_measuring(0)
    assert costs.needs_measuring(1024)
    assert costs.cost_ms(4, 9000) == pytest.approx(true_ms(4, 1000))
    costs.measure(Machine(lambda rows: true_ms(rows, 9000)), 9000)
    assert not costs.needs_measuring(16_383)
    assert costs.needs_measuring(16_384)
    assert costs.needs_measuring(5000)
    assert costs.cost_ms(4, 5000) == pytest.approx(true_ms(4, 5000))
    assert costs.cost_ms(4, 0) == pytest.approx(true_ms(4, 1000))
    assert costs.cost_ms(4, 30_000) == pytest.approx(true_ms(4, 9000))


def test_one_pass_that_was_delayed_tenfold_changes_the_ratio_of_two_widths_by_less_than_five_per_cent() -> None:
    costs = measured()
    before = ratio(costs, 4)
    for rows in (1, 4, 1, 1):
        costs.observe(rows, 100, true_ms(rows) * (10.0 if rows == 4 else 1.0))
    assert ratio(costs, 4) == pytest.approx(before, rel=0.05)


def test_a_minute_of_a_busy_machine_makes_every_width_dearer_and_none_more_attractive() -> None:
    costs = measured()
    before = ratio(costs, 2)
    for _ in range(300):
        costs.observe(1, 100, 2.5 * true_ms(1))
    assert costs.cost_ms(1, 100) == pytest.approx(2.5 * true_ms(1), rel=0.01)
    assert costs.cost_ms(2, 100) == pytest.approx(2.5 * true_ms(2), rel=0.01)
    assert ratio(costs, 2) == pytest.approx(before, rel=0.001)


@pytest.mark.parametrize("wrong", [0.6, 1.6])
def test_a_width_that_was_measured_wrong_is_put_right_by_noisy_passes(wrong: float) -> None:
    random = np.random.default_rng(3)
    costs = PassCosts()
    costs.measure(lambda rows: true_ms(rows) * (wrong if rows == 8 else 1.0), 100)
    for _ in range(60):
        for rows in (1, 8):
            delay = 10.0 if random.random() < 0.03 else 1.0
            costs.observe(rows, 100, true_ms(rows) * delay * (1 + 0.05 * random.random()))
    assert ratio(costs, 8) == pytest.approx(RATIOS[8], rel=0.1)


def test_a_width_that_was_never_timed_is_learnt_in_a_few_passes() -> None:
    costs = PassCosts()
    costs.measure(Machine(), 100)
    for _ in range(6):
        costs.observe(1, 100, true_ms(1))
        costs.observe(3, 100, 2.1 * ROW_MS)
    assert ratio(costs, 3) > 1.95


def test_a_width_far_beyond_the_timed_ones_is_guessed_dear_and_put_right_at_once() -> None:
    costs = PassCosts()
    costs.measure(lambda rows: 5 * true_ms(rows), 100)
    assert ratio(costs, 32) > RATIOS[32] * 1.4
    for _ in range(2):
        costs.observe(1, 100, 5 * true_ms(1))
        costs.observe(32, 100, 5 * true_ms(32))
    assert ratio(costs, 32) == pytest.approx(RATIOS[32], rel=0.25)


@pytest.mark.parametrize(
    ("widths", "climb"),
    [
        ({1: 100.0, 2: 120.0, 4: 150.0, 8: 290.0}, 35.0),
        ({1: 100.0, 2: 195.0, 4: 380.0, 8: 420.0}, 320.0 / 7),
    ],
    ids=["steeper at the end", "steeper on the whole"],
)
def test_beyond_the_last_timed_width_the_cost_climbs_as_at_the_end_or_as_on_the_whole(
    widths: dict[int, float], climb: float
) -> None:
    costs = PassCosts()
    costs.measure(widths.__getitem__, 100, most_rows=8)
    last = widths[8]
    assert costs.cost_ms(10, 100) == pytest.approx(last + 2 * climb)


def test_a_width_that_was_delayed_while_it_was_measured_is_not_dearer_than_its_parts() -> None:
    widths = {1: 70.0, 2: 115.0, 4: 200.0, 8: 1500.0}
    costs = PassCosts()
    costs.measure(widths.__getitem__, 100, most_rows=8)
    assert costs.cost_ms(8, 100) == pytest.approx(400.0)
    assert costs.cost_ms(6, 100) == pytest.approx(315.0)
    table = [costs.cost_ms(rows, 100) for rows in range(1, 34)]
    assert table == sorted(table)
    for rows in range(2, 34):
        assert all(table[rows - 1] <= table[part - 1] + table[rows - part - 1] + 1e-9 for part in range(1, rows))


def test_one_delayed_pass_of_a_width_that_was_only_guessed_hardly_moves_the_timed_one_beside_it() -> None:
    costs = PassCosts()
    costs.measure(Machine(), 100)
    before = ratio(costs, 4)
    costs.observe(1, 100, true_ms(1))
    costs.observe(3, 100, 20 * true_ms(3))
    assert ratio(costs, 4) == pytest.approx(before, rel=0.07)


def test_a_width_that_was_learnt_from_many_passes_is_as_steady_as_a_timed_one() -> None:
    costs = measured()
    for _ in range(20):
        costs.observe(1, 100, true_ms(1))
        costs.observe(6, 100, true_ms(6))
    before = ratio(costs, 6)
    costs.observe(1, 100, true_ms(1))
    costs.observe(6, 100, 10 * true_ms(6))
    assert ratio(costs, 6) == pytest.approx(before, rel=0.05)


def test_the_pace_is_learnt_at_a_depth_that_was_not_measured_too() -> None:
    costs = measured()
    for _ in range(50):
        costs.observe(1, 9000, 2 * true_ms(1))
    assert costs.cost_ms(1, 9000) == pytest.approx(2 * true_ms(1), rel=0.01)


def test_a_depth_that_was_timed_on_a_busy_machine_is_refined_once_more_when_it_is_idle() -> None:
    costs = PassCosts()
    # Whoever shares the cores with others pays more for wide passes than for narrow ones.
    costs.refine(lambda rows: true_ms(rows) * (1.3 + 0.1 * rows), 0)
    assert not costs.needs_refining(0)
    for _ in range(12):
        costs.observe(1, 0, true_ms(1))
    assert costs.needs_refining(0)
    costs.refine(true_ms, 0)
    assert not costs.needs_refining(0)
    assert costs.cost_ms(8, 0) == pytest.approx(true_ms(8))
    for _ in range(12):
        costs.observe(1, 0, 0.95 * true_ms(1))
    assert not costs.needs_refining(0)
    assert not costs.needs_measuring(0)


def test_what_was_timed_in_haste_is_refined_and_outvotes_what_disturbed_it(tmp_path: Path) -> None:
    costs, timed = measured(), Machine()
    assert costs.needs_refining(100)

    def disturbed(rows: int) -> float:
        # Two rounds of five in which something else had the cores.
        return timed(rows) * (7.0 if timed.timed.count(rows) in (2, 3) else 1.0)

    costs.refine(disturbed, 100)
    assert not costs.needs_refining(100)
    assert costs.needs_refining(5000)
    for rows in (1, 2, 3, 4, 6, 12, 24):
        assert costs.cost_ms(rows, 100) == pytest.approx(true_ms(rows))
    costs.save(tmp_path / "costs.json", IDENTITY)
    assert not PassCosts.load(tmp_path / "costs.json", IDENTITY).needs_refining(100)


def test_a_slow_machine_leaves_out_the_widest_passes_when_it_refines() -> None:
    machine, costs = Machine(lambda rows: 20 * true_ms(rows)), PassCosts()
    costs.refine(machine, 100)
    assert machine.spent_ms < 20_000
    assert {1, 2, 3} <= set(machine.timed) < set(range(1, MOST_ROWS))
    assert costs.cost_ms(32, 100) > costs.cost_ms(3, 100)


def test_a_refinement_that_breaks_off_leaves_the_table_as_it_was() -> None:
    machine, costs = Machine(), measured()

    def breaks(rows: int) -> float:
        if machine.timed.count(16) == 3:
            raise CancelledError("somebody waits")
        return 2 * machine(rows)

    with pytest.raises(CancelledError):
        costs.refine(breaks, 100)
    assert costs.needs_refining(100)
    assert costs.cost_ms(8, 100) == pytest.approx(true_ms(8, 100))


def test_a_depth_that_is_measured_on_a_busy_machine_costs_what_it_does_there_and_is_saved_as_if_idle(
    tmp_path: Path,
) -> None:
    costs, busy = PassCosts(), Machine(lambda rows: 3 * true_ms(rows) / 5)
    costs.measure(lambda rows: true_ms(rows) / 5, 100)
    for _ in range(100):
        costs.observe(1, 100, 3 * true_ms(1) / 5)
    costs.measure(busy, 5000)
    assert busy.spent_ms < 1500.0
    assert costs.cost_ms(4, 5000) == pytest.approx(3 * true_ms(4) / 5)
    costs.save(tmp_path / "costs.json", IDENTITY)
    loaded = PassCosts.load(tmp_path / "costs.json", IDENTITY)
    assert loaded.cost_ms(4, 5000) == pytest.approx(true_ms(4) / 5, rel=0.01)


@pytest.mark.parametrize("ms", [0.0, -1.0, float("nan")])
def test_a_pass_that_took_no_time_teaches_nothing(ms: float) -> None:
    costs = measured()
    costs.observe(1, 100, ms)
    assert costs.cost_ms(1, 100) == pytest.approx(true_ms(1, 100))


def test_a_saved_table_is_found_again_under_its_own_identity_only(tmp_path: Path) -> None:
    path = tmp_path / "cache" / "costs.json"
    costs = measured()
    costs.measure(Machine(lambda rows: true_ms(rows, 5000)), 5000)
    costs.save(path, IDENTITY)
    PassCosts().save(path, "another")
    measured(3000).save(path, "a third")
    loaded = PassCosts.load(path, IDENTITY)
    assert not loaded.needs_measuring(100)
    assert not loaded.needs_measuring(5000)
    for depth in (0, 100, 3000, 9000):
        for rows in range(1, MOST_ROWS + 1):
            assert loaded.cost_ms(rows, depth) == pytest.approx(costs.cost_ms(rows, depth))
    assert PassCosts.load(path, "another").needs_measuring(100)
    assert not PassCosts.load(path, "a third").needs_measuring(3000)


def test_a_saved_table_holds_the_shape_and_not_todays_pace(tmp_path: Path) -> None:
    costs = measured()
    for _ in range(100):
        costs.observe(1, 100, 3 * true_ms(1))
    costs.save(tmp_path / "costs.json", IDENTITY)
    assert PassCosts.load(tmp_path / "costs.json", IDENTITY).cost_ms(1, 100) == pytest.approx(true_ms(1, 100))


def test_the_file_is_the_users_alone_and_nothing_is_left_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    measured().save(path, IDENTITY)
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert os.listdir(tmp_path) == ["costs.json"]


def test_the_file_does_not_grow_with_every_setting_ever_tried(tmp_path: Path) -> None:
    path = tmp_path / "costs.json"
    for number in range(40):
        measured().save(path, f"setting {number}")
    assert len(json.loads(path.read_text())) == 32
    assert not PassCosts.load(path, "setting 39").needs_measuring(100)
    assert PassCosts.load(path, "setting 0").needs_measuring(100)


@pytest.mark.parametrize(
    "content",
    [
        "",
        "{",
        "[]",
        "7",
        "[" * 100_000,
        '{"machine|model|library|settings": 7}',
        '{"machine|model|library|settings": "text"}',
        '{"machine|model|library|settings": [{}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {}}]}',
        '{"machine|model|library|settings": [{"depth": -1, "ms": {"1": [5.0, 8]}}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {"1": [0.0, 8]}}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {"1": [NaN, 8]}}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {"1": [Infinity, 8]}}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {"1": [5.0]}}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {"77": [5.0, 8]}}]}',
        '{"machine|model|library|settings": [{"depth": 1e999, "ms": {"1": [5.0, 8]}}]}',
        '{"machine|model|library|settings": [{"depth": 1, "ms": {"1": [5.0, 8]}}, {"depth": 5000}]}',
    ],
)
def test_a_damaged_or_foreign_file_counts_as_absent_and_is_replaced(tmp_path: Path, content: str) -> None:
    path = tmp_path / "costs.json"
    path.write_text(content)
    assert PassCosts.load(path, IDENTITY).needs_measuring(1)
    measured().save(path, IDENTITY)
    assert not PassCosts.load(path, IDENTITY).needs_measuring(1)


def test_a_place_that_cannot_be_written_or_read_is_only_a_missing_cache(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    (tmp_path / "folder").mkdir()
    for path in (tmp_path / "file" / "costs.json", tmp_path / "folder"):
        measured().save(path, IDENTITY)
        assert PassCosts.load(path, IDENTITY).needs_measuring(100)
    assert sorted(os.listdir(tmp_path)) == ["file", "folder"]
