"""Questions about what was said are told from those about the repository."""

import pytest

from khepri.agent.recall import asks_about_talk


@pytest.mark.parametrize(
    "question",
    [
        "Which file did I ask about first?",
        "What have you told me about Client?",
        "what was my last question",
        "Repeat what you just said.",
        "Sum up our conversation.",
        "We discussed a limit: which one?",
    ],
)
def test_a_question_about_what_was_said_is_known_for_it(question: str) -> None:
    assert asks_about_talk(question)


@pytest.mark.parametrize(
    "question",
    [
        "Where does Conversation end?",
        "What does the client say to a server that has said no?",
        "Why did I get ConnectTimeout?",
        "Have you a test for retry?",
        "Which message is the first question of the prompt?",
    ],
)
def test_a_question_about_the_code_is_none(question: str) -> None:
    assert not asks_about_talk(question)
