"""Names in a message: what they stand for when it is sent, and why something is not looked at."""

import subprocess
from pathlib import Path

import pytest

from khepri.agent.looks import looks
from khepri.agent.mentioned import Resolved, mentioned_words, resolve
from khepri.agent.task import Question
from khepri.repo.root import Repository


@pytest.fixture
def repository(tmp_path: Path) -> Repository:
    subprocess.run(["git", "init", "-q", tmp_path], check=True)
    for name in ("a.py", "what?", "two words.py", "src/b.py", "left.log"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text("v = 1\n", encoding="utf-8")
    (tmp_path / ".env").write_text("KEY=1\n", encoding="utf-8")
    (tmp_path / ".gitignore").write_text("*.log\n", encoding="utf-8")
    (tmp_path / ".khepriignore").write_text("hidden.py\n", encoding="utf-8")
    (tmp_path / "hidden.py").write_text("", encoding="utf-8")
    (tmp_path / "empty").mkdir()
    opened = Repository.open(tmp_path)
    opened.files()
    return opened


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("see @a.py", ("a.py",)),
        ("(@a.py) @a.py, and @src/b.py. me@a.py", ("a.py", "src/b.py")),
        ("why @what?", ("what?",)),
        ('@"two words.py" is', ("two words.py",)),
        ("@a.py#v, please", ("a.py#v",)),
        ("@./a.py and @/src/b.py", ("a.py", "src/b.py")),
        ("@src, @src/ and @./src.", ("src/",)),
    ],
)
def test_a_name_stands_for_what_is_there_whatever_follows_it(
    repository: Repository, text: str, names: tuple[str, ...]
) -> None:
    found = resolve(repository, mentioned_words(text))
    assert found.names == names
    assert not found.problem


def test_a_file_that_was_made_meanwhile_is_found_and_one_that_was_hidden_meanwhile_is_not(
    repository: Repository,
) -> None:
    (repository.root / "new.py").write_text("v = 2\n", encoding="utf-8")
    (repository.root / ".khepriignore").write_text("a.py\n", encoding="utf-8")
    found = resolve(repository, ("new.py", "a.py"))
    assert found.names == ("new.py",)
    assert found.problem == "not looked at: a.py is not shown: .khepriignore hides it"


@pytest.mark.parametrize(
    ("word", "reason"),
    [
        ("nothere.py,", "nothere.py does not exist"),
        ("src/nothere", "src/nothere does not exist"),
        (".env", ".env is never read: it may hold secrets"),
        ("hidden.py", "hidden.py is not shown: .khepriignore hides it"),
        ("left.log", "left.log is ignored by .gitignore or has a name that cannot be shown"),
        ("empty", "empty/ holds no visible file: it is empty or ignored"),
        ("..", ".. is outside the repository"),
        (".git", ".git: git's own folder is not read"),
        ("\x07x.py", "\\x07x.py does not exist"),
    ],
)
def test_what_is_not_looked_at_is_told_with_the_reason(repository: Repository, word: str, reason: str) -> None:
    found = resolve(repository, (word, "a.py"))
    assert found.names == ("a.py",)
    assert found.problem == f"not looked at: {reason}"


def test_a_decorator_in_pasted_code_is_no_name(repository: Repository) -> None:
    words = mentioned_words('@property\n@app.get("/x.py")\n@pytest.fixture\n@types/node @a.py')
    assert resolve(repository, words) == Resolved(("a.py",))


def test_many_words_that_name_nothing_are_not_told_one_by_one(repository: Repository) -> None:
    found = resolve(repository, [f"name{number}.py" for number in range(30)])
    assert found.problem.endswith("name4.py does not exist; and 25 more")


def test_nothing_is_looked_at_where_the_rules_cannot_be_read(repository: Repository) -> None:
    (repository.root / ".khepriignore").write_text("[z-a]\n", encoding="utf-8")
    found = resolve(repository, ("a.py",))
    assert not found.names
    assert found.problem.startswith("not looked at: a.py: .khepriignore is no pattern")


def test_a_folder_is_looked_at_by_its_list(repository: Repository) -> None:
    (named,) = looks(Question("", mentions=resolve(repository, ("src",)).names), ())
    assert (named.name, named.arguments) == ("list", {"path": "src"})
