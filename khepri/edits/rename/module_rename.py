"""Renames a Python module within its folder: its file, and every import, dotted path and text that means it."""

import os
import re
import sys
from collections.abc import Mapping
from pathlib import PurePosixPath
from typing import Final

from khepri.edits.change import FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.files import mode_of
from khepri.edits.locate import Source, read_python
from khepri.edits.python.imports import Modules, check_imports, defined_names, parsed
from khepri.edits.python.mentions import rename_mentions
from khepri.edits.python.other_files import note_on_module
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.module_uses import ModuleName, ModuleUses
from khepri.edits.rename.rename import Refactoring, check_name, refuse_special
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace
from khepri.errors import ToolError
from khepri.repo.text import text_or_nothing

_FOUND_BY_NAME: Final = frozenset({"conftest", "setup", "manage", "noxfile", "sitecustomize", "usercustomize"})
_REQUIREMENTS: Final = re.compile(
    r"(?:^|/)(?:pyproject\.toml|setup\.(?:cfg|py)|Pipfile|requirements[\w/.-]*\.(?:txt|in))$"
)
_TEST: Final = re.compile(r"test_\w+|\w+_test")


def rename_module(workspace: Workspace, path: str, new_name: str) -> Refactoring:
    """Rename a module, and what means it in every Python file. A module that merely has its bare name is left.

    Where the bare name may stand for something else as well, a file keeps it: ``from pkg import new as old``.

    Raises:
        EditRefusedError: It is no module of its own, the new name is taken, or what is meant cannot be told.
    """
    source = read_python(workspace, path)
    check_name(new_name)
    modules = Modules(workspace)
    module = ModuleName(modules.name(source.path), new_name)
    _refuse_found_by_name(source.path, module)
    new_path = str(PurePosixPath(source.path).with_name(f"{new_name}.py"))
    _refuse_taken(workspace, new_path)
    uses, unread = _uses_of(workspace, modules, module)
    notes = _checked(workspace, modules, source, module, uses)
    reached = {each for use in uses.values() for each in use.reached()}
    names = frozenset(defined_names(source.data))
    changes = []
    for file, use in uses.items():
        own = modules.name(file.removesuffix("i"))
        is_parent = own == module.parent
        text = use.renamed(is_reached=not is_parent and f"{own}.{module.bare}" in reached, is_parent=is_parent)
        text = _with_texts(text, module, names, is_parent=is_parent)
        before = workspace.read(file)
        assert before is not None
        if file in (source.path, f"{source.path}i"):
            moved = new_path + file.removeprefix(source.path)
            mode = mode_of(workspace.repository.root / file)
            changes += [
                FileChange(file, before, None, mode),
                FileChange(moved, None, replace_text(before, text, file), mode),
            ]
        elif text != use.text:
            changes.append(FileChange(file, before, replace_text(before, text, file)))
    done = change_set(f"rename module {module.old} to {new_name}", changes)
    check_imports(workspace, done)
    if unread:
        notes.append(f"{module.bare} may be used in what is no valid Python, and was left there: {shown(unread)}")
    notes += _note_on_texts(uses, source.path, module, names)
    if _TEST.fullmatch(module.bare) and not _TEST.fullmatch(new_name):
        notes.append(f"pytest finds tests by their file's name, and does not look into {new_path} by itself")
    return Refactoring(done, (*notes, *note_on_module(workspace, done, source.path, module.old)))


def _refuse_found_by_name(path: str, module: ModuleName) -> None:
    if path.endswith("__init__.py"):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"{path} makes its folder a package, and has to be called so", "rename a module in it"
        )
    refuse_special(module.bare)
    refuse_special(module.new)
    if module.bare in _FOUND_BY_NAME:
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{path} is found by its name, so it cannot have another one")
    if module.bare == module.new:
        raise EditRefusedError(Refusal.NO_OP, f"{path} has that name already")


def _refuse_taken(workspace: Workspace, new_path: str) -> None:
    folder = new_path.removesuffix(".py")
    there = [each for each in workspace.files() if each in (new_path, f"{new_path}i") or each.startswith(f"{folder}/")]
    there += [each for each in (new_path, folder) if os.path.lexists(workspace.repository.root / each)]
    if there:
        raise EditRefusedError(Refusal.NOT_POSSIBLE, f"{there[0]} is there already", "choose another name")
    if workspace.repository.would_be_ignored(new_path):
        raise EditRefusedError(Refusal.HIDDEN, f"{new_path} is left out by .gitignore", "choose another name")


def _uses_of(workspace: Workspace, modules: Modules, module: ModuleName) -> tuple[dict[str, ModuleUses], list[str]]:
    """Return every Python file that can be read, and those of the others that hold the name."""
    found, unread = {}, []
    for path in workspace.files():
        data = workspace.read(path) if path.endswith((".py", ".pyi")) else None
        if data is None:
            continue
        tree = parsed(data)
        if tree is not None:
            package = modules.package(path.removesuffix("i"))
            found[path] = ModuleUses(path, text_or_nothing(data), tree, package, module)
        elif re.search(rb"(?<!\w)" + module.bare.encode() + rb"(?!\w)", data):
            unread.append(path)
    return found, unread


def _checked(
    workspace: Workspace, modules: Modules, source: Source, module: ModuleName, uses: Mapping[str, ModuleUses]
) -> list[str]:
    """Refuse what nobody can tell apart, and return notes on what is likely and not sure."""
    if source.path not in uses:
        raise EditRefusedError(Refusal.SYNTAX, f"{source.path} is no valid Python", "mend it first")
    same = [path for path in uses if path.endswith(".py") and path != source.path and modules.name(path) == module.old]
    if same:
        raise EditRefusedError(
            Refusal.AMBIGUOUS, f"{source.path} and {same[0]} are both imported as {module.old}", "rename it by hand"
        )
    for path, use in uses.items():
        if module.parent and modules.name(path.removesuffix("i")) == module.parent:
            _refuse_namesakes(path, use, module)
        if module.parent in use.stars and module.bare in use.read - use.made - use.bindings.keys():
            raise EditRefusedError(
                Refusal.NOT_POSSIBLE,
                f"{path} has {module.bare} by an import of everything (*)",
                f"import {module.bare} by its name there first",
            )
    return _note_on_scripts(source, module, uses) if module.parent else _checked_at_top(workspace, source, module, uses)


def _note_on_scripts(source: Source, module: ModuleName, uses: Mapping[str, ModuleUses]) -> list[str]:
    """Return a note on files beside a module that import its bare name, as only a program in its folder can."""
    folder = source.path.rpartition("/")[0]
    beside = [path for path, use in uses.items() if module.bare in use.imported and path.rpartition("/")[0] == folder]
    if not beside or module.bare in sys.stdlib_module_names:
        return []
    return [f"{shown(beside)} may mean {source.path} by {module.bare}, without its package; that was left"]


def _refuse_namesakes(path: str, parent: ModuleUses, module: ModuleName) -> None:
    """Refuse where the package has something else by the old name or the new one: nobody can tell what it means."""
    others = parent.bindings.get(module.bare, set()) - {module.old}
    is_loose = module.bare in parent.read and module.bare not in parent.bindings
    for name, is_taken in (
        (module.bare, others or module.bare in parent.made or is_loose),
        (module.new, module.new in parent.made | parent.read | parent.bindings.keys()),
    ):
        if is_taken:
            raise EditRefusedError(
                Refusal.AMBIGUOUS,
                f"{path} has {name} for something else, and nobody can tell what {module.parent}.{name} means",
                "give that another name first",
            )


def _checked_at_top(
    workspace: Workspace, source: Source, module: ModuleName, uses: Mapping[str, ModuleUses]
) -> list[str]:
    """Refuse where an import of a module in no package may mean another one."""
    if module.new in sys.stdlib_module_names or any(module.new in use.imported for use in uses.values()):
        raise EditRefusedError(
            Refusal.NOT_POSSIBLE, f"another module is imported as {module.new}", "choose another name"
        )
    users = [path for path, use in uses.items() if use.is_import and path != source.path]
    if users and (module.bare in sys.stdlib_module_names or _is_required(workspace, module.bare)):
        raise EditRefusedError(
            Refusal.AMBIGUOUS,
            f"{users[0]} imports {module.bare}, and that is also a module from outside the repository",
            "rename it by hand",
        )
    folder = source.path.rpartition("/")[0]
    far = [each for each in users if folder not in ("", "src") and not each.startswith(f"{folder}/")]
    return [f"{shown(far)} import {module.bare}, which was taken for {source.path}"] if far else []


def _is_required(workspace: Workspace, name: str) -> bool:
    """Tell if the files that list what is to be installed name something like a module."""
    wanted = re.compile(rf"(?<![\w.-]){re.escape(name).replace('_', '[-_]')}(?![\w.-])", re.IGNORECASE)
    for path in workspace.files():
        if _REQUIREMENTS.search(path) and (data := workspace.read(path)) is not None:
            try:
                if wanted.search(text_or_nothing(data)):
                    return True
            except ToolError:
                return True
    return False


def _with_texts(text: str, module: ModuleName, names: frozenset[str], *, is_parent: bool) -> str:
    """Return a file with the texts that mean the module, as a path to what it defines or in the package's list."""
    if module.parent:
        text = rename_mentions(text, module.bare, module.new, modules=frozenset({module.parent}), is_bound=False)
    else:
        text = _path_to(module, names).sub(rf"\g<1>{module.new}", text)
    if is_parent:
        text = re.sub(
            r"(?ms)^__all__\b.*?[\])]",
            lambda found: re.sub(rf"(?<=(['\"])){re.escape(module.bare)}(?=\1)", module.new, found[0]),
            text,
        )
    return text


def _path_to(module: ModuleName, names: frozenset[str]) -> re.Pattern[str]:
    """Return what finds the text of a dotted path to something that a module in no package defines."""
    defined = "|".join(map(re.escape, sorted(names))) or r"(?!)"
    return re.compile(rf"(['\"]){re.escape(module.bare)}(?=\.(?:{defined})(?:\.\w+)*\1)")


def _note_on_texts(uses: Mapping[str, ModuleUses], path: str, module: ModuleName, names: frozenset[str]) -> list[str]:
    """Return a note on the texts that may mean the module and were left."""
    alone = rf"\.*{re.escape(module.bare)}(?:\.\w*)*"
    named = re.compile(rf"(?<![\w/]){re.escape(path)}(?!\w)|^{alone}$")
    done = re.compile(rf"(?<![\w.]){re.escape(module.old)}(?!\w)") if module.parent else None
    places = [
        f"{file}:{line}"
        for file, use in uses.items()
        for line, value in use.strings
        if named.search(value)
        and not (done is not None and done.search(value) and path not in value)
        and not (done is None and _path_to(module, names).search(f'"{value}"'))
        and (use.is_import or path in value or value.startswith("."))
    ]
    return [f"{module.bare} also stands in texts, which were left: {shown(places)}"] if places else []
