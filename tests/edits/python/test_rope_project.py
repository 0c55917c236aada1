"""rope finds asynchronous methods as it finds others."""

from pathlib import Path

import pytest

from khepri.edits.parameters.parameters import remove_parameter, rename_parameter
from khepri.edits.rename.rename import Refactoring, rename
from khepri.edits.workspace import Workspace
from khepri.repo.root import Repository

LINK = '''class Link:
    """async def send is what it is for."""

    async def open(self, host, retries=1):
        return await self.send(host, 1)

    async def send(self, data, flags=0):
        async with self as link:
            return [part async for part in link.write(data)]

    @staticmethod
    async def connect(port=1):
        return port


class Loud(Link):
    async def send(self, data, flags=0):
        return await super().send(data)


async def main():
    loud = Loud()
    await Link.connect(port=2)
    return await loud.send(b"x")
'''
USE = """from link import Loud


async def send(host):
    await Loud().open(host)
    return await Loud().send(host)
"""


@pytest.fixture
def workspace(tmp_path: Path) -> Workspace:
    (tmp_path / "link.py").write_text(LINK, encoding="utf-8")
    (tmp_path / "use.py").write_text(USE, encoding="utf-8")
    return Workspace(Repository.open(tmp_path))


def texts(done: Refactoring) -> dict[str, str]:
    return {change.path: change.after.decode() for change in done.changes.files if change.after is not None}


@pytest.mark.parametrize("symbol", ["Link.send", "Loud.send"])
def test_an_asynchronous_method_is_renamed_with_those_that_override_it(workspace: Workspace, symbol: str) -> None:
    # The description says the name too, and no more than that.
    told = LINK.replace(".send(", ".write_all(").replace("async def send(", "async def write_all(")
    used = USE.replace(".send(", ".write_all(")
    assert texts(rename(workspace, "link.py", symbol, "write_all")) == {"link.py": told, "use.py": used}


def test_a_parameter_of_an_asynchronous_method_is_changed_with_its_calls(workspace: Workspace) -> None:
    done = texts(rename_parameter(workspace, "link.py", "Link.connect", "port", "number"))
    assert done == {"link.py": LINK.replace("port", "number")}
    done = texts(remove_parameter(workspace, "link.py", "Link.open", "retries"))
    assert done == {"link.py": LINK.replace("host, retries=1", "host")}


def test_an_asynchronous_method_loses_what_its_calls_pass(tmp_path: Path) -> None:
    text = "class A:\n    async def f(self, x, y=1): ...\n\n    async def g(self):\n        await self.f(1, 2)\n"
    (tmp_path / "a.py").write_text(text, encoding="utf-8")
    done = texts(remove_parameter(Workspace(Repository.open(tmp_path)), "a.py", "A.f", "y"))
    assert done == {"a.py": text.replace(", y=1", "").replace("f(1, 2)", "f(1)")}
