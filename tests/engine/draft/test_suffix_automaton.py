from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.draft.suffix_automaton import MOST_UPDATES, SuffixAutomaton

texts = st.lists(st.integers(0, 3), max_size=MOST_UPDATES)


def longest_match(text: Sequence[int]) -> tuple[int, int]:
    """The oracle: length of the longest end of ``text`` that stands earlier too, and the index after its last place."""
    for length in range(len(text) - 1, 0, -1):
        for start in range(len(text) - length - 1, -1, -1):
            if text[start : start + length] == text[len(text) - length :]:
                return length, start + length
    return 0, 0


@given(texts)
def test_after_every_token_the_match_is_the_longest_one_and_its_place_the_latest(text: list[int]) -> None:
    automaton = SuffixAutomaton()
    for index, token in enumerate(text):
        automaton.push(token)
        assert automaton.match == longest_match(text[: index + 1])


@given(texts)
def test_successors_are_counted_at_every_earlier_place_of_the_match(text: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    length = automaton.match.length
    end = text[len(text) - length :]
    places = [i for i in range(length, len(text)) if length and text[i - length : i] == end]
    expected = {
        token: (sum(text[i] == token for i in places), max(i for i in places if text[i] == token))
        for token in {text[i] for i in places}
    }
    assert {each.token: (each.occurrences, each.position) for each in automaton.successors()} == expected


@given(st.lists(st.integers(0, 1), max_size=200))
def test_beyond_the_bound_of_updates_the_length_is_exact_and_the_place_a_true_one(text: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    length, follows = automaton.match
    assert length == longest_match(text)[0]
    assert text[follows - length : follows] == text[len(text) - length :]
    assert all(text[each.position] == each.token for each in automaton.successors())


def test_a_text_of_one_token_keeps_the_number_of_states_linear() -> None:
    automaton = SuffixAutomaton([7] * 20_000)
    assert automaton.match.length == 19_999
    assert automaton.tokens == [7] * 20_000


@given(texts, st.lists(st.integers(0, 4), min_size=1, max_size=5))
def test_looking_ahead_finds_what_stands_in_the_text_and_leaves_it_as_it_was(text: list[int], ahead: list[int]) -> None:
    automaton = SuffixAutomaton(text)
    before = (automaton.match, automaton.successors(), list(automaton.tokens))
    whole = text + ahead
    ends = [whole[len(whole) - n :] for n in range(len(whole), 0, -1)]
    stands = [end for end in ends if any(text[i : i + len(end)] == end for i in range(len(text)))]
    match, successors = automaton.after(ahead)
    assert match.length == (len(stands[0]) if stands else 0)
    assert text[match.follows - match.length : match.follows] == (stands[0] if stands else [])
    assert {each.token for each in successors} == {
        text[i + match.length]
        for i in range(len(text) - match.length)
        if stands and text[i : i + match.length] == stands[0]
    }
    assert all(text[each.position] == each.token for each in successors)
    assert (automaton.match, automaton.successors(), automaton.tokens) == before
