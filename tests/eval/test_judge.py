"""The judge of the evaluation, on answers as small models write them."""

import tomllib
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.eval.judge import named_files, read_files

FILES = ("httpx/_client.py", "httpx/_transports/default.py", "httpx/_api.py", "docs/_api.py")


@pytest.mark.parametrize(
    "answer",
    [
        "It is in httpx/_transports/default.py.",
        "See `default.py:147`, class HTTPTransport.",
        "**`_transports/default.py`** (lines 140-170)",
        "/tmp/copy/httpx/_transports/default.py holds it",
        "./httpx/_transports/default.py",
    ],
)
def test_a_path_or_an_unambiguous_tail_of_it_names_the_file(answer: str) -> None:
    assert named_files(answer, FILES) == {"httpx/_transports/default.py"}


@pytest.mark.parametrize(
    "answer",
    ["", "The default transport retries.", "see _api.py", "my_default.py", "xdefault.py", "default.pyi", "defaults/py"],
)
def test_a_word_an_ambiguous_name_or_a_longer_name_names_nothing(answer: str) -> None:
    assert named_files(answer, FILES) == frozenset()


def test_every_file_that_an_answer_names_is_counted() -> None:
    assert named_files("either _client.py or httpx/_api.py", FILES) == {"httpx/_client.py", "httpx/_api.py"}


def test_only_the_read_tool_counts_as_reading() -> None:
    steps: list[dict[str, object]] = [
        {"tool": "search", "arguments": {"path": "httpx/_api.py", "pattern": "retry"}},
        {"tool": "read", "arguments": {"path": "./httpx/_client.py", "start": 3}},
        {"tool": "read", "arguments": {"path": "httpx/missing.py"}},
        {"tool": "read", "arguments": None},
    ]
    assert read_files(steps, FILES) == {"httpx/_client.py"}


def test_every_question_names_files_that_exist_in_its_package() -> None:
    questions = tomllib.loads(Path(__file__).with_name("questions.toml").read_text(encoding="utf-8"))["question"]
    assert len({question["id"] for question in questions}) == len(questions) == 10
    for question in questions:
        spec = find_spec(question["package"])
        assert spec is not None
        assert spec.origin is not None
        parent = Path(spec.origin).parent.parent
        assert question["files"]
        assert all((parent / file).is_file() for file in question["files"]), question["id"]
