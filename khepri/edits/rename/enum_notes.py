"""Tells where the name of a member of an enum is read or looked for as the program runs, and it gets another one."""

import ast
import re
from collections.abc import Collection, Iterator
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Target
from khepri.edits.python.bare_names import called_name
from khepri.edits.python.class_relations import Class, Classes
from khepri.edits.python.enum_texts import MAPPINGS, is_enum_member, is_name_read, own_class
from khepri.edits.python.imports import parsed
from khepri.edits.python.known_objects import named_classes
from khepri.edits.python.reflection import Owners
from khepri.edits.python.trees import all_nodes
from khepri.edits.rename.rename_notes import shown
from khepri.edits.workspace import Workspace

_ASKING: Final = ("getattr", "hasattr", "setattr", "delattr")
_READ: Final = re.compile(rb"\.(?:name|_name_)\b")
_LOOPS: Final = (ast.For, ast.AsyncFor, ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)


def notes_on_member(
    workspace: Workspace, changes: ChangeSet, classes: Classes, target: Target, new: str
) -> tuple[str, ...]:
    """Return notes on what reads or looks for the name of a member of an enum; none for anything else.

    Args:
        workspace: Where, before the change.
        changes: What is proposed.
        classes: The classes before the change.
        target: What is renamed, as it was.
        new: Its new name.
    """
    if not is_enum_member(classes, target):
        return ()
    old, owner = target.name, target.symbol.rpartition(".")[0]
    files = workspace.fork()
    files.take(changes)
    owners = Owners(files, target, changes)
    one, word = Class(target.source.path, owner), owner.rpartition(".")[2].encode()
    near, far = {}, {}
    for path in files.files():
        data = files.read(path) if path.endswith(".py") else None
        if data is not None and (word in data or old.lower().encode() in data):
            near[path] = _Uses(path, data, owners)
        elif data is not None and _READ.search(data):
            far[path] = data
    held = {name for uses in near.values() for name in uses.held(word.decode())}
    far_uses = {path: _Uses(path, data, owners) for path, data in far.items() if any(n.encode() in data for n in held)}
    looked = [f"{path}:{line}" for path, uses in near.items() for line in sorted({*uses.lookups()})]
    read = [f"{path}:{line}" for path, uses in near.items() for line in sorted({*uses.reads(held, has_enum=True)})]
    read += [
        f"{path}:{line}" for path, uses in far_uses.items() for line in sorted({*uses.reads(held, has_enum=False)})
    ]
    twins = [f"{path}:{line}" for path, uses in near.items() for line in sorted({*uses.twins(old, new, classes, one)})]
    notes = []
    if looked:
        notes.append(f"{owner} is asked for a member by a name at {shown(looked)}: see that none asks for {old} there")
    if read:
        notes.append(
            f"the name of what may be a member of {owner} is read at {shown(read)}: it is {new} now, not {old}"
        )
    if twins:
        notes.append(f"{shown(twins)} uses a name of {owner} that is written like {old}, and was left: see that it is")
    if _is_value_made(classes, one, old):
        notes.append(f"the value of {old} is made from its name, and so is another one now")
    return tuple(notes)


class _Uses:
    """What one file does with the members of an enum."""

    def __init__(self, path: str, data: bytes, owners: Owners) -> None:
        self._path, self._tree, self._owners = path, parsed(data) or ast.Module([], []), owners

    def held(self, owner: str) -> Iterator[str]:
        """Yield what holds a member by what is said or set in the file: variables, parameters, attributes, functions.

        Args:
            owner: The bare name of the enum, for annotations in quotes.
        """
        for node in all_nodes(self._tree):
            match node:
                case ast.arg(arg=name, annotation=said) | ast.FunctionDef(name=name, returns=said):
                    names, value = [name], None
                case ast.AnnAssign(target=bound, annotation=said):
                    names, value = [called_name(bound)], None
                case ast.Assign(targets=targets, value=value):
                    names, said = [called_name(each) for each in targets], None
                    value = value.func if isinstance(value, ast.Call) else value
                    value = value.value if isinstance(value, ast.Attribute) and not self._has(value) else value
                case _:
                    continue
            if (value is not None and self._has(value)) or (said is not None and self._says(said, owner)):
                yield from filter(None, names)

    def _says(self, annotation: ast.expr, owner: str) -> bool:
        """Tell if an annotation has the enum anywhere in it."""
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                if re.search(rf"\b{re.escape(owner)}\b", node.value):
                    return True
            elif isinstance(node, ast.expr) and self._has(node):
                return True
        return False

    def lookups(self) -> Iterator[int]:
        """Yield the lines where a member is asked for by a name that is not written there."""
        literal = set()
        for node in all_nodes(self._tree):
            match node:
                case ast.Subscript(value=asked, slice=key):
                    is_written = isinstance(key, ast.Constant)
                case ast.Call(func=ast.Attribute(value=ast.Attribute() as asked, attr="get"), args=[key, *_]):
                    is_written = isinstance(key, ast.Constant)
                case ast.Compare(left=key, ops=[ast.In() | ast.NotIn()], comparators=[asked]):
                    is_written = isinstance(key, ast.Constant)
                case ast.Call(func=ast.Name(id=called), args=[asked, key, *_]) if called in _ASKING:
                    if not isinstance(key, ast.Constant) and self._has(asked):
                        yield node.lineno
                    continue
                case _:
                    continue
            if isinstance(asked, ast.Attribute) and asked.attr in MAPPINGS:
                literal |= {asked} if is_written else set()
            elif isinstance(node, ast.Subscript) and not is_written and self._has(asked):
                yield node.lineno
        for node in all_nodes(self._tree):
            if isinstance(node, ast.Attribute) and node.attr in MAPPINGS and node not in literal:
                if self._has(node.value):
                    yield node.lineno

    def reads(self, held: Collection[str], *, has_enum: bool) -> Iterator[int]:
        """Yield the lines where the name of what may be a member goes somewhere.

        Args:
            held: What holds a member somewhere.
            has_enum: Whether a parameter that nobody says anything of may be a member in this file.
        """
        members = {id(each) for each in self._looped()}
        typed, unsaid, compared = named_classes(self._tree), _unsaid(self._tree) if has_enum else set(), set()
        for node in all_nodes(self._tree):
            match node:
                # Texts that are compared are told where they stand, and those of the enum are renamed.
                case ast.Compare(left=ast.Attribute() as left, comparators=others) if all(map(_is_written, others)):
                    compared.add(left)
                case ast.Match(subject=ast.Attribute() as subject):
                    compared.add(subject)
        for node in all_nodes(self._tree):
            if not isinstance(node, ast.Attribute) or not is_name_read(node) or node in compared:
                continue
            match node.value:
                case ast.Name(id=name) as value:
                    is_one = id(value) in members or self._owners.has(self._path, self._tree, value)
                    if is_one or (value not in typed and name in {*held, *unsaid} - {"self", "cls"}):
                        yield node.lineno
                case ast.Attribute(value=asked) | ast.Subscript(value=asked) | ast.Call(func=asked) as value:
                    is_held = not isinstance(value, ast.Subscript) and called_name(value) in held
                    if is_held or self._has(asked):
                        yield node.lineno

    def twins(self, old: str, new: str, classes: Classes, one: Class) -> Iterator[int]:
        """Yield the lines that ask the enum for an attribute that is spelt like the member, but in other letters."""
        for node in all_nodes(self._tree):
            match node:
                case ast.Attribute(value=asked, attr=attr) if attr.lower() == old.lower() and attr not in (old, new):
                    if self._has(asked) and not classes.has(one, attr):
                        yield node.lineno

    def _has(self, node: ast.expr) -> bool:
        node = own_class(node)
        return isinstance(node, ast.Name | ast.Attribute) and self._owners.has(self._path, self._tree, node)

    def _looped(self) -> Iterator[ast.Name]:
        """Yield the variables of loops over the enum where they are read."""
        for node in all_nodes(self._tree):
            if not isinstance(node, _LOOPS):
                continue
            loops = [node] if isinstance(node, ast.For | ast.AsyncFor) else node.generators
            bound = {
                each.id
                for loop in loops
                if any(isinstance(part, ast.Name | ast.Attribute) and self._has(part) for part in ast.walk(loop.iter))
                for each in ast.walk(loop.target)
                if isinstance(each, ast.Name)
            }
            yield from (each for each in ast.walk(node) if isinstance(each, ast.Name) and each.id in bound)


def _unsaid(tree: ast.Module) -> set[str]:
    """Return the parameters without an annotation."""
    return {each.arg for each in all_nodes(tree) if isinstance(each, ast.arg) and each.annotation is None}


def _is_written(node: ast.expr) -> bool:
    elements = node.elts if isinstance(node, ast.Tuple | ast.List | ast.Set) else [node]
    return all(isinstance(each, ast.Constant) for each in elements)


def _is_value_made(classes: Classes, one: Class, name: str) -> bool:
    """Tell if the value of a member is made from its name, by ``auto()``."""
    node = classes.node(one)
    is_by_name = any(each.endswith("StrEnum") for each in classes.outside(one))
    is_by_name = is_by_name or classes.has(one, "_generate_next_value_")
    for statement in node.body if node is not None and is_by_name else ():
        match statement:
            case ast.Assign(targets=[ast.Name(id=found)], value=ast.Call(func=maker)) if found == name:
                return ast.unparse(maker).rpartition(".")[2] == "auto"
    return False
