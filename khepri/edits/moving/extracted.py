"""What a library makes of some lines: a function, and the call of it that stands in their place."""

import ast
from dataclasses import dataclass

from khepri.edits.change import FileChange
from khepri.edits.python.bare_names import bare_name
from khepri.repo.text import decode

Function = ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True)
class Made:
    """What the library made of some lines."""

    function: Function
    call: ast.Call
    statement: ast.stmt
    """Where the call stands."""
    caller: Function | None
    """The innermost function around the call; None at the top level."""
    loop: ast.For | ast.AsyncFor | ast.While | None
    """The outermost loop around it there."""

    owner: tuple[str, ...]
    """The classes and functions that the function stands in, the outermost first."""
    is_member: bool
    """True if the innermost of them is a class."""

    @property
    def parameters(self) -> list[str]:
        """The names of what it takes."""
        return [each.arg for each in self.function.args.args]

    @property
    def passed(self) -> list[str]:
        """What the call passes, as it is written."""
        return [ast.unparse(each) for each in self.call.args]


def made_of(change: FileChange, name: str) -> Made | None:
    """Return what became of some lines in a change that extracts them; None if that cannot be found."""
    if change.after is None:
        return None
    tree = ast.parse(decode(change.after).text)
    rows = {hunk.new_start + row for hunk in change.hunks for row in range(len(hunk.new_lines))}
    parent_of = {child: parent for parent in ast.walk(tree) for child in ast.iter_child_nodes(parent)}
    new = [node for node in parent_of if getattr(node, "lineno", 0) in rows]
    functions = [node for node in new if isinstance(node, Function) and node.name == name]
    calls = [node for node in new if isinstance(node, ast.Call) and bare_name(node.func) == name]
    inside = {*ast.walk(functions[0])} if functions else set()
    calls = [node for node in calls if node not in inside]
    if not functions or not calls:
        return None
    statement = caller = loop = None
    node: ast.AST = calls[0]
    while node in parent_of and caller is None:
        node = parent_of[node]
        statement = statement or (node if isinstance(node, ast.stmt) else None)
        loop = node if isinstance(node, ast.For | ast.AsyncFor | ast.While) else loop
        caller = node if isinstance(node, Function) else None
    if statement is None:
        return None
    around: list[ast.ClassDef | Function] = []
    node = functions[0]
    while node in parent_of:
        node = parent_of[node]
        if isinstance(node, ast.ClassDef | Function):
            around.insert(0, node)
    owner = tuple(each.name for each in around)
    is_member = bool(around) and isinstance(around[-1], ast.ClassDef)
    return Made(functions[0], calls[0], statement, caller, loop, owner, is_member)
