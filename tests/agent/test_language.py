"""Questions are told by their language, whatever names of code stand in them."""

import tomllib
from pathlib import Path

import pytest

from khepri.agent.language import ENGLISH, language_of

QUESTIONS = Path(__file__).parent.parent / "eval" / "questions.toml"


@pytest.mark.parametrize(
    ("question", "language"),
    [
        ("Où se trouve la logique de retry et qu'est-ce qui la limite ?", "French"),
        ("Comment fonctionne Client?", "French"),
        ("Wie wird ein Timeout eingestellt?", "German"),
        ("Was macht send?", "German"),
        ("¿Qué hace la clase `the.Client`?", "Spanish"),
        ("Dove viene impostato il timeout?", "Italian"),
        ("Onde está o limite de tentativas?", "Portuguese"),
        ("Waar wordt de timeout ingesteld?", "Dutch"),
        ("重试逻辑在哪里?", "the language of the question"),
        ("Где логика повторов?", "the language of the question"),
    ],
)
def test_a_question_in_another_language_is_known_for_it(question: str, language: str) -> None:
    assert language_of(question).name == language


@pytest.mark.parametrize(
    "question",
    [
        "",
        "go on",
        "Explain Client.send",
        "Describe `où est la`",
        "What is the naïve approach?",
        "Comment retry.py",
        "bugs in de.py?",
        "Does it die in the des or the der of en-US?",
        "explain no-op e2e i18n",
        *(each["text"] for each in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"]),
    ],
)
def test_a_question_in_english_or_of_nothing_but_names_is_in_english(question: str) -> None:
    assert language_of(question) is ENGLISH
