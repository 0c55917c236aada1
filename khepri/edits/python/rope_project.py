"""Opens a repository for rope so that it reads only what Khepri may read, runs nothing, and writes nothing.

As it comes, rope executes ``.ropeproject/config.py``, imports what ``[tool.rope]`` of a ``pyproject.toml`` names, keeps
a folder of its own in the workspace, and walks every file. None of that happens here: preferences are fixed, the files
are those that ``Repository`` lists, their text is decoded by ``khepri.repo.text``, and rope's changes are read off as
values and never performed.
"""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rope.base.change import Change, ChangeContents, CreateResource, MoveResource, RemoveResource
from rope.base.change import ChangeSet as RopeChanges
from rope.base.exceptions import RopeError
from rope.base.fscommands import unicode_to_file_data
from rope.base.prefs import ImportPrefs, Prefs
from rope.base.project import Project
from rope.base.pycore import _ModuleCache
from rope.base.pyobjectsdef import PyPackage

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, name_offset
from khepri.edits.python.package_names import PackageNames
from khepri.edits.python.rope_reading import mend_reading
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.text import decode

if TYPE_CHECKING:
    from rope.base.resources import File, Folder, Resource


# rope takes the names in ``__all__`` for uses: it imports ``__all__`` itself from module to module, and keeps imports
# of what has moved away. Under this name it leaves the list alone; ``khepri.edits.python.mentions`` keeps it right.
_PUBLIC: Final = "__all__"
_VEILED: Final = "__khepri_public_names__"
# rope looks for the definition of a method behind ``def`` and ``class`` at the beginning of a line, and so overlooks
# every ``async def``. Where names are looked for it is shown a plain ``def`` of the same length: whether a function is
# asynchronous says nothing about what its name means.
_ASYNC: Final = "async def "
_PLAIN: Final = "def\f\f\f\f\f\f "


class _ReadOnly:
    """File commands for rope that read decoded text and refuse everything else."""

    def __init__(self, workspace: Workspace, hides_async: bool) -> None:
        self._workspace = workspace
        self._hides_async = hides_async

    def read(self, path: str) -> bytes:
        relative = Path(path).relative_to(self._workspace.repository.root).as_posix()
        data = self._workspace.read(relative) or b""
        try:
            text = decode(data).text.replace(_PUBLIC, _VEILED)
            # rope decodes by the coding that a file declares, else as UTF-8, and this is what it decodes.
            return bytes(unicode_to_file_data(text.replace(_ASYNC, _PLAIN) if self._hides_async else text))
        except (ToolError, UnicodeEncodeError, LookupError):
            return data

    def refuse(self, *_: object) -> None:
        raise RopeError("nothing is written here")

    create_file = create_folder = move = remove = write = refuse


class _Standstill:
    """Tells rope that no file changes while it works: one refactoring sees one state, and a new file has none."""

    def get_indicator(self, resource: "Resource") -> tuple[float, int]:
        return (0.0, 0)


class _Package(PyPackage):  # type: ignore[misc]
    """A package with what its ``__init__.py`` binds, where rope has the modules of these names."""

    def _create_structural_attributes(self) -> dict[str, object]:
        names = self.pycore.project.package_names.over_modules(f"{self.resource.path}/__init__.py")
        return {name: each for name, each in super()._create_structural_attributes().items() if name not in names}


class _Modules(_ModuleCache):  # type: ignore[misc]
    def get_pymodule(self, resource: "Resource", force_errors: bool = False) -> object:
        if resource.is_folder() and resource not in self.module_map:
            self.module_map[resource] = _Package(self.pycore, resource, force_errors=force_errors)
            self.observer.add_resource(resource)
        return super().get_pymodule(resource, force_errors)


class _Project(Project):  # type: ignore[misc]
    def __init__(self, workspace: Workspace, hides_async: bool) -> None:
        self.package_names = PackageNames(workspace)
        self._visible = [path for path in workspace.files() if path.endswith(".py")]
        self._namespaces = workspace.namespaces
        super().__init__(str(workspace.repository.root), fscommands=_ReadOnly(workspace, hides_async), ropefolder=None)

    def _init_prefs(self, prefs: object) -> None:
        self.prefs = Prefs(
            ignored_resources=[],
            extension_modules=[],
            import_dynload_stdmods=False,
            automatic_soa=False,
            save_objectdb=False,
            save_history=False,
            ignore_syntax_errors=True,
            ignore_bad_imports=True,
            imports=ImportPrefs(preferred_import_style="from-global"),
        )
        self._init_other_parts()

    def _init_other_parts(self) -> None:
        super()._init_other_parts()
        self.pycore.observer.timekeeper = _Standstill()
        self.pycore.module_cache = _Modules(self.pycore)

    def _init_source_folders(self) -> None:
        """Nothing: where modules are looked for is told by ``get_source_folders``."""

    def get_files(self) -> "list[Resource]":
        return [self.get_file(path) for path in self._visible]

    def find_module(self, modname: str, folder: "Folder | None" = None) -> "Resource | None":
        """Find a module; one of the standard library's name in a package is not what a file beside it imports."""
        is_standard = modname.partition(".")[0] in sys.stdlib_module_names
        return super().find_module(modname, None if is_standard else folder)

    def get_python_path_folders(self) -> "list[Folder]":
        """Nothing outside the repository: what Khepri itself has installed is not what the repository runs with."""
        return []

    def get_source_folders(self) -> "list[Folder]":
        """Folders that hold a module or a package but are none themselves, found without walking hidden ones."""
        visible = set(self._visible)
        packages = {path.rpartition("/")[0] for path in visible if path.rpartition("/")[2] == "__init__.py"}
        tops = set()
        for path in visible:
            folder = path.rpartition("/")[0]
            while folder in packages or folder in self._namespaces:
                if folder not in packages:
                    tops.add(folder)
                folder = folder.rpartition("/")[0]
            tops.add(folder)
        return [self.get_folder(top) if top else self.root for top in sorted(tops)]


class RopeProject:
    """A repository as rope sees it. One thread; it remembers what it parsed, so one serves several refactorings."""

    def __init__(self, workspace: Workspace, *, hides_async: bool = False) -> None:
        """Open it; nothing is parsed yet.

        Args:
            workspace: What to refactor.
            hides_async: True to find asynchronous methods, where no code is made or put elsewhere.
        """
        mend_reading()
        self._workspace = workspace
        self.project = _Project(workspace, hides_async)

    def file(self, path: str) -> "File":
        """Return the file of a path from the root as rope's resource."""
        return self.project.get_file(path)

    def offset(self, target: Target) -> int:
        """Return where rope finds the name of a definition, in characters of the text that it sees."""
        return self.place(target.source.text, name_offset(target))

    def place(self, text: str, place: int) -> int:
        """Return where rope finds a place of a file's text, in characters."""
        return place + text.count(_PUBLIC, 0, place) * (len(_VEILED) - len(_PUBLIC))

    def unveiled(self, text: str, place: int) -> int:
        """Return where in a file's own text a place of rope's is: the other way round than ``place``."""
        veiled = text.replace(_PUBLIC, _VEILED)
        return place - veiled.count(_VEILED, 0, place) * (len(_VEILED) - len(_PUBLIC))

    def candidates(self, name: str) -> "list[File]":
        """Return the Python files that hold a name at all: what a refactoring of it need look at."""
        wanted = name.encode()
        return [self.file(path) for path in self.project._visible if wanted in (self._read(path) or b"")]

    def change_of(self, title: str, refactor: Callable[[], RopeChanges]) -> ChangeSet:
        """Run a refactoring of rope's and return what it would change.

        Raises:
            EditRefusedError: rope refuses, or would change what Khepri may not.
        """
        try:
            with_rope = refactor()
        except RopeError as error:
            raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{title}: {_words(error)}") from error
        except (
            SyntaxError,
            RecursionError,
            AttributeError,
            TypeError,
            ValueError,
            IndexError,
            KeyError,
            AssertionError,
        ) as error:
            # rope meets code that it was not written for with errors of all kinds; nothing has been changed then.
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE, f"{title}: the refactoring library failed ({type(error).__name__}: {error})"
            ) from error
        files: dict[str, FileChange] = {}
        for change in _flat(with_rope):
            self._add(change, files)
        visible = set(self._workspace.files())
        for path, change in files.items():
            if change.before is not None and path not in visible:
                raise EditRefusedError(Refusal.HIDDEN, f"{title} would change {path}, which Khepri does not read")
            if change.before is None and self._workspace.repository.would_be_ignored(path):
                raise EditRefusedError(Refusal.HIDDEN, f"{title} would make {path}, which .gitignore leaves out")
        return change_set(title, files.values())

    def _add(self, change: Change, files: dict[str, FileChange]) -> None:
        if isinstance(change, ChangeContents):
            path = change.resource.path
            known = files.get(path)
            before = known.before if known else self._read(path)
            base = known.after if known and known.after is not None else before
            text = change.new_contents.replace(_VEILED, _PUBLIC).replace(_PLAIN, _ASYNC)
            after = text.encode() if base is None else replace_text(base, text, path)
            files[path] = FileChange(path, before, after)
        elif isinstance(change, MoveResource):
            for old in self._files_of(change.resource):
                new = change.new_resource.path + old.removeprefix(change.resource.path)
                known = files.get(old)
                before = known.before if known else self._read(old)
                after = known.after if known else before
                files[old] = FileChange(old, before, None)
                files[new] = FileChange(new, self._read(new), after)
        elif isinstance(change, CreateResource):
            if not change.resource.is_folder():
                files.setdefault(change.resource.path, FileChange(change.resource.path, None, b""))
        elif isinstance(change, RemoveResource):
            for old in self._files_of(change.resource):
                files[old] = FileChange(old, self._read(old), None)

    def _files_of(self, resource: "Resource") -> Sequence[str]:
        if not resource.is_folder():
            return [resource.path]
        return [path for path in self._workspace.files() if path.startswith(f"{resource.path}/")]

    def _read(self, path: str) -> bytes | None:
        return self._workspace.read(path)


def _flat(change: Change) -> list[Change]:
    if isinstance(change, RopeChanges):
        return [each for inner in change.changes for each in _flat(inner)]
    return [change]


def _words(error: RopeError) -> str:
    text = " ".join(str(error).split())
    return text[:1].lower() + text[1:].rstrip(".") if text else type(error).__name__
