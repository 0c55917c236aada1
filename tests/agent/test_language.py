"""Questions are told by their language, whatever names of code stand in them."""

import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from khepri.agent.language import ENGLISH, language_of

ROOT = Path(__file__).parents[2]
QUESTIONS = ROOT / "tests" / "eval" / "questions.toml"


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
        ("Pourquoi fetch() lève ConnectTimeout ?", "French"),
        ("Danke, mehr Details bitte", "German"),
        ("Zeig mir alle Aufrufe von open_session", "German"),
        ("Muéstrame las llamadas a open_session", "Spanish"),
        ("Di nuovo, più breve", "Italian"),
        ("Explique o laço principal de app.py", "Portuguese"),
        ("Toon alle aanroepen van open_session", "Dutch"),
        ("Gdzie jest logika ponawiania?", "the language of the question"),
        ("Var finns logiken för omförsök?", "the language of the question"),
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
        "refactor SessionManager",
        "todo items",
        "continue",
        "no, in English",
        "bugs in de.py?",
        "Does it die in the des or the der of en-US?",
        "explain no-op e2e i18n",
        *(each["text"] for each in tomllib.loads(QUESTIONS.read_text(encoding="utf-8"))["question"]),
    ],
)
def test_a_question_in_english_or_of_nothing_but_names_is_in_english(question: str) -> None:
    assert language_of(question) is ENGLISH


def test_a_question_in_plain_english_loads_no_library() -> None:
    program = (
        "import sys; from khepri.agent.language import language_of; "
        "language_of('Where is the retry logic and what limits it?'); sys.exit('py3langid' in sys.modules)"
    )
    subprocess.run((sys.executable, "-c", program), cwd=ROOT, check=True)
