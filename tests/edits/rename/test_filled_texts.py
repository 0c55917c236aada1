"""A text that is filled in by a renamed name, or that shows it, is told."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import rename_parameter
from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = "class P:\n    def __init__(self):\n        self.name = 1\n\n\ndef show(p: P, o: object) -> object:\n    {0}\n"


def notes(root: Path, line: str) -> tuple[str, ...]:
    (root / "m.py").write_text(HOME.replace("{0}", line), encoding="utf-8")
    return rename(Workspace(Repository.open(root)), "m.py", "P.name", "title").notes


@pytest.mark.parametrize(
    "line",
    [
        "return '{name}'.format(**vars(p))",
        "return '{name!r:>4}'.format_map(vars(p))",
        "return '{0.name}'.format(p)",
        "return '{p.kind.name[0]}'.format(p=p)",
        "return '%(name)s' % vars(p)",
        "return string.Template('${name}').substitute(vars(p))",
        "line = '{name}'; return line",
        "return Mock(**{'name.return_value': 1, 'a.name.b.side_effect': o})",
        "return [getattr(p, each) for each in 'kind name'.split()]",
    ],
)
def test_a_text_that_is_filled_with_a_renamed_attribute_is_told(tmp_path: Path, line: str) -> None:
    assert notes(tmp_path, line) == (
        "name is filled in or looked for by a text at m.py:7, which was left: see whether title should be there",
    )


@pytest.mark.parametrize(
    "line",
    [
        "return '{name}'.format(name=o)",
        "line = '{name}'; return line.format(name=o)",
        "return '{{name}}'.format(**vars(o))",
        "return '{names}'.format(**vars(o))",
        "return o.get('/users/{name}')",
        "return '%(name)s' % {'name': o}",
        "return f'{p.name}'",
    ],
)
def test_a_text_that_is_filled_otherwise_is_not_told(tmp_path: Path, line: str) -> None:
    assert not [note for note in notes(tmp_path, line) if "filled" in note]


def test_an_f_string_that_shows_the_name_itself_is_told(tmp_path: Path) -> None:
    assert notes(tmp_path, "return f'{o} {p.name = }'") == (
        "an f-string shows the name itself, with =, and so says title now: m.py:7",
    )
    (tmp_path / "m.py").write_text("def f(name):\n    return f'{name=} {1}'\n", encoding="utf-8")
    done = rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", "f", "name", "title")
    assert done.notes == ("an f-string shows the name itself, with =, and so says title now: m.py:2",)


def test_an_f_string_that_only_holds_the_value_is_not_told(tmp_path: Path) -> None:
    assert notes(tmp_path, "return f'name={p.name!r}'") == ()
