"""Names that a scope has from several places: by an import here, or else by another one or a definition there.

A library that knows one meaning of a name in each scope takes the last of them for all, and renames what is imported
from elsewhere or nothing at all. It is shown such an import with a name of its own, so that it sees only what that
import is of. What only assigns such a name (``fast = None``) is followed by the library as it is.
"""

import ast
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from khepri.edits.change import ChangeSet, FileChange, change_set
from khepri.edits.exact import replace_text
from khepri.edits.locate import Target, find_target
from khepri.edits.python.found_calls import is_builder
from khepri.edits.python.imports import Modules, bindings_of, parsed, star_passers, star_sources
from khepri.edits.python.offsets import Offsets
from khepri.edits.python.signature import Definition
from khepri.edits.python.trees import all_nodes
from khepri.edits.refusal import EditRefusedError, Refusal
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace
from khepri.repo.text import decode

_VEIL: Final = "khepri_import_of_"
_VEILED: Final = re.compile(rf"\b(\w+) as {_VEIL}(own|other)_(\w+)\b")
_DEFINITIONS: Final = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)


@dataclass(frozen=True)
class _Binding:
    """One import or definition of a name in a scope."""

    name: str
    source: str
    """What is imported, dotted; empty for what is defined there."""
    alias: ast.alias | None
    line: int
    scope: ast.AST

    @property
    def imported(self) -> str:
        """The name in the import, as it is written."""
        return self.alias.name if self.alias is not None else ""


class SplitImports:
    """The imports of a definition whose names have other meanings too. One thread; for one refactoring."""

    def __init__(self, workspace: Workspace, target: Target) -> None:
        """Read the Python files that hold the name.

        Args:
            workspace: Where.
            target: A definition or variable of a module.
        """
        self._workspace, self._target = workspace, target
        self._modules = Modules(workspace)
        self._home = self._modules.name(target.source.path)
        self._trees: dict[str, ast.Module] = {}
        for path in workspace.files():
            data = workspace.read(path) if path.endswith(".py") else None
            if data is not None and target.name.encode() in data and (tree := parsed(data)) is not None:
                self._trees[path] = tree
        self._bound = {path: self._bindings(path, tree) for path, tree in self._trees.items()}
        self._passing = self._find_passing()
        self._split = {path: found for path in self._trees if (found := self._split_in(path))}
        self.paths: Collection[str] = {path for path in self._split if path != target.source.path}
        """The files that keep the name, since it is not this definition alone there."""

    def veiled(self) -> Workspace:
        """Return the files as the library is to see them: each such import with a name of its own."""
        forked = self._workspace.fork()
        changes = []
        for path, found in self._split.items():
            data = self._workspace.read(path) or b""
            text = decode(data).text
            for start, end, each in sorted(self._places(text, found), reverse=True, key=lambda place: place[0]):
                whose = "own" if self._is_own(path, each) else "other"
                text = f"{text[:start]}{each.imported} as {_VEIL}{whose}_{each.name}{text[end:]}"
            changes.append(FileChange(path, data, replace_text(data, text, path)))
        forked.take(change_set("", changes))
        return forked

    def unveiled(self, changes: ChangeSet, new: str) -> ChangeSet:
        """Return a rename that was made on what ``veiled`` returned as one of the files themselves."""

        def written(match: re.Match[str]) -> str:
            name, whose, local = match.groups()
            local = new if whose == "own" else local
            return name if name == local else f"{name} as {local}"

        files = []
        for each in changes.files:
            if each.path in self._split and each.after is not None:
                after = replace_text(each.after, _VEILED.sub(written, decode(each.after).text), each.path)
                each = FileChange(each.path, self._workspace.read(each.path), after)
            files.append(each)
        return change_set(changes.title, files)

    def calls(self, parameter: str, place: int | None) -> list[str]:
        """Return where the definition, or what else has its name there, is called with a parameter.

        Args:
            parameter: What may be passed by this name, or behind ``*`` or ``**``.
            place: Which of the arguments it is, from 0; None if it is not passed by place.
        """
        return sorted(
            f"{path}:{call.lineno}"
            for path, called in self._called().items()
            for call in called
            if any(each.arg in (parameter, None) for each in call.keywords)
            or any(isinstance(each, ast.Starred) for each in call.args)
            or (place is not None and len(call.args) > place)
        )

    def members(self, name: str) -> list[str]:
        """Return where an attribute is used in the files that keep the name."""
        return sorted(
            f"{path}:{node.lineno}"
            for path in self.paths
            for node in all_nodes(self._trees[path])
            if isinstance(node, ast.Attribute) and node.attr == name
        )

    def _called(self) -> dict[str, list[ast.Call]]:
        """Return the calls through split names, in each file that has one itself or from another file."""
        reached = {
            f"{self._modules.name(path)}.{each.name}"
            for path, found in self._split.items()
            for each in found
            if isinstance(each.scope, ast.Module)
        }
        called: dict[str, list[ast.Call]] = {}
        while True:
            before = len(reached)
            for path, bound in self._bound.items():
                sources: dict[str, set[str]] = {}
                for each in bound:
                    sources.setdefault(each.name, set()).add(each.source)
                    if each.source in reached and isinstance(each.scope, ast.Module):
                        reached.add(f"{self._modules.name(path)}.{each.name}")
                names = {each.name for each in self._split.get(path, ())}
                names |= {name for name, found in sources.items() if found & reached}
                called[path] = [
                    node
                    for node in all_nodes(self._trees[path])
                    if isinstance(node, ast.Call) and _is_call_of(node.func, names, sources, reached)
                ]
            if len(reached) == before:
                return called

    def note(self) -> tuple[str, ...]:
        """Return a note on the files that keep the name."""
        places = sorted(f"{path}:{min(each.line for each in self._split[path])}" for path in self.paths)
        keep = "keeps" if len(places) == 1 else "keep"
        of = f"{shown(places)} {keep} the name, which also stands for something from elsewhere there"
        starred = sorted(
            path
            for path, tree in self._trees.items()
            if star_sources(tree, self._modules.package(path)) & self._passing
            and any(each.name == self._target.name for each in self._bound[path])
        )
        notes: tuple[str, ...] = (of,) if places else ()
        if starred:
            has = f"{shown(starred)} imports everything (*) from where {self._target.name} was, and has another one too"
            notes += (f"{has}: see which of them is meant there",)
        return notes

    def refuse_split_modules(self) -> None:
        """Refuse a rename of what is had from one of several modules, whichever is there (``import a as m``).

        Raises:
            EditRefusedError: It is.
        """
        name = self._target.name
        for path, tree in self._trees.items():
            several: dict[str, set[str]] = {}
            for each in self._bound[path]:
                several.setdefault(each.name, set()).add(each.source)
            for node in all_nodes(tree):
                match node:
                    case ast.Attribute(value=ast.Name(id=of), attr=found) if found == name:
                        sources = several.get(of, set())
                        if len(sources) > 1 and sources & self._passing:
                            raise EditRefusedError(
                                Refusal.NOT_POSSIBLE,
                                f"{path}:{node.lineno} has {name} from one of several modules that are called {of} "
                                f"there ({', '.join(sorted(filter(None, sources)))})",
                                f"import {name} there by its name from each of them first",
                            )

    def _bindings(self, path: str, tree: ast.Module) -> list[_Binding]:
        package = self._modules.package(path)
        found = []
        for scope, node in _statements(tree):
            if isinstance(node, ast.Import | ast.ImportFrom):
                for alias in node.names:
                    alone = ast.Module([_with(node, alias)], [])
                    for name, source in bindings_of(alone, package).items():
                        found.append(_Binding(name, source, alias, node.lineno, scope))
            elif isinstance(node, _DEFINITIONS):
                found.append(_Binding(node.name, "", None, node.lineno, scope))
        return found

    def _find_passing(self) -> frozenset[str]:
        """Return the modules that have the definition by its name: its own, and those that import it alone."""
        name, passing = self._target.name, frozenset({self._home})
        while True:
            more = set(star_passers(self._workspace, self._modules, passing, name))
            for path, bound in self._bound.items():
                here = [each for each in bound if each.name == name and isinstance(each.scope, ast.Module)]
                if here and all(each.source.rpartition(".")[::2] in {(one, name) for one in passing} for each in here):
                    more.add(self._modules.name(path))
            if more <= passing:
                return passing
            passing |= more

    def _split_in(self, path: str) -> list[_Binding]:
        """Return the imports of the definition in a file that stand beside others of their name, in their scope.

        In the file of the definition they are those of something else.
        """
        wanted = {f"{module}.{self._target.name}" for module in self._passing}
        found = []
        for each in self._bound[path]:
            beside = (one for one in self._bound[path] if one.scope is each.scope and one.name == each.name)
            if self._is_own(path, each):
                is_split = each.name == self._target.name and each.source not in wanted
            else:
                is_split = each.source in wanted and any(one.source not in wanted for one in beside)
            # ``import a.b`` binds ``a`` and cannot be given another name.
            if is_split and each.alias is not None and each.name in (each.imported, each.alias.asname):
                found.append(each)
        return found

    def _is_own(self, path: str, binding: _Binding) -> bool:
        """Tell if a binding stands where the definition itself does, so that its name goes with it."""
        return path == self._target.source.path and isinstance(binding.scope, ast.Module)

    def _places(self, text: str, found: list[_Binding]) -> Iterator[tuple[int, int, _Binding]]:
        offsets = Offsets(text)
        for each in found:
            if each.alias is not None:
                yield offsets.start(each.alias), offsets.end(each.alias), each


def _with(node: ast.Import | ast.ImportFrom, alias: ast.alias) -> ast.stmt:
    """Return an import with one of its names only."""
    if isinstance(node, ast.Import):
        return ast.Import([alias])
    return ast.ImportFrom(node.module, [alias], node.level)


def _statements(tree: ast.Module) -> Iterator[tuple[ast.AST, ast.stmt]]:
    """Yield each statement of a module with the scope that it stands in."""
    queue: list[tuple[ast.AST, ast.AST]] = [(tree, each) for each in tree.body]
    while queue:
        scope, node = queue.pop()
        if isinstance(node, ast.stmt):
            yield scope, node
        inner = node if isinstance(node, _DEFINITIONS) else scope
        queue += [(inner, each) for each in ast.iter_child_nodes(node) if not isinstance(each, ast.expr)]


def _is_call_of(
    called: ast.expr, names: Collection[str], sources: Mapping[str, Collection[str]], reached: Collection[str]
) -> bool:
    match called:
        case ast.Name(id=name):
            return name in names
        case ast.Attribute(value=ast.Name(id=of), attr=name):
            return any(f"{source}.{name}" in reached for source in sources.get(of, ()))
    return False


def note_on_split_calls(workspace: Workspace, function: Definition, name: str) -> tuple[str, ...]:
    """Return a note on the calls with a parameter that are of a function or of what else has its name there."""
    target, positional = function.target, function.positional
    if "." in target.symbol:
        if not is_builder(target) or target.symbol.count(".") > 1:
            return ()
        target, positional = find_target(target.source, target.symbol.rpartition(".")[0]), positional[1:]
    place = positional.index(name) if name in positional else None
    places = SplitImports(workspace, target).calls(name, place)
    if not places:
        return ()
    call = "calls" if len(places) == 1 else "call"
    return (
        f"{shown(places)} {call} {target.name} or something else that is imported or defined by the same name: "
        f"see that what is passed for {name} suits both",
    )


def note_on_split_members(workspace: Workspace, target: Target) -> tuple[str, ...]:
    """Return a note on the uses of a member's name in files where its class is one of several of its name."""
    if target.symbol.count(".") != 1:
        return ()
    try:
        owner = find_target(target.source, target.symbol.partition(".")[0])
    except EditRefusedError:
        return ()  # A class that is there more than once in its own file is none that can be told from others.
    places = SplitImports(workspace, owner).members(target.name)
    if not places:
        return ()
    note = f"is imported or else something of the same name: see that both have what is used at {shown(places)}"
    return (f"{owner.name} {note}",)
