"""Tells whether a change leaves any definition of a name, which a use on an object of unknown type may mean then.

Some attributes are defined by texts alone: in ``__slots__``, as a field of a ``namedtuple``, by ``setattr``, as an
option of ``argparse``.
"""

import ast
import re
from typing import Final

from khepri.edits.change import ChangeSet
from khepri.edits.locate import Source
from khepri.edits.python.bare_names import bare_name
from khepri.edits.python.common_names import is_given
from khepri.edits.python.imports import parsed
from khepri.edits.python.rope_project import RopeProject
from khepri.edits.python.trees import all_nodes
from khepri.edits.python.variables import variables
from khepri.edits.workspace import Workspace
from khepri.repo.symbols import outline
from khepri.repo.text import text_or_nothing

_MAKERS: Final = frozenset({"namedtuple", "NamedTuple", "TypedDict", "make_dataclass", "Enum", "IntEnum", "StrEnum"})
"""What makes a class of the fields that the second argument lists."""


def is_last_of_name(workspace: Workspace, project: RopeProject, changes: ChangeSet, name: str) -> bool:
    """Tell if no definition of a name is left after a change, and no object of Python's own has it.

    Args:
        workspace: Where.
        project: The same for rope.
        changes: What is proposed.
        name: What was renamed.
    """
    if is_given(name):
        return False
    after = {change.path: change.after for change in changes.files}
    for file in project.candidates(name):
        data = after.get(file.path, workspace.read(file.path))
        text = text_or_nothing(data) if data else ""
        named = [each.symbol for each in variables(Source(file.path, b"", text)) if each.name == name]
        if any("." in symbol for symbol in named) or any(each.name == name for each in outline(file.path, text)):
            return False
        if _lists(parsed(data or b"") or ast.Module([], []), name):
            return False
    return True


def _lists(tree: ast.Module, name: str) -> bool:
    """Tell if a file defines an attribute by a text."""
    for node in all_nodes(tree):
        match node:
            case (
                ast.Assign(targets=[ast.Name(id="__slots__")], value=listed)
                | ast.AnnAssign(target=ast.Name(id="__slots__"), value=ast.expr() as listed)
            ):
                pass
            case ast.Call(func=called, args=[_, listed, *_]) if bare_name(called) in {*_MAKERS, "setattr"}:
                pass
            case ast.Call(func=ast.Attribute(attr="add_argument" | "set_defaults")):
                listed = node
            case _:
                continue
        keywords = (each.arg for each in ast.walk(listed) if isinstance(each, ast.keyword))
        texts = (each.value for each in ast.walk(listed) if isinstance(each, ast.Constant))
        words = (word for each in texts if isinstance(each, str) for word in re.split(r"[\s,]+", each))
        if name in {*keywords, *(word.lstrip("-").replace("-", "_") for word in words)}:
            return True
    return False
