"""A method that a class has in the shape of a Protocol is told where the Protocol's has a parameter changed."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

TEXT = """from typing import Protocol


class Sink(Protocol):
    def put(self, text, *, size=0): ...


class File:
    def put(self, text, *, size=0): ...


class Other:
    def put(self, text): ...


def use(sink: Sink):
    sink.put("a", size=1)
"""


@pytest.mark.parametrize(("symbol", "line"), [("Sink.put", 9), ("File.put", 5)])
def test_what_meets_a_protocol_and_still_takes_a_parameter_is_told(tmp_path: Path, symbol: str, line: int) -> None:
    (tmp_path / "m.py").write_text(TEXT, encoding="utf-8")
    note = (
        f"m.py:{line} takes size and was left: change it there too if it stands for m.py {symbol} or the other way "
        "round, without inheriting"
    )
    assert note in rename_parameter(Workspace(Repository.open(tmp_path)), "m.py", symbol, "size", "width").notes
    assert note in remove_parameter(Workspace(Repository.open(tmp_path)), "m.py", symbol, "size").notes
