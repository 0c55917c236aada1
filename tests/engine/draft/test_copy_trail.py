import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.draft.copy_trail import (
    LONGEST_REPLACEMENT,
    MOST_REPLACEMENTS,
    CopyTrail,
    Replacements,
)

SOURCE = list(range(100, 160))
NEW, OTHER = 1, 2


def trail_in(source: list[int], start: int, replacements: Replacements | None = None) -> CopyTrail:
    def read(position: int, count: int) -> list[int]:
        return source[position : position + count]

    return CopyTrail(read, start, 8, replacements or Replacements())


def commit(trail: CopyTrail, tokens: list[int]) -> None:
    for token in tokens:
        trail.commit(token)


@given(st.integers(0, 50), st.integers(0, 9), st.integers(1, 16))
def test_an_unchanged_copy_goes_on_where_it_is(start: int, copied: int, limit: int) -> None:
    trail = trail_in(SOURCE, start)
    commit(trail, SOURCE[start : start + copied])
    assert not trail.is_changing
    assert trail.propose(limit).tokens == SOURCE[start + copied : start + copied + limit]
    assert trail.propose(limit).evidence == 8 + copied


def test_after_one_strange_token_the_copy_is_guessed_to_go_on_behind_the_one_it_replaces() -> None:
    trail = trail_in(SOURCE, 10)
    trail.commit(NEW)
    assert trail.is_changing
    assert trail.propose(3) == (SOURCE[11:14], 1)


@pytest.mark.parametrize(
    ("changed", "resumed_at"),
    [
        pytest.param([NEW], 11, id="one token for one"),
        pytest.param([NEW, OTHER], 11, id="two tokens for one"),
        pytest.param([NEW], 13, id="one token for three"),
        pytest.param([NEW, OTHER, NEW], 10, id="an insertion"),
        pytest.param([], 14, id="a deletion"),
    ],
)
def test_the_copy_is_found_again_after_a_change(changed: list[int], resumed_at: int) -> None:
    trail = trail_in(SOURCE, 10)
    commit(trail, [*changed, SOURCE[resumed_at]])
    assert trail.propose(4).tokens == SOURCE[resumed_at + 1 : resumed_at + 5]
    trail.commit(SOURCE[resumed_at + 1])
    assert not trail.is_changing
    assert trail.copied == 2
    assert trail.propose(4).tokens == SOURCE[resumed_at + 2 : resumed_at + 6]


def test_an_inserted_line_that_ends_like_the_line_before_it_leads_back_to_where_the_copy_was_left() -> None:
    end_of_line = SOURCE[9]
    trail = trail_in(SOURCE, 10)
    commit(trail, [NEW, OTHER, end_of_line])
    assert trail.propose(3).tokens == SOURCE[10:13]


def test_what_was_replaced_once_is_replaced_again() -> None:
    name, new_name = [7, 8], [NEW]
    source = [100, *name, 101, 102, 103, *name, 104, *name, 105]
    trail = trail_in(source, 1)
    commit(trail, [*new_name, 101, 102])
    assert trail.propose(6).tokens == [103, *new_name, 104, *new_name, 105]


def test_a_longer_new_name_is_completed_and_followed() -> None:
    source = [100, 7, 101, 102, 103, 7, 104, 105]
    trail = trail_in(source, 1)
    commit(trail, [NEW, OTHER, 101, 102, 103, NEW])
    assert trail.propose(3).tokens == [OTHER, 104, 105]
    commit(trail, [OTHER])
    assert not trail.is_changing
    assert trail.propose(3).tokens == [104, 105]


def test_a_replacement_that_was_not_made_is_not_expected_again() -> None:
    source = [100, 7, 101, 102, 7, 103, 7, 104]
    trail = trail_in(source, 1)
    commit(trail, [NEW, 101, 102])
    assert trail.propose(2).tokens == [NEW, 103]
    trail.commit(7)
    assert trail.propose(3).tokens == [103, 7, 104]


def test_replacements_are_shared_between_trails() -> None:
    replacements = Replacements()
    commit(trail_in([100, 7, 101, 102], 1, replacements), [NEW, 101, 102])
    assert trail_in([50, 7, 51], 1, replacements).propose(2).tokens == [NEW, 51]


def test_a_text_that_shares_nothing_more_with_the_source_is_lost() -> None:
    trail = trail_in(SOURCE, 10)
    commit(trail, [NEW] * 20)
    assert not trail.is_lost
    assert trail.propose(3) == ([], 0)
    commit(trail, [NEW] * 400)
    assert trail.is_lost


def test_behind_a_long_insertion_it_takes_two_tokens_of_the_source_to_go_on() -> None:
    trail = trail_in(SOURCE, 10)
    commit(trail, [NEW] * 150)
    commit(trail, [SOURCE[10]])
    assert trail.propose(3).tokens == []
    commit(trail, [SOURCE[11]])
    assert trail.propose(3).tokens == list(SOURCE[12:15])


def test_the_end_of_the_source_ends_the_guess() -> None:
    trail = trail_in(SOURCE, len(SOURCE) - 1)
    assert trail.propose(5).tokens == SOURCE[-1:]
    trail.commit(SOURCE[-1])
    assert trail.propose(5).tokens == []


def test_of_two_known_replacements_the_longer_one_is_made() -> None:
    replacements = Replacements()
    replacements.learn([7], [1])
    replacements.learn([7, 8], [2])
    assert replacements.find([7, 8, 9]) == ((7, 8), (2,))
    assert replacements.find([7, 9]) == ((7,), (1,))
    assert replacements.find([0, 7, 9], 1) == ((7,), (1,))
    replacements.forget([7])
    assert replacements.find([7, 9]) is None


def test_insertions_deletions_and_rewritten_lines_are_no_replacements() -> None:
    replacements = Replacements()
    replacements.learn([], [1])
    replacements.learn([1], [])
    replacements.learn([2] * (LONGEST_REPLACEMENT + 1), [1])
    assert replacements.find([1]) is None
    assert replacements.find([2] * (LONGEST_REPLACEMENT + 1)) is None


def test_the_oldest_replacements_are_forgotten_first() -> None:
    replacements = Replacements()
    for token in range(MOST_REPLACEMENTS + 1):
        replacements.learn([token], [500])
    assert replacements.find([0]) is None
    assert replacements.find([1]) == ((1,), (500,))


@given(st.lists(st.integers(0, 3), max_size=60), st.lists(st.integers(0, 3), max_size=60), st.integers(1, 9))
def test_whatever_follows_a_guess_is_no_longer_than_asked_for(source: list[int], text: list[int], limit: int) -> None:
    trail = trail_in(source, 3)
    for token in text:
        trail.commit(token)
        tokens, evidence = trail.propose(limit)
        assert len(tokens) <= limit
        assert evidence >= 0


def test_a_change_in_a_text_that_copies_itself_is_no_place_to_go_on_from() -> None:
    text = SOURCE[:10]

    def read(position: int, count: int) -> list[int]:
        return text[position : position + count]

    trail = CopyTrail(read, 4, 8, Replacements(), text_end=len(text))
    text.append(NEW)
    trail.commit(NEW)
    assert trail.propose(3).tokens == SOURCE[5:8]
