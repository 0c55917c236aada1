"""What a decorator, or pytest, names is renamed with the parameter, or keeps it from being renamed."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.refusal import EditRefusedError
from khepri.edits.rename.rename import Refactoring
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TABLE = """import pytest


@pytest.mark.parametrize({0}, [(1, 2)])
@pytest.mark.parametrize("c", ["b"], ids=["b"])
def test_f(b, a, c, given, rest=1):
    assert a < b and rest
"""


def workspace(root: Path, text: str) -> Workspace:
    (root / "test_a.py").write_text(text, encoding="utf-8")
    return Workspace(Repository.open(root))


def text_of(done: Refactoring) -> str:
    return done.changes.files[0].new_text


@pytest.mark.parametrize("names", ['"a,b"', '("a", "b")', "[\"a\", 'b']", 'argnames="a, b", argvalues='])
def test_a_table_of_cases_names_the_parameter_as_it_is_called_now(tmp_path: Path, names: str) -> None:
    text = TABLE.format(names).replace("argvalues=, ", "argvalues=")
    done = rename_parameter(workspace(tmp_path, text), "test_a.py", "test_f", "b", "right")
    renamed = names.replace("b", "right")
    wanted = TABLE.format(renamed).replace("argvalues=, ", "argvalues=")
    assert text_of(done) == wanted.replace("(b, a", "(right, a").replace("< b", "< right")
    with pytest.raises(EditRefusedError, match="parametrize"):
        remove_parameter(workspace(tmp_path, text.replace("a < b", "a")), "test_a.py", "test_f", "b")


def test_what_pytest_passes_keeps_its_name_and_is_told_when_it_goes(tmp_path: Path) -> None:
    text = TABLE.format('"a,b"')
    with pytest.raises(EditRefusedError, match="pytest passes what has this name"):
        rename_parameter(workspace(tmp_path, text), "test_a.py", "test_f", "given", "new")
    assert "rest" not in text_of(rename_parameter(workspace(tmp_path, text), "test_a.py", "test_f", "rest", "new"))
    done = remove_parameter(workspace(tmp_path, text), "test_a.py", "test_f", "given")
    assert any("the fixture given is not set up" in note for note in done.notes)


@pytest.mark.parametrize(
    "decorator", ['@click.option("--dry-run")', '@app.get("/x/{dry_run}")', "@given(dry_run=booleans())"]
)
def test_what_a_decorator_passes_by_name_keeps_it(tmp_path: Path, decorator: str) -> None:
    text = f"{decorator}\ndef f(dry_run, other):\n    return dry_run\n"
    with pytest.raises(EditRefusedError, match="names it"):
        rename_parameter(workspace(tmp_path, text), "test_a.py", "f", "dry_run", "new")
    assert "new" in text_of(rename_parameter(workspace(tmp_path, text), "test_a.py", "f", "other", "new"))


@pytest.mark.parametrize(
    ("path", "text", "symbol", "name"),
    [
        ("test_a.py", "def test_f(*, tmp_path): ...\n", "test_f", "tmp_path"),
        ("test_a.py", "class TestA:\n    def test_f(self, capsys): ...\n", "TestA.test_f", "capsys"),
        ("check.py", "import pytest\n\n\ndef test_f(tmp_path): ...\n", "test_f", "tmp_path"),
        ("plugin.py", "import pytest\n\n\n@pytest.fixture\ndef f(request): ...\n", "f", "request"),
        ("conftest.py", "def pytest_configure(config): ...\n", "pytest_configure", "config"),
    ],
)
def test_what_pytest_passes_from_elsewhere_keeps_its_name(
    tmp_path: Path, path: str, text: str, symbol: str, name: str
) -> None:
    (tmp_path / path).write_text(text, encoding="utf-8")
    with pytest.raises(EditRefusedError, match="pytest passes what has this name"):
        rename_parameter(Workspace(Repository.open(tmp_path)), path, symbol, name, "other")
