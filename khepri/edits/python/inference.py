"""Asks jedi, a library for static analysis, what an attribute is where the code around it does not say it.

jedi is shown a copy of the files that Khepri may read, as they are proposed, beside Python's own library: nothing else
of the repository, no configuration and no compiled module of it, and nothing of it is run. What it remembers lies in
that copy's folder, which goes when the work is over.
"""

import sys
import sysconfig
from collections.abc import Collection
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from tempfile import TemporaryDirectory
from types import TracebackType
from typing import TYPE_CHECKING, Final

from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.imports import Modules
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode

if TYPE_CHECKING:
    from jedi import Project
    from jedi.api.environment import Environment

_MOST_QUESTIONS: Final = 200
"""What is asked at most in one refactoring: a question takes 20 ms to a second."""


_PYTEST: Final = {
    "_pytest/fixtures.py": "def fixture(function=None, **options): ...\n",
    "_pytest/tmpdir.py": """from pathlib import Path

from _pytest.fixtures import fixture


@fixture
def tmp_path() -> Path: ...
""",
    "pytest/__init__.py": "from _pytest.fixtures import fixture\n",
}
"""As much of pytest as jedi has to see to know what a fixture returns: its names, by files."""


@dataclass(frozen=True)
class Place:
    """Where something is defined."""

    path: str
    """From the root; empty outside of the repository."""
    line: int
    """From 1."""


class Inference:
    """What jedi makes of one state of a workspace. A context manager; one thread; files are copied when first asked.

    Only one may be open at a time: where jedi keeps what it remembers is a setting of the whole process.
    """

    def __init__(self, workspace: Workspace) -> None:
        """Say what is to be looked at; nothing is read."""
        self._workspace, self._stack = workspace, ExitStack()
        self._classes = Classes(workspace)
        self._questions = 0
        self.places = cache(self._places)

    def __enter__(self) -> "Inference":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stack.close()

    def is_member_of(self, meant: Collection[Class], path: str, text: str, end: int, name: str) -> bool | None:
        """Tell if an attribute is defined in certain classes; None if nobody knows, or in others as well.

        Args:
            meant: The classes that define what is meant.
            path: A Python file.
            text: What is proposed for it, line by line.
            end: Where the name ends in that text, in characters.
            name: The attribute.
        """
        start = end - len(name)
        line, column = text.count("\n", 0, start) + 1, start - text.rfind("\n", 0, start) - 1
        places = self.places(path, line, column, name)
        owners = {self._classes.around(each.path, each.line) if each.path else None for each in places}
        of_them = {owner for owner in owners if owner in meant}
        return None if not owners or (of_them and owners != of_them) else bool(of_them)

    def _places(self, path: str, line: int, column: int, name: str) -> frozenset[Place]:
        """Return where a name is defined that is used at a place; empty if that cannot be told, or was asked too often.

        Args:
            path: A Python file.
            line: Its line, from 1.
            column: The first character of the name, from 0.
            name: What stands there; where something else does, nothing is told.
        """
        data = self._workspace.read(path)
        text = decode(data).text if data is not None else ""
        rows = text.split("\n")
        if self._questions >= _MOST_QUESTIONS or not rows[line - 1 : line]:
            return frozenset()
        if rows[line - 1][column : column + len(name)] != name:
            return frozenset()
        self._questions += 1
        from jedi import Script

        try:
            script = Script(code=text, path=self._root / path, project=self._project, environment=self._environment)
            found = script.goto(line, column, follow_imports=True)
            places = [self._place(each.module_path, each.line) for each in found]
            # For a property of an enum's member jedi shows what ``property`` itself is.
            is_property = any(each.full_name == "builtins.property" for each in found)
            return frozenset(places) if not is_property else frozenset()
        except Exception:
            # jedi meets code that it was not written for with errors of all kinds; then it does not know.
            return frozenset()

    def _place(self, path: Path | None, line: int | None) -> Place:
        is_inside = path is not None and path.is_relative_to(self._root)
        return Place(path.relative_to(self._root).as_posix() if is_inside and path is not None else "", line or 1)

    @cached_property
    def _root(self) -> Path:
        """The folder with the copy."""
        import parso.cache
        from jedi import settings

        folder = Path(self._stack.enter_context(TemporaryDirectory(prefix="khepri-"))).resolve()
        before = settings.cache_directory, settings.dynamic_params

        def leave() -> None:
            settings.cache_directory, settings.dynamic_params = before
            for trees in parso.cache.parser_cache.values():
                # What is not of the copy is Python's own, and as good next time.
                for copy in [each for each in trees if Path(each).is_relative_to(folder)]:
                    del trees[copy]

        self._stack.callback(leave)
        settings.cache_directory = str(folder / "jedi")
        # Who calls a function says what it is given here, and not what others give it.
        settings.dynamic_params = False
        for path, text in _PYTEST.items():
            _write(folder / "pytest" / path, text.encode())
        for path in self._workspace.files():
            data = self._workspace.read(path) if path.endswith(".py") else None
            if data is not None:
                _write(folder / "files" / path, data)
        return folder / "files"

    @cached_property
    def _project(self) -> "Project":
        from jedi import Project

        modules = Modules(self._workspace)
        tops = {_top(name, path) for name, path in modules.paths.items()}
        standard = [sysconfig.get_path("stdlib"), f"{sysconfig.get_path('platstdlib')}/lib-dynload"]
        paths = [str(self._root / top) for top in sorted(tops)]
        pytest = str(self._root.parent / "pytest")
        return Project(self._root, sys_path=[*paths, *standard, pytest], smart_sys_path=False)

    @cached_property
    def _environment(self) -> "Environment":
        from jedi import create_environment

        return create_environment(sys.executable, safe=False)


def _write(path: Path, data: bytes) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(data)


def _top(name: str, path: str) -> str:
    """Return the folder that a module of this name is imported from."""
    parts = path.removesuffix(".py").removesuffix("/__init__").split("/")
    return "/".join(parts[: len(parts) - len(name.split("."))])
