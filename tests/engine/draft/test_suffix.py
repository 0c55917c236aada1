import time
from collections.abc import Sequence
from statistics import median

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from khepri.engine.draft.drafter import Draft, Drafter
from khepri.engine.draft.repository_index import RepositoryIndex
from khepri.engine.draft.suffix import SuffixDrafter
from khepri.engine.request import DrafterName, Request

FUNCTION = list(range(100, 140))
tokens_of_few_kinds = st.lists(st.integers(0, 3), max_size=40)


def index_of(*files: Sequence[int]) -> RepositoryIndex:
    index = RepositoryIndex.build([np.array(file, dtype=np.uint32) for file in files], bytes(32))
    assert index is not None
    return index


def started(prompt: Sequence[int], index: RepositoryIndex | None = None) -> SuffixDrafter:
    drafter = SuffixDrafter(lambda: index)
    drafter.start(request(prompt))
    return drafter


def request(prompt: Sequence[int]) -> Request:
    return Request(tuple(prompt), max_tokens=1)


def proposed(drafter: Drafter, limit: int = 4) -> tuple[int, ...] | None:
    draft = drafter.propose(limit)
    return None if draft is None else draft.tokens


def test_what_followed_before_is_proposed_with_the_length_of_the_match() -> None:
    assert started([5, 1, 2, 3, 4, 9, 1, 2]).propose(2) == Draft((3, 4), DrafterName.SUFFIX, 2)


def test_a_token_never_seen_before_proposes_nothing() -> None:
    assert proposed(started([1, 2, 3])) is None
    assert proposed(started([])) is None


def test_the_most_frequent_continuation_wins_and_of_equals_the_latest() -> None:
    assert proposed(started([1, 7, 1, 7, 1, 8, 1]), 1) == (7,)
    assert proposed(started([1, 7, 1, 8, 1]), 1) == (8,)


def test_a_repetition_is_continued_beyond_the_end_of_the_text() -> None:
    assert proposed(started([1, 2, 3, 1, 2, 3]), 8) == (1, 2, 3, 1, 2, 3, 1, 2)


def test_the_repository_is_used_when_the_conversation_knows_nothing_of_the_kind() -> None:
    assert proposed(started([50, 51, *FUNCTION[:8]], index_of(FUNCTION))) == tuple(FUNCTION[8:12])


def test_the_conversation_is_preferred_to_a_match_of_equal_length_in_the_repository() -> None:
    edited = [*FUNCTION[:8], 1, 2, 3, 4]
    assert proposed(started([*edited, *FUNCTION[:8]], index_of(FUNCTION))) == (1, 2, 3, 4)


def test_an_index_that_appears_later_is_used_from_then_on() -> None:
    indices: list[RepositoryIndex] = []
    drafter = SuffixDrafter(lambda: indices[-1] if indices else None)
    drafter.start(request([50, *FUNCTION[:8]]))
    assert proposed(drafter) is None
    indices.append(index_of(FUNCTION))
    assert proposed(drafter) == tuple(FUNCTION[8:12])


def test_a_copy_is_followed_past_a_replaced_token() -> None:
    for drafter in (started([*FUNCTION, 50, *FUNCTION[:8]]), started([50, *FUNCTION[:12]], index_of(FUNCTION))):
        at = drafter.propose(1)
        assert at is not None
        place = FUNCTION.index(at.tokens[0])
        drafter.commit([77])
        assert proposed(drafter) == tuple(FUNCTION[place + 1 : place + 5])
        drafter.commit(FUNCTION[place + 1 : place + 5])
        assert proposed(drafter) == tuple(FUNCTION[place + 5 : place + 9])


def test_a_renamed_name_is_expected_wherever_the_copy_has_the_old_one() -> None:
    head = FUNCTION[:8]
    drafter = started([*head, 7, 14, 15, 16, 7, 17, 18, 19, 50, *head])
    assert proposed(drafter, 2) == (7, 14)
    drafter.commit([99, 14, 15])
    assert proposed(drafter, 4) == (16, 99, 17, 18)


def test_a_longer_match_elsewhere_ends_the_copy() -> None:
    elsewhere = [60, 61, 62, 63, 64, 65, 66]
    drafter = started([*elsewhere, *FUNCTION, 50, *FUNCTION[:8]])
    assert proposed(drafter, 1) == (FUNCTION[8],)
    drafter.commit(elsewhere[:5])
    assert proposed(drafter, 2) == (65, 66)


@given(tokens_of_few_kinds, tokens_of_few_kinds, tokens_of_few_kinds)
def test_a_prompt_that_extends_what_was_seen_is_as_good_as_a_fresh_start(
    prompt: list[int], reply: list[int], rest: list[int]
) -> None:
    kept = started(prompt)
    kept.commit(reply)
    kept.start(request([*prompt, *reply, *rest]))
    assert kept.propose(8) == started([*prompt, *reply, *rest]).propose(8)


@given(tokens_of_few_kinds, tokens_of_few_kinds)
def test_another_prompt_begins_anew(first: list[int], second: list[int]) -> None:
    drafter = started([9, *first])
    drafter.propose(4)
    drafter.start(request([8, *second]))
    assert drafter.propose(8) == started([8, *second]).propose(8)


@given(tokens_of_few_kinds, tokens_of_few_kinds, st.lists(tokens_of_few_kinds, max_size=3), st.integers(1, 8))
def test_a_draft_is_never_empty_never_too_long_and_never_without_evidence(
    prompt: list[int], reply: list[int], files: list[list[int]], limit: int
) -> None:
    drafter = started(prompt, index_of(*files))
    known = {*prompt, *reply, *(token for file in files for token in file)}
    for token in reply:
        draft = drafter.propose(limit)
        assert draft is None or (1 <= len(draft.tokens) <= limit and draft.evidence >= 1)
        assert draft is None or set(draft.tokens) <= known
        drafter.commit([token])


def test_a_closed_drafter_has_forgotten_everything() -> None:
    drafter = started([1, 2, 1])
    drafter.close()
    drafter.close()
    assert proposed(drafter) is None


@pytest.mark.slow
def test_a_step_with_five_million_tokens_of_repository_takes_less_than_a_millisecond_of_the_processor() -> None:
    # Frequent tokens have many occurrences, rare ones take a deep search; as in a text, frequencies fall as 1/rank.
    random = np.random.default_rng(7)
    text = np.minimum(random.zipf(1.2, 5_000_000), 150_000).astype(np.uint32)
    index = RepositoryIndex.build([text], bytes(32))
    assert index is not None
    drafter = started(text[:4_000].tolist(), index)
    steps_ms = []
    for token in text[1_000_000:1_000_500].tolist():
        begun = time.thread_time()
        drafter.commit([token])
        drafter.propose(16)
        steps_ms.append((time.thread_time() - begun) * 1000)
    assert median(steps_ms) < 1


def test_a_draft_can_go_on_from_tokens_that_are_not_there_yet() -> None:
    drafter = started([1, 2, 3, 4, 9, 1])
    ahead = drafter.propose(4, (2,))
    assert ahead is not None
    assert (ahead.tokens, ahead.evidence) == ((3, 4, 9, 1), 2)
    assert drafter.propose(4, (8,)) is None
    assert proposed(drafter) == (2, 3, 4, 9), "supposing changes nothing"
