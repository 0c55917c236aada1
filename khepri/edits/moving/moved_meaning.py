"""Tells what a definition may lose by standing in another file, though all that uses it finds it."""

import ast
import re
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target
from khepri.edits.moving.module_attributes import notes_on_put
from khepri.edits.moving.moving import needed
from khepri.edits.python.bare_names import base_name
from khepri.edits.python.imports import Modules, bindings_of, defined_names, parsed, star_sources
from khepri.edits.python.mentions import quoted_names
from khepri.edits.python.reflection import loaded_uses, named_uses
from khepri.edits.python.trees import all_nodes, tree_of
from khepri.edits.rename.handed_modules import notes_on_handed
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_READING_TYPES: Final = re.compile(
    rb"\b(get_type_hints|get_annotations|(?<=from )(?:pydantic|fastapi|typer|attrs|cattrs|msgspec|typeguard))\b"
)
"""What reads annotations while a program runs."""
_OF_THE_FILE: Final = ("__file__", "__name__", "__package__", "__path__", "__spec__", "__doc__")
_HARMLESS: Final = frozenset(
    "cache cached_property contextmanager asynccontextmanager dataclass define frozen final lru_cache overload "
    "override runtime_checkable singledispatch total_ordering unique wraps fixture parametrize deprecated".split()
)
"""Decorators that do something for the definition alone."""


def notes_on_move(workspace: Workspace, changes: ChangeSet, target: Target, place: str) -> tuple[str, ...]:
    """Return notes on what means something else in another file, and on what happens only when that is imported.

    Args:
        workspace: Where, before the change.
        changes: What is proposed.
        target: The definition, as it was.
        place: The file that it goes to.
    """
    node = _node(target)
    if node is None:
        return ()
    notes = []
    used = sorted({each.id for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in _OF_THE_FILE})
    if any(isinstance(each, ast.Call) and ast.unparse(each.func) == "globals" for each in ast.walk(node)):
        used.append("globals()")
    if used:
        means = "means" if len(used) == 1 else "mean"
        notes.append(f"{target.name} uses {', '.join(used)}, which {means} {place} now: see whether it should")
    decorators: list[ast.expr] = getattr(node, "decorator_list", [])
    doing = [f"@{ast.unparse(each)[:60]}" for each in decorators if base_name(each) not in _HARMLESS]
    if isinstance(node, ast.ClassDef):
        registering = _registering(workspace)
        doing += [f"the base class {ast.unparse(each)}" for each in node.bases if base_name(each) in registering]
        doing += [f"metaclass={ast.unparse(each.value)}" for each in node.keywords if _is_metaclass(each)]
    if doing and not _is_imported_by(workspace, changes, target.source.path, place):
        does = "does" if len(doing) == 1 else "do"
        notes.append(
            f"what {', '.join(doing)} {does} for {target.name} happens only once {place} is imported, and "
            f"{target.source.path} does not import it: import it where the registration is needed"
        )
    if left := _set_up(_after(changes, target.source.path), target.name):
        notes.append(
            f"{target.source.path} does something with {target.name} at line {left[0]} as it is imported: "
            f"import it where that is needed, for {place} does not"
        )
    if replaced := _replaced(workspace, changes, target, place):
        notes.append(
            f"{target.name} is put in or asked for by its name at {shown(replaced)}: see that it is done in the module "
            "that uses it now"
        )
    module, goal = Modules(workspace).name(target.source.path), Modules(workspace, changes).name(place)
    if target.kind != "variable":
        notes += notes_on_put(workspace, changes, module, goal, target.name, needed(target.text))
    if target.name not in defined_names(_after(changes, target.source.path).encode()):
        if loaded := loaded_uses(workspace, changes, module, target.name):
            notes.append(f"{shown(loaded)} loads {module} by a text and may have {target.name} from there")
        notes += notes_on_handed(workspace, changes, module, target.name)
    return (*notes, *_for_types_alone(workspace, changes, target, place))


def _for_types_alone(workspace: Workspace, changes: ChangeSet, target: Target, place: str) -> tuple[str, ...]:
    """Return a note on quoted types that only type checkers find now, where something reads types at run time."""
    home = target.source.path
    there = f"the quoted types of {target.name} are imported for type checkers alone in {place}"
    here = f"{target.name} stands in quoted types of {home} and is imported for type checkers alone there"
    told = [there] * (bool(quoted_names(target.text)) and _has_typing_only(changes, place))
    told += [here] * (target.name in quoted_names(_after(changes, home)) and _has_typing_only(changes, home))
    for path in workspace.files() if told else ():
        data = workspace.read(path) if path.endswith(".py") else None
        if data is not None and (reading := _READING_TYPES.search(data)):
            return tuple(f"{each}: see whether {reading[1].decode()} has to find them ({path})" for each in told)
    return ()


def _has_typing_only(changes: ChangeSet, path: str) -> bool:
    return "TYPE_CHECKING" in _after(changes, path)


def _set_up(text: str, name: str) -> list[int]:
    """Return the lines where a module uses an attribute of a name as it is imported: a registration, or a setting."""
    found = []
    for node in tree_of(text).body:
        decorators: list[ast.expr] = getattr(node, "decorator_list", [])
        doing = decorators if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef) else []
        match node:
            case ast.Expr(value=ast.Call(func=function)):
                doing = [function]
            case ast.Assign(targets=targets):
                doing = targets
        for each in doing:
            called = each.func if isinstance(each, ast.Call) else each
            if isinstance(called, ast.Attribute) and ast.unparse(called).partition(".")[0] == name:
                found.append(node.lineno)
    return found


def _replaced(workspace: Workspace, changes: ChangeSet, target: Target, place: str) -> list[str]:
    """Return where a module is given something else by a name, or asked for it: another module may use the name."""
    goal = Modules(workspace, changes).name(place)
    found = {
        f"{use.path}:{use.line}" for use in named_uses(workspace, target, changes) if use.is_sure and not use.is_path
    }
    for change in changes.files:
        tree = _parsed(change.after)
        for node in all_nodes(tree) if change.path not in (target.source.path, place) else ():
            if isinstance(node, ast.Attribute) and node.attr == target.name and isinstance(node.ctx, ast.Store):
                bound = bindings_of(tree, Modules(workspace, changes).package(change.path))
                root, _, rest = ast.unparse(node.value).partition(".")
                if f"{bound.get(root, '')}.{rest}".rstrip(".") == goal:
                    found.add(f"{change.path}:{node.lineno}")
    return sorted(found)


def _after(changes: ChangeSet, path: str) -> str:
    return next((each.plain_text for each in changes.files if each.path == path), "")


def _node(target: Target) -> ast.stmt | None:
    body = tree_of(target.source.text).body
    return next((node for node in body if target.start_line <= node.lineno <= target.end_line), None)


def _registering(workspace: Workspace) -> set[str]:
    """Return the names of the classes that do something with each class below them, and of those below them."""
    classes = [
        node
        for path in workspace.files()
        if path.endswith(".py")
        for node in ast.walk(_tree(workspace.read(path)))
        if isinstance(node, ast.ClassDef)
    ]
    found = {
        each.name
        for each in classes
        if any(_is_metaclass(part) for part in each.keywords)
        or any(isinstance(part, ast.FunctionDef) and part.name == "__init_subclass__" for part in each.body)
    }
    while new := {each.name for each in classes if found & {base_name(base) for base in each.bases}} - found:
        found |= new
    return found


def _is_metaclass(keyword: ast.keyword) -> bool:
    return keyword.arg == "metaclass" and base_name(keyword.value) != "ABCMeta"


def _tree(data: bytes | None) -> ast.Module:
    return _parsed(data) if data is not None and b"class " in data else ast.Module([], [])


def _parsed(data: bytes | None) -> ast.Module:
    return (parsed(data) if data is not None else None) or ast.Module([], [])


def _is_imported_by(workspace: Workspace, changes: ChangeSet, home: str, place: str) -> bool:
    modules = Modules(workspace, changes)
    tree = _at_import(_after(changes, home))
    package, name = modules.package(home), modules.name(place)
    found = {*bindings_of(tree, package).values(), *star_sources(tree, package)}
    return any(each == name or each.startswith(f"{name}.") for each in found)


def _at_import(text: str) -> ast.Module:
    """Return the imports of a module that run when it is imported: one in a function comes too late."""
    return ast.Module([each for each in tree_of(text).body if isinstance(each, ast.Import | ast.ImportFrom)], [])
