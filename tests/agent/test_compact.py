"""What is told instead of a conversation: the model's own words, and from the record what it may have forgotten."""

from khepri.agent.compact import own_words, told_again
from khepri.agent.task import Exchange

EXCHANGES = [Exchange(f"Where is part {n}?", f"It is in `{n}.py`, " + "and " * 60, (f"{n}.py",)) for n in range(6)]


def count_words(text: str) -> int:
    return len(text.split())


def test_the_questions_and_how_the_last_answers_began_are_told_again() -> None:
    told = told_again("All is well.", EXCHANGES, count_words, 1000)
    assert "All is well." in told
    assert all(exchange.question in told for exchange in EXCHANGES)
    assert ["You said: It is in `0.py`" in told, "You said: It is in `5.py`" in told] == [False, True]
    assert "0.py, 1.py, 2.py, 3.py, 4.py, 5.py" in told
    assert len(told) < sum(len(exchange.answer) for exchange in EXCHANGES)


def test_without_room_answers_are_left_out_first_and_then_the_earliest_questions() -> None:
    whole = count_words(told_again("All is well.", EXCHANGES, count_words, 1000))
    for most in range(whole, 25, -1):
        told = told_again("All is well.", EXCHANGES, count_words, most)
        assert count_words(told) <= most
        assert EXCHANGES[-1].question in told
        assert EXCHANGES[0].question in told or "You said" not in told


def test_a_summary_that_copies_what_stood_around_the_one_before_is_cut_to_its_own_words() -> None:
    before = told_again("The limit is three.", EXCHANGES, count_words, 1000)
    assert own_words(f"{before}\n\nWhere is retry?\nSummary of") == "The limit is three."
    assert own_words("The limit is three.") == "The limit is three."
    assert own_words(told_again("", [], count_words, 1000)) == ""
