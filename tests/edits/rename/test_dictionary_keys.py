"""A field of a TypedDict is a key: it is renamed in texts, and never behind a dot."""

from pathlib import Path

from khepri.edits.rename.rename import rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

HOME = """from typing import TypedDict


class Base(TypedDict):
    id: int


class Row(Base, total=False):
    {0}: int


def make(row: Row, other, rows: list[Row]) -> Row:
    row["{0}"] = row.get("{0}", 0) + row["id"]
    new: Row = {{"{0}": 1, "id": 2}}
    if "{0}" in row and other["amount"] and rows[0]["amount"]:
        return Row({0}=other.amount, id=1)
    return {{"{0}": new["{0}"], "id": 1}}
"""


def test_a_key_is_renamed_where_the_code_says_what_the_dictionary_is_and_told_elsewhere(tmp_path: Path) -> None:
    (tmp_path / "a.py").write_text(HOME.format("amount"), encoding="utf-8")
    done = rename(Workspace(Repository.open(tmp_path)), "a.py", "Row.amount", "count_of")
    assert [each.new_text for each in done.changes.files] == [HOME.format("count_of")]
    assert done.notes == ("amount also stands in strings or comments of 1 line, which were left: a.py:15",)
